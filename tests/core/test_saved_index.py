"""An index on disk: the same answers, and nothing a damaged file says reaches the kernels."""

import numpy as np
import pytest

from greedy_core import CorruptModelError, ExactIndex, GreedyIndex, NotAModelError
from greedy_core.fit.directions import FIXED_KINDS

RNG = np.random.default_rng(2)
ITEMS = RNG.normal(size=(300, 20)).astype(np.float32)
QUERY = RNG.normal(size=20).astype(np.float32)


def build(directions="graph"):
    return GreedyIndex.build(ITEMS, directions=directions, max_budget=50)


KINDS = {kind: build(kind) for kind in FIXED_KINDS} | {"exact": ExactIndex.build(ITEMS)}


@pytest.mark.parametrize("index", KINDS.values(), ids=KINDS)
def test_a_saved_index_gives_the_same_answers(index, tmp_path):
    index.save(tmp_path / "index")
    loaded = type(index).load(tmp_path / "index")
    budget = 300 if isinstance(index, ExactIndex) else 50
    before, after = (each.search(QUERY, budget=budget) for each in (index, loaded))
    assert after.ids.tolist() == before.ids.tolist()
    assert after.scores.tobytes() == before.scores.tobytes()
    np.testing.assert_array_equal(loaded.items, ITEMS)
    assert not loaded.items.flags.writeable


def test_a_saved_index_screens_and_remembers_the_same(tmp_path):
    index = build()
    index.save(tmp_path / "index")
    loaded = GreedyIndex.load(tmp_path / "index")
    assert (loaded.has_graph, loaded.screening, loaded.nbytes) == (True, index.screening, index.nbytes)
    np.testing.assert_array_equal(loaded.remember(QUERY[None]), index.remember(QUERY[None]))


def test_one_kind_is_not_loaded_as_another(tmp_path):
    build().save(tmp_path / "greedy")
    with pytest.raises(NotAModelError, match="greedy-index"):
        ExactIndex.load(tmp_path / "greedy")


def damaged(name, change):
    """Arrays and info of a good index, one of them changed."""
    arrays, info = build().to_arrays()
    if name in arrays:
        arrays[name] = change(arrays[name].copy())
    else:
        info[name] = change(info.get(name))
    return arrays, info


def put(at, value):
    def change(array):
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("list_ids", put((3, 7), 300)),
        ("list_ids", put((3, 7), -1)),
        ("list_ids", put((0, 0), 2**31 - 1)),
        ("list_ids", lambda ids: ids[:-1]),
        ("list_ids", lambda ids: np.ascontiguousarray(ids[:, :-1])),
        ("list_ids", lambda ids: ids.astype(np.int64)),
        ("list_ids", np.asfortranarray),
        ("list_values", put((5, 3), np.nan)),
        ("list_values", put((5, 0), np.inf)),
        ("list_values", put((5, 9), 1e10)),
        ("list_values", lambda values: values[:4]),
        ("axes", put((0, 0), np.nan)),
        ("axes", put((0, 0), 5.0)),
        ("axes", lambda axes: axes[:-1]),
        ("axes", lambda axes: np.ascontiguousarray(axes[:, :16])),
        ("rows", lambda rows: rows[:0]),
        ("rows", lambda rows: rows[:40]),
        ("rows", lambda rows: np.ascontiguousarray(rows[:, :-1])),
        ("rows", lambda rows: rows.reshape(-1)),
        ("n_dims", lambda _: 33),
        ("n_dims", lambda _: 0),
        ("n_dims", lambda _: "20"),
        ("max_budget", lambda _: 0),
        ("max_budget", lambda _: 51),
        ("max_budget", lambda _: None),
        ("directions", lambda _: 7),
        ("variant", lambda _: "guess"),
        ("reads", lambda _: 0),
        ("graph_neighbours", put((7, 3), 300)),
        ("graph_neighbours", put((7, 3), -2)),
        ("graph_neighbours", lambda ids: ids[:-1]),
        ("graph_neighbours", lambda ids: ids[:, :0]),
        ("graph_neighbours", lambda ids: ids.astype(np.int64)),
        ("graph_entries", put((0, 0), 300)),
        ("graph_entries", put((0, 0), -1)),
        ("graph_entries", lambda ids: ids[:, :0]),
        ("graph_entries", lambda ids: np.repeat(ids, 2, axis=0)),
        ("graph_codes", lambda codes: codes[:-1]),
        ("graph_codes", lambda codes: np.ascontiguousarray(codes[:, :-1])),
        ("graph_details", lambda details: details[:-1]),
        ("graph_details", lambda details: np.ascontiguousarray(details[:, :-1])),
        ("longest_code", lambda _: None),
        ("longest_code", lambda _: "1"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change):
    arrays, info = damaged(name, change)
    with pytest.raises(CorruptModelError) as error:
        GreedyIndex.from_arrays(arrays, info)
    assert str(error.value).endswith(".")


@pytest.mark.parametrize("name", ["rows", "list_ids", "list_values", "graph_entries", "graph_codes"])
def test_a_missing_array_is_named(name):
    arrays, info = build().to_arrays()
    del arrays[name]
    with pytest.raises(CorruptModelError, match=name):
        GreedyIndex.from_arrays(arrays, info)


def test_rows_that_went_bad_give_no_result_and_no_crash():
    arrays, info = damaged("rows", lambda rows: np.full_like(rows, np.nan))
    result = GreedyIndex.from_arrays(arrays, info).search(QUERY, budget=50)
    assert len(result.ids) == len(result.scores) == 0
    assert result.spent == 50


@pytest.mark.parametrize("name", ["graph_codes", "graph_details"])
@pytest.mark.parametrize("garbage", [0, 85, 255])
def test_codes_that_went_bad_cost_recall_and_nothing_else(name, garbage):
    arrays, info = damaged(name, lambda codes: np.full_like(codes, garbage))
    result = GreedyIndex.from_arrays(arrays, info).search(QUERY, budget=50)
    assert result.spent == 50
    assert len(set(result.ids.tolist())) == 10


def test_an_index_from_before_there_were_details_answers_the_same():
    built = build()
    arrays, info = built.to_arrays()
    del arrays["graph_details"]
    opened = GreedyIndex.from_arrays(arrays, info)
    opened.verify()
    for budget in (1, 20, 50):
        before, now = (index.search(QUERY, budget=budget) for index in (built, opened))
        assert (now.ids.tolist(), now.spent) == (before.ids.tolist(), before.spent)


def test_an_index_that_walks_has_a_graph():
    arrays, info = build().to_arrays()
    del arrays["graph_neighbours"]
    with pytest.raises(CorruptModelError, match="no graph"):
        GreedyIndex.from_arrays(arrays, info)
