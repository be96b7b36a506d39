"""What goes in and what comes out. Made from clients/openapi.json by `make client`; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AttributeDescription(TypedDict):
    """An attribute of the items."""

    name: str
    type: Literal["text", "list", "number", "flag", "time"]
    #: How many different ones there are.
    values: int
    #: Share of the items that have none.
    missing: float


class AttributeList(TypedDict):
    """What items can be filtered by."""

    #: Version of the model whose attributes these are.
    model: str
    attributes: list[AttributeValues]


class AttributeValues(TypedDict):
    """An attribute of the items, with some of its values."""

    name: str
    type: Literal["text", "list", "number", "flag", "time"]
    #: How many different ones there are.
    values: int
    #: Share of the items that have none.
    missing: float
    #: The first values: of texts, those that begin as was asked; of numbers and times, the least and the largest.
    some: list[str | float | bool]


class BatchAnswer(TypedDict):
    """One answer for each question, in their order."""

    results: list[Recommendation | ErrorAnswer]


class BatchRequest(TypedDict):
    """Many questions, each with its own budget."""

    requests: list[RecommendRequest]


class BehaviourPoint(TypedDict):
    """What one budget keeps of it."""

    budget: int
    ndcg_at_10: float
    #: What a budget keeps of the NDCG@10 that an exact search of all items has on real behaviour.
    share: float


class BehaviourQuality(TypedDict):
    """Quality on real behaviour, which recall against exact search says nothing about. Measured on a model trained without what was held out; the served one was trained on everything."""

    #: An exact search of all items.
    exact: BehaviourScores
    #: Of the exact search's NDCG@10, over users.
    standard_error: float
    #: The most popular items that a user has not met, for comparison.
    popular: BehaviourScores
    points: list[BehaviourPoint]
    #: How many users were asked for.
    n_users: int
    #: What was held out.
    split: str
    #: What each number means, in a sentence.
    meanings: dict[str, str]


class BehaviourScores(TypedDict):
    """Lists of ten, compared with interactions that the model was not trained on."""

    #: Share of users for whom at least one of ten recommendations is among what was held out.
    hit_rate_at_10: float
    #: Share of what was held out of a user that is among ten recommendations.
    recall_at_10: float
    #: The same, counting more what stands higher: 1 is a perfect order, 0 is no hit at all.
    ndcg_at_10: float
    #: Share of the catalogue that is recommended to anybody.
    coverage: float


class BoostDone(TypedDict):
    """What boosts did."""

    #: Items of the page with a factor on their score.
    items: int


class BoostRule(TypedDict):
    """A factor on the score of the items that a filter lets through; a score below zero is divided by it."""

    filter: str
    factor: float


class BudgetPoint(TypedDict):
    """What one budget buys, and what it costs here and now."""

    budget: int
    #: Recall against exact search: the share of the model's own ten best items that this budget finds.
    recall_at_10: float
    #: By the live cost law of this worker.
    latency_us: float


class Budgets(TypedDict):
    """The calibrated curve of the loaded model."""

    model: str
    #: For known users.
    points: list[BudgetPoint]
    #: For vectors and items, where that is another curve.
    vectors: list[BudgetPoint] | None
    #: For items like one item, by cosine; null where the model has no curve for them.
    similar: list[BudgetPoint] | None
    #: latency = a + b * products, in microseconds, as measured now.
    cost_law: dict[str, float]
    #: How the curve was measured.
    calibration: dict[str, Any]
    #: How well the model foretells what people did, where `budgetrec train` measured it.
    quality: BehaviourQuality | None


class CapsDone(TypedDict):
    """What at_most did."""

    #: Candidates that were left out before the end of the page.
    left_out: int
    #: Items of the page that stand in, because no candidate fits any more: the popular ones that do.
    filled: int


Degraded = TypedDict("Degraded", {
    "from": "int",
    "reason": "Literal[\"overload\", \"maximum\", \"deadline\"]",
})


class DiversityDone(TypedDict):
    """What diversity did."""

    #: How many places it decided, before the budget or the candidates ended.
    places: int
    #: Inner products of items with one another, a part of `spent`.
    products: int


class ErrorAnswer(TypedDict):
    """The shape of every error."""

    error: Problem


class FoundItems(TypedDict):
    """Items found by their titles."""

    #: Version of the model whose items these are.
    model: str
    #: The popular ones first; an item whose id was asked for comes first.
    items: list[NamedItem]
    #: There are no others: neither was the limit reached, nor the bound of work.
    complete: bool


class Health(TypedDict):
    """Alive, or ready."""

    status: Literal["live", "ready"]


class Item(TypedDict):
    """One recommended item."""

    item_id: str
    #: Present for items that have one.
    title: NotRequired[str | None]
    #: Present when fields were asked for: their values, null where one is missing.
    fields: NotRequired[dict[str, str | float | bool | list[str] | None] | None]
    #: Inner product with the query, times the factors of boosts; null for what was not scored: popular items, and
    #: pinned ones that the search did not find.
    score: float | None


class ItemMet(TypedDict):
    """An item that somebody met, and how much that counts."""

    item_id: str | int
    #: How much it counts, as in the training.
    weight: NotRequired[float]


class ModelDescription(TypedDict):
    """What is being served."""

    version: str
    n_items: int
    n_users: int
    n_dims: int
    directions: str
    max_budget: int
    has_seen: bool
    #: How `items` become a vector.
    makes_vectors_by: Literal["fold_in", "mean"]
    #: What /similar compares by unless asked.
    similar_by: Literal["cosine", "inner_product"]
    calibrated: bool
    built_at: str
    loaded_at: str
    load_seconds: float
    metadata: dict[str, Any]
    #: What items can be filtered by, and what can be shown.
    attributes: list[AttributeDescription]


class NamedItem(TypedDict):
    """An item of the catalogue."""

    item_id: str
    #: Null for an item that has none.
    title: str | None


class PinDescription(TypedDict):
    """A pin of a scenario."""

    place: int
    item_id: str


class PinLeftOut(TypedDict):
    """A pinned item that is not on any page."""

    item_id: str
    #: The model does not know it; the filter does not let it through; it is excluded, seen or one of the items asked
    #: with; another rule leaves it out.
    because: Literal["unknown", "filter", "excluded", "at_most"]


class PinRule(TypedDict):
    """An item at a place."""

    #: From 1, counted from the first place of the first page.
    place: int
    item_id: str | int


class PinsDone(TypedDict):
    """What pins did."""

    #: Pinned items on the page.
    placed: int
    left_out: list[PinLeftOut]


class Problem(TypedDict):
    """What went wrong."""

    #: For programs; never changes.
    code: str
    #: What is wrong and what was expected.
    message: str
    #: What to do.
    hint: str


class RecommendRequest(TypedDict):
    """One of `user_id` and `vector`, or `items`, or both; and what the answer may cost."""

    #: A user of the model.
    user_id: NotRequired[str | int | None]
    #: A query vector in place of a user.
    vector: NotRequired[list[float] | None]
    #: Items that somebody met, as ids or with weights: the vector is made of them where there is none, and moved by
    #: them where there is one. They are not recommended back.
    items: NotRequired[list[ItemMet | str | int] | None]
    #: The most inner products to spend.
    budget: NotRequired[int | None]
    #: How many items to return.
    top_k: NotRequired[int | None]
    #: Milliseconds the answer may take.
    deadline_ms: NotRequired[float | None]
    #: The recall@10 against exact search to buy.
    target_recall: NotRequired[float | None]
    #: Item ids that must not appear.
    exclude: NotRequired[list[str | int]]
    #: Leave out what the user has seen; true when the model knows it.
    exclude_seen: NotRequired[bool | None]
    #: Conditions on attributes: only items for which they are true come back.
    filter: NotRequired[str | None]
    #: Names of attributes to be shown with each item.
    fields: NotRequired[list[str]]
    #: The name of a scenario, as GET /scenarios lists them: what the request itself says counts more.
    scenario: NotRequired[str | None]
    #: At most so many items of each value of an attribute. Items without a value are not counted, and one with a
    #: list counts for each of its texts.
    at_most: NotRequired[dict[str, int] | None]
    #: How much an item's likeness to those above it counts against its score: 0 not at all, 1 alone.
    diversity: NotRequired[float | None]
    #: Factors on scores, by filters.
    boost: NotRequired[list[BoostRule] | None]
    #: Items at places; what cannot be kept is said.
    pin: NotRequired[list[PinRule] | None]
    #: What stands in where there is nothing to search with: popular, error, or popular: and a filter, such as
    #: popular: in_stock.
    fallback: NotRequired[str | None]
    #: How many places come before the page. Pages put together are one long answer; under a filter, give 0 for the
    #: first one, too.
    offset: NotRequired[int | None]
    #: The name of the model that is to answer, where the service has several; when left out, the first, or the one
    #: that the experiment says of the user.
    model: NotRequired[str | None]


class Recommendation(TypedDict):
    """The answer to a recommendation."""

    items: list[Item]
    #: Inner products granted; 0 if there was no time for any.
    budget: int
    #: Inner products spent; never more than granted.
    spent: int
    #: Every eligible item was scored: the answer is exact.
    complete: bool
    #: Set when less was granted than asked.
    degraded: Degraded | None
    #: Set when the popular items stand in for a search.
    fallback: Literal["unknown_user", "no_vector", "deadline"] | None
    #: Present when a scenario was named: its name.
    scenario: NotRequired[str | None]
    #: Present when one was given: how many places come before the page.
    offset: NotRequired[int | None]
    #: Present where there are rules: what each of them did.
    rules: NotRequired[RulesDone | None]
    #: Present under a filter: how many items it lets through, less those that are excluded.
    eligible: NotRequired[int | None]
    #: Present when fewer than top_k items came back: the budget buys no more (one product finds at most one item),
    #: there are no more, or the rules allow no more.
    short: NotRequired[Literal["budget", "catalogue", "rules"] | None]
    #: Present where a cluster searched: a shard that was late or gone makes the answer smaller, and `complete`
    #: false.
    shards: NotRequired[ShardsDone | None]
    #: Version of the model that answered.
    model: str
    #: Present where the service has several models: the name of the one that answered.
    arm: NotRequired[str | None]
    #: Present when an experiment decided which model answers: its name. Compare these answers only.
    experiment: NotRequired[str | None]
    #: Microseconds of the search itself.
    search_us: int
    #: As asked; null when none was given.
    user_id: str | None
    #: Present when items were given: how the vector came about. fold_in: from the items, as the training would have;
    #: mean: the weighted mean of the items' vectors; moved: the user's (or the given) vector, moved by the items;
    #: stored, given: that vector as it was, none of the items being known. Null where there was none.
    vector: NotRequired[Literal["fold_in", "mean", "moved", "stored", "given"] | None]
    #: Present when items were given: how many of them the model does not know.
    unknown_items: NotRequired[int | None]


class ReloadRequest(TypedDict):
    """Which version, and whether the gate may be passed by."""

    #: A version of the models folder; the current one if left out.
    version: NotRequired[str | None]
    #: Serve it even if its calibrated recall against exact search, or its NDCG, is lower.
    force: NotRequired[bool]
    #: The name of the model to change; needed where the service has several.
    model: NotRequired[str | None]


class RollbackRequest(TypedDict):
    """Which model, where there are several."""

    #: The name of the model to change; needed where the service has several.
    model: NotRequired[str | None]


class RulesDone(TypedDict):
    """What each rule did; those that there are."""

    boost: NotRequired[BoostDone | None]
    at_most: NotRequired[CapsDone | None]
    diversity: NotRequired[DiversityDone | None]
    pin: NotRequired[PinsDone | None]


class ScenarioDescription(TypedDict):
    """A scenario; what it does not say is left out."""

    #: As scenario= takes it.
    name: str
    description: str
    #: For requests that name neither budget nor target_recall.
    budget: NotRequired[int | None]
    #: The same.
    target_recall: NotRequired[float | None]
    #: For requests that name none.
    filter: NotRequired[str | None]
    at_most: NotRequired[dict[str, int] | None]
    diversity: NotRequired[float | None]
    boost: NotRequired[list[BoostRule] | None]
    pin: NotRequired[list[PinDescription] | None]
    fallback: NotRequired[str | None]


class Scenarios(TypedDict):
    """All scenarios of the service, in the order of the file."""

    scenarios: list[ScenarioDescription]


class ServedModel(TypedDict):
    """A model of the service."""

    #: As model= takes it; `default` for a single model that has no other.
    name: str
    #: The version that answers; null while none is loaded.
    version: str | None
    #: It answers where nothing says another one.
    is_default: bool
    #: Its share of the users in the experiment; null without one.
    share: float | None
    #: Why it is not ready; null when it is.
    waits_for: str | None


class ServedModels(TypedDict):
    """All models of the service, and the experiment that deals users out to them."""

    experiment: str | None
    models: list[ServedModel]


class ShardsDone(TypedDict):
    """How many shards were asked, and how many answered in time."""

    #: Shards that had a share of the budget.
    asked: int
    #: The answer is made of what these found.
    answered: int


class SimilarItems(TypedDict):
    """The answer to a question for similar items."""

    items: list[Item]
    #: Inner products granted; 0 if there was no time for any.
    budget: int
    #: Inner products spent; never more than granted.
    spent: int
    #: Every eligible item was scored: the answer is exact.
    complete: bool
    #: Set when less was granted than asked.
    degraded: Degraded | None
    #: Set when the popular items stand in for a search.
    fallback: Literal["unknown_user", "no_vector", "deadline"] | None
    #: Present when a scenario was named: its name.
    scenario: NotRequired[str | None]
    #: Present when one was given: how many places come before the page.
    offset: NotRequired[int | None]
    #: Present where there are rules: what each of them did.
    rules: NotRequired[RulesDone | None]
    #: Present under a filter: how many items it lets through, less those that are excluded.
    eligible: NotRequired[int | None]
    #: Present when fewer than top_k items came back: the budget buys no more (one product finds at most one item),
    #: there are no more, or the rules allow no more.
    short: NotRequired[Literal["budget", "catalogue", "rules"] | None]
    #: Present where a cluster searched: a shard that was late or gone makes the answer smaller, and `complete`
    #: false.
    shards: NotRequired[ShardsDone | None]
    #: Version of the model that answered.
    model: str
    #: Present where the service has several models: the name of the one that answered.
    arm: NotRequired[str | None]
    #: Present when an experiment decided which model answers: its name. Compare these answers only.
    experiment: NotRequired[str | None]
    #: Microseconds of the search itself.
    search_us: int
    #: As asked, and not among the items; null where several were given.
    item_id: str | None
    #: What they are compared by: `score` is that. Inner product if asked for, or where the model has no index of
    #: similar items.
    by: Literal["cosine", "inner_product"]
    #: Present when several items were given: how many of them the model does not know.
    unknown_items: NotRequired[int | None]


class SomeUsers(TypedDict):
    """A few users of the model."""

    #: Version of the model whose users these are.
    model: str
    n_users: int
    #: Ids of users that have a vector, from all over the table.
    users: list[str]


class SwapOutcome(TypedDict):
    """What became of a reload or a rollback."""

    outcome: Literal["swapped", "rolled_back"]
    #: The name of the model, where it has one.
    model: NotRequired[str | None]
    version: str
    previous: str | None
    workers: Workers


class Version(TypedDict):
    """A version of a model, as it lies in its folder."""

    version: str
    #: It is what the folder's pointer says.
    is_current: bool
    #: A rollback would return to it.
    is_previous: bool
    built_at: str | None
    n_items: int | None
    #: Calibrated recall against exact search, for known users, at one budget: that of the settings, or 256 where
    #: they name a recall.
    recall_at_10: float | None
    #: On real behaviour, of an exact search, where training measured it.
    ndcg_at_10: float | None


class Versions(TypedDict):
    """The versions of a model."""

    #: The version that answers; null while none is loaded.
    served: str | None
    #: How many there are; the newest are described.
    n_versions: int
    #: The newest first.
    versions: list[Version]


class Workers(TypedDict):
    """How far a change came."""

    total: int
    serving: int


class RecommendQuery(TypedDict):
    """The parameters of GET /recommend."""

    #: The id of a user, a non-empty text.
    user_id: NotRequired[str]
    #: 1 to 1000 ids of items that somebody met, separated by commas: the vector is made of them, or the user's moved
    #: by them.
    items: NotRequired[list[str]]
    #: The most inner products the search may spend, a whole number from 1 (left out: what a recall@10 of 0.95
    #: needs).
    budget: NotRequired[int]
    #: How many items to return, a whole number from 1 to 1000.
    top_k: NotRequired[int]
    #: Milliseconds the answer may take, a number above 0 and up to 600000.
    deadline_ms: NotRequired[float]
    #: The recall@10 against exact search to buy, a number above 0 and up to 1.
    target_recall: NotRequired[float]
    #: Up to 100000 item ids separated by commas (a comma in an id is written %2C).
    exclude: NotRequired[list[str]]
    #: True or false: leave out what the user has seen (true when the model knows it).
    exclude_seen: NotRequired[bool]
    #: Conditions on attributes, a text of up to 16384 characters: only items for which they are true come back.
    filter: NotRequired[str]
    #: Names of up to 100 attributes separated by commas, to be shown with each item.
    fields: NotRequired[list[str]]
    #: The name of a scenario, as GET /scenarios lists them: what the request itself says counts more.
    scenario: NotRequired[str]
    #: Up to 8 names of attributes, each with how many items of a value may come back, from 1, separated by commas:
    #: author:2,category:3.
    at_most: NotRequired[list[str]]
    #: How much likeness to the items above counts against the score, a number from 0 (by score alone) to 1 (as
    #: different as can be).
    diversity: NotRequired[float]
    #: A filter with a factor on the score, 1.5: in_stock; to be repeated for up to 8 filters, each with a factor
    #: from 0.01 to 100.
    boost: NotRequired[list[str]]
    #: Up to 32 ids of items, each with a place of its own from 1 to 10000, separated by commas:
    #: 1:jazz-0007,3:chess-0003 (a comma in an id is written %2C).
    pin: NotRequired[list[str]]
    #: What stands in where there is nothing to search with: popular, error, or popular: and a filter, such as
    #: popular: in_stock.
    fallback: NotRequired[str]
    #: How many places come before the page, a whole number from 0 to 1000.
    offset: NotRequired[int]
    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class SimilarQuery(TypedDict):
    """The parameters of GET /similar."""

    #: The id of an item, a non-empty text.
    item_id: NotRequired[str]
    #: 1 to 1000 ids of items separated by commas, in place of item_id.
    items: NotRequired[list[str]]
    #: Cosine or inner_product (cosine when the model can: by inner product long vectors win everywhere).
    by: NotRequired[Literal["cosine", "inner_product"]]
    #: The most inner products the search may spend, a whole number from 1 (left out: what a recall@10 of 0.95
    #: needs).
    budget: NotRequired[int]
    #: How many items to return, a whole number from 1 to 1000.
    top_k: NotRequired[int]
    #: Milliseconds the answer may take, a number above 0 and up to 600000.
    deadline_ms: NotRequired[float]
    #: The recall@10 against exact search to buy, a number above 0 and up to 1.
    target_recall: NotRequired[float]
    #: Up to 100000 item ids separated by commas (a comma in an id is written %2C).
    exclude: NotRequired[list[str]]
    #: Conditions on attributes, a text of up to 16384 characters: only items for which they are true come back.
    filter: NotRequired[str]
    #: Names of up to 100 attributes separated by commas, to be shown with each item.
    fields: NotRequired[list[str]]
    #: The name of a scenario, as GET /scenarios lists them: what the request itself says counts more.
    scenario: NotRequired[str]
    #: Up to 8 names of attributes, each with how many items of a value may come back, from 1, separated by commas:
    #: author:2,category:3.
    at_most: NotRequired[list[str]]
    #: How much likeness to the items above counts against the score, a number from 0 (by score alone) to 1 (as
    #: different as can be).
    diversity: NotRequired[float]
    #: A filter with a factor on the score, 1.5: in_stock; to be repeated for up to 8 filters, each with a factor
    #: from 0.01 to 100.
    boost: NotRequired[list[str]]
    #: Up to 32 ids of items, each with a place of its own from 1 to 10000, separated by commas:
    #: 1:jazz-0007,3:chess-0003 (a comma in an id is written %2C).
    pin: NotRequired[list[str]]
    #: How many places come before the page, a whole number from 0 to 1000.
    offset: NotRequired[int]
    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class ModelQuery(TypedDict):
    """The parameters of GET /model."""

    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class BudgetsQuery(TypedDict):
    """The parameters of GET /budgets."""

    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


MetricsQuery = TypedDict("MetricsQuery", {
    "name[]": "NotRequired[list[Literal[\"budgetrec_request_seconds\", \"budgetrec_search_seconds\", \"budgetrec_spent_products\", \"budgetrec_products_spent_total\", \"budgetrec_products_asked_total\", \"budgetrec_products_granted_total\", \"budgetrec_requests_total\", \"budgetrec_degraded_total\", \"budgetrec_shed_total\", \"budgetrec_failed_total\", \"budgetrec_fallbacks_total\", \"budgetrec_unknown_users_total\", \"budgetrec_filtered_total\", \"budgetrec_filter_cache_hits_total\", \"budgetrec_filter_cache_misses_total\", \"budgetrec_filter_cache_bytes\", \"budgetrec_rules_changed_total\", \"budgetrec_queued_products\", \"budgetrec_in_flight\", \"budgetrec_connections\", \"budgetrec_connections_closed_total\", \"budgetrec_pressure\", \"budgetrec_cost_law_a_seconds\", \"budgetrec_cost_law_b_seconds\", \"budgetrec_recall_hits_total\", \"budgetrec_recall_expected_total\", \"budgetrec_recall_checks_total\", \"budgetrec_recall_skipped_total\", \"budgetrec_model_built_timestamp_seconds\", \"budgetrec_model_loaded_timestamp_seconds\", \"budgetrec_model_load_seconds\", \"budgetrec_model_swaps_total\", \"budgetrec_model_generation\", \"budgetrec_ready\", \"budgetrec_workers\", \"budgetrec_key_limited_total\"]]]",
})


class ItemsQuery(TypedDict):
    """The parameters of GET /items."""

    #: Words of a title, or an id, a text of up to 200 characters; popular items without it.
    title: NotRequired[str]
    #: How many to return, a whole number from 1 to 100.
    limit: NotRequired[int]
    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class UsersQuery(TypedDict):
    """The parameters of GET /users."""

    #: How many to return, a whole number from 1 to 100.
    limit: NotRequired[int]
    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class AttributesQuery(TypedDict):
    """The parameters of GET /attributes."""

    #: The name of an attribute, a text of up to 100 characters; all of them without it.
    name: NotRequired[str]
    #: How the values of texts begin, a text of up to 200 characters.
    starts: NotRequired[str]
    #: How many to return, a whole number from 1 to 100.
    limit: NotRequired[int]
    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]


class VersionsQuery(TypedDict):
    """The parameters of GET /versions."""

    #: The name of the model that is to answer, one of: default (the first when left out, or what an experiment says
    #: of the user).
    model: NotRequired[str]
