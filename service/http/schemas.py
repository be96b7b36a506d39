"""The JSON of the service, in and out.

Limits that depend on settings or on the model are put into OpenAPI by openapi.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, model_validator

from greedy_core import (
    FALLBACK_TAKES,
    LARGEST_FACTOR,
    LAST_PLACE,
    LEAST_FACTOR,
    MOST_BOOSTS,
    MOST_CAPS,
    MOST_PINS,
    QUALITY_MEANINGS,
)
from service.http.parameters import LARGEST_BUDGET, LONGEST_DEADLINE_MS, LONGEST_FIELD, LONGEST_FILTER, MOST_FIELDS

WHICH_MODEL = "The name of the model to change; needed where the service has several."
LONGEST_ID = 10_000
LARGEST_WEIGHT = 1e6
# Beyond any embedding; the exact length is the model's and is checked against it.
LONGEST_VECTOR = 65_536


def _meaning(name: str) -> str:
    """Return what a number of the quality means, as a sentence."""
    meaning = QUALITY_MEANINGS[name]
    return f"{meaning[0].upper()}{meaning[1:]}."


def _id_text(value: object) -> object:
    """Take a whole number for an id, as its decimal text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Id = Annotated[
    str, Field(min_length=1, max_length=LONGEST_ID), BeforeValidator(_id_text, json_schema_input_type=str | int)
]
# Strict: `true` and `"5"` are no numbers; JSON has types.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Count = Annotated[int, Field(strict=True)]
# A text of any other length is the name of no model either.
ModelName = Annotated[StrictStr, Field(min_length=1)]
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
    fields: dict[str, str | float | bool | list[str] | None] | None = Field(
        None, description="Present when fields were asked for: their values, null where one is missing."
    )
    score: float | None = Field(
        description="Inner product with the query, times the factors of boosts; null for what was not scored: popular "
        "items, and pinned ones that the search did not find."
    )


class Degraded(BaseModel):
    """Why the granted budget is less than what was asked."""

    asked: int = Field(alias="from", description="What was asked.")
    reason: Literal["overload", "maximum", "deadline"]


class BoostDone(BaseModel):
    """What boosts did."""

    items: int = Field(description="Items of the page with a factor on their score.")


class CapsDone(BaseModel):
    """What at_most did."""

    left_out: int = Field(description="Candidates that were left out before the end of the page.")
    filled: int = Field(
        description="Items of the page that stand in, because no candidate fits any more: the popular ones that do."
    )


class DiversityDone(BaseModel):
    """What diversity did."""

    places: int = Field(description="How many places it decided, before the budget or the candidates ended.")
    products: int = Field(description="Inner products of items with one another, a part of `spent`.")


class PinLeftOut(BaseModel):
    """A pinned item that is not on any page."""

    item_id: str
    because: Literal["unknown", "filter", "excluded", "at_most"] = Field(
        description="The model does not know it; the filter does not let it through; it is excluded, seen or one of "
        "the items asked with; another rule leaves it out."
    )


class PinsDone(BaseModel):
    """What pins did."""

    placed: int = Field(description="Pinned items on the page.")
    left_out: list[PinLeftOut]


class RulesDone(BaseModel):
    """What each rule did; those that there are."""

    boost: BoostDone | None = None
    at_most: CapsDone | None = None
    diversity: DiversityDone | None = None
    pin: PinsDone | None = None


class ShardsDone(BaseModel):
    """How many shards were asked, and how many answered in time."""

    asked: int = Field(description="Shards that had a share of the budget.", examples=[4])
    answered: int = Field(description="The answer is made of what these found.", examples=[4])


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
    scenario: str | None = Field(None, description="Present when a scenario was named: its name.")
    offset: int | None = Field(None, description="Present when one was given: how many places come before the page.")
    rules: RulesDone | None = Field(None, description="Present where there are rules: what each of them did.")
    eligible: int | None = Field(
        None, description="Present under a filter: how many items it lets through, less those that are excluded."
    )
    short: Literal["budget", "catalogue", "rules"] | None = Field(
        None,
        description="Present when fewer than top_k items came back: the budget buys no more (one product finds at most "
        "one item), there are no more, or the rules allow no more.",
    )
    shards: ShardsDone | None = Field(
        None,
        description="Present where a cluster searched: a shard that was late or gone makes the answer smaller, and "
        "`complete` false.",
    )
    model: str = Field(description="Version of the model that answered.", examples=["2026-11-16T08-00"])
    arm: str | None = Field(
        None, description="Present where the service has several models: the name of the one that answered."
    )
    experiment: str | None = Field(
        None,
        description="Present when an experiment decided which model answers: its name. Compare these answers only.",
    )
    search_us: int = Field(description="Microseconds of the search itself.", examples=[61])


class Recommendation(Receipt):
    """The answer to a recommendation."""

    user_id: str | None = Field(description="As asked; null when none was given.", examples=["42"])
    vector: Literal["fold_in", "mean", "moved", "stored", "given"] | None = Field(
        None,
        description="Present when items were given: how the vector came about. fold_in: from the items, as the "
        "training would have; mean: the weighted mean of the items' vectors; moved: the user's (or the given) "
        "vector, moved by the items; stored, given: that vector as it was, none of the items being known. Null "
        "where there was none.",
    )
    unknown_items: int | None = Field(
        None, description="Present when items were given: how many of them the model does not know."
    )


class SimilarItems(Receipt):
    """The answer to a question for similar items."""

    item_id: str | None = Field(
        description="As asked, and not among the items; null where several were given.", examples=["jazz-0007"]
    )
    by: Literal["cosine", "inner_product"] = Field(
        description="What they are compared by: `score` is that. Inner product if asked for, or where the model has no "
        "index of similar items."
    )
    unknown_items: int | None = Field(
        None, description="Present when several items were given: how many of them the model does not know."
    )


class ItemMet(Body):
    """An item that somebody met, and how much that counts."""

    model_config = ConfigDict(extra="forbid")

    item_id: Id
    weight: Number = Field(1.0, gt=0, le=LARGEST_WEIGHT, description="How much it counts, as in the training.")


def _as_met(value: object) -> object:
    """Take a plain id for an item of weight 1."""
    return value if isinstance(value, dict | ItemMet) else {"item_id": value}


Met = Annotated[ItemMet, BeforeValidator(_as_met, json_schema_input_type=ItemMet | str | int)]


class BoostRule(Body):
    """A factor on the score of the items that a filter lets through; a score below zero is divided by it."""

    model_config = ConfigDict(extra="forbid")

    filter: StrictStr = Field(min_length=1, max_length=LONGEST_FILTER)
    factor: Number = Field(ge=LEAST_FACTOR, le=LARGEST_FACTOR)


class PinRule(Body):
    """An item at a place."""

    model_config = ConfigDict(extra="forbid")

    place: Count = Field(ge=1, le=LAST_PLACE, description="From 1, counted from the first place of the first page.")
    item_id: Id


class RecommendRequest(Body):
    """One of `user_id` and `vector`, or `items`, or both; and what the answer may cost."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"user_id": "42", "budget": 256, "top_k": 10},
                {"user_id": "42", "items": ["jazz-0007", {"item_id": "chess-0003", "weight": 2}], "budget": 256},
                {"user_id": "42", "filter": 'category = "jazz" and in_stock', "fields": ["category", "price"]},
                {"user_id": "42", "scenario": "home", "offset": 10},
                {
                    "user_id": "42",
                    "at_most": {"category": 2},
                    "diversity": 0.3,
                    "boost": [{"filter": "in_stock", "factor": 1.5}],
                    "pin": [{"place": 1, "item_id": "jazz-0007"}],
                    "fallback": "popular: in_stock",
                },
            ]
        },
    )

    user_id: Id | None = Field(None, description="A user of the model.")
    vector: Vector | None = Field(
        None, min_length=1, max_length=LONGEST_VECTOR, description="A query vector in place of a user."
    )
    items: Annotated[list[Met], Field(fail_fast=True)] | None = Field(
        None,
        min_length=1,
        description="Items that somebody met, as ids or with weights: the vector is made of them where there is none, "
        "and moved by them where there is one. They are not recommended back.",
    )
    budget: Count | None = Field(None, ge=1, le=LARGEST_BUDGET, description="The most inner products to spend.")
    top_k: Count | None = Field(None, ge=1, description="How many items to return.")
    deadline_ms: Number | None = Field(
        None, gt=0, le=LONGEST_DEADLINE_MS, description="Milliseconds the answer may take."
    )
    target_recall: Number | None = Field(None, gt=0, le=1, description="The recall@10 against exact search to buy.")
    exclude: list[StrictStr | StrictInt] = Field([], fail_fast=True, description="Item ids that must not appear.")
    exclude_seen: bool | None = Field(
        None, strict=True, description="Leave out what the user has seen; true when the model knows it."
    )
    filter: StrictStr | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_FILTER,
        description="Conditions on attributes: only items for which they are true come back.",
    )
    fields: list[Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_FIELD)]] = Field(
        [], max_length=MOST_FIELDS, fail_fast=True, description="Names of attributes to be shown with each item."
    )
    scenario: StrictStr | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="The name of a scenario, as GET /scenarios lists them: what the request itself says counts more.",
    )
    at_most: dict[Annotated[StrictStr, Field(max_length=LONGEST_FIELD)], Annotated[Count, Field(ge=1)]] | None = Field(
        None,
        max_length=MOST_CAPS,
        description="At most so many items of each value of an attribute. Items without a value are not counted, and "
        "one with a list counts for each of its texts.",
    )
    diversity: Number | None = Field(
        None,
        ge=0,
        le=1,
        description="How much an item's likeness to those above it counts against its score: 0 not at all, 1 alone.",
    )
    boost: list[BoostRule] | None = Field(
        None, max_length=MOST_BOOSTS, fail_fast=True, description="Factors on scores, by filters."
    )
    pin: list[PinRule] | None = Field(
        None, max_length=MOST_PINS, fail_fast=True, description="Items at places; what cannot be kept is said."
    )
    fallback: StrictStr | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_FILTER,
        description=f"What stands in where there is nothing to search with: {FALLBACK_TAKES}.",
    )
    offset: Count | None = Field(
        None,
        ge=0,
        description="How many places come before the page. Pages put together are one long answer; under a filter, "
        "give 0 for the first one, too.",
    )
    model: ModelName | None = Field(
        None,
        description="The name of the model that is to answer, where the service has several; when left out, the first, "
        "or the one that the experiment says of the user.",
    )

    @model_validator(mode="after")
    def _one_subject(self) -> RecommendRequest:
        if self.user_id is not None and self.vector is not None:
            raise ValueError("give exactly one of user_id and vector; items may come with either")
        if self.user_id is None and self.vector is None and self.items is None:
            raise ValueError("give exactly one of user_id and vector, or items")
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
    recall_at_10: float = Field(
        description="Recall against exact search: the share of the model's own ten best items that this budget finds."
    )
    latency_us: float = Field(description="By the live cost law of this worker.")


class BehaviourScores(BaseModel):
    """Lists of ten, compared with interactions that the model was not trained on."""

    hit_rate_at_10: float = Field(description=_meaning("hit_rate_at_10"))
    recall_at_10: float = Field(description=_meaning("recall_at_10"))
    ndcg_at_10: float = Field(description=_meaning("ndcg_at_10"))
    coverage: float = Field(description=_meaning("coverage"))


class BehaviourPoint(BaseModel):
    """What one budget keeps of it."""

    budget: int
    ndcg_at_10: float
    share: float = Field(description=_meaning("share"))


class BehaviourQuality(BaseModel):
    """Quality on real behaviour, which recall against exact search says nothing about.

    Measured on a model trained without what was held out; the served one was trained on everything.
    """

    exact: BehaviourScores = Field(description="An exact search of all items.")
    standard_error: float = Field(description="Of the exact search's NDCG@10, over users.")
    popular: BehaviourScores = Field(description="The most popular items that a user has not met, for comparison.")
    points: list[BehaviourPoint]
    n_users: int = Field(description="How many users were asked for.")
    split: str = Field(description="What was held out.")
    meanings: dict[str, str] = Field(description="What each number means, in a sentence.")


class Budgets(BaseModel):
    """The calibrated curve of the loaded model."""

    model: str
    points: list[BudgetPoint] = Field(description="For known users.")
    vectors: list[BudgetPoint] | None = Field(description="For vectors and items, where that is another curve.")
    similar: list[BudgetPoint] | None = Field(
        description="For items like one item, by cosine; null where the model has no curve for them."
    )
    cost_law: dict[str, float] = Field(description="latency = a + b * products, in microseconds, as measured now.")
    calibration: dict[str, Any] = Field(description="How the curve was measured.")
    quality: BehaviourQuality | None = Field(
        description="How well the model foretells what people did, where `budgetrec train` measured it."
    )


class AttributeDescription(BaseModel):
    """An attribute of the items."""

    name: str
    type: Literal["text", "list", "number", "flag", "time"]
    values: int = Field(description="How many different ones there are.")
    missing: float = Field(description="Share of the items that have none.")


class ModelDescription(BaseModel):
    """What is being served."""

    version: str
    n_items: int
    n_users: int
    n_dims: int
    directions: str
    max_budget: int
    has_seen: bool
    makes_vectors_by: Literal["fold_in", "mean"] = Field(description="How `items` become a vector.")
    similar_by: Literal["cosine", "inner_product"] = Field(description="What /similar compares by unless asked.")
    calibrated: bool
    built_at: str
    loaded_at: str
    load_seconds: float
    metadata: dict[str, Any]
    attributes: list[AttributeDescription] = Field(description="What items can be filtered by, and what can be shown.")


class ServedModel(BaseModel):
    """A model of the service."""

    name: str = Field(description="As model= takes it; `default` for a single model that has no other.")
    version: str | None = Field(description="The version that answers; null while none is loaded.")
    is_default: bool = Field(description="It answers where nothing says another one.")
    share: float | None = Field(description="Its share of the users in the experiment; null without one.")
    waits_for: str | None = Field(description="Why it is not ready; null when it is.")


class ServedModels(BaseModel):
    """All models of the service, and the experiment that deals users out to them."""

    experiment: str | None
    models: list[ServedModel]


class PinDescription(BaseModel):
    """A pin of a scenario."""

    place: int
    item_id: str


class ScenarioDescription(BaseModel):
    """A scenario; what it does not say is left out."""

    name: str = Field(description="As scenario= takes it.")
    description: str
    budget: int | None = Field(None, description="For requests that name neither budget nor target_recall.")
    target_recall: float | None = Field(None, description="The same.")
    filter: str | None = Field(None, description="For requests that name none.")
    at_most: dict[str, int] | None = None
    diversity: float | None = None
    boost: list[BoostRule] | None = None
    pin: list[PinDescription] | None = None
    fallback: str | None = None


class Scenarios(BaseModel):
    """All scenarios of the service, in the order of the file."""

    scenarios: list[ScenarioDescription]


class Health(BaseModel):
    """Alive, or ready."""

    status: Literal["live", "ready"]


class ReloadRequest(Body):
    """Which version, and whether the gate may be passed by."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{}]})

    version: str | None = Field(
        None, min_length=1, description="A version of the models folder; the current one if left out."
    )
    force: bool = Field(
        False,
        strict=True,
        description="Serve it even if its calibrated recall against exact search, or its NDCG, is lower.",
    )
    model: ModelName | None = Field(None, description=WHICH_MODEL)


class RollbackRequest(Body):
    """Which model, where there are several."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": []})

    model: ModelName | None = Field(None, description=WHICH_MODEL)


class Workers(BaseModel):
    """How far a change came."""

    total: int
    serving: int


class SwapOutcome(BaseModel):
    """What became of a reload or a rollback."""

    outcome: Literal["swapped", "rolled_back"]
    model: str | None = Field(None, description="The name of the model, where it has one.")
    version: str
    previous: str | None
    workers: Workers
