"""What is counted of one model: of a single one under the names without a label, of several under their arms too."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from service.telemetry.families import CHOSEN_BY, SECONDS

if TYPE_CHECKING:
    from service.telemetry.metrics import Metrics

_SUM = len(SECONDS) + 1


class ModelMetrics:
    """The numbers of one model. Metrics that know of no arms speak of the first model where they cannot of all.

    which  the position of the model among those of the settings
    arm    its name; None where it is the only one
    """

    def __init__(self, metrics: Metrics, which: int = 0) -> None:
        self._metrics = metrics
        self._which = which
        self.arm: str | None = metrics.models[which] if len(metrics.models) > 1 else None
        if self.arm is not None:
            at = metrics.layout.at
            self._seconds = at("budgetrec_arm_request_seconds", self.arm)
            self._spent = at("budgetrec_arm_products_spent_total", self.arm)
            self._answers = {why: at("budgetrec_arm_answers_total", self.arm, why) for why in CHOSEN_BY}

    # ---- answers, where there are several models

    def answered(self, chosen_by: str, spent: int, whole: float) -> None:
        """Count an answer: why this model gave it, the products spent, and the seconds of the whole request."""
        row = self._metrics.row
        row[self._answers[chosen_by]] += 1.0
        row[self._spent] += spent
        row[self._seconds + bisect_left(SECONDS, whole)] += 1.0
        row[self._seconds + _SUM] += whole

    def fell_back(self, chosen_by: str) -> None:
        """Count an answer with popular items."""
        self._metrics.row[self._answers[chosen_by]] += 1.0
        self._metrics.count("budgetrec_arm_fallbacks_total", self.arm or "")

    # ---- changes

    def swapped(self, outcome: str) -> None:
        """Count a change, or that there was none."""
        self._metrics.count("budgetrec_model_swaps_total", outcome)
        if self.arm is not None:
            self._metrics.count("budgetrec_arm_swaps_total", self.arm, outcome)

    def serves(self, version: str, *, built: float, loaded: float, seconds: float) -> None:
        """Say which version this worker serves."""
        metrics = self._metrics
        metrics.rows.set_text(version, self._which)
        if self._which == 0:
            metrics.set("budgetrec_model_built_timestamp_seconds", built)
            metrics.set("budgetrec_model_loaded_timestamp_seconds", loaded)
            metrics.set("budgetrec_model_load_seconds", seconds)
        if self.arm is not None:
            metrics.set("budgetrec_arm_built_timestamp_seconds", built, self.arm)

    def follows(self, generation: int) -> None:
        """Say how many decisions about the model this worker has followed."""
        if self._which == 0:
            self._metrics.set("budgetrec_model_generation", generation)
        if self.arm is not None:
            self._metrics.set("budgetrec_arm_generation", generation, self.arm)

    def generations(self) -> list[float]:
        """Return how many decisions about the model each living worker has followed."""
        if self.arm is None:
            return self._metrics.of_living("budgetrec_model_generation")
        return self._metrics.of_living("budgetrec_arm_generation", self.arm)

    # ---- between requests

    def state(self, *, is_ready: bool, a: float, b: float) -> None:
        """Say whether the model serves here, and its cost law."""
        if self._which == 0:
            self._metrics.set("budgetrec_cost_law_a_seconds", a)
            self._metrics.set("budgetrec_cost_law_b_seconds", b)
        if self.arm is not None:
            self._metrics.set("budgetrec_arm_ready", float(is_ready), self.arm)
            self._metrics.set("budgetrec_arm_cost_law_b_seconds", b, self.arm)
