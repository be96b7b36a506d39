"""Sorted lists: the items along each direction, cut to the entries that a search can reach (section 4.2)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core._kernel import build_lists
from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

# Items are projected on a few directions at a time, which fill a cache line of each row of the result.
_DIRECTIONS_AT_ONCE = 16


class Lists(NamedTuple):
    """Sorted lists of one length: entry r of a list is its r-th largest item, and the item's projection."""

    ids: npt.NDArray[np.int32]  # (n_lists, depth)
    values: Float32Array

    @classmethod
    def empty(cls, n_lists: int, depth: int) -> Lists:
        """Return lists to be filled."""
        return cls(np.empty((n_lists, depth), dtype=np.int32), np.empty((n_lists, depth), dtype=np.float32))


def sort_along_axes(items: Float32Array, axes: Float32Array | None, depth: int, threads: int, *, show: bool) -> Lists:
    """Return two lists for each axis, along it and against it."""
    lists = Lists.empty(2 * items.shape[1], depth)

    def sort(start: int, stop: int) -> None:
        columns = items[:, start:stop] if axes is None else items @ axes[start:stop].T
        both = slice(2 * start, 2 * stop)
        build_lists(np.ascontiguousarray(columns.T), depth, lists.ids[both], lists.values[both])

    _for_each_block(sort, items.shape[1], threads, "sorting along axes", show=show)
    return lists


def _for_each_block(
    sort: Callable[[int, int], None], n_directions: int, threads: int, what: str, *, show: bool
) -> None:
    """Call sort(start, stop) for all directions, a few at a time, on several threads."""
    starts = range(0, n_directions, _DIRECTIONS_AT_ONCE)
    stops = [min(start + _DIRECTIONS_AT_ONCE, n_directions) for start in starts]
    # The threads here are enough; those of a BLAS beneath each of them would only be in each other's way.
    with (
        threadpool_limits(1, "blas"),
        ThreadPoolExecutor(threads) as pool,
        progress_bar(what, n_directions, show=show) as advance,
    ):
        for start, stop, _ in zip(starts, stops, pool.map(sort, starts, stops), strict=True):
            advance(stop - start)
