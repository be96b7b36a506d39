"""What a filter costs: reading it, applying it to a model's attributes, and finding it applied.

    python -m loadtests.index.filters                    # 650,000 items
    python -m loadtests.index.filters --items 5000000

The catalogue is made up: 300 categories, 9,000 prices, a flag, three of 2,000 tags, and times that are all different.
Cold is all that the first request with a filter pays; warm is what every other one does. The best of many rounds
counts, by the processor's clock, since the machine may be busy.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from greedy_core import Attributes, Filter
from service.models.filters import AppliedFilters, ConfiguredFilters

if TYPE_CHECKING:
    from collections.abc import Callable

FILTERS = (
    "in_stock",
    'category = "c3"',
    "price < 20",
    'category in ["c1", "c7"] and price < 20 and in_stock',
    'category in ["c1", "c3", "c5", "c7", "c9", "c11", "c13", "c15", "c17", "c19", "c21", "c23"] and in_stock',
    'tags contains any ["t1", "t5", "t9"] and price > 10',
    'tags contains all ["t1", "t5"]',
    "published > now - 30d and not in_stock",
    '(category < "c2" or price is missing) and not (in_stock and published < 2025-01-01)',
)


def catalogue(n_items: int) -> Attributes:
    rng = np.random.default_rng(0)
    categories = np.array([f"c{number}" for number in range(300)])
    tags = [f"t{number}" for number in range(2000)]
    prices = np.round(rng.gamma(2.0, 10.0, n_items), 2)
    prices[rng.random(n_items) < 0.01] = np.nan
    return Attributes.from_columns(
        {
            "category": categories[rng.integers(0, len(categories), n_items)],
            "price": prices,
            "in_stock": rng.random(n_items) < 0.8,
            "tags": [[tags[tag] for tag in row] for row in rng.integers(0, len(tags), (n_items, 3)).tolist()],
            "published": np.datetime64("now") - rng.integers(0, 10**8, n_items).astype("timedelta64[s]"),
        },
        n_items,
    )


def best_us(function: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.thread_time_ns()
        function()
        times.append(time.thread_time_ns() - began)
    return min(times) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=650_000)
    parser.add_argument("--rounds", type=int, default=50)
    arguments = parser.parse_args()
    attributes = catalogue(arguments.items)
    applied = AppliedFilters(ConfiguredFilters(), attributes, arguments.items, 1 << 30)
    table = Table(title=f"{arguments.items:,} items; microseconds, best of {arguments.rounds}", box=None)
    for head in ("filter", "eligible", "reading", "cold", "warm"):
        table.add_column(head, justify="left" if head == "filter" else "right", overflow="fold")
    for text in FILTERS:
        reading = best_us(lambda text=text: Filter(text), arguments.rounds)
        cold = best_us(lambda text=text: Filter(text).eligible(attributes), arguments.rounds)
        found = applied.apply(text)
        applied.keep(text, found)
        warm = best_us(lambda text=text: [applied.find(text) for _ in range(1000)], 5) / 1000
        table.add_row(text, f"{found.eligible.count:,}", f"{reading:.0f}", f"{cold:.0f}", f"{warm:.2f}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
