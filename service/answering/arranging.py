"""How a page is to be made of what was found, where a question says so: scenario, rules, place, fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from greedy_core import Rules, SearchResult, apply_rules, page_of, popular_parts, popular_with_rules, rule_candidates

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from greedy_core import AppliedRules, Collected, Fallback
    from service.answering.search import Search
    from service.models.model import Model

# More candidates than this, or a page that ends further down, take too long for the event loop; with diversity sooner.
MANY_CANDIDATES, MANY_COMPARED = 2048, 1024
FAR_DOWN, FAR_COMPARED = 100, 20
# In a larger model it takes long to find popular items that no cap leaves out.
MANY_ITEMS = 50_000


class Arrangement(NamedTuple):
    """What a question says beside who, how much and until when.

    scenario  its name, if one was named
    offset    places before the page; None if the question does not say
    fallback  None: what the settings say
    """

    scenario: str | None = None
    rules: Rules = Rules()
    offset: int | None = None
    fallback: Fallback | None = None

    @property
    def is_plain(self) -> bool:
        """Whether a page is the first of what is found, as if nothing had been said."""
        return not self.rules and self.offset is None

    def is_long(self, top_k: int, budget: int, model: Model) -> bool:
        """Whether the page takes too long for the event loop."""
        end, rules = (self.offset or 0) + top_k, self.rules
        if rules.diversity and (end > FAR_COMPARED or budget > MANY_COMPARED):
            return True
        if rules.at_most and model.n_items > MANY_ITEMS:
            return True
        return end > FAR_DOWN or (bool(rules) and budget > MANY_CANDIDATES)

    def fallback_filter(self, own: str | None) -> str | None:
        """Return the filter that popular items have to pass, where a question has a filter of its own or none."""
        if self.fallback is None or self.fallback.filter is None:
            return own
        return self.fallback.filter if own is None else f"({own}) and ({self.fallback.filter})"


class Arranged(NamedTuple):
    """What the rules did to a page."""

    applied: AppliedRules
    collected: Collected


def apply(search: Search, arrangement: Arrangement) -> AppliedRules:
    """Return what the rules, which were checked, say about the model's items."""
    model = search.model
    return apply_rules(
        arrangement.rules,
        model.attributes,
        model.bundle.item_positions,
        search.let_through.__getitem__,
        excluded=search.excluded,
        eligible=search.eligible,
        products=search.index.products,
    )


def candidates(
    search: Search, arrangement: Arrangement, query: npt.NDArray[np.float32]
) -> tuple[AppliedRules, SearchResult]:
    """Find what the page is to be made of. Touches nothing shared, so it may run in any thread."""
    applied = apply(search, arrangement)
    found = rule_candidates(
        search.index,
        query,
        applied,
        page_end=(arrangement.offset or 0) + search.question.top_k,
        budget=search.grant.granted,
        exclude=search.excluded,
        remembered=search.hint,
        eligible=search.eligible,
    )
    return applied, found


def page(
    search: Search, arrangement: Arrangement, applied: AppliedRules, found: SearchResult
) -> tuple[SearchResult, Arranged]:
    """Make the page of candidates. Touches nothing shared, so it may run in any thread."""
    made = page_of(
        found,
        applied,
        top_k=search.question.top_k,
        offset=arrangement.offset or 0,
        budget=search.grant.granted,
        more=popular_parts(search.model.bundle.popular, search.excluded, search.eligible),
    )
    return made.result, Arranged(applied, made.collected)


def popular_arranged(search: Search, arrangement: Arrangement) -> Arranged:
    """Make the page of popular items."""
    applied = apply(search, arrangement)
    collected = popular_with_rules(
        search.model.bundle.popular,
        applied,
        top_k=search.question.top_k,
        offset=arrangement.offset or 0,
        excluded=search.excluded,
        eligible=search.eligible,
    )
    return Arranged(applied, collected)


def receipt(arrangement: Arrangement, arranged: Arranged | None) -> bytes:
    """Return what an answer says of the arrangement, as members of its JSON."""
    said: dict[str, Any] = {}
    if arrangement.scenario is not None:
        said["scenario"] = arrangement.scenario
    if arrangement.offset is not None:
        said["offset"] = arrangement.offset
    if arranged is not None and arrangement.rules:
        said["rules"] = arranged.applied.receipt(arranged.collected)
    return b"," + orjson.dumps(said)[1:-1] if said else b""
