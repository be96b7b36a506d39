"""Every metric of the service: its name, its help, and all values that its labels can have.

Label values are known in advance, so that no label can ever come from a caller and the rows have a fixed length.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

from service.errors import CODES

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max", "min", "mean"]

# The smallest power of four that holds the granted budget.
BUDGET_CLASSES = ("1", "4", "16", "64", "256", "1024", "4096", "16384", "65536", "more")
# The calls by their names in metrics and logs; service.http.calls says which path is which.
CALL_NAMES = (
    "recommend", "recommend_post", "batch", "similar", "budgets", "model", "models", "scenarios", "versions", "items",
    "users", "attributes", "live", "ready", "metrics", "reload", "rollback", "docs", "other",
)  # fmt: skip
STATUSES = (
    "200", "204", "304", "400", "401", "403", "404", "405", "408", "409", "413", "415", "422", "429", "431", "500",
    "503", "other",
)  # fmt: skip
PRIORITIES = ("interactive", "batch")
DEGRADED_REASONS = ("overload", "maximum", "deadline")
FALLBACKS = ("unknown_user", "no_vector", "deadline")
SHED_REASONS = ("overload", "key_limit", "not_ready", "connections")
SWAP_OUTCOMES = ("swapped", "refused", "rolled_back", "not_followed")
# The largest share of all items that a filter of the class lets through.
SELECTIVITY_CLASSES = ("0", "0.001", "0.01", "0.03", "0.1", "0.3", "1")
# Why a model answers, where there are several.
CHOSEN_BY = ("experiment", "name", "default")
# What a shop says about a page.
RULES = ("at_most", "diversity", "boost", "pin")
# In place of the name of a scenario that came with a reload: names are given room at the start. No name looks so.
NEW_SCENARIO = "(new)"
CLOSED_REASONS = ("idle", "slow_request", "slow_reader", "connections", "lingering")

SECONDS = (
    10e-6, 15e-6, 25e-6, 40e-6, 60e-6, 100e-6, 150e-6, 250e-6, 400e-6, 600e-6,
    1e-3, 1.5e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0,
)  # fmt: skip
PRODUCTS = tuple(float(4**power) for power in range(11))

_BY_CLASS = (("budget_class", BUDGET_CLASSES),)
_MORE = len(BUDGET_CLASSES) - 1


class Family(NamedTuple):
    """A metric with all its label values. `merge` says how the rows of several workers become one number."""

    name: str
    kind: Kind
    help: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounds: tuple[float, ...] = ()
    merge: Merge = "sum"

    @property
    def width(self) -> int:
        """Cells per label combination: a histogram has its buckets, +Inf and the sum."""
        return len(self.bounds) + 2 if self.kind == "histogram" else 1

    def combinations(self) -> list[tuple[str, ...]]:
        """All label values, in the order of their cells."""
        return list(product(*(values for _, values in self.labels)))


class Layout:
    """Where each family's cells lie in a row."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = tuple(families)
        self._position: dict[str, dict[tuple[str, ...], int]] = {}
        size = 0
        for family in self.families:
            combinations = family.combinations()
            self._position[family.name] = {labels: size + i * family.width for i, labels in enumerate(combinations)}
            size += family.width * len(combinations)
        self.n_cells = size

    def at(self, name: str, *labels: str) -> int:
        """First cell of one label combination; a KeyError if it was not declared."""
        return self._position[name][labels]

    def gauges(self) -> list[int]:
        """Cells of all gauges: what must not outlive the process that set them."""
        return [
            cell for family in self.families if family.kind == "gauge" for cell in self._position[family.name].values()
        ]


LAYOUT = Layout(
    (
        Family("budgetrec_request_seconds", "histogram", "Whole request, waiting included.", _BY_CLASS, SECONDS),
        Family("budgetrec_search_seconds", "histogram", "The search alone.", _BY_CLASS, SECONDS),
        Family("budgetrec_spent_products", "histogram", "Inner products spent by a request.", (), PRODUCTS),
        Family("budgetrec_products_spent_total", "counter", "Inner products spent."),
        Family("budgetrec_products_asked_total", "counter", "Inner products asked for."),
        Family("budgetrec_products_granted_total", "counter", "Inner products granted."),
        Family(
            "budgetrec_requests_total", "counter", "Requests answered.", (("route", CALL_NAMES), ("status", STATUSES))
        ),
        Family("budgetrec_degraded_total", "counter", "Budgets lowered.", (("reason", DEGRADED_REASONS),)),
        Family(
            "budgetrec_shed_total",
            "counter",
            "Requests refused to protect the rest.",
            (("reason", SHED_REASONS), ("priority", PRIORITIES)),
        ),
        Family("budgetrec_failed_total", "counter", "Requests answered with an error.", (("reason", CODES),)),
        Family("budgetrec_fallbacks_total", "counter", "Answers with popular items.", (("reason", FALLBACKS),)),
        Family("budgetrec_unknown_users_total", "counter", "Requests for users the model does not know."),
        Family(
            "budgetrec_filtered_total",
            "counter",
            "Questions under a filter, by the share of items that it lets through.",
            (("selectivity", SELECTIVITY_CLASSES),),
        ),
        Family("budgetrec_filter_cache_hits_total", "counter", "Questions whose filter was applied already."),
        Family("budgetrec_filter_cache_misses_total", "counter", "Questions whose filter had to be applied first."),
        Family("budgetrec_filter_cache_bytes", "gauge", "Memory of the filters that are kept applied."),
        Family(
            "budgetrec_rules_changed_total",
            "counter",
            "Pages that a rule of the request or of its scenario changed.",
            (("rule", RULES),),
        ),
        Family("budgetrec_queued_products", "gauge", "Inner products admitted and not yet done."),
        Family("budgetrec_in_flight", "gauge", "Requests being handled."),
        Family("budgetrec_connections", "gauge", "Connections open."),
        Family(
            "budgetrec_connections_closed_total",
            "counter",
            "Connections that the service closed by itself.",
            (("reason", CLOSED_REASONS),),
        ),
        Family("budgetrec_pressure", "gauge", "Expected waiting over the allowed waiting.", merge="max"),
        Family("budgetrec_cost_law_a_seconds", "gauge", "Latency = a + b * products: a.", merge="mean"),
        Family("budgetrec_cost_law_b_seconds", "gauge", "Latency = a + b * products: b.", merge="mean"),
        Family(
            "budgetrec_recall_hits_total",
            "counter",
            "Recall against exact search: true top items that were returned.",
            _BY_CLASS,
        ),
        Family(
            "budgetrec_recall_expected_total",
            "counter",
            "Recall against exact search: true top items looked for.",
            _BY_CLASS,
        ),
        Family("budgetrec_recall_checks_total", "counter", "Requests re-run exactly, for recall against exact search."),
        Family("budgetrec_recall_skipped_total", "counter", "Sampled requests the CPU cap left no room for."),
        Family("budgetrec_model_built_timestamp_seconds", "gauge", "When the model was built.", merge="max"),
        Family("budgetrec_model_loaded_timestamp_seconds", "gauge", "When the model was loaded.", merge="max"),
        Family("budgetrec_model_load_seconds", "gauge", "Load, verify and warm-up of the model.", merge="max"),
        Family("budgetrec_model_swaps_total", "counter", "Model changes.", (("outcome", SWAP_OUTCOMES),)),
        Family("budgetrec_model_generation", "gauge", "Decisions about the model followed so far.", merge="min"),
        Family("budgetrec_ready", "gauge", "1 when every worker is ready.", merge="min"),
        Family("budgetrec_workers", "gauge", "Workers alive."),
        Family("budgetrec_key_limited_total", "counter", "Requests refused because a key had used up its rate."),
    )
)


def arm_families(arms: tuple[str, ...]) -> tuple[Family, ...]:
    """Return the metrics of a service with several models: what each of them, by its name in the settings, does."""
    by_arm = (("arm", arms),)
    return (
        Family("budgetrec_arm_request_seconds", "histogram", "Whole request, by model.", by_arm, SECONDS),
        Family(
            "budgetrec_arm_answers_total",
            "counter",
            "Answers by model, and why it was the one: an experiment, its name in the request, or as the default.",
            (*by_arm, ("chosen_by", CHOSEN_BY)),
        ),
        Family("budgetrec_arm_products_spent_total", "counter", "Inner products spent, by model.", by_arm),
        Family("budgetrec_arm_fallbacks_total", "counter", "Answers with popular items, by model.", by_arm),
        Family(
            "budgetrec_arm_recall_hits_total",
            "counter",
            "Recall against exact search, by model: true top items that were returned.",
            by_arm,
        ),
        Family(
            "budgetrec_arm_recall_expected_total",
            "counter",
            "Recall against exact search, by model: true top items looked for.",
            by_arm,
        ),
        Family("budgetrec_arm_swaps_total", "counter", "Changes by model.", (*by_arm, ("outcome", SWAP_OUTCOMES))),
        Family("budgetrec_arm_generation", "gauge", "Decisions followed so far, by model.", by_arm, merge="min"),
        Family("budgetrec_arm_ready", "gauge", "1 when every worker serves this model.", by_arm, merge="min"),
        Family("budgetrec_arm_built_timestamp_seconds", "gauge", "When each model was built.", by_arm, merge="max"),
        Family("budgetrec_arm_cost_law_b_seconds", "gauge", "Seconds for a product, by model.", by_arm, merge="mean"),
    )


def scenario_families(scenarios: tuple[str, ...]) -> tuple[Family, ...]:
    """Return the metrics of a service with scenarios, by their names in the settings."""
    names = (*scenarios, NEW_SCENARIO)
    return (Family("budgetrec_scenario_answers_total", "counter", "Answers by scenario.", (("scenario", names),)),)


@cache
def layout_of(models: tuple[str, ...], scenarios: tuple[str, ...] = ()) -> Layout:
    """Return the layout of a service with these models and scenarios. What all have lies at the same place in all."""
    more = arm_families(models) if len(models) > 1 else ()
    more += scenario_families(scenarios) if scenarios else ()
    return Layout((*LAYOUT.families, *more)) if more else LAYOUT


def selectivity_class(share: float) -> str:
    """Return the class of a filter that lets this share of all items through."""
    return next(name for name in SELECTIVITY_CLASSES if share <= float(name))


def budget_class(budget: int) -> int:
    """Return the position in BUDGET_CLASSES: the smallest power of four that is at least `budget`."""
    position = ((budget - 1).bit_length() + 1) >> 1
    return position if position < _MORE else _MORE  # noqa: FURB136 - hot, and min() is a call
