"""A budget is split over shards: the cap holds, no share falls, and each product goes where the rule says."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from greedy_core.shards.shares import split_budget

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=8)
LARGE = st.lists(st.integers(0, 10**9), min_size=1, max_size=30)


def one_by_one(budget, sizes, first):
    """Hand out each product by itself: the rule as it is written, in exact numbers."""
    shares = [0] * len(sizes)
    for shard in first[:budget]:
        shares[shard] += 1
    offered = [size - share for size, share in zip(sizes, shares, strict=True)]
    got = [0] * len(sizes)
    for _ in range(min(budget - sum(shares), sum(offered))):
        claims = [Fraction(size, 2 * own + 1) for size, own in zip(offered, got, strict=True)]
        got[claims.index(max(claims))] += 1
    return [share + more for share, more in zip(shares, got, strict=True)]


@st.composite
def splits(draw):
    sizes = draw(SIZES)
    items = [shard for shard, size in enumerate(sizes) for _ in range(size)]
    first = draw(st.permutations(items).map(lambda order: order[:12])) if items else []
    return draw(st.integers(1, 200)), sizes, first


@given(splits())
def test_it_is_the_rule_one_product_at_a_time(split):
    assert split_budget(*split) == one_by_one(*split)


@given(splits())
def test_all_of_the_budget_is_shared_or_all_items_are_paid_for(split):
    budget, sizes, first = split
    shares = split_budget(budget, sizes, first)
    assert sum(shares) == min(budget, sum(sizes))
    assert all(0 <= share <= size for share, size in zip(shares, sizes, strict=True))


@given(splits())
def test_no_share_falls_when_the_budget_grows(split):
    budget, sizes, first = split
    less, more = split_budget(budget, sizes, first), split_budget(budget + 1, sizes, first)
    assert all(a <= b for a, b in zip(less, more, strict=True))
    assert sum(more) - sum(less) == (1 if sum(sizes) > budget else 0)


@given(LARGE, st.integers(1, 10**6))
def test_it_holds_for_shards_of_any_size(sizes, budget):
    less, more = split_budget(budget, sizes), split_budget(budget + 1, sizes)
    assert sum(less) == min(budget, sum(sizes))
    assert all(a <= b <= size for a, b, size in zip(less, more, sizes, strict=True))


def test_equal_shards_get_equal_shares():
    assert split_budget(256, [1000] * 4) == [64] * 4
    assert split_budget(10, [1000] * 4) == [3, 3, 2, 2]


def test_a_filter_that_leaves_items_in_one_shard_sends_the_budget_there():
    assert split_budget(64, [0, 500, 0, 3]) == [0, 64, 0, 0]


def test_remembered_items_are_paid_for_first():
    assert split_budget(3, [100, 100], [1, 1, 1, 0]) == [0, 3]
    assert split_budget(8, [100, 100], [1, 1, 1, 0]) == [3, 5]


def test_a_thousand_shards_are_quickly_served():
    sizes = np.random.default_rng(0).integers(900_000, 1_100_000, 1000).tolist()
    shares = split_budget(4096, sizes)
    assert sum(shares) == 4096
    assert set(shares) <= {3, 4, 5}
