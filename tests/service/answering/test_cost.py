"""The cost law, live and calibrated: known answers."""

import numpy as np
import pytest
from structlog.testing import capture_logs

from greedy_core import Bundle, Calibration, GreedyIndex, write_bundle
from service.answering.cost import DEFAULT_A, DEFAULT_B, CostLaw, CostMeter
from service.models.model import Model
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


class TestCalibratedLaw:
    """Where the live law starts."""

    def law(self, *seconds):
        points = [point | {"seconds": time} for point, time in zip(CALIBRATION["points"], seconds, strict=False)]
        return CostLaw.calibrated(Calibration.from_dict(CALIBRATION | {"points": points}))

    def test_the_line_through_both_ends_and_the_handling_of_a_request(self):
        law = self.law(10e-6 + 16 * 2e-7, 1.0, 1.0, 10e-6 + 1024 * 2e-7)
        assert law.a == pytest.approx(DEFAULT_A + 10e-6)
        assert law.b == pytest.approx(2e-7)

    def test_no_search_takes_less_than_nothing(self):
        law = self.law(1e-9, 1e-9, 1e-9, 1e-3)
        assert law.a == DEFAULT_A
        assert law.b == pytest.approx(1e-3 / 1008, rel=1e-3)

    @pytest.mark.parametrize("seconds", [(1e-5,), (1e-5, 1e-5, 1e-5, 1e-5), (3e-5, 2e-5, 2e-5, 1e-5)])
    def test_where_there_is_no_line_all_of_the_time_is_the_products(self, seconds):
        assert self.law(*seconds) == CostLaw(DEFAULT_A, 2e-7)


@pytest.mark.parametrize("stored", [{"points": [{"budget": 3, "recall_at_10": 0.5}]}, CALIBRATION | {"points": []}])
def test_a_calibration_that_cannot_be_used_counts_as_none_and_is_logged(tmp_path, stored):
    write_bundle(tmp_path / "m", index=GreedyIndex.build(np.eye(3)), calibration=stored)
    with capture_logs() as lines:
        model = Model(Bundle.open(tmp_path / "m"))
    assert model.calibration is None
    assert CostLaw.calibrated(model.calibration) == CostLaw(DEFAULT_A, DEFAULT_B)
    assert [(line["event"], line["version"]) for line in lines] == [("calibration ignored", "m")]
    assert "build the model again" in lines[0]["reason"] or "at least one point" in lines[0]["reason"]
