"""The curve of queries that have something to leave out and somewhere to begin: items asked for similar ones."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import numpy as np

from greedy_core.fit.calibration import Calibration, CalibrationPoint
from greedy_core.fit.trial import Tunable, budgets_for, seconds_per_search, standard_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array
    from greedy_core.result import SearchResult

    Ids = npt.NDArray[np.int32]

_TIMED = 100


class Askable(Tunable, Protocol):
    """What is needed of an index."""

    def search_batch(
        self,
        queries: Float32Array,
        *,
        top_k: int,
        budget: int,
        threads: int,
        remembered: npt.NDArray[np.int32] | Sequence[Ids] | None = None,
        exclude: Sequence[Ids] | None = None,
        eligible: Eligible | None = None,
    ) -> list[SearchResult]:
        """Return one result for each query."""


def curve_of(
    index: Askable, queries: Float32Array, *, exclude: Sequence[Ids], remembered: Sequence[Ids]
) -> Calibration:
    """Measure what each budget buys these queries, each with its own items to leave out and to begin with."""
    threads = os.cpu_count() or 1
    budgets = budgets_for(index)
    truth = [
        result.ids
        for result in index.search_batch(queries, top_k=20, budget=index.n_items, exclude=exclude, threads=threads)
    ]
    points = []
    reached = 0.0
    for budget in budgets:
        results = index.search_batch(
            queries, top_k=10, budget=budget, exclude=exclude, threads=threads, remembered=remembered
        )
        recalls = np.array([_share(true[:10], result.ids) for true, result in zip(truth, results, strict=True)])
        precisions = [_share(result.ids[:5], true) for true, result in zip(truth, results, strict=True)]
        products = float(np.mean([result.spent for result in results]))
        seconds = seconds_per_search(index, queries[:_TIMED], budget, remembered[:_TIMED])
        # Candidate sets are nested, so recall cannot fall with the budget; the mean of a sample may, by rounding.
        reached = max(reached, round(float(recalls.mean()), 5))
        points.append(
            CalibrationPoint(
                budget=budget,
                recall_at_10=reached,
                standard_error=round(standard_error(recalls), 5),
                prec_at_5=round(float(np.mean(precisions)), 5),
                products=round(products, 2),
                seconds=seconds,
                seconds_per_product=seconds / max(products, 1.0),
                best=str(index.screening),
            )
        )
    return Calibration(tuple(points), len(queries), index.directions, str(index.screening))


def _share(wanted: Ids, among: Ids) -> float:
    """Return how many of the wanted are among others; all of nothing is 1."""
    # Sets: for ten ids NumPy's isin takes fifty times as long, and a build asks tens of thousands of times.
    return len(set(among.tolist()).intersection(wanted.tolist())) / len(wanted) if len(wanted) else 1.0
