"""Reductions of maximum inner product search to nearest neighbour search: the paper's eq. 2 and eq. 3.

Both append coordinates to the items so that all get (nearly) the same length; queries get zeros there. A
query is therefore never transformed in code: its product with a transformed vector needs the first n_dims
coordinates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Shrivastava and Li's constants for eq. 3: the longest item is scaled to U, kbar coordinates follow.
LONGEST = 0.83
APPENDED = 3


class Transformed(NamedTuple):
    """Items of (nearly) equal length, and that length."""

    items: NDArray[np.float32]
    radius: float


def equal_length(items: NDArray[np.float32]) -> Transformed:
    """Eq. 2: [h_j; sqrt(M - |h_j|^2)] with M the largest squared length. Exact."""
    square = _squared_lengths(items)
    longest = float(square.max())
    last = np.sqrt(np.maximum(longest - square, 0.0))
    return Transformed(np.column_stack([items, last.astype(np.float32)]), longest**0.5)


def nearly_equal_length(items: NDArray[np.float32]) -> Transformed:
    """Eq. 3: items scaled to length at most U < 1, then 1/2 - |h_j|^(2^i) appended for i = 1..kbar."""
    square = _squared_lengths(items)
    longest = float(square.max())
    scale = LONGEST / longest**0.5 if longest > 0.0 else 1.0
    power = square * scale**2
    appended = []
    for _ in range(APPENDED):
        appended.append(0.5 - power)
        power = power**2
    scaled = items * np.float32(scale)
    transformed = np.column_stack([scaled, *(column.astype(np.float32) for column in appended)])
    return Transformed(transformed, float(np.sqrt(_squared_lengths(transformed).mean())))


TRANSFORMS = {"eq2": equal_length, "eq3": nearly_equal_length}


def transform(items: NDArray[np.float32], which: str) -> Transformed:
    """Apply the reduction of that name."""
    if which not in TRANSFORMS:
        raise ValueError(f"There is no transform {which!r}; choose one of {', '.join(TRANSFORMS)}.")
    return TRANSFORMS[which](items)


def _squared_lengths(rows: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.einsum("jt,jt->j", rows, rows, dtype=np.float64)
