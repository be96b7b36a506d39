"""What the service counts, and how Prometheus reads it.

Every family and every label value is declared here; `Metrics` writes into the shared cells of its worker, and
`exposition` adds up the rows of all workers, so that one scrape of any worker shows all of them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from service.cells import Cells, Family, Layout
from service.errors import CODES

if TYPE_CHECKING:
    from pathlib import Path

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

# The smallest power of four that holds the granted budget.
BUDGET_CLASSES = ("1", "4", "16", "64", "256", "1024", "4096", "16384", "65536", "more")
ROUTES = (
    "recommend", "recommend_post", "batch", "similar", "budgets", "model", "live", "ready", "metrics", "reload",
    "rollback", "docs", "other",
)  # fmt: skip
STATUSES = (
    "200",
    "204",
    "400",
    "401",
    "403",
    "404",
    "405",
    "409",
    "413",
    "415",
    "422",
    "429",
    "431",
    "500",
    "503",
    "other",
)
PRIORITIES = ("interactive", "batch")
DEGRADED_REASONS = ("overload", "maximum", "deadline")
SHED_REASONS = ("overload", "deadline_passed", "key_limit", "not_ready")
SWAP_OUTCOMES = ("swapped", "refused", "rolled_back")

SECONDS = (
    10e-6, 15e-6, 25e-6, 40e-6, 60e-6, 100e-6, 150e-6, 250e-6, 400e-6, 600e-6,
    1e-3, 1.5e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1.0,
)  # fmt: skip
PRODUCTS = tuple(float(4**power) for power in range(11))

_SECONDS_SUM = len(SECONDS) + 1
_PRODUCTS_SUM = len(PRODUCTS) + 1
_MORE = len(BUDGET_CLASSES) - 1
_BY_CLASS = (("budget_class", BUDGET_CLASSES),)

LAYOUT = Layout(
    (
        Family("budgetrec_request_seconds", "histogram", "Whole request, waiting included.", _BY_CLASS, SECONDS),
        Family("budgetrec_search_seconds", "histogram", "The search alone.", _BY_CLASS, SECONDS),
        Family("budgetrec_spent_products", "histogram", "Inner products spent by a request.", (), PRODUCTS),
        Family("budgetrec_products_spent_total", "counter", "Inner products spent."),
        Family("budgetrec_products_asked_total", "counter", "Inner products asked for."),
        Family("budgetrec_products_granted_total", "counter", "Inner products granted."),
        Family("budgetrec_requests_total", "counter", "Requests answered.", (("route", ROUTES), ("status", STATUSES))),
        Family("budgetrec_degraded_total", "counter", "Budgets lowered.", (("reason", DEGRADED_REASONS),)),
        Family(
            "budgetrec_shed_total",
            "counter",
            "Requests refused to protect the rest.",
            (("reason", SHED_REASONS), ("priority", PRIORITIES)),
        ),
        Family("budgetrec_failed_total", "counter", "Requests answered with an error.", (("reason", CODES),)),
        Family("budgetrec_unknown_users_total", "counter", "Requests for users the model does not know."),
        Family("budgetrec_queued_products", "gauge", "Inner products admitted and not yet done."),
        Family("budgetrec_in_flight", "gauge", "Requests being handled."),
        Family("budgetrec_pressure", "gauge", "Expected waiting over the allowed waiting.", merge="max"),
        Family("budgetrec_cost_law_a_seconds", "gauge", "Latency = a + b * products: a.", merge="mean"),
        Family("budgetrec_cost_law_b_seconds", "gauge", "Latency = a + b * products: b.", merge="mean"),
        Family("budgetrec_recall_hits_total", "counter", "True top items that were returned.", _BY_CLASS),
        Family("budgetrec_recall_expected_total", "counter", "True top items looked for.", _BY_CLASS),
        Family("budgetrec_recall_checks_total", "counter", "Requests re-run exactly."),
        Family("budgetrec_recall_skipped_total", "counter", "Sampled requests the CPU cap left no room for."),
        Family("budgetrec_model_built_timestamp_seconds", "gauge", "When the model was built.", merge="max"),
        Family("budgetrec_model_loaded_timestamp_seconds", "gauge", "When the model was loaded.", merge="max"),
        Family("budgetrec_model_load_seconds", "gauge", "Load, verify and warm-up of the model.", merge="max"),
        Family("budgetrec_model_swaps_total", "counter", "Model changes.", (("outcome", SWAP_OUTCOMES),)),
        Family("budgetrec_ready", "gauge", "1 when every worker is ready.", merge="min"),
        Family("budgetrec_workers", "gauge", "Workers alive."),
        Family("budgetrec_key_limited_total", "counter", "Requests refused because a key had used up its rate."),
    )
)

_INFO_NAME = "budgetrec_model_info"


def budget_class(budget: int) -> int:
    """Return the position in BUDGET_CLASSES: the smallest power of four that is at least `budget`."""
    position = ((budget - 1).bit_length() + 1) >> 1
    return position if position < _MORE else _MORE  # noqa: FURB136 - hot, and min() is a call


class Metrics:
    """The writing side of one worker, with the cells of everything hot resolved once."""

    def __init__(self, *, slots: int = 1, slot: int = 0, path: Path | None = None) -> None:
        self.cells = Cells(LAYOUT, slots=slots, slot=slot, path=path)
        self.row = self.cells.mine
        at = LAYOUT.at
        self.request_seconds = tuple(at("budgetrec_request_seconds", name) for name in BUDGET_CLASSES)
        self.search_seconds = tuple(at("budgetrec_search_seconds", name) for name in BUDGET_CLASSES)
        self.spent_products = at("budgetrec_spent_products")
        self.products_asked = at("budgetrec_products_asked_total")
        self.products_granted = at("budgetrec_products_granted_total")
        self.recommend_ok = at("budgetrec_requests_total", "recommend", "200")
        self.queued_products = at("budgetrec_queued_products")
        self.in_flight = at("budgetrec_in_flight")
        self.recall_hits = tuple(at("budgetrec_recall_hits_total", name) for name in BUDGET_CLASSES)
        self.recall_expected = tuple(at("budgetrec_recall_expected_total", name) for name in BUDGET_CLASSES)
        for cell in LAYOUT.gauges():
            self.row[cell] = 0.0
        self.cells.set_text("")

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to a counter by name; for everything that is not hot."""
        self.row[LAYOUT.at(name, *labels)] += by

    def set(self, name: str, value: float) -> None:
        """Set a gauge without labels."""
        self.row[LAYOUT.at(name)] = value

    def request(self, route: str, status: int) -> None:
        """Count an answered request; an unusual status counts as `other`."""
        text = str(status)
        self.row[LAYOUT.at("budgetrec_requests_total", route, text if text in STATUSES else "other")] += 1.0

    def search(self, granted: int, asked: int, spent: int, search: float, whole: float) -> None:
        """Record one finished search: both latencies in seconds, and asked, granted and spent products."""
        row = self.row
        position = budget_class(granted)
        first = self.request_seconds[position]
        row[first + bisect_left(SECONDS, whole)] += 1.0
        row[first + _SECONDS_SUM] += whole
        first = self.search_seconds[position]
        row[first + bisect_left(SECONDS, search)] += 1.0
        row[first + _SECONDS_SUM] += search
        first = self.spent_products
        row[first + bisect_left(PRODUCTS, spent)] += 1.0
        row[first + _PRODUCTS_SUM] += spent
        row[self.products_asked] += asked
        row[self.products_granted] += granted

    def model(self, version: str, *, built: float, loaded: float, seconds: float) -> None:
        """Say which model this worker serves."""
        self.cells.set_text(version)
        self.set("budgetrec_model_built_timestamp_seconds", built)
        self.set("budgetrec_model_loaded_timestamp_seconds", loaded)
        self.set("budgetrec_model_load_seconds", seconds)

    def exposition(self) -> bytes:
        """Return the numbers of all workers in Prometheus' text format; well under a millisecond per worker."""
        rows = self.cells.rows()
        live = rows[:, LAYOUT.at("budgetrec_workers")] > 0
        merged = {
            "sum": rows.sum(axis=0),
            "max": rows.max(axis=0),
            "min": rows[live].min(axis=0) if live.any() else np.zeros(LAYOUT.n_cells),
            "mean": rows[live].mean(axis=0) if live.any() else np.zeros(LAYOUT.n_cells),
        }
        values = {name: array.tolist() for name, array in merged.items()}
        lines: list[str] = []
        for head, merge, templates in _TEMPLATES:
            lines.append(head)
            column = values[merge]
            total = 0.0
            for prefix, cell, running in templates:
                # Buckets and the count that follows them are running totals; everything else is a cell.
                total = total + column[cell] if running == _NEXT else column[cell] if running == _FIRST else total
                lines.append(prefix + _text(column[cell] if running == _ALONE else total))
        lines.append(f"# HELP {_INFO_NAME} The model being served.\n# TYPE {_INFO_NAME} gauge")
        lines.extend(
            f'{_INFO_NAME}{{version="{_escape(version)}"}} 1'
            for version in sorted({text for text in self.cells.texts() if text})
        )
        lines.append("")
        return "\n".join(lines).encode()


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


# How a line's number comes about: its cell, the begin of a running total, the next of it, or the total as it stands.
_ALONE, _FIRST, _NEXT, _TOTAL = range(4)


def _templates() -> list[tuple[str, str, list[tuple[str, int, int]]]]:
    """Lay out the text once: per family its head, how rows merge, and per line its prefix, cell and kind."""
    families: list[tuple[str, str, list[tuple[str, int, int]]]] = []
    for family in LAYOUT.families:
        head = f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}"
        lines: list[tuple[str, int, int]] = []
        names = [label for label, _ in family.labels]
        for values in family.combinations():
            first = LAYOUT.at(family.name, *values)
            pairs = [f'{name}="{value}"' for name, value in zip(names, values, strict=True)]
            labels = "{" + ",".join(pairs) + "}" if pairs else ""
            if family.name == "budgetrec_products_spent_total":
                # The sum of the histogram, under the name that rates are taken of.
                first = LAYOUT.at("budgetrec_spent_products") + _PRODUCTS_SUM
            if family.kind != "histogram":
                lines.append((f"{family.name}{labels} ", first, _ALONE))
                continue
            bounds = [*map(repr, family.bounds), "+Inf"]
            for place, bound in enumerate(bounds):
                bucket = ",".join([*pairs, f'le="{bound}"'])
                kind = _NEXT if place else _FIRST
                lines.append((f"{family.name}_bucket{{{bucket}}} ", first + place, kind))
            lines.append((f"{family.name}_count{labels} ", first, _TOTAL))
            lines.append((f"{family.name}_sum{labels} ", first + len(bounds), _ALONE))
        families.append((head, family.merge, lines))
    return families


_TEMPLATES = _templates()
