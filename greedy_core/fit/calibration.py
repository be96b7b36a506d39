"""Calibration: what a budget buys and what it costs, measured on the model itself.

Held-out queries are searched exactly, and again at every budget of a grid: the curve is the model's own and comes with
its standard error. `budget_for_recall` and `budget_for_time` read it.

The held-out queries stand for two kinds: users that the model will know, who remember their best items, and vectors
that nobody has met. Each kind has its curve.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import CalibrationError
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
    from greedy_core.fit.trial import Tunable
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
    """

    points: tuple[CalibrationPoint, ...]
    sample_size: int
    directions: str
    screening: str
    held_out: bool = True
    vectors: Calibration | None = None

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

    def budget_for_recall(self, recall: float) -> int:
        """Return the smallest budget whose calibrated recall@10 reaches `recall`. CalibrationError if none does."""
        for before, point in zip((None, *self.points), self.points, strict=False):
            if point.recall_at_10 < recall:
                continue
            if before is None:
                return point.budget
            share = (recall - before.recall_at_10) / (point.recall_at_10 - before.recall_at_10)
            low, high = math.log(before.budget), math.log(point.budget)
            return min(math.ceil(math.exp(low + share * (high - low)) - 1e-9), point.budget)
        last = self.points[-1]
        raise CalibrationError(
            f"no calibrated budget reaches a recall of {recall:g}; the largest, {last.budget}, reaches "
            f"{last.recall_at_10:.3f}; ask for less, or for an exact answer by a budget for all items."
        )

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
) -> Calibration:
    """Measure an index on queries; `held_out` says that its directions were not fitted to them.

    Takes about `seconds` at most (a sample of the queries is used), but has at least 64 queries. The configurations
    compared are this index's own and the other screenings that its lists and graph allow.
    """
    sample = Sample.of(index, _sample(index, queries, seconds))
    ways = screenings(index)
    with progress_bar("calibrating", len(ways) + 4, show=progress) as advance:
        vectors = _curve(index, sample, ways, advance, known=False)
        return replace(_curve(index, sample, [], advance, known=True), held_out=held_out, vectors=vectors)


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
