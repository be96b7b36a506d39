"""The one budget of a question: what was asked, less what deadline, maximum and overload take off it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from greedy_core import CalibrationError
from service import errors

if TYPE_CHECKING:
    from service.answering.cost import CostLaw
    from service.answering.question import Question
    from service.models.model import Model
    from service.settings import Settings


class Grant(NamedTuple):
    """What was asked, what is granted, and why that is less. Granted 0: no time for a single product."""

    asked: int
    granted: int
    reason: str | None


class Budgets:
    """Turns budget, target recall and deadline into one number of products. Of several, the smallest counts."""

    def __init__(self, settings: Settings) -> None:
        self._default = settings.default_budget
        self._maximum = settings.max_budget
        self._deadline_recall = settings.deadline_recall

    def grant(self, question: Question, model: Model, law: CostLaw, now: float) -> Grant:
        """Return the grant in a calm service."""
        asked = question.budget
        if question.target_recall is not None:
            bought = self._bought(question, question.target_recall, model)
            asked = bought if asked is None else min(asked, bought)
        remaining = question.remaining(now)
        if remaining is None:
            granted, reason = self._default if asked is None else asked, None
            asked = granted
        else:
            affordable = max(0, law.products(remaining))
            if asked is None:
                # Only a deadline: what it buys, but nothing beyond the point where more buys nothing.
                asked = self._enough(question, model)
                granted, reason = min(asked, affordable), None
                asked = granted
            else:
                granted, reason = (affordable, "deadline") if affordable < asked else (asked, None)
        most = model.reachable(min(granted, self._maximum))
        if most < granted:
            granted, reason = most, "maximum"
        return Grant(asked, granted, reason)

    def _enough(self, question: Question, model: Model) -> int:
        """Return the budget from which on the calibrated curve is flat; without a curve, the maximum."""
        if model.calibration is None:
            return model.reachable(self._maximum)
        curve = model.calibration if question.user_id is not None else model.calibration.for_vectors
        try:
            enough = curve.budget_for_recall(self._deadline_recall)
        except CalibrationError:
            enough = self._maximum
        return model.reachable(min(enough, self._maximum))

    def _bought(self, question: Question, recall: float, model: Model) -> int:
        """Return the budget that buys a recall; every item, if no calibrated budget does."""
        if model.calibration is None:
            raise errors.no_calibration()
        curve = model.calibration if question.user_id is not None else model.calibration.for_vectors
        try:
            return curve.budget_for_recall(recall)
        except CalibrationError:
            return model.n_items
