"""Places: which item lies in which shard, and where in it.

Items keep their order inside of a shard. So where two of them are equally good, the one that comes first in the shard
comes first among all items, too, and an answer that was merged has the order that one index would have given it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from greedy_core.eligible import Eligible
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Positions = npt.NDArray[np.int32]

# More shards than this would have their numbers stored in another kind of number.
MOST_SHARDS = 4096
# The parts of so many filters are kept.
_KEPT = 64
_BLOCK_ROWS = 1 << 16


def deal(items: Float32Array, n_shards: int) -> npt.NDArray[np.uint16]:
    """Return for each item (a row) the number of its shard.

    The items are dealt by length, the longest first, once around and once back and so on: long items are the ones that
    get found, and each shard has as many of them as any other. Shards differ in size by one item at most.
    """
    if not 1 <= n_shards <= min(len(items), MOST_SHARDS):
        raise InvalidEmbeddingsError(
            f"{len(items)} items can be dealt to 1 to {min(len(items), MOST_SHARDS)} shards, but {n_shards} were asked "
            "for; ask for fewer."
        )
    squares = np.empty(len(items))
    for start in range(0, len(items), _BLOCK_ROWS):
        block = items[start : start + _BLOCK_ROWS].astype(np.float64)
        squares[start : start + len(block)] = np.einsum("ij,ij->i", block, block)
    turns, places = np.divmod(np.arange(len(items)), n_shards)
    shard = np.empty(len(items), dtype=np.uint16)
    shard[np.argsort(-squares, kind="stable")] = np.where(turns % 2 == 0, places, n_shards - 1 - places)
    return shard


class Places:
    """Where the items of all shards lie. Immutable.

    shard   of each item, its number
    local   of each item, its position in its shard
    """

    def __init__(
        self, shard: npt.NDArray[np.uint16], local: Positions, positions: Positions, starts: npt.NDArray[np.int64]
    ) -> None:
        """Use `of` or `from_arrays`."""
        self.shard = shard
        self.local = local
        self._positions = positions
        self._starts = starts
        self.n_items = len(shard)
        self.n_shards = len(starts) - 1
        self.sizes: tuple[int, ...] = tuple(np.diff(starts).tolist())
        self._parts: dict[int, tuple[Eligible, list[Eligible]]] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, shard: npt.NDArray[np.uint16], n_shards: int) -> Self:
        """Work out the places from the number of each item's shard."""
        positions = np.argsort(shard, kind="stable").astype(np.int32)
        sizes = np.bincount(shard, minlength=n_shards)
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        local = np.empty(len(shard), dtype=np.int32)
        local[positions] = np.arange(len(shard)) - np.repeat(starts[:-1], sizes)
        return cls(shard, local, positions, starts)

    def in_shard(self, number: int) -> Positions:
        """Return the positions of a shard's items among all, ascending."""
        return self._positions[self._starts[number] : self._starts[number + 1]]

    def split(self, positions: Positions) -> list[Positions]:
        """Return for each shard where in it those of the items lie that it has, in the order given."""
        shards, locals_ = self.shard[positions], self.local[positions]
        return [locals_[shards == number] for number in range(self.n_shards)]

    def split_eligible(self, eligible: Eligible) -> list[Eligible]:
        """Return for each shard which of its items are eligible. What was worked out is kept for the next search."""
        with self._lock:
            kept = self._parts.get(id(eligible))
        if kept is not None and kept[0] is eligible:
            return kept[1]
        mask = eligible.mask()
        parts = [Eligible.from_mask(mask[self.in_shard(number)]) for number in range(self.n_shards)]
        with self._lock:
            if len(self._parts) >= _KEPT:
                self._parts.clear()
            # The whole is kept with its parts, so that nothing else can have its identity.
            self._parts[id(eligible)] = (eligible, parts)
        return parts

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs."""
        return {"shard": self.shard, "local": self.local, "positions": self._positions, "starts": self._starts}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], sizes: Sequence[int]) -> Self:
        """Return the places from a file, for shards of these sizes. Raises CorruptModelError."""
        n_items = sum(sizes)
        expected = {
            "shard": (np.uint16, (n_items,)),
            "local": (np.int32, (n_items,)),
            "positions": (np.int32, (n_items,)),
            "starts": (np.int64, (len(sizes) + 1,)),
        }
        for name, (dtype, shape) in expected.items():
            if arrays[name].dtype != dtype or arrays[name].shape != shape:
                raise CorruptModelError(f"index.{name} does not fit to its shards; build the model again.")
        shard, local, positions, starts = (arrays[name] for name in expected)
        if starts.tolist() != [0, *np.cumsum(sizes).tolist()]:
            raise CorruptModelError("index.starts does not fit to the sizes of its shards; build the model again.")
        for start in range(0, n_items, _BLOCK_ROWS):
            items = slice(start, min(start + _BLOCK_ROWS, n_items))
            inside = (shard[items] < len(sizes)).all() and (local[items] >= 0).all()
            at = starts[shard[items].astype(np.int64)] + local[items] if inside else starts[:1]
            if not inside or at.max() >= n_items or (positions[at] != np.arange(items.start, items.stop)).any():
                raise CorruptModelError("index.positions is not where the items lie; build the model again.")
        return cls(shard, local, positions, starts)
