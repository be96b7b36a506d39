"""Similar items: the largest cosine with an item, or with the mean direction of several.

    items ──► at unit length ──► an index of their own ──► each item's best 64, itself left out ──► calibration

By inner product long vectors win wherever one looks: on ALS vectors a handful of bestsellers is "similar" to all. At
unit length only the direction counts. So there is a second index, over the same items at unit length, built, chosen
and calibrated like the first; where all items have unit length already, the first one serves both. Items are known
before they are asked, so each remembers its neighbours, as users remember their best items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core._fold_in import weighted_mean
from greedy_core.errors import CalibrationError, CorruptModelError
from greedy_core.fit.calibration import Calibration
from greedy_core.fit.checking import check_remembered
from greedy_core.fit.curve import curve_of
from greedy_core.fit.directions import Axes
from greedy_core.fit.remembered import REMEMBERED
from greedy_core.fit.trial import MOST_SAMPLE, SEED
from greedy_core.fold_in import ItemsMet, length_of
from greedy_core.index import GreedyIndex, Whole
from greedy_core.precision import ROUNDING
from greedy_core.shards.index import AnyIndex, ShardedIndex

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.directions import Kind
    from greedy_core.precision import Precision

    Arrays = dict[str, npt.NDArray[Any]]
    Ids = npt.NDArray[np.int32]

_UNIT = 1e-5
# Axes of many items are fitted to so many of them.
_FITTED = 200_000
_ITSELF = np.zeros(1, dtype=np.int32)
_BLOCK_ROWS = 1 << 16
# Of how many items together the curve for several is measured.
_SEVERAL = 3


class SimilarQuery(NamedTuple):
    """What a search for similar items needs: a unit vector, where to begin, and what to leave out."""

    vector: Float32Array
    remembered: Ids
    exclude: Ids


class SimilarItems:
    """The part of a bundle that finds similar items. Use `build`."""

    def __init__(self, index: AnyIndex, remembered: Ids, calibration: Calibration | None, *, shared: bool) -> None:
        """Put the parts together.

        shared  the index is the bundle's own: all items have unit length
        """
        self.index = index
        self.calibration = calibration
        self.shared = shared
        self._remembered = remembered

    @classmethod
    def build(
        cls,
        index: GreedyIndex,
        *,
        directions: Kind = "auto",
        calibrated: bool = True,
        threads: int | None = None,
        progress: bool = False,
        whole: Whole | None = None,
        like: SimilarItems | None = None,
    ) -> SimilarItems:
        """Build the part for the items of an index.

        whole  what was learned of more items at unit length, of which these are a part; None where all have it anyway
        like   the part of others of these items: this one is built as that one was
        """
        unit, shared = at_unit_length(index.items, index.precision)
        shared = shared and whole is None
        if whole is not None and like is not None and isinstance(like.index, GreedyIndex):
            index = like.index.of_others(unit, centre=whole.centre, threads=threads, progress=progress)
        elif not shared:
            index = GreedyIndex.build(
                unit,
                directions=directions,
                max_budget=index.max_budget,
                threads=threads,
                progress=progress,
                precision=index.precision,
                whole=whole,
            )
        # An item is the nearest to itself, and no neighbour. It is asked for as the index has it, perhaps rounded.
        itself = np.arange(len(unit), dtype=np.int32)[:, None]
        found = index.remember(index.items, exclude=itself, progress=progress)
        made = cls(index, found, None, shared=shared)
        if calibrated and index.n_items > 1:
            made.calibration = made._calibrate()
        return made

    @classmethod
    def of_shards(
        cls, index: ShardedIndex, items: npt.ArrayLike, *, shared: bool, calibrated: bool = True, progress: bool = False
    ) -> SimilarItems:
        """Put the parts of shards together: `items` are those of all, at any length, in their order."""
        itself = np.arange(index.n_items, dtype=np.int32)[:, None]
        made = cls(index, index.remember(items, exclude=itself, progress=progress), None, shared=shared)
        if calibrated and index.n_items > 1:
            made.calibration = made._calibrate()
        return made

    def searched_by(self, index: AnyIndex) -> SimilarItems:
        """Return the same part with another index of the same items."""
        return SimilarItems(index, self._remembered, self.calibration, shared=self.shared)

    def query(self, positions: npt.ArrayLike, weights: Sequence[float] | None = None) -> SimilarQuery:
        """Return what a search for items like these needs. Raises InvalidQueryError."""
        met = ItemsMet.of(positions, weights, self.index.n_items)
        ids = met.positions
        items, places = self.index.some_items(ids)
        if len(ids) == 1:
            return SimilarQuery(items[places[0]], self._remembered[ids[0]], ids)
        mean = weighted_mean(items, places, met.weights)
        length = length_of(mean)
        vector = mean if length == 0.0 else (mean.astype(np.float64) / length).astype(np.float32)
        return SimilarQuery(vector, self._together(ids), ids)

    def _together(self, ids: Ids) -> Ids:
        """Return the neighbours of several items, the nearest of each first; each once."""
        # A few times as many as are kept, since some are neighbours of several.
        most = max(1, 4 * REMEMBERED // len(ids))
        merged = self._remembered[ids, :most].T.ravel()
        _, first = np.unique(merged, return_index=True)
        merged = merged[np.sort(first)]
        return merged[merged >= 0][:REMEMBERED]

    def _calibrate(self) -> Calibration:
        rng = np.random.default_rng(SEED)
        n_items = self.index.n_items
        drawn = np.sort(rng.permutation(n_items)[:MOST_SAMPLE])
        alone = [self.query([item]) for item in drawn.tolist()]
        # Several are harder the less they have in common; a curve of any items promises nobody too much.
        several = [self.query(rng.integers(0, n_items, _SEVERAL)) for _ in drawn]
        known, vectors = (
            curve_of(
                self.index,
                np.array([query.vector for query in queries]),
                exclude=[query.exclude for query in queries],
                remembered=[query.remembered for query in queries],
            )
            for queries in (alone, several)
        )
        return Calibration(
            known.points, known.sample_size, known.directions, known.screening, held_out=False, vectors=vectors
        )

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays, info = ({}, None) if self.shared else self.index.to_arrays()
        if isinstance(self.index, ShardedIndex):
            # Items lie where they lie for the bundle's own index, and each shard has its part.
            arrays = {} if self.shared else self.index.map_arrays()[0]
        arrays["remembered"] = self._remembered
        return arrays, {
            "index": info,
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        info: Mapping[str, Any],
        index: AnyIndex,
        own: ShardedIndex | None = None,
    ) -> SimilarItems:
        """Return the part from a file. Raises CorruptModelError.

        index  the bundle's own
        own    that of the items at unit length, where it lies in shards
        """
        shared = info["index"] is None
        searched: AnyIndex = index if own is None else own
        if own is None and not shared:
            searched = GreedyIndex.from_arrays(arrays, info["index"])
        if (searched.n_items, searched.n_dims) != (index.n_items, index.n_dims):
            raise CorruptModelError("the index of similar items holds other items; build the model again.")
        remembered = arrays["remembered"]
        if remembered.dtype != np.int32 or remembered.ndim != 2 or len(remembered) != index.n_items:
            raise CorruptModelError("similar.remembered does not fit to the items; build the model again.")
        if remembered.size and (remembered.min() < -1 or remembered.max() >= index.n_items):
            raise CorruptModelError("similar.remembered names items that do not exist; build the model again.")
        try:
            calibration = None if info["calibration"] is None else Calibration.from_dict(info["calibration"])
        except CalibrationError as reason:
            raise CorruptModelError(f"the curve of similar items cannot be used: {reason}") from None
        return cls(searched, remembered, calibration, shared=shared)

    def verify(self, items: Float32Array) -> None:
        """Read everything. Raises CorruptModelError for what a build would not have made of the items."""
        unit, _ = at_unit_length(items, self.index.precision)
        if not self.shared:
            self.index.verify()
        vectors = self.index.items
        if not np.allclose(vectors, unit, atol=_UNIT + ROUNDING[self.index.precision]):
            raise CorruptModelError("the index of similar items does not hold these items; build the model again.")
        check_remembered(vectors, self._remembered, vectors, lambda _: _ITSELF, name="similar.remembered")


def whole_at_unit_length(items: Float32Array, precision: Precision) -> Whole | None:
    """Return what the parts of these items learn together for `SimilarItems.build`; None if all have unit length.

    The axes are fitted to a sample of the items: not all need to be in memory at unit length.
    """
    total, shared = np.zeros(items.shape[1]), True
    for start in range(0, len(items), _BLOCK_ROWS):
        block, is_unit = at_unit_length(items[start : start + _BLOCK_ROWS], precision)
        total += block.sum(axis=0, dtype=np.float64)
        shared = shared and is_unit
    if shared:
        return None
    drawn = np.sort(np.random.default_rng(SEED).permutation(len(items))[:_FITTED])
    sample, _ = at_unit_length(np.ascontiguousarray(items[drawn]), precision)
    return Whole(Axes(sample, None), (total / len(items)).astype(np.float32))


def at_unit_length(items: Float32Array, precision: Precision) -> tuple[Float32Array, bool]:
    """Return the items at unit length (zeros stay zeros), and whether all had it already, before they were rounded."""
    tolerance = _UNIT + ROUNDING[precision]
    unit = np.empty(items.shape, dtype=np.float32)
    shared = True
    for start in range(0, len(items), _BLOCK_ROWS):
        block = items[start : start + _BLOCK_ROWS].astype(np.float64)
        lengths = np.sqrt((block * block).sum(axis=1, keepdims=True))
        shared = shared and bool((np.abs(lengths - 1) <= tolerance).all())
        unit[start : start + len(block)] = block / np.where(lengths > 0, lengths, 1)
    return (items, True) if shared else (unit, False)
