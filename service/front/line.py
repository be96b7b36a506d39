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

    from service.answering.admission import Load
    from service.answering.question import Question

# Work the line off for so long before the loop may look at sockets and timers.
SLICE_SECONDS = 0.003
# While interactive callers wait, every so many turns one goes to a batch caller, so that none starves.
BATCH_TURN = 8


class Waiting(Protocol):
    """A connection with a question in the line, which had arrived at `arrival`."""

    question: Question | None
    arrival: float

    def serve(self) -> None:
        """Answer the question; do nothing if the caller has gone."""


class Line:
    """The line of one worker. Used by the event loop's thread only."""

    def __init__(self, load: Load, loop: asyncio.AbstractEventLoop) -> None:
        self._load = load
        self._loop = loop
        self._interactive: deque[tuple[Waiting, int, float, float]] = deque()
        self._batch: deque[tuple[Waiting, int, float, float]] = deque()
        self.is_empty = True
        self._turn = 0

    def enter(self, waiting: Waiting, priority: int, products: int, seconds: float) -> None:
        """Let a question of so many products, and so long, wait for its turn; make sure that there will be one."""
        self._load.enter(products, seconds)
        entry = (waiting, products, seconds, self._load.seconds)
        (self._batch if priority == BATCH else self._interactive).append(entry)
        if self.is_empty:
            self.is_empty = False
            self._loop.call_soon(self._work)

    def _work(self) -> None:
        end = perf_counter() + SLICE_SECONDS
        interactive, batch = self._interactive, self._batch
        try:
            while interactive or batch:
                self._turn += 1
                is_batch = bool(batch) and (not interactive or self._turn % BATCH_TURN == 0)
                if is_batch:
                    waiting, products, seconds, expected = batch.popleft()
                else:
                    waiting, products, seconds, expected = interactive.popleft()
                self._load.leave(products, seconds)
                waiting.serve()
                now = perf_counter()
                if now > end:
                    if expected > SLICE_SECONDS and not is_batch:
                        # Batch callers wait longer than that, by intention.
                        self._load.note_turn(expected, now - waiting.arrival)
                    break
        finally:
            # Whatever happens to one answer, those behind it are served.
            self.is_empty = not (interactive or batch)
            if not self.is_empty:
                self._loop.call_soon(self._work)
