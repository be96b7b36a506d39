"""Answering where the shards lie elsewhere: always in a thread, with a deadline that the shards are given."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, cast

from service import errors
from service.answering.answering import Answering
from service.cluster.scattered import ScatteredIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core import SearchResult
    from service.answering.question import Question
    from service.answering.search import Search

# Of the time until its deadline a request gives its shards so much: merging, writing and the way back take the rest.
SHARDS_SHARE = 0.8


class ClusterAnswering(Answering):
    """The answering part of an ingress."""

    def fold_costs(self) -> None:
        """Bring the cost law up to date; no search is for the event loop, which would wait for the shards."""
        super().fold_costs()
        self.inline_budget = self.short_budget = self._usual_budget = 0

    def run(self, search: Search) -> SearchResult:
        """Have the shards search; what did not come in time is left out, and the receipt says so."""
        if not isinstance(search.index, ScatteredIndex):
            return super().run(search)
        search.index = index = search.index.within(_seconds(search.question))
        result = super().run(search)
        (search.shards,) = index.counts or [(0, 0)]
        if _is_lost(search):
            raise _NobodyAnsweredError
        return result

    def _run_later(self, search: Search) -> SearchResult | None:
        try:
            return super()._run_later(search)
        except _NobodyAnsweredError:
            if search.question.deadline is None:
                raise errors.not_ready("no shard of the model answers") from None
            # There is time for the popular items.
            search.shards = None
            return None

    def run_together(self, searches: Sequence[Search]) -> dict[int, SearchResult]:
        """Have the shards search for all; each shard is asked once for all that want as many items."""
        asked = [search for search in searches if not search.is_popular and isinstance(search.index, ScatteredIndex)]
        times = [left for search in asked if (left := _seconds(search.question)) is not None]
        seconds = min(times, default=None)
        together: dict[tuple[int, int], tuple[ScatteredIndex, list[Search]]] = {}
        for search in asked:
            arrangement = search.question.arrangement
            ruled = arrangement is not None and not arrangement.is_plain
            key = (id(search), 0) if ruled else (id(search.model), search.question.top_k)
            if key not in together:
                together[key] = (cast("ScatteredIndex", search.index).within(seconds), [])
            index, group = together[key]
            search.index = index
            group.append(search)
        results = super().run_together(searches)
        for index, group in together.values():
            # Queries behind the last that any shard was asked have nothing to find.
            counts = [*index.counts, *[(0, 0)] * len(group)]
            for search, counted in zip(group, counts, strict=False):
                search.shards = counted
        if asked and all(_is_lost(search) for search in asked):
            raise errors.not_ready("no shard of the model answers")
        return results


class _NobodyAnsweredError(Exception):
    """All shards that were asked are late or gone."""


def _seconds(question: Question) -> float | None:
    remaining = question.remaining(perf_counter())
    return None if remaining is None else max(0.0, remaining) * SHARDS_SHARE


def _is_lost(search: Search) -> bool:
    return search.shards is not None and search.shards[0] > 0 and search.shards[1] == 0
