"""Vectors and ids from parquet files, batch by batch. Imports pyarrow: the extra `formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from greedy_core.embeddings import as_embeddings, convert_rows
from greedy_core.errors import GreedyCoreError, InvalidEmbeddingsError, StorageError, first_line
from greedy_core.formats.names import choose_name

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

# The columns that are taken for ids when nobody names one.
_ID_COLUMNS = ("id", "item_id", "user_id")
_BATCH_ROWS = 1 << 14


def read_vectors(path: Path, key: str | None, id_column: str | None) -> tuple[Float32Array, list[str] | None]:
    """Read a list column (`key`, or the only one), or else all numeric columns, and the ids beside them."""
    try:
        with pq.ParquetFile(path, memory_map=True) as table:
            return _read_table(path, table, key, id_column)
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .parquet: {first_line(reason)}.") from None


def read_column(path: Path, column: str | None) -> list[str | None]:
    """Read one column (`column`, or the only one) as text; a missing value is None."""
    try:
        with pq.ParquetFile(path, memory_map=True) as table:
            name = choose_name(path, "column", table.schema_arrow.names, column)
            values = table.read(columns=[name]).column(name).to_pylist()
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .parquet: {first_line(reason)}.") from None
    return [None if value is None else str(value) for value in values]


def _read_table(
    path: Path, table: Any, key: str | None, id_column: str | None
) -> tuple[Float32Array, list[str] | None]:
    schema = table.schema_arrow
    if id_column is None:
        id_column = next((name for name in _ID_COLUMNS if name in schema.names), None)
    else:
        choose_name(path, "column", schema.names, id_column)
    columns = _vector_columns(path, schema, key, id_column)
    ids: list[str] = []
    # Grown by the batch: the footer's row count is only believed once that many rows were there.
    vectors: Float32Array | None = None
    start = 0
    for batch in table.iter_batches(batch_size=_BATCH_ROWS, columns=[*columns, *([id_column] if id_column else [])]):
        block = _batch_block(path, batch, columns, start)
        if vectors is None:
            vectors = np.empty((table.metadata.num_rows, block.shape[1]), dtype=np.float32)
        if block.shape[1] != vectors.shape[1]:
            raise _ragged(path, start, block.shape[1], vectors.shape[1])
        convert_rows(block, vectors[start : start + len(block)], start, str(path), InvalidEmbeddingsError)
        if id_column is not None:
            ids.extend(_batch_ids(path, batch.column(id_column), start))
        start += len(block)
    if vectors is None:
        raise InvalidEmbeddingsError(f"{path} must have at least one row, but the table is empty.")
    return as_embeddings(vectors[:start], name=str(path)), ids if id_column is not None else None


def _vector_columns(path: Path, schema: Any, key: str | None, id_column: str | None) -> list[str]:
    lists = [field.name for field in schema if _is_list(field.type) and _is_number(field.type.value_type)]
    if key is not None or len(lists) > 1:
        return [choose_name(path, "list column", lists, key)]
    if lists:
        return lists
    numbers = [field for field in schema if _is_number(field.type) and field.name != id_column]
    # Whole numbers among fractions are counts or ids under another name, not dimensions.
    fractions = [field for field in numbers if types.is_floating(field.type)]
    wide = [field.name for field in fractions or numbers]
    if not wide:
        raise InvalidEmbeddingsError(
            f"{path} has neither a column of lists of numbers nor numeric columns; "
            f"its columns are {', '.join(schema.names)}."
        )
    return wide


def _is_list(kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _batch_block(path: Path, batch: Any, columns: Sequence[str], start: int) -> npt.NDArray[Any]:
    """Return the rows of one batch as a matrix."""
    for name in columns:
        if batch.column(name).null_count:
            row = start + _first_null(batch.column(name))
            raise InvalidEmbeddingsError(f"row {row} of {path} has no value in column {name}; fill or remove it.")
    column = batch.column(columns[0])
    if not _is_list(column.type):
        return np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in columns])
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    n_dims = int(lengths[0])
    if (lengths != n_dims).any():
        row = int(np.argmax(lengths != n_dims))
        raise _ragged(path, start + row, int(lengths[row]), n_dims)
    values = column.flatten()
    if values.null_count:
        row = start + _first_null(values) // n_dims
        raise InvalidEmbeddingsError(f"row {row} of {path} has a missing value; fill or remove it.")
    matrix: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(lengths), n_dims)
    return matrix


def _ragged(path: Path, row: int, length: int, expected: int) -> InvalidEmbeddingsError:
    return InvalidEmbeddingsError(
        f"row {row} of {path} has {length} dimensions, but the rows before it have {expected}; "
        "every vector must have the same length."
    )


def _batch_ids(path: Path, column: Any, start: int) -> list[str]:
    if not (types.is_integer(column.type) or types.is_string(column.type) or types.is_large_string(column.type)):
        raise InvalidEmbeddingsError(f"the ids in {path} are {column.type}, but an id is text or a whole number.")
    if column.null_count:
        raise InvalidEmbeddingsError(f"row {start + _first_null(column)} of {path} has no id; every row needs one.")
    return [str(value) for value in column.to_pylist()]


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
