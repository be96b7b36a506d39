"""Who gets how much when there is not enough for all.

Work that waits is counted in seconds: the sum of the expected times, by the live cost law, of all that was
admitted and is not yet done. While the expected wait stays under `overload_wait_ms`, everyone gets what they
ask. Above it budgets shrink in proportion, batch callers twice as fast as interactive ones, down to the floor
of their class. Only when the wait passes `shed_wait_ms` although budgets are small, requests are refused; batch
callers at a quarter of that. The pressure rises at once and falls with a half-life, so that a recovering
service does not swing.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from service import errors
from service.answering.question import BATCH
from service.telemetry.families import PRIORITIES

if TYPE_CHECKING:
    from service.settings import Settings

# Batch callers feel the pressure this many times stronger, and are refused at this fraction of the wait.
BATCH_PRESSURE = 2.0
BATCH_SHED_FRACTION = 0.25

# Below this not even a batch caller's budget shrinks, and the arithmetic is skipped.
CALM = 1 / BATCH_PRESSURE

# What one turn says about the pace counts this much; slower than so many times the expected time is a hiccup.
PACE_SHARE = 0.1
SLOWEST = 8.0

# Waiting that nobody counted is believed when it was noted this many times in a row.
FEW = 8


class Load:
    """The admitted work of one kind that is not yet done, and the pressure it makes.

    Used by the event loop's thread only.
    """

    __slots__ = (
        "_at", "_calm", "_floors", "_half_life", "_pace", "_pressure", "_shed", "_target", "_threads", "_unseen",
        "_waits", "products", "requests", "seconds",
    )  # fmt: skip

    def __init__(self, settings: Settings, *, threads: int = 0) -> None:
        self.products = 0
        self.requests = 0
        self.seconds = 0.0
        self._threads = threads
        self._waits: deque[float] = deque([0.0], maxlen=FEW)
        self._unseen = 0.0
        self._pace = 1.0
        self._target = settings.overload_wait_ms / 1000
        shed = settings.shed_wait_ms / 1000
        self._shed = (shed, shed * BATCH_SHED_FRACTION)
        self._floors = (settings.interactive_floor, settings.batch_floor)
        self._half_life = settings.recovery_seconds
        self._pressure = 0.0
        self._at = 0.0
        self._calm = self._target * CALM

    def enter(self, products: int, seconds: float) -> None:
        """Count admitted work."""
        self.requests += 1
        self.products += products
        self.seconds += seconds

    def leave(self, products: int, seconds: float) -> None:
        """Take it off again: done, or dropped."""
        self.requests -= 1
        self.products -= products
        # Sums of floats drift; an empty queue is empty.
        self.seconds = self.seconds - seconds if self.requests else 0.0

    def wait(self) -> float:
        """Seconds that work admitted now is expected to wait; what the threads are at does not wait any more."""
        if not self._threads:
            return self.seconds * self._pace + self._unseen
        waiting = self.requests - self._threads
        return self.seconds * waiting / self.requests / self._threads if waiting > 0 else 0.0

    def note_wait(self, waited: float) -> None:
        """Note how long something has waited where nobody counts: for its turn on the event loop.

        Only what all of the last few have waited counts, so that a single hiccup is no overload.
        """
        self._waits.append(waited)
        self._unseen = min(self._waits)

    def note_turn(self, expected: float, took: float) -> None:
        """Note how long something waited for its turn that was expected to wait so many seconds of work.

        The rest is what the others cost beside their searches: reading, refusing and writing.
        """
        self._pace += PACE_SHARE * (min(max(took / expected, 1.0), SLOWEST) - self._pace)

    def pressure(self, now: float) -> float:
        """Return the expected wait over the allowed one: up at once, down with the half-life."""
        instant = self.wait() / self._target
        if self._pressure > 0.0:
            damped = self._pressure * 0.5 ** ((now - self._at) / self._half_life)
            instant = max(instant, damped)
        self._pressure = instant
        self._at = now
        return instant

    def is_calm(self) -> bool:
        """Whether so little waits, and so little is left of an earlier pressure, that no budget would shrink."""
        return self.seconds + self._unseen < self._calm and self._pressure < CALM

    def is_full(self, priority: int) -> bool:
        """Whether work of this class would wait too long even with small budgets."""
        return self.wait() > self._shed[priority]

    def refusal(self, priority: int) -> errors.ApiError:
        """Return the 503 for work that would wait too long."""
        return errors.overload(self.wait(), PRIORITIES[priority])

    def shrink(self, budget: int, priority: int, now: float) -> int:
        """Return what is left of a budget under the present pressure.

        At least the floor of the class, never more than asked.
        """
        pressure = self.pressure(now)
        if priority == BATCH:
            pressure *= BATCH_PRESSURE
        if pressure <= 1.0:
            return budget
        return min(budget, max(self._floors[priority], int(budget / pressure)))


class Admission:
    """The two places where work waits: the event loop, and the threads for searches too long for it."""

    def __init__(self, settings: Settings) -> None:
        self.inline = Load(settings)
        self.threaded = Load(settings, threads=settings.threads)

    def pressure(self, now: float) -> float:
        """Return the larger of both, for the metrics."""
        return max(self.inline.pressure(now), self.threaded.pressure(now))

    def products(self) -> int:
        """All products admitted and not yet done."""
        return self.inline.products + self.threaded.products

    def requests(self) -> int:
        """All requests admitted and not yet done."""
        return self.inline.requests + self.threaded.requests
