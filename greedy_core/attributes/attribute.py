"""One attribute of all items, over memory-mapped arrays.

Values stand in a sorted dictionary. An `Attribute` has one code for each item: 0 for a missing value, else one more
than the place of its value. A `ListAttribute` has a list of places for each item and, the other way round, the items of
each value, so that the items with a value are found without a look at the others.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.attributes.packing import code_type, invert
from greedy_core.attributes.times import EARLIEST, LATEST, write_time
from greedy_core.bundle.texts import Texts, check_offsets
from greedy_core.errors import CorruptModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.attributes.packing import Kind

    Arrays = Mapping[str, npt.NDArray[Any]]

_FLAGS = (False, True)


class Attribute:
    """An attribute with at most one value for each item: text, number, flag or time. Immutable.

    codes  one for each item
    """

    __slots__ = ("_texts", "_values", "codes", "kind", "n_missing", "n_values", "name")

    def __init__(self, name: str, kind: Kind, arrays: Arrays, n_items: int) -> None:
        """Check that no code leads outside of the dictionary. Raises CorruptModelError."""
        self.name = name
        self.kind = kind
        self._texts: Texts | None = None
        self._values: npt.NDArray[Any] | None = None
        if kind == "text":
            self._texts = Texts.from_arrays("values", arrays)
            self.n_values = len(self._texts)
        elif kind == "flag":
            self.n_values = len(_FLAGS)
        else:
            self._values = _checked_values(name, kind, arrays["values"])
            self.n_values = len(self._values)
        self.codes = _checked_codes(name, arrays["codes"], self.n_values, most=self.n_values)
        if self.codes.shape != (n_items,):
            raise _corrupt(name, f"has {len(self.codes)} codes for {n_items} items")
        self.n_missing = n_items - int(np.count_nonzero(self.codes))

    def value(self, position: int) -> str | float | bool | None:
        """Return an item's value, None if it is missing; a time as ISO 8601, a whole number as an int."""
        code = int(self.codes[position])
        return None if code == 0 else self._value(code - 1)

    def values_at(self, positions: npt.NDArray[np.integer]) -> list[tuple[int, ...]]:
        """Return the codes of the values that items have: one each, or none where it is missing."""
        return [(code,) if code else () for code in self.codes[positions].tolist()]

    def bounds(self, value: str | float | bool) -> tuple[int, int]:
        """Return the codes that a value stands between: smaller values are below the first, larger from the second on.

        The two differ by one if any item may have the value, and are the same if none has. A time is in microseconds.
        """
        if self._texts is not None:
            texts, wanted = self._texts, str(value).encode("utf-8", "surrogatepass")
            place = _place_of(texts, wanted)
            found = place < len(texts) and texts.raw(place) == wanted
            return place + 1, place + 1 + found
        if self._values is None:
            return int(value) + 1, int(value) + 2
        left, right = (int(self._values.searchsorted(value, side)) for side in ("left", "right"))
        return left + 1, right + 1

    def values(self, starts: str = "", limit: int = 20) -> list[str | float | bool]:
        """Return the first values: of a text those that begin with `starts`, of numbers and times least and largest."""
        if self._texts is not None:
            return list(_beginning_with(self._texts, starts, limit))
        places = range(self.n_values) if self._values is None else {0, self.n_values - 1}
        return [self._value(place) for place in sorted(places) if 0 <= place < self.n_values][:limit]

    def verify(self) -> None:
        """Read all values. Raises CorruptModelError for a dictionary that no build would have written."""
        if self._texts is not None:
            _verify_texts(self.name, self._texts)

    def _value(self, place: int) -> str | float | bool:
        if self._texts is not None:
            return self._texts[place]
        if self._values is None:
            return _FLAGS[place]
        if self.kind == "time":
            return write_time(int(self._values[place]))
        number = float(self._values[place])
        return int(number) if number.is_integer() and abs(number) <= 1 << 53 else number


class ListAttribute:
    """An attribute with a list of texts for each item. Immutable. An empty list is not a missing one.

    known  which items have a list
    """

    __slots__ = (
        "_codes",
        "_item_starts",
        "_items",
        "_starts",
        "_texts",
        "kind",
        "known",
        "n_missing",
        "n_values",
        "name",
    )

    def __init__(self, name: str, arrays: Arrays, n_items: int) -> None:
        """Check that no code and no position leads outside. Raises CorruptModelError."""
        self.name = name
        self.kind: Kind = "list"
        self._texts = Texts.from_arrays("values", arrays)
        self.n_values = len(self._texts)
        self._starts, self._codes = arrays["starts"], arrays["codes"]
        self._item_starts, self._items = arrays["item_starts"], arrays["items"]
        self.known: npt.NDArray[np.bool_] = arrays["known"]
        _checked_codes(name, self._codes, self.n_values, most=self.n_values - 1)
        check_offsets(name, self._starts, len(self._codes))
        check_offsets(name, self._item_starts, len(self._items))
        if self.known.dtype != np.bool_ or self.known.shape != (n_items,) or len(self._starts) != n_items + 1:
            raise _corrupt(name, f"does not have a list for each of {n_items} items")
        if len(self._item_starts) != self.n_values + 1 or len(self._items) != len(self._codes):
            raise _corrupt(name, "does not have items for each of its values")
        if self._items.dtype != np.int32 or (
            len(self._items) and (self._items.min() < 0 or self._items.max() >= n_items)
        ):
            raise _corrupt(name, "names items that do not exist")
        self.n_missing = n_items - int(np.count_nonzero(self.known))

    def value(self, position: int) -> list[str] | None:
        """Return an item's list, None if it is missing."""
        if not self.known[position]:
            return None
        return self._texts.many(self._codes[self._starts[position] : self._starts[position + 1]].tolist())

    def values_at(self, positions: npt.NDArray[np.integer]) -> list[tuple[int, ...]]:
        """Return the codes of the texts that the lists of items have."""
        starts, ends = self._starts[positions].tolist(), self._starts[positions + 1].tolist()
        return [tuple(self._codes[start:end].tolist()) for start, end in zip(starts, ends, strict=True)]

    def items_with(self, text: str) -> npt.NDArray[np.int32]:
        """Return the ascending positions of the items whose lists have a text, as a read-only view."""
        texts, wanted = self._texts, text.encode("utf-8", "surrogatepass")
        place = _place_of(texts, wanted)
        if place == len(texts) or texts.raw(place) != wanted:
            return self._items[:0]
        return self._items[self._item_starts[place] : self._item_starts[place + 1]]

    def values(self, starts: str = "", limit: int = 20) -> list[str]:
        """Return the first texts of all lists that begin with `starts`."""
        return _beginning_with(self._texts, starts, limit)

    def verify(self) -> None:
        """Read all. Raises CorruptModelError where the two directions differ, or for a dictionary out of order."""
        _verify_texts(self.name, self._texts)
        lengths = np.diff(self._starts)
        if lengths[~self.known].any():
            raise _corrupt(self.name, "has values in a list that is missing")
        inverse = invert(self._codes, lengths, self.n_values)
        same = np.array_equal(inverse["items"], self._items)
        if not same or not np.array_equal(inverse["item_starts"], self._item_starts):
            raise _corrupt(self.name, "says one thing by item and another by value")


def _place_of(texts: Texts, wanted: bytes) -> int:
    """Return the place of the first text of a sorted dictionary that is not below this one."""
    return bisect_left(range(len(texts)), wanted, key=lambda at: texts.raw(at).tobytes())


def _beginning_with(texts: Texts, starts: str, limit: int) -> list[str]:
    wanted = starts.encode("utf-8", "surrogatepass")
    first = _place_of(texts, wanted)
    some = range(first, min(first + limit, len(texts)))
    return [texts[place] for place in some if texts.raw(place)[: len(wanted)] == wanted]


def _checked_codes(name: str, codes: npt.NDArray[Any], n_values: int, *, most: int) -> npt.NDArray[Any]:
    if codes.dtype != code_type(n_values) or codes.ndim != 1:
        raise _corrupt(name, f"has codes of {codes.dtype} for {n_values} values")
    if len(codes) and codes.max() > most:
        raise _corrupt(name, f"has a code {codes.max()} for {n_values} values")
    return codes


def _checked_values(name: str, kind: Kind, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype != (np.float64 if kind == "number" else np.int64) or values.ndim != 1:
        raise _corrupt(name, f"is a {kind} with values of {values.dtype}")
    # Not a number is above nothing and below nothing, and fails here, too.
    in_order = len(values) == 0 or (bool((values[1:] > values[:-1]).all()) and bool(np.isfinite(values).all()))
    if not in_order:
        raise _corrupt(name, "has values that are not in order")
    if kind == "time" and len(values) and (values[0] < EARLIEST or values[-1] > LATEST):
        raise _corrupt(name, "has a time outside of the years 1 to 9999")
    return values


def _verify_texts(name: str, texts: Texts) -> None:
    texts.verify()
    encoded = [texts.raw(place).tobytes() for place in range(len(texts))]
    if any(after <= before for before, after in pairwise(encoded)):
        raise _corrupt(name, "has values that are not in order")


def _corrupt(name: str, what: str) -> CorruptModelError:
    return CorruptModelError(f"the attribute {name!r} {what}; build the model again.")
