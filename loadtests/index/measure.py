"""How the benchmarks measure: side by side, one thread, best of several rounds, quality next to time.

The machines are noisy, so all contestants take turns within each round, and what counts is the ratio of their best.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core import ExactIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Search = Callable[[NDArray[np.float32]], object]

# The paper's truth: prec@5 and prec@10 count a hit in the true top 20.
TRUTH = 20


def one_thread() -> None:
    """Hold BLAS and OpenMP to one thread for the rest of the process."""
    threadpool_limits(1)


def best_seconds(contestants: Mapping[str, Search], queries: NDArray[np.float32], rounds: int = 5) -> dict[str, float]:
    """Return for each contestant the mean seconds per query in its best round, after one round to warm up."""
    best = dict.fromkeys(contestants, float("inf"))
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds + 1):
            for name, search in contestants.items():
                start = time.perf_counter()
                for query in queries:
                    search(query)
                elapsed = (time.perf_counter() - start) / len(queries)
                if turn > 0:
                    best[name] = min(best[name], elapsed)
    finally:
        gc.enable()
    return best


def true_top(items: NDArray[np.float32], queries: NDArray[np.float32], top_k: int = TRUTH) -> NDArray[np.int32]:
    """Return the exact best items of each query, (n_queries, top_k)."""
    results = ExactIndex.build(items).search_batch(queries, top_k=top_k, threads=2)
    return np.stack([result.ids for result in results])


def recall_at_10(found: Sequence[NDArray[np.int32]], truth: NDArray[np.int32]) -> float:
    """Return the share of the true top 10 that the first 10 found have, the strict measure."""
    hits = [len(np.intersect1d(ids[:10], best[:10])) for ids, best in zip(found, truth, strict=True)]
    return float(np.mean(hits)) / min(10, truth.shape[1])


def precision(found: Sequence[NDArray[np.int32]], truth: NDArray[np.int32], top_k: int) -> float:
    """Return the paper's prec@top_k: the share of the first `top_k` found that are in the true top 20."""
    hits = [len(np.intersect1d(ids[:top_k], best[:TRUTH])) for ids, best in zip(found, truth, strict=True)]
    return float(np.mean(hits)) / top_k
