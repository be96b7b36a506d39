"""Remembered items: the best of a query that is known before it is asked, found by a search with a large budget.

A search ranks them first, with the vector it is given, so a known user has the recall of this search at a budget of a
few products. The budget is the smallest of a few that finds nearly all of the true best for a sample; where none does,
the items are scanned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.result import SearchResult

REMEMBERED = 64
_BUDGETS = (256, 1024, 4096)
_ENOUGH, _FAIR, _MODEST = 0.998, 0.95, 1024
_SAMPLE = 200
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

    def search_batch(self, queries: Float32Array, *, top_k: int, budget: int, threads: int) -> list[SearchResult]:
        """Return one result for each query."""


def find_remembered(
    index: Searchable, queries: Float32Array, *, count: int = REMEMBERED, show: bool = False
) -> npt.NDArray[np.int32]:
    """Return the positions of the best items of each query, (n_queries, count), -1 where there are fewer."""
    budget = _budget_for(index, queries, _ENOUGH)
    return _search_all(index, queries, count, budget, os.cpu_count() or 1, show=show)


def find_best(index: Searchable, queries: Float32Array, threads: int) -> npt.NDArray[np.int32]:
    """Return about the best items of each query, never at the cost of a scan: for a graph to learn from."""
    budget = _budget_for(index, queries, _FAIR, _MODEST)
    return _search_all(index, queries, REMEMBERED, budget, threads)


def _budget_for(index: Searchable, queries: Float32Array, recall: float, most: int | None = None) -> int:
    """Return the first budget, of a few up to `most`, at which a search finds that share of the best; else a scan's."""
    drawn = np.sort(np.random.default_rng(_SEED).permutation(len(queries))[:_SAMPLE])
    sample = np.ascontiguousarray(queries[drawn])
    threads = os.cpu_count() or 1
    budgets = [budget for budget in _BUDGETS if budget <= min(index.max_budget, index.n_items // 8)]
    if not budgets or len(sample) == 0:
        return index.n_items
    truth = index.search_batch(sample, top_k=10, budget=index.n_items, threads=threads)
    for budget in budgets:
        found = index.search_batch(sample, top_k=10, budget=budget, threads=threads)
        hits = sum(len(np.intersect1d(one.ids, true.ids)) for one, true in zip(found, truth, strict=True))
        if hits >= recall * sum(len(true.ids) for true in truth) or budget == most:
            return budget
    return index.n_items


def _search_all(
    index: Searchable, queries: Float32Array, count: int, budget: int, threads: int, *, show: bool = False
) -> npt.NDArray[np.int32]:
    found = np.full((len(queries), min(count, index.n_items)), -1, dtype=np.int32)
    with progress_bar("finding the best items of users", len(queries), show=show) as advance:
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            results = index.search_batch(block, top_k=count, budget=budget, threads=threads)
            for row, result in zip(found[start : start + _BLOCK], results, strict=True):
                row[: len(result.ids)] = result.ids
            advance(len(block))
    return found
