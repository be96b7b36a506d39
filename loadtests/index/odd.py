"""Queries that look like no user: what the index finds for them, against the paper's rule on principal axes.

    python -m loadtests.index.odd --interactions ratings.npz --dims 128
    python -m loadtests.index.odd --data topics --items 650000

Directions are fitted to users, and reading is calibrated on users; a vector from outside may be anything. Prints
recall@10 at equal budgets for users, random vectors, one-hot vectors, items, and both turned around.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from greedy_core import GreedyIndex
from loadtests.index import datasets, measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from loadtests.index.datasets import Dataset

    Floats = NDArray[np.float32]

BUDGETS = (16, 64, 256, 1024)
console = Console(width=130)


def odd_queries(data: Dataset, n: int) -> dict[str, Floats]:
    """Return n queries of each kind."""
    rng = np.random.default_rng(5)
    n_items, n_dims = data.items.shape
    users = data.queries[:n]
    items = data.items[np.sort(rng.choice(n_items, n))]
    one_hot = np.eye(n_dims, dtype=np.float32)[rng.integers(0, n_dims, n)] * rng.choice([-1, 1], (n, 1))
    kinds = {
        "user": users,
        "random": rng.standard_normal((n, n_dims)),
        "one-hot": one_hot,
        "item": items,
        "- item": -items,
        "- user": -users,
    }
    return {kind: np.ascontiguousarray(queries, dtype=np.float32) for kind, queries in kinds.items()}


def recall(index: GreedyIndex, queries: Floats, truth: NDArray[np.int32], budget: int) -> float:
    """Return the mean recall@10."""
    results = index.search_batch(queries, top_k=10, budget=budget, threads=2)
    return measure.recall_at_10([result.ids for result in results], truth)


def main(arguments: list[str] | None = None) -> None:
    """Build both indexes and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.index.odd", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", dest="name", default="topics", choices=datasets.NAMES)
    parser.add_argument("--queries", type=int, default=200, help="of each kind (default: %(default)s)")
    datasets.add_arguments(parser)
    options = vars(parser.parse_args(arguments))
    n = options.pop("queries")
    data = datasets.load(**options)
    items, users = np.array(data.items), np.array(data.users)
    index = GreedyIndex.build(items, queries=users, directions="auto")
    principal = GreedyIndex.build(items, queries=users, directions="principal")
    table = Table(title=f"{data.name}: recall@10 of {index.directions} ({index.screening}), and above principal axes")
    table.add_column("query")
    for budget in BUDGETS:
        table.add_column(f"budget {budget}", justify="right")
    worst = 1.0
    for kind, queries in odd_queries(data, n).items():
        truth = measure.true_top(items, queries)
        cells = []
        for budget in BUDGETS:
            found = recall(index, queries, truth, budget)
            ahead = found - recall(principal, queries, truth, budget)
            worst = min(worst, ahead)
            cells.append(f"{found:.3f} {ahead:+.3f}")
        table.add_row(kind, *cells)
    console.print(table)
    console.print(f"At its worst {worst:+.3f} against the paper's rule on principal axes, {n} queries of each kind.")


if __name__ == "__main__":
    main()
