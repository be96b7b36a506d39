"""Item, user and query vectors: check them, lay them out for the kernels.

The rest of the library sees one kind of matrix only: float32, C-contiguous, native byte order, finite, at
least one row and one column. `as_embeddings` is the gate; an array that already is all that passes through
without a copy, and everything else is converted block by block: the peak is the result and a few megabytes.

    file -> formats.load_embeddings -> as_embeddings -> pad_rows -> kernels
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from greedy_core.errors import GreedyCoreError, InvalidEmbeddingsError, InvalidQueryError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

Float32Array: TypeAlias = "npt.NDArray[np.float32]"

CACHE_LINE_BYTES = 64
CACHE_LINE_FLOATS = CACHE_LINE_BYTES // 4
# Item positions are int32 everywhere, in the lists as in the results.
MAX_ROWS = 2**31 - 1
# Larger values could overflow a float32 inner product; the kernels refuse queries above the same limit.
MAX_MAGNITUDE = 1e15

_FLOAT32 = np.dtype(np.float32)
# Small enough that a block and its mask stay in the cache, large enough that the loop costs nothing.
_BLOCK_VALUES = 1 << 18
_ONE_QUERY = "the query"


class UserVectors(NamedTuple):
    """User vectors that passed the gate: finite float32 rows, zeros for those without a vector, and who has one."""

    vectors: Float32Array
    known: npt.NDArray[np.bool_] | None  # None: everybody

    @property
    def of_known(self) -> Float32Array:
        """The rows of those that have a vector; perhaps none."""
        return self.vectors if self.known is None else self.vectors[self.known]


def as_embeddings(
    array: npt.ArrayLike, *, name: str = "items", error: type[GreedyCoreError] = InvalidEmbeddingsError
) -> Float32Array:
    """Return `array` as a finite float32 matrix (n, d), C-contiguous and in native byte order.

    Any real dtype, memory order and byte order is converted; a matrix that needs no conversion is returned
    without a copy (it may be read-only or memory-mapped). What cannot be converted without loss of meaning is
    refused with `error`: `name` says in the message whose rows they are, and the first bad row is numbered.
    """
    given = _real_array(array, name, error)
    if given.ndim != 2:
        raise error(
            f"{name} must be a matrix with one row per vector, but the array given has shape {given.shape}; "
            "reshape it to (rows, dimensions)."
        )
    n_rows, n_dims = given.shape
    if n_rows == 0:
        raise error(f"{name} must have at least one row, but the array given has shape {given.shape}.")
    if n_dims == 0:
        raise error(f"{name} must have at least one dimension, but the array given has shape {given.shape}.")
    if n_rows > MAX_ROWS:
        raise error(f"{name} has {n_rows} rows, but positions are 32-bit: at most {MAX_ROWS} rows can be indexed.")
    if _is_native_float32(given):
        for start, block in _row_blocks(given):
            _refuse_unusable(block, block, start, name, error)
        return given
    converted = np.empty(given.shape, dtype=_FLOAT32)
    for start, block in _row_blocks(given):
        convert_rows(block, converted[start : start + len(block)], start, name, error)
    return converted


def convert_rows(
    given: npt.NDArray[Any], target: Float32Array, start: int, name: str, error: type[GreedyCoreError]
) -> None:
    """Write rows of any real dtype, numbered from `start`, into `target`; refuse what does not survive."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        target[...] = given
    _refuse_unusable(given, target, start, name, error)


def as_user_vectors(array: npt.ArrayLike) -> UserVectors:
    """Return user vectors (n_users, n_dims) as `as_embeddings` does; a row of NaN is a user without a vector."""
    given = _real_array(array, "user vectors", InvalidEmbeddingsError)
    if given.ndim != 2 or given.dtype.kind != "f" or given.shape[1] == 0:
        return UserVectors(as_embeddings(given, name="user vectors"), None)
    unknown = np.zeros(len(given), dtype=np.bool_)
    for start, block in _row_blocks(given):
        unknown[start : start + len(block)] = np.isnan(block).all(axis=1)
    if not unknown.any():
        return UserVectors(as_embeddings(given, name="user vectors"), None)
    filled = given.copy()
    filled[unknown] = 0
    return UserVectors(as_embeddings(filled, name="user vectors"), ~unknown)


def as_query(array: npt.ArrayLike, n_dims: int) -> Float32Array:
    """Return `array` as a finite float32 vector (n_dims,), without a copy if it already is one.

    Raises InvalidQueryError. The common case, a float32 vector, costs about a microsecond.
    """
    # This runs once per search. One product says that no value is too large, infinite or NaN, at half the cost
    # of looking at each; it is vdot because dot warns when the sum overflows.
    if (
        type(array) is np.ndarray
        and array.dtype is _FLOAT32
        and array.shape == (n_dims,)
        and array.flags.c_contiguous
        and np.vdot(array, array) <= MAX_MAGNITUDE**2
    ):
        return array
    given = _real_array(array, _ONE_QUERY, InvalidQueryError)
    if given.ndim != 1:
        raise InvalidQueryError(
            f"the query must be one vector of length {n_dims}, but the array given has shape {given.shape}; "
            "use search_batch for many queries."
        )
    if len(given) != n_dims:
        raise InvalidQueryError(f"the query has length {len(given)}, but the index has {n_dims} dimensions.")
    return as_embeddings(given.reshape(1, -1), name=_ONE_QUERY, error=InvalidQueryError).reshape(-1)


def as_queries(array: npt.ArrayLike, n_dims: int) -> Float32Array:
    """Return `array` as a finite float32 matrix (n_queries, n_dims); no queries at all are allowed.

    Raises InvalidQueryError, and gives the first bad row by number.
    """
    given = _real_array(array, "queries", InvalidQueryError)
    if given.ndim != 2 or given.shape[1] != n_dims:
        raise InvalidQueryError(
            f"queries must have the shape (n_queries, {n_dims}), but the array given has shape {given.shape}."
        )
    if len(given) == 0:
        return np.empty((0, n_dims), dtype=_FLOAT32)
    return as_embeddings(given, name="queries", error=InvalidQueryError)


def padded_length(n_dims: int) -> int:
    """Return `n_dims` rounded up to whole cache lines: the stride of a row, in floats."""
    return -(-n_dims // CACHE_LINE_FLOATS) * CACHE_LINE_FLOATS


def pad_rows(array: Float32Array) -> Float32Array:
    """Return the rows zero-padded to whole cache lines, (n, stride), with the data 64-byte aligned.

    `array` is the result of `as_embeddings`. It is returned as it is when it already has that layout.
    """
    n_rows, n_dims = array.shape
    stride = padded_length(n_dims)
    if stride == n_dims and array.ctypes.data % CACHE_LINE_BYTES == 0 and array.flags.c_contiguous:
        return array
    padded = aligned_empty((n_rows, stride))
    padded[:, :n_dims] = array
    padded[:, n_dims:] = 0
    return padded


def same_dims(vectors: Float32Array, n_dims: int, *, name: str) -> None:
    """Raise InvalidEmbeddingsError unless the vectors are as long as the items."""
    if vectors.shape[1] != n_dims:
        raise InvalidEmbeddingsError(
            f"{name} have {vectors.shape[1]} dimensions and items {n_dims}; both must come from the same model."
        )


def own_rows(array: Float32Array) -> Float32Array:
    """Return `pad_rows(array)`, copied if the caller could still change it under a search.

    Read-only arrays, such as memory-mapped files, are taken as they are.
    """
    padded = pad_rows(array)
    if padded is array and array.flags.writeable:
        padded = aligned_empty(array.shape)
        padded[...] = array
    return padded


def aligned_empty(shape: tuple[int, ...], dtype: npt.DTypeLike = _FLOAT32) -> npt.NDArray[Any]:
    """Return an uninitialised C-contiguous array that starts on a cache line."""
    size, wide = math.prod(shape), np.dtype(dtype).itemsize
    store = np.empty(size + CACHE_LINE_BYTES // wide, dtype=dtype)
    skip = (-store.ctypes.data % CACHE_LINE_BYTES) // wide
    return store[skip : skip + size].reshape(shape)


def _real_array(array: npt.ArrayLike, name: str, error: type[GreedyCoreError]) -> npt.NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise error(f"{name} must not be a masked array, because masked values have no meaning here; fill it first.")
    try:
        given = np.asarray(array)
    except (ValueError, TypeError) as reason:
        raise error(f"{name} must be an array of real numbers, but it cannot be made one: {reason}.") from None
    if given.dtype.kind not in "fiub":
        raise error(f"{name} must hold real numbers, but the array given has dtype {given.dtype}; use float32.")
    return given


def _is_native_float32(array: npt.NDArray[Any]) -> bool:
    return array.dtype == _FLOAT32 and array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned


def _row_blocks(array: npt.NDArray[Any]) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    n_rows, n_dims = array.shape
    step = max(1, _BLOCK_VALUES // n_dims)
    for start in range(0, n_rows, step):
        yield start, array[start : start + step]


def _refuse_unusable(
    given: npt.NDArray[Any], converted: Float32Array, start: int, name: str, error: type[GreedyCoreError]
) -> None:
    usable = np.abs(converted) <= MAX_MAGNITUDE
    if usable.all():
        return
    row, dim = (int(at) for at in np.argwhere(~usable)[0])
    value = given[row, dim]
    where = name if name == _ONE_QUERY else f"row {start + row} of {name}"
    if np.isfinite(value):
        raise error(
            f"{where} holds {value!s} in dimension {dim}, but inner products are float32 and values above "
            f"{MAX_MAGNITUDE:g} could overflow them; scale the vectors down."
        )
    raise error(f"{where} holds {value!s} in dimension {dim}, but every value must be finite; remove or repair it.")
