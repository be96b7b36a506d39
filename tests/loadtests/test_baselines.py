"""Every compared method against its slow reference, and what all of them have in common."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from loadtests.index import baselines
from loadtests.index.baselines import reference
from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.kmeans import spherical_centres
from loadtests.index.baselines.method import padded
from loadtests.index.baselines.pca_tree import principal_components
from loadtests.index.baselines.transforms import transform

RNG = np.random.default_rng(5)
NORMAL = RNG.standard_normal((300, 20), dtype=np.float32)
UNIFORM = RNG.random((300, 20), dtype=np.float32)
NORMAL_QUERIES = RNG.standard_normal((12, 20), dtype=np.float32)
UNIFORM_QUERIES = RNG.random((12, 20), dtype=np.float32)

# Knobs with which a method reads all items: its answer is then the exact one.
EXHAUSTIVE = [
    (baselines.NaiveFullSort, {}, {}),
    (baselines.PcaTree, {"depth": 1}, {"boost": True}),
    (baselines.Lsh, {"bits": 1, "tables": 40}, {}),
    (baselines.Sample, {}, {"samples": 200_000}),
    (baselines.Diamond, {}, {"samples": 200_000}),
    (baselines.KMeans, {"clusters": 7}, {"probes": 7}),
    (baselines.Dwedge, {"max_samples": 10_000_000}, {"samples": 10_000_000, "budget": 300}),
]
METHODS = pytest.mark.parametrize(
    ("method", "build_knobs", "query_knobs"), EXHAUSTIVE, ids=[row[0].name for row in EXHAUSTIVE]
)

# Small whole numbers: sums are exact, so the compiled method and the reference must agree to the item.
small_integers = st.integers(-4, 4).map(float)


@st.composite
def problems(draw, *, elements=small_integers):
    n_items, n_dims = draw(st.integers(2, 40)), draw(st.integers(1, 6))
    items = draw(hnp.arrays(np.float32, (n_items, n_dims), elements=elements))
    w = draw(hnp.arrays(np.float32, n_dims, elements=elements))
    return items, w


def exact(items, w, top_k):
    return reference.ranked(items, w, list(range(len(items))), top_k)


@METHODS
def test_reading_everything_gives_the_exact_answer(method, build_knobs, query_knobs):
    index = method.build(UNIFORM, **build_knobs)
    for w in UNIFORM_QUERIES:
        answer = index.query(w, 10, **query_knobs)
        assert answer.ids.tolist() == exact(UNIFORM, w, 10)
        assert answer.candidates == len(UNIFORM)
        assert answer.products >= answer.candidates
        np.testing.assert_allclose(answer.scores, UNIFORM[answer.ids] @ w, rtol=1e-5)


@METHODS
def test_a_batch_answers_as_its_queries_do(method, build_knobs, query_knobs):
    index = method.build(UNIFORM, **build_knobs)
    batch = index.query_batch(UNIFORM_QUERIES, 5, **query_knobs)
    assert batch.ids.shape == batch.scores.shape == (12, 5)
    for row, w in enumerate(UNIFORM_QUERIES):
        single = index.query(w, 5, **query_knobs)
        assert batch.ids[row].tolist() == single.ids.tolist()
        assert batch.candidates[row] == single.candidates
        assert batch.products[row] == single.products


@METHODS
def test_more_results_than_items_leaves_places_empty(method, build_knobs, query_knobs):
    build_knobs = {"clusters": 2} if "clusters" in build_knobs else build_knobs
    index = method.build(UNIFORM[:3], **build_knobs)
    assert sorted(index.query(UNIFORM_QUERIES[0], 10, **query_knobs).ids.tolist()) == [0, 1, 2]
    assert index.query_batch(UNIFORM_QUERIES[:1], 10, **query_knobs).ids[0, 3:].tolist() == [-1] * 7


@METHODS
def test_bad_input_is_refused_with_a_sentence(method, build_knobs, query_knobs):
    with pytest.raises(ValueError, match="Items hold NaN"):
        method.build(np.array([[1.0, np.nan]]), **build_knobs)
    with pytest.raises(ValueError, match=r"expected \(n_items, n_dims\)"):
        method.build(np.zeros(4), **build_knobs)
    index = method.build(UNIFORM, **build_knobs)
    with pytest.raises(ValueError, match=r"expected \(n_queries, 20\)"):
        index.query(np.ones(3), 5, **query_knobs)
    with pytest.raises(ValueError, match="Queries hold NaN"):
        index.query(np.full(20, np.inf), 5, **query_knobs)
    with pytest.raises(ValueError, match="top_k is 0"):
        index.query(UNIFORM_QUERIES[0], 0, **query_knobs)


@pytest.mark.parametrize(
    ("method", "knobs"),
    [
        (baselines.PcaTree, {"depth": 0}),
        (baselines.PcaTree, {"transform": "eq4"}),
        (baselines.Lsh, {"bits": 21}),
        (baselines.Lsh, {"tables": 0}),
        (baselines.KMeans, {"clusters": 301}),
        (baselines.Dwedge, {"max_samples": 0}),
    ],
)
def test_bad_knobs_are_refused_with_a_sentence(method, knobs):
    with pytest.raises(ValueError, match=r"expected|choose"):
        method.build(NORMAL, **knobs)


# ---- the reductions --------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(problems())
def test_equation_2_makes_nearest_mean_largest_product(problem):
    items, w = problem
    transformed, radius = transform(items, "eq2")
    np.testing.assert_allclose(np.linalg.norm(transformed, axis=1), radius, rtol=1e-5, atol=1e-6)
    asked = np.append(w, 0.0)
    distance = ((transformed.astype(np.float64) - asked) ** 2).sum(axis=1)
    constant = radius**2 + float(w @ w)
    np.testing.assert_allclose(constant - 2 * (items @ w), distance, rtol=1e-4, atol=1e-4)


def test_equation_3_makes_lengths_nearly_equal():
    items = NORMAL * RNG.random((300, 1), dtype=np.float32)
    transformed, radius = transform(items, "eq3")
    longest = np.linalg.norm(items, axis=1).max()
    scaled = np.linalg.norm(items, axis=1) * 0.83 / longest
    # The paper: |h'|^2 = kbar / 4 + |h|^(2^(kbar + 1)), with kbar = 3.
    np.testing.assert_allclose((transformed**2).sum(axis=1), 0.75 + scaled**16, rtol=1e-4)
    assert transformed.shape == (300, 23)
    assert radius == pytest.approx(0.75**0.5, rel=0.02)


@pytest.mark.parametrize("which", ["eq2", "eq3"])
@pytest.mark.parametrize("method", [baselines.PcaTree, baselines.Lsh, baselines.KMeans])
def test_both_reductions_work_under_every_method_that_needs_one(method, which):
    index = method.build(NORMAL, transform=which)
    answers = index.query_batch(NORMAL_QUERIES, 10)
    assert (answers.candidates <= len(NORMAL)).all()
    for row, w in enumerate(NORMAL_QUERIES):
        found = answers.ids[row][answers.ids[row] >= 0].tolist()
        assert found == reference.ranked(NORMAL, w, found, 10)


# ---- PCA-MIPS --------------------------------------------------------------------------------------------


def test_components_are_those_of_the_covariance():
    stretched = NORMAL * np.linspace(3.0, 0.5, 20, dtype=np.float32) + 1.0
    components = principal_components(stretched)
    values = np.linalg.eigvalsh(np.cov(stretched.T, bias=True))[::-1]
    np.testing.assert_allclose((stretched @ components.T).var(axis=0), values, rtol=1e-3)
    np.testing.assert_allclose(components @ components.T, np.eye(20), atol=1e-5)


@settings(max_examples=100, deadline=None)
@given(
    projections=hnp.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 60)), elements=small_integers),
    query=st.lists(small_integers, min_size=6, max_size=6),
    root_pivots=st.booleans(),
)
def test_the_tree_splits_and_is_searched_as_the_reference(projections, query, root_pivots):
    depth = len(projections)
    # One direction per level, each an axis of its own: a query's projections are then its coordinates.
    directions = padded(np.eye(depth, dtype=np.float32))
    # Halves lie between the whole numbers of the items, where the rounding of the query's scale does not
    # matter.
    w = np.array(query[:depth], dtype=np.float32) + np.float32(0.5)
    length = float(np.linalg.norm(w))
    tree = compiled().PcaTree(projections, directions, length)
    leaves, pivots = reference.pca_leaves(projections)
    starts = tree.leaf_start
    assert [tree.order[a:b].tolist() for a, b in pairwise(starts)] == leaves
    assert {node: tree.pivots[node] for node in pivots} == pivots
    expected = reference.pca_leaf_of(w, pivots, root_pivots=root_pivots)
    assert tree.leaf_of(padded(w[None, :])[0], root_pivots) == expected


@pytest.mark.parametrize("boost", [False, True])
def test_a_query_reads_its_leaf_and_the_leaves_one_bit_away(boost):
    index = baselines.PcaTree.build(NORMAL, depth=4)
    leaves, pivots = reference.pca_leaves(index.projections)
    components = principal_components(transform(NORMAL, "eq2").items)[:4, :20]
    radius = transform(NORMAL, "eq2").radius
    for w in NORMAL_QUERIES:
        leaf = reference.pca_leaf_of(components @ w * (radius / np.linalg.norm(w)), pivots)
        assert index.leaf_of(w) == leaf
        candidates = reference.pca_candidates(leaves, leaf, 4, boost=boost)
        answer = index.query(w, 10, boost=boost)
        assert answer.candidates == len(candidates)
        assert answer.products == len(candidates) + 4
        assert answer.ids.tolist() == reference.ranked(NORMAL, w, candidates, 10)


def test_a_deep_tree_is_every_shallower_tree():
    deep = baselines.PcaTree.build(NORMAL, depth=6)
    for depth in (1, 3, 5):
        shallow = baselines.PcaTree.build(NORMAL, depth=depth)
        for w in NORMAL_QUERIES:
            there, here = shallow.query(w, 10), deep.query(w, 10, depth=depth)
            assert here.ids.tolist() == there.ids.tolist()
            assert (here.candidates, here.products) == (there.candidates, there.products)


def test_every_node_has_a_pivot_of_its_own():
    index = baselines.PcaTree.build(NORMAL, depth=3)
    assert len(set(index.tree.pivots[4:8].tolist())) == 4


def test_an_item_asked_for_itself_is_in_its_own_leaf():
    # All items of one length: eq. 2 appends zeros, and an item as the query takes its own path down.
    unit = NORMAL / np.linalg.norm(NORMAL, axis=1, keepdims=True)
    index = baselines.PcaTree.build(unit, depth=4)
    hits = sum(j in index.query(unit[j], 1, boost=False).ids for j in range(300))
    assert hits >= 300 - 15  # the items that are pivots may be rounded to the other side
    wrong = sum(j in index.query(unit[j], 1, boost=False, root_pivots=True).ids for j in range(300))
    assert wrong < hits


# ---- LSH-MIPS --------------------------------------------------------------------------------------------


def test_buckets_are_the_signs_of_the_projections():
    index = baselines.Lsh.build(NORMAL, bits=5, tables=6)
    transformed = transform(NORMAL, "eq2").items.astype(np.float64)
    projections = transformed @ index.directions.T.astype(np.float64)
    for w in NORMAL_QUERIES:
        asked = index.directions[:, :20].astype(np.float64) @ w
        for tables in (1, 3, 6):
            for bits in (1, 4, 5):
                # Fewer bits are the first ones of each table.
                first = np.arange(30).reshape(6, 5)[:, :bits].ravel()
                candidates = reference.lsh_candidates(projections[:, first], asked[first], bits, tables)
                answer = index.query(w, 10, bits=bits, tables=tables)
                assert answer.candidates == len(candidates)
                assert answer.products == len(candidates) + bits * tables
                assert answer.ids.tolist() == reference.ranked(NORMAL, w, candidates, 10)


def test_items_and_queries_are_hashed_with_the_same_vectors():
    # All items of one length: a transformed item is the item, so as a query it meets itself in every table.
    unit = NORMAL / np.linalg.norm(NORMAL, axis=1, keepdims=True)
    right = baselines.Lsh.build(unit, bits=8, tables=1)
    wrong = baselines.Lsh.build(unit, bits=8, tables=1, foreign_queries=True)
    assert all(j in right.query(unit[j], 1).ids for j in range(300))
    assert sum(j in wrong.query(unit[j], 1).ids for j in range(300)) < 30


def test_collisions_follow_the_angle():
    # P(same sign) = 1 - angle / pi, the property that makes random projections a locality sensitive hash.
    angle = np.pi / 3
    pair = np.zeros((2, 20), dtype=np.float32)
    pair[0, 0], pair[1, 0], pair[1, 1] = 1.0, np.cos(angle), np.sin(angle)
    index = baselines.Lsh.build(pair, bits=1, tables=4000)
    met = index.directions[:, :20] @ pair.T > 0
    assert np.mean(met[:, 0] == met[:, 1]) == pytest.approx(1 - angle / np.pi, abs=0.03)


# ---- Sample-MIPS and Diamond-MSIPS -----------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(0, 100, width=32)))
def test_an_alias_table_stands_for_its_weights(weights):
    sampling = compiled().Sampling(padded(np.ones((len(weights), 1), dtype=np.float32)), 1, False)
    sampling.fill(0, weights)
    keep, other = sampling.columns["keep"][0], sampling.columns["other"][0]
    total = float(weights.astype(np.float64).sum())
    expected = weights / total if total > 0 else np.full(len(weights), 1 / len(weights))
    np.testing.assert_allclose(reference.alias_probabilities(keep, other), expected, atol=1e-6)
    assert sampling.column_sums[0] == pytest.approx(total)


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 60), st.integers(1, 12), st.integers(0, 2**64 - 1))
def test_diamond_replays_its_reference_draw_by_draw(problem, samples, budget, seed):
    items, w = problem
    index = baselines.Diamond.build(items)
    answer = index.query(w, 5, samples=samples, budget=budget, seed=seed)
    if not (np.abs(w) @ np.abs(items).T).any():
        assert answer.candidates == 0
        return
    scores = reference.sampled_scores(items, w, samples, seed, diamond=True)
    candidates = reference.best_scored(scores, budget)
    assert answer.candidates == len(candidates)
    assert answer.ids.tolist() == reference.ranked(items, w, candidates, 5)


@settings(max_examples=60, deadline=None)
@given(problems(elements=st.integers(0, 4).map(float)), st.integers(1, 60), st.integers(1, 12))
def test_sample_replays_its_reference_draw_by_draw(problem, samples, budget):
    items, w = problem
    answer = baselines.Sample.build(items).query(w, 5, samples=samples, budget=budget)
    if not (w @ items.T).any():
        assert answer.candidates == 0
        return
    candidates = reference.best_scored(reference.sampled_scores(items, w, samples, 0, diamond=False), budget)
    assert answer.candidates == len(candidates)
    assert answer.ids.tolist() == reference.ranked(items, w, candidates, 5)


def test_sample_meets_items_in_proportion_to_their_products():
    items, w = UNIFORM[:20], UNIFORM_QUERIES[0]
    scores = reference.sampled_scores(items, w, 20_000, 3, diamond=False)
    product = items @ w
    np.testing.assert_allclose([scores[j] / 20_000 for j in range(20)], product / product.sum(), rtol=0.15)


def test_diamond_scores_follow_the_squared_products():
    items, w = NORMAL[:20], NORMAL_QUERIES[0]
    scores = reference.sampled_scores(items, w, 40_000, 3, diamond=True)
    squared = (items @ w) ** 2
    assert np.corrcoef([scores[j] for j in range(20)], squared)[0, 1] > 0.95


def test_sample_refuses_negative_values_and_says_why():
    with pytest.raises(ValueError, match=r"Items hold negative values .* use Diamond-MSIPS"):
        baselines.Sample.build(NORMAL)
    with pytest.raises(ValueError, match="Queries hold negative values"):
        baselines.Sample.build(UNIFORM).query(NORMAL_QUERIES[0], 5)


# ---- dWedge ----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(1, 80), st.integers(1, 12))
def test_dwedge_hands_out_its_samples_as_the_reference(problem, samples, budget):
    items, w = problem
    answer = baselines.Dwedge.build(items, max_samples=80).query(w, 5, samples=samples, budget=budget)
    candidates = reference.best_scored(reference.dwedge_scores(items, w, samples), budget)
    assert answer.candidates == len(candidates) <= budget
    assert answer.ids.tolist() == reference.ranked(items, w, candidates, 5)


def test_cut_lists_give_the_candidates_of_whole_ones():
    whole = baselines.Dwedge.build(NORMAL, max_samples=300)
    cut = baselines.Dwedge.build(NORMAL, max_samples=64)
    for w in NORMAL_QUERIES:
        assert (
            whole.query(w, 10, samples=64, budget=20).ids.tolist()
            == cut.query(w, 10, samples=64, budget=20).ids.tolist()
        )
    with pytest.raises(ValueError, match="samples is 65; expected a whole number from 1 to 64"):
        cut.query(NORMAL_QUERIES[0], 10, samples=65)


# ---- k-means MIPS ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probes", [1, 3, 9])
def test_a_query_reads_its_nearest_clusters(probes):
    index = baselines.KMeans.build(NORMAL, clusters=9)
    assert set(index.cluster_of) == set(range(9))
    for w in NORMAL_QUERIES:
        candidates = reference.cluster_candidates(index.centres, index.cluster_of, w, probes)
        answer = index.query(w, 10, probes=probes)
        assert answer.candidates == len(candidates)
        assert answer.products == len(candidates) + 9
        assert answer.ids.tolist() == reference.ranked(NORMAL, w, candidates, 10)


def test_iterations_bring_the_centres_nearer():
    unit = transform(NORMAL, "eq2").items
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    nearness = []
    for iterations in (0, 1, 3, 10):
        centres = spherical_centres(unit, 9, iterations, seed=0)
        np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1.0, rtol=1e-5)
        nearness.append((unit @ centres.T).max(axis=1).sum())
    assert nearness == sorted(nearness)


# ---- Naive-MIPS ------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(problems(), st.integers(1, 50))
def test_naive_sorts_everything(problem, top_k):
    items, w = problem
    assert baselines.NaiveFullSort.build(items).query(w, top_k).ids.tolist() == exact(items, w, top_k)
