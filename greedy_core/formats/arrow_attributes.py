"""Attributes from parquet and csv files, typed by their columns. Imports pyarrow: the extra `formats`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv as pacsv  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from greedy_core.attributes.table import check_name
from greedy_core.errors import GreedyCoreError, InvalidAttributesError, StorageError, first_line
from greedy_core.formats.separated import SUFFIXES, read_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from greedy_core.attributes.packing import Kind

Parts = tuple[list[str], dict[str, Any], "dict[str, Kind]", dict[str, str]]


def read_table(path: Path, choose_id: Callable[[Sequence[str]], str]) -> Parts:
    """Return ids, columns, their kinds, and why other columns are no attributes."""
    is_text = path.name.lower().endswith(SUFFIXES)
    try:
        if is_text:
            return _read_separated(path, choose_id)
        with pq.ParquetFile(path, memory_map=True) as file:
            id_column = choose_id(file.schema_arrow.names)
            kinds, left_out = _kinds(path, file.schema_arrow, id_column)
            return _parts(path, file.read(columns=[id_column, *kinds]), id_column, kinds, left_out)
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        what = "a table of text" if is_text else ".parquet"
        raise StorageError(f"{path} cannot be read as {what}: {first_line(reason)}.") from None


def _read_separated(path: Path, choose_id: Callable[[Sequence[str]], str]) -> Parts:
    header = read_header(path)
    id_column = choose_id(header.names)
    table = pacsv.read_csv(
        path,
        parse_options=pacsv.ParseOptions(delimiter=header.separator, newlines_in_values=True),
        # An id that looks like a number is still the text that it is; a cell without text is a missing value.
        convert_options=pacsv.ConvertOptions(column_types={id_column: pa.string()}, strings_can_be_null=True),
    )
    kinds, left_out = _kinds(path, table.schema, id_column)
    return _parts(path, table, id_column, kinds, left_out)


def _kinds(path: Path, schema: Any, id_column: str) -> tuple[dict[str, Kind], dict[str, str]]:
    """Return what the columns are, and why some are no attributes."""
    if schema.names.count(id_column) > 1:
        raise InvalidAttributesError(f"{path} has two columns called {id_column}; rename one of them.")
    kinds: dict[str, Kind] = {}
    left_out: dict[str, str] = {}
    for field in schema:
        if field.name == id_column:
            continue
        kind = _kind_of(field.type)
        if types.is_null(field.type):
            left_out[field.name] = "it has no values"
        elif kind is None:
            left_out[field.name] = f"it is {field.type}"
        elif schema.names.count(field.name) > 1:
            left_out[field.name] = "there are two of that name"
        else:
            try:
                check_name(field.name)
            except InvalidAttributesError as reason:
                left_out[field.name] = str(reason).rstrip(".")
                continue
            kinds[field.name] = kind
    return kinds, left_out


def _parts(path: Path, table: Any, id_column: str, kinds: dict[str, Kind], left_out: dict[str, str]) -> Parts:
    ids = _ids(path, table.column(id_column))
    if not ids:
        raise InvalidAttributesError(f"{path} must have at least one row, but the table is empty.")
    columns = {name: _values(table.column(name), kind) for name, kind in kinds.items()}
    return ids, columns, kinds, left_out


def _kind_of(kind: Any) -> Kind | None:
    if types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(kind):
        return "text"
    if types.is_boolean(kind):
        return "flag"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "time"
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if is_list and (_is_text(kind.value_type) or types.is_null(kind.value_type)):
        return "list"
    return None


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _values(column: Any, kind: Kind) -> Any:
    if kind == "time":
        # Finer times than microseconds are cut off; arrays of them keep NaT for what is missing.
        return column.cast(pa.timestamp("us"), safe=False).to_numpy()
    # Whole numbers of a column with gaps would become floating point numbers before anybody has looked at them.
    exact = kind == "number" and not types.is_decimal(column.type) and column.null_count == 0
    return column.to_numpy() if exact else column.to_pylist()


def _ids(path: Path, column: Any) -> list[str]:
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not (types.is_integer(kind) or _is_text(kind)):
        raise InvalidAttributesError(f"the ids in {path} are {column.type}, but an id is text or a whole number.")
    if column.null_count:
        raise InvalidAttributesError(f"a row of {path} has no id; every row needs one.")
    return [str(value) for value in column.to_pylist()]
