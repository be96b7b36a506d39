"""The model bundle: all that a service needs, in one immutable directory.

    index.*           the GreedyIndex: the items' rows, the lists, the axes
    items.ids.*       external ids, in arrays that are looked up without being loaded (see ids.py)
    items.titles.*    a title for those items that have one
    users.vectors     one row per user; users.known says who has a vector, if not everybody has
    users.routes      one row per user: the directions that its searches follow (see routes.py)
    users.ids.*
    seen.*            what each user has seen: positions of items, in CSR form
    popular           positions of items, the most popular first

Everything is memory-mapped, so any number of processes share one copy. Opening checks that all parts fit
together and that nothing in them points outside, which reads the offsets and positions but no vectors and no
texts; `verify` reads all and compares checksums.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core import storage
from greedy_core.embeddings import as_embeddings, same_dims
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError
from greedy_core.ids import open_ids, pack_ids
from greedy_core.index import GreedyIndex
from greedy_core.texts import Texts, check_offsets, pack_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Arrays = dict[str, npt.NDArray[Any]]

KIND = "bundle"

_BLOCK_ROWS = 1 << 16


class Bundle:
    """An open bundle. Immutable, and safe to share among threads and across a fork. Use `Bundle.open`.

    Items and users are positions from 0 inside, and external ids (always text here) outside.
    """

    def __init__(self, path: Path, stored: storage.Stored) -> None:
        """Check that the parts fit together. Raises CorruptModelError."""
        arrays, info = stored
        parts = {name.removeprefix("index."): array for name, array in arrays.items() if name.startswith("index.")}
        self.path = path
        self.index = GreedyIndex.from_arrays(parts, info["index"])
        self.version: str = info["version"]
        self.built_at: str = info["built_at"]
        self.metadata: dict[str, Any] = info["metadata"]
        self.calibration: dict[str, Any] | None = info["calibration"]
        self.n_items = self.index.n_items
        self.n_dims = self.index.n_dims
        self.n_users: int = info["n_users"]
        self._item_ids = open_ids("items.ids", arrays, self.n_items)
        self._user_ids = open_ids("users.ids", arrays, self.n_users)
        self._ids_need_escapes: bool = info["item_ids_need_escapes"]
        self._titles = Texts.from_arrays("items.titles", arrays) if "items.titles.text" in arrays else None
        self._vectors: Float32Array | None = arrays.get("users.vectors")
        self._routes: Float32Array | None = arrays.get("users.routes")
        self._known: npt.NDArray[np.bool_] | None = arrays.get("users.known")
        self._seen_starts = arrays["seen.starts"].data if "seen.starts" in arrays else None
        self._seen_items: npt.NDArray[np.int32] | None = arrays.get("seen.items")
        self.popular: npt.NDArray[np.int32] = arrays["popular"]
        self._check(arrays)

    @classmethod
    def open(cls, path: str | Path) -> Bundle:
        """Open a bundle, memory-mapped. Well under a second for a million users; checksums are not compared.

        Raises NotAModelError, FormatVersionError or CorruptModelError, with the reason.
        """
        path = Path(path)
        stored = storage.open_arrays(path, kind=KIND)
        try:
            return cls(path, stored)
        except CorruptModelError as reason:
            raise CorruptModelError(f"{path} cannot be used: {reason}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as reason:
            raise CorruptModelError(
                f"{path} cannot be used: a part is missing or of another kind ({reason}); build it again."
            ) from None

    def verify(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Read every file and compare its checksum. Raises CorruptModelError that names the file."""
        storage.verify_arrays(self.path, progress=progress)

    @property
    def has_seen(self) -> bool:
        """Whether the bundle knows what users have seen."""
        return self._seen_starts is not None

    @property
    def has_titles(self) -> bool:
        """Whether any item has a title."""
        return self._titles is not None

    @property
    def user_vectors(self) -> Float32Array | None:
        """All user vectors, (n_users, n_dims), or None; the rows of users without a vector are zero."""
        return self._vectors

    def user_position(self, user_id: str) -> int | None:
        """Return where the user stands, or None for an unknown user."""
        return self._user_ids.position(user_id)

    def user_id(self, position: int) -> str:
        """Return the external id of a user."""
        return self._user_ids.text(position)

    def user_vector(self, position: int) -> Float32Array | None:
        """Return the user's vector, (n_dims,), as a read-only view, or None if this user has none."""
        if self._vectors is None or (self._known is not None and not self._known[position]):
            return None
        vector: Float32Array = self._vectors[position]
        return vector

    def user_route(self, position: int) -> Float32Array | None:
        """Return the route that a search for the user follows, as a read-only view, or None if the index uses none."""
        if self._routes is None:
            return None
        route: Float32Array = self._routes[position]
        return route

    def seen_items(self, position: int) -> npt.NDArray[np.int32]:
        """Return the positions of the items that the user has seen, possibly none."""
        if self._seen_starts is None or self._seen_items is None:
            return _NOTHING
        return self._seen_items[self._seen_starts[position] : self._seen_starts[position + 1]]

    def item_position(self, item_id: str) -> int | None:
        """Return where the item stands, or None for an unknown item."""
        return self._item_ids.position(item_id)

    def item_id(self, position: int) -> str:
        """Return the external id of an item."""
        return self._item_ids.text(position)

    def item_ids(self, positions: Sequence[int] | npt.NDArray[np.integer]) -> list[str]:
        """Return the external ids of many items, at less than a microsecond each.

        Positions are those of a search result: they are not checked again here.
        """
        return self._item_ids.many(positions.tolist() if isinstance(positions, np.ndarray) else positions)

    def item_ids_json(self, positions: Sequence[int] | npt.NDArray[np.integer]) -> list[str]:
        """Return the external ids of many items as JSON strings, quotes included."""
        ids = self.item_ids(positions)
        if self._ids_need_escapes:
            return [json.dumps(item_id, ensure_ascii=False) for item_id in ids]
        return [f'"{item_id}"' for item_id in ids]

    def title(self, position: int) -> str | None:
        """Return an item's title, or None if it has none (an empty title is none)."""
        return self._titles[position] or None if self._titles is not None else None

    def _check(self, arrays: Arrays) -> None:
        if not all(isinstance(text, str) for text in (self.version, self.built_at)):
            raise CorruptModelError("its version or date is not text; build the model again.")
        if self._titles is not None and len(self._titles) != self.n_items:
            raise CorruptModelError(f"it has {len(self._titles)} titles for {self.n_items} items; build it again.")
        if self._vectors is not None:
            _check_array("users.vectors", self._vectors, np.float32, (self.n_users, self.n_dims))
        if self._routes is not None:
            _check_array("users.routes", self._routes, np.float32, (self.n_users, self.index.route_length))
        if self._known is not None:
            _check_array("users.known", self._known, np.bool_, (self.n_users,))
        if self._seen_starts is not None:
            _check_array("seen.starts", arrays["seen.starts"], np.int64, (self.n_users + 1,))
            _check_array("seen.items", arrays["seen.items"], np.int32, (len(arrays["seen.items"]),))
            check_offsets("seen", arrays["seen.starts"], len(arrays["seen.items"]))
            _check_positions("seen.items", arrays["seen.items"], self.n_items)
        _check_array("popular", self.popular, np.int32, (len(self.popular),))
        _check_positions("popular", self.popular, self.n_items)


def write(
    path: str | Path,
    *,
    index: GreedyIndex,
    item_ids: Iterable[object] | None = None,
    user_vectors: npt.ArrayLike | None = None,
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
                        still be users, by their ids
    seen                (indptr, indices) as in CSR: user u has seen items indices[indptr[u]:indptr[u + 1]]
    titles              one for each item; None and "" are no title
    popular             positions, the most popular first; else by how many users have seen an item, else by
                        the product with the mean user, else with the mean item
    version             the name of the model in answers and metrics; by default the directory's

    Raises InvalidEmbeddingsError for parts that do not fit together, StorageError if `path` exists.
    """
    path = Path(path)
    parts, index_info = index.to_arrays()
    arrays: Arrays = {f"index.{name}": array for name, array in parts.items()}
    arrays |= _pack_items(index.n_items, item_ids, titles)
    user_arrays, n_users = _pack_users(index.n_dims, user_vectors, user_ids)
    arrays |= user_arrays
    if "users.vectors" in arrays and index.follows_routes:
        arrays["users.routes"] = index.routes(arrays["users.vectors"], progress=progress)
    if seen is not None:
        arrays |= _pack_seen(n_users, index.n_items, *seen)
    if popular is None:
        arrays["popular"] = _derive_popular(index, arrays)
    else:
        arrays["popular"] = _as_positions("popular", popular, index.n_items)
    info = {
        "version": path.name if version is None else version,
        "built_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_items": index.n_items,
        "n_users": n_users,
        "item_ids_need_escapes": _need_escapes(arrays.get("items.ids.text")),
        "metadata": dict(metadata or {}),
        "calibration": None if calibration is None else dict(calibration),
        "index": index_info,
    }
    storage.write_arrays(path, kind=KIND, arrays=arrays, info=info)
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


def _pack_users(n_dims: int, vectors: npt.ArrayLike | None, ids: Iterable[object] | None) -> tuple[Arrays, int]:
    arrays = {} if ids is None else pack_ids("users.ids", ids)
    n_users = len(arrays["users.ids.positions"]) if arrays else 0
    if vectors is None:
        return arrays, n_users
    given, known = _split_unknown(vectors)
    users = as_embeddings(given, name="user vectors")
    same_dims(users, n_dims, name="user vectors")
    if ids is not None:
        _same_number("user ids", n_users, "user vectors", len(users))
    arrays["users.vectors"] = users
    if known is not None:
        arrays["users.known"] = known
    return arrays, len(users)


def _split_unknown(vectors: npt.ArrayLike) -> tuple[npt.ArrayLike, npt.NDArray[np.bool_] | None]:
    """Return the vectors with rows of NaN replaced by zeros, and who has a vector (None for everybody)."""
    if type(vectors) is not np.ndarray or vectors.ndim != 2 or vectors.dtype.kind != "f":
        return vectors, None
    unknown = np.zeros(len(vectors), dtype=np.bool_)
    for start in range(0, len(vectors), _BLOCK_ROWS):
        unknown[start : start + _BLOCK_ROWS] = np.isnan(vectors[start : start + _BLOCK_ROWS]).all(axis=1)
    if not unknown.any() or vectors.shape[1] == 0:
        return vectors, None
    filled = vectors.copy()
    filled[unknown] = 0
    return filled, ~unknown


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


def _need_escapes(text: npt.NDArray[np.uint8] | None) -> bool:
    """Whether any id has a quote, a backslash or a control character, which JSON wants escaped."""
    return text is not None and bool(((text < 0x20) | (text == ord('"')) | (text == ord("\\"))).any())


def _same_number(what: str, number: int, of: str, expected: int) -> None:
    if number != expected:
        raise InvalidEmbeddingsError(f"there are {number} {what} for {expected} {of}; give one for each.")


def _check_array(name: str, array: npt.NDArray[Any], dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise CorruptModelError(
            f"{name} is {array.dtype} of shape {array.shape} where {np.dtype(dtype)} of shape {shape} was "
            "expected; build the model again."
        )


def _check_positions(name: str, positions: npt.NDArray[np.int32], n_items: int) -> None:
    if len(positions) and (positions.min() < 0 or positions.max() >= n_items):
        raise CorruptModelError(f"{name} names items that do not exist; restore it or build the model again.")


_NOTHING = np.empty(0, dtype=np.int32)
_NOTHING.flags.writeable = False
