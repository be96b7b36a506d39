"""External ids: from text to position and back, without a dictionary in every process.

    id -> BLAKE2b, 64 bits -> its top bits pick a bucket -> positions in the bucket -> compare the id itself

The table is two arrays beside the texts and is memory-mapped like everything else. On average a bucket holds
one id or less, so a look-up touches a handful of cache lines, whatever the number of ids. It is a table of our own
because a dictionary would be copied into every process and an embedded store would be a second format on disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from greedy_core._kernel import IdLookup, decimal_positions, hash_ids
from greedy_core.bundle.texts import Texts, check_offsets, pack_texts
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

_HASH_BITS = 64


class Ids(Protocol):
    """What a bundle needs of ids. Immutable; any number of threads may ask."""

    def __len__(self) -> int: ...

    def verify(self) -> None:
        """Read all ids. Raises CorruptModelError for one that nobody could have given."""

    def position(self, text: str) -> int | None:
        """Return where the id stands, or None if nobody has it."""

    def positions(self, texts: Iterable[str]) -> npt.NDArray[np.int32]:
        """Return where each of the ids stands, -1 where nobody has it."""

    def text(self, position: int) -> str:
        """Return the id at a position."""

    def many(self, positions: Sequence[int]) -> list[str]:
        """Return the ids at several positions, which must be plain ints in range."""

    @property
    def texts(self) -> Texts | None:
        """The ids as they are stored; None where they are not."""


class PositionIds:
    """Ids that nobody gave: the positions themselves, in decimal."""

    __slots__ = ("_length",)

    texts = None

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def verify(self) -> None:
        """Do nothing: there is nothing to read."""

    def position(self, text: str) -> int | None:
        """Return the number that the text is, if it is written as `text` would write it."""
        position = int(decimal_positions((text,), self._length)[0])
        return None if position < 0 else position

    def positions(self, texts: Iterable[str]) -> npt.NDArray[np.int32]:
        """Return the numbers that the texts are, -1 for others."""
        return decimal_positions(texts, self._length)

    def text(self, position: int) -> str:
        """Return the position in decimal."""
        if not 0 <= position < self._length:
            raise IndexError(f"there is no id {position}; positions go from 0 to {self._length - 1}.")
        return str(position)

    def many(self, positions: Sequence[int]) -> list[str]:
        """Return the positions in decimal."""
        return [str(position) for position in positions]


class IdTable:
    """Ids that were given, over the arrays that `pack_ids` makes."""

    __slots__ = ("_lookup", "_name", "many", "position", "positions", "text", "texts")

    def __init__(self, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Open what `pack_ids` made under this name, after checking that no entry leads outside."""
        self._name = name
        self.texts = Texts.from_arrays(name, arrays)
        buckets, positions = arrays[f"{name}.buckets"], arrays[f"{name}.positions"]
        n_ids, n_buckets = len(self.texts), len(buckets) - 1
        check_offsets(f"{name}.buckets", buckets, n_ids)
        if buckets.dtype != np.int32 or n_buckets < 2 or n_buckets & (n_buckets - 1):
            raise CorruptModelError(f"{name} has {n_buckets} buckets, not a power of two; build the model again.")
        if positions.dtype != np.int32 or positions.shape != (n_ids,):
            raise CorruptModelError(f"{name} has positions of another number than ids; build the model again.")
        if n_ids and (positions.min() < 0 or positions.max() >= n_ids):
            raise CorruptModelError(f"{name} leads to ids that do not exist; build the model again.")
        self._lookup = IdLookup(arrays[f"{name}.text"], arrays[f"{name}.offsets"], buckets, positions)
        self.position = self._lookup.position
        self.positions = self._lookup.positions
        self.text = self.texts.__getitem__
        self.many = self.texts.many

    def __len__(self) -> int:
        return len(self.texts)

    def verify(self) -> None:
        """Read all ids. Raises CorruptModelError for one that `pack_ids` would have refused or put elsewhere."""
        self.texts.verify()
        bad = self._lookup.first_bad_id()
        if bad >= 0:
            raise CorruptModelError(
                f"id {bad} of {self._name} is empty, given twice or in the wrong place; build the model again."
            )


def open_ids(name: str, arrays: Mapping[str, npt.NDArray[Any]], length: int) -> Ids:
    """Return the ids stored under this name, or positions in decimal if none were stored."""
    stored = any(array.startswith(f"{name}.") for array in arrays)
    ids: Ids = IdTable(name, arrays) if stored else PositionIds(length)
    if len(ids) != length:
        raise CorruptModelError(f"{name} holds {len(ids)} ids for {length} rows; build the model again.")
    return ids


def pack_ids(name: str, ids: Iterable[object]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an `IdTable`: a second or two for a million ids.

    Raises InvalidEmbeddingsError for an id that is empty, given twice, or neither text nor a whole number.
    """
    encoded = encode_ids(name, ids)
    hashes = hash_ids(encoded)
    order = np.argsort(hashes, kind="stable")
    _refuse_duplicates(name, encoded, hashes, order)
    bits = max(1, (len(encoded) - 1).bit_length())
    counts = np.bincount((hashes >> np.uint64(_HASH_BITS - bits)).astype(np.int64), minlength=1 << bits)
    buckets = np.zeros((1 << bits) + 1, dtype=np.int32)
    np.cumsum(counts, out=buckets[1:])
    return {
        **pack_texts(name, encoded),
        f"{name}.buckets": buckets,
        f"{name}.positions": order.astype(np.int32),
    }


def encode_ids(name: str, ids: Iterable[object]) -> list[bytes]:
    """Return the ids as UTF-8; whole numbers become their decimal text."""
    values: list[Any] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    if not all(type(value) is str for value in values):
        values = [_as_text(name, row, value) for row, value in enumerate(values)]
    try:
        encoded = [value.encode() for value in values]
    except UnicodeEncodeError as reason:
        raise InvalidEmbeddingsError(f"{name} hold an id that is not valid text: {reason.object!a}.") from None
    if b"" in encoded:
        raise InvalidEmbeddingsError(f"{name} hold an empty id in row {encoded.index(b'')}; every row needs one.")
    return encoded


def _as_text(name: str, row: int, value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    raise InvalidEmbeddingsError(
        f"{name} hold {value!r} in row {row}, but an id is text or a whole number; convert it to text."
    )


def _refuse_duplicates(
    name: str, encoded: Sequence[bytes], hashes: npt.NDArray[np.uint64], order: npt.NDArray[np.intp]
) -> None:
    """Equal ids have equal hashes, and equal hashes are neighbours in this order."""
    ordered = hashes[order]
    first: dict[bytes, int] = {}
    twins = np.flatnonzero(ordered[1:] == ordered[:-1])
    for row in sorted({*order[twins].tolist(), *order[twins + 1].tolist()}):
        if encoded[row] in first:
            raise InvalidEmbeddingsError(
                f"{name} hold {encoded[row].decode()!r} twice, in rows {first[encoded[row]]} and {row}; "
                "every row needs an id of its own."
            )
        first[encoded[row]] = row
