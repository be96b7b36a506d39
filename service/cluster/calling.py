"""Asking the shards: scatter, and gather what comes back in time.

A shard that fails is asked again as long as there is time; one that is slow is asked a second time, and the first
answer counts. Which replica gets a question, and whether a replica is alive, is Serve's to say.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from greedy_core import GreedyCoreError, SearchResult, StorageError
from service.logs import logger
from service.telemetry.sampling import RateLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ray.serve.handle import DeploymentHandle

    from greedy_core import ShardQuestions

# Before a shard that failed is asked again: its replica may have died, and Serve needs a moment to know.
PAUSE_SECONDS = 0.02
# Threads wait a little longer than the shards have, and no longer.
GRACE_SECONDS = 5.0
COMPLAINTS_PER_SECOND = 1


class ShardName(NamedTuple):
    """One shard of one version: where its bundle lies, and the checksum of its manifest, which covers every file."""

    path: str
    checksum: str


@dataclass(frozen=True)
class Patience:
    """How long shards are waited for.

    seconds  a request without a deadline waits so long
    hedge    a shard that has not answered by then is asked a second time; 0 is never
    """

    seconds: float = 1.0
    hedge: float = 0.05


@dataclass
class Counts:
    """What became of the questions to shards, since the start."""

    answered: int = 0
    late: int = 0
    asked_again: int = 0
    failed: int = 0


@dataclass
class ShardHandles:
    """All shards of the cluster. Threads call; the event loop that was given does the work."""

    handles: Sequence[DeploymentHandle[Any]]
    patience: Patience
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._complaints = RateLimit(COMPLAINTS_PER_SECOND)

    def use(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask on this loop from now on."""
        self._loop = loop

    def search(
        self, names: Sequence[ShardName], asked: Sequence[ShardQuestions], *, similar: bool, seconds: float | None
    ) -> list[list[SearchResult] | None]:
        """Return what the shards answer in time, None for one that did not. A shard without rows is not asked."""
        seconds = self.patience.seconds if seconds is None else min(seconds, self.patience.seconds)
        try:
            found: list[list[SearchResult] | None] = self._wait_for(
                self._scatter(names, asked, similar=similar, seconds=seconds), seconds
            )
        except TimeoutError:
            # The event loop did not get its turn for seconds: to a caller that is as if all were late.
            return [None if questions.rows else [] for questions in asked]
        return found

    def load(self, names: Sequence[ShardName], *, verify: bool, seconds: float) -> None:
        """Have every replica of every shard open its part. Raises StorageError with what a shard said against it."""
        self._wait_for(self._load_all(names, verify=verify, seconds=seconds), seconds)

    def _wait_for(self, work: Any, seconds: float) -> Any:
        if self._loop is None:
            work.close()
            raise StorageError("the shards cannot be asked before the service has started.")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds + GRACE_SECONDS)

    # ---- on the event loop

    async def _scatter(
        self, names: Sequence[ShardName], asked: Sequence[ShardQuestions], *, similar: bool, seconds: float
    ) -> list[list[SearchResult] | None]:
        end = monotonic() + seconds
        found: list[list[SearchResult] | None] = [None if questions.rows else [] for questions in asked]
        tasks = {
            asyncio.ensure_future(self._ask(shard, name, questions, similar=similar, end=end)): shard
            for shard, (name, questions) in enumerate(zip(names, asked, strict=True))
            if questions.rows
        }
        if not tasks:
            return found
        done, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        for task in done:
            found[tasks[task]] = task.result()
        answered = sum(task.result() is not None for task in done)
        self.counts.answered += answered
        self.counts.late += len(tasks) - answered
        return found

    async def _ask(
        self, shard: int, name: ShardName, questions: ShardQuestions, *, similar: bool, end: float
    ) -> list[SearchResult] | None:
        """Ask one shard until it answers, or there is no time left."""
        method = self.handles[shard].search
        waiting: set[asyncio.Task[list[SearchResult]]] = set()
        try:
            while (left := end - monotonic()) > 0:
                if not waiting or (len(waiting) == 1 and self.patience.hedge > 0):
                    self.counts.asked_again += len(waiting)
                    waiting.add(asyncio.ensure_future(_answer(method.remote(name, questions, similar))))
                may_hedge = len(waiting) == 1 and self.patience.hedge > 0
                done, waiting = await asyncio.wait(
                    waiting,
                    timeout=min(left, self.patience.hedge) if may_hedge else left,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    reason = task.exception()
                    if reason is None:
                        return task.result()
                    self._note(shard, reason)
                    if isinstance(reason, GreedyCoreError) and not isinstance(reason, StorageError):
                        # The question itself is at fault: no replica will answer it.
                        return None
                if done and not waiting:
                    await asyncio.sleep(min(PAUSE_SECONDS, max(0.0, end - monotonic())))
            return None
        finally:
            for task in waiting:
                task.cancel()

    async def _load_all(self, names: Sequence[ShardName], *, verify: bool, seconds: float) -> None:
        async def load(shard: int, name: ShardName) -> None:
            handle = self.handles[shard]
            # One answer says that the shard is good, and Serve has started it by then; the other replicas follow.
            await _answer(handle.load.remote(name, verify))
            await handle.broadcast("load", name, verify).results_async(timeout_s=seconds, return_exceptions=True)

        async with asyncio.timeout(seconds):
            outcomes = await asyncio.gather(
                *(load(shard, name) for shard, name in enumerate(names)), return_exceptions=True
            )
        for shard, outcome in enumerate(outcomes):
            if isinstance(outcome, BaseException):
                said = str(getattr(outcome, "cause", outcome)).strip().splitlines() or [type(outcome).__name__]
                raise StorageError(f"shard {shard} does not load it: {said[-1]}")

    def _note(self, shard: int, reason: BaseException) -> None:
        self.counts.failed += 1
        if self._complaints.passes(monotonic()):
            logger().warning("a shard failed", shard=shard, reason=str(reason).strip().splitlines()[-1:])


async def _answer(response: Any) -> Any:
    """Wait for what a handle returned; whoever stops waiting has the question taken back, if it has not begun."""
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise
