"""Text tables: what separates their values, and the names in the first line. A BOM and Windows lines are no matter."""

from __future__ import annotations

import csv
import gzip
import zlib
from typing import TYPE_CHECKING, NamedTuple

from greedy_core.errors import InvalidEventsError, StorageError, first_line

if TYPE_CHECKING:
    from pathlib import Path

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
_SEPARATORS = ",\t;|"


class Header(NamedTuple):
    """The names of the columns, and what separates them. `named` is False where the first line is numbers already."""

    names: list[str]
    separator: str
    named: bool


def read_header(path: Path) -> Header:
    """Read the first line; the separator is the mark that it has most of. Raises StorageError, InvalidEventsError."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            line = file.readline(1 << 24).decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as reason:
        raise StorageError(f"{path} cannot be read as text in UTF-8: {first_line(reason)}.") from None
    if not line.strip():
        raise InvalidEventsError(f"{path} is empty; the first line must name the columns.")
    separator = max(_SEPARATORS, key=line.count)
    if "\r" in line.rstrip("\r\n"):
        raise StorageError(f"{path} ends its lines with a carriage return alone; end them with a line feed.")
    try:
        names = next(csv.reader([line.rstrip("\r\n")], delimiter=separator))
    except csv.Error as reason:
        raise StorageError(f"the first line of {path} does not name columns: {first_line(reason)}.") from None
    return Header(names, separator, named=not all(map(_is_number, names)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
