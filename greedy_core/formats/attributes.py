"""Attributes of items from tables: .parquet, .csv, or .jsonl with one object a line, matched by the item's id."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from greedy_core.attributes.packing import infer_kind
from greedy_core.attributes.table import Attributes
from greedy_core.attributes.times import read_time
from greedy_core.bundle.ids import Ids, IdTable, PositionIds, pack_ids
from greedy_core.errors import InvalidAttributesError, StorageError, first_line
from greedy_core.formats.names import listed, missing_extra, parse_source
from greedy_core.formats.separated import SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core.attributes.packing import Kind

# The columns that are taken for the ids of items when nobody names one.
ID_COLUMNS = ("item_id", "id", "item", "itemId", "itemid", "product_id", "movieId", "movie_id")
_JSON_LINES = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


class Table(NamedTuple):
    """What a file held: ids, columns, what is known of their kinds, and why some columns are no attributes."""

    ids: Sequence[str]
    columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]]
    kinds: Mapping[str, Kind]
    left_out: Mapping[str, str]


class LoadedAttributes(NamedTuple):
    """Attributes, and what of the table is not among them.

    n_unknown  rows about items that the model does not have
    n_absent   items that have no row, and so have missing values only
    left_out   columns that are no attributes, and why
    """

    attributes: Attributes
    n_unknown: int
    n_absent: int
    left_out: dict[str, str]


def load_attributes(
    source: str | Path,
    n_items: int,
    item_ids: Iterable[object] | None = None,
    *,
    id_columns: Sequence[str] = ID_COLUMNS,
) -> LoadedAttributes:
    """Read the attributes of items from FILE or FILE:COLUMN: .parquet, .csv, .tsv, .jsonl, .ndjson; text also with .gz.

    COLUMN, or else the first of `id_columns` that there is, holds the ids. Without `item_ids`, positions are the ids.
    In parquet the types of the columns say what they are. In text the values do: text, list of texts (JSON only),
    number, true or false; a column of texts that are all dates or times in ISO 8601 is a time.

    Raises StorageError for a file that cannot be read, InvalidAttributesError for what is in it.
    """
    path, id_column = parse_source(source)
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    wanted = id_columns if id_column is None else (id_column,)
    name = path.name.lower()
    if name.endswith((".parquet", *SUFFIXES)):
        table = _read_arrow(path, wanted)
    elif name.endswith(_JSON_LINES):
        table = _read_json_lines(path, wanted)
    else:
        known = ", ".join((".parquet", *SUFFIXES, *_JSON_LINES))
        raise StorageError(f"{path} is no format for attributes; give one of {known}.")
    return _match(path, table, n_items, item_ids)


def choose_id_column(path: Path, names: Sequence[str], wanted: Sequence[str]) -> str:
    """Return the column that holds the ids of items, or say which columns there are."""
    found = next((name for name in wanted if name in names), None)
    if found is None:
        raise InvalidAttributesError(
            f"{path} has no column {' or '.join(wanted[:2])} with the ids of the items; "
            f"its columns are: {listed(names)}; name one with FILE:COLUMN."
        )
    return found


def _match(path: Path, table: Table, n_items: int, item_ids: Iterable[object] | None) -> LoadedAttributes:
    ids: Ids = PositionIds(n_items) if item_ids is None else IdTable("item ids", pack_ids("item ids", item_ids))
    positions = ids.positions(table.ids).astype(np.int64)
    known = np.flatnonzero(positions >= 0)
    if len(known) == 0:
        raise InvalidAttributesError(
            f"no row of {path} is about an item of this model; its ids begin with "
            f"{', '.join(map(repr, table.ids[:3])) or 'nothing'}, the model's with {_first_ids(ids)}."
        )
    chosen = positions[known]
    distinct, first = np.unique(chosen, return_index=True)
    if len(distinct) < len(chosen):
        row = int(np.setdiff1d(np.arange(len(chosen)), first)[0])
        again = int(known[row])
        raise InvalidAttributesError(
            f"{path} has the item {table.ids[again]!r} twice, in rows {table.ids.index(table.ids[again])} and {again}; "
            "every item has one row."
        )
    everything = len(known) == len(positions)
    columns = {name: values if everything else _rows(values, known) for name, values in table.columns.items()}
    made = Attributes.from_columns(columns, n_items, positions=chosen, kinds=table.kinds)
    left_out = dict(table.left_out) | {name: "it has no values" for name in columns if name not in made}
    return LoadedAttributes(made, len(positions) - len(known), n_items - len(known), left_out)


def _first_ids(ids: Ids) -> str:
    return ", ".join(repr(ids.text(position)) for position in range(min(3, len(ids))))


def _rows(values: Sequence[Any] | npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> Sequence[Any] | npt.NDArray[Any]:
    return values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]


def _read_arrow(path: Path, id_columns: Sequence[str]) -> Table:
    try:
        from greedy_core.formats import arrow_attributes  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow")) from None
    ids, columns, kinds, left_out = arrow_attributes.read_table(
        path, lambda names: choose_id_column(path, names, id_columns)
    )
    return Table(ids, columns, kinds, left_out)


def _read_json_lines(path: Path, id_columns: Sequence[str]) -> Table:
    columns = _columns(path)
    id_values = columns.pop(choose_id_column(path, list(columns), id_columns))
    ids = [_id(path, row, value) for row, value in enumerate(id_values)]
    objects = {name for name, values in columns.items() if any(isinstance(value, dict) for value in values)}
    kept = {name: values for name, values in columns.items() if name not in objects}
    kinds: dict[str, Kind] = {
        name: "time" for name, values in kept.items() if infer_kind(name, values) == "text" and _are_times(values)
    }
    return Table(ids, kept, kinds, dict.fromkeys(sorted(objects), "it holds objects"))


def _columns(path: Path) -> dict[str, list[Any]]:
    """Return the rows of a file as columns of the same length; what a row does not name is None."""
    columns: dict[str, list[Any]] = {}
    n_rows = 0
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        for name, value in _row(path, number, line).items():
            column = columns.setdefault(name, [])
            column.extend([None] * (n_rows - len(column)))
            column.append(value)
        n_rows += 1
    if n_rows == 0:
        raise InvalidAttributesError(f"{path} must have at least one row, but it is empty.")
    for column in columns.values():
        column.extend([None] * (n_rows - len(column)))
    return columns


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as reason:
        raise InvalidAttributesError(f"line {number} of {path} is no JSON: {first_line(reason)}.") from None
    if not isinstance(row, dict):
        raise InvalidAttributesError(
            f'line {number} of {path} is no object; every line is one, as {{"item_id": "a", "price": 9.5}}.'
        )
    return row


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb") as file:
            for number, line in enumerate(file):
                yield line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
    except (OSError, EOFError, zlib.error) as reason:
        raise StorageError(f"{path} cannot be read: {first_line(reason)}.") from None


def _id(path: Path, row: int, value: object) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise InvalidAttributesError(f"row {row} of {path} has {value!r} for an id; an id is text or a whole number.")


def _are_times(values: Iterable[str | None]) -> bool:
    return all(value is None or read_time(value) is not None for value in values)
