"""The writing side of the metrics: one worker's row, with the cells of everything frequent resolved once."""

from __future__ import annotations

from bisect import bisect_left

from service.telemetry.exposition import exposition
from service.telemetry.families import BUDGET_CLASSES, LAYOUT, PRODUCTS, SECONDS, STATUSES, budget_class
from service.telemetry.rows import Rows, row_bytes

_SECONDS_SUM = len(SECONDS) + 1
_PRODUCTS_SUM = len(PRODUCTS) + 1


def shared_bytes(slots: int) -> int:
    """Return the size of the memory that the rows of all workers need."""
    return row_bytes(LAYOUT.n_cells) * slots


def forget_worker(rows: Rows, slot: int) -> None:
    """Forget the gauges of a worker that is gone."""
    rows.clear(slot, LAYOUT.gauges())


class Metrics:
    """What one worker counts. Used by the event loop's thread, and by the recall monitor for its own counters."""

    def __init__(self, descriptor: int, *, slots: int = 1, slot: int = 0) -> None:
        self.rows = Rows(descriptor, LAYOUT.n_cells, slots=slots, slot=slot)
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
        forget_worker(self.rows, slot)

    def count(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Add to a counter by name; for everything that is not frequent."""
        self.row[LAYOUT.at(name, *labels)] += by

    def set(self, name: str, value: float) -> None:
        """Set a gauge without labels."""
        self.row[LAYOUT.at(name)] = value

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

    def model(self, version: str, *, built: float, loaded: float, seconds: float) -> None:
        """Say which model this worker serves."""
        self.rows.set_text(version)
        self.set("budgetrec_model_built_timestamp_seconds", built)
        self.set("budgetrec_model_loaded_timestamp_seconds", loaded)
        self.set("budgetrec_model_load_seconds", seconds)

    def generations(self) -> list[float]:
        """Return how many decisions about the model each living worker has followed."""
        rows = self.rows.all()
        live = rows[:, LAYOUT.at("budgetrec_workers")] > 0
        found: list[float] = rows[live, LAYOUT.at("budgetrec_model_generation")].tolist()
        return found

    def another_is_ready(self) -> bool:
        """Whether any other worker is ready."""
        ready = self.rows.all()[:, LAYOUT.at("budgetrec_ready")] > 0
        ready[self.rows.slot] = False
        return bool(ready.any())

    def exposition(self) -> bytes:
        """Return the numbers of all workers in Prometheus' text format."""
        return exposition(self.rows)
