"""Budgeted maximum inner product search: the best items that a given number of inner products can find.

    items (n, d) ──► directions ──► lists: the items sorted along each direction, cut to max_budget + 1
                                      │
    query ──► weights per direction ──► screening: C(w), at most `budget` candidates ──► ranking ──► SearchResult
              (or a stored route)       (no inner product)                            (one each)     ids, scores,
                                                                                                     spent, complete

    from greedy_core import GreedyIndex
    index = GreedyIndex.build(items, queries=users, directions="learned")
    result = index.search(query, top_k=10, budget=256)

The algorithm is Greedy-MIPS (Yu, Hsieh, Lei, Dhillon: A Greedy Approach for Budgeted Maximum Inner Product Search).
Names follow the paper; `reference.py` is the paper in plain NumPy. GREEDY_CORE_KERNEL=avx512|avx2|plain forces an
instruction set; without it the best that the CPU has is used.
"""

import os

from greedy_core._kernel import use_instruction_set
from greedy_core.bundle import Bundle
from greedy_core.errors import (
    CalibrationError,
    CorruptModelError,
    FormatVersionError,
    GreedyCoreError,
    InvalidBudgetError,
    InvalidEmbeddingsError,
    InvalidQueryError,
    NotAModelError,
    StorageError,
    UnsupportedKernelError,
)
from greedy_core.exact import ExactIndex
from greedy_core.index import GreedyIndex
from greedy_core.result import SearchResult

__all__ = [
    "Bundle",
    "CalibrationError",
    "CorruptModelError",
    "ExactIndex",
    "FormatVersionError",
    "GreedyCoreError",
    "GreedyIndex",
    "InvalidBudgetError",
    "InvalidEmbeddingsError",
    "InvalidQueryError",
    "NotAModelError",
    "SearchResult",
    "StorageError",
    "UnsupportedKernelError",
]

if _forced := os.environ.get("GREEDY_CORE_KERNEL"):
    use_instruction_set(_forced)
