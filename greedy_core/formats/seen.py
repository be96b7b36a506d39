"""What users have seen, from .npz files: pairs of ids, or positions in CSR form."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.errors import InvalidEmbeddingsError, StorageError, first_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


class Seen(NamedTuple):
    """What users have seen, in CSR form, and how many pairs named nobody or nothing that the model knows."""

    starts: npt.NDArray[np.int64]
    items: npt.NDArray[np.int32]
    n_unknown: int


def load_seen(
    path: str | Path, n_users: int, n_items: int, user_ids: Sequence[object] | None, item_ids: Sequence[object] | None
) -> Seen:
    """Read a .npz file: `user` and `item`, pairs of ids; or `indptr` and `indices`, positions (as SciPy saves CSR).

    Ids that the model does not know are left out and counted. Without ids, positions are the ids.
    """
    path = Path(path)
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


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if archive[name].ndim}
    except (ValueError, EOFError, OSError, AttributeError, TypeError, zipfile.BadZipFile) as reason:
        raise StorageError(f"{path} cannot be read as .npz: {first_line(reason)}.") from None
