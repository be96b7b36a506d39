"""The budget of a question that names none: a number of the settings, or what a recall needs on the model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from greedy_core import GreedyIndex

if TYPE_CHECKING:
    from greedy_core import AnyIndex, Calibration, Eligible
    from service.models.model import Model
    from service.settings import Settings

# Curves are measured on answers of so many items.
CALIBRATED_TOP_K = 10


def budget_towards(
    recall: float, index: AnyIndex, calibration: Calibration | None, top_k: int, eligible: Eligible | None = None
) -> int:
    """Return the smallest budget with a calibrated recall@10 for vectors, or the most that was calibrated.

    Longer answers need proportionally more. Without a calibration it is the library's default.
    """
    if calibration is None:
        budget = GreedyIndex.default_budget
    else:
        selectivity = 1.0 if eligible is None else eligible.selectivity
        budget = calibration.for_vectors.budget_towards(recall, selectivity)
    # A walk keeps a third of its budget for exact products, and every item of an answer takes one.
    budget = max(math.ceil(budget * max(1.0, top_k / CALIBRATED_TOP_K)), 3 * top_k)
    most = index.n_items if eligible is None else max(1, eligible.count)
    return most if budget >= most else min(budget, index.max_budget)


class DefaultBudget:
    """Tells what a question gets that names neither budget nor recall nor deadline."""

    def __init__(self, settings: Settings) -> None:
        self._number = settings.default_budget
        self._recall = settings.default_recall
        self._maximum = settings.max_budget
        self._top_k = settings.default_top_k

    def usual(self, model: Model) -> int:
        """Return the default of recommendations from all items, as many as are usual."""
        return self.of(model, model.calibration, self._top_k)

    def of(self, model: Model, calibration: Calibration | None, top_k: int, eligible: Eligible | None = None) -> int:
        """Return the default of an answer by the curve that holds for its question."""
        if self._number is not None:
            return self._number
        # A short answer gets what the usual one gets: it must not depend on which way a question came.
        wanted = budget_towards(self._recall, model.index, calibration, max(top_k, self._top_k), eligible)
        return model.reachable(min(wanted, self._maximum), eligible)
