"""The writing side of the metrics: one worker's row, with the cells of everything frequent resolved once."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from prometheus_client.samples import Exemplar

from service.telemetry.exposition import exposition
from service.telemetry.families import (
    BUDGET_CLASSES,
    LAYOUT,
    NEW_SCENARIO,
    PRODUCTS,
    SECONDS,
    STATUSES,
    budget_class,
    layout_of,
)
from service.telemetry.rows import Rows, row_bytes

if TYPE_CHECKING:
    from collections.abc import Collection

# The names of the models, where nobody names any.
ONE_MODEL = ("",)

_SECONDS_SUM = len(SECONDS) + 1
_PRODUCTS_SUM = len(PRODUCTS) + 1


def shared_bytes(slots: int, models: tuple[str, ...] = ONE_MODEL, scenarios: tuple[str, ...] = ()) -> int:
    """Return the size of the memory that the rows of all workers need, by the names of models and scenarios."""
    return row_bytes(layout_of(models, scenarios).n_cells, len(models)) * slots


def open_rows(
    descriptor: int, models: tuple[str, ...], scenarios: tuple[str, ...] = (), *, slots: int, slot: int
) -> Rows:
    """Return the rows in that memory."""
    return Rows(descriptor, layout_of(models, scenarios).n_cells, slots=slots, slot=slot, n_texts=len(models))


def forget_worker(rows: Rows, slot: int, models: tuple[str, ...] = ONE_MODEL, scenarios: tuple[str, ...] = ()) -> None:
    """Forget the gauges of a worker that is gone."""
    rows.clear(slot, layout_of(models, scenarios).gauges())


class Metrics:
    """What one worker counts. Used by the event loop's thread, and by the recall monitor for its own counters."""

    def __init__(
        self,
        descriptor: int,
        *,
        slots: int = 1,
        slot: int = 0,
        models: tuple[str, ...] = ONE_MODEL,
        scenarios: tuple[str, ...] = (),
    ) -> None:
        """Take the row of a worker. `scenarios` are the names of those that there were at the start."""
        self.models = models
        self.layout = layout_of(models, scenarios)
        self.rows = open_rows(descriptor, models, scenarios, slots=slots, slot=slot)
        self._scenarios = frozenset(scenarios)
        self.row = self.rows.mine
        at = LAYOUT.at
        self.request_seconds = tuple(at("budgetrec_request_seconds", name) for name in BUDGET_CLASSES)
        self.search_seconds = tuple(at("budgetrec_search_seconds", name) for name in BUDGET_CLASSES)
        self.spent_products = at("budgetrec_spent_products")
        self.products_asked = at("budgetrec_products_asked_total")
        self.products_granted = at("budgetrec_products_granted_total")
        self._request_cells: dict[tuple[str, int], int] = {}
        self.recall_hits = tuple(at("budgetrec_recall_hits_total", name) for name in BUDGET_CLASSES)
        self.recall_expected = tuple(at("budgetrec_recall_expected_total", name) for name in BUDGET_CLASSES)
        self._exemplars: dict[int, Exemplar] = {}
        forget_worker(self.rows, slot, models, scenarios)

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to a counter by name; for everything that is not frequent."""
        self.row[self.layout.at(name, *labels)] += by

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self.row[self.layout.at(name, *labels)] = value

    def scenario(self, name: str) -> None:
        """Count an answer by its scenario; one that came with a reload has no room of its own until a restart."""
        if self._scenarios:
            self.count("budgetrec_scenario_answers_total", name if name in self._scenarios else NEW_SCENARIO)

    def request(self, call: str, status: int) -> None:
        """Count an answered request; an unusual status counts as `other`."""
        cell = self._request_cells.get((call, status))
        if cell is None:
            text = str(status) if str(status) in STATUSES else "other"
            cell = self._request_cells[call, status] = LAYOUT.at("budgetrec_requests_total", call, text)
        self.row[cell] += 1.0

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

    def exemplar(self, granted: int, search: float, whole: float, trace_id: str, when: float) -> None:
        """Remember a traced request as the example of the buckets that it fell into; for this worker's scrapes."""
        position = budget_class(granted)
        for first, seconds in ((self.request_seconds[position], whole), (self.search_seconds[position], search)):
            self._exemplars[first + bisect_left(SECONDS, seconds)] = Exemplar({"trace_id": trace_id}, seconds, when)

    def of_living(self, name: str, *labels: str) -> list[float]:
        """Return a number of each living worker."""
        rows = self.rows.all()
        live = rows[:, LAYOUT.at("budgetrec_workers")] > 0
        found: list[float] = rows[live, self.layout.at(name, *labels)].tolist()
        return found

    def another_is_ready(self) -> bool:
        """Whether any other worker is ready."""
        ready = self.rows.all()[:, LAYOUT.at("budgetrec_ready")] > 0
        ready[self.rows.slot] = False
        return bool(ready.any())

    def exposition(self, *, openmetrics: bool = False, names: Collection[str] = ()) -> bytes:
        """Return the numbers of all workers in Prometheus' text format, or in OpenMetrics', which has exemplars.

        names  of the families to show; all without any
        """
        return exposition(self.rows, self.layout, self.models, self._exemplars, openmetrics=openmetrics, names=names)
