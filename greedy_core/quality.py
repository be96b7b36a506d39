"""Quality: how well a model foretells what people really did, and what share of that each budget keeps.

Recall against exact search says how much of the model's own best a budget finds; nothing here does. These numbers
compare with interactions that the model was not trained on, so they are the ones to show a product owner.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import CalibrationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# What each number means, in the words of every place that shows it.
MEANINGS = {
    "hit_rate_at_10": "share of users for whom at least one of ten recommendations is among what was held out",
    "recall_at_10": "share of what was held out of a user that is among ten recommendations",
    "ndcg_at_10": "the same, counting more what stands higher: 1 is a perfect order, 0 is no hit at all",
    "coverage": "share of the catalogue that is recommended to anybody",
    "share": "what a budget keeps of the NDCG@10 that an exact search of all items has on real behaviour",
}


@dataclass(frozen=True)
class Scores:
    """What lists of ten foretold of the interactions that were held out: means over users, from 0 to 1."""

    hit_rate_at_10: float
    recall_at_10: float
    ndcg_at_10: float
    coverage: float


@dataclass(frozen=True)
class QualityPoint:
    """What one budget keeps: its NDCG@10, and that divided by the exact search's."""

    budget: int
    ndcg_at_10: float
    share: float


@dataclass(frozen=True)
class Quality:
    """The quality of a model on real behaviour, budgets ascending.

    exact           of an exact search of all items
    standard_error  of the exact search's NDCG@10, over users
    popular         of the most popular items that a user has not met, for comparison
    n_users         how many users were asked for
    split           one sentence: what was held out
    """

    exact: Scores
    standard_error: float
    popular: Scores
    points: tuple[QualityPoint, ...]
    n_users: int
    split: str

    def __post_init__(self) -> None:
        scores = [value for each in (self.exact, self.popular) for value in asdict(each).values()]
        budgets = [point.budget for point in self.points]
        if not (
            self.points
            and all(isinstance(value, int | float) and 0 <= value <= 1 for value in scores)
            and all(isinstance(budget, int) and budget >= 1 for budget in budgets)
            and all(before < after for before, after in pairwise(budgets))
            and all(0 <= point.ndcg_at_10 <= 1 and 0 <= point.share < math.inf for point in self.points)
            and 0 <= self.standard_error < math.inf
            and isinstance(self.n_users, int)
            and isinstance(self.split, str)
        ):
            raise CalibrationError(
                "a quality has scores from 0 to 1 and ascending budgets from 1, and this one has not; train it again."
            )

    def share_at(self, budget: int) -> float:
        """Return the share of the exact search's NDCG@10 that a budget keeps, interpolated in its logarithm."""
        budgets = [point.budget for point in self.points]
        shares = [point.share for point in self.points]
        return float(np.interp(math.log(max(budget, 1)), np.log(budgets), shares))

    def ndcg_at(self, budget: int) -> float:
        """Return the NDCG@10 on real behaviour that a budget buys."""
        return self.exact.ndcg_at_10 * self.share_at(budget)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Quality:
        """Return the quality that `to_dict` described. Raises CalibrationError for what is none."""
        try:
            return cls(
                exact=Scores(**stored["exact"]),
                standard_error=stored["standard_error"],
                popular=Scores(**stored["popular"]),
                points=tuple(QualityPoint(**point) for point in stored["points"]),
                n_users=stored["n_users"],
                split=stored["split"],
            )
        except (KeyError, TypeError) as reason:
            raise CalibrationError(f"this is no quality: {reason}; train the model again.") from None
