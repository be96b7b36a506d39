"""Keys with a limit: it holds over all workers, a batch gets through, and Retry-After is true."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.serving import Service
from loadtests.chaos.wire import Wire, request

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadtests.chaos.trial import Trial
    from loadtests.chaos.wire import Answer

RATE = 2_000
_KEY = "key-with-a-limit"
_HEADERS = {"X-API-Key": _KEY}
_WORKERS = 2
_BUDGET = 50
_BATCH = {"requests": [{"user_id": str(user), "budget": 256} for user in range(10)]}
_WITHIN = 0.10
# Whole seconds in Retry-After are rounded up, and the machine is not ours alone.
_GRACE = 0.3


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    for what, measure in (("one connection", one_connection), ("many connections", many_connections)):
        trial.step(f"a limit over {what}")
        with limited(trial, folder) as service:
            spent = steady(trial, service, measure)
            trial.figure(f"{what}: {spent:,.0f} products a second at a limit of {RATE:,}, {_WORKERS} workers")
            trial.check(
                abs(spent / RATE - 1) <= _WITHIN, f"a limit does not hold on {what}", f"{spent:.0f} of {RATE} a second"
            )
    trial.step("batches larger than a second's worth")
    with limited(trial, folder) as service:
        batches(trial, service)
    trial.step("Retry-After")
    with limited(trial, folder) as service:
        retry_after(trial, service)


def limited(trial: Trial, folder: object) -> Service:
    """Start a service with one key that has a limit."""
    return Service(trial, folder, workers=_WORKERS, api_keys=f"shop:{_KEY}:{RATE}")  # type: ignore[arg-type]


def steady(trial: Trial, service: Service, measure: Callable[[Service, float], int]) -> float:
    """Return the products a second that a greedy caller gets once the first credit is used up."""
    measure(service, 1.5)
    seconds = max(3.0, trial.amounts.load_seconds)
    began = time.monotonic()
    spent = measure(service, seconds)
    trial.did("seconds of greedy calls", round(seconds))
    return spent / (time.monotonic() - began)


def one_connection(service: Service, seconds: float) -> int:
    """Ask on one keep-alive connection as fast as it goes; return the products that were spent."""
    spent, end = 0, time.monotonic() + seconds
    with Wire(service.port) as wire:
        number = 0
        while time.monotonic() < end:
            number += 1
            wire.send(request(f"/recommend?user_id={number % 100}&budget={_BUDGET}", headers=_HEADERS))
            spent += spent_by(wire.final())
            time.sleep(0.002)
    return spent


def many_connections(service: Service, seconds: float) -> int:
    """Do the same on eight connections, so that every worker has some, and on fresh ones."""
    spent, lock = 0, threading.Lock()

    def ask() -> None:
        nonlocal spent
        mine, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            with Wire(service.port) as wire:
                for number in range(20):
                    wire.send(request(f"/recommend?user_id={number}&budget={_BUDGET}", headers=_HEADERS))
                    mine += spent_by(wire.final())
                    time.sleep(0.01)
        with lock:
            spent += mine

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return spent


def spent_by(answer: Answer | None) -> int:
    """Return what an answer cost; a refusal costs nothing."""
    if answer is None or answer.status not in (200, 429):
        raise RuntimeError(f"neither an answer nor a 429: {answer}")
    return int(answer.json()["spent"]) if answer.status == 200 else 0


def batches(trial: Trial, service: Service) -> None:
    """Send batches that cost more than a second's worth, waiting as told: each gets through at the first retry."""
    through, products, waits = 0, 0, 0.0
    began = time.monotonic()
    end = began + max(8.0, trial.amounts.load_seconds)
    while time.monotonic() < end:
        told = 0.0
        for attempt in range(3):
            answer = service.ask("/recommend/batch", method="POST", body=_BATCH, headers=_HEADERS)
            trial.did("batches")
            refused = answer.status == 429 or any("error" in result for result in answer.json()["results"])
            if not refused:
                through += 1
                products += sum(result["spent"] for result in answer.json()["results"])
                break
            trial.check(answer.status == 429, "a batch is refused in part", answer.body[:200])
            trial.check(attempt == 0, "Retry-After of a batch is not true", f"refused again after {told:g} s")
            told = float(answer.header("retry-after") or 1)
            trial.check(told <= 5, "Retry-After of a batch is far off", told)
            waits += told
            time.sleep(min(told, 5.0) + _GRACE)
    took = time.monotonic() - began
    trial.figure(
        f"{through} batches of 10 x 256 in {took:.1f} s, {products / took:,.0f} products a second, "
        f"told to wait {waits:.0f} s"
    )
    trial.check(through > 0, "a batch with a limited key never gets through")
    # The first second's worth is there from the beginning.
    trial.check(products <= RATE * (took + 1) * (1 + _WITHIN), "batches pass the limit", f"{products} in {took:.1f} s")
    trial.check(
        through == 0 or products >= 0.5 * RATE * took,
        "batches get far less than the limit",
        f"{products} in {took:.1f} s",
    )


def retry_after(trial: Trial, service: Service) -> None:
    """Use the credit up, then wait as told: the next call passes."""
    for _ in range(3):
        answer = None
        for number in range(400):
            answer = service.ask(f"/recommend?user_id={number % 100}&budget=256", headers=_HEADERS)
            if answer.status == 429:
                break
        if not trial.check(answer is not None and answer.status == 429, "a limit never bites") or answer is None:
            return
        told = answer.header("retry-after")
        if not trial.check(
            told is not None and told.isdigit() and int(told) >= 1, "a 429 without a proper Retry-After", told
        ):
            return
        time.sleep(int(told or 1) + _GRACE)
        statuses = [service.ask("/recommend?user_id=1&budget=16", headers=_HEADERS).status for _ in range(4)]
        trial.did("waits")
        trial.check(set(statuses) == {200}, "Retry-After is not true", f"after {told} s: {statuses}")
