"""The line in which plain questions wait for their turn.

One callback of the event loop works the line off, interactive callers first, and yields to the loop every few
milliseconds, so that new connections, health checks and metrics are looked after under any load. The line knows how
much work waits before any of it is done, which is what admission needs.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from service.answering.question import BATCH

if TYPE_CHECKING:
    import asyncio

    from service.answering.answering import Answering
    from service.answering.question import Question

# Work the line off for so long before the loop may look at sockets and timers.
SLICE_SECONDS = 0.003
# While interactive callers wait, every so many turns one goes to a batch caller, so that none starves.
BATCH_TURN = 8


class Waiting(Protocol):
    """A connection with a question in the line."""

    question: Question | None

    def serve(self) -> None:
        """Answer the question; do nothing if the caller has gone."""


class Line:
    """The line of one worker. Used by the event loop's thread only."""

    def __init__(self, answering: Answering, loop: asyncio.AbstractEventLoop) -> None:
        self._answering = answering
        self._load = answering.admission.inline
        self._loop = loop
        self._interactive: deque[tuple[Waiting, int, float]] = deque()
        self._batch: deque[tuple[Waiting, int, float]] = deque()
        self._scheduled = False
        self._turn = 0

    def enter(self, waiting: Waiting, priority: int, products: int) -> None:
        """Let a question wait for its turn, and make sure that there will be one."""
        seconds = self._answering.law.seconds(products)
        self._load.enter(products, seconds)
        (self._batch if priority == BATCH else self._interactive).append((waiting, products, seconds))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        end = perf_counter() + SLICE_SECONDS
        interactive, batch = self._interactive, self._batch
        try:
            while interactive or batch:
                self._turn += 1
                if batch and (not interactive or self._turn % BATCH_TURN == 0):
                    waiting, products, seconds = batch.popleft()
                else:
                    waiting, products, seconds = interactive.popleft()
                self._load.leave(products, seconds)
                waiting.serve()
                if perf_counter() > end:
                    break
        finally:
            # Whatever happens to one answer, those behind it are served.
            self._scheduled = bool(interactive or batch)
            if self._scheduled:
                self._loop.call_soon(self._work)
