"""Answering: decide the budget, search, write the answer, record what it cost.

    Question ──► prepare ──► Search ──► run ──► SearchResult ──► finish ──► JSON bytes
                 one budget,            the search itself,       answer, metrics,
                 before any work        inline or in a thread    cost law, monitor

`prepare` and `finish` run on the event loop's thread and touch shared state; `run` touches none and may run anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from greedy_core import InvalidQueryError, SearchResult
from service import errors
from service.answering.admission import Admission
from service.answering.answer import write_answer, write_popular
from service.answering.budgets import Budgets, Grant
from service.answering.cost import DEFAULT_A, CostLaw, CostMeter
from service.models.loading import AskedLately
from service.telemetry.recall_monitor import RecallMonitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from service.answering.admission import Load
    from service.answering.question import Question
    from service.http.key_limits import KeyLimit
    from service.models.model import Model
    from service.settings import Settings
    from service.telemetry.metrics import Metrics

# Questions kept for warming up the next model.
LATELY = 2048

# Looking up more ids than this takes as long as a long search, and goes to a thread with it.
MANY_IDS = 4000

# A question waits for at most this share of the time until its deadline: what comes out of a longer queue comes late.
DEADLINE_SHARE = 0.5

# Answers of a batch are written for so long before the loop may look after others.
SLICE_SECONDS = 0.005


class Search:
    """A prepared search: everything that `run` needs, and what was granted to it.

    query     None: there is nothing to search for, the popular items stand in; `fallback` says why
    """

    __slots__ = ("excluded", "fallback", "grant", "head", "hint", "model", "query", "question", "seconds", "started")

    def __init__(self, question: Question, model: Model, grant: Grant, started: float) -> None:
        self.question = question
        self.model = model
        self.grant = grant
        self.started = started
        self.head = b""
        self.query: npt.NDArray[np.float32] | None = None
        self.hint: npt.NDArray[Any] | None = None
        self.excluded: npt.NDArray[np.int32] | None = None
        self.fallback = ""
        self.seconds = 0.0


class Answering:
    """The answering part of one worker."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._metrics = metrics
        self.admission = Admission(settings)
        self._cost = CostMeter()
        self.law: CostLaw = self._cost.law
        self.inline_budget = 0  # up to here a search runs on the loop
        self._plain_budget = 0  # up to here, and nothing lowers it but overload
        self.model: Model | None = None
        self._lately: deque[tuple[str | None, npt.NDArray[np.float32] | None, int, int]] = deque(maxlen=LATELY)
        self.monitor = RecallMonitor(settings, metrics)
        self._is_checked = self.monitor.due
        self._budgets = Budgets(settings)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self._inline_seconds = settings.inline_ms / 1000
        self._default_budget = settings.default_budget
        self._max_budget = settings.max_budget
        self._popular = settings.unknown_user == "popular"
        self.fold_costs()

    @property
    def asked_lately(self) -> Sequence[AskedLately]:
        """A copy of questions answered lately, for the warm-up of the next model."""
        return [AskedLately(*asked) for asked in self._lately]

    def use(self, model: Model) -> None:
        """Serve this model from the next request on."""
        if self.model is None or self.model.version != model.version:
            self._cost.start_from(CostLaw.calibrated(model.calibration))
        self.model = model
        self.fold_costs()

    def fold_costs(self) -> None:
        """Bring the cost law up to date; called a few times a second."""
        self.law = self._cost.fold()
        self.inline_budget = int(self._inline_seconds / self.law.b)
        if self.model is not None:
            self._plain_budget = min(self.inline_budget, self._max_budget, self.model.max_budget)

    def close(self) -> None:
        """Stop the threads; waits for running searches."""
        self.monitor.close()
        self._threads.shutdown()

    # ---- one question

    def expected_products(self, question: Question, now: float) -> int | None:
        """Return what a question will probably get, None if it is not for the event loop: too long, or no model."""
        model = self.model
        if model is None or len(question.exclude) > MANY_IDS:
            return None
        plain = self._plain(question)
        if plain:
            return plain
        granted = self._grant(question, model, now, admitted=True).granted
        return granted if granted <= self.inline_budget else None

    def answer_inline(self, question: Question, limit: KeyLimit | None) -> bytes:
        """Answer a question that was admitted to the event loop."""
        search = self.prepare(question, admitted=True)
        if limit is not None:
            limit.take(search.grant.granted, search.started)
        if search.query is None:
            return self._finish_popular(search, limit)
        return self._finish(search, self.run(search), limit, inline=True)

    async def answer(self, question: Question, limit: KeyLimit | None = None) -> bytes:
        """Answer one question; long searches go to a thread and leave the loop to others."""
        search = self.prepare(question)
        if limit is not None:
            limit.take(search.grant.granted, search.started)
        if search.query is None:
            return self._finish_popular(search, limit)
        if search.grant.granted <= self.inline_budget and len(question.exclude) <= MANY_IDS:
            return self._finish(search, self.run(search), limit, inline=True)
        result = await self._in_thread(self._run_later, search, [search])
        if result is None:
            search.fallback = "deadline"
            return self._finish_popular(search, limit)
        return self._finish(search, result, limit)

    def prepare(self, question: Question, *, admitted: bool = False) -> Search:
        """Decide the one granted budget, find the query vector and what to leave out. No search yet.

        admitted  the question was let in when it began to wait, and is not refused now
        """
        model = self.model
        if model is None:
            raise errors.not_ready("no model is loaded yet")
        now = perf_counter()
        search = Search(question, model, self._grant(question, model, now, admitted=admitted), now)
        if question.user_id is not None:
            self._find_user(search, question.user_id)
        elif question.item_id is not None:
            item = model.bundle.item_position(question.item_id)
            if item is None:
                raise errors.unknown_item(question.item_id)
            search.head = b'{"item_id":' + orjson.dumps(question.item_id) + b","
            search.query = model.index.items[item]
            search.excluded = np.array([item], dtype=np.int32)
        else:
            search.head = b'{"user_id":null,'
            search.query = question.vector
        if search.grant.granted == 0:
            search.query = None
            search.fallback = "deadline"
        return search

    def _find_user(self, search: Search, user_id: str) -> None:
        """Find the user's vector and what to leave out; a user without a vector gets the popular items."""
        question, model = search.question, search.model
        user = model.user(user_id)
        if user is not None:
            search.head, search.query, seen, search.hint = user
            if question.exclude_seen is not False:
                search.excluded = seen
            return
        position = model.bundle.user_position(user_id)
        if position is None and not self._popular:
            self._metrics.count("budgetrec_unknown_users_total")
            raise errors.unknown_user(user_id)
        search.head = b'{"user_id":' + orjson.dumps(user_id) + b","
        search.fallback = "unknown_user" if position is None else "no_vector"
        if position is not None and model.has_seen and question.exclude_seen is not False:
            search.excluded = model.bundle.seen_items(position)

    def _plain(self, question: Question) -> int:
        """Return the budget of the usual question in a calm service, which nothing lowers; 0 for any other."""
        if question.deadline is not None or question.target_recall is not None:
            return 0
        budget = question.budget or self._default_budget
        return budget if budget <= self._plain_budget and self.admission.inline.is_calm() else 0

    def _grant(self, question: Question, model: Model, now: float, *, admitted: bool) -> Grant:
        """Decide the one budget: what the question may get in a calm service, less what overload takes off."""
        plain = self._plain(question)
        if plain:
            return Grant(plain, plain, None)
        inline = self.admission.inline
        grant = self._budgets.grant(question, model, self.law, now)
        load = inline if grant.granted <= self.inline_budget else self.admission.threaded
        if load.is_calm() or grant.granted == 0:
            return grant
        if not admitted and self.comes_too_late(question, load, now):
            return Grant(grant.asked, 0, "overload")
        left = load.shrink(grant.granted, question.priority, now)
        return Grant(grant.asked, model.reachable(left), "overload") if left < grant.granted else grant

    def comes_too_late(self, question: Question, load: Load, now: float) -> bool:
        """Whether a question would wait too long: a 503 without a deadline, True with one.

        Whoever names a deadline is never refused: there is time for the popular items.
        """
        if load.is_calm():
            return False
        remaining = question.remaining(now)
        if remaining is not None:
            return load.is_full(question.priority) or load.wait() > remaining * DEADLINE_SHARE
        if load.is_full(question.priority):
            raise load.refusal(question.priority)
        return False

    async def _in_thread(self, function: Any, argument: Any, searches: Sequence[Search]) -> Any:
        """Call in a search thread, counting the work as waiting until it is done."""
        load: Load = self.admission.threaded
        products = sum(search.grant.granted for search in searches)
        seconds = sum(self.law.seconds(search.grant.granted) for search in searches)
        load.enter(products, seconds)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, argument)
        finally:
            load.leave(products, seconds)

    def _run_later(self, search: Search) -> SearchResult | None:
        """Search in a thread; None if there is no time left for it after the wait for one."""
        remaining = search.question.remaining(perf_counter())
        late = remaining is not None and remaining < self.law.b * search.grant.granted
        return None if late else self.run(search)

    def run(self, search: Search) -> SearchResult:
        """Search. Touches nothing shared, so it may run in any thread."""
        question, query = search.question, search.query
        if query is None:
            raise ValueError("there is nothing to search for")
        if question.exclude:
            search.excluded = search.model.excluded(question.exclude, search.excluded)
        began = perf_counter()
        try:
            result = search.model.index.search(
                query, question.top_k, search.grant.granted, search.excluded, None, search.hint
            )
        except InvalidQueryError as error:
            raise errors.invalid("vector", "cannot be searched with", f"finite numbers: {error}") from None
        search.seconds = perf_counter() - began
        return result

    def _finish(self, search: Search, result: SearchResult, limit: KeyLimit | None, *, inline: bool = False) -> bytes:
        """Write the answer and record what it cost."""
        question, grant, seconds = search.question, search.grant, search.seconds
        granted, spent = grant.granted, result.spent
        body = write_answer(search.head, search.model, result, grant, question.top_k, int(seconds * 1e6))
        now = perf_counter()
        # A thread's result waited for the loop; only what ran inline shows the whole handling.
        handling = now - search.started if inline else DEFAULT_A + seconds
        self._metrics.search(granted, grant.asked, spent, seconds, now - question.arrival)
        self._cost.observe(spent, handling)
        if grant.reason is not None:
            self._metrics.count("budgetrec_degraded_total", grant.reason)
        if limit is not None:
            limit.give_back(granted - spent)
        self._lately.append((question.user_id, question.vector, question.top_k, granted))
        if self._is_checked():
            self.monitor.offer(search.model, search.query, search.excluded, question.top_k, result.ids, granted)
        return body

    def _finish_popular(self, search: Search, limit: KeyLimit | None) -> bytes:
        """Answer with the popular items, which cost nothing."""
        question, model = search.question, search.model
        if search.fallback != "deadline":
            self._metrics.count("budgetrec_unknown_users_total")
        self._metrics.count("budgetrec_fallbacks_total", search.fallback)
        if search.grant.reason is not None:
            self._metrics.count("budgetrec_degraded_total", search.grant.reason)
        if limit is not None:
            limit.give_back(search.grant.granted)
        positions = model.popular(question.top_k, model.excluded(question.exclude, search.excluded))
        return write_popular(search.head, model, positions.tolist(), search.grant, question.top_k, search.fallback)

    # ---- many questions

    async def answer_batch(self, questions: Sequence[Question], limit: KeyLimit | None = None) -> list[bytes]:
        """Answer many questions in one search; an unknown user is an error in its own place, not the batch's."""
        prepared: list[Search | bytes] = []
        for question in questions:
            try:
                prepared.append(self.prepare(question))
            except errors.ApiError as error:
                if error.code not in ("unknown_user", "unknown_item"):
                    raise
                prepared.append(error.body())
        everything = [search for search in prepared if isinstance(search, Search)]
        if limit is not None:
            # One decision for all: either the whole batch is paid for, or none of it.
            limit.take(sum(search.grant.granted for search in everything), perf_counter())
        searches = [search for search in everything if search.query is not None]
        results: dict[int, SearchResult] = {}
        if searches:
            try:
                results = await self._in_thread(self._run_batch, searches, searches)
            except errors.ApiError:
                if limit is not None:
                    limit.give_back(sum(search.grant.granted for search in everything))
                raise
        return await self._finish_batch(prepared, results, limit)

    async def _finish_batch(
        self, prepared: Sequence[Search | bytes], results: dict[int, SearchResult], limit: KeyLimit | None
    ) -> list[bytes]:
        answers = []
        end = perf_counter() + SLICE_SECONDS
        for search in prepared:
            if isinstance(search, bytes):
                answers.append(search)
            elif search.query is None:
                answers.append(self._finish_popular(search, limit))
            else:
                answers.append(self._finish(search, results[id(search)], limit))
            if perf_counter() > end:
                await asyncio.sleep(0)
                end = perf_counter() + SLICE_SECONDS
        return answers

    def _run_batch(self, searches: Sequence[Search]) -> dict[int, SearchResult]:
        """Search for all; one call of the kernel for each `top_k` and model."""
        results: dict[int, SearchResult] = {}
        groups: dict[tuple[int, int], list[Search]] = {}
        for search in searches:
            search.excluded = search.model.excluded(search.question.exclude, search.excluded)
            groups.setdefault((id(search.model), search.question.top_k), []).append(search)
        for (_, top_k), group in groups.items():
            began = perf_counter()
            try:
                found = group[0].model.index.search_batch(
                    np.array([search.query for search in group], dtype=np.float32),
                    top_k,
                    [search.grant.granted for search in group],
                    [search.excluded for search in group],
                    remembered=[search.hint for search in group],
                )
            except InvalidQueryError as error:
                raise errors.invalid("vector", "cannot be searched with", f"finite numbers: {error}") from None
            # The kernel does not time queries apart; each is charged its share of the products.
            seconds = (perf_counter() - began) / max(1, sum(search.grant.granted for search in group))
            for search, result in zip(group, found, strict=True):
                search.seconds = seconds * search.grant.granted
                results[id(search)] = result
        return results
