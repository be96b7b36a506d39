"""Remembered items: the best of a query that is known before it is asked, found by a search with a large budget.

A search ranks them first, with the vector it is given, so a known user has the recall of this search at a budget of a
few products. The budget is the smallest of a few that finds nearly all of the true best for a sample; where none does,
the items are scanned. With so many queries that this would take hours, it is the largest budget that takes minutes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.result import SearchResult

REMEMBERED = 64
_BUDGETS = (256, 1024, 4096)
_ENOUGH, _FAIR, _MODEST = 0.998, 0.95, 1024
_SAMPLE, _BEST = 200, 10
# The most products for all queries together, some minutes on two cores; those of a scan are read in a row, and quicker.
_MOST_PRODUCTS, _MOST_SCANNED = 1 << 30, 1 << 33
_BLOCK = 4096
_SEED = 64


class Searchable(Protocol):
    """What is needed of an index."""

    @property
    def n_items(self) -> int:
        """How many items are indexed."""

    @property
    def max_budget(self) -> int:
        """The largest budget of a search that is no scan."""

    def search_batch(
        self,
        queries: Float32Array,
        *,
        top_k: int,
        budget: int,
        threads: int,
        exclude: Sequence[npt.NDArray[np.int32]] | npt.NDArray[np.int32] | None = None,
    ) -> list[SearchResult]:
        """Return one result for each query."""


def find_remembered(
    index: Searchable,
    queries: Float32Array,
    *,
    count: int = REMEMBERED,
    exclude: Sequence[npt.NDArray[np.int32]] | npt.NDArray[np.int32] | None = None,
    show: bool = False,
) -> npt.NDArray[np.int32]:
    """Return the positions of the best items of each query, (n_queries, count), -1 where there are fewer.

    exclude  for each query, the positions of items that are not to be remembered
    """
    if index.n_items * len(queries) <= _MOST_SCANNED:
        most = None
    else:
        most = max((each for each in _BUDGETS if each * len(queries) <= _MOST_PRODUCTS), default=_BUDGETS[0])
    # A walk has fewer candidates than its budget: all places are to be filled.
    budget = _budget_for(index, queries, _ENOUGH, most, places=count)
    return _search_all(index, queries, count, budget, os.cpu_count() or 1, exclude=exclude, show=show)


def find_best(index: Searchable, queries: Float32Array, threads: int) -> npt.NDArray[np.int32]:
    """Return about the best items of each query, never at the cost of a scan: for a graph to learn from."""
    budget = _budget_for(index, queries, _FAIR, _MODEST)
    return _search_all(index, queries, REMEMBERED, budget, threads)


def _budget_for(
    index: Searchable, queries: Float32Array, recall: float, most: int | None = None, places: int = _BEST
) -> int:
    """Return the first budget, of a few up to `most`, at which a search finds that share of the best; else `most`.

    Without `most` it is a scan's. `places` items it has to find for every query, good or not, whatever `most` says.
    """
    drawn = np.sort(np.random.default_rng(_SEED).permutation(len(queries))[:_SAMPLE])
    sample = np.ascontiguousarray(queries[drawn])
    threads = os.cpu_count() or 1
    budgets = [budget for budget in _BUDGETS if budget <= min(index.max_budget, index.n_items // 8)]
    if not budgets or len(sample) == 0:
        return index.n_items
    truth = index.search_batch(sample, top_k=_BEST, budget=index.n_items, threads=threads)
    full = False
    for budget in budgets:
        found = index.search_batch(sample, top_k=max(places, _BEST), budget=budget, threads=threads)
        full = min(len(one.ids) for one in found) >= min(places, index.n_items)
        if not full:
            continue
        hits = sum(len(np.intersect1d(one.ids[:_BEST], true.ids)) for one, true in zip(found, truth, strict=True))
        if hits >= recall * sum(len(true.ids) for true in truth) or (most is not None and budget >= most):
            return budget
    return budgets[-1] if full and most is not None else index.n_items


def _search_all(
    index: Searchable,
    queries: Float32Array,
    count: int,
    budget: int,
    threads: int,
    *,
    exclude: Sequence[npt.NDArray[np.int32]] | npt.NDArray[np.int32] | None = None,
    show: bool = False,
) -> npt.NDArray[np.int32]:
    found = np.full((len(queries), min(count, index.n_items)), -1, dtype=np.int32)
    with progress_bar("finding the best items of users", len(queries), show=show) as advance:
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            left_out = None if exclude is None else exclude[start : start + _BLOCK]
            results = index.search_batch(block, top_k=count, budget=budget, threads=threads, exclude=left_out)
            for row, result in zip(found[start : start + _BLOCK], results, strict=True):
                row[: len(result.ids)] = result.ids
            advance(len(block))
    return found
