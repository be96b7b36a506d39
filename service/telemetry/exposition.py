"""The reading side of the metrics: the rows of all workers, added up, in Prometheus' text format.

One scrape of any worker shows all of them. The text is written by prometheus_client from a collector over the rows.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from service.telemetry.families import LAYOUT, PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from service.telemetry.families import Family
    from service.telemetry.rows import Rows

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_INFO_NAME = "budgetrec_model_info"
# This counter has no cell of its own: it is the sum of a histogram, under a name that rates can be taken of.
_SPENT = "budgetrec_products_spent_total"
_SPENT_SUM = LAYOUT.at("budgetrec_spent_products") + len(PRODUCTS) + 1


def exposition(rows: Rows) -> bytes:
    """Return the numbers of all workers; a few milliseconds."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_RowsCollector(rows))
    return generate_latest(registry)


class _RowsCollector:
    """What prometheus_client asks for metrics."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Yield every family with the numbers of all workers."""
        merged = _merge(self._rows)
        for family in LAYOUT.families:
            yield _metric(family, merged[family.merge])
        info = GaugeMetricFamily(_INFO_NAME, "The model being served.", labels=["version"])
        for version in sorted({text for text in self._rows.texts() if text}):
            info.add_metric([version], 1)
        yield info


def _merge(shared: Rows) -> dict[str, list[float]]:
    rows = shared.all()
    living = rows[rows[:, LAYOUT.at("budgetrec_workers")] > 0]
    nothing = np.zeros(LAYOUT.n_cells)
    return {
        "sum": rows.sum(axis=0).tolist(),
        "max": rows.max(axis=0).tolist(),
        "min": (living.min(axis=0) if len(living) else nothing).tolist(),
        "mean": (living.mean(axis=0) if len(living) else nothing).tolist(),
    }


def _metric(family: Family, cells: list[float]) -> Metric:
    labels = [name for name, _ in family.labels]
    metric: Metric
    if family.kind == "histogram":
        metric = HistogramMetricFamily(family.name, family.help, labels=labels)
        bounds = [*map(repr, family.bounds), "+Inf"]
        for values in family.combinations():
            first = LAYOUT.at(family.name, *values)
            # The rows count each observation once; Prometheus' buckets are running totals.
            counts = accumulate(cells[first : first + len(bounds)])
            metric.add_metric(values, list(zip(bounds, counts, strict=True)), cells[first + len(bounds)])
        return metric
    metric = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        family.name, family.help, labels=labels
    )
    for values in family.combinations():
        cell = _SPENT_SUM if family.name == _SPENT else LAYOUT.at(family.name, *values)
        metric.add_metric(values, cells[cell])
    return metric
