"""What any index must satisfy, exact, greedy or reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import ExactIndex, GreedyIndex, SearchResult, reference
from greedy_core.fit.directions import KINDS
from tests.assertions import assert_same_ranking, assert_valid_receipt
from tests.strategies import problems


class Reference:
    """reference.py behind the interface of an index."""

    def __init__(self, items):
        self.items = items

    @classmethod
    def build(cls, items):
        return cls(np.asarray(items, dtype=np.float32))

    def search(self, query, top_k=10, budget=256, exclude=()):
        return reference.search(self.items, query, top_k, budget, exclude)


BUILDS = {
    "exact": ExactIndex.build,
    "reference": Reference.build,
    "axes": lambda items: GreedyIndex.build(items, directions="axes"),
    "principal": lambda items: GreedyIndex.build(items, directions="principal"),
    "sparse": lambda items: GreedyIndex.build(items, directions="sparse"),
    "sparse of items and users": lambda items: GreedyIndex.build(items, queries=items[:1], directions="sparse"),
    "graph": lambda items: GreedyIndex.build(items, directions="graph"),
    "graph of items and users": lambda items: GreedyIndex.build(items, queries=items[:1], directions="graph"),
    "principal of items and users": lambda items: GreedyIndex.build(items, queries=items[:1], directions="principal"),
}
every_index = pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
every_budgeted_index = pytest.mark.parametrize("build", list(BUILDS.values())[1:], ids=list(BUILDS)[1:])


@every_index
@given(problems(), st.integers(1, 50))
def test_a_budget_for_all_items_gives_the_exact_answer(build, problem, top_k):
    items, query, _, exclude = problem
    result = build(items).search(query, top_k=top_k, budget=len(items), exclude=exclude)
    assert_valid_receipt(result, n_items=len(items), top_k=top_k, budget=len(items), exclude=exclude)
    assert result.complete
    eligible = [j for j in range(len(items)) if j not in exclude]
    assert_same_ranking(result, reference.rank_candidates(items, query, eligible, top_k), items, query)


@every_budgeted_index
@given(problems(), st.integers(1, 50))
def test_the_budget_is_a_promise(build, problem, top_k):
    items, query, budget, exclude = problem
    index = build(items)
    result = index.search(query, top_k=top_k, budget=budget, exclude=exclude)
    walked = getattr(index, "has_graph", False)
    assert_valid_receipt(result, n_items=len(items), top_k=top_k, budget=budget, exclude=exclude, walked=walked)
    assert result.spent == min(budget, len(items) - len(set(exclude)))


@every_budgeted_index
@given(problems())
def test_more_budget_is_never_worse(build, problem):
    items, query, _, exclude = problem
    index = build(items)
    best = -np.inf
    for budget in range(1, len(items) + 1):
        scores = index.search(query, top_k=1, budget=budget, exclude=exclude).scores
        if len(scores):
            assert scores[0] >= best
            best = scores[0]


@every_index
@given(problems())
def test_the_same_question_has_the_same_answer(build, problem):
    items, query, _, exclude = problem
    first, second = (build(items).search(query, budget=len(items), exclude=exclude) for _ in range(2))
    assert first.ids.tolist() == second.ids.tolist()
    assert first.scores.tobytes() == second.scores.tobytes()


@pytest.mark.parametrize("variant", ["threshold", "improved-tree", "improved-heap", "original-tree"])
@given(problems())
def test_search_is_the_reference_search(variant, problem):
    items, query, budget, exclude = problem
    result = GreedyIndex.build(items).search(query, top_k=5, budget=budget, exclude=exclude, variant=variant)
    expected = reference.search(items, query, 5, budget, exclude)
    assert_same_ranking(result, expected, items, query)
    assert (result.spent, result.complete) == (expected.spent, expected.complete)


@every_index
def test_equal_scores_are_ordered_by_id(build):
    items = np.ones((20, 3), dtype=np.float32)
    result = build(items).search(np.ones(3, dtype=np.float32), top_k=5, budget=20)
    assert result.ids.tolist() == [0, 1, 2, 3, 4]


@every_index
def test_everything_excluded_gives_nothing_and_costs_nothing(build):
    items = np.eye(4, dtype=np.float32)
    result = build(items).search(np.ones(4, dtype=np.float32), budget=4, exclude=[0, 1, 2, 3, 3])
    assert (len(result.ids), result.spent, result.complete) == (0, 0, True)


@pytest.mark.parametrize("kind", [GreedyIndex, ExactIndex])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_is_its_searches(kind, threads):
    rng = np.random.default_rng(3)
    items = rng.normal(size=(500, 20)).astype(np.float32)
    queries = rng.normal(size=(40, 20)).astype(np.float32)
    index = kind.build(items)
    budgets = [500] * 40 if kind is ExactIndex else rng.integers(1, 500, size=40)
    exclude = [None if i % 3 == 0 else rng.integers(0, 500, size=i) for i in range(40)]
    batch = index.search_batch(queries, top_k=7, budget=budgets, exclude=exclude, threads=threads)
    assert len(batch) == 40
    for query, budget, ids, result in zip(queries, budgets, exclude, batch, strict=True):
        single = index.search(query, top_k=7, budget=budget, exclude=ids)
        assert isinstance(result, SearchResult)
        assert result.ids.tolist() == single.ids.tolist()
        assert result.scores.tobytes() == single.scores.tobytes()
        assert result[2:] == single[2:]


@pytest.mark.parametrize("kind", [GreedyIndex, ExactIndex])
def test_an_empty_batch_has_no_results(kind):
    index = kind.build(np.eye(3))
    assert index.search_batch(np.empty((0, 3), dtype=np.float32)) == []


@pytest.mark.parametrize("directions", KINDS)
def test_building_twice_gives_the_same_bytes(directions):
    items = np.random.default_rng(5).normal(size=(3000, 40)).astype(np.float32)
    first, second = (GreedyIndex.build(items, directions=directions, threads=threads) for threads in (1, 2))
    for name, array in first.to_arrays()[0].items():
        assert array.tobytes() == second.to_arrays()[0][name].tobytes()
