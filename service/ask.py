"""A question as the engine takes it, whichever call or header it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.admission import BATCH, INTERACTIVE
from service.errors import invalid
from service.query import LONGEST_DEADLINE_MS, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    import numpy.typing as npt

PRIORITY_TAKES = "interactive or batch"
_PRIORITIES = {b"interactive": INTERACTIVE, b"batch": BATCH}
_read_deadline = number(
    "X-Request-Deadline-Ms", f"milliseconds, a number above 0 and up to {LONGEST_DEADLINE_MS:.0f}", LONGEST_DEADLINE_MS
)


class Ask:
    """Who, how much, until when. Times are seconds on the clock of `perf_counter`.

    `arrival` is when the request was read.
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


def read_priority(headers: Iterable[tuple[bytes, bytes]], default: int = INTERACTIVE) -> int:
    """Return the class of the caller from `X-Priority`."""
    for name, value in headers:
        if name == b"x-priority":
            priority = _PRIORITIES.get(value.strip().lower())
            if priority is None:
                raise invalid("X-Priority", f"is {value[:40].decode('latin-1')!r}", PRIORITY_TAKES)
            return priority
    return default


def tightest_deadline(headers: Iterable[tuple[bytes, bytes]], deadline_ms: float | None) -> float | None:
    """Return the sooner of the parameter and the header `X-Request-Deadline-Ms`, in seconds."""
    for name, value in headers:
        if name == b"x-request-deadline-ms":
            from_header = _read_deadline(value.strip())
            deadline_ms = from_header if deadline_ms is None else min(deadline_ms, from_header)
    return None if deadline_ms is None else deadline_ms / 1000
