"""The picture of a calibration: recall and time against the budget. Imports matplotlib: the extra `bench`."""

import math
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from greedy_core import Calibration

# What the drawing library can write and people can open.
FORMATS = (".png", ".svg", ".pdf")

_BLUE, _RED = "#1f4e8c", "#a3401f"
# 95 % of the means of such samples are within this many standard errors of the true one.
_SURE = 1.96


def draw_calibration(calibration: Calibration, path: Path, *, title: str) -> None:
    """Draw recall@10 with its 95 % band above the time of a search, over one axis of budgets."""
    figure = Figure(figsize=(7, 6), dpi=120, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_recall(above, calibration)
    _draw_time(below, calibration)
    above.set_title(title, loc="left", fontsize=11, parse_math=False)
    budgets = [point.budget for point in calibration.points]
    below.set_xscale("log", base=2)
    below.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    below.minorticks_off()
    below.set_xlabel("budget, in inner products")
    for axes in (above, below):
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _draw_recall(axes: Axes, calibration: Calibration) -> None:
    points = calibration.points
    budgets = [point.budget for point in points]
    low = [max(0.0, point.recall_at_10 - _SURE * point.standard_error) for point in points]
    high = [min(1.0, point.recall_at_10 + _SURE * point.standard_error) for point in points]
    axes.fill_between(budgets, low, high, color=_BLUE, alpha=0.2, linewidth=0, label="95 % sure")
    means = [point.recall_at_10 for point in points]
    axes.plot(budgets, means, color=_BLUE, linewidth=1, marker="o", markersize=3, label="mean")
    if calibration.vectors is not None:
        outside = calibration.vectors.points
        axes.plot(
            [point.budget for point in outside],
            [point.recall_at_10 for point in outside],
            color=_BLUE,
            linewidth=1,
            linestyle="--",
            label="vectors from outside",
        )
        low = [min(low[0], outside[0].recall_at_10)]
    # From the tenth below the lowest point, so that a narrow band is still seen.
    axes.set_ylim(max(0.0, math.floor(low[0] * 10 - 0.5) / 10), 1.02)
    axes.set_ylabel("recall@10 against exact search")
    sample = "held-out users" if calibration.held_out else "users"
    axes.legend(loc="lower right", frameon=False, title=f"{calibration.sample_size:,} {sample}", alignment="left")


def _draw_time(axes: Axes, calibration: Calibration) -> None:
    budgets = [point.budget for point in calibration.points]
    times = [point.seconds * 1e6 for point in calibration.points]
    axes.plot(budgets, times, color=_RED, linewidth=1, marker="o", markersize=3)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_ylabel("µs per search, one thread")
    axes.margins(y=0.15)
