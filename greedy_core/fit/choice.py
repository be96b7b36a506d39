"""Choice: which of several indexes, and which way of screening, serves a sample of queries best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

import numpy as np

from greedy_core.fit.trial import COMPARED, IndexT, Sample, budgets_for, screenings, seconds_per_search, try_out
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core.embeddings import Float32Array

# The recalls that people ask for, and at which a way of screening is timed.
LEVELS = (0.80, 0.90, 0.95, 0.99)
# Enough to tell ways apart, since all get the same queries.
_BUDGETS = (16, 64, 256, 1024, 4096)
_TIMED = 40
# For vectors so flat that nothing less says enough about them.
_DEEPEST = Screening("sum", 256)


@dataclass(frozen=True)
class Way(Generic[IndexT]):
    """An index with its way of screening, and how long it takes to each recall of LEVELS: no longer than a scan."""

    index: IndexT
    seconds: tuple[float, ...]

    @property
    def slowness(self) -> float:
        """The mean of the logarithms: twice as fast at one recall is worth twice as slow at another."""
        return float(np.mean(np.log(self.seconds)))


def choose(indexes: Sequence[IndexT], queries: Float32Array) -> IndexT:
    """Return the index, of these and their ways of screening, that takes least time to the recalls people ask for.

    The queries are vectors that nobody has met: known users remember their best items and are served well by any.
    """
    return min(compare(indexes, queries), key=lambda way: way.slowness).index


def compare(indexes: Sequence[IndexT], queries: Float32Array) -> list[Way[IndexT]]:
    """Return every way of screening with its times."""
    sample = Sample.of(indexes[0], queries[:COMPARED])
    scan = seconds_per_search(indexes[0], sample.queries[:_TIMED], indexes[0].n_items)
    ways = []
    for index in indexes:
        # An index with a graph is there for its walk; its lists are those of another index.
        by_lists = [way for way in [*screenings(index), _DEEPEST] if way.variant != "walk"]
        for screening in [Screening("walk")] if index.has_graph else by_lists:
            tried = index.screened_by(screening)
            ways.append(Way(tried, _seconds_to_recalls(tried, sample, scan)))
    return ways


def _seconds_to_recalls(index: IndexT, sample: Sample, scan: float) -> tuple[float, ...]:
    """Return how long a search takes to each recall of LEVELS, or the time of a scan where that is shorter."""
    recalls, seconds = [0.0], [0.0]
    for budget in budgets_for(index):
        if budget not in _BUDGETS:
            continue
        recalls.append(max(recalls[-1], float(try_out(index, sample, [budget], known=False).recalls.mean())))
        seconds.append(max(seconds[-1], seconds_per_search(index, sample.queries[:_TIMED], budget)))
        if recalls[-1] >= LEVELS[-1] or seconds[-1] >= scan:
            break
    times = []
    for level in LEVELS:
        reached = next((i for i, recall in enumerate(recalls) if recall >= level), None)
        if reached is None:
            times.append(scan)
            continue
        share = (level - recalls[reached - 1]) / max(recalls[reached] - recalls[reached - 1], 1e-9)
        low = seconds[reached - 1] or seconds[reached]
        times.append(min(scan, math.exp(math.log(low) + share * math.log(seconds[reached] / low))))
    return tuple(times)
