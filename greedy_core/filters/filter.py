"""Filter: parsed once, applied to any model that has the attributes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from greedy_core.eligible import Eligible
from greedy_core.filters.evaluation import check, evaluate
from greedy_core.filters.parsing import parse, wrong
from greedy_core.filters.tree import And, Named, Now, leaves, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from greedy_core.attributes.table import Attributes
    from greedy_core.filters.tree import Node

# `now` stands still for so long, so that a filter with it can be kept, and replicas asked at the same time agree.
CLOCK_SECONDS = 60


def clock() -> int:
    """Return the time that `now` means: that of the last whole minute, in microseconds since 1970."""
    return int(time.time()) // CLOCK_SECONDS * CLOCK_SECONDS * 1_000_000


class Filter:
    """A filter. Immutable, and safe to share among threads.

    text      as it was given
    uses_now  whether what it lets through depends on the time
    """

    __slots__ = ("_named", "_tree", "text", "uses_now")

    def __init__(self, text: str, named: Mapping[str, Filter] | None = None) -> None:
        """Read a filter; `named` are those that it may refer to as @name. Raises InvalidFilterError."""
        self.text = text
        self._tree: Node = parse(text)
        self._named: dict[str, Filter] = {}
        self.uses_now = False
        for condition in leaves(self._tree):
            if isinstance(condition, Named):
                self._named[condition.name] = other = _named(text, condition, named or {})
                self.uses_now |= other.uses_now
            self.uses_now |= any(isinstance(value, Now) for value in values_of(condition))

    def __str__(self) -> str:
        """Return the filter as it would be written without needless signs."""
        return str(self._tree)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"

    def __and__(self, other: Filter) -> Filter:
        """Return the filter that lets through what both do."""
        both = Filter.__new__(Filter)
        both.text = f"({self.text}) and ({other.text})"
        both._tree = And((self._tree, other._tree))
        both._named = self._named | other._named
        both.uses_now = self.uses_now or other.uses_now
        return both

    @property
    def n_conditions(self) -> int:
        """How many conditions have to be looked at for every item."""
        return sum(
            self._named[condition.name].n_conditions if isinstance(condition, Named) else 1
            for condition in leaves(self._tree)
        )

    def check(self, attributes: Attributes) -> None:
        """Raise InvalidFilterError, with the place, if a model with these attributes cannot be filtered so."""
        check(self.text, self._tree, attributes)
        for other in self._named.values():
            other.check(attributes)

    def mask(self, attributes: Attributes, now: int | None = None) -> npt.NDArray[np.bool_]:
        """Return for every item whether it is let through. `now` is in microseconds since 1970, else `clock` says it.

        Raises InvalidFilterError as `check` does.
        """
        self.check(attributes)
        return self._mask(attributes, clock() if now is None else now)

    def eligible(self, attributes: Attributes, now: int | None = None) -> Eligible:
        """Return the items that are let through, for a search; at 650,000 items well under a millisecond."""
        return Eligible.from_mask(self.mask(attributes, now))

    def _mask(self, attributes: Attributes, now: int) -> npt.NDArray[np.bool_]:
        named = self._named
        return evaluate(self._tree, attributes, now, lambda name: named[name]._mask(attributes, now))  # noqa: SLF001


def _named(text: str, condition: Named, named: Mapping[str, Filter]) -> Filter:
    found = named.get(condition.name)
    if found is None:
        there = ", ".join(f"@{name}" for name in named) or "none"
        raise wrong(text, condition.place, f"there is no filter @{condition.name}; named filters are: {there}")
    return found
