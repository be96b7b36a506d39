"""Calibration: known answers from a made-up curve, and a real one that holds on other queries."""

import json
from dataclasses import replace

import numpy as np
import pytest

from greedy_core import CalibrationError, GreedyIndex
from greedy_core.fit.calibration import Calibration, CalibrationPoint, calibrate
from greedy_core.fit.choice import choose
from greedy_core.fit.trial import Sample, Trial, hold_out, screenings, try_out
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
    measured = calibrate(index, users[1500:2250])
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
    names = {str(screening) for screening in screenings()}
    for point in measured.points:
        assert point.seconds > 0
        assert point.seconds_per_product == pytest.approx(point.seconds / point.products)
        assert 0 <= point.prec_at_5 <= 1
        assert point.best in names
    assert (measured.directions, measured.screening) == ("sparse", "sum of 16 reads")
    assert measured.for_vectors is measured


def test_users_with_a_decomposition_and_vectors_without_have_curves_of_their_own(model):
    items, users = model
    fitted, held, _ = hold_out(users)
    index = GreedyIndex.build(items, queries=fitted, directions="learned", max_budget=300)
    measured = calibrate(index, held)
    assert measured.screening == "sum of 4 reads"
    assert measured.for_vectors.screening == "sum of 16 reads"
    sample = Sample.of(index, held)
    for curve, decomposed in ((measured, True), (measured.for_vectors, False)):
        recalls = try_out(index, sample, [16, 64], known=decomposed).recalls.mean(axis=1)
        assert [curve.recall_at(16), curve.recall_at(64)] == pytest.approx(recalls, abs=1e-4)
    assert Calibration.from_dict(json.loads(json.dumps(measured.to_dict()))) == measured


def test_a_decomposition_says_more_than_the_axes_alone(model):
    items, users = model
    fitted, held, _ = hold_out(users)
    index = GreedyIndex.build(items, queries=fitted, directions="learned", max_budget=300)
    index = index.screened_by(Screening("sum", 4, 4))
    sample = Sample.of(index, held)
    with_decomposition, without = (try_out(index, sample, [16, 32, 64], known=known).mean for known in (True, False))
    assert with_decomposition > without


def test_auto_keeps_what_the_calibration_finds_best(model):
    items, users = model
    auto = GreedyIndex.build(items, queries=users, directions="auto", max_budget=500)
    held = hold_out(users).sample
    sample = Sample.of(auto, held)
    budgets = [16, 64, 256]
    axes = GreedyIndex.build(items, queries=users, directions="axes", max_budget=500)
    assert try_out(auto, sample, budgets, known=True).mean > try_out(axes, sample, budgets, known=False).mean
    assert auto.directions in ("principal", "sparse", "learned")


def test_the_choice_is_the_cheapest_that_is_good_enough(model):
    items, users = model
    index = GreedyIndex.build(items, queries=users, directions="sparse", max_budget=500)
    chosen = choose([index], users[:300])
    sample = Sample.of(index, users[:250])
    good = []
    for screening in screenings():
        at_64, at_256 = try_out(index.screened_by(screening), sample, [64, 256], known=False).recalls.mean(axis=1)
        if at_64 >= 0.9 and at_256 >= 0.98:
            good.append(screening)
    assert good, "the example is too hard to tell"
    assert chosen.screening in good
    assert chosen.screening.cost == min(screening.cost for screening in good)


def test_decompositions_and_vectors_are_read_as_far_as_each_needs(model):
    items, users = model
    index = GreedyIndex.build(items, queries=users, directions="learned", max_budget=500)
    chosen = choose([index], users[:300])
    assert chosen.screening.variant == "sum"
    sample = Sample.of(index, users[:250])
    goals = {True: (0.90, 0.98), False: (0.85, 0.97)}
    for decomposed, reads in ((True, chosen.screening.decomposed_reads), (False, chosen.screening.reads)):
        good = [
            screening.reads
            for screening in screenings()
            if screening.variant == "sum"
            and (
                try_out(index.screened_by(screening), sample, [64, 256], known=decomposed).recalls.mean(axis=1)
                >= goals[decomposed]
            ).all()
        ]
        assert good, "the example is too hard to tell"
        assert reads == good[0]


@pytest.mark.parametrize(("n_items", "most"), [(500, 4), (5_000, 16)])
def test_no_more_is_read_than_an_exact_scan_would(n_items, most):
    """Vectors without any structure ask for as much reading as there is."""
    rng = np.random.default_rng(4)
    items, users = (rng.standard_normal((rows, 24), dtype=np.float32) for rows in (n_items, 400))
    index = GreedyIndex.build(items, queries=users, directions="learned", max_budget=300)
    chosen = choose([index], users)
    sample = Sample.of(index, users[:100])
    more = try_out(index.screened_by(Screening("sum", 64, 64)), sample, [64, 256], known=True)
    assert more.mean > try_out(chosen, sample, [64, 256], known=True).mean, "the example is too easy to tell"
    assert chosen.screening.cost <= most
    assert chosen.screening.with_decomposition.cost <= most


def test_what_reaches_no_goal_is_compared_by_the_time_it_takes():
    """Reading 64 entries for each candidate takes four times as long as reading 4, and ranking four times as many."""
    index = GreedyIndex.build(np.eye(4, dtype=np.float32))
    budgets = [8, 32, 128]

    def in_time(reads, *recalls):
        recalls = np.array(recalls)[:, None]
        return Trial(index, Screening("sum", reads, reads), recalls, recalls).in_time(budgets)

    assert in_time(4, 0.3, 0.6, 0.9) == pytest.approx(0.6)
    assert in_time(64, 0.3, 0.6, 0.9) == pytest.approx((0 + 0.3 + 0.6) / 3)
    assert in_time(64, 0.6, 0.9, 1.0) < in_time(4, 0.3, 0.6, 0.9) < in_time(64, 0.95, 0.97, 1.0)


def test_centres_that_nothing_follows_are_not_kept(model, monkeypatch):
    monkeypatch.setattr("greedy_core.fit.choice.screenings", lambda: [Screening("threshold")])
    monkeypatch.setattr("greedy_core.fit.choice._DEEPEST", Screening("threshold"))
    items, users = model
    index = GreedyIndex.build(items, queries=users, directions="learned", max_budget=500)
    chosen = choose([index], users[:300])
    assert index.n_centres > 0
    assert (chosen.screening.variant, chosen.directions, chosen.n_centres) == ("threshold", "sparse", 0)


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
