"""Ids and titles from files: .txt, .json, .npy, or a column of a .parquet, .csv or .tsv file."""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING

import numpy as np

from greedy_core.errors import StorageError, first_line
from greedy_core.formats.names import missing_extra, parse_source
from greedy_core.formats.separated import SUFFIXES

if TYPE_CHECKING:
    from pathlib import Path


def load_texts(source: str | Path) -> list[str | None]:
    """Read ids or titles: .txt (one per line), .json (a list), .npy, or a column of a .parquet, .csv or .tsv file.

    Text may be packed by gzip, begin with a BOM and have Windows lines.
    """
    path, key = parse_source(source)
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    readers = {".txt": _read_lines, ".json": _read_json, ".npy": _read_npy}
    if path.name.lower().endswith((".parquet", *SUFFIXES)):
        return _read_column(path, key)
    plain = path.name.lower().removesuffix(".gz")
    reader = next((reader for suffix, reader in readers.items() if plain.endswith(suffix)), None)
    if reader is None:
        raise StorageError(
            f"{path} is no format for ids or titles; give one of {', '.join(readers)}, .parquet, {', '.join(SUFFIXES)}."
        )
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as file:
            return reader(file.read())
    except (ValueError, EOFError, OSError) as reason:
        raise StorageError(f"{path} cannot be read: {first_line(reason)}.") from None


def _read_lines(content: bytes) -> list[str | None]:
    text = content.decode("utf-8-sig").replace("\r\n", "\n")
    return list(text.removesuffix("\n").split("\n")) if text else []


def _read_json(content: bytes) -> list[str | None]:
    values = json.loads(content.decode("utf-8-sig"))
    if not isinstance(values, list) or not all(isinstance(value, str | int | None) for value in values):
        raise ValueError("expected a list of texts, whole numbers or null")
    return [None if value is None else str(value) for value in values]


def _read_npy(content: bytes) -> list[str | None]:
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"expected a list of texts or whole numbers, not {array.dtype} of shape {array.shape}")
    return [str(value) for value in array.tolist()]


def _read_column(path: Path, column: str | None) -> list[str | None]:
    try:
        from greedy_core.formats import parquet  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow")) from None
    return parquet.read_column(path, column)
