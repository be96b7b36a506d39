"""Curves by selectivity: what they promise is kept by queries and filters that the calibration has not seen."""

import json

import numpy as np
import pytest

from greedy_core import Calibration, CalibrationError, CalibrationPoint, Eligible, GreedyIndex, calibrate
from greedy_core._kernel import few_of
from greedy_core.fit.selectivity import SHARES, SelectivityCurve

RNG = np.random.default_rng(15)
N_ITEMS = 16_000
TOPICS = RNG.normal(size=(40, 24))
ITEMS = (TOPICS[RNG.integers(0, 40, N_ITEMS)] + RNG.normal(size=(N_ITEMS, 24))).astype(np.float32)
USERS = (TOPICS[RNG.integers(0, 40, 1500)] + RNG.normal(size=(1500, 24))).astype(np.float32)


@pytest.fixture(scope="module")
def index():
    return GreedyIndex.build(ITEMS, queries=USERS[:1000], directions="graph")


@pytest.fixture(scope="module")
def calibration(index):
    return calibrate(index, USERS[1000:1300])


def held_out_recalls(index, calibration, wanted, share, kind):
    """The recall of each query that was kept back, under filters that are new, too."""
    rng = np.random.default_rng(77)
    budget = calibration.for_vectors.budget_for_recall(wanted, selectivity=share)
    recalls = []
    for queries in np.array_split(USERS[1300:], 20):
        scores = rng.random(N_ITEMS) if kind == "random" else ITEMS @ ITEMS[rng.integers(N_ITEMS)]
        mask = scores >= np.sort(scores)[-round(share * N_ITEMS)]
        truth = np.where(mask, queries @ ITEMS.T, -np.inf)
        for result, row in zip(
            index.search_batch(queries, 10, budget, eligible=Eligible.from_mask(mask)), truth, strict=True
        ):
            assert result.spent <= budget
            recalls.append(len(np.intersect1d(result.ids, np.argsort(-row)[:10])) / 10)
    return np.array(recalls)


@pytest.mark.parametrize("kind", ["random", "alike"])
@pytest.mark.parametrize("share", [0.6, 0.3, 0.19, 0.05, 0.01])
@pytest.mark.parametrize("wanted", [0.8, 0.95])
def test_a_target_recall_is_met_under_filters(index, calibration, wanted, share, kind):
    recalls = held_out_recalls(index, calibration, wanted, share, kind)
    curve = min(calibration.filtered, key=lambda curve: abs(curve.selectivity - share))
    error = np.hypot(recalls.std() / np.sqrt(len(recalls)), max(curve.standard_errors))
    assert recalls.mean() >= wanted - 2 * error


def test_there_is_a_curve_for_each_share_and_one_where_scans_end(calibration):
    shares = [curve.selectivity for curve in calibration.filtered]
    assert shares == sorted([*SHARES, few_of(N_ITEMS) / N_ITEMS], reverse=True)
    assert calibration.filtered == calibration.for_vectors.filtered
    # All that a thousandth leaves fits into a small budget.
    assert calibration.filtered[-1].budgets[-1] == 16
    assert calibration.filtered[-1].recalls[-1] == 1.0


def test_a_calibration_survives_json(calibration):
    stored = json.loads(json.dumps(calibration.to_dict()))
    assert Calibration.from_dict(stored) == calibration
    older = {name: value for name, value in stored.items() if name != "filtered"}
    assert Calibration.from_dict(older).filtered == ()
    assert Calibration.from_dict(older).budget_for_recall(0.9) == calibration.budget_for_recall(0.9)


def made_up(*curves):
    point = CalibrationPoint(100, 0.9, 0.01, 0.9, 100.0, 1e-5, 1e-7, "walk")
    return Calibration((point,), 100, "graph", "walk", filtered=curves)


def test_of_two_shares_the_harder_counts():
    calibration = made_up(
        SelectivityCurve(0.3, (100, 400), (0.5, 0.9), (0.01, 0.01)),
        SelectivityCurve(0.1, (100, 200), (0.5, 0.9), (0.01, 0.01)),
    )
    asked = (1.0, 0.7, 0.3, 0.2, 0.1, 0.01, 0.0)
    assert [calibration.budget_for_recall(0.9, share) for share in asked] == [100, 400, 400, 400, 200, 200, 200]
    assert calibration.budget_for_recall(0.7, 0.1) == 142


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda: made_up().budget_for_recall(0.5, 0.5), "calibrated without filters"),
        (lambda: made_up().budget_for_recall(0.5, 1.5), "a share from 0 to 1"),
        (
            lambda: made_up(SelectivityCurve(0.3, (100,), (0.5,), (0.01,))).budget_for_recall(0.8, 0.5),
            "a filter that leaves 30.00% of the items; the largest, 100, reaches 0.500",
        ),
        (lambda: SelectivityCurve(0.3, (100, 100), (0.5, 0.6), (0.1, 0.1)), "ascending budgets"),
        (lambda: SelectivityCurve(0.3, (100, 200), (0.5, 0.4), (0.1, 0.1)), "never fall"),
        (lambda: SelectivityCurve(0.0, (100,), (0.5,), (0.1,)), "a share of the items"),
        (lambda: SelectivityCurve(0.1, (), (), ()), "a share of the items"),
    ],
)
def test_what_cannot_be_is_refused(ask, problem):
    with pytest.raises(CalibrationError, match=problem):
        ask()
