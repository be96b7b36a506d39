"""Events and items from .parquet and .csv, batch by batch. Imports pyarrow."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.csv as pacsv  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from pyarrow import types

from greedy_core.errors import GreedyCoreError, InvalidEventsError, StorageError, first_line
from greedy_core.formats.separated import read_header
from greedy_core.progress import progress_bar
from greedy_core.training.encoding import Encoder
from greedy_core.training.events import Events, usable_numbers, usable_times, usable_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core.training.columns import Columns, Wanted

_BATCH_ROWS = 1 << 20
_BLOCK_BYTES = 1 << 24
# What pyarrow says of a text in a column of numbers: the column's number from 0, and the text.
_NO_NUMBER = re.compile(r"In CSV column #(\d+): .*invalid value '(.*)'")
# What a time that is written as text may be, tried in this order.
_TEXT_TIMES = (
    pa.int64(),
    pa.float64(),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
)


def read_events(path: Path, wanted: Wanted, *, progress: bool) -> Events:
    """Read all rows of one table, or of every table in a folder."""
    files = _files(path)
    reader: _Reader | None = None
    with progress_bar("reading events", _n_rows(files), show=progress) as advance:
        for file in files:
            names = column_names(file)
            columns = wanted.among(file, names)
            if reader is None:
                reader = _Reader(columns, wanted.notes(file, names))
            if columns != reader.columns:
                raise InvalidEventsError(
                    f"{file} has its events in {', '.join(columns.names)}, and the files before it in "
                    f"{', '.join(reader.columns.names)}; give the columns the same names in all files."
                )
            for batch in _quoting(file, columns):
                reader.add(file, batch)
                advance(len(batch))
    assert reader is not None  # noqa: S101 - a folder has at least one file
    return reader.finish(str(path))


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    if _is_parquet(path):
        try:
            names: list[str] = pq.read_schema(path).names
        except (pa.ArrowException, OSError) as reason:
            raise StorageError(f"{path} cannot be read as .parquet: {first_line(reason)}.") from None
        return names
    return read_header(path).names


class _Reader:
    """Takes batches and keeps of them what training needs."""

    def __init__(self, columns: Columns, notes: list[str]) -> None:
        self.columns = columns
        self._notes = notes
        self._users, self._items = Encoder(), Encoder()
        self._weights: list[npt.NDArray[np.float32]] = []
        self._ratings: list[npt.NDArray[np.float32]] = []
        self._times: list[npt.NDArray[Any]] = []
        self._types: dict[str, Any] = {}
        self._rows = 0

    def add(self, path: Path, batch: Any) -> None:
        columns, start = self.columns, self._rows
        self._users.add(self._ids(path, columns.user, batch))
        self._items.add(self._ids(path, columns.item, batch))
        if columns.weight is not None:
            self._weights.append(usable_weights(path, columns.weight, _numbers(path, columns.weight, batch), start))
        if columns.rating is not None:
            self._ratings.append(usable_numbers(path, columns.rating, _numbers(path, columns.rating, batch), start))
        if columns.time is not None:
            times = usable_times(path, columns.time, _times(path, columns.time, batch), start)
            # Whole numbers and fractions go together; numbers and dates do not.
            if self._times and (self._times[0].dtype.kind == "M") != (times.dtype.kind == "M"):
                raise _mixed(path, columns.time, self._times[0].dtype, times.dtype)
            self._times.append(times)
        self._rows += len(batch)

    def finish(self, source: str) -> Events:
        users, user_ids = self._users.finish()
        items, item_ids = self._items.finish()
        return Events(
            source,
            users,
            items,
            user_ids,
            item_ids,
            np.concatenate(self._weights) if self._weights else None,
            np.concatenate(self._ratings) if self._ratings else None,
            np.concatenate(self._times) if self._times else None,
            self._notes,
        )

    def _ids(self, path: Path, name: str, batch: Any) -> Any:
        column = plain_ids(path, name, batch.column(name), self._rows)
        if self._types.setdefault(name, column.type) != column.type:
            raise _mixed(path, name, self._types[name], column.type)
        return column


def plain_ids(path: Path, name: str, column: Any, start: int) -> Any:
    """Return a column of ids as text or int64; refuse what cannot be one, with its row."""
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_integer(column.type):
        column = column if types.is_uint64(column.type) else column.cast(pa.int64())
    elif types.is_floating(column.type):
        column = _whole_ids(path, name, column, start)
    elif types.is_string(column.type) or types.is_large_string(column.type) or types.is_string_view(column.type):
        column = column.cast(pa.string())
    else:
        raise InvalidEventsError(
            f"column {name} of {path} is {column.type}, but an id is text or a whole number; convert it."
        )
    empty = column.is_null() if types.is_integer(column.type) else pc.fill_null(pc.equal(column, ""), fill_value=True)
    if column.null_count or pc.any(empty).as_py():
        row = start + int(np.argmax(empty.to_numpy(zero_copy_only=False)))
        raise InvalidEventsError(f"row {row} of {path} has no id in column {name}; every row needs one.")
    return column


def _whole_ids(path: Path, name: str, column: Any, start: int) -> Any:
    """Return ids that are whole numbers as int64: pandas makes fractions of them as soon as one is missing."""
    column = pc.if_else(pc.is_nan(column), None, column)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        odd = pc.fill_null(pc.not_equal(column, pc.trunc(column)), fill_value=False)
        row = int(np.argmax(odd.to_numpy(zero_copy_only=False))) if pc.any(odd).as_py() else 0
        raise InvalidEventsError(
            f"row {start + row} of {path} has {column[row].as_py():g} in column {name}, but an id is text or a whole "
            "number; convert it."
        ) from None


def _mixed(path: Path, name: str, before: object, now: object) -> InvalidEventsError:
    return InvalidEventsError(
        f"column {name} is {now} in {path} and {before} before it; give it one type in all files."
    )


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.glob("*.parquet") if file.is_file())
    if not files:
        raise StorageError(f"{path} is a folder without .parquet files; give a file, or a folder of those.")
    return files


def _n_rows(files: Sequence[Path]) -> int | None:
    """Return how many rows there are, None where only reading them tells."""
    try:
        return sum(pq.read_metadata(file).num_rows for file in files if _is_parquet(file)) or None
    except (pa.ArrowException, OSError):
        return None  # whoever reads the rows says what is wrong


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(".parquet")


def _quoting(path: Path, columns: Columns) -> Iterator[Any]:
    """Yield the batches of a file; what pyarrow says of a fault is quoted in a sentence."""
    try:
        if _is_parquet(path):
            with pq.ParquetFile(path, memory_map=True, page_checksum_verification=True) as table:
                yield from table.iter_batches(batch_size=_BATCH_ROWS, columns=columns.names)
        else:
            # Ids are text: 007 and 7 are two.
            kinds = {columns.user: pa.string(), columns.item: pa.string()}
            kinds |= {name: pa.float64() for name in (columns.weight, columns.rating) if name is not None}
            # What a time looks like in the first block says nothing of those that follow.
            kinds |= {} if columns.time is None else {columns.time: pa.string()}
            convert = pacsv.ConvertOptions(include_columns=columns.names, column_types=kinds)
            reading = pacsv.ReadOptions(block_size=_BLOCK_BYTES)
            with pacsv.open_csv(path, reading, _parsing(path, newlines=False), convert) as table:
                yield from table
    except (pa.ArrowException, OSError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        if "Empty CSV file" in str(reason):
            return
        if "newlines_in_values" in str(reason):
            raise StorageError(
                f"{path} has values with line breaks in them, which cannot be read from a text table of this size; "
                "write it as .parquet."
            ) from None
        if "invalid UTF8" in str(reason):
            raise StorageError(f"{path} has text that is not in UTF-8; save it in UTF-8.") from None
        odd = _NO_NUMBER.search(str(reason))
        if odd is not None:
            raise InvalidEventsError(
                f"column {read_header(path).names[int(odd[1])]} of {path} has {odd[2]!r}, but numbers were expected, "
                "with a point for fractions; convert it."
            ) from None
        raise StorageError(f"{path} cannot be read as a table: {first_line(reason)}.") from None


def _parsing(path: Path, *, newlines: bool) -> Any:
    return pacsv.ParseOptions(delimiter=read_header(path).separator, newlines_in_values=newlines)


def _numbers(path: Path, name: str, batch: Any) -> npt.NDArray[Any]:
    column = batch.column(name)
    if not (types.is_floating(column.type) or types.is_integer(column.type) or types.is_decimal(column.type)):
        raise InvalidEventsError(f"column {name} of {path} is {column.type}, but numbers were expected; convert it.")
    values: npt.NDArray[Any] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return values


def _times(path: Path, name: str, batch: Any) -> npt.NDArray[Any]:
    """Return times as int64, float64 or datetime64[us]; a missing one is NaN or NaT."""
    column = batch.column(name)
    if types.is_string(column.type) or types.is_large_string(column.type):
        column = _read_times(path, name, column)
    if types.is_timestamp(column.type) or types.is_date(column.type):
        # Nanoseconds are cut down, and that is meant; a year that does not fit is not.
        is_fine = types.is_timestamp(column.type) and column.type.unit == "ns"
        try:
            values: npt.NDArray[Any] = column.cast(pa.timestamp("us"), safe=not is_fine).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as reason:
            raise InvalidEventsError(f"column {name} of {path} is no time: {first_line(reason)}.") from None
        return values
    if types.is_integer(column.type) and not column.null_count:
        try:
            whole: npt.NDArray[Any] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as reason:
            raise InvalidEventsError(f"column {name} of {path} is no time: {first_line(reason)}.") from None
        return whole
    if not (types.is_floating(column.type) or types.is_integer(column.type)):
        raise InvalidEventsError(f"column {name} of {path} is {column.type}, but a time is a number or a date.")
    fractions: npt.NDArray[Any] = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return fractions


def _read_times(path: Path, name: str, column: Any) -> Any:
    """Return times that are written as text: whole numbers, fractions, or dates with or without a zone."""
    column = pc.utf8_trim_whitespace(column)
    column = pc.if_else(pc.equal(column, ""), None, column)
    for kind in _TEXT_TIMES:
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    odd = next((text for text in column.unique().to_pylist() if text is not None and not _is_time(text)), None)
    if odd is None:
        raise InvalidEventsError(
            f"column {name} of {path} mixes numbers, dates with a zone and dates without one; write all in one way."
        )
    raise InvalidEventsError(
        f"column {name} of {path} has {odd!r}, which is no time; write numbers, or dates such as 2026-11-18 or "
        "2026-11-18T20:15:00Z."
    )


def _is_time(text: str) -> bool:
    for kind in _TEXT_TIMES:
        with suppress(pa.ArrowInvalid):
            pa.array([text]).cast(kind)
            return True
    return False
