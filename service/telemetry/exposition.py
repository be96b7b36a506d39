"""The reading side of the metrics: the rows of all workers, added up, in Prometheus' text format.

One scrape of any worker shows all of them. The text is written by prometheus_client from a collector over the rows.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

from service.telemetry.families import LAYOUT, PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from prometheus_client.core import Metric
    from prometheus_client.samples import Exemplar

    from service.telemetry.families import Family, Layout
    from service.telemetry.rows import Rows

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
OPENMETRICS_TYPE = f"{OPENMETRICS}; version=1.0.0; charset=utf-8"

_INFO_NAME = "budgetrec_model_info"
_ARM_INFO_NAME = "budgetrec_arm_info"
# This counter has no cell of its own: it is the sum of a histogram, under a name that rates can be taken of.
_SPENT = "budgetrec_products_spent_total"
_SPENT_SUM = LAYOUT.at("budgetrec_spent_products") + len(PRODUCTS) + 1


def exposition(
    rows: Rows,
    layout: Layout,
    models: tuple[str, ...],
    exemplars: Mapping[int, Exemplar],
    *,
    openmetrics: bool = False,
    names: Collection[str] = (),
) -> bytes:
    """Return the numbers of all workers; a few milliseconds.

    layout     where they lie in the rows
    models     their names, in the order of the rows' texts
    exemplars  by cell; only OpenMetrics shows them
    names      of the families to show; all without any
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_RowsCollector(rows, layout, models, exemplars, names))
    if openmetrics:
        return bytes(generate_openmetrics(registry))  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class _RowsCollector:
    """What prometheus_client asks for metrics."""

    def __init__(
        self,
        rows: Rows,
        layout: Layout,
        models: tuple[str, ...],
        exemplars: Mapping[int, Exemplar],
        names: Collection[str],
    ) -> None:
        self._rows = rows
        self._models = models
        self._layout = layout
        self._exemplars = exemplars
        self._names = names

    def collect(self) -> Iterator[Metric]:
        """Yield every family that is to be shown, with the numbers of all workers."""
        merged = _merge(self._rows, self._layout)
        for family in self._layout.families:
            if not self._names or family.name in self._names:
                yield _metric(family, self._layout, merged[family.merge], self._exemplars)
        if self._names:
            return
        info = GaugeMetricFamily(_INFO_NAME, "The model being served.", labels=["version"])
        for version in sorted({text for text in self._rows.texts() if text}):
            info.add_metric([version], 1)
        yield info
        if len(self._models) > 1:
            yield self._versions_by_arm()

    def _versions_by_arm(self) -> Metric:
        info = GaugeMetricFamily(_ARM_INFO_NAME, "The models being served, by name.", labels=["arm", "version"])
        for which, name in enumerate(self._models):
            for version in sorted({text for text in self._rows.texts(which) if text}):
                info.add_metric([name, version], 1)
        return info


def _merge(shared: Rows, layout: Layout) -> dict[str, list[float]]:
    rows = shared.all()
    living = rows[rows[:, LAYOUT.at("budgetrec_workers")] > 0]
    nothing = np.zeros(layout.n_cells)
    return {
        "sum": rows.sum(axis=0).tolist(),
        "max": rows.max(axis=0).tolist(),
        "min": (living.min(axis=0) if len(living) else nothing).tolist(),
        "mean": (living.mean(axis=0) if len(living) else nothing).tolist(),
    }


def _metric(family: Family, layout: Layout, cells: list[float], exemplars: Mapping[int, Exemplar]) -> Metric:
    labels = [name for name, _ in family.labels]
    metric: Metric
    if family.kind == "histogram":
        metric = HistogramMetricFamily(family.name, family.help, labels=labels)
        bounds = [*map(repr, family.bounds), "+Inf"]
        for values in family.combinations():
            first = layout.at(family.name, *values)
            # The rows count each observation once; Prometheus' buckets are running totals.
            counts = accumulate(cells[first : first + len(bounds)])
            buckets = [
                (bound, count, exemplars[cell]) if cell in exemplars else (bound, count)
                for cell, bound, count in zip(range(first, first + len(bounds)), bounds, counts, strict=True)
            ]
            metric.add_metric(values, buckets, cells[first + len(bounds)])
        return metric
    metric = (CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily)(
        family.name, family.help, labels=labels
    )
    for values in family.combinations():
        cell = _SPENT_SUM if family.name == _SPENT else layout.at(family.name, *values)
        metric.add_metric(values, cells[cell])
    return metric
