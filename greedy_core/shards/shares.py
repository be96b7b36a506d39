"""Shares: how one budget is split over the shards.

Think of the budget as handed out one product at a time, in an order that does not depend on how many there are. Then no
share falls when the budget grows, and as the candidates of each shard are nested, so are those of all together; and
shares never sum up to more than the budget.

    1. a product for each remembered item, in their order, to the shard that has it: as one index would spend them
    2. the others in proportion to the items that each shard has to offer, by the rule of Sainte-Lague, which is known
       from elections: the next goes to the shard with the largest n / (2 a + 1), n its items and a what it has got
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Quotients are compared as whole numbers, so that all machines agree on ties.
_SCALE = 1 << 48


def split_budget(budget: int, sizes: Sequence[int], first: Sequence[int] = ()) -> list[int]:
    """Return the share of each shard: never more than its items, and together the budget or all items.

    sizes  how many items of each shard may be found
    first  the shards of the remembered items, the best first; of a shard no more than it has items
    """
    shares = [0] * len(sizes)
    for shard in first[:budget]:
        shares[shard] += 1
    left = budget - sum(shares)
    if left > 0:
        offered = [size - share for size, share in zip(sizes, shares, strict=True)]
        shares = [share + more for share, more in zip(shares, _in_proportion(left, offered), strict=True)]
    return shares


def _in_proportion(products: int, sizes: Sequence[int]) -> list[int]:
    """Hand products out by the quotients: all above a bound at once, and what is missing or too much one by one."""
    total = sum(sizes)
    if products >= total:
        return list(sizes)
    # With this bound shares are their quotas, rounded: they miss the number by less than one for each shard.
    bound = max(1, _SCALE * total // (2 * products))
    shares = [(size * _SCALE // bound + 1) // 2 for size in sizes]
    missing = products - sum(shares)
    if missing > 0:
        next_best = [
            (-_quotient(size, share), shard) for shard, (size, share) in enumerate(zip(sizes, shares, strict=True))
        ]
        heapq.heapify(next_best)
        for _ in range(missing):
            _, shard = next_best[0]
            shares[shard] += 1
            heapq.heapreplace(next_best, (-_quotient(sizes[shard], shares[shard]), shard))
    elif missing < 0:
        worst = [
            (_quotient(size, share - 1), -shard)
            for shard, (size, share) in enumerate(zip(sizes, shares, strict=True))
            if share
        ]
        heapq.heapify(worst)
        for _ in range(-missing):
            _, negative = worst[0]
            shard = -negative
            shares[shard] -= 1
            if shares[shard]:
                heapq.heapreplace(worst, (_quotient(sizes[shard], shares[shard] - 1), negative))
            else:
                heapq.heappop(worst)
    return shares


def _quotient(size: int, share: int) -> int:
    """Return the claim of a shard that has got a share to the next product."""
    return size * _SCALE // (2 * share + 1)
