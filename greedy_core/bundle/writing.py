"""Writing a bundle: the index, ids, texts, users and what they have seen, checked and packed into named arrays."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.bundle.ids import pack_ids
from greedy_core.bundle.manifest import read_manifest
from greedy_core.bundle.opening import KIND, KIND_IN_SHARDS, Bundle
from greedy_core.bundle.storage import write_arrays
from greedy_core.bundle.texts import pack_texts
from greedy_core.bundle.version_names import check_version_name
from greedy_core.embeddings import UserVectors, as_user_vectors, same_dims
from greedy_core.errors import InvalidEmbeddingsError
from greedy_core.fold_in import FoldInSystem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.attributes.table import Attributes
    from greedy_core.fold_in import FoldIn
    from greedy_core.quality import Quality
    from greedy_core.shards.index import AnyIndex
    from greedy_core.similar import SimilarItems

    Arrays = dict[str, npt.NDArray[Any]]


def write_bundle(
    path: str | Path,
    *,
    index: AnyIndex,
    item_ids: Iterable[object] | None = None,
    user_vectors: npt.ArrayLike | UserVectors | None = None,
    user_ids: Iterable[object] | None = None,
    seen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    titles: Iterable[str | None] | None = None,
    popular: npt.ArrayLike | None = None,
    attributes: Attributes | None = None,
    calibration: Mapping[str, Any] | None = None,
    fold_in: FoldIn | None = None,
    similar: SimilarItems | None = None,
    quality: Quality | None = None,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    progress: bool = False,
    shards: Sequence[Path] = (),
) -> Bundle:
    """Write a new bundle, all or nothing, and open it.

    item_ids, user_ids  text or whole numbers, no two alike; without them, positions in decimal
    user_vectors        (n_users, n_dims); a row of NaN is a user without a vector. Without vectors there may
                        still be users, by their ids. UserVectors that were checked before are not checked again
    seen                (indptr, indices) as in CSR: user u has seen items indices[indptr[u]:indptr[u + 1]]
    titles              one for each item; None and "" are no title
    popular             positions, the most popular first; else by how many users have seen an item, else by
                        the product with the mean user, else with the mean item
    attributes          of the items, for filters and answers
    fold_in             how an implicit ALS model was trained, so that new users can be folded in (see fold_in.py)
    similar             the index of similar items, by cosine (see similar.py)
    quality             what a model of this kind was measured to foretell of real behaviour
    version             the name of the model in answers and metrics; by default the directory's
    shards              the bundles of a ShardedIndex, in the order of their numbers; they are moved into the new one

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
    if seen is not None:
        arrays |= _pack_seen(n_users, index.n_items, *seen)
    if "users.vectors" in arrays:
        # A user's best items are mostly seen ones, which a search leaves out: the best of the others are remembered.
        exclude = np.split(arrays["seen.items"], arrays["seen.starts"][1:-1]) if seen is not None else None
        known = UserVectors(arrays["users.vectors"], None)
        arrays["users.remembered"] = index.remember(known, exclude=exclude, progress=progress)
    if popular is None:
        arrays["popular"] = _derive_popular(index, arrays)
    else:
        arrays["popular"] = _as_positions("popular", popular, index.n_items)
        if len(np.unique(arrays["popular"])) < len(arrays["popular"]):
            raise InvalidEmbeddingsError("popular names an item twice; give every item once, the most popular first.")
    attribute_arrays, described = _pack_attributes(index.n_items, attributes)
    arrays |= attribute_arrays
    if fold_in is not None:
        system = FoldInSystem.of_gram(fold_in, index.gram(), index.n_items)
        arrays |= {"fold_in.gram": system.gram, "fold_in.inverse": system.inverse}
    similar_info = None
    if similar is not None:
        similar_parts, similar_info = similar.to_arrays()
        arrays |= {f"similar.{name}": array for name, array in similar_parts.items()}
    info = {
        "version": version,
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_items": index.n_items,
        "n_users": n_users,
        "metadata": dict(metadata or {}),
        "calibration": None if calibration is None else dict(calibration),
        "fold_in": None if fold_in is None else fold_in.to_dict(),
        "similar": similar_info,
        "quality": None if quality is None else quality.to_dict(),
        "index": index_info,
        "attributes": described,
        # So that a part that was lost is missed.
        "arrays": sorted(arrays),
    }
    if shards:
        info["shards"] = [{"name": shard.name, "checksum": read_manifest(shard).checksum} for shard in shards]
    kind = KIND_IN_SHARDS if shards else KIND
    write_arrays(path, kind=kind, arrays=arrays, info=info, directories={shard.name: shard for shard in shards})
    return Bundle.open(path)


def _pack_items(n_items: int, ids: Iterable[object] | None, titles: Iterable[str | None] | None) -> Arrays:
    arrays: Arrays = {}
    if ids is not None:
        arrays |= pack_ids("items.ids", ids)
        same_number("item ids", len(arrays["items.ids.positions"]), "items", n_items)
    if titles is not None:
        try:
            encoded = [(title or "").encode("utf-8", "replace") for title in titles]
        except AttributeError:
            raise InvalidEmbeddingsError("a title must be text or None, but another kind was given.") from None
        same_number("titles", len(encoded), "items", n_items)
        if any(encoded):
            arrays |= pack_texts("items.titles", encoded)
    return arrays


def _pack_attributes(n_items: int, attributes: Attributes | None) -> tuple[Arrays, list[dict[str, str]]]:
    if attributes is None:
        return {}, []
    same_number("rows of attributes", attributes.n_items, "items", n_items)
    arrays, described = attributes.to_arrays()
    return {f"attributes.{name}": array for name, array in arrays.items()}, described


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
        same_number("user ids", n_users, "user vectors", len(users))
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


def _derive_popular(index: AnyIndex, arrays: Arrays) -> npt.NDArray[np.int32]:
    if "seen.items" in arrays:
        weights: npt.NDArray[Any] = np.bincount(arrays["seen.items"], minlength=index.n_items)
    else:
        users = arrays.get("users.vectors")
        typical = index.mean() if users is None else users.mean(axis=0, dtype=np.float64)
        weights = index.with_all(typical)
    # Stable, so that ties go to the smaller position, here as in a search.
    return np.argsort(-weights, kind="stable").astype(np.int32)


def same_number(what: str, number: int, of: str, expected: int) -> None:
    """Refuse lists that do not fit together."""
    if number != expected:
        raise InvalidEmbeddingsError(f"there are {number} {what} for {expected} {of}; give one for each.")
