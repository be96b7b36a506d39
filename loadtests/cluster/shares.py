"""Which way of splitting a budget over shards finds most: `python -m loadtests.cluster.shares --items A --users B`.

Ways are compared with one index of all items at the same total budget, on users that none was fitted to. Those after
the first leave every shard to itself, with a graph of its own where the model walks:

    ours    as the library does it: by a map of all items where the model walks, else in proportion
    equal   in proportion to the items of each shard, as greedy_core/shards/shares.py does it
    heads   in proportion to how many of the largest list entries for this query each shard has: looks at all lists of
            all shards, which costs no product, but a round trip
    rounds  half of the budget equally; the rest in proportion to how many of the best so far each shard has. The
            second round goes on where the first one stopped, which would cost each shard a memory of its searches
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from greedy_core import GreedyIndex
from greedy_core.fit.directions import Axes
from greedy_core.index import Whole
from greedy_core.shards.index import ShardedIndex
from greedy_core.shards.item_map import ItemMap
from greedy_core.shards.merging import merge_results
from greedy_core.shards.places import Places, deal
from greedy_core.shards.shares import split_budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ids = npt.NDArray[np.int32]

BUDGETS = (64, 256, 1024)
HEADS_PER_PRODUCT = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=Path, required=True)
    parser.add_argument("--users", type=Path, required=True)
    parser.add_argument("--name", default="model")
    parser.add_argument("--shards", type=int, nargs="+", default=[4, 10])
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--fitted", type=int, default=30_000, help="Users that directions are fitted to.")
    asked = parser.parse_args()
    items = np.load(asked.items, mmap_mode="r")
    users = np.load(asked.users, mmap_mode="r")
    queries = np.array(users[: asked.queries])
    fitted = np.array(users[asked.queries : asked.queries + asked.fitted])
    for row in measure(asked.name, np.array(items), fitted, queries, asked.shards):
        print(json.dumps(row), flush=True)


def measure(
    name: str, items: Floats, fitted: Floats, queries: Floats, numbers: Sequence[int]
) -> Iterator[dict[str, object]]:
    """Yield a row for each number of shards, way of splitting and budget."""
    whole = Whole(Axes(items, fitted), items.mean(axis=0, dtype=np.float64).astype(np.float32))
    one = GreedyIndex.build(items, queries=fitted, directions="auto")
    truth = [result.ids for result in one.search_batch(queries, 10, len(items))]
    print(f"{name}: {one.directions}, {one.screening}", file=sys.stderr, flush=True)

    def recall(found: Sequence[Ids]) -> float:
        return round(float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, truth, strict=True)])), 4)

    single = {budget: recall([r.ids for r in one.search_batch(queries, 10, budget)]) for budget in BUDGETS}
    for number in numbers:
        places = Places.of(deal(items, number), number)
        shards = [
            one.of_others(np.ascontiguousarray(items[places.in_shard(shard)]), fitted, centre=whole.centre)
            for shard in range(number)
        ]
        sharded = ours = ShardedIndex(shards, places)
        if one.screening.variant == "walk":
            ours = ShardedIndex([shard.without_graph() for shard in shards], places, ItemMap.of(one))
        for budget in BUDGETS:
            found = {
                "ours": [r.ids for r in ours.search_batch(queries, 10, budget)],
                "equal": [r.ids for r in sharded.search_batch(queries, 10, budget)],
                "heads": [_search(sharded, query, _by_heads(sharded, query, budget)) for query in queries],
                "rounds": [_search(sharded, query, _by_rounds(sharded, query, budget)) for query in queries],
            }
            row = {"model": name, "shards": number, "budget": budget, "one": single[budget]}
            yield row | {way: recall(ids) for way, ids in found.items()}


def _search(sharded: ShardedIndex, query: Floats, shares: Sequence[int]) -> Ids:
    asked = [number for number, share in enumerate(shares) if share]
    results = [sharded.shards[number].search(query, 10, shares[number]) for number in asked]
    own = [sharded.places.in_shard(number) for number in asked]
    return merge_results(results, own, 10, eligible=sharded.n_items, complete=False).ids


def _by_heads(sharded: ShardedIndex, query: Floats, budget: int) -> list[int]:
    """Return shares in proportion to the largest list entries: the lists are those of the first round trip."""
    depth = max(1, HEADS_PER_PRODUCT * budget // len(query))
    heads = []
    for shard in sharded.shards:
        arrays, _ = shard.to_arrays()
        axes = arrays.get("axes")
        weights = query if axes is None else axes[:, : len(query)] @ query
        rows = 2 * np.arange(len(weights)) + (weights < 0)
        heads.append((np.abs(weights)[:, None] * arrays["list_values"][rows, : 4 * depth]).ravel())
    n = HEADS_PER_PRODUCT * budget
    everything = np.concatenate(heads)
    bound = np.partition(everything, -n)[-n] if len(everything) > n else -np.inf
    weights = [int((own >= bound).sum()) + 1 for own in heads]
    return _in_proportion(budget, weights)


def _by_rounds(sharded: ShardedIndex, query: Floats, budget: int) -> list[int]:
    first = split_budget(budget // 2, sharded.places.sizes)
    best = _search(sharded, query, first)
    weights = (np.bincount(sharded.places.shard[best], minlength=len(first)) + 1).tolist()
    return [a + b for a, b in zip(first, _in_proportion(budget - sum(first), weights), strict=True)]


def _in_proportion(budget: int, weights: Sequence[int]) -> list[int]:
    total = sum(weights)
    shares = [budget * weight // total for weight in weights]
    for number in range(budget - sum(shares)):
        shares[number] += 1
    return shares


if __name__ == "__main__":
    main()
