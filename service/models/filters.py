"""Filters as the service has them: those of the settings, and those that a model has been asked with, kept ready.

    BUDGETREC_FILTERS='{"available": "in_stock and price is not missing"}'    filter=@available and price < 20
    BUDGETREC_DEFAULT_FILTER='@available'                                     always applies, beside a request's own

A filter is read and applied once; what it lets through is kept with the model, by its text, as long as there is room.
A model never changes, so this stays true; a filter with `now` in it is applied again when the clock, which shows whole
minutes, has moved on.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from greedy_core import Filter, InvalidFilterError, clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greedy_core import Attributes, Eligible

# A filter up to this long, on a model of up to so many items, is applied in a fraction of a millisecond.
SHORT_TEXT = 200
FEW_ITEMS = 50_000


class ConfiguredFilters:
    """The named filters and the one that always applies. Immutable."""

    def __init__(self, filters: Mapping[str, str] | None = None, default: str = "") -> None:
        """Read them: filters by name, and the one that always applies, if any. Raises InvalidFilterError."""
        self.named = {name: Filter(text) for name, text in (filters or {}).items()}
        self.default = Filter(default, self.named) if default else None

    def check(self, attributes: Attributes) -> None:
        """Raise InvalidFilterError, with the name of the filter, if one does not fit a model's attributes."""
        named = [(f"@{name}", each) for name, each in self.named.items()]
        for name, each in [*named, ("default_filter", self.default)]:
            try:
                if each is not None:
                    each.check(attributes)
            except InvalidFilterError as error:
                raise InvalidFilterError(f"{name} of the settings does not fit it: {error}", error.text) from None

    def read(self, text: str | None) -> Filter | None:
        """Return what applies to a request with this filter, or with none. Raises InvalidFilterError."""
        if text is None:
            return self.default
        own = Filter(text, self.named)
        return own if self.default is None else self.default & own


class Applied(NamedTuple):
    """A filter, and what it lets through; `now` is the time that it was applied at, None where that is the same."""

    filter: Filter
    eligible: Eligible
    now: int | None

    @property
    def bytes(self) -> int:
        """About what it takes in memory."""
        positions = self.eligible.positions
        listed = 0 if positions is None else positions.nbytes
        return self.eligible.words.nbytes + listed + 4 * len(self.filter.text) + 2048


class AppliedFilters:
    """What filters let through of one model, the lately used ones.

    `find` and `keep` are called by one thread at a time: the loader's before the model serves, then the event loop's.
    `apply` touches nothing and may be called from any.
    """

    def __init__(self, configured: ConfiguredFilters, attributes: Attributes, n_items: int, most_bytes: int) -> None:
        self._configured = configured
        self._attributes = attributes
        self._few_items = n_items <= FEW_ITEMS
        self._most_bytes = most_bytes
        self._applied: OrderedDict[str | None, Applied] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._applied)

    def find(self, text: str | None) -> Eligible | None:
        """Return what a filter lets through, if that is known and still true."""
        found = self._applied.get(text)
        if found is None or (found.now is not None and found.now != clock()):
            return None
        self._applied.move_to_end(text)
        return found.eligible

    def is_quick(self, text: str | None) -> bool:
        """Whether applying a filter takes so little time that the event loop can wait for it."""
        return self._few_items and (text is None or len(text) <= SHORT_TEXT)

    def apply(self, text: str | None) -> Applied:
        """Read a filter and find what it lets through. Raises InvalidFilterError."""
        known = self._applied.get(text)
        both = self._configured.read(text) if known is None else known.filter
        if both is None:
            raise ValueError("there is no filter to apply")
        now = clock()
        return Applied(both, both.eligible(self._attributes, now), now if both.uses_now else None)

    def keep(self, text: str | None, applied: Applied) -> None:
        """Keep what a filter lets through; what was not used for longest makes room."""
        self._forget(text)
        self._applied[text] = applied
        self.bytes += applied.bytes
        while self.bytes > self._most_bytes and len(self._applied) > 1:
            self._forget(next(iter(self._applied)))

    def _forget(self, text: str | None) -> None:
        before = self._applied.pop(text, None)
        if before is not None:
            self.bytes -= before.bytes
