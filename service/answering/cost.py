"""What a request costs here and now: latency = a + b * products, fitted live.

The observations of half a second are reduced to one median per budget class, so that a scheduling hiccup or a
page fault moves nothing; the medians go into a weighted least-squares fit that forgets with a half-life. As
long as the traffic shows a single budget, slope and intercept cannot be told apart: then the slope stays near
the one the calibration measured.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from service.telemetry.families import BUDGET_CLASSES, budget_class

if TYPE_CHECKING:
    from greedy_core import Calibration

# Before anything was measured: a 128-dimensional product with its share of the screening, and the handling of a
# request.
DEFAULT_A = 40e-6
DEFAULT_B = 150e-9

# The fit forgets half of what it knows after this many folds.
HALF_LIFE_FOLDS = 40
# The prior slope counts as much as this many medians spread one class apart.
PRIOR_WEIGHT = 2.0
# No product is free; what says so was a clock that did not move.
CHEAPEST = 1e-10
# One fold reads at most this many observations per class; more would not move a median.
SAMPLE_PER_CLASS = 256


class CostLaw(NamedTuple):
    """Seconds of a request = a + b * products."""

    a: float
    b: float

    def seconds(self, products: float) -> float:
        """Return the expected seconds of a request."""
        return self.a + self.b * products

    def products(self, seconds: float) -> int:
        """Return the most products that fit into `seconds`; may be zero or negative."""
        return int((seconds - self.a) / self.b)

    @classmethod
    def calibrated(cls, calibration: Calibration | None) -> CostLaw:
        """Return the line through the smallest and the largest calibrated budget, and the handling of a request.

        Without a calibration it is a guess, which the live law soon replaces.
        """
        if calibration is None:
            return cls(DEFAULT_A, DEFAULT_B)
        first, last = calibration.points[0], calibration.points[-1]
        if last.seconds <= first.seconds:
            return cls(DEFAULT_A, last.seconds_per_product)
        b = (last.seconds - first.seconds) / (last.budget - first.budget)
        return cls(DEFAULT_A + max(0.0, first.seconds - b * first.budget), b)


class CostMeter:
    """Collects (products, seconds) and keeps `law` current. Used by one thread: the event loop's."""

    def __init__(self, law: CostLaw | None = None) -> None:
        self.law = law or CostLaw(DEFAULT_A, DEFAULT_B)
        self._prior_b = self.law.b
        self._pending: list[list[tuple[int, float]]] = [[] for _ in BUDGET_CLASSES]
        self._weight = 0.0
        self._x = self._y = self._xx = self._xy = 0.0

    def start_from(self, law: CostLaw) -> None:
        """Take a model's calibrated law as the new prior and forget what older models cost."""
        self._prior_b = law.b
        self.law = law
        self._weight = self._x = self._y = self._xx = self._xy = 0.0
        for samples in self._pending:
            samples.clear()

    def observe(self, products: int, seconds: float) -> None:
        """Note one finished search."""
        samples = self._pending[budget_class(products)]
        if len(samples) < SAMPLE_PER_CLASS:
            samples.append((products, seconds))

    def fold(self) -> CostLaw:
        """Take the noted observations into the fit and return the law."""
        decay = 0.5 ** (1 / HALF_LIFE_FOLDS)
        seen = False
        for samples in self._pending:
            if not samples:
                continue
            if not seen:
                seen = True
                self._weight *= decay
                self._x *= decay
                self._y *= decay
                self._xx *= decay
                self._xy *= decay
            x = median(products for products, _ in samples)
            y = median(seconds for _, seconds in samples)
            # A median of many is surer than one of few, up to a point; large budgets vary more in absolute terms.
            weight = min(len(samples), 32) / 32 / (1 + x / 256) ** 2
            samples.clear()
            self._weight += weight
            self._x += weight * x
            self._y += weight * y
            self._xx += weight * x * x
            self._xy += weight * x * y
        if seen:
            self.law = self._solve()
        return self.law

    def _solve(self) -> CostLaw:
        mean_x = self._x / self._weight
        mean_y = self._y / self._weight
        variance = max(self._xx / self._weight - mean_x**2, 0.0)
        covariance = self._xy / self._weight - mean_x * mean_y
        # The prior pulls with the strength of a spread of one class at the mean budget.
        pull = PRIOR_WEIGHT / (PRIOR_WEIGHT + self._weight) * (mean_x / 4) ** 2 + 1e-9
        b = (covariance + pull * self._prior_b) / (variance + pull)
        b = min(max(b, self._prior_b / 20), self._prior_b * 20)
        a = mean_y - b * mean_x
        if a < 0:
            # Small samples can tilt the line below zero; then all of the time is the products'.
            a, b = 0.0, max(mean_y / max(mean_x, 1.0), CHEAPEST)
        return CostLaw(a, b)
