"""Searches under a filter: the reference, and what any budget promises, on graphs that lead anywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core import (
    CorruptModelError,
    Eligible,
    ExactIndex,
    GreedyIndex,
    InvalidBudgetError,
    InvalidQueryError,
    reference,
    reference_walk,
)
from greedy_core._kernel import few_of, instruction_set, instruction_sets, use_instruction_set
from greedy_core.fit.guides import finds_more
from greedy_core.screening import VARIANTS
from tests.assertions import assert_same_ranking
from tests.core.test_walk import ITEMS, USERS, WALKING, remembered_ids, walks
from tests.strategies import problems

LISTS = [variant for variant in VARIANTS if variant != "walk"]


@st.composite
def filtered_walks(draw):
    """A walk, a filter, from how many items on it walks instead of estimating all, and whether others guide it."""
    walk = draw(walks())
    (items, _, _, _), index, graph, _ = walk
    mask = draw(hnp.arrays(np.bool_, len(items)))
    scanned = draw(st.sampled_from([0, 5, 3072]))
    guided = draw(st.booleans())
    index._kernel.walk_on(*graph, scanned, guided)
    return walk, mask, scanned, guided


def could_be_found(mask, exclude):
    return [j for j in np.flatnonzero(mask).tolist() if j not in exclude]


@given(filtered_walks(), st.integers(1, 12))
def test_the_walk_is_the_reference(drawn, top_k):
    ((items, query, budget, exclude), index, graph, known), mask, scanned, guided = drawn
    eligible = Eligible.from_mask(mask)
    left = could_be_found(mask, exclude)
    result = index.search(query, top_k, budget, exclude, remembered=known, eligible=eligible)
    assert result.eligible == len(left)
    assert len(result.ids) == min(top_k, budget, len(left))
    assert result.complete == (budget >= len(left))
    if budget >= len(left):
        assert result.spent == len(left)
        assert_same_ranking(result, reference.rank_candidates(items, query, left, top_k), items, query)
        return
    candidates, spent, n_read = reference_walk.screen_filtered_walk(
        graph.neighbours,
        graph.entries,
        graph.codes,
        graph.details,
        graph.longest,
        query,
        budget,
        set(np.flatnonzero(mask).tolist()),
        eligible.spread.tolist(),
        top_k,
        set(exclude),
        remembered_ids(known),
        scanned,
        guided,
    )
    screened = index.screen(query, budget, exclude, remembered=known, eligible=eligible, top_k=top_k)
    assert screened.tolist() == candidates
    assert (result.spent, result.entries_read) == (spent, n_read)
    assert result.spent == budget
    assert_same_ranking(result, reference.rank_candidates(items, query, candidates, top_k), items, query)


@pytest.mark.parametrize("variant", LISTS)
@given(problems(), st.data(), st.sampled_from([1, 4]))
def test_lists_are_the_reference(variant, problem, data, reads):
    items, query, budget, exclude = problem
    mask = data.draw(hnp.arrays(np.bool_, len(items)))
    eligible = Eligible.from_mask(mask)
    left = could_be_found(mask, exclude)
    index = GreedyIndex.build(items)
    index = index.screened_by(type(index.screening)("sum", reads)) if variant == "sum" else index
    result = index.search(query, 5, budget, exclude, variant, eligible=eligible)
    assert (result.eligible, result.complete) == (len(left), budget >= len(left))
    assert len(result.ids) == min(5, budget, len(left))
    if budget >= len(left):
        return
    others = set(range(len(items))) - set(left)
    n_eligible = int(mask.sum())
    most = reference.ENTRIES * n_eligible
    if variant == "sum":
        expected = reference.screen_sum(items, query, budget, others, reads, None, n_eligible)
    elif variant == "original-tree":
        expected = reference.screen_original(items, query, budget, others, most_entries=most)
    else:
        expected = reference.screen_improved(items, query, budget, others, most_entries=most)
    assert sorted(index.screen(query, budget, exclude, variant, eligible=eligible).tolist()) == sorted(expected)
    assert result.spent == budget
    assert_same_ranking(result, reference.rank_candidates(items, query, expected, 5), items, query)


@pytest.mark.parametrize("variant", VARIANTS)
@given(filtered_walks(), st.integers(1, 12))
def test_candidate_sets_are_nested(variant, drawn, top_k):
    ((_, query, _, exclude), index, _, known), mask, _, _ = drawn
    eligible = Eligible.from_mask(mask)
    before = set()
    for budget in range(1, len(could_be_found(mask, exclude)) + 2):
        ids = index.screen(query, budget, exclude, variant, remembered=known, eligible=eligible, top_k=top_k)
        assert before <= set(ids.tolist())
        assert len(set(ids.tolist())) == len(ids) <= budget
        before = set(ids.tolist())
    if variant != "walk":
        assert before == set(could_be_found(mask, exclude))


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_every_instruction_set_finds_the_same(share, guided):
    eligible = Eligible.from_mask(np.random.default_rng(3).random(len(ITEMS)) < share)
    WALKING._kernel.walk_on(*WALKING._graph, 0, guided)
    used = instruction_set()
    answers = []
    try:
        for name in (name for name, supported in instruction_sets().items() if supported):
            use_instruction_set(name)
            results = WALKING.search_batch(USERS[:40], 10, 30, eligible=eligible)
            answers.append([(r.ids.tobytes(), r.scores.tobytes(), r[2:]) for r in results])
    finally:
        use_instruction_set(used)
        WALKING._kernel.walk_on(*WALKING._graph)
    assert all(answer == answers[0] for answer in answers)


def test_a_batch_is_its_searches():
    rng = np.random.default_rng(2)
    masks = [None, *(Eligible.from_mask(rng.random(len(ITEMS)) < share) for share in (0.9, 0.3, 0.02, 0.0))]
    allowed = [masks[i % len(masks)] for i in range(60)]
    remembered = WALKING.remember(USERS[:60])
    exclude = [rng.integers(0, len(ITEMS), 20) for _ in range(60)]
    batch = WALKING.search_batch(USERS[:60], 10, 200, exclude, threads=3, remembered=remembered, eligible=allowed)
    for i, result in enumerate(batch):
        single = WALKING.search(USERS[i], 10, 200, exclude[i], remembered=remembered[i], eligible=allowed[i])
        assert (result.ids.tolist(), result.scores.tobytes(), result[2:]) == (
            single.ids.tolist(),
            single.scores.tobytes(),
            single[2:],
        )
    for result, single in zip(
        WALKING.search_batch(USERS[:5], 10, 50, eligible=masks[2]),
        [WALKING.search(query, 10, 50, eligible=masks[2]) for query in USERS[:5]],
        strict=True,
    ):
        assert result.ids.tolist() == single.ids.tolist()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.03])
@pytest.mark.parametrize("scanned", [0, 3072])
def test_a_filter_costs_little_recall(share, scanned):
    rng = np.random.default_rng(9)
    scores = USERS[:100] @ ITEMS.T
    WALKING._kernel.walk_on(*WALKING._graph, scanned)
    try:
        found = []
        for query, row in zip(USERS[:100], scores, strict=True):
            mask = rng.random(len(ITEMS)) < share
            truth = np.argsort(np.where(mask, -row, np.inf))[:10]
            result = WALKING.search(query, 10, min(128, int(mask.sum()) - 1), eligible=Eligible.from_mask(mask))
            assert mask[result.ids].all()
            assert len(result.ids) == 10
            found.append(len(np.intersect1d(result.ids, truth)) / 10)
    finally:
        WALKING._kernel.walk_on(*WALKING._graph)
    assert np.mean(found) > 0.85


@pytest.mark.parametrize("share", [0.8, 0.3, 0.1])
@pytest.mark.parametrize("budget", [32, 64, 128])
def test_a_wide_filter_on_a_small_catalogue_finds_as_much_as_none(budget, share):
    index, rng = WALKING.screened_by(type(WALKING.screening)("sum", 16)), np.random.default_rng(10)
    plain, filtered = [], []
    for query in USERS[:100]:
        eligible = Eligible.from_mask(rng.random(len(ITEMS)) < share)
        for found, only in ((plain, None), (filtered, eligible)):
            truth = index.search(query, 10, len(ITEMS), eligible=only).ids
            found.append(len(np.intersect1d(index.search(query, 10, budget, eligible=only).ids, truth)))
    assert np.mean(filtered) > np.mean(plain) - 0.5


def test_the_way_that_finds_more_under_a_filter_is_chosen():
    rng = np.random.default_rng(12)
    items = rng.normal(size=(6500, 12)).astype(np.float32)
    index = GreedyIndex.build(items)
    better = index.screened_by(type(index.screening)("sum", 64))
    assert finds_more(better, index, items[:300])
    assert not finds_more(index, better, items[:300])
    # A tenth of these is not enough to tell.
    few = GreedyIndex.build(items[:90])
    assert not finds_more(few, few, items[:300])


def test_whether_others_guide_is_stored():
    arrays, info = WALKING.to_arrays()
    info["guided"] = False
    guided = GreedyIndex.from_arrays(arrays, {**info, "guided": True})
    assert guided.to_arrays()[1]["guided"] is True
    assert guided.screened_by(guided.screening).to_arrays()[1]["guided"] is True
    of_before = GreedyIndex.from_arrays(arrays, {key: value for key, value in info.items() if key != "guided"})
    assert of_before.to_arrays()[1]["guided"] is False
    with pytest.raises(CorruptModelError, match="guided 3"):
        GreedyIndex.from_arrays(arrays, {**info, "guided": 3})


def test_lists_leave_the_few_to_the_compressed_rows():
    """An index that screens by lists walks where few items are eligible, unless it is told otherwise."""
    index = WALKING.screened_by(type(WALKING.screening)("threshold"))
    few = Eligible.from_mask(np.arange(len(ITEMS)) < few_of(len(ITEMS)))
    budget = few.count - 1
    own = index.search(USERS[0], 10, budget, eligible=few)
    assert own.entries_read == 0
    assert own.ids.tolist() == index.search(USERS[0], 10, budget, variant="walk", eligible=few).ids.tolist()
    assert index.search(USERS[0], 10, budget, variant="threshold", eligible=few).entries_read > 0
    # One more, and lists find more before all are estimated.
    more = Eligible.from_mask(np.arange(len(ITEMS)) <= few_of(len(ITEMS)))
    assert index.search(USERS[0], 10, budget, eligible=more).entries_read > 0


def test_an_exact_scan_is_of_the_eligible():
    index = ExactIndex.build(ITEMS)
    mask = np.arange(len(ITEMS)) % 7 == 2
    result = index.search(USERS[0], 10, eligible=Eligible.from_mask(mask), exclude=[2, 3])
    expected = np.argsort(np.where(mask & (np.arange(len(ITEMS)) != 2), -(ITEMS @ USERS[0]), np.inf))[:10]
    assert result.ids.tolist() == expected.tolist()
    assert (result.spent, result.eligible, result.complete) == (mask.sum() - 1, mask.sum() - 1, True)
    with pytest.raises(InvalidBudgetError, match="an exact scan"):
        index.search(USERS[0], 10, 100, eligible=Eligible.from_mask(mask))


def test_nothing_eligible_costs_nothing():
    result = WALKING.search(USERS[0], eligible=Eligible.from_mask(np.zeros(len(ITEMS), dtype=bool)))
    assert (len(result.ids), result.spent, result.complete, result.eligible) == (0, 0, True, 0)


def test_without_a_filter_all_items_but_the_excluded_are_eligible():
    assert WALKING.search(USERS[0], exclude=[1, 1, 2]).eligible == len(ITEMS) - 2


@pytest.mark.parametrize(
    ("eligible", "problem"),
    [
        (np.ones(2000, dtype=bool), "must be an Eligible"),
        (Eligible.from_mask(np.ones(1999, dtype=bool)), "about 1999 items, but this index has 2000"),
    ],
)
def test_what_is_no_filter_of_this_index_is_refused(eligible, problem):
    with pytest.raises(InvalidQueryError, match=problem):
        WALKING.search(USERS[0], eligible=eligible)


def test_a_batch_wants_a_filter_for_each():
    with pytest.raises(InvalidQueryError, match="2 queries but 1 sets of eligible items"):
        WALKING.search_batch(USERS[:2], eligible=[None])
