"""Eligible: which items a search may return, a bit for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from greedy_core.errors import InvalidQueryError
from greedy_core.positions import as_positions

if TYPE_CHECKING:
    import numpy.typing as npt

WORD_BITS = 64
# The positions of a few are kept beside the bits: a search need not look at all words to find them.
_LISTED_SHARE = 16
# Of many, so many stand for all: a walk begins at these.
_SPREAD = 64


class Eligible:
    """A set of items, one bit each. Immutable; any number of searches may use it at once.

    words      uint64, bit j % 64 of word j // 64 is item j; bits from n_items on are zero
    count      how many items it has
    positions  of the items, ascending, where they are at most a sixteenth of all; else None
    spread     the positions of up to 64 of the items, evenly spread over them

    Making one costs a pass over the words, and is meant to be done once for many searches; a search copies nothing.
    """

    __slots__ = ("count", "n_items", "positions", "spread", "words")

    def __init__(self, words: npt.NDArray[np.uint64], n_items: int) -> None:
        """Take the words of `n_items` items as they are, without a copy; nobody may change them afterwards."""
        expected = (-(-n_items // WORD_BITS),)
        if words.dtype != np.uint64 or words.shape != expected or not words.flags.c_contiguous:
            raise InvalidQueryError(
                f"the bits of {n_items} items are {expected[0]} contiguous words of uint64, but these are "
                f"{words.dtype} {words.shape}."
            )
        unused = expected[0] * WORD_BITS - n_items
        if unused and int(words[-1]) >> (WORD_BITS - unused):
            raise InvalidQueryError(f"there are {n_items} items, but a bit behind them is set; leave these bits zero.")
        self.words = words.view()
        self.words.flags.writeable = False
        self.n_items = n_items
        ends = np.bitwise_count(words).cumsum(dtype=np.int64)
        self.count = int(ends[-1])
        self.positions = self._listed() if self.count * _LISTED_SHARE <= n_items else None
        self.spread = self._spread(ends)

    @classmethod
    def from_mask(cls, mask: npt.ArrayLike) -> Self:
        """Return the items whose place in `mask`, one flag for each item, is true."""
        flags = np.asarray(mask)
        if flags.ndim != 1 or flags.dtype != np.bool_ or len(flags) == 0:
            raise InvalidQueryError(
                f"a mask of eligible items is a flat array of bool, one for each item, but this is {flags.dtype} "
                f"{flags.shape}."
            )
        packed = np.zeros(-(-len(flags) // WORD_BITS) * 8, dtype=np.uint8)
        packed[: -(-len(flags) // 8)] = np.packbits(flags, bitorder="little")
        return cls(packed.view("<u8").astype(np.uint64, copy=False), len(flags))

    @classmethod
    def from_positions(cls, positions: npt.ArrayLike, n_items: int) -> Self:
        """Return the items at these positions, in any order and with repetitions allowed."""
        mask = np.zeros(n_items, dtype=np.bool_)
        mask[as_positions(positions, n_items, name="eligible")] = True
        return cls.from_mask(mask)

    @property
    def selectivity(self) -> float:
        """The share of all items that is eligible."""
        return self.count / self.n_items

    def mask(self) -> npt.NDArray[np.bool_]:
        """Return a flag for each item."""
        flags = np.unpackbits(self._bytes(), count=self.n_items, bitorder="little")
        return flags.view(np.bool_)

    def has(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Return for each of the items at these positions, which are not checked, whether it is eligible."""
        bits: npt.NDArray[np.bool_] = (self.words[positions >> 6] >> (positions & 63).astype(np.uint64)) & 1 != 0
        return bits

    def __contains__(self, item: object) -> bool:
        """Whether the item at a position is eligible."""
        if not isinstance(item, int | np.integer) or not 0 <= item < self.n_items:
            return False
        return bool(int(self.words[int(item) // WORD_BITS]) >> (int(item) % WORD_BITS) & 1)

    def __len__(self) -> int:
        """How many items are eligible."""
        return self.count

    def __eq__(self, other: object) -> bool:
        """Whether both have the same items."""
        if not isinstance(other, Eligible):
            return NotImplemented
        return self.n_items == other.n_items and bool((self.words == other.words).all())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Eligible({self.count} of {self.n_items} items)"

    def _bytes(self) -> npt.NDArray[Any]:
        return self.words.astype("<u8", copy=False).view(np.uint8)

    def _bits(self, words: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
        """Return the bits of some of the words, (n_words, 64)."""
        return np.unpackbits(self._bytes().reshape(-1, 8)[words], axis=1, bitorder="little")

    def _listed(self) -> npt.NDArray[np.int32]:
        if self.count > len(self.words) // 4:
            return _frozen(np.flatnonzero(self.mask()))
        # Looked for in the words that have any, and among flags in one row: among rows it takes ten times as long.
        used = np.flatnonzero(self.words)
        found = np.flatnonzero(self._bits(used).reshape(-1).view(np.bool_))
        return _frozen(used[found // WORD_BITS] * WORD_BITS + found % WORD_BITS)

    def _spread(self, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return every so many-th item; ends[i] is how many there are up to word i."""
        n = min(self.count, _SPREAD)
        ranks = np.arange(n) * self.count // max(n, 1)
        if self.positions is not None:
            return _frozen(self.positions[ranks])
        words = np.searchsorted(ends, ranks, side="right")
        before = np.where(words > 0, ends[words - 1], 0)
        # The bit that has as many set before it in its word as the rank says.
        bits = self._bits(words)
        bit = (bits.cumsum(axis=1, dtype=np.int64) > (ranks - before)[:, None]).argmax(axis=1)
        return _frozen(words * WORD_BITS + bit)


def _frozen(positions: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    found = np.ascontiguousarray(positions, dtype=np.int32)
    found.flags.writeable = False
    return found
