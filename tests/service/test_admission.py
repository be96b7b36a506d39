"""Admission: budgets shrink before anyone is refused, by class of caller, and the recovery is damped."""

import pytest

from service.admission import BATCH, INTERACTIVE, Queue
from service.errors import ApiError
from service.settings import Settings


@pytest.fixture
def queue():
    return Queue(
        Settings(overload_wait_ms=10, shed_wait_ms=100, recovery_seconds=1, interactive_floor=32, batch_floor=8)
    )


def test_no_waiting_no_shrinking(queue):
    assert queue.is_calm()
    assert queue.shrink(256, INTERACTIVE, 0.0) == 256
    queue.check(BATCH)


def test_a_little_waiting_is_calm_however_often_it_is_looked_at(queue):
    queue.enter(64, 0.001)
    queue.pressure(0.0)
    queue.pressure(0.1)
    assert queue.is_calm()


def test_budgets_shrink_in_proportion(queue):
    queue.enter(1000, 0.020)
    assert not queue.is_calm()
    assert queue.shrink(256, INTERACTIVE, 0.0) == 128
    assert queue.shrink(256, BATCH, 0.0) == 64


def test_down_to_the_floor_of_the_class_and_never_up(queue):
    queue.enter(100_000, 5.0)
    assert queue.shrink(4096, INTERACTIVE, 0.0) == 32
    assert queue.shrink(4096, BATCH, 0.0) == 8
    assert queue.shrink(20, INTERACTIVE, 0.0) == 20


def test_batch_callers_are_refused_first(queue):
    queue.enter(1000, 0.05)
    queue.check(INTERACTIVE)
    with pytest.raises(ApiError) as refused:
        queue.check(BATCH)
    assert refused.value.status == 503
    assert refused.value.code == "overload"
    assert (b"retry-after", b"1") in refused.value.headers()
    queue.enter(1000, 0.06)
    with pytest.raises(ApiError):
        queue.check(INTERACTIVE)


def test_the_recovery_is_damped(queue):
    queue.enter(1000, 0.040)
    assert queue.pressure(0.0) == pytest.approx(4.0)
    queue.leave(1000, 0.040)
    assert queue.pressure(1.0) == pytest.approx(2.0)
    assert queue.shrink(256, INTERACTIVE, 1.0) == 128
    assert queue.shrink(256, INTERACTIVE, 2.0) == 256
    assert queue.pressure(4.0) < 0.5
    assert queue.is_calm()


def test_the_rise_is_not(queue):
    queue.pressure(0.0)
    queue.enter(1000, 0.040)
    assert queue.pressure(0.0) == pytest.approx(4.0)


def test_an_empty_queue_is_empty(queue):
    for _ in range(1000):
        queue.enter(7, 0.1)
        queue.enter(7, 0.3)
        queue.leave(7, 0.1)
        queue.leave(7, 0.3)
    assert (queue.products, queue.requests, queue.seconds) == (0, 0, 0.0)


def test_what_runs_in_a_thread_does_not_wait():
    queue = Queue(Settings(), threads=2)
    queue.enter(1000, 0.04)
    queue.enter(1000, 0.04)
    assert queue.wait() == 0
    queue.enter(1000, 0.04)
    queue.enter(1000, 0.04)
    assert queue.wait() == pytest.approx(0.04)


def test_waiting_that_nobody_counted(queue):
    for _ in range(7):
        queue.note_wait(0.04)
    assert queue.is_calm()
    queue.note_wait(0.0)
    for _ in range(8):
        queue.note_wait(0.04)
    assert queue.shrink(256, INTERACTIVE, 0.0) == 64
    with pytest.raises(ApiError):
        queue.check(BATCH)
    queue.note_wait(0.0)
    queue.check(BATCH)
