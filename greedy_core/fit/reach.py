"""Edges by which a walk can get from its entries to every item."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Ids = npt.NDArray[np.int32]

# The nearest of so many reached items stands in for the nearest of all, which would take a scan for every island.
_SAMPLE = 1024
_SEED = 20170818
# Rounds over what is left end when one reaches less than this share of it, so that all take no longer than ten.
_WORTH_A_ROUND = 0.1


def lead_everywhere(neighbours: Ids, entries: Ids, space: Float32Array) -> None:
    """Change edges until walks from the entries can reach every item.

    An item that none can reach takes the place of an edge of an item near to it: an empty place, or one by which no
    item was reached first, so none is lost. Items beside one that was reached come first; what then is left are
    islands, and one item of each is led to from the nearest of a sample.
    """
    reach = _Reach(neighbours, space)
    reach.spread(np.unique(entries))
    lost = np.flatnonzero(~reach.reached)
    while len(lost):
        for item in lost:
            reach.lead_from_beside(item)
        left = lost[~reach.reached[lost]]
        if len(lost) - len(left) < _WORTH_A_ROUND * len(lost):
            for item in left:
                reach.lead_from_anywhere(item)
            return
        lost = left


class _Reach:
    """Which items can be reached, and by which edges each was reached first."""

    def __init__(self, neighbours: Ids, space: Float32Array) -> None:
        self.reached = np.zeros(len(neighbours), dtype=bool)
        self._neighbours = neighbours
        self._space = space
        self._needed = np.zeros(neighbours.shape, dtype=bool)
        self._rng = np.random.default_rng(_SEED)
        self._sample = np.empty(0, dtype=np.int64)

    def spread(self, ahead: npt.NDArray[np.integer]) -> None:
        """Reach these items and all that can be reached from them."""
        degree = self._neighbours.shape[1]
        while len(ahead):
            self.reached[ahead] = True
            ends = self._neighbours[ahead].ravel()
            fresh = np.flatnonzero((ends >= 0) & ~self.reached[ends])
            found, first = np.unique(ends[fresh], return_index=True)
            self._needed[ahead[fresh[first] // degree], fresh[first] % degree] = True
            ahead = found

    def lead_from_beside(self, item: np.integer) -> None:
        """Lead to an item from one of its own neighbours, if one was reached and has a place to give."""
        if self.reached[item]:
            return
        near = self._neighbours[item]
        near = near[near >= 0]
        near = near[self.reached[near]]
        near = near[self._has_place(near)]
        if len(near):
            self._lead(near[0], item)

    def lead_from_anywhere(self, item: np.integer) -> None:
        """Lead to an item from the nearest of a sample of those that were reached and have a place to give."""
        if self.reached[item]:
            return
        sources = self._sample[self._has_place(self._sample)]
        if 2 * len(sources) <= len(self._sample):
            sources = self._draw()
        distances = np.square(self._space[sources] - self._space[item]).sum(axis=1)
        self._lead(sources[distances.argmin()], item)

    def _lead(self, source: np.integer, item: np.integer) -> None:
        free = np.flatnonzero(~self._needed[source])
        empty = free[self._neighbours[source, free] < 0]
        place = empty[0] if len(empty) else free[-1]
        self._neighbours[source, place] = item
        self._needed[source, place] = True
        self.spread(np.array([item]))

    def _has_place(self, items: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
        has_place: npt.NDArray[np.bool_] = ~self._needed[items].all(axis=1)
        return has_place

    def _draw(self) -> npt.NDArray[np.int64]:
        """Draw a new sample. It is never empty: fewer edges are needed than reached items have places."""
        sources = np.flatnonzero(self.reached & ~self._needed.all(axis=1))
        if len(sources) > _SAMPLE:
            sources = self._rng.choice(sources, _SAMPLE, replace=False)
        self._sample = sources
        return sources
