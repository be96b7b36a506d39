"""Calibration: what a budget buys and what it costs, measured on the model itself.

Held-out queries are searched exactly, and again at every budget of a grid: the curve is the model's own and comes with
its standard error. `budget_for_recall` and `budget_for_time` read it.

The held-out queries stand for two kinds: users that the model will know, who remember their best items, and vectors
that nobody has met. Each kind has its curve. Filters have curves by the share of the items that they leave
(greedy_core.fit.selectivity).
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import CalibrationError
from greedy_core.fit.selectivity import SHARES, SelectivityCurve, measure_selectivity
from greedy_core.fit.trial import (
    COMPARED,
    LEAST_SAMPLE,
    MOST_SAMPLE,
    SEED,
    Sample,
    budgets_for,
    screenings,
    seconds_per_search,
    standard_error,
    try_out,
)
from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.trial import Searchable, Tunable
    from greedy_core.screening import Screening


@dataclass(frozen=True)
class CalibrationPoint:
    """What one budget buys and costs.

    standard_error  of recall_at_10, over the sampled queries
    products        inner products spent, on average
    seconds         of a search, from Python, one thread
    best            the screening with the highest recall at this budget, of those compared
    """

    budget: int
    recall_at_10: float
    standard_error: float
    prec_at_5: float
    products: float
    seconds: float
    seconds_per_product: float
    best: str


@dataclass(frozen=True)
class Calibration:
    """The curve of one index, budgets ascending, and how it was measured. Recall never falls along it.

    held_out  whether the sample took no part in fitting the directions, so that it stands for users to come
    vectors   the curve of queries that nobody has met, where that is another one
    filtered  curves of queries that nobody has met under filters, the largest share of the items first
    rows_recall  recall@10 of an exact search over the rows as they are stored, by one over the vectors that were
                 given: what rounding the rows costs, which no budget buys back. The curves have it in them
    """

    points: tuple[CalibrationPoint, ...]
    sample_size: int
    directions: str
    screening: str
    held_out: bool = True
    vectors: Calibration | None = None
    filtered: tuple[SelectivityCurve, ...] = ()
    rows_recall: float = 1.0

    def __post_init__(self) -> None:
        if not self.points:
            raise CalibrationError("a calibration needs at least one point; measure it on an index with more items.")
        measured = all(
            isinstance(point.budget, int)
            and point.budget >= 1
            and 0 <= point.recall_at_10 <= 1
            and 0 <= point.prec_at_5 <= 1
            and 0 <= point.standard_error < math.inf
            and 0 < point.seconds < math.inf
            and 0 < point.seconds_per_product < math.inf
            for point in self.points
        )
        measured = measured and isinstance(self.rows_recall, float | int) and 0 <= self.rows_recall <= 1
        if not measured or not all(
            before.budget < point.budget and before.recall_at_10 <= point.recall_at_10
            for before, point in pairwise(self.points)
        ):
            raise CalibrationError(
                "a calibration has ascending budgets from 1, shares from 0 to 1 with a recall that never falls, and "
                "positive times, and these points do not; build the model again."
            )

    @property
    def for_vectors(self) -> Calibration:
        """The curve of queries that nobody has met."""
        return self if self.vectors is None else self.vectors

    def recall_at(self, budget: int) -> float:
        """Return the calibrated recall@10 of a budget, interpolated in its logarithm."""
        budgets = [point.budget for point in self.points]
        return float(
            np.interp(math.log(max(budget, 1)), np.log(budgets), [point.recall_at_10 for point in self.points])
        )

    def budget_for_recall(self, recall: float, selectivity: float = 1.0) -> int:
        """Return the smallest budget whose calibrated recall@10 reaches `recall`. CalibrationError if none does.

        selectivity  the share of all items that is eligible. Of the two measured shares around it, the one that needs
                     more budget counts
        """
        budgets = []
        for share, points in self._around(selectivity):
            budget = _budget_between(points, recall)
            if budget is None:
                last, reached = points[-1]
                under = "" if share == 1 else f" under a filter that leaves {share:.2%} of the items"
                raise CalibrationError(
                    f"no calibrated budget reaches a recall of {recall:g}{under}; the largest, {last}, reaches "
                    f"{reached:.3f}; ask for less, or for an exact answer by a budget for all items."
                )
            budgets.append(budget)
        return max(budgets)

    def budget_towards(self, recall: float, selectivity: float = 1.0) -> int:
        """Return the smallest budget whose calibrated recall@10 reaches `recall`; the largest measured if none does.

        selectivity  as in `budget_for_recall`; where filters were not measured, the curve of all items counts
        """
        budgets = []
        for _, points in self._around(selectivity if self.filtered else 1.0):
            budget = _budget_between(points, recall)
            budgets.append(points[-1][0] if budget is None else budget)
        return max(budgets)

    def _around(self, selectivity: float) -> list[tuple[float, list[tuple[int, float]]]]:
        """Return the curves of the nearest measured shares, one or two, as budgets with their recalls."""
        if not 0 <= selectivity <= 1:
            raise CalibrationError(f"a selectivity is a share from 0 to 1, but {selectivity!r} was given.")
        own = (1.0, [(point.budget, point.recall_at_10) for point in self.points])
        if selectivity == 1:
            return [own]
        if not self.filtered:
            raise CalibrationError(
                "this model was calibrated without filters; ask for a budget, or build the model again."
            )
        curves = [own, *((c.selectivity, list(zip(c.budgets, c.recalls, strict=True))) for c in self.filtered)]
        above = [curve for curve in curves if curve[0] >= selectivity]
        below = [curve for curve in curves if curve[0] <= selectivity]
        return [*above[-1:], *below[:1]]

    def budget_for_time(self, microseconds: float) -> int:
        """Return the largest budget whose search takes no longer. CalibrationError if even the smallest does."""
        seconds = microseconds / 1e6
        if self.points[0].seconds > seconds:
            raise CalibrationError(
                f"no calibrated budget is searched within {microseconds:g} us; the smallest, {self.points[0].budget}, "
                f"takes {self.points[0].seconds * 1e6:.0f} us."
            )
        best = self.points[0].budget
        for before, point in pairwise(self.points):
            if point.seconds <= seconds:
                best = max(best, point.budget)
            elif before.seconds <= seconds:
                share = (seconds - before.seconds) / (point.seconds - before.seconds)
                best = max(best, int(before.budget + share * (point.budget - before.budget) + 1e-6))
        return best

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Calibration:
        """Return the calibration that `to_dict` described."""
        try:
            points = tuple(CalibrationPoint(**point) for point in stored["points"])
            vectors = stored.get("vectors")
            return cls(
                points,
                stored["sample_size"],
                stored["directions"],
                stored["screening"],
                held_out=stored.get("held_out", True),
                vectors=None if vectors is None else cls.from_dict(vectors),
                filtered=tuple(_stored_curve(curve) for curve in stored.get("filtered", ())),
                rows_recall=stored.get("rows_recall", 1.0),
            )
        except (KeyError, TypeError) as reason:
            raise CalibrationError(f"this is no calibration: {reason}; build the model again.") from None


def calibrate(
    index: Tunable,
    queries: Float32Array,
    *,
    held_out: bool = True,
    seconds: float | None = None,
    progress: bool = False,
    exact: Searchable | None = None,
) -> Calibration:
    """Measure an index on queries; `held_out` says that its directions were not fitted to them.

    `exact` knows the best items where the index itself does not: its rows were rounded, and it has them as they were.
    Takes about `seconds` at most (a sample of the queries is used), but has at least 64 queries. The configurations
    compared are this index's own and the other screenings that its lists and graph allow.
    """
    sample = Sample.of(index if exact is None else exact, _sample(index, queries, seconds))
    ways = screenings(index)
    with progress_bar("calibrating", len(ways) + 5 + len(SHARES), show=progress) as advance:
        filtered = measure_selectivity(index, sample.queries, advance, exact)
        vectors = replace(_curve(index, sample, ways, advance, known=False), filtered=filtered)
        known = _curve(index, sample, [], advance, known=True)
        rows_recall = 1.0
        if exact is not None:
            rows_recall = round(float(try_out(index, sample, [index.n_items], known=False).recalls.mean()), 5)
        return replace(known, held_out=held_out, vectors=vectors, filtered=filtered, rows_recall=rows_recall)


def _budget_between(points: Sequence[tuple[int, float]], recall: float) -> int | None:
    """Return the smallest budget that reaches a recall, interpolated in its logarithm, or None."""
    for before, (budget, reached) in zip((None, *points), points, strict=False):
        if reached < recall:
            continue
        if before is None:
            return budget
        share = (recall - before[1]) / (reached - before[1])
        low, high = math.log(before[0]), math.log(budget)
        return min(math.ceil(math.exp(low + share * (high - low)) - 1e-9), budget)
    return None


def _stored_curve(stored: Mapping[str, Any]) -> SelectivityCurve:
    return SelectivityCurve(
        stored["selectivity"],
        tuple(stored["budgets"]),
        tuple(stored["recalls"]),
        tuple(stored["standard_errors"]),
    )


def _curve(
    index: Tunable, sample: Sample, ways: Sequence[Screening], advance: Callable[[int], None], *, known: bool
) -> Calibration:
    """Measure one curve, and who is best at each budget among the index's own way of screening and others."""
    budgets = budgets_for(index)
    own = try_out(index, sample, budgets, known=known)
    advance(1)
    trials = [own]
    for screening in ways:
        if str(screening) != str(index.screening):
            trials.append(try_out(index.screened_by(screening), sample.first(COMPARED), budgets, known=known))
        advance(1)
    timed = sample.queries[:100]
    remembered = index.remember(timed) if known else None
    times = [seconds_per_search(index, timed, budget, remembered) for budget in budgets]
    advance(1)
    # Candidate sets are nested, so recall cannot fall with the budget; the mean of a sample may, by rounding.
    recalls = np.maximum.accumulate(own.recalls.mean(axis=1))
    points = []
    for i, budget in enumerate(budgets):
        best = max(trials, key=lambda trial: trial.recalls[i, :COMPARED].mean())
        points.append(
            CalibrationPoint(
                budget=budget,
                recall_at_10=round(float(recalls[i]), 5),
                standard_error=round(standard_error(own.recalls[i]), 5),
                prec_at_5=round(float(own.precisions[i].mean()), 5),
                products=round(float(own.products[i]), 2),
                seconds=times[i],
                seconds_per_product=times[i] / float(own.products[i]),
                best=str(best.index.screening),
            )
        )
    return Calibration(tuple(points), len(sample.queries), index.directions, str(index.screening))


def _sample(index: Tunable, queries: Float32Array, seconds: float | None) -> Float32Array:
    """Return as many of the queries as can be searched exactly and at all budgets in a third of the time."""
    if len(queries) == 0:
        raise CalibrationError("there are no queries to calibrate on; give users.")
    n = min(len(queries), MOST_SAMPLE)
    if seconds is not None and n > LEAST_SAMPLE:
        start = time.perf_counter()
        try_out(index, Sample.of(index, queries[:8]), budgets_for(index), known=False)
        each = (time.perf_counter() - start) / 8
        n = max(LEAST_SAMPLE, min(n, int(seconds / 3 / max(each, 1e-9))))
    return queries[np.sort(np.random.default_rng(SEED).permutation(len(queries))[:n])]
