"""Item positions: where an item stands among the rows, from 0 to n_items - 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.errors import InvalidQueryError

if TYPE_CHECKING:
    import numpy.typing as npt


def as_positions(positions: npt.ArrayLike, n_items: int, name: str = "exclude") -> npt.NDArray[np.int32]:
    """Return `positions` as a contiguous int32 vector of item positions, in any order and with repetitions allowed."""
    given = np.asarray(positions)
    if given.size == 0:
        return np.empty(0, dtype=np.int32)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidQueryError(
            f"{name} must be a flat list of item positions (whole numbers), but it has shape {given.shape} "
            f"and dtype {given.dtype}."
        )
    lowest, highest = given.min(), given.max()
    if lowest < 0 or highest >= n_items:
        raise InvalidQueryError(
            f"{name} names item {lowest if lowest < 0 else highest}, but items are numbered from 0 to {n_items - 1}."
        )
    return np.ascontiguousarray(given, dtype=np.int32)
