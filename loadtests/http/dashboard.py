"""The queries of the Grafana dashboard, with its variables filled in."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from loadtests.http.fleet import DEPLOY

DASHBOARD = DEPLOY / "grafana" / "dashboards" / "budgetrec.json"


@dataclass(frozen=True)
class Query:
    """One target of a panel, ready for Prometheus."""

    expression: str
    legend: str
    instant: bool


@dataclass(frozen=True)
class Panel:
    """A panel that shows data; rows are left out."""

    title: str
    kind: str
    unit: str
    place: dict[str, int]
    queries: tuple[Query, ...]
    settings: dict[str, Any] = field(repr=False)

    @property
    def logarithmic(self) -> bool:
        """Whether the panel's axis is a logarithmic one."""
        custom = self.settings.get("custom", {})
        return bool(custom.get("scaleDistribution", {}).get("type") == "log")


def panels(*, rate_interval: str = "10s") -> list[Panel]:
    """Return the dashboard's panels as somebody sees them who looks at all replicas."""

    def fill(expression: str) -> str:
        return expression.replace("$__rate_interval", rate_interval).replace("$instance", ".*")

    return [
        Panel(
            title=panel["title"],
            kind=panel["type"],
            unit=panel["fieldConfig"]["defaults"].get("unit", "short"),
            place=panel["gridPos"],
            queries=tuple(
                Query(fill(target["expr"]), target["legendFormat"], target["instant"]) for target in panel["targets"]
            ),
            settings=panel["fieldConfig"]["defaults"],
        )
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        if panel["type"] != "row"
    ]
