"""/health/live, asked all the while by a process of its own, and judged: nobody may keep the service from answering."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from loadtests.chaos.prober import PATIENCE
from loadtests.http.fleet import REPOSITORY

if TYPE_CHECKING:
    from loadtests.chaos.trial import Trial

# What the slowest probe on a machine that is shared with others may take, in milliseconds.
WORST_MS = 250.0


@dataclass(frozen=True)
class Probed:
    """What some probes saw, in milliseconds; `late` is the machine's own delay."""

    took: np.ndarray
    late: np.ndarray
    failed: int

    def percentile(self, share: float) -> float:
        """Return the time that `share` percent of the probes did not exceed."""
        return float(np.percentile(self.took, share)) if len(self.took) else 0.0

    @property
    def worst(self) -> float:
        """The slowest."""
        return self.percentile(100)

    @property
    def noise(self) -> float:
        """How late the machine let the probes wake up at worst."""
        return float(self.late.max()) if len(self.late) else 0.0

    def __str__(self) -> str:
        return (
            f"/health/live p99 {self.percentile(99):.0f} ms, worst {self.worst:.0f} ms, "
            f"{self.failed} of {len(self.took)} failed"
        )

    def judge(self, trial: Trial, during: str) -> None:
        """Record a fault if a probe failed or waited too long."""
        trial.did("probes", len(self.took))
        trial.check(self.failed == 0, f"/health/live fails {during}", self)
        trial.check(self.worst <= WORST_MS + self.noise, f"/health/live takes more than {WORST_MS:g} ms {during}", self)


class Probe:
    """The probing process; as a context it probes inside."""

    def __init__(self, port: int, *, fresh: bool = False) -> None:
        self._command = [sys.executable, "-m", "loadtests.chaos.prober", str(port), *(["fresh"] if fresh else [])]
        self._rows: list[tuple[float, float, float, float]] = []
        self._arrived = threading.Condition()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.since(0.0, until=0.0)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE + 5)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            began, took, late, status = line.split()
            with self._arrived:
                self._rows.append((float(began), float(took), float(late), float(status)))
                self._arrived.notify_all()

    def since(self, start: float, *, until: float | None = None) -> Probed:
        """Return the probes that were under way at any time from `start` on, times of the monotonic clock."""
        end = time.monotonic() if until is None else until
        with self._arrived:
            # The probe that is under way at the end counts too, so it is waited for.
            self._arrived.wait_for(lambda: self._rows and self._rows[-1][0] >= end, PATIENCE + 2)
            rows = [row for row in self._rows if row[0] + row[1] / 1e3 >= start and row[0] <= end]
        table = np.array(rows, dtype=float).reshape(-1, 4)
        return Probed(table[:, 1], table[:, 2], int((table[:, 3] != 200).sum()))

    def everything(self) -> Probed:
        """Return all probes so far."""
        return self.since(0.0)
