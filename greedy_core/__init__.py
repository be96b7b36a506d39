"""Budgeted maximum inner product search: the best items that a given number of inner products can find.

    items (n, d) ─┬► directions ──► lists: the items sorted along each direction, cut to max_budget + 1
                  └► graph: which items lead to which, and rows at two bits a coordinate, and two more
                         │
    query ──► screening: C(w), at most `budget` candidates ──► ranking ──► SearchResult
              (by lists: no product; by a walk over the         (one each)     ids, scores, spent, complete
              graph: 1/16 for each item met, and
              for each closer look)
    a known user's best items are stored, and ranked first

    from greedy_core import GreedyIndex
    index = GreedyIndex.build(items, queries=users, directions="auto")
    result = index.search(query, top_k=10, budget=256)

Imports point downwards:

    build.py               the recipe: vectors -> index -> calibration -> bundle
    shards/                one set of items in several bundles, searched as one
    recommendations.py     a whole night's answers, into a file
    training/              from interactions to vectors, and how good they are on real behaviour (quality.py)
    bundle/                the model on disk: manifest, storage, ids, texts, versions
    rules/ popular.py      a page of what was found, by the rules of a shop; what stands in where nothing was
    filters/ attributes/   what is known of items, and which of them may be ranked
    index.py exact.py      GreedyIndex and ExactIndex, on kernel_index.py
    fit/                   what is learned at build: directions, lists, graph, remembered items, choice, calibration
    similar.py             similar items by cosine: a second index, of the items at unit length
    fold_in.py             a vector for somebody who is not in the model
    formats/ embeddings.py reading files; the gate that every vector passes
    precision.py           in how many bits the items' rows are stored
    _kernel.pyx native/    the compiled search

The algorithm is Greedy-MIPS (Yu, Hsieh, Lei, Dhillon: A Greedy Approach for Budgeted Maximum Inner Product Search).
Names follow the paper; `reference.py` is the paper in plain NumPy. GREEDY_CORE_KERNEL=avx512|avx2|plain forces an
instruction set; without it the best that the CPU has is used.
"""

import os

from greedy_core._kernel import use_instruction_set
from greedy_core.attributes.attribute import Attribute, ListAttribute
from greedy_core.attributes.packing import KINDS as ATTRIBUTE_KINDS
from greedy_core.attributes.table import Attributes
from greedy_core.build import build_bundle
from greedy_core.bundle.manifest import MANIFEST_NAME, Manifest, StoredFile, is_bundle, read_manifest
from greedy_core.bundle.opening import Bundle
from greedy_core.bundle.storage import verify_files
from greedy_core.bundle.title_search import FoundItems
from greedy_core.bundle.version_names import check_version_name
from greedy_core.bundle.versions import VersionsFolder
from greedy_core.bundle.writing import write_bundle
from greedy_core.eligible import Eligible
from greedy_core.embeddings import as_query
from greedy_core.errors import (
    CalibrationError,
    CorruptModelError,
    FormatVersionError,
    GreedyCoreError,
    InvalidAttributesError,
    InvalidBudgetError,
    InvalidEmbeddingsError,
    InvalidEventsError,
    InvalidFilterError,
    InvalidQueryError,
    InvalidRulesError,
    InvalidScenariosError,
    NotAModelError,
    StorageError,
    UnsupportedKernelError,
)
from greedy_core.exact import ExactIndex
from greedy_core.filters.filter import CLOCK_SECONDS, Filter, clock
from greedy_core.fit.calibration import Calibration, CalibrationPoint, calibrate
from greedy_core.fit.directions import KINDS as DIRECTION_KINDS
from greedy_core.fold_in import FoldIn, MadeVector
from greedy_core.formats import (
    ID_COLUMNS,
    Embeddings,
    LoadedAttributes,
    Seen,
    load_attributes,
    load_embeddings,
    load_seen,
    load_texts,
)
from greedy_core.index import GreedyIndex
from greedy_core.popular import most_popular, popular_parts
from greedy_core.precision import PRECISIONS, Precision
from greedy_core.quality import MEANINGS as QUALITY_MEANINGS
from greedy_core.quality import Quality, QualityPoint, Scores
from greedy_core.recommendations import Order, Parts, Written, write_recommendations
from greedy_core.result import SearchResult
from greedy_core.rules.applying import AppliedRules, apply_rules, check_caps
from greedy_core.rules.collecting import Collected, Conditions, collect
from greedy_core.rules.reading import FALLBACK_TAKES, Fallback, read_boost, read_caps, read_fallback, read_pin
from greedy_core.rules.rules import (
    BOOSTS_TAKE,
    CAPS_TAKE,
    DIVERSITY_TAKES,
    LARGEST_FACTOR,
    LAST_PLACE,
    LEAST_FACTOR,
    MOST_BOOSTS,
    MOST_CAPS,
    MOST_PINS,
    PINS_TAKE,
    Boost,
    Pin,
    Rules,
)
from greedy_core.rules.scenario import LARGEST_FILE as LARGEST_SCENARIOS_FILE
from greedy_core.rules.scenario import Scenario, load_scenarios, read_scenarios
from greedy_core.rules.searching import RuledResult, page_of, popular_with_rules, rule_candidates, search_with_rules
from greedy_core.screening import Screening
from greedy_core.shards.building import ShardOrder, build_one_by_one, build_shard, build_shards, shard_bundle
from greedy_core.shards.index import AnyIndex, ShardedIndex, ShardQuestions
from greedy_core.similar import SimilarItems, SimilarQuery
from greedy_core.training import (
    MODEL_KINDS,
    Events,
    Interactions,
    ModelSettings,
    Trained,
    load_events,
    train,
)

__all__ = [
    "ATTRIBUTE_KINDS",
    "BOOSTS_TAKE",
    "CAPS_TAKE",
    "CLOCK_SECONDS",
    "DIRECTION_KINDS",
    "DIVERSITY_TAKES",
    "FALLBACK_TAKES",
    "ID_COLUMNS",
    "LARGEST_FACTOR",
    "LARGEST_SCENARIOS_FILE",
    "LAST_PLACE",
    "LEAST_FACTOR",
    "MANIFEST_NAME",
    "MODEL_KINDS",
    "MOST_BOOSTS",
    "MOST_CAPS",
    "MOST_PINS",
    "PINS_TAKE",
    "PRECISIONS",
    "QUALITY_MEANINGS",
    "AnyIndex",
    "AppliedRules",
    "Attribute",
    "Attributes",
    "Boost",
    "Bundle",
    "Calibration",
    "CalibrationError",
    "CalibrationPoint",
    "Collected",
    "Conditions",
    "CorruptModelError",
    "Eligible",
    "Embeddings",
    "Events",
    "ExactIndex",
    "Fallback",
    "Filter",
    "FoldIn",
    "FormatVersionError",
    "FoundItems",
    "GreedyCoreError",
    "GreedyIndex",
    "Interactions",
    "InvalidAttributesError",
    "InvalidBudgetError",
    "InvalidEmbeddingsError",
    "InvalidEventsError",
    "InvalidFilterError",
    "InvalidQueryError",
    "InvalidRulesError",
    "InvalidScenariosError",
    "ListAttribute",
    "LoadedAttributes",
    "MadeVector",
    "Manifest",
    "ModelSettings",
    "NotAModelError",
    "Order",
    "Parts",
    "Pin",
    "Precision",
    "Quality",
    "QualityPoint",
    "RuledResult",
    "Rules",
    "Scenario",
    "Scores",
    "Screening",
    "SearchResult",
    "Seen",
    "ShardOrder",
    "ShardQuestions",
    "ShardedIndex",
    "SimilarItems",
    "SimilarQuery",
    "StorageError",
    "StoredFile",
    "Trained",
    "UnsupportedKernelError",
    "VersionsFolder",
    "Written",
    "apply_rules",
    "as_query",
    "build_bundle",
    "build_one_by_one",
    "build_shard",
    "build_shards",
    "calibrate",
    "check_caps",
    "check_version_name",
    "clock",
    "collect",
    "is_bundle",
    "load_attributes",
    "load_embeddings",
    "load_events",
    "load_scenarios",
    "load_seen",
    "load_texts",
    "most_popular",
    "page_of",
    "popular_parts",
    "popular_with_rules",
    "read_boost",
    "read_caps",
    "read_fallback",
    "read_manifest",
    "read_pin",
    "read_scenarios",
    "rule_candidates",
    "search_with_rules",
    "shard_bundle",
    "train",
    "verify_files",
    "write_bundle",
    "write_recommendations",
]

if _forced := os.environ.get("GREEDY_CORE_KERNEL"):
    use_instruction_set(_forced)
