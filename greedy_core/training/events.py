"""Events: who met what, and perhaps how much, how well liked and when; and the gate that their columns pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import InvalidEventsError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt


# Sums of weights up to this, over as many events as memory holds, are far from what a float32 can be.
LARGEST_WEIGHT = 1e12


@dataclass(frozen=True)
class Events:
    """One row per event, in the order of the file: numbers of users and items, and columns beside them.

    times  int64, float64 or datetime64[us]: only their order matters
    notes  sentences on the table, for people
    """

    source: str
    users: npt.NDArray[np.int32]
    items: npt.NDArray[np.int32]
    user_ids: list[str]
    item_ids: list[str]
    weights: npt.NDArray[np.float32] | None = None
    ratings: npt.NDArray[np.float32] | None = None
    times: npt.NDArray[Any] | None = None
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.users)


def usable_numbers(path: Path, column: str, values: npt.NDArray[Any], start: int) -> npt.NDArray[np.float32]:
    """Return a column of numbers; refuse what is none, with its row."""
    with np.errstate(over="ignore"):
        numbers = values.astype(np.float32)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidEventsError(
            f"row {start + row} of {path} has {values[row]} in column {column}, where a finite number was expected; "
            "fill or remove it."
        )
    return numbers


def usable_weights(path: Path, column: str, values: npt.NDArray[Any], start: int) -> npt.NDArray[np.float32]:
    """Return a column of weights; refuse what does not count for an item."""
    numbers = usable_numbers(path, column, values, start)
    bad = (numbers <= 0) | (numbers > LARGEST_WEIGHT)
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidEventsError(
            f"row {start + row} of {path} has the weight {values[row]} in column {column}, but a weight is above 0 and "
            f"at most {LARGEST_WEIGHT:.0e}; remove the row, or give grades that may be low with --rating."
        )
    return numbers


def usable_times(path: Path, column: str, values: npt.NDArray[Any], start: int) -> npt.NDArray[Any]:
    """Return a column of times; refuse what is none, with its row."""
    bad = np.isnat(values) if values.dtype.kind == "M" else ~np.isfinite(values)
    if bad.any():
        row = start + int(np.argmax(bad))
        raise InvalidEventsError(f"row {row} of {path} has no time in column {column}; fill or remove it.")
    return values
