"""The model bundle: all that a service needs, in one immutable directory.

    index.*           the GreedyIndex: the items' rows, the lists, the axes, the graph
    items.ids.*       external ids, in arrays that are looked up without being loaded (see ids.py)
    items.titles.*    a title for those items that have one
    users.vectors     one row per user; users.known says who has a vector, if not everybody has
    users.remembered  one row per user: positions of its best items, the best first (see fit/remembered.py)
    users.ids.*
    seen.*            what each user has seen: positions of items, in CSR form
    popular           positions of items, the most popular first

Everything is memory-mapped, so any number of processes share one copy. Opening checks that all parts fit
together and that nothing in them points outside, which reads the offsets and positions but no vectors and no
texts; `verify` reads all, compares checksums, and refuses values that no build would have written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.bundle import storage
from greedy_core.bundle.ids import open_ids
from greedy_core.bundle.texts import Texts, check_offsets
from greedy_core.errors import CorruptModelError
from greedy_core.fit.checking import check_remembered, check_vectors
from greedy_core.index import GreedyIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Arrays = dict[str, npt.NDArray[Any]]

KIND = "bundle"


class Bundle:
    """An open bundle. Immutable, and safe to share among threads and across a fork. Use `Bundle.open`.

    Items and users are positions from 0 inside, and external ids (always text here) outside.
    """

    def __init__(self, path: Path, stored: storage.Stored) -> None:
        """Check that the parts fit together. Raises CorruptModelError."""
        arrays, info, self._fingerprint = stored
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
        has_titles = "items.titles.text" in arrays or "items.titles.offsets" in arrays
        self._titles = Texts.from_arrays("items.titles", arrays) if has_titles else None
        self._vectors: Float32Array | None = arrays.get("users.vectors")
        self._remembered: npt.NDArray[np.int32] | None = arrays.get("users.remembered")
        self._known: npt.NDArray[np.bool_] | None = arrays.get("users.known")
        has_seen = "seen.starts" in arrays or "seen.items" in arrays
        self._seen_starts = arrays["seen.starts"].data if has_seen else None
        self._seen_items: npt.NDArray[np.int32] | None = arrays.get("seen.items")
        self.popular: npt.NDArray[np.int32] = arrays["popular"]
        self._check(arrays, info.get("arrays"))

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
        """Read every file: compare its checksum, and refuse what a build would not have written.

        `progress` is called with (bytes read, bytes in all). Raises CorruptModelError that says where.
        """
        storage.verify_files(self.path, progress=progress)
        if storage.open_arrays(self.path, kind=KIND).fingerprint != self._fingerprint:
            raise CorruptModelError(f"{self.path} was changed while it was open; open it again.")
        try:
            self._verify_values()
        except CorruptModelError as reason:
            raise CorruptModelError(f"{self.path} cannot be used: {reason}") from None

    def _verify_values(self) -> None:
        self.index.verify()
        self._item_ids.verify()
        self._user_ids.verify()
        if self._titles is not None:
            self._titles.verify()
        if self._vectors is not None:
            check_vectors("users.vectors", self._vectors)
            if self._known is not None and self._vectors[~self._known].any():
                raise CorruptModelError("a user without a vector has one in users.vectors; build the model again.")
            if self._remembered is not None:
                check_remembered(self.index.items, self._remembered, self._vectors)
        if len(np.unique(self.popular)) < len(self.popular):
            raise CorruptModelError("popular names an item twice; build the model again.")

    def fingerprint(self) -> str:
        """Return a name for the very files that are mapped, made of their inodes, sizes and times.

        Two openings with the same fingerprint have the same files; one of a bundle that was altered or replaced in
        between has another. So what was verified once need not be verified again under the same fingerprint.
        """
        return self._fingerprint

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

    def user_remembered(self, position: int) -> npt.NDArray[np.int32] | None:
        """Return the positions of the user's best items as a read-only view, for `search`, or None if nobody looked.

        They were the best when the bundle was written. A search ranks them by the vector it is given, so with a newer
        vector the scores are right and the list is a good place to begin at, no more.
        """
        if self._remembered is None:
            return None
        remembered: npt.NDArray[np.int32] = self._remembered[position]
        return remembered

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
