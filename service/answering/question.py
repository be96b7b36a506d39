"""A question, whichever call or header it came from. service.http.questions reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

INTERACTIVE = 0
BATCH = 1


class Question:
    """Who, how much, until when. Times are seconds on the clock of `perf_counter`.

    arrival   when the request had arrived whole
    deadline  seconds after the arrival
    """

    __slots__ = (
        "arrival", "budget", "deadline", "exclude", "exclude_seen", "item_id", "priority", "target_recall",
        "top_k", "user_id", "vector",
    )  # fmt: skip

    def __init__(
        self,
        top_k: int,
        arrival: float,
        user_id: str | None = None,
        budget: int | None = None,
        *,
        vector: npt.NDArray[np.float32] | None = None,
        item_id: str | None = None,
        deadline: float | None = None,
        target_recall: float | None = None,
        exclude: Sequence[str] = (),
        exclude_seen: bool | None = None,
        priority: int = INTERACTIVE,
    ) -> None:
        self.top_k = top_k
        self.arrival = arrival
        self.user_id = user_id
        self.budget = budget
        self.vector = vector
        self.item_id = item_id
        self.deadline = deadline
        self.target_recall = target_recall
        self.exclude = exclude
        self.exclude_seen = exclude_seen
        self.priority = priority

    def remaining(self, now: float) -> float | None:
        """Seconds until the deadline, None without one."""
        return None if self.deadline is None else self.deadline - (now - self.arrival)

    def expire(self) -> None:
        """Treat the deadline as passed: there is no time for a search."""
        self.deadline = 0.0
