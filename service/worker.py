"""One worker: its parts, put together, and the background work between requests."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

from greedy_core import GreedyIndex
from service import errors
from service.answering.answering import Answering
from service.answering.arms import Arms
from service.answering.resources import Resources
from service.errors import ApiError
from service.http.key_limits import KeyLimits
from service.http.keys import Keyring, origin_of, presented_key
from service.http.lookups import Lookups
from service.http.questions import QuestionReader
from service.logs import logger
from service.models.agreement import Agreement
from service.models.keeper import ModelKeeper
from service.models.loading import ModelLoader
from service.models.scenarios import ServedScenarios
from service.models.versions import VersionList
from service.shared_memory import SharedMemory
from service.telemetry.families import SHED_REASONS
from service.telemetry.metrics import Metrics
from service.telemetry.sampling import RateLimit, Sampler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk.trace import TracerProvider

    from service.http.key_limits import KeyLimit
    from service.settings import Settings

    Headers = Sequence[tuple[bytes, bytes]]

TICK_SECONDS = 0.05
TICKS_PER_FOLD = 10
# After so long a thread that runs Python lets others go on. With the 5 ms that are usual, a health check beside large
# bodies, which are read in threads, waits that long several times.
SWITCH_SECONDS = 0.0005
# Log lines about requests that are no HTTP, at most so many a second.
COMPLAINTS_PER_SECOND = 1


class Worker:
    """Everything that a request can reach in one worker process."""

    def __init__(self, settings: Settings, *, slot: int = 0, shared: SharedMemory | None = None) -> None:
        self.settings = settings
        memory = SharedMemory.make(settings, fresh=slot == 0) if shared is None else shared
        folders = settings.folders
        self.metrics = Metrics(
            memory.metrics,
            slots=settings.workers,
            slot=slot,
            models=tuple(folders),
            scenarios=tuple(settings.first_scenarios),
        )
        self.scenarios = ServedScenarios(memory.scenarios, settings.filters)
        self.keyring = Keyring.from_settings(settings)
        rates = [key.rate for key in self.keyring.keys]
        self._limits = KeyLimits(memory.key_usage, rates, slots=settings.workers, slot=slot)
        self.questions = QuestionReader(settings, self.scenarios)
        self.tracer_provider: TracerProvider | None = None
        self._resources = Resources(settings, self.metrics)
        make = self._answering_maker()
        self.arms = Arms(
            {name: make(self.metrics, resources=self._resources, which=which) for which, name in enumerate(folders)},
            settings.experiment,
        )
        self.admission = self._resources.admission
        self.keepers = {
            name: ModelKeeper(
                settings,
                folder,
                answering,
                answering.model_metrics,
                Agreement(agreement),
                self._make_loader(answering.model_metrics.arm),
            )
            for (name, folder), answering, agreement in zip(
                folders.items(), self.arms.by_name.values(), memory.agreements, strict=True
            )
        }
        self.lookups = Lookups()
        # Versions are compared at one budget, also where each has a default of its own.
        budget = settings.default_budget or GreedyIndex.default_budget
        self.version_lists = {name: VersionList(folder, budget) for name, folder in folders.items()}
        if shared is None:
            memory.close()
        self.log = logger()
        self._draining = False
        self._is_logged = Sampler(settings.log_sample).due
        self._complaints = RateLimit(COMPLAINTS_PER_SECOND)
        self._tasks: list[asyncio.Task[None]] = []
        self._switch_seconds = sys.getswitchinterval()  # as it was

    def _answering_maker(self) -> Callable[..., Answering]:
        """Return what makes the answering part of each model."""
        return self._make_traced() if self.settings.traces is not None else functools.partial(Answering, self.settings)

    def _make_loader(self, arm: str | None) -> ModelLoader:
        """Return what loads a model."""
        return ModelLoader(self.settings, self.scenarios, arm)

    def _make_traced(self) -> Callable[..., Answering]:
        """Return what makes answering with spans. What is imported here is there only with the extra `traces`."""
        from service.answering.traced import TracedAnswering  # noqa: PLC0415
        from service.telemetry.traces import make_provider  # noqa: PLC0415

        self.tracer_provider = make_provider(self.settings)
        return functools.partial(TracedAnswering, self.settings, self.tracer_provider)

    @property
    def answering(self) -> Answering:
        """The model that answers whoever names none."""
        return self.arms.default

    @property
    def keeper(self) -> ModelKeeper:
        """The keeper of that model."""
        return next(iter(self.keepers.values()))

    def keeper_of(self, name: str | None) -> ModelKeeper:
        """Return the keeper of a model that is to be changed; 404 if there is none, 422 if it may be any of several."""
        if name is None:
            if not self.arms.is_one:
                raise errors.model_needed(list(self.keepers))
            return self.keeper
        if name not in self.keepers:
            raise errors.unknown_model(name, list(self.keepers))
        return self.keepers[name]

    async def start(self) -> None:
        """Begin: the model loads in the background while the port already answers."""
        self._switch_seconds = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self.metrics.set("budgetrec_workers", 1.0)
        self._resources.monitor.start()
        self._tasks = [asyncio.create_task(keeper.run()) for keeper in self.keepers.values()]
        self._tasks.append(asyncio.create_task(self._tick()))

    async def stop(self) -> None:
        """End: no more background work, threads joined."""
        self.drain()
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for keeper in self.keepers.values():
            await keeper.close()
        self._resources.close()
        self.scenarios.close()
        self.lookups.close()
        if self.tracer_provider is not None:
            # What was not sent yet is sent now, for a few seconds at most.
            await asyncio.get_running_loop().run_in_executor(None, self.tracer_provider.shutdown)
        sys.setswitchinterval(self._switch_seconds)
        self.metrics.set("budgetrec_workers", 0.0)

    def drain(self) -> None:
        """Report not ready from now on; requests are still served."""
        self._draining = True
        self.metrics.set("budgetrec_ready", 0.0)

    def not_ready_because(self) -> str | None:
        """Why the worker is not ready, None when it is. The only place where this is decided."""
        if self._draining:
            return "it is shutting down"
        for name, keeper in self.keepers.items():
            reason = keeper.not_ready_because()
            if reason is not None:
                return reason if self.arms.is_one else f"the model {name} is not served: {reason}"
        return None

    async def reload(self) -> None:
        """Try all models anew, and then the scenarios; whatever is refused, what was before goes on."""
        for keeper in self.keepers.values():
            # Why a model was refused is said by its keeper.
            with contextlib.suppress(ApiError):
                await keeper.reload()
        if self.settings.scenarios is not None:
            await self._reload_scenarios()

    async def _reload_scenarios(self) -> None:
        try:
            found = await asyncio.to_thread(self.settings.load_scenarios)
            for answering in self.arms.by_name.values():
                if answering.model is not None:
                    self.scenarios.check(answering.model.attributes, found)
            self.scenarios.publish(found)
        except ValueError as refused:
            self.log.warning("scenarios refused", path=str(self.settings.scenarios), reason=str(refused))
        else:
            self.log.info("scenarios read", path=str(self.settings.scenarios), names=", ".join(found))

    # ---- requests

    def authorize(self, headers: Headers, call: str = "recommend") -> KeyLimit | None:
        """Return the limit of the caller's key, if any; 401 or 403 if keys are required and this one will not do."""
        if not self.keyring.required:
            return None
        key = self.keyring.identify(presented_key(headers))
        if key is None:
            return None
        self.keyring.check_call(key, call, origin_of(headers))
        return self._limits.by_key[key.position]

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
        metrics, admission = self.metrics, self.admission
        ticks = 0
        now, worked = perf_counter(), thread_time()
        while True:
            due, before = now + TICK_SECONDS, worked
            await asyncio.sleep(TICK_SECONDS)
            now, worked = perf_counter(), thread_time()
            # As long as the tick is late, everything else on the loop is. What other processes took of the core is
            # not our work, and smaller budgets would not shorten it.
            admission.inline.note_wait(max(0.0, min(now - due, worked - before)))
            self._limits.refill(now)
            self.scenarios.follow()
            metrics.set("budgetrec_ready", 0.0 if self.not_ready_because() else 1.0)
            metrics.set("budgetrec_queued_products", admission.products())
            metrics.set("budgetrec_in_flight", admission.requests())
            metrics.set("budgetrec_pressure", admission.pressure(now))
            metrics.set("budgetrec_filter_cache_bytes", self._filter_bytes())
            ticks += 1
            if ticks % TICKS_PER_FOLD == 0:
                for answering, keeper in zip(self.arms.by_name.values(), self.keepers.values(), strict=True):
                    answering.fold_costs()
                    is_ready = keeper.not_ready_because() is None
                    answering.model_metrics.state(is_ready=is_ready, a=answering.law.a, b=answering.law.b)

    def _filter_bytes(self) -> int:
        models = (answering.model for answering in self.arms.by_name.values())
        return sum(model.filters.bytes for model in models if model is not None)
