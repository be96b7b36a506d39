"""The greedy walk against its reference, and what any budget promises, on graphs that lead anywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import GreedyIndex, InvalidQueryError, reference, reference_walk
from greedy_core._graph import code_stride
from greedy_core._kernel import instruction_set, instruction_sets, use_instruction_set
from greedy_core.embeddings import pad_rows
from greedy_core.fit.graph import (
    DEGREES,
    POWERS,
    ItemGraph,
    compressed,
    connect,
    find_entries,
    likeness,
    near_items,
)
from greedy_core.fit.reach import lead_everywhere
from tests.assertions import assert_valid_receipt
from tests.strategies import problems

RNG = np.random.default_rng(8)
ITEMS = RNG.normal(size=(2000, 40)).astype(np.float32)
USERS = RNG.normal(size=(300, 40)).astype(np.float32)
WALKING = GreedyIndex.build(ITEMS, queries=USERS, directions="graph")


@st.composite
def walks(draw, max_items=60):
    """A problem, an index whose graph was drawn and not built, its graph, and what the query remembers."""
    items, query, budget, exclude = draw(problems(max_items=max_items))
    n_items, seed = len(items), draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    # Rows shorter and longer than what vector instructions take at once; an item may be twice in one.
    degree = draw(st.integers(1, 6) | st.integers(7, 40))
    neighbours = rng.integers(0, n_items, (n_items, degree)).astype(np.int32)
    neighbours[np.arange(degree) >= rng.integers(0, degree + 1, (n_items, 1))] = -1
    entries = rng.integers(0, n_items, draw(st.integers(1, 5))).astype(np.int32)
    coded = compressed(items, 1)
    graph = ItemGraph(neighbours, entries, *coded)
    arrays, info = GreedyIndex.build(items, max_budget=n_items).to_arrays()
    arrays |= {"graph_neighbours": neighbours, "graph_entries": entries[None]}
    arrays |= {"graph_codes": coded.codes, "graph_details": coded.details}
    index = GreedyIndex.from_arrays(arrays, {**info, "variant": "walk", "longest_code": graph.longest})
    remembered = draw(st.none() | st.lists(st.integers(0, n_items - 1), max_size=8))
    known = None if remembered is None else np.array([*remembered, -1, 0], dtype=np.int32)
    return (items, query, budget, exclude), index, graph, known


def remembered_ids(known):
    return [] if known is None else known[: known.tolist().index(-1)].tolist()


@pytest.mark.parametrize("name", [name for name, supported in instruction_sets().items() if supported])
@given(walk=walks(max_items=150))  # it goes on from eight at once where there are 128
def test_the_walk_is_the_reference(name, walk):
    before = instruction_set()
    use_instruction_set(name)
    try:
        check_the_walk(walk)
    finally:
        use_instruction_set(before)


def check_the_walk(walk):
    (items, query, budget, exclude), index, graph, known = walk
    eligible = len(items) - len(set(exclude))
    budget = min(budget, eligible)
    if budget == 0:
        return
    expected, spent = reference_walk.screen_walk(*graph, query, budget, set(exclude), remembered_ids(known))
    assert index.screen(query, budget=budget, exclude=exclude, remembered=known).tolist() == expected
    assert spent <= budget
    if budget < eligible:
        result = index.search(query, top_k=len(items), budget=budget, exclude=exclude, remembered=known)
        assert result.spent == spent
        ranked = reference.rank_candidates(items, query, expected, len(items))
        assert sorted(result.ids.tolist()) == sorted(ranked.ids.tolist())


@given(walks(max_items=150))
def test_the_budget_is_a_promise_and_candidates_are_nested(walk):
    (items, query, _, exclude), index, _, known = walk
    longest: list[int] = []
    for budget in range(1, len(items) + 1):
        candidates = index.screen(query, budget=budget, exclude=exclude, remembered=known).tolist()
        assert candidates[: len(longest)] == longest
        assert len(set(candidates)) == len(candidates)
        assert not set(candidates) & set(exclude)
        longest = candidates
        result = index.search(query, top_k=5, budget=budget, exclude=exclude, remembered=known)
        assert_valid_receipt(result, n_items=len(items), top_k=5, budget=budget, exclude=exclude, walked=True)
        assert len(result.ids) > 0 or set(exclude) == set(range(len(items)))


@given(walks())
def test_a_budget_for_all_items_is_an_exact_scan(walk):
    (items, query, _, exclude), index, _, known = walk
    result = index.search(query, top_k=len(items), budget=len(items), exclude=exclude, remembered=known)
    assert result.complete
    assert sorted(result.ids.tolist()) == sorted(set(range(len(items))) - set(exclude))


@given(walks(), st.sampled_from(["threshold", "improved-tree", "sum", "walk"]))
def test_what_is_remembered_is_ranked_first_whatever_follows(walk, variant):
    (items, query, budget, exclude), index, _, known = walk
    budget = min(budget, len(items) - len(set(exclude)))
    if budget == 0:
        return
    first = [j for j in dict.fromkeys(remembered_ids(known)) if j not in exclude]
    candidates = index.screen(query, budget=budget, exclude=exclude, variant=variant, remembered=known).tolist()
    assert candidates[: len(first)] == first[:budget]
    assert len(set(candidates)) == len(candidates) <= budget
    if variant != "walk" and budget > len(first):
        others = index.screen(query, budget=budget - len(first), exclude=[*exclude, *first], variant=variant)
        assert sorted(candidates[len(first) :]) == sorted(others)


def test_excluded_items_do_not_end_the_walk():
    """What a user likes best has often been seen: the walk has to pass through it."""
    found = []
    for query in USERS[:50]:
        best = WALKING.search(query, top_k=60, budget=2000).ids
        result = WALKING.search(query, top_k=10, budget=300, exclude=best[:50])
        found.append(len(np.intersect1d(result.ids, best[50:])))
        assert not np.intersect1d(result.ids, best[:50]).size
    assert np.mean(found) > 8


def test_a_walk_finds_more_than_lists_where_vectors_are_flat():
    truth = [WALKING.search(query, budget=2000).ids for query in USERS[:100]]

    def recall(variant):
        found = [WALKING.search(query, budget=64, variant=variant).ids for query in USERS[:100]]
        return np.mean([len(np.intersect1d(ids, best)) / 10 for ids, best in zip(found, truth, strict=True)])

    assert recall("walk") > 0.75
    assert recall("walk") > recall("sum")


def test_a_newer_vector_is_ranked_by_itself():
    """The list is of the vector before, and the scores are of the vector that is asked with."""
    before, now = USERS[0], USERS[1]
    remembered = WALKING.remember(before[None])[0]
    result = WALKING.search(now, top_k=64, budget=64, remembered=remembered)
    np.testing.assert_allclose(result.scores, ITEMS[result.ids] @ now, rtol=1e-4, atol=1e-4)
    assert sorted(result.ids.tolist()) == sorted(remembered.tolist())
    more = WALKING.search(now, top_k=10, budget=600, remembered=remembered)
    exact = WALKING.search(now, top_k=10, budget=2000)
    assert len(np.intersect1d(more.ids, exact.ids)) >= 9


def test_all_places_are_remembered_where_a_small_budget_finds_the_best():
    """A walk with a budget of 256 finds the ten best of these, and ranks fewer than the 64 that are remembered."""
    rng = np.random.default_rng(4)
    topics = rng.normal(size=(8, 16))
    items = (rng.dirichlet([0.15] * 8, 2100) @ topics).astype(np.float32)
    index = GreedyIndex.build(items, directions="graph")
    assert len(index.search(items[0], top_k=64, budget=256).ids) < 64
    remembered = index.remember(items[:50])
    assert (remembered >= 0).all()
    for query, ids in zip(items[:50], remembered, strict=True):
        assert len(np.intersect1d(ids[:10], index.search(query, top_k=10, budget=2100).ids)) >= 9


def test_remembered_items_are_the_best():
    for count in (1, 10, 64):
        remembered = WALKING.remember(USERS[:20], count)
        assert (remembered.shape, remembered.dtype) == ((20, count), np.int32)
        for query, ids in zip(USERS[:20], remembered, strict=True):
            np.testing.assert_array_equal(ids, WALKING.search(query, top_k=count, budget=2000).ids)


@pytest.mark.parametrize(
    ("remembered", "problem"),
    [
        ([1, 2], "something else"),
        (np.array([1.0]), "something else"),
        (np.array([[1]], dtype=np.int32), "something else"),
        (np.array([2000], dtype=np.int32), "remembers item 2000"),
    ],
)
def test_what_cannot_be_remembered_is_refused(remembered, problem):
    with pytest.raises(InvalidQueryError, match=problem):
        WALKING.search(USERS[0], remembered=remembered)


def test_without_a_graph_nothing_walks():
    with pytest.raises(InvalidQueryError, match="no graph to walk on"):
        GreedyIndex.build(ITEMS).search(USERS[0], variant="walk")


@pytest.mark.parametrize("n_dims", [1, 40, 64, 65, 128, 200])
def test_codes_estimate_inner_products(n_dims):
    rng = np.random.default_rng(n_dims)
    items = rng.exponential(size=(500, n_dims)).astype(np.float32)
    codes, details, longest = compressed(items, 2)
    assert codes.shape == details.shape == (500, code_stride(n_dims))
    query = rng.normal(size=n_dims).astype(np.float32)
    estimated, length = reference_walk.estimates(codes, query)
    closer, _ = reference_walk.estimates(codes, query, details=details)
    centred = items - items.mean(axis=0)
    exact = centred @ query * (length / np.linalg.norm(query))
    spread = np.linalg.norm(centred, axis=1) * length / np.sqrt(max(n_dims, 64))
    # Two bits a coordinate leave an error of about a third of a random product.
    assert np.sqrt(np.mean(((estimated - exact) / spread) ** 2)) < 0.5
    # Two more leave less than half of it.
    assert np.sqrt(np.mean(((closer - exact) / spread) ** 2)) < 0.25
    assert longest == pytest.approx(np.linalg.norm(centred, axis=1).max(), rel=0.35)


@given(problems(max_dims=140))
def test_the_rotation_keeps_inner_products(problem):
    items, query, _, _ = problem
    rotated, (rotated_query,) = reference_walk.rotated(items), reference_walk.rotated(query[None])
    products = rotated.astype(np.float64) @ rotated_query.astype(np.float64)
    exact = items.astype(np.float64) @ query.astype(np.float64)
    scale = np.linalg.norm(items.astype(np.float64), axis=1) * np.linalg.norm(query.astype(np.float64))
    assert (np.abs(products - exact) <= 1e-4 * scale + 1e-35).all()


def test_neighbours_are_distinct_others():
    neighbours = WALKING.to_arrays()[0]["graph_neighbours"]
    assert neighbours.shape[0] == 2000
    assert neighbours.shape[1] in DEGREES
    for item, ids in enumerate(neighbours):
        kept = ids[ids >= 0]
        assert len(kept) > 0
        assert len(set(kept.tolist())) == len(kept)
        assert item not in kept
        assert (ids[len(kept) :] == -1).all()


def reachable(neighbours, entries):
    reached = np.zeros(len(neighbours), dtype=bool)
    ahead = np.unique(entries)
    while len(ahead):
        reached[ahead] = True
        ahead = np.unique(neighbours[ahead])
        ahead = ahead[(ahead >= 0) & ~reached[ahead]]
    return reached


def test_every_item_can_be_reached():
    arrays = WALKING.to_arrays()[0]
    assert reachable(arrays["graph_neighbours"], arrays["graph_entries"]).all()


@given(st.integers(1, 80), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_edges_can_be_changed_so_that_every_item_is_reached(n_items, degree, seed):
    """Also where most items are in islands, and where an item is its own neighbour."""
    rng = np.random.default_rng(seed)
    neighbours = (np.arange(n_items)[:, None] // 7 * 7 + rng.integers(0, 7, (n_items, degree))).astype(np.int32)
    neighbours = np.minimum(neighbours, n_items - 1)
    neighbours[np.arange(degree) >= rng.integers(0, degree + 1, (n_items, 1))] = -1
    entries = rng.integers(0, n_items, 2).astype(np.int32)
    before, reached = neighbours.copy(), reachable(neighbours, entries)
    lead_everywhere(neighbours, entries, pad_rows(rng.normal(size=(n_items, 3)).astype(np.float32)))
    assert reachable(neighbours, entries).all()
    # No more is changed than an edge for each item that was out of reach, and rows still end where they are empty.
    assert (neighbours != before).sum() <= (~reached).sum()
    assert (np.diff((neighbours < 0).astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize("power", POWERS)
def test_items_of_different_length_lie_apart(power):
    items = np.concatenate([ITEMS[:500], ITEMS[:500] / 4])
    space = likeness(items, USERS, power)
    lengths = np.linalg.norm(space, axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)
    # All but the last of 41 coordinates are a linear map of the items.
    np.testing.assert_allclose(space[500:, :40], space[:500, :40] / 4, rtol=1e-4, atol=1e-5)
    assert (space[500:, 40] > space[:500, 40]).all()


def test_near_items_of_separate_clusters_are_their_own():
    centres = 100 * np.eye(8, dtype=np.float32)
    items = (np.repeat(centres, 600, axis=0) + RNG.normal(size=(4800, 8))).astype(np.float32)
    near = near_items(items, 2)
    for item in range(0, 4800, 53):
        ids = near[item][near[item] >= 0]
        assert len(ids) >= 16
        assert (ids // 600 == item // 600).mean() > 0.99


def test_equal_items_make_a_graph_too():
    items = np.ones((9000, 4), dtype=np.float32)
    near = near_items(items, 2)
    neighbours = connect(pad_rows(items), [near], 2, 16)
    assert (neighbours >= 0).any(axis=1).all()


def test_entries_cover_the_lists():
    lists = np.array([[5, 1], [5, 2], [5, 3], [7, 1], [7, 2], [9, -1]], dtype=np.int32)
    assert find_entries(lists, 10).tolist() == [5, 7, 9]
    assert find_entries(np.full((3, 2), -1, dtype=np.int32), 10).tolist() == [0]
