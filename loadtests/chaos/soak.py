"""Steady load for a long time while models are swapped back and forth: no errors, and nothing grows."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from loadtests.chaos import models
from loadtests.chaos.oracle import Oracle, target
from loadtests.chaos.serving import Service, succeed, waited
from loadtests.chaos.wire import BrokenAnswerError, Wire, request

if TYPE_CHECKING:
    from pathlib import Path

    from loadtests.chaos.trial import Trial

_TARGETS = [target(user, budget) for user in range(50) for budget in (16, 64, 256)]
_CALLERS = 4
_SWAP_SECONDS = 2.5
_FOLLOWS = 30.0
# A quarter of the time is for warming up: caches fill, both models are opened.
_WARM = 0.25
# What the trend may add over the rest of the soak.
_MOST_MEGABYTES, _MOST_DESCRIPTORS = 24.0, 12.0


class Caller(threading.Thread):
    """One caller at a steady pace: mostly on one connection, now and then on a fresh one."""

    def __init__(self, service: Service, oracle: Oracle, number: int) -> None:
        super().__init__(daemon=True)
        self._service, self._oracle, self._number = service, oracle, number
        self.over = threading.Event()
        self.answered = 0
        self.errors: list[str] = []

    def run(self) -> None:
        """Ask until it is over."""
        while not self.over.is_set():
            try:
                with Wire(self._service.port) as wire:
                    for _ in range(200):
                        self._one(wire)
                        if self.over.is_set():
                            return
            except (OSError, BrokenAnswerError) as error:
                self.errors.append(repr(error))
                if self.over.wait(0.1):
                    return

    def _one(self, wire: Wire) -> None:
        self._number += 7
        asked = _TARGETS[self._number % len(_TARGETS)]
        identity = f"soak-{self._number}"
        wire.send(request(asked, headers={"X-Request-ID": identity}))
        answer = wire.final()
        if answer is None:
            raise ConnectionError("the connection was closed")
        self.answered += 1
        if answer.status != 200 or answer.header("x-request-id") != identity:
            self.errors.append(f"{asked}: {answer.status} {answer.body[:100]!r}")
        elif complaint := self._oracle.complaint(asked, answer):
            self.errors.append(complaint)
        self.over.wait(0.002)


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1", "v2")
    oracle = Oracle.of(trial, folder, ("v1", "v2"), _TARGETS)
    with Service(trial, folder, workers=2, poll_seconds=0.1) as service:
        callers = [Caller(service, oracle, number) for number in range(_CALLERS)]
        for caller in callers:
            caller.start()
        try:
            rows, swaps = watch(trial, service, folder, callers)
        finally:
            for caller in callers:
                caller.over.set()
            for caller in callers:
                caller.join()
        errors = [error for caller in callers for error in caller.errors]
        trial.did("requests", sum(caller.answered for caller in callers))
        trial.did("swaps", swaps)
        trial.check(not errors, "an error during the soak", f"{len(errors)}: {errors[:2]}")
        judge(trial, rows)


def watch(trial: Trial, service: Service, folder: Path, callers: list[Caller]) -> tuple[np.ndarray, int]:
    """Swap every few seconds, by pointer, by call and by rollback, and measure; return time, bytes, descriptors."""
    began, due, swaps = time.monotonic(), 0.0, 0
    rows = []
    while (now := time.monotonic() - began) < trial.amounts.soak_seconds:
        rows.append((now, service.own_memory() / 2**20, float(service.descriptors())))
        if now >= due:
            due = now + _SWAP_SECONDS
            swaps += 1
            version = change(trial, service, folder, swaps)
            took = waited(lambda version=version: service.versions(6) == {version}, _FOLLOWS)
            trial.check(
                took is not None, "a swap during the soak does not come through", f"{version}: {service.versions()}"
            )
            total = sum(caller.answered for caller in callers)
            trial.step(f"{now:.0f} s, {total:,} requests, {swaps} swaps")
        time.sleep(0.1)
    return np.array(rows), swaps


def change(trial: Trial, service: Service, folder: Path, number: int) -> str:
    """Swap in one of three ways and return the version that must be served afterwards."""
    current = (folder / "current").readlink().name
    other = "v1" if current == "v2" else "v2"
    if number % 3 == 0:
        succeed("promote", other, "--models", folder)
        return other
    if number % 3 == 1:
        answer = service.ask("/admin/reload", method="POST", body={"version": other}, timeout=_FOLLOWS)
        trial.check(answer.status == 200, "a swap during the soak is refused", answer.body[:200])
        return other
    answer = service.ask("/admin/rollback", method="POST", timeout=_FOLLOWS)
    # Where the history ends there is nothing to return to.
    trial.check(
        answer.status in (200, 409), "a rollback during the soak fails", f"{answer.status} {answer.body[:200]!r}"
    )
    return str(answer.json()["version"]) if answer.status == 200 else current


def judge(trial: Trial, rows: np.ndarray) -> None:
    """Memory and descriptors are flat: the trend of the measurements after warming up adds next to nothing."""
    late = rows[rows[:, 0] >= rows[-1, 0] * _WARM]
    length = late[-1, 0] - late[0, 0]
    for name, column, most in (("MB", 1, _MOST_MEGABYTES), ("descriptors", 2, _MOST_DESCRIPTORS)):
        slope = float(np.polyfit(late[:, 0], late[:, column], 1)[0])
        low, high = late[:, column].min(), late[:, column].max()
        trial.figure(f"{name}: {low:.0f} to {high:.0f}, trend {slope * length:+.1f} over {length:.0f} s")
        trial.check(
            slope * length <= most, f"{name} grow during the soak", f"{slope * length:+.1f} over {length:.0f} s"
        )
    trial.figure(f"load of the machine meanwhile: {os.getloadavg()[0]:.1f}")
