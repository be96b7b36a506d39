"""Samples of requests, for logs and for the recall monitor."""

from __future__ import annotations


class Sampler:
    """Says yes to an exact share of the calls, without random numbers."""

    __slots__ = ("_level", "_share")

    def __init__(self, share: float) -> None:
        self._share = share
        self._level = 0.0

    def due(self) -> bool:
        """Whether this one is in the sample."""
        level = self._level + self._share
        if level >= 1.0:
            self._level = level - 1.0
            return True
        self._level = level
        return False


class RateLimit:
    """Lets so many calls a second pass and counts the others. `now` is a clock that never goes back."""

    __slots__ = ("_per_second", "_since", "_used", "suppressed")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._since = 0.0
        self._used = 0
        self.suppressed = 0

    def passes(self, now: float) -> bool:
        """Whether this call may pass; one that may not is counted in `suppressed` until the caller resets it."""
        if now - self._since >= 1.0:
            self._since = now
            self._used = 0
        self._used += 1
        if self._used > self._per_second:
            self.suppressed += 1
            return False
        return True
