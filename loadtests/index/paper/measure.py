"""The truth, and the quality and time of one setting."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import ExactIndex
from loadtests.index.baselines import NaiveFullSort
from loadtests.index.paper.curves import Baseline, OurIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from loadtests.index.datasets import Dataset
    from loadtests.index.paper.curves import Searcher

TRUE_TOP = 20
TOP_K = 10
# Time is the thread's own, as in the paper's code (std::clock), so that other work on the machine counts little;
# queries are timed in pieces, and the median piece counts, so that a burst of it counts less.
clock = time.thread_time
PIECES = 16
FEWEST_QUERIES = 200
WARM_UP = 8


class Measured(NamedTuple):
    """One setting: quality (means over the queries), seconds and inner products for each query."""

    prec_5: float
    prec_10: float
    recall_10: float
    seconds: float
    products: float
    queries: int


def true_top(data: Dataset) -> NDArray[np.int32]:
    """Return the exact best TRUE_TOP items of every query, best first, on all cores."""
    index = OurIndex(ExactIndex.build(data.items))
    raw = index.index.search_batch(data.queries, top_k=TRUE_TOP, threads=os.cpu_count() or 1)
    return index.read(raw, TRUE_TOP).ids


def quality(ids: NDArray[np.int32], truth: NDArray[np.int32]) -> tuple[float, float, float]:
    """Return prec@5 and prec@10 as the paper has them, and recall@10. A missing place is a miss."""
    hit = (ids[:, :, None] == truth[:, None, :]) & (ids >= 0)[:, :, None]
    among_20 = hit.any(axis=2)
    among_10 = hit[:, :TOP_K, :TOP_K].any(axis=2)
    top = min(TOP_K, truth.shape[1])
    return float(among_20[:, :5].mean()), float(among_20[:, :TOP_K].mean()), float(among_10.sum(axis=1).mean() / top)


def measure(
    searcher: Searcher,
    data: Dataset,
    truth: NDArray[np.int32],
    seconds: float,
    naive: float,
    knobs: dict[str, Any],
) -> Measured:
    """Run the queries, piece by piece, until `seconds` are spent and enough are answered.

    A few queries warm up and tell how many make a piece. Two pieces are enough for a setting that takes longer than
    `naive`, our own scan: it is on no plot that matters.
    """
    queries = data.queries
    asked = searcher.ask(queries[:WARM_UP])
    start = clock()
    searcher.run(asked, TOP_K, **knobs)
    each = max((clock() - start) / min(WARM_UP, len(queries)), 1e-9)
    size = max(1, min(len(queries) // PIECES, max(WARM_UP, int(seconds / PIECES / each))))
    times, found = [], []
    for begin in range(0, len(queries), size):
        piece = np.ascontiguousarray(queries[begin : begin + size])
        asked = searcher.ask(piece)
        start = clock()
        raw = searcher.run(asked, TOP_K, **knobs)
        times.append((clock() - start) / len(piece))
        found.append(searcher.read(raw, TOP_K))
        answered = begin + len(piece)
        if answered >= FEWEST_QUERIES and sum(times) * size > seconds:
            break
        if len(times) == 2 and min(times) > naive and sum(times) * size > seconds / PIECES:
            break
    ids = np.concatenate([piece.ids for piece in found])
    products = np.concatenate([piece.products for piece in found])
    good = quality(ids, truth[:answered])
    return Measured(*good, float(np.median(times)), float(products.mean()), answered)


def naive_seconds(data: Dataset, seconds: float) -> tuple[float, float]:
    """Return the time of one query of the paper's kind of naive search, and of ours."""
    paper = _repeated(Baseline(NaiveFullSort.build(data.items)), data, seconds)
    ours = _repeated(OurIndex(ExactIndex.build(data.items)), data, seconds)
    return paper, ours


def _repeated(searcher: Searcher, data: Dataset, seconds: float) -> float:
    """Median time of single queries; a naive search takes the same for every query, so few are enough."""
    times: list[float] = []
    while len(times) < 5 or (sum(times) < seconds and len(times) < 50):
        asked = searcher.ask(data.queries[len(times) % len(data.queries)][None, :])
        start = clock()
        searcher.run(asked, TOP_K)
        times.append(clock() - start)
    return float(np.median(times))
