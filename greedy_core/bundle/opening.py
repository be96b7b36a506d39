"""The model bundle: all that a service needs, in one immutable directory.

    index.*           the GreedyIndex: the items' rows, the lists, the axes, the graph
    items.ids.*       external ids, in arrays that are looked up without being loaded (see ids.py)
    items.titles.*    a title for those items that have one
    attributes.*      what else is known of items: to filter by, and to show (see attributes/)
    users.vectors     one row per user; users.known says who has a vector, if not everybody has
    users.remembered  one row per user: positions of its best items, the best first (see fit/remembered.py)
    users.ids.*
    seen.*            what each user has seen: positions of items, in CSR form
    popular           positions of items, the most popular first
    similar.*         the items at unit length, indexed, and each item's nearest (see similar.py)
    fold_in.*         two matrices of an implicit ALS model, by which new users are folded in (see fold_in.py)

The index may also lie in shards: then `index.*` says which item is where, each shard is a bundle of its own in a
directory beside the files, and all else is kept once, here (see shards/).

Everything is memory-mapped, so any number of processes share one copy. Opening checks that all parts fit
together and that nothing in them points outside, which reads the offsets and positions but no vectors and no
texts; `verify` reads all, compares checksums, and refuses values that no build would have written.
"""

from __future__ import annotations

import copy
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.attributes.table import Attributes
from greedy_core.bundle import storage
from greedy_core.bundle.ids import open_ids
from greedy_core.bundle.manifest import read_manifest
from greedy_core.bundle.texts import Texts, check_offsets
from greedy_core.bundle.title_search import FoundItems, find_in_texts, orders
from greedy_core.embeddings import UserVectors
from greedy_core.errors import CalibrationError, CorruptModelError
from greedy_core.filters.filter import Filter
from greedy_core.fit.checking import check_remembered, check_vectors
from greedy_core.fold_in import FoldIn, FoldInSystem, ItemsMet, make_vector
from greedy_core.index import GreedyIndex
from greedy_core.quality import Quality
from greedy_core.shards.index import AnyIndex, ShardedIndex
from greedy_core.shards.item_map import ItemMap
from greedy_core.shards.places import Places
from greedy_core.similar import SimilarItems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array
    from greedy_core.fold_in import MadeVector

    Arrays = dict[str, npt.NDArray[Any]]

KIND = "bundle"
# One whose index lies in shards. An earlier release does not take it for a bundle.
KIND_IN_SHARDS = "shards"


class Bundle:
    """An open bundle. Immutable, and safe to share among threads and across a fork. Use `Bundle.open`.

    Items and users are positions from 0 inside, and external ids (always text here) outside.
    """

    def __init__(self, path: Path, stored: storage.Stored) -> None:
        """Check that the parts fit together. Raises CorruptModelError."""
        arrays, info, self._fingerprint = stored
        parts = {name.removeprefix("index."): array for name, array in arrays.items() if name.startswith("index.")}
        self.path = path
        # Where the index lies in shards, each is a bundle; the others have none.
        self.shards = _open_shards(path, info["shards"]) if "shards" in info else ()
        self.index: AnyIndex
        if self.shards:
            places = Places.from_arrays(parts, info["index"]["sizes"])
            item_map = ItemMap.from_arrays(parts, info["index"], places.n_items)
            self.index = ShardedIndex(_indexes([shard.index for shard in self.shards]), places, item_map)
            looks = [self._fingerprint, *(shard.fingerprint() for shard in self.shards)]
            self._fingerprint = hashlib.sha256("\n".join(looks).encode()).hexdigest()
        else:
            self.index = GreedyIndex.from_arrays(parts, info["index"])
        self.version: str = info["version"]
        self.built_at: str = info["built_at"]
        self.metadata: dict[str, Any] = info["metadata"]
        self.calibration: dict[str, Any] | None = info["calibration"]
        self.quality = _quality(info.get("quality"))
        self.n_items = self.index.n_items
        self.n_dims = self.index.n_dims
        self.n_users: int = info["n_users"]
        self._item_ids = open_ids("items.ids", arrays, self.n_items)
        self._user_ids = open_ids("users.ids", arrays, self.n_users)
        has_titles = "items.titles.text" in arrays or "items.titles.offsets" in arrays
        self._titles = Texts.from_arrays("items.titles", arrays) if has_titles else None
        self.attributes = _open_attributes(arrays, info.get("attributes", []), self.n_items)
        self._vectors: Float32Array | None = arrays.get("users.vectors")
        self._remembered: npt.NDArray[np.int32] | None = arrays.get("users.remembered")
        self._known: npt.NDArray[np.bool_] | None = arrays.get("users.known")
        has_seen = "seen.starts" in arrays or "seen.items" in arrays
        self._seen_starts = arrays["seen.starts"].data if has_seen else None
        self._seen_items: npt.NDArray[np.int32] | None = arrays.get("seen.items")
        self.popular: npt.NDArray[np.int32] = arrays["popular"]
        self.similar = _open_similar(arrays, info.get("similar"), self.index, self.shards)
        self._fold_in = _open_fold_in(arrays, info.get("fold_in"), self.n_dims)
        self._check(arrays, info.get("arrays"))

    @classmethod
    def open(cls, path: str | Path) -> Bundle:
        """Open a bundle, memory-mapped. Well under a second for a million users; checksums are not compared.

        Raises NotAModelError, FormatVersionError or CorruptModelError, with the reason.
        """
        path = Path(path)
        stored = storage.open_arrays(path, kind=KIND, or_kind=KIND_IN_SHARDS)
        try:
            return cls(path, stored)
        except CorruptModelError as reason:
            raise CorruptModelError(f"{path} cannot be used: {reason}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as reason:
            raise CorruptModelError(
                f"{path} cannot be used: a part is missing or of another kind ({reason}); build it again."
            ) from None

    def verify(self, progress: Callable[[int, int], None] | None = None, *, with_shards: bool = True) -> None:
        """Read every file: compare its checksum, and refuse what a build would not have written.

        `progress` is called with (bytes read, bytes in all). Without its shards a bundle has only what is kept once to
        read: others may verify these, each where it is served. Raises CorruptModelError that says where.
        """
        done, total = 0, self.bytes
        for part in (self, *self.shards) if with_shards else (self,):
            own = read_manifest(part.path).bytes
            storage.verify_files(part.path, progress=None if progress is None else _shifted(progress, done, total))
            done += own
        if Bundle.open(self.path).fingerprint() != self._fingerprint:
            raise CorruptModelError(f"{self.path} was changed while it was open; open it again.")
        try:
            self._verify_values(with_shards=with_shards)
        except CorruptModelError as reason:
            raise CorruptModelError(f"{self.path} cannot be used: {reason}") from None

    def searched_by(self, replaced: Callable[[ShardedIndex, bool], ShardedIndex]) -> Bundle:
        """Return the same bundle, whose shards are searched in another way or in another place.

        replaced  gets the index in shards, and whether it is that of similar items
        """
        changed = copy.copy(self)
        if isinstance(self.index, ShardedIndex):
            changed.index = replaced(self.index, False)
            if self.similar is not None:
                own = self.similar.index
                other = (
                    replaced(own, True) if isinstance(own, ShardedIndex) and not self.similar.shared else changed.index
                )
                changed.similar = self.similar.searched_by(other)
        return changed

    @property
    def bytes(self) -> int:
        """The size of all arrays on disk, those of the shards included."""
        return read_manifest(self.path).bytes + sum(shard.bytes for shard in self.shards)

    def _verify_values(self, *, with_shards: bool) -> None:
        for shard in self.shards if with_shards else ():
            shard._verify_values(with_shards=False)  # noqa: SLF001 - of its own
        if with_shards or not self.shards:
            self.index.verify()
        self._item_ids.verify()
        self._user_ids.verify()
        if self._titles is not None:
            self._titles.verify()
        self.attributes.verify()
        if self._vectors is not None:
            check_vectors("users.vectors", self._vectors)
            if self._known is not None and self._vectors[~self._known].any():
                raise CorruptModelError("a user without a vector has one in users.vectors; build the model again.")
            if self._remembered is not None and (with_shards or not self.shards):
                check_remembered(self.index.items, self._remembered, self._vectors, self.seen_items)
        if self._fold_in is not None:
            self._fold_in.verify()
        if self.similar is not None and (with_shards or not self.shards):
            self.similar.verify(self.index.items)
        if len(np.unique(self.popular)) < len(self.popular):
            raise CorruptModelError("popular names an item twice; build the model again.")

    def fingerprint(self) -> str:
        """Return a name for the very files that are mapped, made of their inodes, sizes and times.

        Two openings with the same fingerprint have the same files; one of a bundle that was altered or replaced in
        between has another. So what was verified once need not be verified again under the same fingerprint.
        """
        return self._fingerprint

    def parts(self) -> dict[str, Any]:
        """Return all but the index, what was measured and the version, as arguments of `build_bundle`."""
        users = None if self._vectors is None else UserVectors(self._vectors, self._known)
        return {
            "item_ids": None if self._item_ids.texts is None else self.item_ids(range(self.n_items)),
            "user_ids": self.user_ids(range(self.n_users)) if self._user_ids.texts is not None else None,
            "titles": [self.title(position) for position in range(self.n_items)] if self.has_titles else None,
            "seen": None if self._seen_starts is None else (np.asarray(self._seen_starts), self._seen_items),
            "popular": self.popular,
            "attributes": self.attributes if len(self.attributes) else None,
            "quality": self.quality,
            "fold_in": self.fold_in,
            "metadata": self.metadata,
            "users": users,
        }

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

    def user_ids(self, positions: Sequence[int] | npt.NDArray[np.integer]) -> list[str]:
        """Return the external ids of many users. Positions are not checked here."""
        return self._user_ids.many(positions.tolist() if isinstance(positions, np.ndarray) else positions)

    def user_vector(self, position: int) -> Float32Array | None:
        """Return the user's vector, (n_dims,), as a read-only view, or None if this user has none."""
        if self._vectors is None or (self._known is not None and not self._known[position]):
            return None
        vector: Float32Array = self._vectors[position]
        return vector

    def user_remembered(self, position: int) -> npt.NDArray[np.int32] | None:
        """Return the positions of the user's best items as a read-only view, for `search`, or None if nobody looked.

        Where the bundle knows what users have seen, these are the best of the others: for a search that leaves out what
        the user has seen. They end where an entry is negative.
        They were the best when the bundle was written. A search ranks them by the vector it is given, so with a newer
        vector the scores are right and the list is a good place to begin at, no more.
        """
        if self._remembered is None:
            return None
        remembered: npt.NDArray[np.int32] = self._remembered[position]
        return remembered

    @property
    def fold_in(self) -> FoldIn | None:
        """How the model folds in new users; None where a new user's vector is the mean of the items'."""
        return None if self._fold_in is None else self._fold_in.parameters

    def vector_of_items(
        self,
        positions: npt.ArrayLike,
        weights: Sequence[float] | npt.NDArray[Any] | None = None,
        prior: Float32Array | None = None,
    ) -> MadeVector:
        """Return the vector of somebody who met the items, by a fold-in where the model can, else as their mean.

        weights  above 0, one for each; without them all count alike
        prior    the vector that this one had before: what was met moves it

        Raises InvalidQueryError. Takes about 10 microseconds for 3 items of 128 dimensions, 100 for 30, 600 for 300.
        """
        met = ItemsMet.of(positions, weights, self.n_items)
        items, places = self.index.some_items(met.positions)
        return make_vector(items, self._fold_in, ItemsMet(places, met.weights), prior)

    def mean_of_items(
        self, positions: npt.ArrayLike, weights: Sequence[float] | npt.NDArray[Any] | None = None
    ) -> Float32Array:
        """Return the weighted mean of the items' vectors, whatever the model can do. Raises InvalidQueryError."""
        met = ItemsMet.of(positions, weights, self.n_items)
        items, places = self.index.some_items(met.positions)
        return make_vector(items, None, ItemsMet(places, met.weights)).vector

    def seen_items(self, position: int) -> npt.NDArray[np.int32]:
        """Return the positions of the items that the user has seen, possibly none."""
        if self._seen_starts is None or self._seen_items is None:
            return _NOTHING
        return self._seen_items[self._seen_starts[position] : self._seen_starts[position + 1]]

    def item_position(self, item_id: str) -> int | None:
        """Return where the item stands, or None for an unknown item."""
        return self._item_ids.position(item_id)

    def item_positions(self, item_ids: Iterable[str]) -> npt.NDArray[np.int32]:
        """Return where each of the items stands, as an int32 array with -1 for unknown ones; 0.2 microseconds each."""
        return self._item_ids.positions(item_ids)

    def item_id(self, position: int) -> str:
        """Return the external id of an item."""
        return self._item_ids.text(position)

    def item_ids(self, positions: Sequence[int] | npt.NDArray[np.integer]) -> list[str]:
        """Return the external ids of many items, at less than a microsecond each.

        Positions are those of a search result: they are not checked again here.
        """
        return self._item_ids.many(positions.tolist() if isinstance(positions, np.ndarray) else positions)

    def title(self, position: int) -> str | None:
        """Return an item's title, or None if it has none (an empty title is none)."""
        return self._titles[position] or None if self._titles is not None else None

    def find_items(self, text: str, limit: int = 20, eligible: Eligible | None = None) -> FoundItems:
        """Return items by words of their titles, or of their ids where nothing has a title; popular ones first.

        eligible  the only items that may be found; None: all

        An item whose id is the text comes before all others. Without a word in the text, the popular items are found.
        At most 64 MB of titles are looked at, without the GIL.
        """
        if not text.strip():
            popular = next(orders(self.popular, self.n_items, eligible))
            return FoundItems(popular[:limit].tolist(), len(popular) <= limit)
        texts = self._item_ids.texts if self._titles is None else self._titles
        found = FoundItems([], complete=True)
        if texts is not None:
            found = find_in_texts(texts, text, self.popular, limit, eligible)
        named = self.item_position(text)
        if named is None or (eligible is not None and not int(eligible.words[named >> 6]) >> (named & 63) & 1):
            return found
        return FoundItems([named, *(each for each in found.positions if each != named)][:limit], found.complete)

    def filter(self, text: str, now: int | None = None) -> Eligible:
        """Return the items that a filter lets through, for `search`; greedy_core/filters/ says how one is written.

        now  what `now` means in it, in microseconds since 1970; else the time of the last whole minute

        Raises InvalidFilterError with the place where the filter is wrong.
        """
        return Filter(text).eligible(self.attributes, now)

    def _check(self, arrays: Arrays, named: object) -> None:
        # A bundle of an earlier release does not name its arrays.
        if named is not None and named != sorted(arrays):
            missing = sorted(set(named) - set(arrays)) if isinstance(named, list) else []
            what = f"{', '.join(missing)} missing" if missing else "arrays that it does not name"
            raise CorruptModelError(f"it has {what}; copy the model again.")
        if not all(isinstance(text, str) for text in (self.version, self.built_at)):
            raise CorruptModelError("its version or date is not text; build the model again.")
        if self._titles is not None and len(self._titles) != self.n_items:
            raise CorruptModelError(f"it has {len(self._titles)} titles for {self.n_items} items; build it again.")
        if self._vectors is None and (self._known is not None or self._remembered is not None):
            raise CorruptModelError("users.vectors is missing; copy the model again.")
        if self._vectors is not None:
            _check_array("users.vectors", self._vectors, np.float32, (self.n_users, self.n_dims))
        if self._remembered is not None:
            width = self._remembered.shape[-1] if self._remembered.ndim else 0
            _check_array("users.remembered", self._remembered, np.int32, (self.n_users, width))
            _check_positions("users.remembered", self._remembered.reshape(-1), self.n_items, least=-1)
        if self._known is not None:
            _check_array("users.known", self._known, np.bool_, (self.n_users,))
        if self._seen_starts is not None:
            _check_array("seen.starts", arrays["seen.starts"], np.int64, (self.n_users + 1,))
            _check_array("seen.items", arrays["seen.items"], np.int32, (len(arrays["seen.items"]),))
            check_offsets("seen", arrays["seen.starts"], len(arrays["seen.items"]))
            _check_positions("seen.items", arrays["seen.items"], self.n_items)
        _check_array("popular", self.popular, np.int32, (len(self.popular),))
        _check_positions("popular", self.popular, self.n_items)


def _open_attributes(arrays: Arrays, described: Any, n_items: int) -> Attributes:
    prefix = "attributes."
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    if {name.partition(".")[0] for name in parts} != {str(number) for number in range(len(described))}:
        raise CorruptModelError("its attributes are not those that it names; build the model again.")
    return Attributes.from_arrays(parts, described, n_items)


def _shifted(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int, int], None]:
    """Return what tells of one part of several."""
    return lambda here, _: progress(done + here, total)


def _open_shards(path: Path, named: Any) -> tuple[Bundle, ...]:
    """Open the shards, after comparing the manifest of each with what was noted when all were put together."""
    opened = []
    for each in named:
        place = path / each["name"]
        if place.parent != path:
            raise CorruptModelError(f"{each['name']!r} is no name of a shard; build the model again.")
        if read_manifest(place).checksum != each["checksum"]:
            raise CorruptModelError(f"{place} is another shard than the one that belongs here; copy the model again.")
        opened.append(Bundle.open(place))
    return tuple(opened)


def _indexes(found: Iterable[AnyIndex]) -> list[GreedyIndex]:
    """Return the indexes of shards, which have no shards themselves."""
    indexes = [index for index in found if isinstance(index, GreedyIndex)]
    if not indexes:
        raise CorruptModelError("its shards have shards themselves; build the model again.")
    return indexes


def _open_similar(
    arrays: Arrays, info: Mapping[str, Any] | None, index: AnyIndex, shards: Sequence[Bundle]
) -> SimilarItems | None:
    """Return the index of similar items; None where it was left out, or the bundle is of an earlier release."""
    parts = {name.removeprefix("similar."): array for name, array in arrays.items() if name.startswith("similar.")}
    if info is None:
        if parts:
            raise CorruptModelError(
                "it has an index of similar items, but not what describes it; build the model again."
            )
        return None
    if isinstance(index, GreedyIndex):
        return SimilarItems.from_arrays(parts, info, index)
    own = index
    if info["index"] is not None:
        found = [shard.similar.index for shard in shards if shard.similar is not None]
        item_map = ItemMap.from_arrays(parts, info["index"], index.n_items)
        own = ShardedIndex(_indexes(found), index.places, item_map)
    return SimilarItems.from_arrays(parts, info, index, own)


def _open_fold_in(arrays: Arrays, parameters: Mapping[str, Any] | None, n_dims: int) -> FoldInSystem | None:
    if parameters is None:
        if "fold_in.gram" in arrays or "fold_in.inverse" in arrays:
            raise CorruptModelError("it has the matrices of a fold-in, but not its parameters; build the model again.")
        return None
    for name in ("fold_in.gram", "fold_in.inverse"):
        _check_array(name, arrays[name], np.float64, (n_dims, n_dims))
    return FoldInSystem(FoldIn.from_dict(parameters), arrays["fold_in.gram"], arrays["fold_in.inverse"])


def _quality(stored: Any) -> Quality | None:
    """Return what was measured on real behaviour; a bundle of an earlier release says nothing."""
    if stored is None:
        return None
    try:
        return Quality.from_dict(stored)
    except CalibrationError as reason:
        raise CorruptModelError(str(reason)) from None


def _check_array(name: str, array: npt.NDArray[Any], dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise CorruptModelError(
            f"{name} is {array.dtype} of shape {array.shape} where {np.dtype(dtype)} of shape {shape} was "
            "expected; build the model again."
        )


def _check_positions(name: str, positions: npt.NDArray[np.int32], n_items: int, least: int = 0) -> None:
    if len(positions) and (positions.min() < least or positions.max() >= n_items):
        raise CorruptModelError(f"{name} names items that do not exist; restore it or build the model again.")


_NOTHING = np.empty(0, dtype=np.int32)
_NOTHING.flags.writeable = False
