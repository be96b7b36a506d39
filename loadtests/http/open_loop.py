"""Requests on a fixed timetable, whether or not the server keeps up.

A closed loop sends the next request when the last one is answered: a server that stalls for a second delays
one request and silently cancels the thousand that would have come meanwhile (coordinated omission). Here
arrivals are drawn before the run as a Poisson process, every one of them is sent, and latency counts from the
moment of the timetable, so that waiting for a connection, for the server or for this program is part of it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import uvloop

from loadtests.http.connection import Answer, Client
from loadtests.http.traffic import Mix, budget_class

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)


@dataclass(frozen=True)
class Arrival:
    """One line of the timetable."""

    seconds: float
    budget: int
    target: str


def timetable(*, rate: float, seconds: float, mix: Mix | None = None, seed: int = 0) -> list[Arrival]:
    """Draw Poisson arrivals of `rate` per second for `seconds`; the same seed gives the same requests."""
    source = random.Random(seed)
    mix = mix or Mix()
    arrivals = []
    now = source.expovariate(rate)
    while now < seconds:
        arrivals.append(Arrival(now, *mix.draw(source)))
        now += source.expovariate(rate)
    return arrivals


@dataclass
class Measured:
    """What came back: one row per request of the timetable, in its order."""

    budgets: np.ndarray
    latencies: np.ndarray
    lags: np.ndarray
    statuses: np.ndarray
    degraded: int
    failures: list[Answer] = field(repr=False)

    @property
    def failed(self) -> int:
        """Requests that did not get a 200."""
        return len(self.failures)

    def by_status(self) -> Counter[int]:
        """Return how many answers had each status; 0 stands for a broken connection."""
        return Counter(self.statuses.tolist())

    def by_budget(self, percentiles: Sequence[float] = PERCENTILES) -> dict[int, list[float]]:
        """Return the latency percentiles, in seconds, of each budget's successful requests."""
        good = self.statuses == 200
        return {
            int(budget): np.percentile(self.latencies[good & (self.budgets == budget)], percentiles).tolist()
            for budget in np.unique(self.budgets[good])
        }

    def table(self) -> str:
        """Return the percentiles per budget class as text, in milliseconds."""
        head = "".join(f"{'max' if each == 100 else f'p{each:g}':>10}" for each in PERCENTILES)
        lines = [f"{'budget class':>12}{'requests':>10}{head}   (ms)"]
        for budget, values in self.by_budget().items():
            row = "".join(f"{value * 1e3:>10.2f}" for value in values)
            lines.append(f"{budget_class(budget):>12}{int((self.budgets == budget).sum()):>10}{row}")
        lag = np.percentile(self.lags, 99) * 1e3
        lines.append(
            f"answers {dict(sorted(self.by_status().items()))}, degraded {self.degraded}, "
            f"sent behind the timetable: p99 {lag:.2f} ms"
        )
        return "\n".join(lines)


async def drive(
    url: str,
    arrivals: Sequence[Arrival],
    *,
    headers: str = "",
    events: Sequence[tuple[float, Callable[[], Awaitable[object]]]] = (),
) -> Measured:
    """Send the timetable to `url`; `events` are (seconds, what to do then) and run beside it."""
    host, port = url.removeprefix("http://").split(":")
    client = Client(host, int(port))
    loop = asyncio.get_running_loop()
    n_arrivals = len(arrivals)
    latencies, lags = np.zeros(n_arrivals), np.zeros(n_arrivals)
    statuses = np.zeros(n_arrivals, np.int32)
    failures: list[Answer] = []
    broken: list[Exception] = []
    degraded = 0
    # Not loop.time(): uvloop's is a millisecond coarse and stands still within one turn of the loop.
    start = time.perf_counter() + 0.05

    async def one(i: int) -> None:
        nonlocal degraded
        due = start + arrivals[i].seconds
        lags[i] = time.perf_counter() - due
        answer = await client.get(arrivals[i].target, headers=headers)
        latencies[i] = time.perf_counter() - due
        statuses[i] = answer.status
        if answer.status != 200:
            failures.append(answer)
        elif b'"degraded":null' not in answer.body:
            degraded += 1

    async def later(seconds: float, action: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(start + seconds - time.perf_counter())
        try:
            await action()
        except Exception as error:  # noqa: BLE001 - the load goes on to its end, and then this is raised
            broken.append(error)

    async with asyncio.TaskGroup() as group:
        for seconds, action in events:
            group.create_task(later(seconds, action))
        due = (start + arrival.seconds for arrival in arrivals)
        await asyncio.to_thread(_ring, due, loop, lambda i: group.create_task(one(i)))
    client.close()
    if broken:
        raise broken[0]
    budgets = np.array([arrival.budget for arrival in arrivals])
    return Measured(budgets, latencies, lags, statuses, degraded, failures)


def _ring(due: Iterable[float], loop: asyncio.AbstractEventLoop, start: Callable[[int], object]) -> None:
    """Call `start(i)` in the loop when the i-th moment is due.

    The timers of an event loop are a millisecond apart, longer than most answers take; a thread that sleeps is
    woken within some 60 microseconds.
    """
    for i, moment in enumerate(due):
        ahead = moment - time.perf_counter()
        if ahead > 0:
            time.sleep(ahead)
        loop.call_soon_threadsafe(start, i)


def run(url: str, arrivals: Sequence[Arrival], **options: object) -> Measured:
    """Call `drive` in an event loop of its own."""
    return uvloop.run(drive(url, arrivals, **options))  # type: ignore[arg-type]
