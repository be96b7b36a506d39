"""The files that `budgetrec build` reads beside the vectors: ids, titles, and what users have seen."""

import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from greedy_core.embeddings import Embeddings, first_line, load_embeddings
from greedy_core.errors import InvalidEmbeddingsError, StorageError

_WITH_KEY = re.compile(r"(?P<path>.+\.(?:npz|parquet|safetensors)):(?P<key>[^/]+)", re.IGNORECASE)


class Source(NamedTuple):
    """FILE or FILE:KEY, as it is given on the command line."""

    path: Path
    key: str | None


class Seen(NamedTuple):
    """What users have seen, in CSR form, and how many pairs named nobody or nothing that the model knows."""

    starts: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    n_unknown: int


def parse_source(text: str) -> Source:
    """Split FILE:KEY; a file whose name really has a colon is taken as it is."""
    match = _WITH_KEY.fullmatch(text)
    if match is None or Path(text).exists():
        return Source(Path(text), None)
    return Source(Path(match["path"]), match["key"])


def read_vectors(text: str) -> Embeddings:
    """Read vectors, and the ids beside them if there are any."""
    source = parse_source(text)
    return load_embeddings(source.path, source.key)


def read_texts(text: str) -> list[str | None]:
    """Read ids or titles: .txt (one per line), .json (a list), .npy, or a column of a .parquet file."""
    path, key = parse_source(text)
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


def read_seen(
    path: Path, n_users: int, n_items: int, user_ids: Sequence[object] | None, item_ids: Sequence[object] | None
) -> Seen:
    """Read a .npz file: `user` and `item`, pairs of ids; or `indptr` and `indices`, positions (as SciPy saves CSR).

    Ids that the model does not know are left out and counted. Without ids, positions are the ids.
    """
    arrays = _read_npz(path)
    if {"indptr", "indices"} <= arrays.keys():
        return Seen(arrays["indptr"].astype(np.int64), arrays["indices"].astype(np.int32), 0)
    if not {"user", "item"} <= arrays.keys():
        raise InvalidEmbeddingsError(
            f"{path} must hold the arrays user and item, or indptr and indices; it has: {', '.join(arrays)}."
        )
    if arrays["user"].ndim != 1 or arrays["user"].shape != arrays["item"].shape:
        raise InvalidEmbeddingsError(
            f"user and item in {path} must be two lists of the same length, but their shapes are "
            f"{arrays['user'].shape} and {arrays['item'].shape}."
        )
    users = _positions(arrays["user"], n_users, user_ids)
    items = _positions(arrays["item"], n_items, item_ids)
    known = (users >= 0) & (items >= 0)
    if len(known) and not known.any():
        raise InvalidEmbeddingsError(
            f"no pair in {path} names a user and an item of this model; user and item must hold ids like those given."
        )
    # One number per pair sorts by user, then by item, and drops what was seen twice.
    pairs = np.unique(users[known] * n_items + items[known])
    starts = np.searchsorted(pairs, np.arange(n_users + 1, dtype=np.int64) * n_items)
    return Seen(starts.astype(np.int64), (pairs % n_items).astype(np.int32), int(len(known) - known.sum()))


def _positions(values: npt.NDArray[Any], length: int, ids: Sequence[object] | None) -> npt.NDArray[np.int64]:
    """Return where each id stands, -1 for an unknown one."""
    distinct, inverse = np.unique(values, return_inverse=True)
    if ids is None and distinct.dtype.kind in "iu":
        known = (distinct >= 0) & (distinct < length)
        return np.where(known, distinct, -1).astype(np.int64)[inverse]
    names = map(str, range(length)) if ids is None else map(str, ids)
    place = {name: position for position, name in enumerate(names)}
    found = np.array([place.get(str(value), -1) for value in distinct.tolist()], dtype=np.int64)
    return found[inverse]


def _read_lines(path: Path) -> list[str | None]:
    text = path.read_text(encoding="utf-8")
    return list(text.removesuffix("\n").split("\n")) if text else []


def _read_json(path: Path) -> list[str | None]:
    content = json.loads(path.read_text(encoding="utf-8"))
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
        from greedy_core.parquet import read_column  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(
            f"{path} needs pyarrow, which is not installed; run: pip install 'budgetrec[formats]'."
        ) from None
    return read_column(path, column)


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if archive[name].ndim}
    except (ValueError, EOFError, OSError, AttributeError, TypeError, zipfile.BadZipFile) as reason:
        raise StorageError(f"{path} cannot be read as .npz: {first_line(reason)}.") from None
