"""Answering with spans. A worker without traces never loads this module, and pays nothing for it.

request (FastAPI's span)
  ├─ admission   the granted budget and the query vector
  ├─ exclusions  the ids that the question leaves out, where there are any
  ├─ search      budget, spent, eligible, entries read
  │    └─ rules  the page that the rules of a shop make of what was found: what they did
  └─ writing     the answer's bytes and what is recorded
"""

from __future__ import annotations

import contextvars
from functools import partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Any

from opentelemetry.trace import get_current_span

from service.answering.answering import Answering
from service.answering.arranging import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.trace import TracerProvider

    from greedy_core import AppliedRules, SearchResult
    from service.answering.arranging import Arranged, Arrangement
    from service.answering.budgets import Grant
    from service.answering.question import Question
    from service.answering.resources import Resources
    from service.answering.search import Search
    from service.http.key_limits import KeyLimit
    from service.models.model import Model
    from service.settings import Settings
    from service.telemetry.metrics import Metrics

# Inside of a batch the parts of single questions have no spans of their own: there may be a thousand of them.
_in_batch: contextvars.ContextVar[bool] = contextvars.ContextVar("in_batch", default=False)


class TracedAnswering(Answering):
    """The answering part of a worker that is traced."""

    def __init__(
        self,
        settings: Settings,
        provider: TracerProvider,
        metrics: Metrics,
        resources: Resources | None = None,
        which: int = 0,
    ) -> None:
        super().__init__(settings, metrics, resources, which)
        self._span = provider.get_tracer("budgetrec").start_as_current_span

    def prepare(
        self, question: Question, grant: Grant | None = None, *, admitted: bool = False, model: Model | None = None
    ) -> Search:
        """Decide the budget, in a span."""
        if _in_batch.get():
            return super().prepare(question, grant, admitted=admitted, model=model)
        with self._span("admission") as span:
            search = super().prepare(question, grant, admitted=admitted, model=model)
            span.set_attribute("budgetrec.asked", search.grant.asked)
            span.set_attribute("budgetrec.budget", search.grant.granted)
            span.set_attribute("budgetrec.model", search.model.version)
            if self.arm is not None:
                span.set_attribute("budgetrec.arm", self.arm)
            if search.grant.reason is not None:
                span.set_attribute("budgetrec.degraded", search.grant.reason)
        return search

    def run(self, search: Search) -> SearchResult:
        """Search, in a span."""
        if search.question.exclude:
            with self._span("exclusions") as span:
                span.set_attribute("budgetrec.excluded", len(search.question.exclude))
                search.look_up()
        with self._span("search") as span:
            result = search.run(self._page)
            span.set_attribute("budgetrec.budget", search.grant.granted)
            span.set_attribute("budgetrec.spent", result.spent)
            span.set_attribute("budgetrec.eligible", result.eligible)
            span.set_attribute("budgetrec.entries_read", result.entries_read)
            span.set_attribute("budgetrec.complete", result.complete)
        return result

    def _page(
        self, search: Search, arrangement: Arrangement, applied: AppliedRules, found: SearchResult
    ) -> tuple[SearchResult, Arranged]:
        """Make a page by rules, in a span."""
        with self._span("rules") as span:
            result, arranged = page(search, arrangement, applied, found)
            if arrangement.scenario is not None:
                span.set_attribute("budgetrec.scenario", arrangement.scenario)
            span.set_attribute("budgetrec.candidates", len(found.ids))
            span.set_attribute("budgetrec.spent", result.spent - found.spent)
            span.set_attribute("budgetrec.changed_by", list(arranged.collected.changed))
        return result, arranged

    def _finish(self, search: Search, result: SearchResult, limit: KeyLimit | None, *, inline: bool = False) -> bytes:
        if _in_batch.get():
            return super()._finish(search, result, limit, inline=inline)
        with self._span("writing"):
            body = super()._finish(search, result, limit, inline=inline)
        context = get_current_span().get_span_context()
        if context.trace_flags.sampled:
            whole = perf_counter() - search.question.arrival
            self._metrics.exemplar(search.grant.granted, search.seconds, whole, f"{context.trace_id:032x}", time())
        return body

    async def prepare_batch(self, questions: Sequence[Question], places: Sequence[int]) -> list[Search | bytes]:
        """Prepare the questions of a batch, without spans."""
        token = _in_batch.set(True)
        try:
            return await super().prepare_batch(questions, places)
        finally:
            _in_batch.reset(token)

    async def answer_prepared(self, prepared: Sequence[Search | bytes], limit: KeyLimit | None) -> list[bytes]:
        """Answer many questions, with spans for all of them together."""
        token = _in_batch.set(True)
        try:
            with self._span("batch") as span:
                span.set_attribute("budgetrec.entries", len(prepared))
                return await super().answer_prepared(prepared, limit)
        finally:
            _in_batch.reset(token)

    def run_together(self, searches: Sequence[Search]) -> dict[int, SearchResult]:
        """Search for many, in a span."""
        with self._span("search") as span:
            results = super().run_together(searches)
            span.set_attribute("budgetrec.budget", sum(search.grant.granted for search in searches))
            span.set_attribute("budgetrec.spent", sum(result.spent for result in results.values()))
            span.set_attribute("budgetrec.entries_read", sum(result.entries_read for result in results.values()))
        return results

    async def _in_thread(self, function: Any, argument: Any, searches: Sequence[Search]) -> Any:
        # A thread does not know the request that it works for, unless it is told.
        return await super()._in_thread(partial(contextvars.copy_context().run, function), argument, searches)
