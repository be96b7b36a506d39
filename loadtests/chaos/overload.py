"""Three times as much as one worker can do, on a timetable that waits for nobody, and the time after it.

The worker has one core and the load generator another, so that they do not slow each other down.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from loadtests.chaos import models
from loadtests.chaos.probe import Probe
from loadtests.chaos.serving import Service, spoken, waited
from loadtests.http.connection import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loadtests.chaos.trial import Trial

# Large enough that one generator can offer three times what a worker can do.
BUDGET = 20_000
DEADLINE_MS = 100.0
_TIMES = 3.0
_LEAST_GOODPUT = 0.9
_RECOVERY_SECONDS = 5.0
# Few enough that nothing is degraded, enough that the worker is never idle.
_CONNECTIONS = 4
# The timetable is sent in strides; the timers of an event loop are a millisecond apart.
_STRIDE = 0.002


@dataclass
class Outcome:
    """What came back from one load."""

    seconds: float
    deadline_ms: float | None = None
    good: int = 0  # found by a search, and within the deadline if there is one
    degraded: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    fallbacks: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)  # of all answers with 200, in milliseconds
    paid: int = 0  # popular items that cost products all the same
    lag: float = 0.0  # how late the generator itself was at worst, in milliseconds

    def add(self, status: int, body: bytes, latency: float) -> None:
        """Count one answer."""
        self.statuses[status] += 1
        if status != 200:
            if status:
                self.codes[json.loads(body)["error"]["code"]] += 1
            return
        self.latencies.append(latency * 1e3)
        self.degraded += b'"degraded":null' not in body
        if b'"fallback":null' not in body:
            receipt = json.loads(body)
            self.fallbacks[str(receipt["fallback"])] += 1
            self.paid += receipt["spent"] > 0
        elif self.deadline_ms is None or latency * 1e3 <= self.deadline_ms:
            self.good += 1

    @property
    def goodput(self) -> float:
        """Proper answers in time, a second."""
        return self.good / self.seconds

    def __str__(self) -> str:
        p50, p99 = np.percentile(self.latencies, (50, 99)) if self.latencies else (0.0, 0.0)
        more = {**self.fallbacks, **self.codes}
        return (
            f"{self.goodput:,.0f} proper answers in time a second, statuses {dict(self.statuses)} {more or ''}, "
            f"{self.degraded:,} with a smaller budget, p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
            f"sent late by {self.lag:.0f} ms at most"
        )


def run(trial: Trial) -> None:
    folder = models.large(trial)
    deadline = f"X-Request-Deadline-Ms: {DEADLINE_MS:g}\r\n"
    # Where budgets may shrink, three times the requests are no overload for long; where they may not, some must go.
    with Service(trial, folder, max_budget=60_000) as service, apart(trial, service):
        loads(trial, service, {"with a deadline, budgets shrink": deadline})
    fixed = {"interactive_floor": BUDGET, "batch_floor": BUDGET}
    with Service(trial, folder, max_budget=60_000, **fixed) as service, apart(trial, service):
        loads(trial, service, {"with a deadline, budgets stay": deadline, "without a deadline, budgets stay": ""})


def loads(trial: Trial, service: Service, kinds: dict[str, str]) -> None:
    """Measure the capacity, then offer three times as much in some ways."""
    seconds = max(3.0, trial.amounts.load_seconds)
    trial.step("what it can do")
    asyncio.run(closed_loop(service.port, 1.0))  # warm, and the cost law learned
    # The probes take a tenth of the core, there as here.
    with Probe(service.port, fresh=True):
        peaks = [asyncio.run(closed_loop(service.port, seconds / 2)) for _ in range(2)]
    peak = max(peaks, key=lambda each: each.goodput)
    trial.figure(f"capacity: {peak}")
    rate = _TIMES * peak.goodput
    for name, headers in kinds.items():
        trial.step(f"{rate:,.0f} requests a second, {name}")
        with Probe(service.port, fresh=True) as probe:
            loaded = asyncio.run(open_loop(service.port, rate, seconds, headers, trial.seed))
            seen = probe.everything()
        trial.did("requests", sum(loaded.statuses.values()))
        trial.figure(f"offered {rate:,.0f} a second {name}: {loaded}; {seen}")
        judge(trial, loaded, peak, name)
        seen.judge(trial, "under overload")
        trial.step("recovery")
        took = waited(lambda: is_calm(service), _RECOVERY_SECONDS + 5)
        trial.figure(f"recovered {spoken(took)}")
        trial.check(
            took is not None and took <= _RECOVERY_SECONDS, "no recovery within 5 s of an overload", f"{took} s"
        )


def judge(trial: Trial, loaded: Outcome, peak: Outcome, name: str) -> None:
    """Compare what was done under overload with what must be."""
    share = loaded.goodput / peak.goodput
    trial.check(share >= _LEAST_GOODPUT, f"goodput falls under overload {name}", f"{share:.2f} of the peak: {loaded}")
    trial.check(set(loaded.statuses) <= {200, 503}, f"a strange answer under overload {name}", loaded.statuses)
    if loaded.deadline_ms is not None:
        p99 = float(np.percentile(loaded.latencies, 99)) if loaded.latencies else float("inf")
        # What the generator itself was late by, its answers may have waited to be read.
        trial.check(
            p99 <= DEADLINE_MS + loaded.lag,
            f"p99 of the answered is beyond the deadline {name}",
            f"{p99:.0f} ms of {DEADLINE_MS:.0f}",
        )
        passed = loaded.codes["deadline_passed"]
        trial.check(not passed, "a deadline that passed gives an error instead of popular items", f"{passed} times")
        trial.check(not loaded.paid, "popular items in place of a search cost products", f"{loaded.paid} times")


@contextmanager
def apart(trial: Trial, service: Service) -> Iterator[None]:
    """Give the worker one core and this process another; says so if there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        trial.figure("one core only: the load generator and the worker share it")
        yield
        return
    for pid in service.workers():
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {cores[0]})
    os.sched_setaffinity(0, {cores[1]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(cores))


def is_calm(service: Service) -> bool:
    """Whether some full budgets in a row are granted, at once."""
    for user in range(5):
        began = time.monotonic()
        answer = service.try_ask(f"/recommend?user_id={user}&budget={BUDGET}")
        if answer is None or answer.status != 200 or answer.json()["degraded"] is not None:
            return False
        if time.monotonic() - began > 0.25:
            return False
    return True


def _target(number: int) -> str:
    return f"/recommend?user_id={number % models.N_USERS}&budget={BUDGET}"


async def closed_loop(port: int, seconds: float) -> Outcome:
    """Keep the worker busy by a few callers that each wait for their answer."""
    client = Client("127.0.0.1", port)
    outcome = Outcome(seconds)
    end = time.perf_counter() + seconds

    async def caller(number: int) -> None:
        while time.perf_counter() < end:
            number += _CONNECTIONS
            began = time.perf_counter()
            answer = await client.get(_target(number))
            outcome.add(answer.status, answer.body, time.perf_counter() - began)

    await asyncio.gather(*(caller(number) for number in range(_CONNECTIONS)))
    client.close()
    return outcome


async def open_loop(port: int, rate: float, seconds: float, headers: str, seed: int) -> Outcome:
    """Send Poisson arrivals, whether or not the last ones are answered; latency counts from the sending."""
    client = Client("127.0.0.1", port)
    outcome = Outcome(seconds, DEADLINE_MS if headers else None)
    rng = np.random.default_rng(seed)
    due = np.cumsum(rng.exponential(1 / rate, int(rate * seconds * 1.2)))
    due = due[due < seconds]
    began = time.perf_counter()

    async def one(number: int) -> None:
        sent = time.perf_counter()
        answer = await client.get(_target(number), headers=headers)
        outcome.add(answer.status, answer.body, time.perf_counter() - sent)

    async with asyncio.TaskGroup() as group:
        sent = 0
        while sent < len(due):
            now = time.perf_counter() - began
            while sent < len(due) and due[sent] <= now:
                outcome.lag = max(outcome.lag, (now - due[sent]) * 1e3)
                group.create_task(one(sent))
                sent += 1
            await asyncio.sleep(_STRIDE)
    client.close()
    # A generator that could not keep up has offered less than it says.
    outcome.seconds = max(seconds, time.perf_counter() - began)
    return outcome
