"""Vectors and ids from tables, batch by batch: .parquet, .csv. Imports pyarrow: the extra `formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv as pacsv  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from greedy_core.embeddings import as_embeddings, convert_rows
from greedy_core.errors import GreedyCoreError, InvalidEmbeddingsError, StorageError, first_line
from greedy_core.formats.names import choose_name
from greedy_core.formats.separated import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.formats.separated import Header

# The columns that are taken for ids when nobody names one.
_ID_COLUMNS = ("id", "item_id", "user_id")
_BATCH_ROWS = 1 << 14
_BLOCK_BYTES = 1 << 24


def read_vectors(path: Path, key: str | None, id_column: str | None) -> tuple[Float32Array, list[str] | None]:
    """Read a list column (`key`, or the only one), or else all numeric columns, and the ids beside them."""
    try:
        with pq.ParquetFile(path, memory_map=True) as table:
            return _read_table(path, table.schema_arrow, _Parquet(table), key, id_column)
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .parquet: {first_line(reason)}.") from None


def read_column(path: Path, column: str | None) -> list[str | None]:
    """Read one column (`column`, or the only one) of a .parquet or text table as text; a missing value is None."""
    if not path.name.lower().endswith(".parquet"):
        return _read_separated_column(path, column)
    try:
        with pq.ParquetFile(path, memory_map=True) as table:
            name = choose_name(path, "column", table.schema_arrow.names, column)
            values = table.read(columns=[name]).column(name).to_pylist()
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .parquet: {first_line(reason)}.") from None
    return [None if value is None else str(value) for value in values]


def _read_separated_column(path: Path, column: str | None) -> list[str | None]:
    header = read_header(path)
    name = choose_name(path, "column", header.names, column)
    try:
        texts: list[str | None] = (
            pacsv.read_csv(
                path,
                parse_options=pacsv.ParseOptions(delimiter=header.separator, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(include_columns=[name], column_types={name: pa.string()}),
            )
            .column(name)
            .to_pylist()
        )
    except (pa.ArrowException, OSError) as reason:
        raise StorageError(f"{path} cannot be read as a table: {first_line(reason)}.") from None
    return texts


def read_separated(path: Path, id_column: str | None) -> tuple[Float32Array, list[str] | None]:
    """Read all numeric columns of a .csv or .tsv file, packed or not, and the ids beside them."""
    header = read_header(path)
    try:
        # What the first block looks like decides which columns are numbers; all of these may have fractions further on.
        with _open_separated(path, header, {}) as table:
            schema = table.schema
        ids = {id_column, *_ID_COLUMNS}
        kinds = {field.name: pa.float64() for field in schema if _is_number(field.type) and field.name not in ids}
        kinds |= {name: pa.string() for name in schema.names if name in ids}
        with _open_separated(path, header, kinds) as table:
            return _read_table(path, table.schema, _Separated(table), None, id_column)
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as a table: {first_line(reason)}.") from None


def _open_separated(path: Path, header: Header, kinds: dict[str, Any]) -> Any:
    return pacsv.open_csv(
        path,
        pacsv.ReadOptions(block_size=_BLOCK_BYTES, autogenerate_column_names=not header.named),
        pacsv.ParseOptions(delimiter=header.separator),
        pacsv.ConvertOptions(column_types=kinds),
    )


class _Parquet:
    """The batches of a .parquet file, of some columns only."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield them."""
        yield from self._table.iter_batches(batch_size=_BATCH_ROWS, columns=columns)


class _Separated:
    """The batches of a text table."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def batches(self, columns: list[str]) -> Iterator[Any]:
        """Yield them."""
        for batch in self._table:
            yield batch.select(columns)


def _read_table(
    path: Path, schema: Any, table: _Parquet | _Separated, key: str | None, id_column: str | None
) -> tuple[Float32Array, list[str] | None]:
    if id_column is None:
        id_column = next((name for name in _ID_COLUMNS if name in schema.names), None)
    else:
        choose_name(path, "column", schema.names, id_column)
    columns = _vector_columns(path, schema, key, id_column)
    ids: list[str] = []
    # Grown by the batch: what a file says about its length is believed once that many rows were there.
    blocks: list[Float32Array] = []
    start = 0
    for batch in table.batches([*columns, *([id_column] if id_column else [])]):
        if len(batch) == 0:
            continue
        block = _batch_block(path, batch, columns, start)
        if blocks and block.shape[1] != blocks[0].shape[1]:
            raise _ragged(path, start, block.shape[1], blocks[0].shape[1])
        rows = np.empty(block.shape, dtype=np.float32)
        convert_rows(block, rows, start, str(path), InvalidEmbeddingsError)
        blocks.append(rows)
        if id_column is not None:
            ids.extend(_batch_ids(path, batch.column(id_column), start))
        start += len(block)
    if not blocks:
        raise InvalidEmbeddingsError(f"{path} must have at least one row, but the table is empty.")
    vectors = _joined(blocks)
    return as_embeddings(vectors, name=str(path)), ids if id_column is not None else None


def _joined(blocks: list[Float32Array]) -> Float32Array:
    """Return the blocks as one matrix; each is let go once it is copied, so the peak is the matrix and one block."""
    vectors = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), dtype=np.float32)
    end = len(vectors)
    while blocks:
        block = blocks.pop()
        vectors[end - len(block) : end] = block
        end -= len(block)
    return vectors


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
