"""Reads a question, whatever brought it: the query string of a GET, the body of a POST, an entry of a batch.

This is the only place where a request becomes a `Question`.
"""

from __future__ import annotations

import re
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core import Boost, InvalidRulesError, Pin, read_fallback
from service.answering.question import BATCH, INTERACTIVE, ItemsAsked, Question, SimilarAsked
from service.answering.slices import SLICE_SECONDS, yield_after
from service.errors import invalid, invalid_rule
from service.http.parameters import LONGEST_DEADLINE_MS, QueryReader, parameters
from service.http.readers import number
from service.http.recipes import ARRANGING, Recipes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.http.schemas import RecommendRequest
    from service.models.scenarios import ServedScenarios
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

    def __init__(self, settings: Settings, scenarios: ServedScenarios) -> None:
        self._recipes = Recipes(scenarios)
        self._max_offset = settings.max_offset
        self._top_k = settings.default_top_k
        self._max_top_k = settings.max_top_k
        self._max_exclude = settings.max_exclude
        self._max_items = settings.max_items
        table = parameters(settings)
        self.recommend_parameters = QueryReader(
            table[name]
            for name in (
                "user_id", "items", "budget", "top_k", "deadline_ms", "target_recall", "exclude", "exclude_seen",
                "filter", "fields", "scenario", *ARRANGING, "model",
            )
        )  # fmt: skip
        self.similar_parameters = QueryReader(
            table[name]
            for name in (
                "item_id", "similar_items", "by", "budget", "top_k", "deadline_ms", "target_recall", "exclude",
                "filter", "fields", "scenario", *(name for name in ARRANGING if name != "fallback"), "model",
            )
        )  # fmt: skip
        self.model_parameters = QueryReader([table["model"]])
        self.metrics_parameters = QueryReader([table["name[]"]])
        self.items_parameters = QueryReader(table[name] for name in ("title", "limit", "model"))
        self.users_parameters = QueryReader(table[name] for name in ("limit", "model"))
        self.attributes_parameters = QueryReader(table[name] for name in ("name", "starts", "limit", "model"))

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
        if "user_id" not in values and "items" not in values:
            raise invalid("user_id", "is missing", "the id of a user, a non-empty text; or give items")
        recipe = self._recipes.of(values)
        return Question(
            user_id=values.get("user_id"),
            items=values.get("items"),
            budget=recipe.budget,
            top_k=values.get("top_k", self._top_k),
            deadline=sooner_deadline(headers, values.get("deadline_ms")),
            target_recall=recipe.target_recall,
            exclude=values.get("exclude", ()),
            exclude_seen=values.get("exclude_seen"),
            filter=recipe.filter,
            arrangement=recipe.arrangement,
            fields=values.get("fields", ()),
            model=values.get("model"),
            priority=read_priority(headers),
            arrival=arrival,
        )

    def similar(self, query: bytes, headers: Headers, arrival: float) -> Question:
        """Read `GET /similar`."""
        values = self.similar_parameters.read(query)
        if ("item_id" in values) == ("items" in values):
            problem = "comes with items" if "items" in values else "is missing"
            raise invalid("item_id", problem, "the id of an item, a non-empty text; or give items in its place")
        items = values["items"] if "items" in values else ItemsAsked([values["item_id"]])
        recipe = self._recipes.of(values)
        return Question(
            similar=SimilarAsked(items, values.get("by"), values.get("item_id")),
            budget=recipe.budget,
            top_k=values.get("top_k", self._top_k),
            deadline=sooner_deadline(headers, values.get("deadline_ms")),
            target_recall=recipe.target_recall,
            exclude=values.get("exclude", ()),
            filter=recipe.filter,
            arrangement=recipe.arrangement,
            fields=values.get("fields", ()),
            model=values.get("model"),
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
        if body.offset is not None and body.offset > self._max_offset:
            raise invalid(f"{place}offset", f"is {body.offset}", f"a whole number from 0 to {self._max_offset}")
        items = None
        if body.items is not None:
            if not 1 <= len(body.items) <= self._max_items:
                raise invalid(f"{place}items", f"has {len(body.items)} items", f"1 to {self._max_items} items")
            items = ItemsAsked([met.item_id for met in body.items], [met.weight for met in body.items])
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
        recipe = self._recipes.of(_said(body, place), place)
        return Question(
            user_id=body.user_id,
            vector=vector,
            items=items,
            budget=recipe.budget,
            top_k=top_k,
            deadline=sooner_deadline(headers, body.deadline_ms),
            target_recall=recipe.target_recall,
            exclude=[item if isinstance(item, str) else str(item) for item in body.exclude],
            exclude_seen=body.exclude_seen,
            filter=recipe.filter,
            arrangement=recipe.arrangement,
            fields=list(dict.fromkeys(body.fields)),
            model=body.model,
            priority=read_priority(headers),
            arrival=arrival,
        )

    async def batch(
        self,
        bodies: Sequence[RecommendRequest],
        headers: Headers,
        arrival: float,
        n_dims: Callable[[RecommendRequest, str], int | None],
    ) -> list[Question]:
        """Read the entries of a batch. The class of the caller is `batch` unless a header says otherwise.

        n_dims  says of an entry, and its place, how many dimensions its model has
        """
        priority = read_priority(headers, BATCH)
        questions = []
        end = perf_counter() + SLICE_SECONDS
        for position, body in enumerate(bodies):
            place = f"requests[{position}]."
            question = self.posted(body, headers, arrival, n_dims(body, place), place=place)
            question.priority = priority
            questions.append(question)
            end = await yield_after(end)
        return questions


def _said(body: RecommendRequest, place: str) -> dict[str, Any]:
    """Return what a body says of a recipe, by the names of the query parameters and as these are read."""
    names = ("budget", "target_recall", "filter", "scenario", "at_most", "diversity", "offset")
    said = {name: value for name in names if (value := getattr(body, name)) is not None}
    try:
        if body.boost is not None:
            said["boost"] = [Boost(each.filter, each.factor) for each in body.boost]
        if body.pin is not None:
            said["pin"] = [Pin(each.place, each.item_id) for each in body.pin]
        if body.fallback is not None:
            said["fallback"] = read_fallback(body.fallback)
    except InvalidRulesError as error:
        raise invalid_rule(error, place) from None
    return said


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
