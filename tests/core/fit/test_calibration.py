"""Calibration: known answers from a made-up curve, and a real one that holds on other queries."""

import json
from dataclasses import replace

import numpy as np
import pytest

from greedy_core import CalibrationError, CorruptModelError, GreedyIndex
from greedy_core.fit.calibration import Calibration, CalibrationPoint, calibrate
from greedy_core.fit.choice import choose, compare, costs_of_recalls
from greedy_core.fit.selectivity import SelectivityCurve
from greedy_core.fit.trial import Sample, hold_out, screenings, try_out
from greedy_core.screening import Screening


def curve(**columns):
    names = ("budget", "recall_at_10", "seconds")
    rows = zip(*(columns[name] for name in names), strict=True)
    points = tuple(
        CalibrationPoint(budget, recall, 0.01, recall, budget, seconds, seconds / budget, "threshold")
        for budget, recall, seconds in rows
    )
    return Calibration(points, 100, "axes", "threshold")


CURVE = curve(budget=[16, 64, 256], recall_at_10=[0.5, 0.9, 0.98], seconds=[10e-6, 20e-6, 60e-6])


@pytest.mark.parametrize(("recall", "budget"), [(0.0, 16), (0.5, 16), (0.7, 32), (0.9, 64), (0.94, 128), (0.98, 256)])
def test_the_budget_for_a_recall(recall, budget):
    assert CURVE.budget_for_recall(recall) == budget
    assert CURVE.recall_at(budget) >= recall - 1e-9


def test_a_recall_out_of_reach_is_refused_with_what_can_be_had():
    with pytest.raises(
        CalibrationError, match=r"no calibrated budget reaches a recall of 0.99; the largest, 256, reaches"
    ):
        CURVE.budget_for_recall(0.99)


@pytest.mark.parametrize(("microseconds", "budget"), [(10, 16), (15, 40), (20, 64), (40, 160), (60, 256), (1e6, 256)])
def test_the_budget_for_a_time(microseconds, budget):
    assert CURVE.budget_for_time(microseconds) == budget


def test_a_time_out_of_reach_is_refused_with_what_can_be_had():
    with pytest.raises(CalibrationError, match="the smallest, 16, takes 10 us"):
        CURVE.budget_for_time(9)


def test_recall_outside_of_the_grid_is_that_of_its_ends():
    assert (CURVE.recall_at(1), CURVE.recall_at(10**9)) == (0.5, 0.98)


def test_a_calibration_survives_json():
    assert Calibration.from_dict(CURVE.to_dict()) == CURVE


def test_between_two_points_the_budget_rises_with_the_recall():
    budgets = [CURVE.budget_for_recall(recall) for recall in np.linspace(0.5, 0.98, 40)]
    assert budgets == sorted(budgets)


def test_a_flat_curve_needs_no_more_than_its_first_budget():
    flat = curve(budget=[16, 64], recall_at_10=[1.0, 1.0], seconds=[1e-5, 2e-5])
    assert flat.budget_for_recall(1.0) == 16


def test_the_budget_towards_a_recall_is_the_largest_measured_where_none_reaches_it():
    assert [CURVE.budget_towards(recall) for recall in (0.5, 0.94, 0.98, 0.99, 1.0)] == [16, 128, 256, 256, 256]
    # Nobody measured filters on this curve: that of all items stands in.
    assert CURVE.budget_towards(0.9, 0.01) == 64
    few = SelectivityCurve(0.01, (16, 64), (0.9, 0.95), (0.01, 0.01))
    filtered = replace(CURVE, filtered=(few,))
    assert filtered.budget_towards(0.9, 0.01) == 16
    # Of the two shares around, the one that needs more counts; past the end of a curve, its end.
    assert filtered.budget_towards(0.9, 0.5) == 64
    assert filtered.budget_towards(0.99, 0.01) == 64


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("budget", [0, -1, 16.5, "16", None, 64]),
        ("recall_at_10", [-0.1, 1.1, float("nan"), "0.5", 0.91]),
        ("prec_at_5", [-0.1, 1.1, float("nan")]),
        ("standard_error", [-0.1, float("inf"), None]),
        ("seconds", [0.0, -1.0, float("nan"), float("inf")]),
        ("seconds_per_product", [0.0, float("nan")]),
    ],
)
def test_points_that_make_no_sense_are_refused(field, values):
    for value in values:
        stored = CURVE.to_dict()
        stored["points"] = [dict(point) for point in stored["points"]]
        stored["points"][0][field] = value
        with pytest.raises(CalibrationError, match="build the model again"):
            Calibration.from_dict(stored)


@pytest.mark.parametrize("stored", [{}, {"points": []}, {"points": [{"budget": 1}]}, {"points": [1]}])
def test_what_is_no_calibration_is_refused(stored):
    with pytest.raises(CalibrationError):
        Calibration.from_dict(stored)


@pytest.fixture(scope="module")
def model():
    """Items and users of a few topics each, so that directions matter."""
    rng = np.random.default_rng(4)
    topics = rng.normal(size=(24, 24))
    items = (rng.exponential(size=(4000, 24)) * (rng.random((4000, 24)) < 0.1)) @ topics
    users = (rng.exponential(size=(3000, 24)) * (rng.random((3000, 24)) < 0.15)) @ topics
    return items.astype(np.float32), users.astype(np.float32)


def test_held_out_queries_are_not_fitted():
    users = np.arange(6000, dtype=np.float32).reshape(3000, 2)
    fitted, held, separate = hold_out(users)
    assert (len(fitted), len(held)) == (2700, 300)
    assert not {row.tobytes() for row in fitted} & {row.tobytes() for row in held}
    assert separate
    assert hold_out(users).sample.tobytes() == held.tobytes()


def test_a_few_queries_are_used_for_both():
    few = np.ones((50, 3), dtype=np.float32)
    fitted, sample, separate = hold_out(few)
    assert (len(fitted), len(sample), separate) == (50, 50, False)


def test_the_curve_holds_on_other_queries(model):
    items, users = model
    index = GreedyIndex.build(items, queries=users[:1500], directions="principal", max_budget=1000)
    measured = calibrate(index, users[1500:2250]).for_vectors
    assert [point.budget for point in measured.points] == [8, 16, 32, 64, 128, 256, 512]
    assert measured.sample_size == 750
    recalls = [point.recall_at_10 for point in measured.points]
    assert recalls == sorted(recalls)
    others = users[2250:]
    again = try_out(index, Sample.of(index, others), [64], known=False).recalls.mean()
    point = next(point for point in measured.points if point.budget == 64)
    assert 0 < point.standard_error < 0.05
    # Two samples of 750, four standard errors of their difference.
    assert abs(again - point.recall_at_10) < 4 * np.hypot(point.standard_error, point.standard_error)


def test_every_point_is_measured(model):
    items, users = model
    index = GreedyIndex.build(items, directions="sparse", max_budget=300)
    measured = calibrate(index, users[:200], seconds=0.001)
    assert measured.sample_size == 64
    names = {str(screening) for screening in screenings(index)}
    for point in measured.points:
        assert point.seconds > 0
        assert point.seconds_per_product == pytest.approx(point.seconds / point.products)
        assert 0 <= point.prec_at_5 <= 1
        assert point.best == "sum of 16 reads"
    assert all(point.best in names for point in measured.for_vectors.points)
    assert (measured.directions, measured.screening) == ("sparse", "sum of 16 reads")
    assert measured.for_vectors.points[0].recall_at_10 < measured.points[0].recall_at_10


def test_known_users_and_vectors_have_curves_of_their_own(model):
    items, users = model
    fitted, held, _ = hold_out(users)
    index = GreedyIndex.build(items, queries=fitted, directions="graph", max_budget=300)
    measured = calibrate(index, held)
    assert measured.screening == measured.for_vectors.screening == "walk"
    sample = Sample.of(index, held)
    for curve, known in ((measured, True), (measured.for_vectors, False)):
        recalls = try_out(index, sample, [16, 64], known=known).recalls.mean(axis=1)
        assert [curve.recall_at(16), curve.recall_at(64)] == pytest.approx(recalls, abs=1e-4)
    assert measured.recall_at(16) > 0.99
    assert Calibration.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured


def test_auto_keeps_what_costs_least(model):
    items, users = model
    auto = GreedyIndex.build(items, queries=users, directions="auto", max_budget=500)
    sample = Sample.of(auto, hold_out(users).sample)
    axes = GreedyIndex.build(items, queries=users, directions="axes", max_budget=500)
    first = auto.compared[0]
    assert (first.screening, first.directions) == (str(auto.screening), auto.directions)
    assert ("walk", "graph") in {(way.screening, way.directions) for way in auto.compared}
    assert [recall for recall, _ in first.budgets] == [0.80, 0.90, 0.95, 0.99]
    arrays, info = auto.to_arrays()
    assert GreedyIndex.from_arrays(arrays, json.loads(json.dumps(info))).compared == auto.compared
    for damaged in (1, [1], [{"screening": "walk"}], [dict(first._asdict(), budgets=[[0.8]])], None):
        with pytest.raises(CorruptModelError, match="build it again"):
            GreedyIndex.from_arrays(arrays, info | {"compared": damaged})
    for auto_cost, cost in zip(costs_of_recalls(auto, sample), costs_of_recalls(axes, sample), strict=True):
        assert auto_cost < cost


def test_the_choice_is_the_cheapest_of_all_that_were_compared(model):
    items, users = model
    indexes = [GreedyIndex.build(items, queries=users, directions=kind, max_budget=500) for kind in ("sparse", "graph")]
    ways = compare(indexes, users[:300])
    assert {str(way.index.screening) for way in ways} > {"threshold", "sum of 4 reads", "walk"}
    chosen = choose(indexes, users[:300])
    best = min(ways, key=lambda way: way.cost)
    assert (chosen.screening, chosen.has_graph) == (best.index.screening, best.index.has_graph)


@pytest.mark.parametrize(("n_items", "most"), [(500, 32), (5_000, 312)])
def test_no_more_is_read_than_an_exact_scan_would(n_items, most):
    """Vectors without any structure ask for as much reading as there is."""
    rng = np.random.default_rng(4)
    items, users = (rng.standard_normal((rows, 24), dtype=np.float32) for rows in (n_items, 400))
    index = GreedyIndex.build(items, queries=users, directions="sparse", max_budget=300)
    ways = compare([index], users)
    assert max(way.index.screening.cost for way in ways) <= most
    assert all(cost <= 4 * n_items for way in ways for cost in way.costs)


def test_other_screenings_share_the_arrays(model):
    items, _ = model
    index = GreedyIndex.build(items, directions="sparse")
    other = index.screened_by(Screening("threshold"))
    assert other.to_arrays()[0]["list_ids"] is index.to_arrays()[0]["list_ids"]
    assert (str(other.screening), str(index.screening)) == ("threshold", "sum of 16 reads")


def test_an_index_without_queries_is_not_calibrated(model):
    items, users = model
    with pytest.raises(CalibrationError, match="give users"):
        calibrate(GreedyIndex.build(items), users[:0])


def test_one_item_is_enough():
    index = GreedyIndex.build(np.ones((1, 2)))
    measured = calibrate(index, np.ones((3, 2), dtype=np.float32))
    assert [(point.budget, point.recall_at_10) for point in measured.points] == [(1, 1.0)]


def test_a_calibration_has_points():
    with pytest.raises(CalibrationError, match="at least one point"):
        replace(CURVE, points=())
