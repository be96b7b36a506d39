"""From a question to the bytes of its answer: resolve the budget, search, write the receipt.

    Ask ──► prepare ──► Work ──► run ──► SearchResult ──► finish ──► JSON bytes
            one budget,          the search itself,       receipt, metrics,
            before any work      inline or in a thread    cost law, monitor

`prepare` and `finish` run on the event loop's thread and touch shared state; `run` touches none and may run anywhere.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import orjson

from greedy_core import CalibrationError, InvalidQueryError, SearchResult
from service import errors
from service.admission import Admission
from service.cost import DEFAULT_A, CostMeter
from service.model import Receipt, write_answer, write_popular
from service.monitor import RecallMonitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from service.ask import Ask
    from service.keys import Key
    from service.metrics import Metrics
    from service.model import Model
    from service.settings import Settings

# Recent questions kept for warming up the next model.
RECENT = 2048

# Looking up more ids than this is as long as a long search, and goes to a thread with it.
MANY_IDS = 500


class Work:
    """A prepared search: everything that `run` needs, and what was granted to it."""

    __slots__ = ("ask", "excluded", "head", "key", "model", "query", "receipt", "route", "seconds", "started")

    def __init__(self, ask: Ask, model: Model, receipt: Receipt, key: Key | None, started: float) -> None:
        self.ask = ask
        self.model = model
        self.receipt = receipt
        self.key = key
        self.started = started
        self.head = b""
        self.query: npt.NDArray[np.float32] | None = None  # None: a user without a vector, known or not
        self.route: npt.NDArray[np.float32] | None = None
        self.excluded: npt.NDArray[np.int32] | None = None
        self.seconds = 0.0


class Engine:
    """The searching part of one worker."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self.admission = Admission(settings)
        self.cost = CostMeter()
        self.law = self.cost.law
        self.inline_budget = 0  # up to here a search runs on the loop
        self.plain_budget = 0  # up to here, and nothing lowers it but overload
        self.model: Model | None = None
        self.recent: deque[tuple[str | None, npt.NDArray[np.float32] | None, int, int]] = deque(maxlen=RECENT)
        self.monitor = RecallMonitor(settings, metrics)
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self._inline_seconds = settings.inline_ms / 1000
        self._default_budget = settings.default_budget
        self._max_budget = settings.max_budget
        self._popular = settings.unknown_user == "popular"
        self.remember = self.recent.append
        self.check_due = self.monitor.due
        self.fold_costs()

    def use(self, model: Model) -> None:
        """Serve this model from the next request on."""
        if self.model is None or self.model.version != model.version:
            self.cost.start_from(model.law())
        self.model = model
        self.fold_costs()

    def fold_costs(self) -> None:
        """Bring the cost law up to date; called a few times a second."""
        self.law = self.cost.fold()
        self.inline_budget = int(self._inline_seconds / self.law.b)
        if self.model is not None:
            self.plain_budget = min(self.inline_budget, self._max_budget, self.model.max_budget)

    def close(self) -> None:
        """Stop the threads; waits for running searches."""
        self.monitor.close()
        self._threads.shutdown()

    # ---- one question

    async def answer(self, ask: Ask, key: Key | None = None) -> bytes:
        """Answer one question; long searches go to a thread and leave the loop to others."""
        work = self.prepare(ask, key)
        if work.query is None:
            return self.finish_popular(work)
        products = work.receipt.granted
        if products <= self.inline_budget and len(ask.exclude) <= MANY_IDS:
            return self.finish(work, self.run(work), inline=True)
        queue = self.admission.threaded
        seconds = self.law.seconds(products)
        queue.enter(products, seconds)
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._threads, self.run_later, work)
        finally:
            queue.leave(products, seconds)
        return self.finish(work, result)

    def answer_inline(self, ask: Ask, key: Key | None) -> bytes:
        """Answer a question that was admitted to the loop's own queue."""
        work = self.prepare(ask, key, admitted=True)
        if work.query is None:
            return self.finish_popular(work)
        return self.finish(work, self.run(work), inline=True)

    def prepare(self, ask: Ask, key: Key | None = None, *, admitted: bool = False) -> Work:
        """Decide the one granted budget, find the query vector and what to leave out. No search yet."""
        model = self.model
        if model is None:
            raise errors.not_ready("no model is loaded yet")
        now = perf_counter()
        receipt = self.resolve(ask, model, now, admitted=admitted)
        work = Work(ask, model, receipt, key, now)
        if ask.user_id is not None:
            self._find_user(work, ask.user_id)
        elif ask.item_id is not None:
            item = model.bundle.item_position(ask.item_id)
            if item is None:
                raise errors.unknown_item(ask.item_id)
            work.head = b'{"item_id":' + orjson.dumps(ask.item_id) + b","
            work.query = model.index.items[item]
            work.excluded = np.array([item], dtype=np.int32)
        else:
            work.head = b'{"user_id":null,'
            work.query = ask.vector
        if key is not None and key.bucket is not None:
            key.bucket.take(receipt.granted, now)
        return work

    def _find_user(self, work: Work, user_id: str) -> None:
        """Find the user's vector and what to leave out; a user without a vector is left to the popular items."""
        ask, model = work.ask, work.model
        user = model.user(user_id)
        if user is not None:
            work.head, work.query, seen, work.route = user
            work.excluded = seen if ask.exclude_seen is not False else None
        else:
            position = model.bundle.user_position(user_id)
            if position is None and not self._popular:
                self.metrics.count("budgetrec_unknown_users_total")
                raise errors.unknown_user(user_id)
            work.head = b'{"user_id":' + orjson.dumps(user_id) + b","
            if position is not None and model.has_seen and ask.exclude_seen is not False:
                work.excluded = model.bundle.seen_items(position)

    def wish(self, ask: Ask, model: Model, now: float) -> tuple[int, int, str | None]:
        """Turn budget, target recall, deadline and maximum into what was asked, what may be granted, and why less.

        The smallest wish wins. What is taken off a wish is named: a deadline that buys less than the budget
        beside it, or the server's maximum.
        """
        asked = ask.budget
        if ask.target_recall is None and ask.deadline is None:
            asked = asked or self._default_budget
            if asked <= self._max_budget and asked <= model.max_budget:
                return asked, asked, None
        if ask.target_recall is not None:
            bought = self._bought(ask, ask.target_recall, model)
            asked = bought if asked is None else min(asked, bought)
        reason = None
        granted = asked
        if ask.deadline is not None:
            remaining = ask.deadline - (now - ask.arrival)
            if remaining <= 0 and not self.admission.inline.is_calm():
                raise errors.deadline_passed()
            # In a calm service a deadline shrinks the work and never kills it, however short it is.
            affordable = max(1, self.law.products(remaining))
            if granted is None:
                # Only a deadline: as much as it buys, which is no wish for more than the server gives.
                asked = granted = model.reachable(min(affordable, self._max_budget))
            elif affordable < granted:
                granted, reason = affordable, "deadline"
        if asked is None or granted is None:
            asked = granted = self._default_budget
        most = model.reachable(min(granted, self._max_budget))
        if most < granted:
            granted, reason = most, "maximum"
        return asked, granted, reason

    def _bought(self, ask: Ask, recall: float, model: Model) -> int:
        """Return the budget that buys a recall; every item, if no calibrated budget does."""
        if model.calibration is None:
            raise errors.no_calibration()
        curve = model.calibration if ask.user_id is not None else model.calibration.for_vectors
        try:
            return curve.budget_for_recall(recall)
        except CalibrationError:
            return model.n_items

    def resolve(self, ask: Ask, model: Model, now: float, *, admitted: bool = False) -> Receipt:
        """Decide the one budget: the wish, less what overload takes off it.

        `admitted` work was let in when it began to wait and is not refused now.
        """
        asked, granted, reason = self.wish(ask, model, now)
        queue = self.admission.inline if granted <= self.inline_budget else self.admission.threaded
        if not admitted:
            queue.check(ask.priority)
        if not queue.is_calm():
            left = queue.shrink(granted, ask.priority, now)
            if left < granted:
                granted, reason = model.reachable(left), "overload"
        return Receipt(asked, granted, reason)

    def run_later(self, work: Work) -> SearchResult:
        """Search in a thread; a deadline that passed while the work waited for one means no work."""
        ask = work.ask
        if ask.deadline is not None and perf_counter() - ask.arrival > ask.deadline:
            raise errors.deadline_passed()
        return self.run(work)

    def run(self, work: Work) -> SearchResult:
        """Search. Touches nothing shared, so it may run in any thread."""
        ask, query = work.ask, work.query
        if query is None:
            raise ValueError("a user without a vector cannot be searched for")
        if ask.exclude:
            work.excluded = work.model.excluded(ask.exclude, work.excluded)
        began = perf_counter()
        try:
            result = work.model.index.search(query, ask.top_k, work.receipt.granted, work.excluded, None, work.route)
        except InvalidQueryError as error:
            raise errors.invalid("vector", "cannot be searched with", f"finite numbers: {error}") from None
        work.seconds = perf_counter() - began
        return result

    def finish(self, work: Work, result: SearchResult, *, inline: bool = False) -> bytes:
        """Write the answer and record what it cost."""
        ask, receipt, seconds = work.ask, work.receipt, work.seconds
        granted, spent = receipt.granted, result.spent
        body = write_answer(work.head, work.model, result, receipt, int(seconds * 1e6))
        now = perf_counter()
        # A thread's result waited for the loop; only what ran inline shows the whole handling.
        handling = now - work.started if inline else DEFAULT_A + seconds
        self.record(granted, receipt.asked, spent, seconds, now - ask.arrival, handling)
        if receipt.reason is not None:
            self.metrics.count("budgetrec_degraded_total", receipt.reason)
        if work.key is not None and work.key.bucket is not None:
            work.key.bucket.give_back(granted - spent)
        self.remember((ask.user_id, ask.vector, ask.top_k, granted))
        if self.check_due():
            self.monitor.offer(work.model, work.query, work.excluded, ask.top_k, result.ids, granted)
        return body

    def finish_popular(self, work: Work) -> bytes:
        """Answer for a user the model does not know, or has no vector for: the popular items, which cost nothing."""
        self.metrics.count("budgetrec_unknown_users_total")
        known = work.model.bundle.user_position(work.ask.user_id or "") is not None
        fallback = b'"no_vector"' if known else b'"unknown_user"'
        if work.key is not None and work.key.bucket is not None:
            work.key.bucket.give_back(work.receipt.granted)
        excluded = work.model.excluded(work.ask.exclude, work.excluded)
        positions = work.model.popular(work.ask.top_k, excluded)
        return write_popular(work.head, work.model, positions.tolist(), work.receipt, fallback)

    def record(self, granted: int, asked: int, spent: int, search: float, whole: float, handling: float) -> None:
        """Note what a search cost: for the metrics, and for the cost law."""
        self.metrics.search(granted, asked, spent, search, whole)
        self.cost.observe(spent, handling)

    # ---- many questions

    async def answer_batch(self, asks: Sequence[Ask], key: Key | None = None) -> list[bytes]:
        """Answer many questions in one search; an unknown user is an error in its own place, not the batch's."""
        prepared: list[Work | bytes] = []
        for ask in asks:
            try:
                prepared.append(self.prepare(ask, key))
            except errors.ApiError as error:
                if error.code != "unknown_user":
                    raise
                prepared.append(error.body())
        searches = [work for work in prepared if isinstance(work, Work) and work.query is not None]
        results: dict[int, SearchResult] = {}
        if searches:
            products = sum(work.receipt.granted for work in searches)
            queue = self.admission.threaded
            seconds = sum(self.law.seconds(work.receipt.granted) for work in searches)
            queue.enter(products, seconds)
            try:
                results = await asyncio.get_running_loop().run_in_executor(self._threads, self.run_batch, searches)
            finally:
                queue.leave(products, seconds)
        answers = []
        for work in prepared:
            if isinstance(work, bytes):
                answers.append(work)
            elif work.query is None:
                answers.append(self.finish_popular(work))
            else:
                answers.append(self.finish(work, results[id(work)]))
        return answers

    def run_batch(self, searches: Sequence[Work]) -> dict[int, SearchResult]:
        """Search for all; one call of the kernel for each `top_k` and model."""
        for work in searches:
            work.excluded = work.model.excluded(work.ask.exclude, work.excluded)
        results: dict[int, SearchResult] = {}
        groups: dict[tuple[int, int], list[Work]] = {}
        for work in searches:
            groups.setdefault((id(work.model), work.ask.top_k), []).append(work)
        for (_, top_k), group in groups.items():
            began = perf_counter()
            try:
                found = group[0].model.index.search_batch(
                    np.array([work.query for work in group], dtype=np.float32),
                    top_k=top_k,
                    budget=[work.receipt.granted for work in group],
                    exclude=[work.excluded for work in group],
                    decompositions=[work.route for work in group],
                )
            except InvalidQueryError as error:
                raise errors.invalid("vector", "cannot be searched with", f"finite numbers: {error}") from None
            # The kernel does not time queries apart; each is charged its share of the products.
            seconds = (perf_counter() - began) / max(1, sum(work.receipt.granted for work in group))
            for work, result in zip(group, found, strict=True):
                work.seconds = seconds * work.receipt.granted
                results[id(work)] = result
        return results
