"""What one part of the suite did, and what it found wrong."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Of one kind of fault, so many that differ are kept; the rest are counted.
_KEPT = 5
_ALIKE = 24


@dataclass(frozen=True)
class Amounts:
    """How much a run does. Every loop of the suite ends by one of these."""

    requests: int  # fuzzed, over all connections
    bundles: int  # damaged in one way each
    kills: int  # of each kind
    soak_seconds: float
    load_seconds: float  # of each phase of a load
    crowd: int  # connections that do nothing
    storm: int  # connections that ask for large budgets
    body_megabytes: tuple[int, ...]
    part_seconds: float  # a part that takes longer is itself a fault


QUICK = Amounts(
    requests=2_000,
    bundles=50,
    kills=1,
    soak_seconds=8,
    load_seconds=2,
    crowd=300,
    storm=0,
    body_megabytes=(1,),
    part_seconds=180,
)
SHORT = Amounts(
    requests=12_000,
    bundles=150,
    kills=2,
    soak_seconds=15,
    load_seconds=3,
    crowd=2_000,
    storm=400,
    body_megabytes=(1, 8),
    part_seconds=90,
)
LONG = Amounts(
    requests=1_000_000,
    bundles=10_000,
    kills=40,
    soak_seconds=3_600,
    load_seconds=20,
    crowd=5_000,
    storm=400,
    body_megabytes=(1, 8),
    part_seconds=7_200,
)


class TooLongError(RuntimeError):
    """A part did not end in its time."""


@dataclass
class Trial:
    """The record of one part. Faults are grouped by a short, fixed sentence; details say what was seen."""

    name: str
    amounts: Amounts
    directory: Path
    seed: int = 0
    on_step: Callable[[str], None] = lambda _: None
    done: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    details: dict[str, list[str]] = field(default_factory=dict)
    figures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.name} {self.seed}")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        """Say what is being done now."""
        self.on_step(text)

    def did(self, what: str, count: int = 1) -> None:
        """Count work; `what` is a plural."""
        self.done[what] += count

    def check(self, holds: bool, fault: str, detail: object = "") -> bool:
        """Record a fault unless `holds`; return `holds`."""
        self.done["checks"] += 1
        if not holds:
            self.faults[fault] += 1
            kept = self.details.setdefault(fault, [])
            text = str(detail)[:400]
            if text and len(kept) < _KEPT and all(text[:_ALIKE] != each[:_ALIKE] for each in kept):
                kept.append(text)
        return holds

    def figure(self, text: str) -> None:
        """Keep a measured number for the report, whether good or bad."""
        self.figures.append(text)

    def out_of_time(self, share: float = 0.8) -> bool:
        """Whether so much of the part's time is gone that what is left should be left out."""
        return time.monotonic() - self._began > self.amounts.part_seconds * share

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the part, end it when its time is over, and record what it raises as a fault."""

        def ring(*_: object) -> None:
            raise TooLongError

        before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, self.amounts.part_seconds)
        self._began = time.monotonic()
        try:
            yield
        except TooLongError:
            self.check(False, f"the part did not end within {self.amounts.part_seconds:g} s")
        except Exception as error:  # noqa: BLE001 - the other parts run on, and the table shows it
            self.check(False, "the part broke off", f"{type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            self.seconds = time.monotonic() - self._began
