"""The load generator itself: it must see what a user would see."""

from __future__ import annotations

import asyncio
from collections import Counter

import numpy as np
import pytest

from loadtests.http import open_loop
from loadtests.http.open_loop import Arrival
from loadtests.http.processes import free_port
from loadtests.http.traffic import Mix, budget_class
from service.telemetry import families
from tests.deploy.stub_replica import StubReplica


def test_the_timetable_is_reproducible_and_has_the_rate_it_was_asked_for():
    arrivals = open_loop.timetable(rate=500, seconds=20, seed=3)
    assert arrivals == open_loop.timetable(rate=500, seconds=20, seed=3)
    # Poisson with mean 10,000: five standard deviations are 500.
    assert abs(len(arrivals) - 10_000) < 500
    gaps = np.diff([arrival.seconds for arrival in arrivals])
    assert gaps.min() >= 0
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1)


def test_the_mix_has_its_shares():
    budgets = Counter(arrival.budget for arrival in open_loop.timetable(rate=1000, seconds=20))
    total = sum(budgets.values())
    for budget, share in Mix().shares:
        assert budgets[budget] / total == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("budget", [1, 2, 4, 5, 16, 17, 64, 255, 256, 257, 65536, 65537])
def test_budget_classes_are_those_of_the_metrics(budget):
    assert budget_class(budget) == families.BUDGET_CLASSES[families.budget_class(budget)]


def test_a_stall_is_charged_to_every_request_that_was_due_in_it():
    """No coordinated omission: the server hangs for the first half second, and all who came meanwhile have waited."""
    stall = 0.5
    arrivals = [Arrival(i / 100, 64, "/recommend") for i in range(100)]
    with StubReplica(behaviour="pause") as replica:

        async def resume():
            replica.resume()

        measured = open_loop.run(f"http://127.0.0.1:{replica.port}", arrivals, events=[(stall, resume)])
    assert measured.failed == 0
    due = np.array([arrival.seconds for arrival in arrivals])
    waited = due < stall - 0.01
    # The event cannot come early, so this holds on any machine.
    assert (measured.latencies[waited] >= stall - due[waited] - 0.005).all()


def test_failures_are_counted_and_never_raised():
    arrivals = [Arrival(i / 1000, 64, "/recommend") for i in range(20)]
    measured = open_loop.run(f"http://127.0.0.1:{free_port()}", arrivals)
    assert measured.by_status() == {0: 20}
    with StubReplica(behaviour="reset") as replica:
        assert open_loop.run(f"http://127.0.0.1:{replica.port}", arrivals).by_status() == {0: 20}
    with StubReplica(behaviour="shed") as replica:
        measured = open_loop.run(f"http://127.0.0.1:{replica.port}", arrivals)
    assert measured.by_status() == {503: 20}
    assert "503: 20" in measured.table()


def test_percentiles_are_per_budget():
    arrivals = [Arrival(i / 1000, (16, 64)[i % 2], "/recommend") for i in range(40)]
    with StubReplica() as replica:
        measured = asyncio.run(open_loop.drive(f"http://127.0.0.1:{replica.port}", arrivals))
    assert set(measured.by_budget()) == {16, 64}
    for values in measured.by_budget().values():
        assert values == sorted(values)


def test_an_event_that_fails_is_raised_after_the_last_request():
    async def fail():
        raise RuntimeError("the deed could not be done")

    arrivals = [Arrival(i / 100, 64, "/recommend") for i in range(20)]
    with StubReplica() as replica:
        with pytest.raises(RuntimeError, match="the deed"):
            open_loop.run(f"http://127.0.0.1:{replica.port}", arrivals, events=[(0.01, fail)])
        assert len(replica.requests) == len(arrivals)
