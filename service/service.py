"""One worker's parts, put together, and the background work between requests."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import TYPE_CHECKING

from service import query
from service.ask import Ask, read_priority, tightest_deadline
from service.engine import Engine
from service.keys import Keyring, presented_key
from service.logs import Sampler, logger
from service.metrics import SHED_REASONS, Metrics
from service.models import ModelKeeper
from service.rundir import RunDir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.errors import ApiError
    from service.keys import Key
    from service.settings import Settings

    Headers = Sequence[tuple[bytes, bytes]]

TICK_SECONDS = 0.05
TICKS_PER_FOLD = 10


class Service:
    """Everything a request can reach."""

    def __init__(self, settings: Settings, *, slot: int = 0, run_dir: Path | None = None) -> None:
        self.settings = settings
        self.slot = slot
        self.run_dir = RunDir(run_dir or settings.run_dir or Path(mkdtemp(prefix="budgetrec-")), slot=slot)
        self.metrics = Metrics(slots=settings.workers, slot=slot, path=self.run_dir.metrics)
        self.keyring = Keyring.from_settings(settings)
        self.engine = Engine(settings, self.metrics)
        self.keeper = ModelKeeper(settings, self.engine, self.metrics, self.run_dir)
        self.draining = False
        self.log = logger()
        self.sample = Sampler(settings.log_sample).due
        table = query.parameters(settings)
        self.recommend_query = query.reader(
            table, "user_id", "budget", "top_k", "deadline_ms", "target_recall", "exclude", "exclude_seen"
        )
        self.similar_query = query.reader(table, "item_id", "budget", "top_k")
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin: the model loads in the background while the port already answers."""
        self.metrics.set("budgetrec_workers", 1.0)
        self.engine.monitor.start()
        self._tasks = [asyncio.create_task(self.keeper.run()), asyncio.create_task(self._tick())]

    async def stop(self) -> None:
        """End: no more background work, threads joined."""
        self.drain()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.keeper.close()
        self.engine.close()
        self.metrics.set("budgetrec_workers", 0.0)

    def drain(self) -> None:
        """Report not ready from now on; requests are still served."""
        self.draining = True
        self.metrics.set("budgetrec_ready", 0.0)

    def not_ready_because(self) -> str | None:
        """Why the service is not ready, or None when it is."""
        if self.draining:
            return "it is shutting down"
        return None if self.engine.model is not None else self.keeper.state

    # ---- requests

    def authorize(self, headers: Headers) -> Key | None:
        """Return the caller's key; 401 or 403 if keys are required and this one will not do."""
        if not self.keyring.required:
            return None
        return self.keyring.identify(presented_key(headers))

    def ask_recommend(self, raw_query: bytes, headers: Headers, arrival: float) -> Ask:
        """Read `GET /recommend`."""
        values = self.recommend_query.read(raw_query)
        return Ask(
            user_id=values["user_id"],
            budget=values.get("budget"),
            top_k=values.get("top_k", self.settings.default_top_k),
            deadline=tightest_deadline(headers, values.get("deadline_ms")),
            target_recall=values.get("target_recall"),
            exclude=values.get("exclude", ()),
            exclude_seen=values.get("exclude_seen"),
            priority=read_priority(headers),
            arrival=arrival,
        )

    def ask_similar(self, raw_query: bytes, headers: Headers, arrival: float) -> Ask:
        """Read `GET /similar`."""
        values = self.similar_query.read(raw_query)
        return Ask(
            item_id=values["item_id"],
            budget=values.get("budget"),
            top_k=values.get("top_k", self.settings.default_top_k),
            deadline=tightest_deadline(headers, None),
            priority=read_priority(headers),
            arrival=arrival,
        )

    def failed(self, error: ApiError, headers: Headers) -> None:
        """Count an error by its code, and by class of caller if it protects the rest."""
        self.metrics.count("budgetrec_failed_total", error.code)
        if error.code in SHED_REASONS:
            priority = "batch" if (b"x-priority", b"batch") in headers else "interactive"
            self.metrics.count("budgetrec_shed_total", error.code, priority)

    # ---- between requests

    async def _tick(self) -> None:
        """Keep the gauges and the cost law current."""
        engine, metrics = self.engine, self.metrics
        row, admission = metrics.row, engine.admission
        ticks = 0
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = perf_counter()
            row[metrics.queued_products] = admission.products()
            row[metrics.in_flight] = admission.requests()
            metrics.set("budgetrec_pressure", admission.pressure(now))
            ticks += 1
            if ticks % TICKS_PER_FOLD == 0:
                engine.fold_costs()
                metrics.set("budgetrec_cost_law_a_seconds", engine.law.a)
                metrics.set("budgetrec_cost_law_b_seconds", engine.law.b)
