"""How many inner products per second a key may spend, over all workers together.

Each worker adds what it grants to its own row of shared memory and reads the rows of the others, so every worker knows
what all of them have spent without a lock. A key's allowance grows with time up to a quarter of a second's worth. A
request may overdraw it once; the next one waits until the debt is paid.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

from service.errors import key_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

# The allowance that can be saved up, in seconds.
BURST_SECONDS = 0.25


def usage_bytes(slots: int, n_keys: int) -> int:
    """Return the size of the memory that the workers share: a number for each worker and key, at least one page."""
    return max(mmap.PAGESIZE, slots * n_keys * 8)


class KeyLimit:
    """The allowance of one key as one worker sees it. Used by the event loop's thread only."""

    __slots__ = ("_allowance", "_at", "_cell", "_columns", "_rate", "_seen", "_usage")

    def __init__(self, usage: memoryview[float], cell: int, columns: Sequence[int], rate: float) -> None:
        self._usage = usage
        self._cell = cell
        self._columns = columns
        self._rate = rate
        self._at: float | None = None
        self._seen = self._total()
        # A worker that replaces another one does not know what is left and begins with nothing.
        self._allowance = 0.0 if self._seen else self._most

    def take(self, products: int, now: float) -> None:
        """Spend, or raise the 429 with the time until something may be spent again."""
        self.refill(now)
        if self._allowance <= 0:
            raise key_limit((1 - self._allowance) / self._rate)
        self._spend(products)

    def give_back(self, products: int) -> None:
        """Return what was granted and not spent."""
        if products:
            self._spend(-products)

    def refill(self, now: float) -> None:
        """Grow with time and shrink by what other workers have granted; called several times a second."""
        total = self._total()
        elapsed = 0.0 if self._at is None else now - self._at
        self._allowance = min(self._most, self._allowance + elapsed * self._rate) - (total - self._seen)
        self._seen = total
        self._at = now

    @property
    def _most(self) -> float:
        return max(1.0, self._rate * BURST_SECONDS)

    def _total(self) -> float:
        usage = self._usage
        return sum([usage[cell] for cell in self._columns])

    def _spend(self, products: int) -> None:
        self._usage[self._cell] += products
        self._seen += products
        self._allowance -= products


class KeyLimits:
    """The limits of all keys; None for a key without one."""

    def __init__(self, descriptor: int, rates: Sequence[float], *, slots: int = 1, slot: int = 0) -> None:
        n_keys = len(rates)
        usage = memoryview(mmap.mmap(descriptor, usage_bytes(slots, n_keys))).cast("d")
        self.by_key = [
            KeyLimit(usage, slot * n_keys + key, [other * n_keys + key for other in range(slots)], rate)
            if rate > 0
            else None
            for key, rate in enumerate(rates)
        ]

    def refill(self, now: float) -> None:
        """Bring all allowances up to date."""
        for limit in self.by_key:
            if limit is not None:
                limit.refill(now)
