"""The calibrated curve of a model: budget -> recall, latency. The only place that knows how a bundle stores it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from service.cost import DEFAULT_A, CostLaw

if TYPE_CHECKING:
    from collections.abc import Mapping


class Curve:
    """Budgets in ascending order with what they buy. Interpolates in the logarithm of the budget."""

    def __init__(self, points: list[dict[str, float]], details: dict[str, Any]) -> None:
        self.points = points
        self.details = details

    @classmethod
    def read(cls, calibration: Mapping[str, Any] | None) -> Curve | None:
        """Read a bundle's calibration; None if it has none or no usable point."""
        if not calibration:
            return None
        points: list[dict[str, float]] = []
        for point in calibration.get("points", ()):
            budget, recall = point.get("budget"), point.get("recall_at_10")
            if isinstance(budget, int) and budget > 0 and isinstance(recall, int | float) and 0 <= recall <= 1:
                points.append({key: value for key, value in point.items() if isinstance(value, int | float)})
        if not points:
            return None
        points.sort(key=lambda point: point["budget"])
        details = {key: value for key, value in calibration.items() if key != "points"}
        return cls(points, details)

    def budget_for(self, recall: float) -> int | None:
        """Return the smallest budget whose calibrated recall reaches `recall`, None if no calibrated budget does."""
        before: dict[str, float] | None = None
        for point in self.points:
            if point["recall_at_10"] >= recall:
                if before is None or point["recall_at_10"] == before["recall_at_10"]:
                    return int(point["budget"])
                share = (recall - before["recall_at_10"]) / (point["recall_at_10"] - before["recall_at_10"])
                low, high = math.log(before["budget"]), math.log(point["budget"])
                return min(math.ceil(math.exp(low + share * (high - low)) - 1e-9), int(point["budget"]))
            before = point
        return None

    def recall_at(self, budget: int) -> float:
        """Return the calibrated recall@10 at a budget."""
        before: dict[str, float] | None = None
        for point in self.points:
            if point["budget"] >= budget:
                if before is None:
                    return point["recall_at_10"]
                low, high = math.log(before["budget"]), math.log(point["budget"])
                share = (math.log(budget) - low) / (high - low)
                return before["recall_at_10"] + share * (point["recall_at_10"] - before["recall_at_10"])
            before = point
        return self.points[-1]["recall_at_10"]

    def law(self) -> CostLaw | None:
        """Return the cost law the calibration measured, as the start of the live one; None if it has no times."""
        timed = [
            (point["budget"], point["budget"] * point["seconds_per_product"])
            for point in self.points
            if point.get("seconds_per_product", 0) > 0
        ]
        if not timed:
            return None
        (small, quick), (large, slow) = timed[0], timed[-1]
        if large > small and slow > quick:
            return CostLaw(
                DEFAULT_A + max(0.0, quick - (slow - quick) / (large - small) * small), (slow - quick) / (large - small)
            )
        return CostLaw(DEFAULT_A, slow / large)
