"""The dashboard as a picture: its own queries and layout, drawn without Grafana."""

from __future__ import annotations

import io
import math
import re
import time
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from loadtests.http.dashboard import Panel, Query, panels

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from loadtests.http.fleet import Prometheus

_COLUMNS = 24
_PALETTE = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#f2495c", "#b877d9", "#8ab8ff", "#fade2a", "#96d98d"]
_STYLE = {
    "figure.facecolor": "#111217",
    "axes.facecolor": "#181b1f",
    "axes.edgecolor": "#2c3235",
    "axes.prop_cycle": mpl.cycler(color=_PALETTE),
    "grid.color": "#2c3235",
    "text.color": "#d8d9da",
    "axes.labelcolor": "#9fa7b3",
    "xtick.color": "#9fa7b3",
    "ytick.color": "#9fa7b3",
    "font.size": 6,
}


def draw(prometheus: Prometheus, path: Path, *, seconds: float) -> None:
    """Draw every panel where the dashboard has it, over the last `seconds`, as a PNG."""
    everything = panels()
    rows = max(panel.place["y"] + panel.place["h"] for panel in everything)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(12.8, rows * 0.205), dpi=100)
        for panel in everything:
            x, y, width, height = (panel.place[each] for each in "xywh")
            box = ((x + 0.9) / _COLUMNS, 1 - (y + height - 1.4) / rows, (width - 1.3) / _COLUMNS, (height - 2.6) / rows)
            if panel.kind == "stat":
                box = (
                    (x + 0.15) / _COLUMNS,
                    1 - (y + height - 0.3) / rows,
                    (width - 0.3) / _COLUMNS,
                    (height - 0.6) / rows,
                )
            axes = figure.add_axes(box)
            _DRAWERS.get(panel.kind, _draw_lines)(axes, panel, prometheus, seconds)
        buffer = io.BytesIO()
        figure.savefig(buffer)
    # Few colours, so that the picture is small enough for a repository.
    Image.open(buffer).convert("RGB").quantize(96).save(path, optimize=True)


def format_value(value: float, unit: str) -> str:
    """Write a number the way its unit is read."""
    if unit == "percentunit":
        return f"{value:.1%}"
    for scale, name in ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms")) if unit == "s" else ():
        if 0 < abs(value) < scale * 1000:
            return f"{value / scale:.3g} {name}"
    for scale, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= scale and unit != "s":
            return f"{value / scale:.3g}{name}"
    return f"{value:.3g}" + {"s": " s", "reqps": " /s"}.get(unit, "")


def _legend(query: Query, labels: dict[str, str]) -> str:
    if query.legend == "__auto":
        return ""
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), query.legend)


def _class_order(name: str) -> tuple[bool, int, str]:
    """Sort budget classes by their numbers, `more` last."""
    return name == "more", len(name), name


def _points(series: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    times, values = zip(*series["values"], strict=True)
    return np.array(times, float), np.array(values, float)


def _draw_lines(axes: Axes, panel: Panel, prometheus: Prometheus, seconds: float) -> None:
    now = time.time()
    for query in panel.queries:
        found = prometheus.query_range(query.expression, seconds=seconds)
        for series in sorted(found, key=lambda series: _class_order(series["metric"].get("budget_class", ""))):
            times, values = _points(series)
            axes.plot(times - now, values, linewidth=0.9, label=_legend(query, series["metric"]))
    if panel.logarithmic:
        axes.set_yscale("log")
    else:
        # Room for the legend.
        axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 1e-12) * 1.15)
    axes.set_xlim(-seconds, 0)
    _finish(axes, panel)
    if len(axes.lines) > 1:
        axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=4.5, handlelength=1)


def _draw_number(axes: Axes, panel: Panel, prometheus: Prometheus, _: float) -> None:
    axes.set_axis_off()
    (series,) = prometheus.query(panel.queries[0].expression)
    value = float(series["value"][1])
    steps = panel.settings["thresholds"]["steps"]
    color = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    back = {"green": "#1f6b33", "orange": "#a35d00", "red": "#8f1d2c", "blue": "#1f4e8c"}[color]
    axes.add_patch(mpl.patches.Rectangle((0, 0), 1, 1, transform=axes.transAxes, color=back))
    axes.text(0.5, 0.42, format_value(value, panel.unit), ha="center", va="center", fontsize=13, weight="bold")
    axes.text(0.5, 0.86, panel.title, ha="center", va="center", fontsize=5.5)


def _draw_bars(axes: Axes, panel: Panel, prometheus: Prometheus, _: float) -> None:
    columns = [
        {each["metric"]["budget_class"]: float(each["value"][1]) for each in prometheus.query(query.expression)}
        for query in panel.queries
    ]
    names = sorted({name for column in columns for name in column}, key=_class_order)
    for i, (query, column) in enumerate(zip(panel.queries, columns, strict=True)):
        places = np.arange(len(names)) + (i - 1.5) * 0.2
        axes.bar(places, [column.get(name, math.nan) for name in names], 0.18, label=query.legend)
    axes.set_yscale("log")
    _finish(axes, panel)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("budget class")
    axes.legend(loc="upper left", ncols=2, frameon=False, fontsize=5)


def _draw_heat(axes: Axes, panel: Panel, prometheus: Prometheus, seconds: float) -> None:
    found = prometheus.query_range(panel.queries[0].expression, seconds=seconds)
    found.sort(key=lambda series: float(series["metric"]["le"]))
    bounds = [float(series["metric"]["le"]) for series in found]
    times = sorted({time for series in found for time, _ in series["values"]})
    grid = np.zeros((len(found), len(times)))
    for i, series in enumerate(found):
        moments, values = _points(series)
        grid[i, np.searchsorted(times, moments)] = values
    counts = np.diff(grid, axis=0, prepend=0)[:-1]
    shown = np.ma.masked_less_equal(np.sqrt(counts), 0)
    axes.pcolormesh(np.array(times) - times[-1], np.arange(len(bounds) - 1), shown, cmap="inferno", shading="nearest")
    _finish(axes, panel)
    axes.set_yticks(range(0, len(bounds) - 1, 3), [format_value(bound, "s") for bound in bounds[:-1:3]])
    axes.grid(visible=False)


def _finish(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=6.5, color="#d8d9da")
    axes.grid(visible=True, linewidth=0.4)
    axes.yaxis.set_major_formatter(lambda value, _: format_value(value, panel.unit))
    axes.yaxis.set_minor_formatter(mpl.ticker.NullFormatter())
    axes.tick_params(length=0, labelsize=5)


_DRAWERS = {"stat": _draw_number, "barchart": _draw_bars, "heatmap": _draw_heat}
