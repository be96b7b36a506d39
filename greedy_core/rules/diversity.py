"""Maximal marginal relevance: an item's likeness to those above it counts against its score.

    (1 - diversity) * score / |best score|  -  diversity * max(0, largest cosine with an item above)

What an item loses only grows as the page does. So its worth so far is the most that it can still be worth, and it need
not be compared before that is more than what any other is worth. A product is spent on each comparison, and one on an
item's own length. So that the first places are decided whatever happens, only as many candidates are compared at all as
the allowance has products for at ten places; behind these, and when it is used up, the rest follows by score.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    # The inner products of an item with others.
    Products = Callable[[int, npt.NDArray[np.int32]], npt.NDArray[np.float32]]


# Places that the allowance is to last for.
PLACES = 10


def pool_size(allowance: int) -> int:
    """Return how many candidates can be compared for PLACES places: each with all that were chosen, and with itself."""
    return (allowance + PLACES * (PLACES - 1) // 2) // PLACES


class Diversity:
    """Says which candidate comes next. Candidates are called by their rank: by score, the best is 0.

    spent  products so far
    ended  the rest follows by score
    """

    def __init__(
        self, strength: float, items: Sequence[int], scores: Sequence[float], products: Products, allowance: int
    ) -> None:
        """Begin with an empty page; `allowance` is the most products that may be spent."""
        self._strength = strength
        self._items = items
        scale = abs(scores[0]) if scores and scores[0] != 0 else 1.0
        self._worth = [(1 - strength) * score / scale for score in scores]
        self._products = products
        self._allowance = allowance
        self._room = pool_size(allowance)  # candidates that may still be looked at
        self.spent = 0
        self.ended = False
        self._above: list[int] = []  # items of the page so far
        self._squares: dict[int, float] = {}  # their products with themselves, and those of whoever was compared
        self._likeness: dict[int, tuple[float, int]] = {}  # rank -> largest cosine, with how many of the page
        self._compared: list[tuple[float, int]] = []  # a heap of (-worth, rank)
        self._next = 0  # the first rank that was never looked at

    def add(self, item: int) -> None:
        """Note that an item comes next on the page."""
        self._above.append(item)

    def pop(self, fits: Callable[[int], bool]) -> int | None:
        """Return the rank of the candidate that is worth most now, and forget it; None at the end.

        fits  whether a candidate may come next; one that may not never will again, and no product is spent on it
        """
        while not self.ended:
            rank = self._best(fits)
            if rank is None:
                self._end()
            elif self._likeness[rank][1] == len(self._above):
                return rank
            else:
                worth = self._compare(rank)
                heapq.heappush(self._compared, (0.0 if worth is None else -worth, rank))
                if worth is None:
                    self._end()
        while self._compared:
            rank = heapq.heappop(self._compared)[1]
            if fits(rank):
                return rank
        while self._next < len(self._items):
            self._next += 1
            if fits(self._next - 1):
                return self._next - 1
        return None

    def _end(self) -> None:
        """Go on by score alone: those that were looked at stand before all others."""
        self.ended = True
        self._compared = [(float(rank), rank) for _, rank in self._compared]
        heapq.heapify(self._compared)

    def _best(self, fits: Callable[[int], bool]) -> int | None:
        """Return the rank of whoever can be worth most, and take it out; None if nobody is left to be looked at."""
        while True:
            is_new = self._room > 0 and self._next < len(self._items)
            if is_new and self._compared:
                is_new = (-self._worth[self._next], self._next) < self._compared[0]
            if is_new:
                rank = self._next
                self._next += 1
            elif self._compared:
                rank = heapq.heappop(self._compared)[1]
            else:
                return None
            if fits(rank):
                if is_new:
                    self._room -= 1
                    self._likeness[rank] = 0.0, 0
                return rank

    def _compare(self, rank: int) -> float | None:
        """Return what a candidate is worth beside the page so far; None if there is no product left for it."""
        item = self._items[rank]
        likeness, done = self._likeness[rank]
        others = self._above[done:]
        asked = others if item in self._squares else [*others, item]
        unmeasured = [other for other in others if other not in self._squares]
        cost = len(asked) + len(unmeasured)
        if cost > self._allowance - self.spent:
            return None
        self.spent += cost
        for other in unmeasured:
            self._squares[other] = float(self._products(other, np.array([other], dtype=np.int32))[0])
        found = self._products(item, np.array(asked, dtype=np.int32)).tolist()
        if len(asked) > len(others):
            self._squares[item] = found.pop()
        mine = self._squares[item]
        for other, product in zip(others, found, strict=True):
            lengths = math.sqrt(mine) * math.sqrt(self._squares[other])
            if lengths > 0 and product / lengths > likeness:
                likeness = product / lengths
        self._likeness[rank] = likeness, len(self._above)
        return self._worth[rank] - self._strength * likeness
