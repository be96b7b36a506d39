"""Recommendations for all users: `write_recommendations` against an exact batch by matrix product, in one run.

    python -m loadtests.index.batch --data topics --items 650000 --users 450000

The exact batch multiplies blocks of users with all items and takes the ten best of each row, on all cores; it is timed
on a sample of users, since all of them would take hours. Users beyond those of the data set are mixtures of two.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from greedy_core import Bundle, Calibration, Order, build_bundle, write_recommendations
from loadtests.index import datasets

TOP = 10


def more_users(users: np.ndarray, n: int, seed: int = 0) -> np.ndarray:
    """Return n users: those given, and mixtures of two where that is not enough."""
    if n <= len(users):
        return np.ascontiguousarray(users[:n])
    rng = np.random.default_rng(seed)
    one, other = (rng.integers(0, len(users), n - len(users)) for _ in range(2))
    share = rng.uniform(0.5, 1, (n - len(users), 1)).astype(np.float32)
    return np.concatenate([users, share * users[one] + (1 - share) * users[other]]).astype(np.float32)


def exact_batch(items: np.ndarray, users: np.ndarray, block: int) -> np.ndarray:
    """Return the ten best items of each user by matrix product: a block of users at a time on every core."""
    found = np.empty((len(users), TOP), dtype=np.int64)
    across = items.T

    def fill(start: int) -> None:
        scores = users[start : start + block] @ across
        found[start : start + block] = np.argpartition(scores, -TOP, axis=1)[:, -TOP:]

    # Choosing the best takes longer than the product, so that both are spread, and not the product by BLAS alone.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(fill, range(0, len(users), block)))
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m loadtests.index.batch", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", default="topics", choices=datasets.NAMES)
    datasets.add_arguments(parser)
    parser.add_argument("--users", type=int, default=450_000, help="users to recommend to (default: %(default)s)")
    parser.add_argument("--exact-users", type=int, default=512, help="users of the exact batch (default: %(default)s)")
    parser.add_argument("--recall", type=float, default=0.98, help="recall@10 to buy (default: %(default)s)")
    parser.add_argument("--bundle", type=Path, help="keep the model here, or use the one that is there")
    options = parser.parse_args(arguments)
    data = datasets.load(
        options.data,
        items=options.items,
        dims=options.dims,
        interactions=options.interactions,
        method=options.method,
        alpha=options.alpha,
    )
    with tempfile.TemporaryDirectory() as folder:
        place = options.bundle or Path(folder) / "model"
        if not place.exists():
            users = more_users(np.concatenate([data.users, data.queries]), options.users)
            began = perf_counter()
            build_bundle(place, items=data.items, users=users, similar=False, progress=True)
            print(f"built in {perf_counter() - began:.0f} s")
        report(Bundle.open(place), Path(folder), options.recall, options.exact_users)


def report(bundle: Bundle, folder: Path, recall: float, n_exact: int) -> None:
    calibration = Calibration.from_dict(bundle.calibration)
    users = np.asarray(bundle.user_vectors)
    sample = np.sort(np.random.default_rng(1).permutation(len(users))[:n_exact])
    items = np.ascontiguousarray(bundle.index.items)
    began = perf_counter()
    truth = exact_batch(items, users[sample], 64)
    exact = (perf_counter() - began) / len(sample)
    print(f"{bundle.n_items:,} items x {bundle.n_dims}, {bundle.n_users:,} users, {os.cpu_count()} cores")
    print(f"exact batch by matrix product: {1 / exact:,.0f} users/s on {len(sample)} users")
    print("| users | budget | recall@10 against exact search | seconds | users/s | times faster than the exact batch |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    budget = max(calibration.budget_for_recall(recall), TOP)
    began = perf_counter()
    write_recommendations(bundle, folder / "recs.parquet", Order(None, TOP, budget))
    seconds = perf_counter() - began
    found = pq.read_table(folder / "recs.parquet", columns=["item_id"])["item_id"].to_numpy().reshape(-1, TOP)
    row("known, to the file", budget, hit(truth, found[sample].astype(np.int64)), seconds, len(users), exact)
    budget = calibration.for_vectors.budget_for_recall(recall)
    few = np.ascontiguousarray(users[: min(20_000, len(users))])
    began = perf_counter()
    bundle.index.search_batch(few, TOP, budget, threads=os.cpu_count() or 1)
    seconds = perf_counter() - began
    results = bundle.index.search_batch(users[sample], TOP, budget, threads=os.cpu_count() or 1)
    row("vectors, in memory", budget, hit(truth, np.array([r.ids for r in results])), seconds, len(few), exact)


def hit(truth: np.ndarray, found: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(one, other)) for one, other in zip(truth, found, strict=True)]) / TOP)


def row(who: str, budget: int, recall: float, seconds: float, n: int, exact: float) -> None:
    rate = n / seconds
    print(f"| {n:,} {who} | {budget} | {recall:.4f} | {seconds:.1f} | {rate:,.0f} | {rate * exact:,.0f} |")


if __name__ == "__main__":
    main()
