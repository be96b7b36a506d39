"""Selectivity: what a budget finds where a filter leaves only a share of the items.

For each share, held-out queries are searched under filters that take items at random and under filters that take those
most alike to one item, as a category does. Which of the two is harder depends on the model and on the share: a curve
has at each budget the lower recall of both.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from greedy_core._kernel import few_of
from greedy_core.eligible import Eligible
from greedy_core.errors import CalibrationError
from greedy_core.fit.trial import SEED, budgets_for, standard_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.trial import Searchable, Tunable

SHARES = (0.3, 0.1, 0.03, 0.01, 0.001)
# Filters of each kind for each share, and queries of them all.
_FILTERS, _QUERIES = 8, 200
_TOP_K = 10
# More budget cannot find more.
_ENOUGH = 0.9995


@dataclass(frozen=True)
class SelectivityCurve:
    """Recall@10 by budget where `selectivity`, a share of all items, is eligible. Recall never falls along it."""

    selectivity: float
    budgets: tuple[int, ...]
    recalls: tuple[float, ...]
    standard_errors: tuple[float, ...]

    def __post_init__(self) -> None:
        shapes = len(self.budgets) == len(self.recalls) == len(self.standard_errors) > 0
        if (
            not shapes
            or not 0 < self.selectivity <= 1
            or not all(isinstance(budget, int) and budget >= 1 for budget in self.budgets)
            or not all(0 <= recall <= 1 for recall in self.recalls)
            or not all(0 <= error < math.inf for error in self.standard_errors)
            or not all(low < high for low, high in pairwise(self.budgets))
            or not all(low <= high for low, high in pairwise(self.recalls))
        ):
            raise CalibrationError(
                "a curve of a selectivity has a share of the items, ascending budgets from 1, and recalls from 0 to 1 "
                "that never fall, and this one does not; build the model again."
            )


def measure_selectivity(
    index: Tunable, queries: Float32Array, advance: Callable[[int], None], exact: Searchable | None = None
) -> tuple[SelectivityCurve, ...]:
    """Return a curve for each share of SHARES that leaves an item, the largest share first.

    exact  who knows the best items, if not the index itself
    """
    exact = index if exact is None else exact
    rng = np.random.default_rng(SEED)
    n_items = index.n_items
    asked = np.array_split(queries[: min(len(queries), _QUERIES)], _FILTERS)
    # An order of all items for each filter: whatever the share, a filter takes the first.
    orders = [rng.permutation(n_items) for _ in range(_FILTERS)]
    lengths = index.lengths()
    orders += [_most_alike(index, lengths, int(rng.integers(n_items))) for _ in range(_FILTERS)]
    counts = {max(1, round(share * n_items)) for share in SHARES}
    few = few_of(n_items)
    if min(counts) < few < max(counts):
        # Where every eligible item is estimated for the last time, a budget finds least.
        counts.add(few)
    curves = []
    for count in sorted(counts, reverse=True):
        curves.append(_curve(index, exact, [_first(order, count) for order in orders], asked, count))
        advance(1)
    return tuple(curves)


def _most_alike(index: Tunable, lengths: Float32Array, to: int) -> npt.NDArray[np.intp]:
    items, (place,) = index.some_items(np.array([to], dtype=np.int32))
    cosines = index.with_all(items[place]) / np.maximum(lengths, np.finfo(np.float32).tiny)
    return np.argsort(-cosines, kind="stable")


def _first(order: npt.NDArray[np.intp], count: int) -> Eligible:
    mask = np.zeros(len(order), dtype=np.bool_)
    mask[order[:count]] = True
    return Eligible.from_mask(mask)


def _curve(
    index: Tunable, exact: Searchable, filters: Sequence[Eligible], asked: Sequence[Float32Array], count: int
) -> SelectivityCurve:
    """Measure one share: the first half of the filters is at random, the second is not."""
    tasks = [(queries, eligible) for eligible, queries in zip(filters, [*asked, *asked], strict=True) if len(queries)]
    truths = [_found(exact, queries, index.n_items, eligible) for queries, eligible in tasks]
    budgets, recalls, errors = [], [0.0], []
    for budget in [*(budget for budget in budgets_for(index) if budget < count), count]:
        shares = [
            _shares_found(_found(index, queries, budget, eligible), truth)
            for (queries, eligible), truth in zip(tasks, truths, strict=True)
        ]
        half = len(shares) // 2
        harder = min((shares[:half], shares[half:]), key=lambda kind: float(np.concatenate(kind).mean()))
        budgets.append(budget)
        recalls.append(max(recalls[-1], float(np.concatenate(harder).mean())))
        # Queries under one filter fare alike, so the filters' means say how sure the mean of all is, too.
        of_filters = np.array([own.mean() for own in harder])
        errors.append(max(standard_error(np.concatenate(harder)), standard_error(of_filters)))
        if recalls[-1] >= _ENOUGH:
            break
    return SelectivityCurve(
        count / index.n_items,
        tuple(budgets),
        tuple(round(recall, 5) for recall in recalls[1:]),
        tuple(round(error, 5) for error in errors),
    )


def _shares_found(
    found: Sequence[npt.NDArray[np.int32]], truth: Sequence[npt.NDArray[np.int32]]
) -> npt.NDArray[np.float64]:
    return np.array([len(np.intersect1d(some, best)) / len(best) for some, best in zip(found, truth, strict=True)])


def _found(index: Searchable, queries: Float32Array, budget: int, eligible: Eligible) -> list[npt.NDArray[np.int32]]:
    results = index.search_batch(queries, top_k=_TOP_K, budget=budget, threads=os.cpu_count() or 1, eligible=eligible)
    return [result.ids for result in results]
