"""Looking things up for people, as the page at / does: titles, folders of versions.

That takes longer than the event loop can wait, and nobody's search is to wait for it: it has a thread of its own, for
which few may wait.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from service.errors import overload

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

MOST_WAITING = 8
# What a look-up takes at most, about: for the time after which a refused caller is to come back.
USUAL_SECONDS = 0.1


class Lookups:
    """The look-ups of one worker. Used by the event loop's thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="look-up")
        self._waiting = 0

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call in the thread; 503 if too many wait for it."""
        if self._waiting >= MOST_WAITING:
            raise overload(self._waiting * USUAL_SECONDS, "interactive")
        self._waiting += 1
        work = self._thread.submit(function, *arguments, **named)
        # Whoever gives up waiting leaves the work in the thread, and it still counts.
        work.add_done_callback(self._done_in(asyncio.get_running_loop()))
        return await asyncio.wrap_future(work)

    def close(self) -> None:
        """Stop the thread; waits for what runs in it."""
        self._thread.shutdown(cancel_futures=True)

    def _done_in(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        def done(_: object) -> None:
            loop.call_soon_threadsafe(self._leave)

        return done

    def _leave(self) -> None:
        self._waiting -= 1
