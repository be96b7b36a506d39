"""Decompositions: a query taken apart along centres and axes, and what a search makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import ExactIndex, GreedyIndex, InvalidEmbeddingsError, InvalidQueryError
from greedy_core.fit.centres import fit_centres
from greedy_core.fit.decomposition import FOLLOWED
from tests.strategies import problems

RNG = np.random.default_rng(11)
ITEMS = RNG.normal(size=(400, 12)).astype(np.float32)
USERS = RNG.normal(size=(300, 12)).astype(np.float32)
INDEX = GreedyIndex.build(ITEMS, queries=USERS, directions="learned", max_budget=100)


@given(problems(max_items=120), st.sampled_from(["axes", "principal", "sparse", "learned"]))
def test_a_decomposition_is_the_query_at_unit_length(problem, directions):
    items, query, _, _ = problem
    index = GreedyIndex.build(items, queries=items, directions=directions)
    decomposition = index.decompose(query[None])[0].astype(np.float64)
    arrays, _ = index.to_arrays()
    n_dims = len(query)
    axes = arrays["axes"][:, :n_dims] if "axes" in arrays else np.eye(n_dims)
    weights, centres = decomposition[n_dims:].reshape(2, -1)
    along = arrays["centres"][centres.astype(int)] if len(centres) else np.zeros((0, n_dims))
    length = np.linalg.norm(query.astype(np.float64))
    expected = query / length if length > 0 else query
    np.testing.assert_allclose(decomposition[:n_dims] @ axes + weights @ along, expected, atol=1e-5)


def test_the_nearest_centres_are_followed():
    centres = INDEX.to_arrays()[0]["centres"]
    for user, decomposition in zip(USERS[:50], INDEX.decompose(USERS[:50]), strict=True):
        nearest = np.argsort(-(centres @ user))[:FOLLOWED]
        assert decomposition[-FOLLOWED:].astype(int).tolist() == nearest.tolist()


def test_what_is_left_for_the_axes_is_shorter_than_the_query():
    left = np.linalg.norm(INDEX.decompose(USERS)[:, :12], axis=1)
    assert (left < 1).all()
    assert left.mean() < 0.8


def test_scores_are_the_exact_products_and_the_budget_holds():
    decomposition = INDEX.decompose(USERS[:1])[0]
    result = INDEX.search(USERS[0], top_k=10, budget=32, decomposition=decomposition)
    assert result.spent == 32
    exact = ExactIndex.build(ITEMS).search(USERS[0], top_k=400)
    scores = dict(zip(exact.ids.tolist(), exact.scores, strict=True))
    assert [scores[j] for j in result.ids.tolist()] == result.scores.tolist()


def test_a_batch_is_its_searches_with_and_without_decompositions():
    decompositions = [decomposition if i % 2 else None for i, decomposition in enumerate(INDEX.decompose(USERS[:20]))]
    batch = INDEX.search_batch(USERS[:20], budget=16, decompositions=decompositions, threads=2)
    for query, decomposition, found in zip(USERS, decompositions, batch, strict=False):
        alone = INDEX.search(query, budget=16, decomposition=decomposition)
        assert found.ids.tolist() == alone.ids.tolist()


def test_nothing_but_the_direction_of_a_query_matters():
    lengths = np.array([[1e-30], [1.0], [1e14]], dtype=np.float32)
    decompositions = INDEX.decompose(USERS[:1] * lengths)
    np.testing.assert_allclose(decompositions[0], decompositions[1], atol=1e-5)
    np.testing.assert_allclose(decompositions[2], decompositions[1], atol=1e-5)


def test_a_query_of_zeros_takes_items_by_id():
    nobody = np.zeros(12, dtype=np.float32)
    assert INDEX.screen(nobody, budget=5, decomposition=INDEX.decompose(nobody[None])[0]).tolist() == [0, 1, 2, 3, 4]


def changed(at, value):
    decomposition = INDEX.decompose(USERS[:1])[0].copy()
    decomposition[at] = value
    return decomposition


@pytest.mark.parametrize(
    ("decomposition", "words"),
    [
        (changed(0, np.nan), "not finite"),
        (changed(0, np.inf), "not finite"),
        (changed(-1, INDEX.n_centres), "names a centre"),
        (changed(-1, -1), "names a centre"),
        (changed(-1, np.nan), "names a centre"),
        (changed(0, 0)[:-1], "length 27"),
        (changed(0, 0)[:11], "length 11"),
        (np.zeros(12 + 2 * (INDEX.n_centres + 1), dtype=np.float32), "not of this index"),
        (changed(0, 0).astype(np.float64), "something else"),
        (changed(0, 0).tolist(), "something else"),
        (changed(0, 0)[::-1], "something else"),
        ("decomposition", "something else"),
    ],
)
def test_decompositions_that_make_no_sense(decomposition, words):
    with pytest.raises(InvalidQueryError, match=words):
        INDEX.search(USERS[0], budget=10, decomposition=decomposition)
    with pytest.raises(InvalidQueryError, match=words):
        INDEX.screen(USERS[0], budget=10, decomposition=decomposition)
    with pytest.raises(InvalidQueryError, match=words):
        INDEX.search_batch(USERS[:1], budget=10, decompositions=[decomposition])


def test_a_decomposition_is_for_sums_and_for_an_index_with_lists():
    decomposition = INDEX.decompose(USERS[:1])[0]
    with pytest.raises(InvalidQueryError, match="screening by sums"):
        INDEX.search(USERS[0], budget=10, variant="threshold", decomposition=decomposition)
    with pytest.raises(InvalidQueryError, match="not of this index"):
        ExactIndex.build(ITEMS).search(USERS[0], decomposition=decomposition)


def test_queries_that_have_no_decomposition():
    with pytest.raises(InvalidEmbeddingsError, match="queries have 11 dimensions and items 12"):
        INDEX.decompose(USERS[:, 1:])


@given(problems(max_items=200))
def test_centres_are_unit_vectors_and_fewer_than_the_queries(problem):
    centres = fit_centres(problem.items)
    assert centres.dtype == np.float32
    assert 1 <= len(centres) <= max(1, len(problem.items) // 8)
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-4)


def test_centres_are_where_the_queries_point():
    # Three bundles of queries, of any length: a centre for each, and no other direction.
    ends = np.linalg.qr(RNG.normal(size=(8, 8)))[0][:3]
    queries = np.repeat(ends, 200, axis=0) * (0.1 + RNG.exponential(size=(600, 1))) + 0.001 * RNG.normal(size=(600, 8))
    centres = fit_centres(queries.astype(np.float32))
    assert (centres @ ends.T).max(axis=1).min() > 0.99
    assert (centres @ ends.T).max(axis=0).min() > 0.99
    np.testing.assert_array_equal(centres, fit_centres(queries.astype(np.float32)))
