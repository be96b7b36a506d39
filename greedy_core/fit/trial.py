"""Trials: configurations of an index, compared on a sample of queries with the exact answers.

users ──► hold_out ──┬──► fitted: directions are fitted to these ──► index
                     └──► sample: queries that the index has not seen, to compare by
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array
    from greedy_core.result import SearchResult

BUDGETS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# The paper counts a hit when a returned item is among the true top 20.
_TRUTH = 20
# A sample has at least and at most so many queries.
LEAST_SAMPLE, MOST_SAMPLE = 64, 1000
# Comparing configurations needs fewer queries than knowing one, since all get the same queries.
COMPARED = 250
# How long a round of timed searches takes at most, about.
_ROUND_SECONDS = 0.05
SEED = 1997


class Searchable(Protocol):
    """What is needed of an index to know the best items."""

    @property
    def n_items(self) -> int:
        """How many items are indexed."""

    def search_batch(
        self,
        queries: Float32Array,
        *,
        top_k: int,
        budget: int,
        threads: int,
        eligible: Eligible | None = None,
    ) -> list[SearchResult]:
        """Return one result for each query."""


class Tunable(Searchable, Protocol):
    """What calibration and choice need of an index. They know no more of it, and it imports them, not they it."""

    def some_items(self, positions: npt.NDArray[np.int32]) -> tuple[Float32Array, npt.NDArray[np.int32]]:
        """Return vectors that include these items', and where among them these stand."""

    def with_all(self, vector: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the products of a vector with all items."""

    def lengths(self) -> Float32Array:
        """Return the length of each item."""

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph to walk on."""

    @property
    def max_budget(self) -> int:
        """The largest budget for which the lists are long enough."""

    @property
    def directions(self) -> str:
        """Which kind of directions the lists belong to."""

    @property
    def screening(self) -> Screening:
        """How the index screens."""

    def screened_by(self, screening: Screening) -> Self:
        """Return the same index with another way of screening."""

    def remember(self, queries: Float32Array) -> npt.NDArray[np.int32]:
        """Return the best items of each query."""

    def search(
        self, query: Float32Array, *, budget: int, remembered: npt.NDArray[np.int32] | None = None
    ) -> SearchResult:
        """Return the best items that a budget finds."""

    def search_batch(
        self,
        queries: Float32Array,
        *,
        top_k: int,
        budget: int,
        threads: int,
        remembered: npt.NDArray[np.int32] | None = None,
        eligible: Eligible | None = None,
    ) -> list[SearchResult]:
        """Return one result for each query."""


IndexT = TypeVar("IndexT", bound=Tunable)


class HeldOut(NamedTuple):
    """Queries to fit directions to and queries to calibrate on; they are the same where `separate` is False."""

    fitted: Float32Array
    sample: Float32Array
    separate: bool


def hold_out(queries: Float32Array) -> HeldOut:
    """Return the queries to fit directions to, and others to calibrate on: at most 1,000 and at most a tenth."""
    rows = np.random.default_rng(SEED).permutation(len(queries))
    n = min(MOST_SAMPLE, len(queries) // 10)
    if n < LEAST_SAMPLE:
        # Too few to do without any: then the curve is measured on what was fitted.
        return HeldOut(queries, queries, separate=False)
    held = np.zeros(len(queries), dtype=bool)
    held[rows[:n]] = True
    return HeldOut(queries[~held], queries[held], separate=True)


@dataclass(frozen=True)
class Sample:
    """Queries to compare by, and the exact best items of each."""

    queries: Float32Array
    truth: npt.NDArray[np.int32]  # (n_queries, 20), -1 where there are fewer items

    @classmethod
    def of(cls, index: Searchable, queries: Float32Array) -> Sample:
        """Search the queries exactly."""
        return cls(queries, _as_rows(true_top(index, queries), _TRUTH))

    def first(self, n: int) -> Sample:
        """Return a smaller sample."""
        return Sample(self.queries[:n], self.truth[:n])


@dataclass(frozen=True)
class Trial(Generic[IndexT]):
    """One configuration on a sample: for each budget the recall and precision of each query."""

    index: IndexT
    recalls: npt.NDArray[np.float64]  # (n_budgets, n_queries)
    precisions: npt.NDArray[np.float64]
    products: npt.NDArray[np.float64]  # spent, on average, at each budget


def screenings(index: Tunable) -> list[Screening]:
    """Return the ways of screening that are worth comparing on an index."""
    by_lists = [Screening("threshold"), *(Screening("sum", reads) for reads in (4, 16, 64))]
    return [*by_lists, Screening("walk")] if index.has_graph else by_lists


def standard_error(shares: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean of what each query got."""
    return float(shares.std() / math.sqrt(len(shares)))


def true_top(index: Searchable, queries: Float32Array) -> list[npt.NDArray[np.int32]]:
    """Return the exact best items of every query."""
    results = index.search_batch(queries, top_k=_TRUTH, budget=index.n_items, threads=os.cpu_count() or 1)
    return [result.ids for result in results]


def try_out(index: IndexT, sample: Sample, budgets: Sequence[int], *, known: bool) -> Trial[IndexT]:
    """Search all queries at all budgets and compare with the truth.

    known  whether the queries stand for known users, who remember their best items
    """
    queries, truth = sample.queries, sample.truth
    remembered = index.remember(queries) if known else None
    recalls, precisions = np.empty((len(budgets), len(queries))), np.empty((len(budgets), len(queries)))
    products = np.empty(len(budgets))
    n_best = (truth >= 0).sum(axis=1)
    for i, budget in enumerate(budgets):
        results = index.search_batch(
            queries, top_k=10, budget=budget, threads=os.cpu_count() or 1, remembered=remembered
        )
        found = _as_rows([result.ids for result in results], 10)
        recalls[i] = _n_common(truth[:, :10], found) / np.minimum(n_best, 10)
        precisions[i] = _n_common(truth, found[:, :5]) / np.minimum(n_best, 5)
        products[i] = np.mean([result.spent for result in results])
    return Trial(index, recalls, precisions, products)


def seconds_per_search(
    index: Tunable,
    queries: Float32Array,
    budget: int,
    remembered: npt.NDArray[np.int32] | Sequence[npt.NDArray[np.int32]] | None = None,
) -> float:
    """Return the mean time of a search, from Python and on one thread, in the best of three rounds over the queries."""
    hints = [None] * len(queries) if remembered is None else list(remembered)
    start = time.perf_counter()
    for query, hint in zip(queries[:4], hints[:4], strict=True):
        index.search(query, budget=budget, remembered=hint)
    # Slow searches are timed on fewer queries: of these, noise is a smaller part.
    enough = max(10, int(_ROUND_SECONDS * 4 / max(time.perf_counter() - start, 1e-9)))
    queries, hints = queries[:enough], hints[:enough]
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        for query, hint in zip(queries, hints, strict=True):
            index.search(query, budget=budget, remembered=hint)
        best = min(best, (time.perf_counter() - start) / len(queries))
    return best


def _as_rows(lists: Sequence[npt.NDArray[np.int32]], width: int) -> npt.NDArray[np.int32]:
    """Return lists of at most `width` ids as rows, filled up with -1."""
    rows = np.full((len(lists), width), -1, dtype=np.int32)
    for row, ids in zip(rows, lists, strict=True):
        row[: len(ids)] = ids
    return rows


def _n_common(some: npt.NDArray[np.int32], others: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return how many ids two rows have in common, for each pair of rows; -1 is no id."""
    equal = (some[:, :, None] == others[:, None, :]) & (some >= 0)[:, :, None]
    count: npt.NDArray[np.int64] = equal.sum(axis=(1, 2))
    return count


def budgets_for(index: Tunable) -> list[int]:
    """Return the budgets of the grid that the index can spend."""
    fitting = [budget for budget in BUDGETS if budget <= min(index.max_budget, index.n_items)]
    return fitting or [min(index.max_budget, index.n_items)]
