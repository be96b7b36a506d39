"""Figures 3 to 6: quality against speed-up over the naive search.

`figure-N` has the paper's axes: prec@5 and prec@10 in percent, speed-up on a linear axis that ends where the
paper's ends. `figure-N-wide` shows the same on a logarithmic axis without that end, and `figure-N-recall` the strict
recall@10; both carry a second axis for the speed-up over our own naive search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from loadtests.index.paper.curves import GREEDY, OURS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from loadtests.index.paper.results import Result

# In inches.
PANEL_WIDTH, PANEL_HEIGHT, MARGIN = 4.3, 3.6, 0.6

METRICS = {"prec_5": "prec@5", "prec_10": "prec@10", "recall_10": "recall@10"}
# What the paper shows in each figure: both precisions, or prec@5 alone.
PAPER_METRICS = {3: ("prec_5", "prec_10"), 4: ("prec_5", "prec_10"), 5: ("prec_5",), 6: ("prec_5",)}
TITLES = {
    3: "Variants of Greedy-MIPS",
    4: "Comparison on factorised interactions",
    5: "Comparison on synthetic data, various n",
    6: "Comparison on synthetic data, various k",
}
STYLES = {
    GREEDY: ("#1f4fd8", "o", "-"),
    "PCA-MIPS": ("#d62728", "s", "--"),
    "LSH-MIPS": ("#333333", "^", "-."),
    "Diamond-MSIPS": ("#2ca02c", "v", ":"),
    "Sample-MIPS": ("#8c564b", "P", ":"),
    "k-means MIPS": ("#e89b0c", "D", "--"),
    "dWedge": ("#9467bd", "X", "-."),
    "improved, selection tree": ("#1f4fd8", "o", "-"),
    "improved, max-heap": ("#d62728", "s", "--"),
    "original, selection tree": ("#333333", "^", "-."),
    **dict(zip(OURS, (("#e0218a", "*", "-"), ("#17becf", "h", "-")), strict=True)),
}


def frontier(results: Sequence[Result], metric: str, speedup: str) -> list[tuple[float, float]]:
    """Return the (speed-up, quality) points that no other setting of the curve beats in both, fastest first."""
    points = sorted(((getattr(r, speedup), getattr(r, metric)) for r in results), reverse=True)
    best: list[tuple[float, float]] = []
    for at, good in points:
        if not best or good > best[-1][1]:
            best.append((at, good))
    return best


def quality_at(results: Sequence[Result], metric: str, speedup: float) -> float | None:
    """Read the quality at a speed-up over the paper's naive off a curve; None where the curve never gets that fast.

    Between two settings the line goes straight over the logarithm of the speed-up, as it is drawn in the wide form.
    """
    points = frontier(results, metric, "speedup_over_paper_naive")
    if not points or points[0][0] < speedup:
        return None
    speeds = np.log([at for at, _ in reversed(points)])
    return float(np.interp(np.log(speedup), speeds, [good for _, good in reversed(points)]))


def draw(number: int, results: list[Result], out: Path) -> None:
    """Write the figure in its three forms, as PNG and SVG."""
    metrics = PAPER_METRICS[number]
    _sheet(number, results, metrics, out / f"figure-{number}", wide=False)
    _sheet(number, results, metrics, out / f"figure-{number}-wide", wide=True)
    _sheet(number, results, ("recall_10",), out / f"figure-{number}-recall", wide=True)


def _sheet(number: int, results: list[Result], metrics: tuple[str, ...], stem: Path, *, wide: bool) -> None:
    families = list(dict.fromkeys(r.data for r in results))
    if number == 3:  # a column for each data set, a row for each metric
        cells = [[(metric, panel) for panel in _panels(results)] for metric in metrics]
    else:  # a row for each family and metric, a column for each size
        cells = [
            [(metric, panel) for panel in _panels([r for r in results if r.data == family])]
            for family in families
            for metric in metrics
        ]
    width = max(len(row) for row in cells)
    height = PANEL_HEIGHT * len(cells) + 2 * MARGIN
    figure, axes = plt.subplots(len(cells), width, figsize=(PANEL_WIDTH * width, height), squeeze=False)
    # Fixed places: a layout engine takes longer than everything else together.
    figure.subplots_adjust(
        left=0.7 / (PANEL_WIDTH * width),
        right=1 - 0.15 / (PANEL_WIDTH * width),
        bottom=(MARGIN + 0.5) / height,
        top=1 - (MARGIN + (0.7 if wide else 0.2)) / height,
        wspace=0.25,
        hspace=0.6 if wide else 0.4,
    )
    for row, line in enumerate(cells):
        for column in range(width):
            if column < len(line):
                metric, panel = line[column]
                shown = [r for r in results if r.panel == panel]
                _panel(axes[row][column], shown, metric, limit=None if wide else _paper_limit(number, panel[0]))
            else:
                axes[row][column].set_axis_off()
    handles = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=min(6, 2 * width), frameon=False)
    figure.suptitle(f"Figure {number}. {TITLES[number]}", y=1 - 0.15 / height, va="top")
    figure.savefig(stem.with_suffix(".png"), dpi=110)
    figure.savefig(stem.with_suffix(".svg"))
    plt.close(figure)


def _panels(results: list[Result]) -> list[tuple[str, int, int]]:
    return sorted(dict.fromkeys(r.panel for r in results), key=lambda panel: panel[1:])


def _paper_limit(number: int, family: str) -> float:
    """Where the paper's speed-up axis ends."""
    if number in (3, 4):
        return 200.0
    return 60.0 if family == "syn-uniform" else 150.0


def _panel(axis: Axes, results: list[Result], metric: str, *, limit: float | None) -> None:
    data, items, dims = results[0].panel
    for name in dict.fromkeys(r.curve for r in results):
        own = [r for r in results if r.curve == name]
        points = frontier(own, metric, "speedup_over_paper_naive")
        measured = len(points)
        if limit is not None:
            points.append((0.0, points[-1][1]))  # whoever is that good when fast can be as good when slow
        colour, marker, line = STYLES[name]
        ours = name in OURS
        axis.plot(
            [at for at, _ in points],
            [100 * good for _, good in points],
            markevery=slice(0, measured),
            color=colour, marker=marker, linestyle=line, label=name,
            markersize=6 if ours else 4, linewidth=2.0 if ours or name == GREEDY else 1.4,
        )  # fmt: skip
    axis.set_ylim(-3, 105)
    axis.set_title(f"{data} ($n={_size(items)}, k={_size(dims)}$)", fontsize=9)
    axis.set_ylabel(f"Performance ({METRICS[metric]}, %)", fontsize=9)
    over = results[0]
    seconds = over.speedup_over_paper_naive * over.seconds
    axis.set_xlabel(f"Speedup over naive approach ({1e3 * seconds:.3g} ms)", fontsize=9)
    axis.grid(alpha=0.25)
    if limit is not None:
        axis.set_xlim(0, limit)
    else:
        axis.set_xscale("log")
        _plain_ticks(axis.xaxis)
        ratio = over.speedup_over_our_naive / over.speedup_over_paper_naive
        second = axis.secondary_xaxis("top", functions=(lambda x: x * ratio, lambda x: x / ratio))
        second.set_xlabel(f"over our naive ({1e3 * seconds * ratio:.3g} ms)", fontsize=8)
        second.tick_params(labelsize=7)
        _plain_ticks(second.xaxis)
    axis.tick_params(labelsize=8)


def _plain_ticks(axis: Axis) -> None:
    """Label powers of ten as numbers, and nothing between them."""
    axis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
    axis.set_minor_formatter(NullFormatter())


def _size(number: int) -> str:
    if number >= 4 and number & (number - 1) == 0:
        return f"2^{{{number.bit_length() - 1}}}"
    return f"{number:,}".replace(",", "{,}")
