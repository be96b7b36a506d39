"""A search under rules: one budget for the candidates and for what diversity compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core.popular import popular_parts
from greedy_core.rules.collecting import collect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.result import SearchResult
    from greedy_core.rules.applying import AppliedRules
    from greedy_core.rules.collecting import Collected
    from greedy_core.shards.index import AnyIndex

    Positions = npt.NDArray[np.int32]

# Under a filter so many candidates are sure, if the budget has as many products, and what else is found depends on the
# number: it is the same for all pages of a ranking.
PAGE = 10
# Of this many products of a budget one is kept for diversity.
_RESERVE = 2


class RuledResult(NamedTuple):
    """The page as a search returns it (scores are NaN where there are none), and what the rules did."""

    result: SearchResult
    collected: Collected


def search_with_rules(
    index: AnyIndex,
    query: npt.ArrayLike,
    applied: AppliedRules,
    *,
    top_k: int = 10,
    offset: int = 0,
    budget: int,
    exclude: Positions | None = None,
    remembered: Positions | None = None,
    eligible: Eligible | None = None,
    more: Iterator[Positions] | None = None,
) -> RuledResult:
    """Return a page of the ranking that the candidates of one search have under rules.

    more  what stands in where a cap leaves candidates out and the page is not full, see `greedy_core.popular`

    Spends at most `budget` products, those that compare items with one another included.
    """
    found = rule_candidates(
        index,
        query,
        applied,
        page_end=offset + top_k,
        budget=budget,
        exclude=exclude,
        remembered=remembered,
        eligible=eligible,
    )
    return page_of(found, applied, top_k=top_k, offset=offset, budget=budget, more=more)


def rule_candidates(
    index: AnyIndex,
    query: npt.ArrayLike,
    applied: AppliedRules,
    *,
    page_end: int,
    budget: int,
    exclude: Positions | None = None,
    remembered: Positions | None = None,
    eligible: Eligible | None = None,
) -> SearchResult:
    """Return what rules make a page of, which ends `page_end` places down the ranking: the first half of the search."""
    rules = applied.rules
    for_search = search_budget(index, budget, eligible) if rules.diversity else budget
    # Any candidate may be brought up, or is pinned and has a score; a page without rules needs no more than its places.
    wanted = budget if rules else page_end
    return index.search(query, wanted, for_search, exclude, None, remembered, eligible, PAGE)


def page_of(
    found: SearchResult,
    applied: AppliedRules,
    *,
    top_k: int = 10,
    offset: int = 0,
    budget: int,
    more: Iterator[Positions] | None = None,
) -> RuledResult:
    """Return the page that rules make of candidates, with what is left of the budget: the second half of the search."""
    collected = collect(
        found.ids,
        found.scores,
        applied.conditions,
        top_k=top_k,
        offset=offset,
        allowance=budget - found.spent,
        more=more if applied.rules.at_most and not found.complete else None,
    )
    spent = found.spent + collected.spent
    return RuledResult(found._replace(ids=collected.ids, scores=collected.scores, spent=spent), collected)


def popular_with_rules(
    popular: Positions,
    applied: AppliedRules,
    *,
    top_k: int = 10,
    offset: int = 0,
    excluded: Positions | None = None,
    eligible: Eligible | None = None,
) -> Collected:
    """Return a page of popular items: without scores there is nothing to boost, and nothing is spent on diversity."""
    nothing = np.empty(0, dtype=np.int32)
    collected = collect(
        nothing,
        nothing.astype(np.float32),
        applied.conditions,
        top_k=top_k,
        offset=offset,
        more=popular_parts(popular, excluded, eligible),
    )
    return collected._replace(filled=0)


def search_budget(index: AnyIndex, budget: int, eligible: Eligible | None = None) -> int:
    """Return what the search may spend of a budget that diversity takes part in; more of one is never less of it."""
    left = budget - budget // _RESERVE
    # A budget past the lists of an index is one that scores every item, or cannot be spent.
    count = index.n_items if eligible is None else eligible.count
    return left if left <= index.max_budget or left >= count else index.max_budget
