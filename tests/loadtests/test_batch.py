"""The measurement of a whole night: its exact batch is exact, and its table says what was found and how fast."""

import numpy as np

from greedy_core import Bundle, build_bundle
from loadtests.index import batch


def vectors(n, seed):
    return np.random.default_rng(seed).standard_normal((n, 12)).astype(np.float32)


def test_the_exact_batch_finds_the_ten_best_of_each():
    items, users = vectors(300, 0), vectors(70, 1)
    found = batch.exact_batch(items, users, 16)
    best = np.argsort(-(users @ items.T), axis=1)[:, : batch.TOP]
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(best, axis=1))
    assert batch.hit(best, found) == 1
    assert batch.hit(best, np.roll(best, 1, axis=0)) < 0.5


def test_more_users_lie_between_those_given():
    users = vectors(20, 2)
    np.testing.assert_array_equal(batch.more_users(users, 5), users[:5])
    more = batch.more_users(users, 50)
    assert more.shape == (50, 12)
    np.testing.assert_array_equal(more[:20], users)
    assert (np.abs(more) <= np.abs(users).max() + 1e-6).all()


def test_a_row_for_known_users_and_one_for_vectors(tmp_path, capsys):
    build_bundle(tmp_path / "model", items=vectors(400, 3), users=vectors(120, 4), max_budget=200, similar=False)
    batch.report(Bundle.open(tmp_path / "model"), tmp_path, 0.9, 40)
    *_, known, outside = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capsys.readouterr().out.splitlines()
    ]
    assert known[0] == "120 known, to the file"
    assert outside[0] == "120 vectors, in memory"
    # Both were asked with a budget that buys 0.9 by the model's own curves, of users that it was not measured on.
    assert float(known[2]) > 0.85
    assert float(outside[2]) > 0.8
    assert (tmp_path / "recs.parquet").is_file()
