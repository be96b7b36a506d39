"""Guides: whether walks under a filter go on from what is not eligible, or pass it (see native/filtered_walk.h).

Which of the two finds more depends on how soon estimates lead to the best items: on the model, and hardly on the
filter. So it is tried where the ways differ most, with a tenth of the items at random.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from greedy_core.eligible import Eligible
from greedy_core.fit.trial import SEED

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.trial import Searchable

_QUERIES, _TOP_K, _BUDGET = 64, 10, 128
_SHARE = 10


def finds_more(one: Searchable, other: Searchable, queries: Float32Array) -> bool:
    """Return whether the first index finds no less than the second, under a filter where both walk."""
    n_items = one.n_items
    # More than are all estimated, whatever the way.
    count = n_items // _SHARE
    if count < _TOP_K:
        return False
    eligible = Eligible.from_positions(np.random.default_rng(SEED).permutation(n_items)[:count], n_items)
    asked = np.ascontiguousarray(queries[:: -(-len(queries) // _QUERIES)])
    truth = _found(one, asked, eligible, count)
    hits = [
        sum(
            len(np.intersect1d(ids, best))
            for ids, best in zip(_found(index, asked, eligible, _BUDGET), truth, strict=True)
        )
        for index in (one, other)
    ]
    return hits[0] >= hits[1]


def _found(index: Searchable, queries: Float32Array, eligible: Eligible, budget: int) -> list[npt.NDArray[np.int32]]:
    threads = os.cpu_count() or 1
    results = index.search_batch(queries, top_k=_TOP_K, budget=budget, threads=threads, eligible=eligible)
    return [result.ids for result in results]
