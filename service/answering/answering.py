"""Answering: decide the budget, search, write the answer, record what it cost.

    Question ──► prepare ──► Search ──► run ──► SearchResult ──► finish ──► JSON bytes
                 one budget,            the search itself,       answer, metrics,
                 before any work        inline or in a thread    cost law, monitor

`prepare` and `finish` run on the event loop's thread and touch shared state; `run` touches none and may run anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from service import errors
from service.answering.answer import write_answer, write_popular
from service.answering.arranging import receipt
from service.answering.budgets import Budgets, Grant
from service.answering.cost import DEFAULT_A, CostLaw, CostMeter
from service.answering.filtering import Filtering, check_fields, check_rules, eligible_count, likely_products
from service.answering.queries import QueryFinder
from service.answering.resources import Resources
from service.answering.search import Search, run_together
from service.answering.slices import SLICE_SECONDS, yield_after
from service.models.default_budget import DefaultBudget
from service.models.loading import AskedLately
from service.telemetry.model_metrics import ModelMetrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from greedy_core import Eligible, SearchResult
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

# So do the values of more fields than this, for all items of an answer together.
MANY_FIELDS = 2000

# A question waits for at most this share of the time until its deadline: what comes out of a longer queue comes late.
DEADLINE_SHARE = 0.5

# A search of at most so long is made as soon as its question is read, if nothing waits. Even if all connections that
# one turn of the event loop finds readable (1,024 at most) ask, nobody else waits for as long as a tenth of a second.
SHORT_SECONDS = 50e-6

# A vector of items takes about as many multiplications as there are items, times the square of the dimensions; more
# than these take as long as a long search.
MANY_MULTIPLICATIONS = 2_000_000


class Answering:
    """The answering part of one worker, for one model; its versions come and go.

    which  the position of the model among those of the settings
    """

    def __init__(
        self, settings: Settings, metrics: Metrics, resources: Resources | None = None, which: int = 0
    ) -> None:
        self._metrics = metrics
        self.model_metrics = ModelMetrics(metrics, which)
        self.arm = self.model_metrics.arm  # None where there is but one model
        self._resources = Resources(settings, metrics) if resources is None else resources
        self.admission = self._resources.admission
        self._inline = self.admission.inline
        self._cost = CostMeter()
        self.law: CostLaw = self._cost.law
        self.inline_budget = 0  # up to here a search runs on the loop
        self.short_budget = 0  # up to here it is so short that it need not wait for its turn
        self._usual_budget = 0  # up to here nothing lowers a budget but overload
        self.model: Model | None = None
        self._lately: deque[tuple[str | None, npt.NDArray[np.float32] | None, int, int]] = deque(maxlen=LATELY)
        self.monitor = self._resources.monitor
        self._is_checked = self.monitor.due
        self._budgets = Budgets(settings)
        self._threads = self._resources.threads
        self._filtering = Filtering(metrics, self._threads)
        self._inline_seconds = settings.inline_ms / 1000
        self._default_top_k = settings.default_top_k
        self._default = DefaultBudget(settings)
        self._default_budget = 0  # of recommendations from all items, as many as are usual
        self._max_budget = settings.max_budget
        self._queries = QueryFinder(settings, metrics)
        self.fold_costs()

    @property
    def asked_lately(self) -> Sequence[AskedLately]:
        """A copy of questions answered lately, for the warm-up of the next model; in any thread."""
        # Copied in one call of C, because answers are added meanwhile: a loop would find the deque changed under it.
        return [AskedLately(*asked) for asked in self._lately.copy()]

    def use(self, model: Model) -> None:
        """Serve this model from the next request on."""
        if self.model is None or self.model.version != model.version:
            self._cost.start_from(CostLaw.calibrated(model.calibration))
        self.model = model
        self._default_budget = self._default.usual(model)
        self.fold_costs()

    def fold_costs(self) -> None:
        """Bring the cost law up to date; called a few times a second."""
        self.law = self._cost.fold()
        self.inline_budget = int(self._inline_seconds / self.law.b)
        if self.model is not None:
            self.short_budget = int(SHORT_SECONDS / self.law.b)
            self._usual_budget = min(self.inline_budget, self._max_budget, self.model.max_budget)
            if self.model.is_filtered:
                self._usual_budget = 0

    def close(self) -> None:
        """Stop the threads, also those of other models that share them; waits for running searches."""
        self._resources.close()

    # ---- one question

    def expected_products(self, question: Question, now: float) -> int | None:
        """Return what a question will probably get, None if it is not for the event loop: too long, or no model."""
        model = self.model
        if model is None or _is_long(question, model):
            return None
        eligible = None
        if question.filter is not None or model.is_filtered or question.arrangement is not None:
            if not self._filtering.is_quick(question, model):
                return None
            if question.filter is not None or model.is_filtered:
                eligible = self._filtering.eligible(question, model)
        granted = self._grant(question, model, now, eligible, admitted=True).granted
        if question.arrangement is not None and question.arrangement.is_long(question.top_k, granted, model):
            return None
        products = likely_products(granted, eligible)
        return products if products <= self.inline_budget else None

    def turned_away(self, question: Question, now: float) -> Grant | None:
        """Return the grant of nothing for a question whose turn would come too late, a 503 if it names no deadline.

        Nothing is worked out for it but this. None for whoever may wait, and for whoever it takes more to judge.
        """
        budget, model = question.budget, self.model
        if (
            self._inline.is_calm()
            or budget is None
            or budget > self.inline_budget
            or question.target_recall is not None
            or question.filter is not None
            or question.arrangement is not None
            or model is None
            or model.is_filtered
            or _is_long(question, model)
        ):
            return None
        return Grant(budget, 0, "overload") if self.comes_too_late(question, self._inline, now) else None

    def answer_inline(self, question: Question, limit: KeyLimit | None, grant: Grant | None = None) -> bytes:
        """Answer a question that was admitted to the event loop, with the grant that it got if there is one yet."""
        search = self.prepare(question, grant, admitted=True)
        if limit is not None:
            limit.take(search.grant.granted, search.started)
        try:
            if search.is_popular:
                return self._finish_popular(search, limit)
            # Not by `run`: where that leaves spans there is no short cut.
            return self._finish(search, search.run(), limit, inline=True)
        except BaseException:
            give_back([search], limit)
            raise

    async def answer(self, question: Question, limit: KeyLimit | None = None) -> bytes:
        """Answer one question; long searches go to a thread and leave the loop to others."""
        await self._filtering.make_ready(question, model := self.model)
        while model is not self.model:
            # The model was swapped meanwhile, and what takes long is to be done anew.
            await self._filtering.make_ready(question, model := self.model)
        search = self.prepare(question)
        if limit is not None:
            limit.take(search.grant.granted, search.started)
        is_long = _is_long(question, search.model)
        if question.arrangement is not None:
            is_long |= question.arrangement.is_long(question.top_k, search.grant.granted, search.model)
        try:
            if search.is_popular:
                if is_long:
                    await asyncio.get_running_loop().run_in_executor(self._threads, search.find_popular)
                return self._finish_popular(search, limit)
            if search.products <= self.inline_budget and not is_long:
                return self._finish(search, self.run(search), limit, inline=True)
            result = await self._in_thread(self._run_later, search, [search])
            if result is None:
                search.fallback = "deadline"
                return self._finish_popular(search, limit)
            return self._finish(search, result, limit)
        except BaseException:
            give_back([search], limit)
            raise

    def prepare(
        self, question: Question, grant: Grant | None = None, *, admitted: bool = False, model: Model | None = None
    ) -> Search:
        """Decide the one granted budget, find the query vector and what to leave out. No search yet.

        grant     decided already: that of a usual question, under no filter
        admitted  the question was let in when it began to wait, and is not refused now
        model     the version that the question was made ready for; None: the one that serves
        """
        model = self.model if model is None else model
        if model is None:
            raise errors.not_ready(f"no model is loaded yet{'' if self.arm is None else f' as {self.arm}'}")
        now = perf_counter()
        eligible = None
        if grant is None:
            eligible = self._filtering.of(question, model)
            grant = self._grant(question, model, now, eligible, admitted=admitted)
        if question.fields:
            check_fields(question, model)
        search = Search(question, model, grant, now)
        search.eligible = eligible
        if question.arrangement is not None:
            check_rules(question, model)
            search.let_through = {
                boost.filter: self._filtering.lets_through(boost.filter, model, "boost")
                for boost in question.arrangement.rules.boost
            }
            text = question.arrangement.fallback_filter(question.filter)
            if text is not None and text != question.filter:
                search.standing_in = self._filtering.lets_through(text, model, "fallback")
        self._queries.find(search)
        if search.grant.granted == 0:
            search.query = search.met = None
            search.fallback = "deadline"
        return search

    def usual_grant(self, question: Question) -> Grant | None:
        """Return the grant of the usual question in a calm service, which nothing lowers; None for any other."""
        if (
            question.deadline is not None
            or question.target_recall is not None
            or question.items is not None
            or question.filter is not None
            or question.arrangement is not None
        ):
            return None
        budget = question.budget
        if budget is None:
            if question.similar is not None or question.top_k > self._default_top_k:
                return None
            budget = self._default_budget
        return Grant(budget, budget, None) if budget <= self._usual_budget and self._inline.is_calm() else None

    def _grant(
        self, question: Question, model: Model, now: float, eligible: Eligible | None, *, admitted: bool
    ) -> Grant:
        """Decide the one budget: what the question may get in a calm service, less what overload takes off."""
        usual = self.usual_grant(question)
        if usual is not None:
            return usual
        grant = self._budgets.grant(question, model, self.law, now, eligible)
        products = likely_products(grant.granted, eligible)
        load = self._inline if products <= self.inline_budget else self.admission.threaded
        if load.is_calm() or grant.granted == 0:
            return grant
        if not admitted and self.comes_too_late(question, load, now):
            return Grant(grant.asked, 0, "overload")
        left = load.shrink(grant.granted, question.priority, now)
        return Grant(grant.asked, model.reachable(left, eligible), "overload") if left < grant.granted else grant

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
        products = sum(search.products for search in searches)
        seconds = sum(self.law.seconds(search.products) for search in searches)
        load.enter(products, seconds)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, argument)
        finally:
            load.leave(products, seconds)

    def _run_later(self, search: Search) -> SearchResult | None:
        """Search in a thread; None if there is no time left for it after the wait for one: then for popular items."""
        remaining = search.question.remaining(perf_counter())
        if remaining is not None and remaining < self.law.b * search.products:
            search.find_popular()
            return None
        return self.run(search)

    def run(self, search: Search) -> SearchResult:
        """Search; in any thread."""
        return search.run()

    def run_together(self, searches: Sequence[Search]) -> dict[int, SearchResult]:
        """Search for many; in any thread."""
        return run_together(searches)

    def _finish(self, search: Search, result: SearchResult, limit: KeyLimit | None, *, inline: bool = False) -> bytes:
        """Write the answer and record what it cost."""
        question, grant, seconds = search.question, search.grant, search.seconds
        granted, spent = grant.granted, result.spent
        eligible = None if search.eligible is None else result.eligible
        if question.arrangement is None and search.shards is None:
            body = write_answer(
                search.head, search.model, result, grant, question, int(seconds * 1e6), eligible, search.shown
            )
        else:
            body = self._write_arranged(search, result, eligible)
        now = perf_counter()
        # A thread's result waited for the loop; only what ran inline shows the whole handling.
        handling = now - search.started if inline else DEFAULT_A + seconds
        self._metrics.search(granted, grant.asked, spent, seconds, now - question.arrival)
        if search.arranged is None:
            # What rules take is no part of what a product costs.
            self._cost.observe(spent, handling)
        if self.arm is not None:
            self.model_metrics.answered(_chosen_by(question), spent, now - question.arrival)
        if grant.reason is not None:
            self._metrics.count("budgetrec_degraded_total", grant.reason)
        if limit is not None:
            limit.give_back(granted - spent)
        made = question.vector if question.items is None else search.query
        self._lately.append((question.user_id, made, question.top_k, granted))
        # The monitor's recall is that of recommendations as they are found, and not of similar items.
        if self._is_checked() and search.index is search.model.index and search.arranged is None:
            self.monitor.offer(
                search.model, search.query, search.excluded, question.top_k, result.ids, granted, search.eligible
            )
        return body

    def _finish_popular(self, search: Search, limit: KeyLimit | None) -> bytes:
        """Answer with the popular items, which cost nothing."""
        question, model = search.question, search.model
        if search.fallback != "deadline":
            self._metrics.count("budgetrec_unknown_users_total")
        self._metrics.count("budgetrec_fallbacks_total", search.fallback)
        if self.arm is not None:
            self.model_metrics.fell_back(_chosen_by(question))
        if search.grant.reason is not None:
            self._metrics.count("budgetrec_degraded_total", search.grant.reason)
        if limit is not None:
            limit.give_back(search.grant.granted)
        found = search.find_popular().tolist()
        eligible = None if search.eligible is None else eligible_count(search.eligible, search.excluded)
        return write_popular(
            search.head,
            model,
            found,
            search.grant,
            question,
            search.fallback,
            eligible,
            search.shown,
            self._note_arrangement(search),
            is_ruled=search.arranged is not None and search.arranged.collected.left_out > 0,
        )

    def _write_arranged(self, search: Search, result: SearchResult, eligible: int | None) -> bytes:
        """Write an answer that says what rules did to it, or how many shards answered."""
        arranged = search.arranged
        return write_answer(
            search.head,
            search.model,
            result,
            search.grant,
            search.question,
            int(search.seconds * 1e6),
            eligible,
            search.shown,
            self._note_arrangement(search),
            is_ruled=arranged is not None and arranged.collected.left_out > 0,
        )

    def _note_arrangement(self, search: Search) -> bytes:
        """Count scenario and rules of an answer, and return what it says of them and of shards."""
        arrangement = search.question.arrangement
        shards = b"" if search.shards is None else b',"shards":{"asked":%d,"answered":%d}' % search.shards
        if arrangement is None:
            return shards
        if arrangement.scenario is not None:
            self._metrics.scenario(arrangement.scenario)
        if search.arranged is not None:
            for rule in search.arranged.collected.changed:
                self._metrics.count("budgetrec_rules_changed_total", rule)
        return receipt(arrangement, search.arranged) + shards

    # ---- many questions

    async def answer_batch(self, questions: Sequence[Question], limit: KeyLimit | None = None) -> list[bytes]:
        """Answer many questions in one search; an unknown user is an error in its own place, not the batch's."""
        prepared = await self.prepare_batch(questions, range(len(questions)))
        take_for_all(prepared, limit)
        return await self.answer_prepared(prepared, limit)

    async def prepare_batch(self, questions: Sequence[Question], places: Sequence[int]) -> list[Search | bytes]:
        """Prepare what of a batch this model is to answer; `places` are the places of the questions in the batch."""
        prepared: list[Search | bytes] = []
        # One version answers all of a batch, whatever is swapped in meanwhile.
        model = self.model
        end = perf_counter() + SLICE_SECONDS
        for place, question in zip(places, questions, strict=True):
            await self._filtering.make_ready(question, model, place=f"requests[{place}].")
            end = await yield_after(end)
        for question in questions:
            try:
                prepared.append(self.prepare(question, model=model))
            except errors.ApiError as error:
                if error.code not in ("unknown_user", "unknown_item"):
                    raise
                prepared.append(error.body())
            end = await yield_after(end)
        return prepared

    async def answer_prepared(self, prepared: Sequence[Search | bytes], limit: KeyLimit | None) -> list[bytes]:
        """Answer what `prepare_batch` returned, once it is paid for."""
        searches = [search for search in prepared if isinstance(search, Search)]
        results: dict[int, SearchResult] = {}
        if searches:
            try:
                results = await self._in_thread(self.run_together, searches, searches)
            except BaseException:
                give_back(prepared, limit)
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
            elif id(search) not in results:
                answers.append(self._finish_popular(search, limit))
            else:
                answers.append(self._finish(search, results[id(search)], limit))
            end = await yield_after(end)
        return answers


def take_for_all(prepared: Sequence[Search | bytes], limit: KeyLimit | None) -> None:
    """Take what a whole batch was granted from a key's limit: either all of it is paid for, or none."""
    if limit is not None:
        limit.take(sum(search.grant.granted for search in prepared if isinstance(search, Search)), perf_counter())


def give_back(prepared: Sequence[Search | bytes], limit: KeyLimit | None) -> None:
    """Return to a key's limit what was granted to searches that were not made."""
    if limit is not None:
        limit.give_back(sum(search.grant.granted for search in prepared if isinstance(search, Search)))


def _chosen_by(question: Question) -> str:
    """Return why this model answers, of several."""
    if question.is_dealt:
        return "experiment"
    return "default" if question.model is None else "name"


def _is_long(question: Question, model: Model) -> bool:
    """Whether what comes before the search takes too long for the event loop."""
    if question.items is not None and len(question.items.ids) * model.n_dims**2 > MANY_MULTIPLICATIONS:
        return True
    return len(question.exclude) > MANY_IDS or len(question.fields) * question.top_k > MANY_FIELDS
