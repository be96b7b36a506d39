"""The methods on the plots, all behind one interface, each with the knobs that trace its curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from greedy_core import ExactIndex, GreedyIndex
from loadtests.index import baselines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from loadtests.index.datasets import Dataset

Knobs = dict[str, Any]


class Found(NamedTuple):
    """What a batch gave: ids (n_queries, top_k), -1 where nothing was found, and inner products for each query."""

    ids: NDArray[np.int32]
    products: NDArray[np.int64]


class Searcher(Protocol):
    """A built method. `run` is what is timed; what comes before and after it is not."""

    def ask(self, queries: NDArray[np.float32]) -> Any:
        """Return what `run` is given for these queries."""

    def run(self, asked: Any, top_k: int, **knobs: Any) -> Any:
        """Answer the queries in one thread."""

    def read(self, raw: Any, top_k: int) -> Found:
        """Return what `run` found."""


class OurIndex:
    """GreedyIndex or ExactIndex."""

    def __init__(self, index: GreedyIndex | ExactIndex) -> None:
        self.index = index

    def ask(self, queries: NDArray[np.float32]) -> Any:
        """Find the items that a model has stored for its users."""
        return queries, self.index.remember(queries) if isinstance(self.index, GreedyIndex) else None

    def run(self, asked: Any, top_k: int, *, known: bool = False, **knobs: Any) -> Any:
        """Answer by one call of search_batch; known users remember their best items."""
        queries, remembered = asked
        return self.index.search_batch(
            queries, top_k=top_k, threads=1, remembered=remembered if known else None, **knobs
        )

    def read(self, raw: Any, top_k: int) -> Found:
        """Collect ids and receipts."""
        ids = np.full((len(raw), top_k), -1, dtype=np.int32)
        for row, result in enumerate(raw):
            ids[row, : len(result.ids)] = result.ids
        return Found(ids, np.array([result.spent for result in raw], dtype=np.int64))


class Baseline:
    """A method of loadtests.index.baselines."""

    def __init__(self, method: baselines.Method) -> None:
        self.method = method

    def ask(self, queries: NDArray[np.float32]) -> Any:
        """Hand over the queries."""
        return queries

    def run(self, asked: Any, top_k: int, **knobs: Any) -> Any:
        """Answer by one call of query_batch."""
        return self.method.query_batch(asked, top_k, **knobs)

    def read(self, raw: Any, top_k: int) -> Found:
        """Hand over ids and products."""
        del top_k
        return Found(raw.ids, raw.products)


class Curve(NamedTuple):
    """A line on the plots.

    `settings(n_items, grid)` gives pairs of build knobs and all query knobs to try on that build. `build` makes a
    Searcher from a data set and build knobs, or raises ValueError where the data is not for this method.
    """

    name: str
    build: Callable[[Dataset, Knobs], Searcher]
    settings: Callable[[int, int], Iterator[tuple[Knobs, list[Knobs]]]]
    ours: bool = False


def powers(low: int, high: int, grid: int) -> list[int]:
    """Powers of two from 2^low to 2^high, every `grid`-th, the last always among them."""
    return [2**p for p in sorted(range(high, low - 1, -grid))]


def _budgets(most: int, **search: Any) -> Callable[[int, int], Iterator[tuple[Knobs, list[Knobs]]]]:
    """Budgets up to 2^most, of searches that are alike in everything else."""

    def settings(n_items: int, grid: int) -> Iterator[tuple[Knobs, list[Knobs]]]:
        budgets = powers(4, min(most, max(n_items // 4, 16).bit_length() - 1), grid)
        yield {"max_budget": max(budgets)}, [{"budget": budget, **search} for budget in budgets]

    return settings


def _paper_greedy(data: Dataset, knobs: Knobs) -> Searcher:
    return OurIndex(GreedyIndex.build(data.items, directions="axes", **knobs))


def _our_greedy(data: Dataset, knobs: Knobs) -> Searcher:
    # A fifth of a million users says as much about the directions as all of them.
    return OurIndex(GreedyIndex.build(data.items, queries=data.users[:200_000], directions="auto", **knobs))


def _baseline(method: type[baselines.Method]) -> Callable[[Dataset, Knobs], Searcher]:
    return lambda data, knobs: Baseline(method.build(data.items, **knobs))


def _pca(n_items: int, grid: int, **query: Any) -> Iterator[tuple[Knobs, list[Knobs]]]:
    deepest = min(15, n_items.bit_length() - 3)
    yield {"depth": deepest}, [{"depth": depth, **query} for depth in sorted(range(deepest, 1, -grid))]


def _lsh(n_items: int, grid: int, **build: Any) -> Iterator[tuple[Knobs, list[Knobs]]]:
    tables = [5, 20, 80][: 3 if grid < 3 else 2]
    # Buckets of a few items at most say nothing more.
    bits = [number for number in [5, 8, 11, 14, 17][:: min(grid, 2)] if 2**number <= n_items]
    yield {"bits": bits[-1], "tables": tables[-1], **build}, [{"bits": a, "tables": b} for a in bits for b in tables]


def _sampling(n_items: int, grid: int) -> Iterator[tuple[Knobs, list[Knobs]]]:
    samples = powers(6, min(17, (2 * n_items).bit_length()), grid)
    met = [{"samples": number} for number in samples]
    best = [{"samples": number, "budget": max(number // 10, 10)} for number in samples[::2]]
    yield {}, met + best


def _dwedge(n_items: int, grid: int) -> Iterator[tuple[Knobs, list[Knobs]]]:
    samples = powers(8, min(16, n_items.bit_length()), 2 if grid < 3 else grid)
    pairs = [(number, number // share) for number in samples for share in (4, 16, 64) if number // share >= 16]
    yield {"max_samples": max(samples)}, [{"samples": s, "budget": b} for s, b in pairs]


def _kmeans(n_items: int, grid: int) -> Iterator[tuple[Knobs, list[Knobs]]]:
    most = max(1, round(n_items**0.5) // 4)
    yield {}, [{"probes": probes} for probes in powers(0, most.bit_length() - 1, grid)]


GREEDY = "Greedy-MIPS"
# As `budgetrec build` makes it: for users of the model, and for a vector that it sees for the first time.
OURS = {"ours, known user": True, "ours, vector": False}
VARIANTS = {
    "improved, selection tree": "improved-tree",
    "improved, max-heap": "improved-heap",
    "original, selection tree": "original-tree",
}

# Figures 4 to 6. The first is the paper's own method as its section 5 runs it.
COMPARED = [
    Curve(GREEDY, _paper_greedy, _budgets(15, variant="improved-tree"), ours=True),
    Curve("PCA-MIPS", _baseline(baselines.PcaTree), _pca),
    Curve("LSH-MIPS", _baseline(baselines.Lsh), _lsh),
    Curve("Diamond-MSIPS", _baseline(baselines.Diamond), _sampling),
    Curve("Sample-MIPS", _baseline(baselines.Sample), _sampling),
    Curve("k-means MIPS", _baseline(baselines.KMeans), _kmeans),
    Curve("dWedge", _baseline(baselines.Dwedge), _dwedge),
    *(Curve(name, _our_greedy, _budgets(13, known=known), ours=True) for name, known in OURS.items()),
]
# Figure 3.
VARIANT_CURVES = [
    Curve(name, _paper_greedy, _budgets(15, variant=variant), ours=True) for name, variant in VARIANTS.items()
]
# For the summary only: the second reduction, and the slips of the code published with the paper.
CHECKS = [
    Curve("LSH-MIPS, eq. 3", _baseline(baselines.Lsh), lambda n, grid: _lsh(n, grid, transform="eq3")),
    Curve("LSH-MIPS, queries hashed otherwise", _baseline(baselines.Lsh),
          lambda n, grid: _lsh(n, grid, foreign_queries=True)),
    Curve("PCA-MIPS, root pivot at every level", _baseline(baselines.PcaTree),
          lambda n, grid: _pca(n, grid, root_pivots=True)),
]  # fmt: skip
