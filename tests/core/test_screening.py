"""Screening against the reference: the theorems of the paper, for all variants, on data with every kind of tie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import GreedyIndex, reference
from greedy_core.fit.directions import KINDS
from greedy_core.screening import MAX_VARIANTS, Screening
from tests.strategies import problems

variants = pytest.mark.parametrize("variant", MAX_VARIANTS)


@variants
@given(problems())
def test_theorem_1_candidates_come_in_the_greedy_ranking(variant, problem):
    items, query, budget, exclude = problem
    ranking = [j for j in reference.greedy_ranking(items, query) if j not in exclude]
    candidates = GreedyIndex.build(items).screen(query, budget=budget, exclude=exclude, variant=variant)
    assert candidates.tolist() == ranking[:budget]


@given(problems())
def test_the_reference_variants_agree(problem):
    items, query, budget, exclude = problem
    ranking = [j for j in reference.greedy_ranking(items, query) if j not in exclude][:budget]
    for queue in (reference.MaxHeap, reference.SelectionTree):
        assert reference.screen_original(items, query, budget, set(exclude), queue) == ranking
        assert reference.screen_improved(items, query, budget, set(exclude), queue) == ranking


@given(problems())
def test_theorem_2_there_are_b_items_among_the_first_bk_entries(problem):
    items, query, budget, _ = problem
    budget = min(budget, len(items))
    query = np.where(query == 0, np.float32(1), query)
    arrays = reference.sorted_index_arrays(items)
    joint = [j for _, j, _ in reference.JointIterator(items, query, reference.MaxHeap, arrays)]
    assert len(set(joint[: budget * items.shape[1]])) >= budget
    index = GreedyIndex.build(items)
    if budget < len(items):
        result = index.search(query, budget=budget, variant="original-tree")
        assert result.spent == budget
        assert result.entries_read <= budget * items.shape[1]


@pytest.mark.parametrize("variant", [*MAX_VARIANTS, "sum"])
@given(problems(max_items=100), st.sampled_from(KINDS))
def test_candidates_are_nested(variant, problem, directions):
    items, query, _, exclude = problem
    index = GreedyIndex.build(items, directions=directions)
    longest = index.screen(query, budget=len(items), exclude=exclude, variant=variant).tolist()
    assert sorted(longest) == sorted(set(range(len(items))) - set(exclude))
    for budget in range(1, len(items)):
        shorter = index.screen(query, budget=budget, exclude=exclude, variant=variant).tolist()
        assert shorter == longest[: len(shorter)]


@variants
@given(problems(), st.integers(1, 40))
def test_lists_cut_to_max_budget_give_the_same_candidates(variant, problem, max_budget):
    items, query, budget, _ = problem
    budget = min(budget, max_budget)
    cut = GreedyIndex.build(items, max_budget=max_budget).screen(query, budget=budget, variant=variant)
    assert cut.tolist() == reference.greedy_ranking(items, query)[:budget]


@variants
@given(problems(), st.integers(1, 40))
def test_cut_lists_and_exclusions_still_spend_the_budget(variant, problem, max_budget):
    items, query, budget, exclude = problem
    index = GreedyIndex.build(items, max_budget=max_budget)
    budget = min(budget, max_budget)
    candidates = index.screen(query, budget=budget, exclude=exclude, variant=variant)
    assert len(set(candidates.tolist())) == len(candidates) == min(budget, len(items) - len(set(exclude)))
    assert candidates.tolist() == index.screen(query, budget=budget, exclude=exclude, variant="improved-tree").tolist()


@pytest.mark.parametrize("variant", [*MAX_VARIANTS, "sum"])
@given(problems())
def test_an_unordered_screening_is_the_same_set(variant, problem):
    items, query, budget, exclude = problem
    index = GreedyIndex.build(items)
    ordered = index.screen(query, budget=budget, exclude=exclude, variant=variant)
    unordered = index.screen(query, budget=budget, exclude=exclude, variant=variant, ordered=False)
    assert sorted(unordered) == sorted(ordered)


@given(problems(max_items=600, max_dims=5), st.sampled_from([1, 2, 16]), st.sampled_from([3, 50, 1000]))
def test_screening_by_sums_is_the_reference(problem, reads, max_budget):
    items, query, budget, exclude = problem
    budget = min(budget, max_budget)
    index = GreedyIndex.build(items, max_budget=max_budget).screened_by(Screening("sum", reads))
    expected = reference.screen_sum(items, query, budget, set(exclude), reads, depth=max_budget + 1)
    assert index.screen(query, budget=budget, exclude=exclude).tolist() == expected


@pytest.mark.parametrize("distribution", ["normal", "exponential", "sparse", "negative", "skewed"])
def test_large_problems_agree_too(distribution):
    # Large enough that thresholds are guessed too high and too low, and that the tables grow.
    rng = np.random.default_rng(7)
    n_items, n_dims = 5000, 24
    items = {
        "normal": lambda: rng.normal(size=(n_items, n_dims)),
        "exponential": lambda: rng.exponential(size=(n_items, n_dims)) ** 4,
        "sparse": lambda: rng.normal(size=(n_items, n_dims)) * (rng.random((n_items, n_dims)) < 0.02),
        "negative": lambda: -rng.random((n_items, n_dims)),
        "skewed": lambda: rng.normal(size=(n_items, n_dims)) * 10.0 ** -np.arange(n_dims),
    }[distribution]().astype(np.float32)
    index = GreedyIndex.build(items, max_budget=n_items)
    for _ in range(5):
        query = np.abs(rng.normal(size=n_dims)).astype(np.float32)
        exclude = rng.integers(0, n_items, size=300)
        ranking = np.array(reference.greedy_ranking(items, query))
        ranking = ranking[~np.isin(ranking, exclude)]
        for budget in (1, 10, 100, 1000, 4000):
            for variant in MAX_VARIANTS:
                found = index.screen(query, budget=budget, exclude=exclude, variant=variant)
                np.testing.assert_array_equal(found, ranking[:budget])
            summed = index.screen(query, budget=budget, exclude=exclude, variant="sum")
            np.testing.assert_array_equal(summed, reference.screen_sum(items, query, budget, set(exclude.tolist())))


@settings(max_examples=25)
@given(problems(max_items=12))
def test_a_query_of_zeros_takes_items_by_id(problem):
    items, query, budget, exclude = problem
    candidates = GreedyIndex.build(items).screen(np.zeros_like(query), budget=budget, exclude=exclude)
    assert candidates.tolist() == [j for j in range(len(items)) if j not in exclude][:budget]
