"""`make bench`: what a budget costs and what it buys, against the exact scan in the same run.

    python -m loadtests.index.bench                                  # Gaussian and recommender-like, 100k items
    python -m loadtests.index.bench --items 650000 --dims 128        # the size that the targets are about
    python -m loadtests.index.bench --interactions ratings.npz       # anybody's data
    python -m loadtests.index.bench --growth                         # search time from 2^17 to 2^20 items

Prints tables and writes loadtests/index/out/bench-*.{json,png}.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

from greedy_core import DIRECTION_KINDS, ExactIndex, GreedyIndex
from greedy_core.screening import VARIANTS
from loadtests.index import datasets, measure

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadtests.index.datasets import Dataset

OUT = Path(__file__).parent / "out"
BUDGETS = (64, 256, 1024, 2048, 4096)
console = Console(width=130)


def bench(data: Dataset, directions: str, n_queries: int, rounds: int) -> list[dict[str, Any]]:
    queries = data.queries[:n_queries]
    start = time.perf_counter()
    index = GreedyIndex.build(data.items, queries=data.users, directions=directions, progress=True)
    build_seconds = time.perf_counter() - start
    exact = ExactIndex.build(data.items)
    truth = measure.true_top(data.items, queries)

    def asked(budget: int, variant: str) -> Callable[[np.ndarray], object]:
        return lambda query: index.search(query, budget=budget, variant=variant)

    def screened(budget: int, variant: str) -> Callable[[np.ndarray], object]:
        return lambda query: index.screen(query, budget=budget, variant=variant, ordered=False)

    budgets = [budget for budget in BUDGETS if budget < index.n_items]
    searches = {f"{budget} {variant}": asked(budget, variant) for budget in budgets for variant in VARIANTS}
    screens = {f"{budget} {variant}": screened(budget, variant) for budget in budgets for variant in VARIANTS}
    few = queries[: max(4, n_queries // 50)]
    exact_seconds = measure.best_seconds({"exact": exact.search}, few, rounds)["exact"]
    sum_seconds = measure.best_seconds({"sum": lambda _: index.items.sum()}, few, rounds)["sum"]
    search_seconds = measure.best_seconds(searches, queries, rounds)
    screen_seconds = measure.best_seconds(screens, queries, rounds)
    exact_seconds = min(exact_seconds, measure.best_seconds({"exact": exact.search}, few, rounds)["exact"])

    rows = []
    for budget in budgets:
        for variant in VARIANTS:
            key = f"{budget} {variant}"
            results = [index.search(query, budget=budget, variant=variant) for query in queries]
            found = [result.ids for result in results]
            rows.append(
                {
                    "data": data.name,
                    "directions": directions,
                    "budget": budget,
                    "variant": variant,
                    "recall@10": measure.recall_at_10(found, truth),
                    "prec@5": measure.precision(found, truth, 5),
                    "search_us": search_seconds[key] * 1e6,
                    "screen_us": screen_seconds[key] * 1e6,
                    "entries": float(np.mean([result.entries_read for result in results])),
                    "times_faster": exact_seconds / search_seconds[key],
                }
            )
    print_table(rows, f"{data.name}, directions {directions}")
    calls = {
        "one by one": lambda _: [index.search(query, budget=64) for query in queries],
        "in a batch": lambda _: index.search_batch(queries, budget=64),
    }
    all_seconds = measure.best_seconds(calls, queries[:1], 2 * rounds)
    one_us, kernel_us = (seconds / len(queries) * 1e6 for seconds in all_seconds.values())
    tree = {row["budget"]: row["screen_us"] for row in rows if row["variant"] == "improved-tree"}
    ours = {row["budget"]: row["screen_us"] for row in rows if row["variant"] == "threshold"}
    console.print(
        f"exact scan {exact_seconds * 1e3:.2f} ms, {index.items.nbytes / exact_seconds / 1e9:.1f} GB/s, "
        f"{sum_seconds / exact_seconds:.2f} of the speed of a plain sum over the same matrix\n"
        f"build {build_seconds:.1f} s; index {index.nbytes / 1e6:.1f} MB, "
        f"{index.nbytes / index.items.nbytes:.3f} of the rows\n"
        f"a call of search from Python costs {one_us - kernel_us:.1f} us more than "
        f"the same search in a batch ({kernel_us:.1f} us)\n"
        "screening without a queue is faster than improved-tree by "
        + ", ".join(f"{tree[budget] / ours[budget]:.2f} at {budget}" for budget in budgets)
    )
    return rows


def growth(n_queries: int, rounds: int) -> None:
    """Search time at a fixed budget while the number of items grows eightfold."""
    indexes = {}
    for power in (17, 20):
        data = datasets.load("gaussian", items=2**power, dims=128)
        indexes[power] = GreedyIndex.build(data.items, progress=True)
    queries = data.queries[:n_queries]
    table = Table("budget", "2^17 us", "2^20 us", "growth", title="search time against the number of items")
    for budget in (64, 256, 1024):
        contestants = {
            str(power): lambda query, index=index, budget=budget: index.search(query, budget=budget)
            for power, index in indexes.items()
        }
        seconds = measure.best_seconds(contestants, queries, rounds)
        small, large = seconds["17"] * 1e6, seconds["20"] * 1e6
        table.add_row(str(budget), f"{small:.1f}", f"{large:.1f}", f"{large / small:.2f}")
    console.print(table)


def print_table(rows: list[dict[str, Any]], title: str) -> None:
    table = Table(title=title)
    for column in ("budget", "variant", "recall@10", "prec@5", "search us", "screen us", "entries", "x exact"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for row in rows:
        table.add_row(
            str(row["budget"]),
            row["variant"],
            f"{row['recall@10']:.3f}",
            f"{row['prec@5']:.3f}",
            f"{row['search_us']:.1f}",
            f"{row['screen_us']:.1f}",
            f"{row['entries']:.0f}",
            f"{row['times_faster']:.0f}",
            end_section=row["variant"] == VARIANTS[-1],
        )
    console.print(table)


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(1, len(names), figsize=(6 * len(names), 4.5), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        for directions in DIRECTION_KINDS:
            for variant in VARIANTS:
                line = [
                    row
                    for row in rows
                    if (row["data"], row["directions"], row["variant"]) == (name, directions, variant)
                ]
                if line:
                    style = "--" if directions == "axes" else "-"
                    axis.plot(
                        [row["times_faster"] for row in line],
                        [row["recall@10"] for row in line],
                        style,
                        marker="o",
                        label=f"{directions}, {variant}",
                    )
        axis.set(
            title=name, xlabel="times faster than the exact scan", ylabel="recall@10", xscale="log", ylim=(0, 1.02)
        )
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["gaussian", "topics"], choices=["gaussian", "uniform", "topics"])
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=128)
    parser.add_argument("--interactions", help="an .npz file with the arrays user and item, instead of --data")
    parser.add_argument("--directions", nargs="+", default=["axes", "principal"], choices=DIRECTION_KINDS)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--growth", action="store_true", help="only measure how search time grows with the items")
    options = parser.parse_args()
    measure.one_thread()
    if options.growth:
        growth(options.queries, options.rounds)
        return
    names = ["interactions"] if options.interactions else options.data
    rows = []
    for name in names:
        data = datasets.load(name, items=options.items, dims=options.dims, interactions=options.interactions)
        for directions in options.directions:
            rows += bench(data, directions, options.queries, options.rounds)
    OUT.mkdir(exist_ok=True)
    stem = f"bench-{'-'.join(names)}-{rows[0]['data'].rsplit('-', 1)[-1]}"
    (OUT / f"{stem}.json").write_text(json.dumps(rows, indent=1))
    plot(rows, OUT / f"{stem}.png")
    console.print(f"wrote {OUT / stem}.json and .png")


if __name__ == "__main__":
    main()
