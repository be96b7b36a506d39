"""Admission: budgets shrink before anyone is refused, by class of caller, and the recovery is damped."""

import pytest

from service.answering.admission import Load
from service.answering.question import BATCH, INTERACTIVE
from service.settings import Settings


@pytest.fixture
def load():
    return Load(
        Settings(overload_wait_ms=10, shed_wait_ms=100, recovery_seconds=1, interactive_floor=32, batch_floor=8)
    )


def test_no_waiting_no_shrinking(load):
    assert load.is_calm()
    assert load.shrink(256, INTERACTIVE, 0.0) == 256
    assert not load.is_full(BATCH)


def test_a_little_waiting_is_calm_however_often_it_is_looked_at(load):
    load.enter(64, 0.001)
    load.pressure(0.0)
    load.pressure(0.1)
    assert load.is_calm()


def test_budgets_shrink_in_proportion(load):
    load.enter(1000, 0.020)
    assert not load.is_calm()
    assert load.shrink(256, INTERACTIVE, 0.0) == 128
    assert load.shrink(256, BATCH, 0.0) == 64


def test_down_to_the_floor_of_the_class_and_never_up(load):
    load.enter(100_000, 5.0)
    assert load.shrink(4096, INTERACTIVE, 0.0) == 32
    assert load.shrink(4096, BATCH, 0.0) == 8
    assert load.shrink(20, INTERACTIVE, 0.0) == 20


def test_batch_callers_are_refused_first(load):
    load.enter(1000, 0.05)
    assert not load.is_full(INTERACTIVE)
    assert load.is_full(BATCH)
    refusal = load.refusal(BATCH)
    assert refusal.status == 503
    assert refusal.code == "overload"
    assert (b"retry-after", b"1") in refusal.headers()
    load.enter(1000, 0.06)
    assert load.is_full(INTERACTIVE)


def test_the_recovery_is_damped(load):
    load.enter(1000, 0.040)
    assert load.pressure(0.0) == pytest.approx(4.0)
    load.leave(1000, 0.040)
    assert load.pressure(1.0) == pytest.approx(2.0)
    assert load.shrink(256, INTERACTIVE, 1.0) == 128
    assert load.shrink(256, INTERACTIVE, 2.0) == 256
    assert load.pressure(4.0) < 0.5
    assert load.is_calm()


def test_the_rise_is_not(load):
    load.pressure(0.0)
    load.enter(1000, 0.040)
    assert load.pressure(0.0) == pytest.approx(4.0)


def test_an_empty_load_is_empty(load):
    for _ in range(1000):
        load.enter(7, 0.1)
        load.enter(7, 0.3)
        load.leave(7, 0.1)
        load.leave(7, 0.3)
    assert (load.products, load.requests, load.seconds) == (0, 0, 0.0)


def test_what_runs_in_a_thread_does_not_wait():
    load = Load(Settings(), threads=2)
    load.enter(1000, 0.04)
    load.enter(1000, 0.04)
    assert load.wait() == 0
    load.enter(1000, 0.04)
    load.enter(1000, 0.04)
    assert load.wait() == pytest.approx(0.04)


def test_waiting_that_nobody_counted(load):
    for _ in range(7):
        load.note_wait(0.04)
    assert load.is_calm()
    load.note_wait(0.0)
    for _ in range(8):
        load.note_wait(0.04)
    assert load.shrink(256, INTERACTIVE, 0.0) == 64
    assert load.is_full(BATCH)
    load.note_wait(0.0)
    assert not load.is_full(BATCH)


def test_what_the_others_cost_beside_their_searches_counts(load):
    load.enter(1000, 0.010)
    for _ in range(100):
        load.note_turn(0.010, 0.030)
    assert load.wait() == pytest.approx(0.030, rel=0.01)
    for _ in range(100):
        load.note_turn(0.010, 0.005)
    assert load.wait() == pytest.approx(0.010, rel=0.01)


def test_a_hiccup_moves_the_pace_a_little(load):
    load.enter(1000, 0.010)
    load.note_turn(0.010, 100.0)
    assert load.wait() < 0.020
