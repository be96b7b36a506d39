"""The numbers against a naive computation, and the measure of a model whose best answers are known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from greedy_core import CalibrationError, ExactIndex, GreedyIndex, Quality, QualityPoint, Scores
from greedy_core.training.measuring import compare, exact_ndcg, measure
from greedy_core.training.split import Split


def naive(shown, wanted):
    hits = [item in wanted for item in shown]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(wanted), 10)))
    gain = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits) if hit)
    return float(any(hits)), sum(hits) / len(wanted), gain / ideal


USERS = st.lists(
    st.tuples(st.lists(st.integers(0, 29), max_size=10, unique=True), st.sets(st.integers(0, 29), min_size=1)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(users=USERS)
def test_metrics_are_those_of_a_naive_computation(users):
    lists = np.full((len(users), 10), -1, dtype=np.int32)
    relevant = np.zeros((len(users), 30), dtype=np.float32)
    for row, (shown, wanted) in enumerate(users):
        lists[row, : len(shown)] = shown
        relevant[row, sorted(wanted)] = 1
    found = compare(lists, csr_matrix(relevant))
    expected = np.array([naive(shown, wanted) for shown, wanted in users])
    np.testing.assert_allclose(np.column_stack(found[:3]), expected)
    assert found.coverage == len({item for shown, _ in users for item in shown}) / 30


def made(n_users=80, n_items=60):
    """A model that knows: the held-out item of user u is item u modulo n_items, and its best after the one it met."""
    items = np.eye(n_items, dtype=np.float32)
    target = np.arange(n_users) % n_items
    met = (target + 1) % n_items
    users = items[target] + 2 * items[met]
    ones = np.ones(n_users, dtype=np.float32)
    shape = (n_users, n_items)
    training = csr_matrix((ones, (np.arange(n_users), met)), shape=shape)
    held_out = csr_matrix((ones, (np.arange(n_users), target)), shape=shape)
    return users.astype(np.float32), items, Split(training, held_out, np.arange(n_users), "by hand")


def test_a_model_that_knows_is_measured_to_know():
    users, items, parts = made()
    index = GreedyIndex.build(items, queries=users, directions="auto")
    quality = measure(index, users, parts.users, parts)
    assert quality.exact.hit_rate_at_10 == quality.exact.recall_at_10 == 1
    assert quality.exact.ndcg_at_10 == 1
    assert quality.exact.ndcg_at_10 == pytest.approx(
        exact_ndcg(ExactIndex.build(items), users, parts.users, parts), abs=1e-5
    )
    assert quality.popular.hit_rate_at_10 < 0.5
    assert quality.n_users == 80
    assert [point.budget for point in quality.points] == [8, 16, 32]
    # What was met is left out, and a budget of half the items keeps nearly all.
    assert quality.points[-1].share > 0.9
    assert all(
        point.share == pytest.approx(point.ndcg_at_10 / quality.exact.ndcg_at_10, abs=1e-3) for point in quality.points
    )


SCORES = Scores(0.5, 0.4, 0.3, 0.2)
QUALITY = Quality(SCORES, 0.01, SCORES, (QualityPoint(8, 0.15, 0.5), QualityPoint(32, 0.3, 1.0)), 100, "by hand")


def test_a_quality_is_kept_and_read_between_its_points():
    assert Quality.from_dict(QUALITY.to_dict()) == QUALITY
    assert QUALITY.share_at(16) == pytest.approx(0.75)
    assert QUALITY.share_at(1) == 0.5
    assert QUALITY.ndcg_at(10**6) == pytest.approx(0.3)


@pytest.mark.parametrize(
    "change",
    [
        {"points": []},
        {"exact": {"ndcg_at_10": 1}},
        {"n_users": "many"},
        {"standard_error": math.nan},
        {"points": [{"budget": 8, "ndcg_at_10": 0.1, "share": 0.1}, {"budget": 8, "ndcg_at_10": 0.1, "share": 0.1}]},
        {"popular": {"hit_rate_at_10": 2, "recall_at_10": 0, "ndcg_at_10": 0, "coverage": 0}},
    ],
)
def test_what_is_no_quality(change):
    with pytest.raises(CalibrationError, match="train"):
        Quality.from_dict(QUALITY.to_dict() | change)
