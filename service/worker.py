"""One worker: its parts, put together, and the background work between requests."""

from __future__ import annotations

import asyncio
import contextlib
from time import perf_counter
from typing import TYPE_CHECKING

from service.answering.answering import Answering
from service.http.key_limits import KeyLimits
from service.http.keys import Keyring, presented_key
from service.http.questions import QuestionReader
from service.logs import logger
from service.models.agreement import Agreement
from service.models.keeper import ModelKeeper
from service.shared_memory import SharedMemory
from service.telemetry.families import SHED_REASONS
from service.telemetry.metrics import Metrics
from service.telemetry.sampling import RateLimit, Sampler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.errors import ApiError
    from service.http.key_limits import KeyLimit
    from service.settings import Settings

    Headers = Sequence[tuple[bytes, bytes]]

TICK_SECONDS = 0.05
TICKS_PER_FOLD = 10
# Log lines about requests that are no HTTP, at most so many a second.
COMPLAINTS_PER_SECOND = 1


class Worker:
    """Everything that a request can reach in one worker process."""

    def __init__(self, settings: Settings, *, slot: int = 0, shared: SharedMemory | None = None) -> None:
        self.settings = settings
        memory = SharedMemory.make(settings, fresh=slot == 0) if shared is None else shared
        self.metrics = Metrics(memory.metrics, slots=settings.workers, slot=slot)
        self.keyring = Keyring.from_settings(settings)
        rates = [key.rate for key in self.keyring.keys]
        self._limits = KeyLimits(memory.key_usage, rates, slots=settings.workers, slot=slot)
        self.questions = QuestionReader(settings)
        self.answering = Answering(settings, self.metrics)
        self.keeper = ModelKeeper(settings, self.answering, self.metrics, Agreement(memory.agreement))
        if shared is None:
            memory.close()
        self.log = logger()
        self._draining = False
        self._is_logged = Sampler(settings.log_sample).due
        self._complaints = RateLimit(COMPLAINTS_PER_SECOND)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin: the model loads in the background while the port already answers."""
        self.metrics.set("budgetrec_workers", 1.0)
        self.answering.monitor.start()
        self._tasks = [asyncio.create_task(self.keeper.run()), asyncio.create_task(self._tick())]

    async def stop(self) -> None:
        """End: no more background work, threads joined."""
        self.drain()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.keeper.close()
        self.answering.close()
        self.metrics.set("budgetrec_workers", 0.0)

    def drain(self) -> None:
        """Report not ready from now on; requests are still served."""
        self._draining = True
        self.metrics.set("budgetrec_ready", 0.0)

    def not_ready_because(self) -> str | None:
        """Why the worker is not ready, None when it is. The only place where this is decided."""
        return "it is shutting down" if self._draining else self.keeper.not_ready_because()

    # ---- requests

    def authorize(self, headers: Headers) -> KeyLimit | None:
        """Return the limit of the caller's key, if any; 401 or 403 if keys are required and this one will not do."""
        if not self.keyring.required:
            return None
        key = self.keyring.identify(presented_key(headers))
        return None if key is None else self._limits.by_key[key.position]

    def note_request(self, call: str, status: int, request_id: bytes, seconds: float) -> None:
        """Count an answered request, and log a sample of them."""
        self.metrics.request(call, status)
        if self._is_logged():
            self.log.info(
                "request", route=call, status=status, request_id=request_id.decode(), microseconds=int(seconds * 1e6)
            )

    def note_failure(self, error: ApiError, headers: Headers) -> None:
        """Count an error by its code, and by class of caller if it protects the rest."""
        self.metrics.count("budgetrec_failed_total", error.code)
        if error.code == "key_limit":
            self.metrics.count("budgetrec_key_limited_total")
        if error.code in SHED_REASONS:
            named = "batch" if (b"x-priority", b"batch") in headers else "interactive"
            self.metrics.count("budgetrec_shed_total", error.code, error.priority or named)

    def note_no_http(self, error: ApiError) -> None:
        """Count what was no request, and log some of it: whoever sends garbage must not fill the disk with it."""
        self.note_failure(error, ())
        self.metrics.request("other", error.status)
        if self._complaints.passes(perf_counter()):
            self.log.warning("not a request", code=error.code, suppressed=self._complaints.suppressed)
            self._complaints.suppressed = 0

    # ---- between requests

    async def _tick(self) -> None:
        """Keep gauges, key limits and the cost law current."""
        answering, metrics = self.answering, self.metrics
        admission = answering.admission
        ticks = 0
        now = perf_counter()
        while True:
            due = now + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            now = perf_counter()
            # As long as the tick is late, everything else on the loop is.
            admission.inline.note_wait(max(0.0, now - due))
            self._limits.refill(now)
            metrics.set("budgetrec_ready", 0.0 if self.not_ready_because() else 1.0)
            metrics.set("budgetrec_queued_products", admission.products())
            metrics.set("budgetrec_in_flight", admission.requests())
            metrics.set("budgetrec_pressure", admission.pressure(now))
            ticks += 1
            if ticks % TICKS_PER_FOLD == 0:
                answering.fold_costs()
                metrics.set("budgetrec_cost_law_a_seconds", answering.law.a)
                metrics.set("budgetrec_cost_law_b_seconds", answering.law.b)
