"""The calibrated curve of a model as the service reads it: recall -> budget, and where the live cost law starts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from greedy_core import CalibrationError
from greedy_core.calibration import Calibration
from service.cost import DEFAULT_A, CostLaw

if TYPE_CHECKING:
    from collections.abc import Mapping


class Curve:
    """What each budget buys, budgets ascending."""

    def __init__(self, calibration: Calibration) -> None:
        self._calibration = calibration

    @classmethod
    def read(cls, stored: Mapping[str, Any] | None) -> Curve | None:
        """Read what a bundle stores; None if it was built without, CalibrationError if it makes no sense."""
        return cls(Calibration.from_dict(stored)) if stored else None

    @property
    def points(self) -> list[dict[str, Any]]:
        """The measured points, as JSON holds them."""
        return [asdict(point) for point in self._calibration.points]

    @property
    def details(self) -> dict[str, Any]:
        """How the curve was measured."""
        return {name: value for name, value in self._calibration.to_dict().items() if name != "points"}

    def budget_for(self, recall: float) -> int | None:
        """Return the smallest budget whose calibrated recall reaches `recall`, None if no calibrated budget does."""
        try:
            return self._calibration.budget_for_recall(recall)
        except CalibrationError:
            return None

    def recall_at(self, budget: int) -> float:
        """Return the calibrated recall@10 at a budget."""
        return self._calibration.recall_at(budget)

    def law(self) -> CostLaw:
        """Return the line through the smallest and the largest calibrated budget, and the handling of a request."""
        first, last = self._calibration.points[0], self._calibration.points[-1]
        if last.budget == first.budget or last.seconds <= first.seconds:
            return CostLaw(DEFAULT_A, last.seconds_per_product)
        b = (last.seconds - first.seconds) / (last.budget - first.budget)
        return CostLaw(DEFAULT_A + max(0.0, first.seconds - b * first.budget), b)
