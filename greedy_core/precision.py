"""Precision: in how many bits the values of the items' rows are stored.

    float32   as they are
    float16   half the memory; 11 significant bits, up to 65,504
    bfloat16  half the memory; 8 significant bits, any size that float32 has; stored as the upper 16 bits of a float32

Rows are rounded once, to the nearest (of two, to the even one), when an index is built, and all that is learned is
learned from the rounded rows. A search widens each value to float32, which loses nothing, and computes as with rows of
float32: an index over narrow rows answers bit for bit like one over float32 rows that hold the rounded values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from greedy_core.embeddings import aligned_empty
from greedy_core.errors import InvalidEmbeddingsError

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    StoredRows = npt.NDArray[Any]

Precision = Literal["float32", "float16", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# NumPy knows no bfloat16: its bits are kept as whole numbers.
DTYPES: dict[Precision, type[np.generic]] = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16}

# By how much of itself a value may change; tiny ones in float16 by more.
ROUNDING: dict[Precision, float] = {"float32": 0.0, "float16": 2**-11, "bfloat16": 2**-8}

_LARGEST_FLOAT16 = 65_504
_BLOCK_ROWS = 1 << 14


def check_precision(precision: object) -> None:
    """Raise InvalidEmbeddingsError unless there is such a precision."""
    if precision not in PRECISIONS:
        raise InvalidEmbeddingsError(f"there are no rows of {precision!r}; choose one of {', '.join(PRECISIONS)}.")


def precision_of(rows: StoredRows) -> Precision:
    """Return the precision of rows as they are stored."""
    return next(name for name, dtype in DTYPES.items() if rows.dtype == dtype)


def narrow(vectors: Float32Array, precision: Precision) -> StoredRows:
    """Return the vectors as they are stored, on cache lines. float32 is returned as it is.

    Raises InvalidEmbeddingsError for a value that is too large for float16.
    """
    if precision == "float32":
        return vectors
    stored = aligned_empty(vectors.shape, DTYPES[precision])
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block, target = vectors[start : start + _BLOCK_ROWS], stored[start : start + _BLOCK_ROWS]
        if precision == "float16":
            _refuse_too_large(block, start)
            target[...] = block
        else:
            bits = np.ascontiguousarray(block).view(np.uint32)
            target[...] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return stored


def widen(stored: StoredRows) -> Float32Array:
    """Return stored rows as float32, without a loss; float32 itself without a copy."""
    if stored.dtype != np.uint16:
        return stored.astype(np.float32, copy=False)
    bits = stored.astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def rounded(vectors: Float32Array, precision: Precision) -> Float32Array:
    """Return the vectors with the values that a precision has. Raises InvalidEmbeddingsError, see `narrow`."""
    return widen(narrow(vectors, precision))


def _refuse_too_large(block: Float32Array, start: int) -> None:
    too_large = np.abs(block) > _LARGEST_FLOAT16
    if too_large.any():
        row, dim = (int(at) for at in np.argwhere(too_large)[0])
        raise InvalidEmbeddingsError(
            f"row {start + row} of items holds {block[row, dim]!s} in dimension {dim}, but float16 goes up to "
            f"{_LARGEST_FLOAT16}; take bfloat16, or scale the vectors down."
        )
