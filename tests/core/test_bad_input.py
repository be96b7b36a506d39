"""Bad input: a typed exception with one sentence, never a crash, and the index goes on working."""

import numpy as np
import pytest

from greedy_core import (
    ExactIndex,
    GreedyCoreError,
    GreedyIndex,
    InvalidBudgetError,
    InvalidEmbeddingsError,
    InvalidQueryError,
)
from greedy_core.fit.directions import KINDS

ITEMS = np.random.default_rng(0).normal(size=(100, 6)).astype(np.float32)
QUERY = np.arange(6, dtype=np.float32)

BAD_ITEMS = {
    "nan": np.full((3, 3), np.nan),
    "infinite": np.full((3, 3), np.inf),
    "too large": np.full((3, 3), 1e16),
    "beyond float32": np.full((3, 3), 1e300),
    "one vector": np.ones(3),
    "three axes": np.ones((2, 2, 2)),
    "no items": np.ones((0, 3)),
    "no dimensions": np.ones((3, 0)),
    "complex": np.ones((3, 3), dtype=complex),
    "text": np.array([["a", "b"]]),
    "objects": np.array([[None, 1]], dtype=object),
    "ragged": [[1.0, 2.0], [3.0]],
    "nothing": None,
}
BAD_QUERIES = {
    "nan": np.array([np.nan] * 6),
    "float32 nan": np.array([np.nan] * 6, dtype=np.float32),
    "infinite": np.array([1, 2, 3, 4, 5, np.inf], dtype=np.float32),
    "too large": np.full(6, 1e16, dtype=np.float32),
    "too short": np.ones(5, dtype=np.float32),
    "too long": np.ones(7, dtype=np.float32),
    "a matrix": np.ones((1, 6), dtype=np.float32),
    "a number": 1.0,
    "complex": np.ones(6, dtype=complex),
    "text": ["a"] * 6,
    "nothing": None,
}
BAD_NUMBERS = [0, -1, -(10**30), 1.5, "7", None, True, np.float64(3), [3]]
kinds = pytest.mark.parametrize("kind", [GreedyIndex, ExactIndex])


def assert_one_sentence(error):
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert 20 < len(text) < 300


@kinds
@pytest.mark.parametrize("items", BAD_ITEMS.values(), ids=BAD_ITEMS)
def test_items_that_cannot_be_indexed(kind, items):
    with pytest.raises(InvalidEmbeddingsError) as error:
        kind.build(items)
    assert_one_sentence(error)


@kinds
@pytest.mark.parametrize("query", BAD_QUERIES.values(), ids=BAD_QUERIES)
def test_queries_that_make_no_sense(kind, query):
    index = kind.build(ITEMS)
    for ask in (index.search, index.screen, lambda query: index.search_batch([QUERY, query])):
        with pytest.raises(InvalidQueryError) as error:
            ask(query)
        assert_one_sentence(error)
    assert len(index.search(QUERY).ids) == 10


@kinds
@pytest.mark.parametrize("budget", BAD_NUMBERS, ids=repr)
def test_budgets_that_are_none(kind, budget):
    if budget is None:
        return  # the default
    index = kind.build(ITEMS)
    with pytest.raises(InvalidBudgetError) as error:
        index.search(QUERY, budget=budget)
    assert_one_sentence(error)


@kinds
@pytest.mark.parametrize("top_k", BAD_NUMBERS, ids=repr)
def test_top_k_that_is_none(kind, top_k):
    with pytest.raises(InvalidQueryError) as error:
        kind.build(ITEMS).search(QUERY, top_k=top_k)
    assert_one_sentence(error)


@kinds
def test_huge_numbers_mean_everything(kind):
    result = kind.build(ITEMS).search(QUERY, top_k=10**30, budget=10**40)
    assert (len(result.ids), result.spent, result.complete) == (100, 100, True)


def test_a_budget_between_the_lists_and_an_exact_scan_names_the_limit():
    index = GreedyIndex.build(ITEMS, max_budget=10)
    with pytest.raises(InvalidBudgetError, match=r"max_budget of 10 and below the 100 products") as error:
        index.search(QUERY, budget=11)
    assert_one_sentence(error)
    assert index.search(QUERY, budget=10).spent == 10
    assert index.search(QUERY, budget=100).complete
    assert index.search(QUERY, budget=40, exclude=np.arange(60)).complete


def test_an_exact_scan_needs_its_budget():
    with pytest.raises(InvalidBudgetError, match="each of the 100 items, but the budget is 99") as error:
        ExactIndex.build(ITEMS).search(QUERY, budget=99)
    assert_one_sentence(error)


@kinds
@pytest.mark.parametrize("exclude", [[100], [-1], [2**40], [1.5], ["a"], [[1], [2]], [True], np.int64(3)], ids=repr)
def test_exclusions_that_name_no_item(kind, exclude):
    index = kind.build(ITEMS)
    for ask in (index.search, index.screen):
        with pytest.raises(InvalidQueryError) as error:
            ask(QUERY, exclude=exclude)
        assert_one_sentence(error)
    for ids in ([-1], [100]):
        with pytest.raises(InvalidQueryError):
            index.search(QUERY, exclude=np.array(ids, dtype=np.int32))


@kinds
def test_batches_that_do_not_fit(kind):
    index = kind.build(ITEMS)
    for arguments in ({"budget": [1, 2]}, {"exclude": [None]}, {"threads": 0}):
        with pytest.raises(GreedyCoreError) as error:
            index.search_batch([QUERY] * 3, **arguments)
        assert_one_sentence(error)


def test_options_that_do_not_exist():
    with pytest.raises(InvalidEmbeddingsError, match="choose one of axes, principal, sparse"):
        GreedyIndex.build(ITEMS, directions="diagonal")
    with pytest.raises(InvalidQueryError, match="choose one of threshold"):
        GreedyIndex.build(ITEMS).search(QUERY, variant="quick")
    with pytest.raises(InvalidBudgetError, match="max_budget must be a whole number from 1"):
        GreedyIndex.build(ITEMS, max_budget=0)
    with pytest.raises(InvalidEmbeddingsError, match="queries have 5 dimensions and items 6"):
        GreedyIndex.build(ITEMS, queries=np.ones((2, 5)), directions="principal")


@pytest.mark.parametrize(
    "convert",
    [
        lambda a: a.astype(np.float64),
        lambda a: a.astype(">f4"),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.tolist(),
        lambda a: np.frombuffer(a.tobytes(), dtype=np.float32).reshape(a.shape),
    ],
    ids=["float64", "big-endian", "fortran", "strided", "list", "read-only"],
)
def test_other_layouts_are_converted_never_misread(convert):
    expected = GreedyIndex.build(ITEMS).search(QUERY, budget=20)
    result = GreedyIndex.build(convert(ITEMS)).search(convert(QUERY[None])[0], budget=20)
    assert result.ids.tolist() == expected.ids.tolist()
    assert result.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.uint64, bool])
def test_other_numbers_are_converted(dtype):
    items = (ITEMS * 3).round().clip(0, 3).astype(dtype)
    expected = GreedyIndex.build(items.astype(np.float32)).search(QUERY, budget=20)
    assert GreedyIndex.build(items).search(QUERY.astype(dtype).astype(np.float32), budget=20).spent == expected.spent
    assert GreedyIndex.build(items).search(QUERY, budget=20).ids.tolist() == expected.ids.tolist()


@pytest.mark.parametrize("directions", KINDS)
@pytest.mark.parametrize(
    "items",
    [np.zeros((5, 3)), np.ones((5, 3)), np.eye(1), np.zeros((1, 1)), np.tile([[1.0, 2.0]], (9, 1))],
    ids=["zeros", "all equal", "one by one", "a single zero", "duplicates"],
)
def test_degenerate_items_are_ordinary(directions, items):
    index = GreedyIndex.build(items, directions=directions)
    for query in (np.ones(items.shape[1]), np.zeros(items.shape[1]), -np.ones(items.shape[1])):
        for budget in range(1, len(items) + 2):
            result = index.search(query, budget=budget)
            assert result.spent == min(budget, len(items))
            assert result.ids.tolist() == sorted(result.ids.tolist())


def test_changing_the_callers_array_does_not_change_the_index():
    items = ITEMS.copy()
    for kind in (GreedyIndex, ExactIndex):
        index = kind.build(items)
        before = index.search(QUERY, budget=100).scores
        items[:] = np.nan
        np.testing.assert_array_equal(index.search(QUERY, budget=100).scores, before)
        items[:] = ITEMS
