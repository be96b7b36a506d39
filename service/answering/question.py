"""A question, whichever call or header it came from. service.http.questions reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from service.answering.arranging import Arrangement

By: TypeAlias = Literal["cosine", "inner_product"]
BY: tuple[By, ...] = get_args(By)

INTERACTIVE = 0
BATCH = 1


class ItemsAsked(NamedTuple):
    """Items that a vector is to be made of.

    weights  one for each, or None: all count alike
    loose    a comma in an id may be one that separates ids: clients write both as %2C
    """

    ids: Sequence[str]
    weights: Sequence[float] | None = None
    loose: bool = False


class SimilarAsked(NamedTuple):
    """Items to find similar ones for.

    by       None: by cosine if the model can
    item_id  the one item, where it was named as one
    """

    items: ItemsAsked
    by: By | None = None
    item_id: str | None = None


class Question:
    """Who, how much, until when. Times are seconds on the clock of `perf_counter`.

    arrival   when the request had arrived whole
    deadline  seconds after the arrival
    items     what a user met: the query is made of it, or moved by it
    similar   items to find similar ones for, in place of a user
    filter    which items may come back, beside what always applies
    fields    attributes to show
    model     the name of the model that is to answer, where a request names it
    is_dealt  an experiment decided which model answers
    arrangement  how the page is made, where the question says anything about that
    """

    __slots__ = (
        "arrangement", "arrival", "budget", "deadline", "exclude", "exclude_seen", "fields", "filter", "filter_was_new",
        "is_dealt", "items", "model", "priority", "similar", "target_recall", "top_k", "user_id", "vector",
    )  # fmt: skip

    def __init__(
        self,
        top_k: int,
        arrival: float,
        user_id: str | None = None,
        budget: int | None = None,
        *,
        vector: npt.NDArray[np.float32] | None = None,
        items: ItemsAsked | None = None,
        similar: SimilarAsked | None = None,
        deadline: float | None = None,
        target_recall: float | None = None,
        exclude: Sequence[str] = (),
        exclude_seen: bool | None = None,
        priority: int = INTERACTIVE,
        filter: str | None = None,  # noqa: A002 - the word of the callers
        fields: Sequence[str] = (),
        model: str | None = None,
        arrangement: Arrangement | None = None,
    ) -> None:
        self.top_k = top_k
        self.arrival = arrival
        self.user_id = user_id
        self.budget = budget
        self.vector = vector
        self.items = items
        self.similar = similar
        self.deadline = deadline
        self.target_recall = target_recall
        self.exclude = exclude
        self.exclude_seen = exclude_seen
        self.priority = priority
        self.filter = filter
        self.filter_was_new = False  # it had to be applied for this question
        self.fields = fields
        self.model = model
        self.is_dealt = False
        self.arrangement = arrangement

    def remaining(self, now: float) -> float | None:
        """Seconds until the deadline, None without one."""
        return None if self.deadline is None else self.deadline - (now - self.arrival)

    def expire(self) -> None:
        """Treat the deadline as passed: there is no time for a search."""
        self.deadline = 0.0
