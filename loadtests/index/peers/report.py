"""What is left of a run: the tables on the screen, the JSON, the plot, and the tables of RESULTS.md."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from rich.table import Table

from loadtests.index.peers.contestants import AS_BUILT, EXACT, KNOWN, OURS, VECTOR
from loadtests.index.peers.frontier import LEVELS, Point, envelope, seconds_at, verdicts

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from loadtests.index.peers.frontier import Verdict

BEGIN, END = "<!-- tables: python -m loadtests.index.peers --results -->", "<!-- end of tables -->"
FILTERS_BEGIN, FILTERS_END = "<!-- filters: python -m loadtests.index.peers --results -->", "<!-- end of filters -->"


def judged(run: dict[str, Any], family: str) -> list[Verdict]:
    """Return the verdicts on one of our families, of a run that came from its JSON."""
    return verdicts(points_of(run), family, EXACT, aside=[*OURS, *AS_BUILT.values()])


def points_of(run: dict[str, Any]) -> list[Point]:
    """Return the measured points of a run."""
    return [Point(**point) for point in run["points"]]


def families_of(points: Sequence[Point]) -> list[str]:
    """Return the families, ours first, then by their time at the highest level they reach."""
    ours = [*OURS, *AS_BUILT.values()]

    def rank(name: str) -> tuple[int, float, float]:
        own = [point for point in points if point.family == name]
        reached = max((level for level in LEVELS if seconds_at(own, level) is not None), default=0.0)
        place = ours.index(name) if name in ours else len(ours)
        return place, -reached, seconds_at(own, reached) or 0.0

    return sorted({point.family for point in points} - {EXACT}, key=rank)


def micros(seconds: float | None) -> str:
    """Return a time to read."""
    return "-" if seconds is None else f"{seconds * 1e6:.1f}" if seconds < 1e-4 else f"{seconds * 1e6:,.0f}"


def number(value: float | None, form: str) -> str:
    """Return a number to read, or a dash."""
    return "-" if value is None else format(value, form)


def family_rows(run: dict[str, Any]) -> list[list[str]]:
    """Return a row for each family: time at each level, most recall, and what its builds cost."""
    points = points_of(run)
    rows = []
    for family in families_of(points):
        own = [point for point in points if point.family == family]
        built = [build for build in run["builds"] if build["family"] == family]
        used = {point.contestant for point in envelope(own) if point.recall >= LEVELS[0]} or {own[0].contestant}
        chosen = [build for build in built if build["name"] in used]
        seconds, sizes = [b["seconds"] for b in chosen], [b["bytes"] / 1e6 for b in chosen]
        rows.append(
            [
                family,
                *(micros(seconds_at(own, level)) for level in LEVELS),
                f"{max(point.recall for point in own):.3f}",
                _span(seconds),
                _span(sizes),
            ]
        )
    return rows


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):,.0f}", f"{max(values):,.0f}"
    return low if low == high else f"{low}-{high}"


FAMILY_HEADS = ["family", *(f"us at {level:.2f}" for level in LEVELS), "most recall", "build CPU s", "MB"]
VERDICT_HEADS = [
    *("recall@10", "known user us", "vector us", "best peer", "peer us"),
    *("known / peer", "vector / peer", "exact / known", "exact / vector"),
]


def verdict_rows(run: dict[str, Any]) -> list[list[str]]:
    """Return a row for each recall level."""
    return [
        [
            f"{known.level:.2f}",
            *(micros(verdict.ours) for verdict in (known, vector)),
            known.peer or "none gets there",
            micros(known.peers),
            *(_ratio(verdict.ratio) for verdict in (known, vector)),
            *(number(verdict.times_exact, ",.0f") for verdict in (known, vector)),
        ]
        for known, vector in zip(judged(run, KNOWN), judged(run, VECTOR), strict=True)
    ]


def _ratio(ratio: float | None) -> str:
    return number(ratio, ".2f" if ratio and ratio > 0.05 else ".3f")


def show(run: dict[str, Any], console: Console) -> None:
    """Print the tables and whatever is not in them."""
    for title, heads, rows in (
        (f"{run['data']}: time per query at a recall@10", FAMILY_HEADS, family_rows(run)),
        ("verdict", VERDICT_HEADS, verdict_rows(run)),
    ):
        table = Table(title=title)
        for column, head in enumerate(heads):
            table.add_column(head, justify="left" if column == 0 or head == "best peer" else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for line in remarks(run):
        console.print(line, highlight=False)


def remarks(run: dict[str, Any]) -> list[str]:
    """Return what belongs under the tables: budgets, where time goes, who did not take part."""
    lines = [f"{run['queries']} queries, {run['rounds']} rounds. Exact scan {run['exact_seconds'] * 1e6:,.0f} us."]
    for family, budgets in run["recall_at_budget"].items():
        found = ", ".join(f"{recall:.3f} at {budget}" for budget, recall in budgets.items())
        lines.append(f"Recall at budget, {AS_BUILT[family]} ({run['screening']}): {found}.")
    for family, part in run["breakdown"].items():
        if part is None:
            continue
        lines.append(
            f"{family} at 0.95 ({part['setting']}, recall {part['recall']:.3f}): {part['search_us']:.1f} us, "
            f"of which screening {part['screen_us']:.1f} and ranking {part['search_us'] - part['screen_us']:.1f}; "
            f"in a batch {part['batch_us']:.1f} us a query."
        )
    lines += [f"Missing: {name} ({reason})." for name, reason in run["missing"].items()]
    if run["left_out"]:
        lines.append(f"Not run: {', '.join(run['left_out'])}.")
    lines += [f"Given up: {name} ({reason})." for name, reason in run["given_up"].items()]
    return lines


def plot(run: dict[str, Any], path: Path) -> None:
    """Draw every family's envelope, recall@10 against time."""
    points = points_of(run)
    figure, axis = plt.subplots(figsize=(10, 5.5))
    colours = plt.get_cmap("tab10").colors
    shown = [family for family in families_of(points) if family not in AS_BUILT.values()]
    for place, family in enumerate(shown):
        best = envelope(point for point in points if point.family == family)
        ours = family in OURS
        axis.plot(
            [point.seconds * 1e6 for point in best],
            [point.recall for point in best],
            marker="o",
            markersize=4 if ours else 3,
            linewidth=2.5 if ours else 1.2,
            color="black" if ours else colours[(place - len(OURS)) % len(colours)],
            linestyle="--" if family == VECTOR else "-",
            label=family,
            zorder=3 if ours else 2,
            clip_on=False,
        )
    axis.axvline(run["exact_seconds"] * 1e6, color="grey", linestyle="--", linewidth=1, label=EXACT)
    for level in LEVELS:
        axis.axhline(level, color="grey", linewidth=0.4, zorder=1)
    axis.set(
        title=f"{run['data']}: recall@10 against time, one thread, one query at a time",
        xlabel="microseconds per query",
        ylabel="recall@10",
        xscale="log",
    )
    axis.set_yscale("function", functions=(_spread, _unspread))
    axis.set_yticks([0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0])
    axis.set_ylim(max(0.0, min(0.6, *(point.recall for point in points)) - 0.02), 1.0)
    axis.grid(axis="x", which="both", alpha=0.2)
    axis.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _spread(recall: Any) -> Any:
    """Give the recalls that matter room: the axis goes by the root of what is missed."""
    return 1 - (1 - recall).clip(min=0) ** 0.5


def _unspread(height: Any) -> Any:
    return 1 - (1 - height).clip(min=0) ** 2


def filter_heads(run: dict[str, Any]) -> list[str]:
    """Return the heads of the table of a run under filters."""
    families = [family for family in run["rows"][-1]["seconds"] if family not in (VECTOR, EXACT)]
    return [
        "attribute",
        "share",
        "eligible",
        "recall at 256",
        "ours us",
        *(f"{name} us" for name in families),
        "exact us",
    ]


def filter_rows(run: dict[str, Any]) -> list[list[str]]:
    """Return a row for each filter: recall at a budget of 256, and each family's time at a recall@10 of 0.95."""
    families = [family for family in run["rows"][-1]["seconds"] if family not in (VECTOR, EXACT)]
    return [
        [
            row["kind"],
            f"{row['share']:.1%}",
            f"{row['eligible']:,}",
            f"{row['recall_at_256']:.3f}",
            *(_reached(row, family) for family in (VECTOR, *families, EXACT)),
        ]
        for row in run["rows"]
    ]


def _reached(row: dict[str, Any], family: str) -> str:
    if family not in row["seconds"]:
        return ""
    seconds = row["seconds"][family]
    return micros(seconds) if seconds is not None else f"- ({row['most_recall'][family]:.2f})"


def show_filters(run: dict[str, Any], console: Console) -> None:
    """Print the table of a run under filters."""
    table = Table(title=f"{run['data']}: under filters, time at a recall@10 of 0.95")
    for head in filter_heads(run):
        table.add_column(head, justify="left" if head == "attribute" else "right")
    for row in filter_rows(run):
        table.add_row(*row)
    console.print(table)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---", *("---:" for _ in heads[1:])], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def write_results(folder: Path, page: Path) -> int:
    """Put the tables of all runs in `folder` between the marks of RESULTS.md; return how many there were."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("peers-*.json"))]
    lines: list[str] = []
    for run in runs:
        lines += ["", f"### {run['data']}", "", f"`{run['command']}`, {run['date']}, {run['machine']}.", ""]
        lines += [*_markdown(VERDICT_HEADS, verdict_rows(run)), ""]
        lines += [*_markdown(FAMILY_HEADS, family_rows(run)), "", *(f"- {line}" for line in remarks(run))]
    filtered = [json.loads(path.read_text()) for path in sorted(folder.glob("filters-*.json"))]
    below: list[str] = []
    for run in filtered:
        below += [
            "",
            f"### Under filters: {run['data']}",
            "",
            f"`{run['command']}`, {run['date']}, {run['machine']}.",
            "",
        ]
        below += [*_markdown(filter_heads(run), filter_rows(run)), ""]
        below.append(
            f"- {run['queries']} queries, {run['rounds']} rounds; {run['screening']}; {', '.join(run['peers'])}."
        )
    text = _between(page.read_text(), FILTERS_BEGIN, FILTERS_END, below) if filtered else page.read_text()
    page.write_text(_between(text, BEGIN, END, lines) if runs else text)
    return len(runs) + len(filtered)


def _between(text: str, begin: str, end: str, lines: Sequence[str]) -> str:
    """Return the text with other lines between two marks."""
    before, rest = text.split(begin)
    return "\n".join([before + begin, *lines, "", end + rest.split(end)[1]])
