"""Collecting: a page of candidates under rules, one place after the other.

A pure function: what it is given of the items (values, factors, products) may come from one model or from several.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core.rules.caps import Caps
from greedy_core.rules.diversity import Diversity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.rules.caps import Cap, Values
    from greedy_core.rules.diversity import Products

    Positions = npt.NDArray[np.int32]
    Scores = npt.NDArray[np.float32]
    # The factor on the score of each of some items.
    Factors = Callable[[Positions], npt.NDArray[np.float64]]

# Candidates whose values are looked up together.
_AT_ONCE = 256
_PART = 2048
# In place of a rank: of a pinned item that is no candidate, and of an item that stands in for candidates.
_UNSCORED, _STANDING_IN = -1, -2
_LARGEST = float(np.finfo(np.float32).max)


class Conditions(NamedTuple):
    """What rules say about the items of a model.

    pins      place -> item, all of which may come back
    factors   None where nothing is boosted
    products  of an item with others; needed for diversity
    """

    caps: Sequence[Cap] = ()
    factors: Factors | None = None
    diversity: float = 0.0
    products: Products | None = None
    pins: Mapping[int, int] = {}


class Collected(NamedTuple):
    """A page, and what each rule did to it.

    scores     after boosts; NaN for an item that was not scored
    spent      products that diversity cost
    boosted    items of the page with a factor on their score
    reordered  whether factors changed the order of the candidates down to the end of the page
    left_out   candidates that a cap left out before the end of the page; popular items, where there are no candidates
    filled     items of the page that stand in for those: popular ones, without a score
    diverse    how many places diversity decided, down to the end of the page
    moved      whether that changed anything
    placed     pins on the page
    crossed    pinned items that a cap leaves out
    """

    ids: Positions
    scores: Scores
    spent: int = 0
    boosted: int = 0
    reordered: bool = False
    left_out: int = 0
    filled: int = 0
    diverse: int = 0
    moved: bool = False
    placed: int = 0
    crossed: tuple[int, ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """The names of the rules without which the page would be another one."""
        did = {
            "at_most": self.left_out > 0,
            "diversity": self.moved,
            "boost": self.reordered,
            "pin": self.placed > 0,
        }
        return tuple(rule for rule, has in did.items() if has)


def collect(
    ids: Positions,
    scores: Scores,
    conditions: Conditions,
    *,
    top_k: int,
    offset: int = 0,
    allowance: int = 0,
    more: Iterator[Positions] | None = None,
) -> Collected:
    """Return the places from `offset` on, `top_k` of them, of the one ranking that candidates have under conditions.

    ids, scores  all candidates, the best first
    allowance    products that diversity may spend
    more         items beyond the candidates, in the order in which they stand in: where a cap leaves candidates out, or
                 where there are none
    """
    return _Collection(ids, scores, conditions, allowance, more).page(offset, top_k)


def boosted(scores: Scores, factors: npt.NDArray[np.float64]) -> Scores:
    """Return the scores with their factors: a score below zero is divided, so that no factor above 1 lowers an item."""
    raised = np.where(scores >= 0, scores * factors, scores / factors)
    return np.clip(raised, -_LARGEST, _LARGEST).astype(np.float32)


class _Collection:
    def __init__(
        self,
        ids: Positions,
        scores: Scores,
        conditions: Conditions,
        allowance: int,
        more: Iterator[Positions] | None,
    ) -> None:
        self._pins = conditions.pins
        self._pinned = set(conditions.pins.values())
        self._caps = Caps(conditions.caps)
        self._more = more
        self._order: npt.NDArray[np.intp] | None = None
        self._factors: npt.NDArray[np.float64] | None = None
        if conditions.factors is not None:
            self._factors = conditions.factors(ids)
            scores = boosted(scores, self._factors)
            self._order = np.lexsort((ids, -scores))
            ids, scores, self._factors = ids[self._order], scores[self._order], self._factors[self._order]
        self._ids, self._scores = ids, scores
        self._left_out = 0
        self._diversity: Diversity | None = None
        if conditions.diversity and conditions.products is not None and len(ids):
            self._diversity = Diversity(
                conditions.diversity, ids.tolist(), scores.tolist(), conditions.products, allowance
            )
        self._values: list[Values] = []  # of the first candidates; more are looked up as they are needed

    def page(self, offset: int, top_k: int) -> Collected:
        """Go through all places down to the end of the page."""
        end = offset + top_k
        pins, crossed = self._take_pins()
        # Of each place the rank of its candidate, or what else stands there.
        ranks: list[int] = []
        items: list[int] = []
        diverse = 0
        for rank, item in self._ranking(pins, end):
            ranks.append(rank)
            items.append(item)
            if self._diversity is not None:
                self._diversity.add(item)
                diverse += rank >= 0 and not self._diversity.ended
        found = np.array(items[offset:end], dtype=np.int32)
        mine = np.array(ranks[offset:end], dtype=np.intp)
        scores = np.full(len(found), np.nan, dtype=np.float32)
        scored = mine >= 0
        scores[scored] = self._scores[mine[scored]]
        return Collected(
            found,
            scores,
            spent=0 if self._diversity is None else self._diversity.spent,
            boosted=0 if self._factors is None else int(np.count_nonzero(self._factors[mine[scored]] != 1)),
            reordered=self._order is not None and _first_moved(self._order) < end,
            left_out=self._left_out,
            filled=int(np.count_nonzero(mine == _STANDING_IN)),
            diverse=diverse,
            moved=self._diversity is not None and self._is_moved(ranks, items),
            placed=sum(item in self._pinned for item in items[offset:end]),
            crossed=crossed,
        )

    def _is_moved(self, ranks: Sequence[int], items: Sequence[int]) -> bool:
        """Whether candidates stand in another order than that of their ranks."""
        plain = [rank for rank, item in zip(ranks, items, strict=True) if rank >= 0 and item not in self._pinned]
        return any(after < before for before, after in pairwise(plain))

    def _take_pins(self) -> tuple[dict[int, int], tuple[int, ...]]:
        """Count the pins before anything else; return those that fit together by place, and the others."""
        pins = dict(sorted(self._pins.items()))
        if not pins or not self._caps:
            return pins, ()
        values = self._caps.values(np.array(list(pins.values()), dtype=np.int32))
        crossed = []
        for (place, item), mine in zip(list(pins.items()), values, strict=True):
            if self._caps.fit(mine):
                self._caps.take(mine)
            else:
                crossed.append(item)
                del pins[place]
        return pins, tuple(crossed)

    def _ranking(self, pins: dict[int, int], end: int) -> Iterator[tuple[int, int]]:
        """Yield rank and item for each place."""
        rank_of = {}
        if self._pinned:
            where = np.flatnonzero(np.isin(self._ids, list(self._pinned)))
            rank_of = dict(zip(self._ids[where].tolist(), where.tolist(), strict=True))
        others = self._others()
        for place in range(1, end + 1):
            following = None if place in pins else next(others, None)
            if following is not None:
                yield following
            elif pins:
                # Where there is nothing else any more, the pins of later places come now.
                item = pins.pop(place if place in pins else min(pins))
                yield rank_of.get(item, _UNSCORED), item
            else:
                return

    def _others(self) -> Iterator[tuple[int, int]]:
        """Yield what is not pinned: candidates, and then what stands in."""
        ranks = self._by_score() if self._diversity is None else self._by_diversity(self._diversity)
        for rank in ranks:
            self._caps.take(self._values_of(rank))
            yield rank, int(self._ids[rank])
        if self._more is not None and (self._left_out or not len(self._ids)):
            yield from self._stand_ins(self._more)

    def _by_score(self) -> Iterator[int]:
        return (rank for rank in range(len(self._ids)) if self._fits(rank))

    def _by_diversity(self, diversity: Diversity) -> Iterator[int]:
        while (rank := diversity.pop(self._fits)) is not None:
            yield rank

    def _fits(self, rank: int) -> bool:
        if self._pinned and int(self._ids[rank]) in self._pinned:
            return False
        fits = self._caps.fit(self._values_of(rank))
        self._left_out += not fits
        return fits

    def _values_of(self, rank: int) -> Values:
        while rank >= len(self._values):
            start = len(self._values)
            self._values += self._caps.values(self._ids[start : start + _AT_ONCE])
        return self._values[rank]

    def _stand_ins(self, more: Iterator[Positions]) -> Iterator[tuple[int, int]]:
        known = self._pinned | set(self._ids.tolist())
        # In parts: what is used up while one is gone through is seen at once for all of the next.
        for some in (part[start : start + _PART] for part in more for start in range(0, len(part), _PART)):
            left = self._caps.that_may_fit(some)
            for item, values in zip(left.tolist(), self._caps.values(left), strict=True):
                if item in known:
                    continue
                if self._caps.fit(values):
                    self._caps.take(values)
                    yield _STANDING_IN, item
                elif not len(self._ids):
                    # Where there are no candidates, these are what caps leave out.
                    self._left_out += 1
            self._left_out += 0 if len(self._ids) else len(some) - len(left)


def _first_moved(order: npt.NDArray[np.intp]) -> int:
    """Return the first place whose candidate was elsewhere before; as many as there are if none."""
    moved = np.flatnonzero(order != np.arange(len(order)))
    return int(moved[0]) if len(moved) else len(order)
