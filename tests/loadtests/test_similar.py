"""The measurement of similar items: known shares and overlaps, and a table that tells cosine from inner product."""

import numpy as np
import pytest

from greedy_core import Bundle, build_bundle
from loadtests.index import similar

N_ITEMS, N_DIMS = 400, 12


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Items of which ten are so long that every inner product finds them."""
    rng = np.random.default_rng(5)
    items = rng.standard_normal((N_ITEMS, N_DIMS)).astype(np.float32)
    items[:10] = 50 * np.abs(items[:10])
    items[10:] = np.abs(items[10:])
    users = np.abs(rng.standard_normal((60, N_DIMS))).astype(np.float32)
    path = tmp_path_factory.mktemp("models") / "model"
    build_bundle(path, items=items, users=users, max_budget=256)
    return path


def test_shares_of_known_answers():
    everywhere = [np.arange(10, dtype=np.int32)] * 5
    assert similar.share_of_few(everywhere) == 1
    assert similar.share_of_few([np.arange(n, n + 10) for n in range(0, 1000, 10)]) == 0.01
    assert similar.share_of_few([]) == 0


def test_overlaps_of_known_answers():
    truth = [np.array([1, 2, 3, 4])]
    assert similar.overlap(truth, truth) == 1
    assert similar.overlap([np.array([4, 9, 1, 8])], truth) == 0.5
    assert similar.overlap([np.array([7, 9])], truth) == 0


def test_the_exact_answers_leave_out_what_was_asked_for():
    vectors = np.eye(4, dtype=np.float32)
    query = np.array([[4, 3, 2, 1]], dtype=np.float32)
    (found,) = similar.exact(vectors, query, [np.array([0])])
    assert found.tolist() == [1, 2, 3]


def test_the_table_tells_cosine_from_inner_product(model, capsys):
    similar.main([str(model), "--asked", "120"])
    heads, columns, _, *lines = capsys.readouterr().out.splitlines()
    assert heads.startswith(f"{N_ITEMS} items x {N_DIMS}")
    assert columns.startswith("| asked for | budget | overlap with exact cosine |")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    (default,) = [row for row in cells if row[0] == "an item, by cosine (the default)"]
    assert float(default[2]) >= 0.95
    shares = {row[0]: float(row[3].rstrip("%")) for row in cells}
    # Nine of ten places at the least: an item that is one of the ten long ones is not its own neighbour.
    assert shares["an item, exact inner product"] > 90
    assert shares["an item, exact cosine"] < 20


def test_a_model_without_similar_items_is_told(tmp_path):
    build_bundle(tmp_path / "model", items=np.eye(8, dtype=np.float32), calibrated=False, similar=False)
    with pytest.raises(SystemExit, match=r"has no index of similar items; build it again without --no-similar"):
        similar.compared(Bundle.open(tmp_path / "model"), 3)
