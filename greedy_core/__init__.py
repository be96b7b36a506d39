"""Budgeted maximum inner product search: the best items that a given number of inner products can find.

    items (n, d) ─┬► directions ──► lists: the items sorted along each direction, cut to max_budget + 1
                  └► graph: which items lead to which, and rows at two bits a coordinate
                         │
    query ──► screening: C(w), at most `budget` candidates ──► ranking ──► SearchResult
              (by lists: no product; by a walk over the         (one each)     ids, scores, spent, complete
              graph: 1/16 for each item met)
    a known user's best items are stored, and ranked first

    from greedy_core import GreedyIndex
    index = GreedyIndex.build(items, queries=users, directions="auto")
    result = index.search(query, top_k=10, budget=256)

Imports point downwards:

    build.py               the recipe: vectors -> index -> calibration -> bundle
    bundle/                the model on disk: manifest, storage, ids, texts, versions
    index.py exact.py      GreedyIndex and ExactIndex, on kernel_index.py
    fit/                   what is learned at build: directions, lists, graph, remembered items, choice, calibration
    formats/ embeddings.py reading files; the gate that every vector passes
    _kernel.pyx native/    the compiled search

The algorithm is Greedy-MIPS (Yu, Hsieh, Lei, Dhillon: A Greedy Approach for Budgeted Maximum Inner Product Search).
Names follow the paper; `reference.py` is the paper in plain NumPy. GREEDY_CORE_KERNEL=avx512|avx2|plain forces an
instruction set; without it the best that the CPU has is used.
"""

import os

from greedy_core._kernel import use_instruction_set
from greedy_core.build import build_bundle
from greedy_core.bundle.manifest import MANIFEST_NAME, Manifest, StoredFile, is_bundle, read_manifest
from greedy_core.bundle.opening import Bundle
from greedy_core.bundle.storage import verify_files
from greedy_core.bundle.version_names import check_version_name
from greedy_core.bundle.versions import VersionsFolder
from greedy_core.bundle.writing import write_bundle
from greedy_core.embeddings import as_query
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
from greedy_core.fit.calibration import Calibration, CalibrationPoint, calibrate
from greedy_core.fit.directions import KINDS as DIRECTION_KINDS
from greedy_core.formats import Embeddings, Seen, load_embeddings, load_seen, load_texts
from greedy_core.index import GreedyIndex
from greedy_core.result import SearchResult
from greedy_core.screening import Screening

__all__ = [
    "DIRECTION_KINDS",
    "MANIFEST_NAME",
    "Bundle",
    "Calibration",
    "CalibrationError",
    "CalibrationPoint",
    "CorruptModelError",
    "Embeddings",
    "ExactIndex",
    "FormatVersionError",
    "GreedyCoreError",
    "GreedyIndex",
    "InvalidBudgetError",
    "InvalidEmbeddingsError",
    "InvalidQueryError",
    "Manifest",
    "NotAModelError",
    "Screening",
    "SearchResult",
    "Seen",
    "StorageError",
    "StoredFile",
    "UnsupportedKernelError",
    "VersionsFolder",
    "as_query",
    "build_bundle",
    "calibrate",
    "check_version_name",
    "is_bundle",
    "load_embeddings",
    "load_seen",
    "load_texts",
    "read_manifest",
    "verify_files",
    "write_bundle",
]

if _forced := os.environ.get("GREEDY_CORE_KERNEL"):
    use_instruction_set(_forced)
