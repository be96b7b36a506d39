"""The one budget of a question: what was asked, less what deadline, maximum and overload take off it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from greedy_core import CalibrationError
from service import errors
from service.models.default_budget import DefaultBudget

if TYPE_CHECKING:
    from greedy_core import Calibration, Eligible
    from service.answering.cost import CostLaw
    from service.answering.question import Question
    from service.models.model import Model
    from service.settings import Settings


# What rules take beside the products, which a deadline has to leave time for.
RULES_SECONDS = 0.5e-3


class Grant(NamedTuple):
    """What was asked, what is granted, and why that is less. Granted 0: no time for a single product."""

    asked: int
    granted: int
    reason: str | None


class Budgets:
    """Turns budget, target recall and deadline into one number of products. Of several, the smallest counts."""

    def __init__(self, settings: Settings) -> None:
        self._default = DefaultBudget(settings)
        self._maximum = settings.max_budget
        self._deadline_recall = settings.deadline_recall

    def grant(
        self, question: Question, model: Model, law: CostLaw, now: float, eligible: Eligible | None = None
    ) -> Grant:
        """Return the grant in a calm service; `eligible` are the only items that may come back, None all."""
        asked = question.budget
        if question.target_recall is not None:
            bought = self._bought(question, question.target_recall, model, eligible)
            asked = bought if asked is None else min(asked, bought)
        remaining = question.remaining(now)
        if remaining is not None and question.arrangement is not None and question.arrangement.rules:
            remaining -= RULES_SECONDS
        if remaining is None:
            if asked is None:
                asked = self._default.of(model, _curve(question, model), question.top_k, eligible)
            granted, reason = asked, None
        else:
            affordable = max(0, law.products(remaining))
            if asked is None:
                # Only a deadline: what it buys, but nothing beyond the point where more buys nothing.
                asked = self._enough(question, model, eligible)
                granted, reason = min(asked, affordable), None
                asked = granted
            else:
                granted, reason = (affordable, "deadline") if affordable < asked else (asked, None)
        most = model.reachable(min(granted, self._maximum), eligible)
        if most < granted:
            granted, reason = most, "maximum"
        return Grant(asked, granted, reason)

    def _enough(self, question: Question, model: Model, eligible: Eligible | None) -> int:
        """Return the budget from which on the calibrated curve is flat; without a curve, the maximum."""
        curve = _curve(question, model)
        if curve is None:
            return model.reachable(self._maximum, eligible)
        try:
            enough = curve.budget_for_recall(self._deadline_recall, _selectivity(eligible))
        except CalibrationError:
            enough = self._maximum
        return model.reachable(min(enough, self._maximum, _most(model, eligible)), eligible)

    def _bought(self, question: Question, recall: float, model: Model, eligible: Eligible | None) -> int:
        """Return the budget that buys a recall; every item that may come back, if no calibrated budget does."""
        curve = _curve(question, model)
        if curve is None:
            raise errors.no_calibration()
        most = _most(model, eligible)
        try:
            return min(curve.budget_for_recall(recall, _selectivity(eligible)), most)
        except CalibrationError:
            return most


def _most(model: Model, eligible: Eligible | None) -> int:
    """Return the budget that scores every item that may come back."""
    return model.n_items if eligible is None else max(1, eligible.count)


def _selectivity(eligible: Eligible | None) -> float:
    """Return the share of all items that may come back."""
    return 1.0 if eligible is None else eligible.selectivity


def _curve(question: Question, model: Model) -> Calibration | None:
    """Return the curve that holds for a question: of what the model knows as it is, or of what nobody has met."""
    if question.similar is None:
        # Users remember the best of what they have not seen.
        unseen = question.exclude_seen is not False or not model.has_seen
        calibration = model.calibration
        is_known = question.user_id is not None and question.items is None and unseen
    elif model.compared_by(question.similar.by) == "cosine":
        calibration, is_known = model.similar_calibration, len(question.similar.items.ids) == 1
    else:
        calibration, is_known = model.calibration, False
    return calibration if calibration is None or is_known else calibration.for_vectors
