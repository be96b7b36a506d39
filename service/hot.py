"""The usual question, answered in one straight line.

A known user, a budget, nothing else, nobody waiting: nine of ten requests. `HotPath.answer` does for these what
the engine does for all, without its objects and its questions; whatever is not usual it declines, and the
engine answers. A test holds both to the same bytes.
"""

from __future__ import annotations

from operator import add
from time import perf_counter
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from service.engine import Engine

# One in so many questions is remembered for the warm-up of the next model.
REMEMBERED = 8


class HotPath:
    """The straight line of one worker. Used by the event loop's thread only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue = engine.admission.inline
        self._answered = 0

    def answer(self, user_id: str, budget: int, top_k: int, arrival: float) -> bytes | None:
        """Return the JSON of the answer, None if the question is not usual after all.

        The caller has made sure that the budget is within all limits but overload's.
        """
        started = perf_counter()
        engine = self._engine
        model = engine.model
        if model is None or budget > engine.plain_budget or not self._queue.is_calm():
            return None
        user = model.user(user_id)
        if user is None:
            return None
        head, query, seen, route = user
        began = perf_counter()
        result = model.index.search(query, top_k, budget, seen, None, route)
        seconds = perf_counter() - began
        ids, scores, spent, complete, _ = result
        if not len(ids):
            return None
        numbers = orjson.dumps(scores, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
        body = _ANSWER % (
            head,
            b"},".join(map(add, model.fragments(ids.tolist()), numbers)),
            budget,
            spent,
            b"true" if complete else b"false",
            model.tail,
            int(seconds * 1e6),
        )
        now = perf_counter()
        engine.record(budget, budget, spent, seconds, now - arrival, now - started)
        self._answered = answered = self._answered + 1
        if answered % REMEMBERED == 0:
            engine.remember((user_id, None, top_k, budget))
        if engine.check_due():
            engine.monitor.offer(model, query, seen, top_k, ids, budget)
        return body


_ANSWER = b'%b"items":[%b}],"budget":%d,"spent":%d,"complete":%b,"degraded":null,"fallback":null%b%d}'
