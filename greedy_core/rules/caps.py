"""Caps: at most so many items of each value of an attribute."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import numpy.typing as npt

    Positions = npt.NDArray[np.int32]
    # What one item has of each capped attribute.
    Values = tuple[tuple[Hashable, ...], ...]


class Cap(NamedTuple):
    """At most `most` items of each value.

    values  the values of items: none where it is missing, several where it is a list
    codes   one for each item of the model, where there is but one value and the code is what `values` returns
    """

    most: int
    values: Callable[[Positions], Sequence[tuple[Hashable, ...]]]
    codes: npt.NDArray[np.unsignedinteger] | None = None


class Caps:
    """Counts what was taken. An item fits as long as none of its values has been taken as often as it may be."""

    def __init__(self, caps: Sequence[Cap]) -> None:
        self._caps = caps
        self._taken: list[dict[Hashable, int]] = [{} for _ in caps]

    def __bool__(self) -> bool:
        return bool(self._caps)

    def values(self, items: Positions) -> list[Values]:
        """Return what the items have of each capped attribute."""
        if not self._caps:
            return [()] * len(items)
        return list(zip(*(cap.values(items) for cap in self._caps), strict=True))

    def fit(self, values: Values) -> bool:
        """Whether an item with these values may still come. What does not fit never will again."""
        return all(
            taken.get(value, 0) < cap.most
            for cap, taken, mine in zip(self._caps, self._taken, values, strict=True)
            for value in mine
        )

    def take(self, values: Values) -> None:
        """Count an item with these values."""
        for taken, mine in zip(self._taken, values, strict=True):
            for value in mine:
                taken[value] = taken.get(value, 0) + 1

    def that_may_fit(self, items: Positions) -> Positions:
        """Return the items without those whose value is used up, as far as that is seen at once."""
        for cap, taken in zip(self._caps, self._taken, strict=True):
            used_up = [value for value, count in taken.items() if count >= cap.most]
            if cap.codes is not None and used_up:
                items = items[~np.isin(cap.codes[items], np.array(used_up, dtype=cap.codes.dtype))]
        return items
