"""Writing a bundle: the index, ids, texts, users and what they have seen, checked and packed into named arrays."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.bundle.ids import pack_ids
from greedy_core.bundle.opening import KIND, Bundle
from greedy_core.bundle.storage import write_arrays
from greedy_core.bundle.texts import pack_texts
from greedy_core.bundle.version_names import check_version_name
from greedy_core.embeddings import UserVectors, as_user_vectors, same_dims
from greedy_core.errors import InvalidEmbeddingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from greedy_core.index import GreedyIndex

    Arrays = dict[str, npt.NDArray[Any]]

_BLOCK_ROWS = 1 << 16


def write_bundle(
    path: str | Path,
    *,
    index: GreedyIndex,
    item_ids: Iterable[object] | None = None,
    user_vectors: npt.ArrayLike | UserVectors | None = None,
    user_ids: Iterable[object] | None = None,
    seen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    titles: Iterable[str | None] | None = None,
    popular: npt.ArrayLike | None = None,
    calibration: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    progress: bool = False,
) -> Bundle:
    """Write a new bundle, all or nothing, and open it.

    item_ids, user_ids  text or whole numbers, no two alike; without them, positions in decimal
    user_vectors        (n_users, n_dims); a row of NaN is a user without a vector. Without vectors there may
                        still be users, by their ids. UserVectors that were checked before are not checked again
    seen                (indptr, indices) as in CSR: user u has seen items indices[indptr[u]:indptr[u + 1]]
    titles              one for each item; None and "" are no title
    popular             positions, the most popular first; else by how many users have seen an item, else by
                        the product with the mean user, else with the mean item
    version             the name of the model in answers and metrics; by default the directory's

    Raises InvalidEmbeddingsError for parts that do not fit together, StorageError if `path` exists or is no name of
    a version.
    """
    path = Path(path)
    version = path.name if version is None else version
    check_version_name(version)
    parts, index_info = index.to_arrays()
    arrays: Arrays = {f"index.{name}": array for name, array in parts.items()}
    arrays |= _pack_items(index.n_items, item_ids, titles)
    user_arrays, n_users = _pack_users(index.n_dims, user_vectors, user_ids)
    arrays |= user_arrays
    if "users.vectors" in arrays:
        arrays["users.remembered"] = index.remember(UserVectors(arrays["users.vectors"], None), progress=progress)
    if seen is not None:
        arrays |= _pack_seen(n_users, index.n_items, *seen)
    if popular is None:
        arrays["popular"] = _derive_popular(index, arrays)
    else:
        arrays["popular"] = _as_positions("popular", popular, index.n_items)
        if len(np.unique(arrays["popular"])) < len(arrays["popular"]):
            raise InvalidEmbeddingsError("popular names an item twice; give every item once, the most popular first.")
    info = {
        "version": version,
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_items": index.n_items,
        "n_users": n_users,
        "metadata": dict(metadata or {}),
        "calibration": None if calibration is None else dict(calibration),
        "index": index_info,
        # So that a part that was lost is missed.
        "arrays": sorted(arrays),
    }
    write_arrays(path, kind=KIND, arrays=arrays, info=info)
    return Bundle.open(path)


def _pack_items(n_items: int, ids: Iterable[object] | None, titles: Iterable[str | None] | None) -> Arrays:
    arrays: Arrays = {}
    if ids is not None:
        arrays |= pack_ids("items.ids", ids)
        _same_number("item ids", len(arrays["items.ids.positions"]), "items", n_items)
    if titles is not None:
        try:
            encoded = [(title or "").encode("utf-8", "replace") for title in titles]
        except AttributeError:
            raise InvalidEmbeddingsError("a title must be text or None, but another kind was given.") from None
        _same_number("titles", len(encoded), "items", n_items)
        if any(encoded):
            arrays |= pack_texts("items.titles", encoded)
    return arrays


def _pack_users(
    n_dims: int, vectors: npt.ArrayLike | UserVectors | None, ids: Iterable[object] | None
) -> tuple[Arrays, int]:
    arrays = {} if ids is None else pack_ids("users.ids", ids)
    n_users = len(arrays["users.ids.positions"]) if arrays else 0
    if vectors is None:
        return arrays, n_users
    users, known = vectors if isinstance(vectors, UserVectors) else as_user_vectors(vectors)
    same_dims(users, n_dims, name="user vectors")
    if ids is not None:
        _same_number("user ids", n_users, "user vectors", len(users))
    arrays["users.vectors"] = users
    if known is not None:
        arrays["users.known"] = known
    return arrays, len(users)


def _pack_seen(n_users: int, n_items: int, indptr: npt.ArrayLike, indices: npt.ArrayLike) -> Arrays:
    if n_users == 0:
        raise InvalidEmbeddingsError("seen items need users; give user vectors or user ids with them.")
    starts, items = np.asarray(indptr), _as_positions("seen items", indices, n_items)
    if starts.dtype.kind not in "iu" or starts.shape != (n_users + 1,):
        raise InvalidEmbeddingsError(
            f"the indptr of seen items must be {n_users + 1} whole numbers for {n_users} users, "
            f"but it is {starts.dtype} of shape {starts.shape}."
        )
    starts = starts.astype(np.int64)
    if starts[0] != 0 or starts[-1] != len(items) or (starts[1:] < starts[:-1]).any():
        raise InvalidEmbeddingsError(
            f"the indptr of seen items must rise from 0 to the {len(items)} indices, but it does not."
        )
    return {"seen.starts": starts, "seen.items": items}


def _as_positions(name: str, positions: npt.ArrayLike, n_items: int) -> npt.NDArray[np.int32]:
    given = np.asarray(positions)
    if given.size == 0:
        return np.empty(0, dtype=np.int32)
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise InvalidEmbeddingsError(
            f"{name} must be a flat list of item positions, but it is {given.dtype} of shape {given.shape}."
        )
    bad = (given < 0) | (given >= n_items)
    if bad.any():
        raise InvalidEmbeddingsError(
            f"{name} holds {given[bad][0]}, but positions of items go from 0 to {n_items - 1}."
        )
    return given.astype(np.int32)


def _derive_popular(index: GreedyIndex, arrays: Arrays) -> npt.NDArray[np.int32]:
    if "seen.items" in arrays:
        weights = np.bincount(arrays["seen.items"], minlength=index.n_items)
    else:
        typical = arrays.get("users.vectors", index.items).mean(axis=0, dtype=np.float64)
        blocks = range(0, index.n_items, _BLOCK_ROWS)
        weights = np.concatenate([index.items[start : start + _BLOCK_ROWS] @ typical for start in blocks])
    # Stable, so that ties go to the smaller position, here as in a search.
    return np.argsort(-weights, kind="stable").astype(np.int32)


def _same_number(what: str, number: int, of: str, expected: int) -> None:
    if number != expected:
        raise InvalidEmbeddingsError(f"there are {number} {what} for {expected} {of}; give one for each.")
