"""Ids and titles from files: .txt, .json, .npy, or a column of a .parquet file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from greedy_core.errors import StorageError, first_line
from greedy_core.formats.names import missing_extra, parse_source

if TYPE_CHECKING:
    from pathlib import Path


def load_texts(source: str | Path) -> list[str | None]:
    """Read ids or titles: .txt (one per line), .json (a list), .npy, or a column of a .parquet file."""
    path, key = parse_source(source)
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    readers = {".txt": _read_lines, ".json": _read_json, ".npy": _read_npy}
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, key)
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise StorageError(f"{path} is no format for ids or titles; give one of {', '.join(readers)}, .parquet.")
    try:
        return reader(path)
    except (ValueError, EOFError) as reason:
        raise StorageError(f"{path} cannot be read: {first_line(reason)}.") from None


def _read_lines(path: Path) -> list[str | None]:
    text = path.read_text(encoding="utf-8-sig")
    return list(text.removesuffix("\n").split("\n")) if text else []


def _read_json(path: Path) -> list[str | None]:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, list) or not all(isinstance(value, str | int | None) for value in content):
        raise ValueError("expected a list of texts, whole numbers or null")
    return [None if value is None else str(value) for value in content]


def _read_npy(path: Path) -> list[str | None]:
    array = np.load(path, allow_pickle=False)
    if array.ndim != 1 or array.dtype.kind not in "iuU":
        raise ValueError(f"expected a list of texts or whole numbers, not {array.dtype} of shape {array.shape}")
    return [str(value) for value in array.tolist()]


def _read_parquet(path: Path, column: str | None) -> list[str | None]:
    try:
        from greedy_core.formats import parquet  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow")) from None
    return parquet.read_column(path, column)
