"""Calibration: what a budget buys and what it costs, measured on the model itself.

    users ──► hold_out ──┬──► the rest: fit directions ──► index
                         └──► held out: calibrate(index) ──► Calibration: budget -> recall@10, prec@5, time

The held-out queries are searched exactly once and with every candidate configuration at every budget of the grid, so
the curve is the model's own and comes with its standard error. `budget_for_recall` and `budget_for_time` read it.

The held-out queries stand for users that the model will know, so they follow routes where the index has them. A vector
from outside has no route: where that makes a difference, its curve is measured as well.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import CalibrationError
from greedy_core.progress import progress_bar
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.index import GreedyIndex

BUDGETS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
# The paper counts a hit when a returned item is among the true top 20.
_TRUTH = 20
_LEAST, _MOST = 64, 1000
# Comparing configurations needs fewer queries than knowing one, since all have the same; at large budgets all are good.
_COMPARED = 250
_COMPARED_BUDGETS = 512
# No way of screening that is compared reads less.
_LEAST_COST = Screening("threshold").cost
# How long a round of timed searches takes at most, about.
_ROUND_SECONDS = 0.05
_SEED = 1997


@dataclass(frozen=True)
class Point:
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
    vectors   the curve of queries without a route, where that is another one
    """

    points: tuple[Point, ...]
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
        """The curve of queries without a route."""
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
            points = tuple(Point(**point) for point in stored["points"])
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


def hold_out(queries: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return the queries to fit directions to, and others to calibrate on: at most 1,000 and at most a tenth."""
    rows = np.random.default_rng(_SEED).permutation(len(queries))
    n = min(_MOST, len(queries) // 10)
    if n < _LEAST:
        # Too few to do without any: then the curve is measured on what was fitted.
        return queries, queries
    held = np.zeros(len(queries), dtype=bool)
    held[rows[:n]] = True
    return queries[~held], queries[held]


@dataclass(frozen=True)
class Sample:
    """Queries to compare by, and the exact best items of each."""

    queries: Float32Array
    truth: npt.NDArray[np.int32]  # (n_queries, 20), -1 where there are fewer items

    @classmethod
    def of(cls, index: GreedyIndex, queries: Float32Array) -> Sample:
        """Search the queries exactly."""
        return cls(queries, _as_rows(true_top(index, queries), _TRUTH))

    def first(self, n: int) -> Sample:
        """Return a smaller sample."""
        return Sample(self.queries[:n], self.truth[:n])


@dataclass(frozen=True)
class Trial:
    """One configuration on a sample: for each budget the recall and precision of each query."""

    index: GreedyIndex
    screening: Screening
    recalls: npt.NDArray[np.float64]  # (n_budgets, n_queries)
    precisions: npt.NDArray[np.float64]

    @property
    def mean(self) -> float:
        """The recall over all budgets: the area under the curve, on the logarithm of the budget."""
        return float(self.recalls.mean())

    def in_time(self, budgets: Sequence[int]) -> float:
        """Return the mean recall at equal times instead of equal budgets: the times of the budgets where least is read.

        16 entries take about as long to read as a product to compute.
        """
        taken = np.log(budgets) + math.log(1 + self.screening.cost / 16)
        allowed = np.log(budgets) + math.log(1 + _LEAST_COST / 16)
        return float(np.interp(allowed, taken, self.recalls.mean(axis=1), left=0.0).mean())

    def surely(self, i: int) -> float:
        """Return the recall at the i-th budget, less its standard error: another sample may have less luck."""
        return float(self.recalls[i].mean() - standard_error(self.recalls[i]))


def calibrate(
    index: GreedyIndex, queries: Float32Array, *, seconds: float | None = None, progress: bool = False
) -> Calibration:
    """Measure an index on queries that its directions were not fitted to.

    Takes about `seconds` at most (a sample of the queries is used), but has at least 64 queries. The configurations
    compared are this index's own and the other screenings that its lists allow.
    """
    sample = Sample.of(index, _sample(index, queries, seconds))
    curves = 2 if index.n_centres else 1
    with progress_bar("calibrating", curves * (len(screenings()) + 2), show=progress) as advance:
        vectors = _curve(index, sample, advance, known=False) if index.n_centres else None
        return replace(_curve(index, sample, advance, known=True), vectors=vectors)


def _curve(index: GreedyIndex, sample: Sample, advance: Callable[[int], None], *, known: bool) -> Calibration:
    budgets = _budgets(index)
    own = try_out(index, sample, budgets, known=known)
    advance(1)
    trials = [own]
    for screening in screenings():
        if str(screening) != str(own.screening):
            trials.append(try_out(index.screened_by(screening), sample.first(_COMPARED), budgets, known=known))
        advance(1)
    times = [_seconds_per_search(index, sample.queries[:100], budget, known=known) for budget in budgets]
    advance(1)
    # Candidate sets are nested, so recall cannot fall with the budget; the mean of a sample may, by rounding.
    recalls = np.maximum.accumulate(own.recalls.mean(axis=1))
    points = []
    for i, budget in enumerate(budgets):
        best = max(trials, key=lambda trial: trial.recalls[i, :_COMPARED].mean())
        products = min(budget, index.n_items)
        points.append(
            Point(
                budget=budget,
                recall_at_10=round(float(recalls[i]), 5),
                standard_error=round(standard_error(own.recalls[i]), 5),
                prec_at_5=round(float(own.precisions[i].mean()), 5),
                products=products,
                seconds=times[i],
                seconds_per_product=times[i] / products,
                best=str(best.screening),
            )
        )
    return Calibration(tuple(points), len(sample.queries), index.directions, str(own.screening))


def choose(indexes: Sequence[GreedyIndex], queries: Float32Array) -> GreedyIndex:
    """Return the index, of these and their other screenings, that serves these queries best.

    The cheapest reading that surely reaches a recall@10 of 0.90 at a budget of 64 and of 0.98 at 256 wins, the higher
    recall deciding between equals. Where none does, the highest recall for the time taken wins: to read ever more for
    the same budget costs more than a larger budget would. The queries follow routes. How much is read for those that
    have none is chosen afterwards and in the same way, for 0.85 and 0.97.

    What would read more entries for 256 candidates than there are items is out of question: scoring them all is faster.
    """
    sample = Sample.of(indexes[0], queries[:_COMPARED])
    most = max(indexes[0].n_items // 256, _LEAST_COST)
    ways = [way for way in [*screenings(), _DEEPEST] if way.cost <= most]
    best = _cheapest(indexes, ways, sample, {64: 0.90, 256: 0.98}, known=True).index
    if not best.n_centres:
        return best
    if not best.follows_routes:
        return best.without_centres()  # nothing would ever read their lists
    by_sums = [way for way in ways if way.variant == "sum"]
    unrouted = _cheapest([best], by_sums, sample, {64: 0.85, 256: 0.97}, known=False)
    return best.screened_by(replace(best.screening, reads=unrouted.screening.reads))


def _cheapest(
    indexes: Sequence[GreedyIndex],
    ways: Sequence[Screening],
    sample: Sample,
    goals: Mapping[int, float],
    *,
    known: bool,
) -> Trial:
    """Return the trial that reads least of those that reach all goals, the best for its time if none does.

    What reads more than a trial that reaches them is not tried at all.
    """
    budgets = [budget for budget in _budgets(indexes[0]) if budget <= _COMPARED_BUDGETS] or _budgets(indexes[0])[:1]
    places = [(i, goals[budget]) for i, budget in enumerate(budgets) if budget in goals]
    trials: list[Trial] = []
    for _, equals in groupby(sorted(ways, key=lambda way: way.cost), key=lambda way: way.cost):
        tried = [try_out(index.screened_by(way), sample, budgets, known=known) for way in equals for index in indexes]
        good = [trial for trial in tried if all(trial.surely(i) >= goal for i, goal in places)]
        if good:
            return max(good, key=lambda trial: trial.mean)
        trials += tried
    return max(trials, key=lambda trial: trial.in_time(budgets))


def screenings() -> list[Screening]:
    """Return the ways of screening that are worth comparing."""
    return [Screening("threshold"), *(Screening("sum", reads, reads) for reads in (4, 16, 64))]


# For vectors so flat that nothing less says enough about them.
_DEEPEST = Screening("sum", 256, 256)


def standard_error(shares: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean of what each query got."""
    return float(shares.std() / math.sqrt(len(shares)))


def true_top(index: GreedyIndex, queries: Float32Array) -> list[npt.NDArray[np.int32]]:
    """Return the exact best items of every query."""
    results = index.search_batch(queries, top_k=_TRUTH, budget=index.n_items, threads=os.cpu_count() or 1)
    return [result.ids for result in results]


def try_out(index: GreedyIndex, sample: Sample, budgets: Sequence[int], *, known: bool) -> Trial:
    """Search all queries at all budgets and compare with the truth.

    known  whether the queries stand for known users, who have a route where the screening follows one
    """
    queries, truth = sample.queries, sample.truth
    routed = known and index.follows_routes
    routes = index.routes(queries) if routed else None
    recalls, precisions = np.empty((len(budgets), len(queries))), np.empty((len(budgets), len(queries)))
    n_best = (truth >= 0).sum(axis=1)
    for i, budget in enumerate(budgets):
        results = index.search_batch(queries, top_k=10, budget=budget, threads=os.cpu_count() or 1, routes=routes)
        found = _as_rows([result.ids for result in results], 10)
        recalls[i] = _n_common(truth[:, :10], found) / np.minimum(n_best, 10)
        precisions[i] = _n_common(truth, found[:, :5]) / np.minimum(n_best, 5)
    return Trial(index, index.screening.routed if routed else index.screening.unrouted, recalls, precisions)


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


def _budgets(index: GreedyIndex) -> list[int]:
    fitting = [budget for budget in BUDGETS if budget <= min(index.max_budget, index.n_items)]
    return fitting or [min(index.max_budget, index.n_items)]


def _sample(index: GreedyIndex, queries: Float32Array, seconds: float | None) -> Float32Array:
    """Return as many of the queries as can be searched exactly and at all budgets in a third of the time."""
    if len(queries) == 0:
        raise CalibrationError("there are no queries to calibrate on; give users.")
    n = min(len(queries), _MOST)
    if seconds is not None and n > _LEAST:
        start = time.perf_counter()
        try_out(index, Sample.of(index, queries[:8]), _budgets(index), known=False)
        each = (time.perf_counter() - start) / 8
        n = max(_LEAST, min(n, int(seconds / 3 / max(each, 1e-9))))
    return queries[np.sort(np.random.default_rng(_SEED).permutation(len(queries))[:n])]


def _seconds_per_search(index: GreedyIndex, queries: Float32Array, budget: int, *, known: bool) -> float:
    """Return the mean time of a search in the best of three rounds over the queries."""
    routes = index.routes(queries) if known and index.follows_routes else [None] * len(queries)
    start = time.perf_counter()
    for query, route in zip(queries[:4], routes[:4], strict=True):
        index.search(query, budget=budget, route=route)
    # Slow searches are timed on fewer queries: of these, noise is a smaller part.
    enough = max(10, int(_ROUND_SECONDS * 4 / max(time.perf_counter() - start, 1e-9)))
    queries, routes = queries[:enough], routes[:enough]
    best = math.inf
    for _ in range(3):
        start = time.perf_counter()
        for query, route in zip(queries, routes, strict=True):
            index.search(query, budget=budget, route=route)
        best = min(best, (time.perf_counter() - start) / len(queries))
    return best
