"""From the values of a column to the arrays of an attribute.

Columns have rows; rows belong to items. What is given for a row is kept for the item at `positions[row]`, and items
without a row have missing values.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from greedy_core.attributes.times import EARLIEST, LATEST, microseconds, read_time
from greedy_core.bundle.texts import pack_texts
from greedy_core.errors import InvalidAttributesError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    Arrays = dict[str, npt.NDArray[Any]]
    Positions = npt.NDArray[np.int64]

Kind = Literal["text", "list", "number", "flag", "time"]
KINDS: tuple[Kind, ...] = ("text", "list", "number", "flag", "time")

# Whole numbers beyond this are not all float64 numbers.
_LARGEST_WHOLE = 1 << 53
_CODE_TYPES = (np.uint8, np.uint16, np.uint32)
_SHOWN = 40
_KINDS_OF_TYPES: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((str,), "text"),
    ((bool, np.bool_), "flag"),
    ((int, float, Decimal, np.integer, np.floating), "number"),
    ((date, np.datetime64), "time"),
    ((list, tuple, np.ndarray), "list"),
)
_KINDS_OF_ARRAYS: dict[str, Kind] = {"U": "text", "b": "flag", "i": "number", "u": "number", "f": "number", "M": "time"}


def infer_kind(name: str, values: Iterable[object]) -> Kind | None:
    """Return the one kind that all values have, None if all are missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind in _KINDS_OF_ARRAYS:
        return _KINDS_OF_ARRAYS[values.dtype.kind]
    found: Kind | None = None
    first = 0
    for row, value in enumerate(values):
        kind = _kind_of(value)
        if kind is None:
            if value is not None:
                raise InvalidAttributesError(
                    f"row {row} of the attribute {name} holds {_short(value)}, but a value is text, a list of texts, a "
                    "number, true or false, or a time."
                )
        elif found is None:
            found, first = kind, row
        elif found != kind:
            raise InvalidAttributesError(
                f"the attribute {name} is a {found} in row {first} and a {kind} in row {row}; give it one kind."
            )
    return found


def pack_values(
    name: str, kind: Kind, values: Sequence[Any] | npt.NDArray[Any], positions: Positions, n_items: int
) -> Arrays:
    """Return the arrays of one attribute; `name` is for messages."""
    if kind == "list":
        return _pack_lists(name, values, positions, n_items)
    if kind == "text":
        return _pack_texts(name, values, positions, n_items)
    if kind == "flag":
        codes = np.array([_flag_code(name, row, value) for row, value in enumerate(values)], dtype=np.uint8)
        return {"codes": _spread(codes, positions, n_items)}
    numbers, known = (_numbers if kind == "number" else _moments)(name, values)
    distinct, places = np.unique(numbers[known], return_inverse=True)
    codes = np.zeros(len(numbers), dtype=code_type(len(distinct)))
    codes[known] = places + 1
    return {"codes": _spread(codes, positions, n_items), "values": distinct}


def code_type(n_values: int) -> type[np.uint8 | np.uint16 | np.uint32]:
    """Return the smallest type that holds the codes 0 to `n_values`."""
    return next(kind for kind in _CODE_TYPES if n_values <= np.iinfo(kind).max)


def _spread(codes: npt.NDArray[Any], positions: Positions, n_items: int) -> npt.NDArray[Any]:
    spread = np.zeros(n_items, dtype=codes.dtype)
    spread[positions] = codes
    return spread


def _kind_of(value: object) -> Kind | None:
    """Return what a value is; the order matters, since to Python a flag is a number and a moment is a date."""
    return next((kind for types, kind in _KINDS_OF_TYPES if isinstance(value, types)), None)


def _flag_code(name: str, row: int, value: object) -> int:
    if value is None:
        return 0
    if isinstance(value, bool | np.bool_):
        return 2 if value else 1
    raise _wrong(name, row, value, "true or false")


def _encode(name: str, row: int, value: object) -> bytes:
    if not isinstance(value, str):
        raise _wrong(name, row, value, "text")
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise _wrong(name, row, value, "text that UTF-8 can hold") from None


def _pack_texts(name: str, values: Sequence[Any] | npt.NDArray[Any], positions: Positions, n_items: int) -> Arrays:
    encoded = [None if value is None else _encode(name, row, value) for row, value in enumerate(values)]
    distinct = sorted({text for text in encoded if text is not None})
    place: dict[bytes | None, int] = {text: code for code, text in enumerate(distinct, 1)}
    place[None] = 0
    codes = np.fromiter((place[text] for text in encoded), dtype=code_type(len(distinct)), count=len(encoded))
    return {"codes": _spread(codes, positions, n_items), **pack_texts("values", distinct)}


def _pack_lists(name: str, values: Sequence[Any] | npt.NDArray[Any], positions: Positions, n_items: int) -> Arrays:
    # A text that a list names twice is kept once.
    rows: list[list[bytes]] = [[] for _ in range(n_items)]
    known = np.zeros(n_items, dtype=np.bool_)
    for row, (position, value) in enumerate(zip(positions.tolist(), values, strict=True)):
        if value is None:
            continue
        if not isinstance(value, list | tuple | np.ndarray):
            raise _wrong(name, row, value, "a list of texts")
        rows[position] = list(dict.fromkeys(_encode(name, row, text) for text in value))
        known[position] = True
    distinct = sorted({text for texts in rows for text in texts})
    place = {text: code for code, text in enumerate(distinct)}
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=n_items)
    codes = np.fromiter(
        (place[text] for texts in rows for text in texts), dtype=code_type(len(distinct)), count=int(lengths.sum())
    )
    return {
        "known": known,
        "starts": starts_of(lengths),
        "codes": codes,
        **invert(codes, lengths, len(distinct)),
        **pack_texts("values", distinct),
    }


def starts_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each of several lists begins when they lie one after the other, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def invert(codes: npt.NDArray[Any], lengths: npt.NDArray[np.int64], n_values: int) -> Arrays:
    """Return, for each value, the ascending positions of the items whose lists have it."""
    items = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    counts = np.bincount(codes, minlength=n_values).astype(np.int64)
    return {"item_starts": starts_of(counts), "items": items[np.argsort(codes, kind="stable")]}


def _numbers(name: str, values: Sequence[Any] | npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return float64 numbers, and which of them are not missing; NaN is missing."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        values = [math.nan if value is None else _number(name, row, value) for row, value in enumerate(values)]
    elif values.dtype.kind in "iu" and values.size and max(-int(values.min()), int(values.max())) > _LARGEST_WHOLE:
        row = int(np.argmax((values > _LARGEST_WHOLE) | (values < -_LARGEST_WHOLE)))
        raise _too_large(name, row, values[row])
    # Adding zero makes -0 and 0 the same.
    numbers = np.asarray(values, dtype=np.float64) + 0.0
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise _wrong(name, row, float(numbers[row]), "a finite number")
    return numbers, ~np.isnan(numbers)


def _number(name: str, row: int, value: object) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | Decimal | np.integer | np.floating):
        raise _wrong(name, row, value, "a number")
    if isinstance(value, int | np.integer) and abs(int(value)) > _LARGEST_WHOLE:
        raise _too_large(name, row, value)
    return float(value)


def _moments(name: str, values: Sequence[Any] | npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return microseconds since 1970, and which of them are not missing."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "M":
        known = ~np.isnat(values)
        moments = values.astype("datetime64[us]").astype(np.int64)
    else:
        known = np.array([value is not None for value in values], dtype=np.bool_)
        moments = np.array(
            [0 if value is None else _moment(name, row, value) for row, value in enumerate(values)], dtype=np.int64
        )
    outside = known & ((moments < EARLIEST) | (moments > LATEST))
    if outside.any():
        raise _wrong(name, int(np.argmax(outside)), "a moment outside of them", "a time in the years 1 to 9999")
    return moments, known


def _moment(name: str, row: int, value: object) -> int:
    moment = microseconds(value) if isinstance(value, date) else read_time(value) if isinstance(value, str) else None
    if moment is None:
        raise _wrong(name, row, value, "a time in ISO 8601, as 2026-11-18T06:00:00Z or 2026-11-18")
    return moment


def _wrong(name: str, row: int, value: object, expected: str) -> InvalidAttributesError:
    return InvalidAttributesError(
        f"row {row} of the attribute {name} holds {_short(value)}, but {expected} was expected; mend it."
    )


def _too_large(name: str, row: int, value: object) -> InvalidAttributesError:
    return InvalidAttributesError(
        f"row {row} of the attribute {name} holds {value}, but whole numbers beyond 2**53 are not exact; "
        "give the column as text."
    )


def _short(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
