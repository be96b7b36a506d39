"""The line: interactive callers first, in turns that end, and what a turn says about the pace."""

import asyncio
from time import perf_counter

import pytest

from service.answering.admission import Load
from service.answering.question import BATCH, INTERACTIVE, Question
from service.front.line import BATCH_TURN, SLICE_SECONDS, Line
from service.settings import Settings


class Caller:
    """Somebody who waits, whose search takes a moment of pure work."""

    def __init__(self, name, served, seconds=0.0):
        self.name = name
        self.question = Question(10, 0.0)
        self.arrival = perf_counter()
        self._served = served
        self._seconds = seconds

    def serve(self):
        end = perf_counter() + self._seconds
        while perf_counter() < end:
            pass
        self._served.append(self.name)


@pytest.fixture
def load():
    return Load(Settings())


def all_served(load, enter):
    """Fill the line and let the loop work it off; return the order in which callers were served."""

    async def work():
        served = []
        line = Line(load, asyncio.get_running_loop())
        enter(line, served)
        while not line.is_empty:  # noqa: ASYNC110 - turns of the loop are what this is about
            await asyncio.sleep(0)
        return served

    return asyncio.run(work())


def test_interactive_callers_first_and_no_batch_caller_starves(load):
    def enter(line, served):
        for n in range(3):
            line.enter(Caller(f"batch {n}", served), BATCH, 1, 1e-6)
        for n in range(20):
            line.enter(Caller(n, served), INTERACTIVE, 1, 1e-6)

    served = all_served(load, enter)
    assert [name for name in served if isinstance(name, int)] == list(range(20))
    assert served.index("batch 0") == BATCH_TURN - 1
    assert served.index("batch 1") == 2 * BATCH_TURN - 1
    assert served[-1] == "batch 2"
    assert (load.requests, load.products, load.seconds) == (0, 0, 0.0)


def test_the_line_learns_that_searches_are_not_all_that_takes_time(load):
    def enter(line, served):
        # Each takes three times as long as it is said to.
        for n in range(300):
            line.enter(Caller(n, served, 3e-4), INTERACTIVE, 1, 1e-4)

    all_served(load, enter)
    load.enter(1, 1.0)
    # What a busy machine adds counts too.
    assert load.wait() > 1.5


def test_batch_callers_say_nothing_about_the_pace(load):
    def enter(line, served):
        for n in range(100):
            line.enter(Caller(n, served, 3e-4), BATCH, 1, 1e-4)

    all_served(load, enter)
    load.enter(1, 1.0)
    assert load.wait() == 1.0


def test_the_loop_gets_its_turn_between_slices(load):
    async def work():
        served, seen = [], []
        loop = asyncio.get_running_loop()
        line = Line(load, loop)
        for n in range(3):
            line.enter(Caller(n, served, 2 * SLICE_SECONDS), INTERACTIVE, 1, 1e-4)
        while not line.is_empty:
            seen.append(len(served))
            await asyncio.sleep(0)
        return seen

    assert asyncio.run(work()) == [0, 1, 2]
