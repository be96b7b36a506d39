"""The cost law and the curve: known answers."""

import numpy as np
import pytest

from greedy_core import CalibrationError
from service.cost import CostLaw, CostMeter
from service.curve import Curve
from tests.service.conftest import CALIBRATION


def feed(meter, law, budgets, *, folds=60, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(folds):
        for _ in range(40):
            budget = int(rng.choice(budgets))
            meter.observe(budget, law.seconds(budget) * (1 + noise * rng.random()))
        meter.fold()
    return meter.law


def test_the_line_is_found():
    true = CostLaw(50e-6, 300e-9)
    found = feed(CostMeter(CostLaw(10e-6, 100e-9)), true, [16, 64, 256, 1024])
    assert found.a == pytest.approx(true.a, rel=0.05)
    assert found.b == pytest.approx(true.b, rel=0.05)


def test_outliers_do_not_move_it():
    true = CostLaw(50e-6, 300e-9)
    meter = CostMeter(true)
    rng = np.random.default_rng(0)
    for _ in range(50):
        for _ in range(50):
            budget = int(rng.choice([64, 256, 1024]))
            hiccup = 0.05 if rng.random() < 0.1 else 0.0
            meter.observe(budget, true.seconds(budget) + hiccup)
        meter.fold()
    assert meter.law.a == pytest.approx(true.a, rel=0.1)
    assert meter.law.b == pytest.approx(true.b, rel=0.1)


def test_one_budget_alone_keeps_the_calibrated_slope():
    meter = CostMeter(CostLaw(10e-6, 200e-9))
    law = feed(meter, CostLaw(80e-6, 200e-9), [256])
    assert law.b == pytest.approx(200e-9, rel=0.01)
    assert law.seconds(256) == pytest.approx(80e-6 + 256 * 200e-9, rel=0.01)


def test_it_follows_a_machine_that_becomes_slower():
    meter = CostMeter(CostLaw(50e-6, 100e-9))
    feed(meter, CostLaw(50e-6, 100e-9), [64, 256, 1024])
    slow = feed(meter, CostLaw(100e-6, 300e-9), [64, 256, 1024], folds=300)
    assert slow.seconds(512) == pytest.approx(CostLaw(100e-6, 300e-9).seconds(512), rel=0.1)


def test_nothing_seen_changes_nothing():
    meter = CostMeter(CostLaw(1e-5, 1e-7))
    assert meter.fold() == CostLaw(1e-5, 1e-7)


def test_it_never_costs_nothing():
    meter = CostMeter(CostLaw(0.0, 1e-7))
    meter.observe(1000, 0.0)
    law = meter.fold()
    assert law.a >= 0
    assert law.b > 0


def test_seconds_and_products_are_inverse():
    law = CostLaw(50e-6, 200e-9)
    assert law.products(law.seconds(1000)) in (999, 1000)
    assert law.products(0.0) < 0


class TestCurve:
    curve = Curve.read(CALIBRATION)

    @pytest.mark.parametrize(("recall", "budget"), [(0.01, 16), (0.5, 16), (0.75, 64), (0.9, 256), (0.99, 1024)])
    def test_calibrated_points(self, recall, budget):
        assert self.curve.budget_for(recall) == budget

    def test_between_points_it_rises(self):
        budgets = [self.curve.budget_for(recall) for recall in np.linspace(0.5, 0.99, 40)]
        assert budgets == sorted(budgets)

    def test_out_of_reach(self):
        assert self.curve.budget_for(0.999) is None

    def test_what_a_budget_buys_is_what_was_asked(self):
        for recall in (0.55, 0.7, 0.8, 0.95):
            assert self.curve.recall_at(self.curve.budget_for(recall)) >= recall - 1e-9

    def test_recall_outside_the_curve(self):
        assert self.curve.recall_at(1) == 0.5
        assert self.curve.recall_at(10**6) == 0.99

    def test_the_law_of_the_calibration(self):
        assert self.curve.law().b == pytest.approx(2e-7)

    @pytest.mark.parametrize("none", [None, {}])
    def test_no_calibration(self, none):
        assert Curve.read(none) is None

    def test_one_that_makes_no_sense(self):
        with pytest.raises(CalibrationError):
            Curve.read({"points": [{"budget": 16}]})

    def test_one_point_alone(self):
        curve = Curve.read(CALIBRATION | {"points": CALIBRATION["points"][:1]})
        assert curve.law().b == pytest.approx(2e-7)
        assert curve.budget_for(0.3) == 16
