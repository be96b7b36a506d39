"""Reads a question, whatever brought it: the query string of a GET, the body of a POST, an entry of a batch.

This is the only place where a request becomes a `Question`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from service.answering.question import BATCH, INTERACTIVE, Question
from service.errors import invalid
from service.http.parameters import LONGEST_DEADLINE_MS, QueryReader, number, parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.http.schemas import RecommendRequest
    from service.settings import Settings

    Headers = Sequence[tuple[bytes, bytes]]

_PRIORITIES = {b"interactive": INTERACTIVE, b"batch": BATCH}
_read_deadline = number(
    "X-Request-Deadline-Ms", f"milliseconds, a number above 0 and up to {LONGEST_DEADLINE_MS:.0f}", LONGEST_DEADLINE_MS
)
# The usual question: written in this order and without escapes, it means the same and is read at once.
_USUAL = re.compile(
    rb"user_id=([A-Za-z0-9._~:@-]{1,200})(?:&budget=([1-9][0-9]{0,8}))?(?:&top_k=([1-9][0-9]{0,5}))?"
).fullmatch


class QuestionReader:
    """Reads the questions of one service. Raises a 422 that names the parameter which is wrong."""

    def __init__(self, settings: Settings) -> None:
        self._top_k = settings.default_top_k
        self._max_top_k = settings.max_top_k
        self._max_exclude = settings.max_exclude
        table = parameters(settings)
        self.recommend_parameters = QueryReader(
            table[name]
            for name in ("user_id", "budget", "top_k", "deadline_ms", "target_recall", "exclude", "exclude_seen")
        )
        self.similar_parameters = QueryReader(table[name] for name in ("item_id", "budget", "top_k"))

    def recommend(self, query: bytes, headers: Headers, arrival: float) -> Question:
        """Read `GET /recommend`."""
        usual = _USUAL(query)
        if usual is not None:
            user_id, budget, top_k = usual.groups()
            wanted = self._top_k if top_k is None else int(top_k)
            if wanted <= self._max_top_k:
                question = Question(wanted, arrival, user_id.decode("ascii"), None if budget is None else int(budget))
                if headers:
                    question.priority = read_priority(headers)
                    question.deadline = sooner_deadline(headers, None)
                return question
        values = self.recommend_parameters.read(query)
        return Question(
            user_id=values["user_id"],
            budget=values.get("budget"),
            top_k=values.get("top_k", self._top_k),
            deadline=sooner_deadline(headers, values.get("deadline_ms")),
            target_recall=values.get("target_recall"),
            exclude=values.get("exclude", ()),
            exclude_seen=values.get("exclude_seen"),
            priority=read_priority(headers),
            arrival=arrival,
        )

    def similar(self, query: bytes, headers: Headers, arrival: float) -> Question:
        """Read `GET /similar`."""
        values = self.similar_parameters.read(query)
        return Question(
            item_id=values["item_id"],
            budget=values.get("budget"),
            top_k=values.get("top_k", self._top_k),
            deadline=sooner_deadline(headers, None),
            priority=read_priority(headers),
            arrival=arrival,
        )

    def posted(
        self, body: RecommendRequest, headers: Headers, arrival: float, n_dims: int | None, *, place: str = ""
    ) -> Question:
        """Read the body of `POST /recommend`, or an entry of a batch, which stands at `place`.

        n_dims  the length of the loaded model's vectors, None as long as no model is loaded
        """
        top_k = self._top_k if body.top_k is None else body.top_k
        if top_k > self._max_top_k:
            raise invalid(f"{place}top_k", f"is {top_k}", f"a whole number from 1 to {self._max_top_k}")
        if len(body.exclude) > self._max_exclude:
            raise invalid(f"{place}exclude", f"has {len(body.exclude)} ids", f"at most {self._max_exclude} item ids")
        vector = None
        if body.vector is not None:
            if n_dims is not None and len(body.vector) != n_dims:
                raise invalid(
                    f"{place}vector",
                    f"has {len(body.vector)} numbers",
                    f"{n_dims}, as many as the model has dimensions",
                )
            with np.errstate(over="ignore"):
                vector = np.array(body.vector, dtype=np.float32)
            if not np.isfinite(vector).all():
                raise invalid(f"{place}vector", "has a number that float32 cannot hold", "finite numbers up to 1e15")
        return Question(
            user_id=body.user_id,
            vector=vector,
            budget=body.budget,
            top_k=top_k,
            deadline=sooner_deadline(headers, body.deadline_ms),
            target_recall=body.target_recall,
            exclude=[item if isinstance(item, str) else str(item) for item in body.exclude],
            exclude_seen=body.exclude_seen,
            priority=read_priority(headers),
            arrival=arrival,
        )

    def batch(
        self, bodies: Sequence[RecommendRequest], headers: Headers, arrival: float, n_dims: int | None
    ) -> list[Question]:
        """Read the entries of a batch. The class of the caller is `batch` unless a header says otherwise."""
        priority = read_priority(headers, BATCH)
        questions = []
        for position, body in enumerate(bodies):
            question = self.posted(body, headers, arrival, n_dims, place=f"requests[{position}].")
            question.priority = priority
            questions.append(question)
        return questions


def read_priority(headers: Headers, default: int = INTERACTIVE) -> int:
    """Return the class of the caller from `X-Priority`."""
    for name, value in headers:
        if name == b"x-priority":
            priority = _PRIORITIES.get(value.strip().lower())
            if priority is None:
                raise invalid("X-Priority", f"is {value[:40].decode('latin-1')!r}", "interactive or batch")
            return priority
    return default


def sooner_deadline(headers: Headers, deadline_ms: float | None) -> float | None:
    """Return the sooner of the parameter and the header `X-Request-Deadline-Ms`, in seconds."""
    for name, value in headers:
        if name == b"x-request-deadline-ms":
            from_header = _read_deadline(value.strip())
            deadline_ms = from_header if deadline_ms is None else min(deadline_ms, from_header)
    return None if deadline_ms is None else deadline_ms / 1000
