"""Excluded items, few and many, in any order: never returned, and nothing else changes."""

import numpy as np
import pytest

from greedy_core import GreedyIndex
from greedy_core.screening import VARIANTS

RNG = np.random.default_rng(8)
ITEMS = RNG.normal(size=(5000, 6)).astype(np.float32)
QUERIES = RNG.normal(size=(5, 6)).astype(np.float32)
INDEX = GreedyIndex.build(ITEMS, directions="graph", max_budget=200)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n", [1, 3, 4, 5, 64, 1000, 4900])
def test_order_and_repetition_do_not_matter(variant, n):
    for query in QUERIES:
        free = INDEX.search(query, 20, 50, None, variant)
        # What the search would find comes first: it is what an exclusion changes most.
        others = np.setdiff1d(np.arange(5000), free.ids)
        sorted_once = np.sort(np.concatenate([free.ids, others])[:n]).astype(np.int32)
        twice = RNG.permutation(np.concatenate([sorted_once, sorted_once]))
        expected = INDEX.search(query, 20, 50, sorted_once, variant)
        for exclude in (twice, sorted_once[::-1].copy(), twice.tolist(), np.sort(twice)):
            found = INDEX.search(query, 20, 50, exclude, variant)
            assert found.ids.tolist() == expected.ids.tolist()
            assert not np.isin(found.ids, sorted_once).any()
            assert found.spent == 50
        # Nothing of it is left for the next search of this thread.
        assert INDEX.search(query, 20, 50, None, variant).ids.tolist() == free.ids.tolist()
