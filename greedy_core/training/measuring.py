"""How well lists of ten foretell what was held out, and what share of that each budget keeps."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.fit.trial import budgets_for, standard_error
from greedy_core.progress import progress_bar
from greedy_core.quality import Quality, QualityPoint, Scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.index import GreedyIndex
    from greedy_core.kernel_index import KernelIndex
    from greedy_core.result import SearchResult
    from greedy_core.training.split import Split

    Ints = npt.NDArray[np.int32]

TOP = 10
# More users than this do not make the numbers more certain than the choice of what was held out is.
MOST_USERS = 10_000
_DISCOUNTS = 1 / np.log2(np.arange(2, TOP + 2))


class Foretold(NamedTuple):
    """What each user's list of ten foretold."""

    hits: npt.NDArray[np.float64]
    recalls: npt.NDArray[np.float64]
    ndcgs: npt.NDArray[np.float64]
    coverage: float

    def scores(self) -> Scores:
        """Return the means."""
        hits, recalls, ndcgs = (round(float(each.mean()), 5) for each in (self.hits, self.recalls, self.ndcgs))
        return Scores(hits, recalls, ndcgs, round(self.coverage, 5))


def compare(lists: Ints, held_out: Any) -> Foretold:
    """Compare lists (n, 10), -1 where they are shorter, with what was held out: row by row, CSR, sorted indices."""
    n_items = held_out.shape[1]
    counts = np.diff(held_out.indptr)
    keys = np.repeat(np.arange(len(counts), dtype=np.int64), counts) * n_items + held_out.indices
    wanted = np.arange(len(lists), dtype=np.int64)[:, None] * n_items + lists
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    right = (keys[at] == wanted) & (lists >= 0)
    ideal = np.cumsum(_DISCOUNTS)[np.minimum(counts, TOP) - 1]
    hits = right.sum(axis=1)
    shown = np.unique(lists[lists >= 0])
    return Foretold(
        (hits > 0).astype(np.float64), hits / counts, (right * _DISCOUNTS).sum(axis=1) / ideal, len(shown) / n_items
    )


def exact_ndcg(index: KernelIndex, users: Float32Array, tested: npt.NDArray[np.int64], parts: Split) -> float:
    """Return the mean NDCG@10 of an exact search for some users."""
    lists = _lists(_search(index, users[tested], index.n_items, _seen(parts.training, tested)))
    return float(compare(lists, parts.held_out[tested]).ndcgs.mean())


def measure(
    index: GreedyIndex,
    users: Float32Array,
    tested: npt.NDArray[np.int64],
    parts: Split,
    *,
    threads: int | None = None,
    show: bool = False,
) -> Quality:
    """Ask an index of the training part's model for what was held out, exactly and at every budget.

    As in the service, items that a user has met are left out, and known users remember their best items.
    """
    queries, held_out = np.ascontiguousarray(users[tested]), parts.held_out[tested]
    seen = _seen(parts.training, tested)
    budgets = budgets_for(index)
    with progress_bar("measuring on what was held out", len(budgets) + 3, show=show) as advance:
        popular = compare(_popular_lists(parts.training, seen), held_out)
        advance(1)
        exact = compare(_lists(_search(index, queries, index.n_items, seen, threads=threads)), held_out)
        advance(1)
        remembered = index.remember(queries, exclude=seen)
        advance(1)
        points = []
        best = float(exact.ndcgs.mean())
        for budget in budgets:
            found = _lists(_search(index, queries, budget, seen, remembered, threads=threads))
            ndcg = float(compare(found, held_out).ndcgs.mean())
            points.append(QualityPoint(budget, round(ndcg, 5), round(ndcg / best, 4) if best else 1.0))
            advance(1)
    return Quality(
        exact.scores(), round(standard_error(exact.ndcgs), 5), popular.scores(), tuple(points), len(tested), parts.how
    )


def _search(
    index: KernelIndex,
    queries: Float32Array,
    budget: int,
    seen: Sequence[Ints],
    remembered: Ints | None = None,
    *,
    threads: int | None = None,
) -> list[SearchResult]:
    return index.search_batch(
        queries, top_k=TOP, budget=budget, exclude=seen, threads=threads or os.cpu_count() or 1, remembered=remembered
    )


def _lists(results: Sequence[SearchResult]) -> Ints:
    lists = np.full((len(results), TOP), -1, dtype=np.int32)
    for row, result in zip(lists, results, strict=True):
        row[: len(result.ids)] = result.ids
    return lists


def _seen(training: Any, users: npt.NDArray[np.int64]) -> list[Ints]:
    return [training.indices[training.indptr[user] : training.indptr[user + 1]] for user in users.tolist()]


def _popular_lists(training: Any, seen: Sequence[Ints]) -> Ints:
    """Return for each user the items of most users that this one has not met."""
    popular = np.argsort(-np.bincount(training.indices, minlength=training.shape[1]), kind="stable").astype(np.int32)
    lists = np.full((len(seen), TOP), -1, dtype=np.int32)
    for row, met in zip(lists, seen, strict=True):
        first = popular[: TOP + len(met)]
        new = first[~np.isin(first, met)][:TOP]
        row[: len(new)] = new
    return lists
