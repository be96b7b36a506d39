"""Choice: which of several indexes, and which way of screening, serves a sample of queries best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import numpy as np

from greedy_core.errors import CorruptModelError
from greedy_core.fit.trial import COMPARED, IndexT, Sample, budgets_for, screenings, try_out
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.trial import Tunable

# The recalls that people ask for, and at which ways of screening are compared.
LEVELS = (0.80, 0.90, 0.95, 0.99)
# For vectors so flat that nothing less says enough about them.
_DEEPEST = Screening("sum", 256)
# What a scan costs for each item, in list entries: rows that lie one after the other are fast to read.
_SCAN_COST = 4


@dataclass(frozen=True)
class Way(Generic[IndexT]):
    """An index with its way of screening, and what it costs to reach each recall of LEVELS: no more than a scan.

    Costs are counted (see Screening.cost) and not timed: the same vectors always give the same index.
    """

    index: IndexT
    costs: tuple[float, ...]

    @property
    def cost(self) -> float:
        """The geometric mean: half the cost at one recall is worth twice the cost at another."""
        return float(np.exp(np.mean(np.log(self.costs))))


class Compared(NamedTuple):
    """What is kept of a way that took part in a choice, for people to read.

    budgets  for each recall of LEVELS the recall, and the budget that reaches it; None where a scan is no dearer
    cost     the mean by which the choice is made, in list entries
    """

    screening: str
    directions: str
    budgets: tuple[tuple[float, int | None], ...]
    cost: float

    @classmethod
    def of(cls, way: Way[IndexT]) -> Compared:
        """Describe a way."""
        index, scan = way.index, _scan_cost(way.index)
        budgets = [None if cost >= scan else math.ceil(cost / index.screening.cost) for cost in way.costs]
        return cls(str(index.screening), index.directions, tuple(zip(LEVELS, budgets, strict=True)), round(way.cost, 1))

    @classmethod
    def from_info(cls, stored: object) -> tuple[Compared, ...]:
        """Return what JSON holds of several. Raises CorruptModelError."""
        try:
            found = [
                cls(
                    str(each["screening"]),
                    str(each["directions"]),
                    tuple((float(recall), None if n is None else int(n)) for recall, n in each["budgets"]),
                    float(each["cost"]),
                )
                for each in cast("Sequence[Mapping[str, Any]]", stored)
            ]
        except (KeyError, TypeError, ValueError) as reason:
            raise CorruptModelError(
                f"what the index says of its choice makes no sense: {reason}; build it again."
            ) from None
        return tuple(found)


def describe(ways: Sequence[Way[IndexT]]) -> tuple[Compared, ...]:
    """Return what is to be kept of all ways, the cheapest first."""
    return tuple(Compared.of(way) for way in sorted(ways, key=lambda way: way.cost))


def choose(indexes: Sequence[IndexT], queries: Float32Array) -> IndexT:
    """Return the index, of these and their ways of screening, that reaches the usual recalls at the least cost.

    The queries are taken as vectors that nobody has met: known users remember their best items and are served well by
    any.
    """
    return cheapest(compare(indexes, queries))


def best_walk(indexes: Sequence[IndexT], queries: Float32Array) -> IndexT:
    """Return the index, of several with a graph, whose walks reach the usual recalls at the least cost."""
    sample = Sample.of(indexes[0], queries[:: -(-len(queries) // COMPARED)])
    return cheapest([Way(index, costs_of_recalls(index, sample)) for index in indexes])


def cheapest(ways: Sequence[Way[IndexT]]) -> IndexT:
    """Return the index that costs least."""
    return min(ways, key=lambda way: way.cost).index


def compare(indexes: Sequence[IndexT], queries: Float32Array) -> list[Way[IndexT]]:
    """Return every way of screening with its costs, but those that read more than a scan for 256 candidates."""
    sample = Sample.of(indexes[0], queries[:COMPARED])
    ways = []
    for index in indexes:
        # An index with a graph is there for its walk: its lists are those of another index.
        by_lists = [way for way in [*screenings(index), _DEEPEST] if way.variant != "walk"]
        for screening in [Screening("walk")] if index.has_graph else by_lists:
            if screening.cost * 256 <= max(16 * index.n_items, 32 * 256):
                tried = index.screened_by(screening)
                ways.append(Way(tried, costs_of_recalls(tried, sample)))
    return ways


def _scan_cost(index: Tunable) -> float:
    return float(_SCAN_COST * index.n_items)


def costs_of_recalls(index: IndexT, sample: Sample) -> tuple[float, ...]:
    """Return what it costs to reach each recall of LEVELS, between budgets by their logarithm; a scan reaches all."""
    scan = _scan_cost(index)
    recalls, costs = [0.0], [1.0]
    for budget in budgets_for(index):
        cost = float(budget * index.screening.cost)
        if cost >= scan or recalls[-1] >= LEVELS[-1]:
            break
        recalls.append(max(recalls[-1], float(try_out(index, sample, [budget], known=False).recalls.mean())))
        costs.append(cost)
    # np.interp wants recalls that rise.
    rising = [i for i in range(len(recalls)) if i == 0 or recalls[i] > recalls[i - 1]]
    known = np.interp(LEVELS, [recalls[i] for i in rising], [np.log(costs[i]) for i in rising], right=np.log(scan))
    return tuple(float(min(np.exp(cost), scan)) for cost in known)
