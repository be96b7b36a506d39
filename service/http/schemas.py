"""The JSON of the service, in and out.

Limits that depend on settings or on the model are put into OpenAPI by openapi.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, model_validator

from service.http.parameters import LARGEST_BUDGET, LONGEST_DEADLINE_MS

LONGEST_ID = 10_000
# Beyond any embedding; the exact length is the model's and is checked against it.
LONGEST_VECTOR = 65_536


def _id_text(value: object) -> object:
    """Take a whole number for an id, as its decimal text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[
    str, Field(min_length=1, max_length=LONGEST_ID), BeforeValidator(_id_text, json_schema_input_type=str | int)
]
# Strict: `true` and `"5"` are no numbers; JSON has types.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True)]
# The first wrong element ends the validation: an error for each of a million would take longer than anything else.
Vector = Annotated[list[Number], Field(fail_fast=True)]


class Body(BaseModel):
    """A body that a caller sends. The first unknown name ends the validation, however many there are."""

    @model_validator(mode="before")
    @classmethod
    def _known_names(cls, body: object) -> object:
        if isinstance(body, dict):
            for name in body:
                if name not in cls.model_fields:
                    raise ValueError(f"{str(name)[:80]!r} is not a name here; known are {', '.join(cls.model_fields)}")
        return body


class Problem(BaseModel):
    """What went wrong."""

    code: str = Field(description="For programs; never changes.", examples=["invalid_parameter"])
    message: str = Field(description="What is wrong and what was expected.", examples=["budget is '0'."])
    hint: str = Field(
        description="What to do.",
        examples=["budget takes the most inner products the search may spend, a whole number from 1."],
    )


class ErrorAnswer(BaseModel):
    """The shape of every error."""

    error: Problem


class Item(BaseModel):
    """One recommended item."""

    item_id: str
    title: str | None = Field(None, description="Present for items that have one.")
    score: float | None = Field(description="Inner product with the query; null for popular items.")


class Degraded(BaseModel):
    """Why the granted budget is less than what was asked."""

    asked: int = Field(alias="from", description="What was asked.")
    reason: Literal["overload", "maximum", "deadline"]


class Receipt(BaseModel):
    """The items and what they cost."""

    items: list[Item]
    budget: int = Field(description="Inner products granted; 0 if there was no time for any.", examples=[256])
    spent: int = Field(description="Inner products spent; never more than granted.", examples=[256])
    complete: bool = Field(description="Every eligible item was scored: the answer is exact.")
    degraded: Degraded | None = Field(description="Set when less was granted than asked.")
    fallback: Literal["unknown_user", "no_vector", "deadline"] | None = Field(
        description="Set when the popular items stand in for a search."
    )
    short: Literal["budget", "catalogue"] | None = Field(
        None,
        description="Present when fewer than top_k items came back: the budget buys no more (one product finds at most "
        "one item), or there are no more.",
    )
    model: str = Field(description="Version of the model that answered.", examples=["2026-11-16T08-00"])
    search_us: int = Field(description="Microseconds of the search itself.", examples=[61])


class Recommendation(Receipt):
    """The answer to a recommendation."""

    user_id: str | None = Field(description="As asked; null when a vector was given.", examples=["42"])


class SimilarItems(Receipt):
    """The answer to a question for similar items."""

    item_id: str = Field(description="As asked; it is not among the items.", examples=["7"])


class RecommendRequest(Body):
    """Exactly one of `user_id` and `vector`, and what the answer may cost."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"user_id": "42", "budget": 256, "top_k": 10}]}
    )

    user_id: Id | None = Field(None, description="A user of the model.")
    vector: Vector | None = Field(
        None, min_length=1, max_length=LONGEST_VECTOR, description="A query vector in place of a user."
    )
    budget: Count | None = Field(None, ge=1, le=LARGEST_BUDGET, description="The most inner products to spend.")
    top_k: Count | None = Field(None, ge=1, description="How many items to return.")
    deadline_ms: Number | None = Field(
        None, gt=0, le=LONGEST_DEADLINE_MS, description="Milliseconds the answer may take."
    )
    target_recall: Number | None = Field(None, gt=0, le=1, description="The recall@10 to buy.")
    exclude: list[StrictStr | StrictInt] = Field([], fail_fast=True, description="Item ids that must not appear.")
    exclude_seen: bool | None = Field(
        None, strict=True, description="Leave out what the user has seen; true when the model knows it."
    )

    @model_validator(mode="after")
    def _one_subject(self) -> RecommendRequest:
        if (self.user_id is None) == (self.vector is None):
            raise ValueError("give exactly one of user_id and vector")
        return self


class BatchRequest(Body):
    """Many questions, each with its own budget."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"requests": [{"user_id": "1", "budget": 64}, {"user_id": "2", "budget": 256}]}]
        },
    )

    requests: list[RecommendRequest] = Field(min_length=1, fail_fast=True)


class BatchAnswer(BaseModel):
    """One answer for each question, in their order."""

    results: list[Recommendation | ErrorAnswer]


class BudgetPoint(BaseModel):
    """What one budget buys, and what it costs here and now."""

    model_config = ConfigDict(extra="allow")

    budget: int
    recall_at_10: float
    latency_us: float = Field(description="By the live cost law of this worker.")


class Budgets(BaseModel):
    """The calibrated curve of the loaded model."""

    model: str
    points: list[BudgetPoint] = Field(description="For known users.")
    vectors: list[BudgetPoint] | None = Field(description="For vectors and items, where that is another curve.")
    cost_law: dict[str, float] = Field(description="latency = a + b * products, in microseconds, as measured now.")
    calibration: dict[str, Any] = Field(description="How the curve was measured.")


class ModelDescription(BaseModel):
    """What is being served."""

    version: str
    n_items: int
    n_users: int
    n_dims: int
    directions: str
    max_budget: int
    has_seen: bool
    calibrated: bool
    built_at: str
    loaded_at: str
    load_seconds: float
    metadata: dict[str, Any]


class Health(BaseModel):
    """Alive, or ready."""

    status: Literal["live", "ready"]


class ReloadRequest(Body):
    """Which version, and whether the recall gate may be passed by."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})

    version: str | None = Field(
        None, min_length=1, description="A version of the models folder; the current one if left out."
    )
    force: bool = Field(False, strict=True, description="Serve it even if its calibrated recall is lower.")


class Workers(BaseModel):
    """How far a change came."""

    total: int
    serving: int


class SwapOutcome(BaseModel):
    """What became of a reload or a rollback."""

    outcome: Literal["swapped", "rolled_back"]
    version: str
    previous: str | None
    workers: Workers
