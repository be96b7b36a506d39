"""Which model the workers serve, and how it changes without a request noticing.

    pointer, SIGHUP, /admin/reload ──► one worker, holding the lock: open ─► verify ─► warm up ─► gate
                                              │ good                             │ bad
                                              ▼                                  ▼
                              decision: serve this one            decision: refused, and why; the old one serves on
                                              │
          every worker reads the decision ──► open ─► warm up ─► swap between two requests ─► report

The previous model stays open, which costs addresses and no memory, so that a rollback is instant.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greedy_core import StorageError, VersionsFolder
from service.errors import ApiError
from service.loading import ModelLoader, RefusedError, identity_of
from service.logs import logger
from service.rundir import Decision

if TYPE_CHECKING:
    from service.engine import Engine
    from service.loading import Recent
    from service.metrics import Metrics
    from service.model import Model
    from service.rundir import RunDir
    from service.settings import Settings

# How long /admin/reload waits for the other workers before it answers with those that made it.
OTHERS_SECONDS = 10.0
# A first model that cannot be loaded is tried again this often, and at once when the pointer moves.
RETRY_SECONDS = 2.0


class ModelKeeper:
    """Loads, swaps and rolls back the model of one worker, in agreement with the others."""

    def __init__(self, settings: Settings, engine: Engine, metrics: Metrics, run_dir: RunDir) -> None:
        self.settings = settings
        self.state = "the model is loading"
        self.generation = 0
        self._engine = engine
        self._metrics = metrics
        self._run_dir = run_dir
        self._previous: Model | None = None
        self._loader = ModelLoader(settings, run_dir)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self._busy = asyncio.Lock()
        self._log = logger()

    # ---- the life of the keeper

    async def run(self) -> None:
        """Load the first model, then follow the pointer and the other workers until cancelled."""
        while self._engine.model is None:
            try:
                await self._load_first()
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a model, the port stays bound and says so
                self.state = f"no model could be loaded: {error}"
                self._metrics.count("budgetrec_model_swaps_total", "refused")
                self._log.error("model refused", reason=str(error))
                self._report()
                await self._pointer_moves(RETRY_SECONDS)
        while True:
            await asyncio.sleep(self.settings.poll_seconds)
            try:
                await self._look()
            except RefusedError:
                pass  # said and counted where it happened
            except Exception as error:  # noqa: BLE001 - the running model serves on
                self._log.error("looking for a new model failed", reason=str(error))

    async def close(self) -> None:
        """Stop the loader thread."""
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)

    # ---- what callers ask for

    async def reload(self, version: str | None = None, *, force: bool = False) -> dict[str, Any]:
        """Load what the pointer names (or `version`), and swap in every worker; 409 with the reason if it is bad."""
        before = self._engine.model
        try:
            await self._change(version, force=force, recheck=True)
        except RefusedError as refused:
            raise ApiError(
                409,
                "swap_refused",
                f"The model {version or ''} was refused: {refused}".replace("  ", " "),
                "The running model serves on. Repair the bundle; a model refused for its recall can be forced with "
                '{"force": true}.',
            ) from None
        return await self._outcome("swapped", before)

    async def rollback(self) -> dict[str, Any]:
        """Return to the model served before, in every worker."""
        before = self._engine.model
        async with self._busy:
            target = await self._in_loader(self._decide_rollback)
            await self._follow()
        self._log.info("model rolled back", version=target)
        self._metrics.count("budgetrec_model_swaps_total", "rolled_back")
        return await self._outcome("rolled_back", before)

    # ---- noticing

    async def _look(self) -> None:
        """Follow a decision of another worker; else, if the pointer moved, try what it names."""
        if self._run_dir.decision_changed():
            async with self._busy:
                await self._follow()
        _, pointer = self._target()
        if pointer is not None and pointer != self._run_dir.decision().pointer:
            await self._change()

    async def _pointer_moves(self, seconds: float) -> None:
        """Wait until the pointer names something else, at most `seconds`."""
        _, before = self._target()
        for _ in range(round(seconds / self.settings.poll_seconds)):
            await asyncio.sleep(self.settings.poll_seconds)
            if self._target()[1] != before:
                return

    def _folder(self) -> VersionsFolder | None:
        """Return the versions folder, None if the setting names a single bundle."""
        path = self.settings.models
        return None if (path / "model.json").is_file() else VersionsFolder(path)

    def _target(self, version: str | None = None) -> tuple[Path | None, str | None]:
        """Return the bundle to serve, and what the pointer names; the pointer is None for a single bundle."""
        folder = self._folder()
        if folder is None:
            if version is not None:
                raise ApiError(
                    422,
                    "invalid_parameter",
                    "version cannot be chosen: the service runs on a single bundle.",
                    "Leave it out, or point BUDGETREC_MODELS at a folder of versions.",
                )
            return self.settings.models.resolve(), None
        if version is not None and version not in folder.versions():
            raise ApiError(
                404, "not_found", f"There is no version {version[:80]!r}.", "`budgetrec inspect` lists the versions."
            )
        current = folder.current()
        resolved = None if current is None else current.resolve()
        pointer = None if resolved is None else str(resolved)
        return (resolved if version is None else (self.settings.models / version).resolve()), pointer

    # ---- changing

    async def _load_first(self) -> None:
        async with self._busy:
            await self._in_loader(self._decide_first)
            await self._follow()

    async def _change(self, version: str | None = None, *, force: bool = False, recheck: bool = False) -> None:
        """Try a model and publish the decision; swap here if it is good, raise RefusedError if not."""
        async with self._busy:
            recent: Recent = list(self._engine.recent)
            try:
                model = await self._in_loader(self._decide_change, version, recent, force, recheck)
            except RefusedError as refused:
                self._metrics.count("budgetrec_model_swaps_total", "refused")
                self._log.error("model refused", reason=str(refused))
                self.generation = self._run_dir.decision().generation
                self._report()
                raise
            if model is None:
                await self._follow()
                return
            self._swap(model)
            # Counted where it is decided, so that one change is one, however many workers follow.
            self._metrics.count("budgetrec_model_swaps_total", "swapped")

    async def _follow(self) -> None:
        """Serve what was decided."""
        decision = self._run_dir.decision()
        if decision.path is None or decision.generation <= self.generation:
            return
        current = self._engine.model
        if current is None or decision.outcome != "refused":
            recent: Recent = list(self._engine.recent)
            model = await self._in_loader(self._reopen, Path(decision.path), recent)
            self._swap(model)
        self.generation = decision.generation
        self._report()

    def _swap(self, model: Model) -> None:
        """Put the model in place: one assignment on the loop's thread, between two requests."""
        before = self._engine.model
        self._engine.use(model)
        if before is not None and before.identity != model.identity:
            self._previous = before
        self.state = "ready"
        self.generation = self._run_dir.decision().generation
        self._metrics.model(
            model.version, built=_timestamp(model.bundle.built_at), loaded=model.loaded_at, seconds=model.load_seconds
        )
        self._metrics.set("budgetrec_ready", 1.0)
        self._log.info("model ready", version=model.version, seconds=round(model.load_seconds, 3))
        self._report()

    async def _outcome(self, outcome: str, before: Model | None) -> dict[str, Any]:
        """Wait for the other workers and say how far the change came."""
        generation = self.generation
        end = time.monotonic() + OTHERS_SECONDS
        while True:
            reports = self._run_dir.reports()
            done = sum(report["generation"] >= generation for report in reports.values())
            if done >= len(reports) or time.monotonic() > end:
                break
            await asyncio.sleep(0.02)
        model = self._engine.model
        return {
            "outcome": outcome,
            "version": model.version if model else None,
            "previous": before.version if before else None,
            "workers": {"total": max(1, len(reports)), "serving": max(1, done)},
        }

    def _report(self) -> None:
        model = self._engine.model
        self._run_dir.report({"generation": self.generation, "version": model.version if model else None})

    async def _in_loader(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    # ---- in the loader's thread

    def _decide_first(self) -> None:
        """Make sure there is a decision: made by the first worker that comes here, read by all."""
        with self._run_dir.lock():
            decision = self._run_dir.decision()
            if decision.path is not None:
                return
            target, pointer = self._target()
            if target is None:
                raise RefusedError(f"{self.settings.models} has no current version; make one with `budgetrec promote`")
            self._loader.load(target, [], recheck=False)
            self._run_dir.decide(Decision(decision.generation + 1, str(target), pointer=pointer, outcome="swapped"))

    def _decide_change(self, version: str | None, recent: Recent, force: bool, recheck: bool) -> Model | None:
        """Load aside and decide. None if another worker has decided the same meanwhile."""
        with self._run_dir.lock():
            decision = self._run_dir.decision()
            # Looked up under the lock: what the pointer names now is what this decision answers for.
            target, pointer = self._target(version)
            if target is None:
                raise RefusedError("there is no current version; make one with `budgetrec promote`")
            if not recheck and pointer == decision.pointer:
                return None
            generation = decision.generation + 1
            try:
                model = self._loader.load(target, recent, recheck=recheck)
                # A pointer moved back to what was served before is a rollback, and needs no gate.
                if not force and (recheck or str(target) != decision.previous):
                    self._loader.gate(model, self._engine.model)
            except RefusedError as refused:
                self._run_dir.decide(
                    Decision(generation, decision.path, decision.previous, pointer, "refused", str(refused))
                )
                raise
            previous = decision.path if decision.path != str(target) else decision.previous
            pointer = self._point_at(target)
            self._run_dir.decide(Decision(generation, str(target), previous, pointer, "swapped"))
            return model

    def _decide_rollback(self) -> str:
        with self._run_dir.lock():
            decision = self._run_dir.decision()
            target = self._before(decision)
            if target is None:
                raise ApiError(
                    409,
                    "nothing_to_roll_back",
                    "No other model was served before this one, so there is none to return to.",
                    'Choose a version with POST /admin/reload and {"version": "..."}.',
                )
            try:
                self._reopen(target, [])
            except RefusedError as refused:
                raise ApiError(
                    409,
                    "swap_refused",
                    f"The previous model cannot be served: {refused}",
                    "The running model serves on.",
                ) from None
            pointer = self._point_at(target)
            self._run_dir.decide(Decision(decision.generation + 1, str(target), decision.path, pointer, "rolled_back"))
            return target.name

    def _before(self, decision: Decision) -> Path | None:
        """Return what was served before: in this run, else, by the folder's memory, in an earlier one."""
        if decision.previous is not None:
            return Path(decision.previous)
        folder = self._folder()
        version = None if folder is None else folder.previous_version()
        return None if version is None else (self.settings.models / version).resolve()

    def _reopen(self, path: Path, recent: Recent) -> Model:
        """Return a model that was already found good: the one kept from before, or opened anew."""
        kept = self._previous
        if kept is not None and kept.identity == identity_of(path):
            return kept
        return self._loader.load(path, recent, recheck=False)

    def _point_at(self, target: Path) -> str | None:
        """Move `current` to what is now served, so that a restart serves it too; return what it names after that.

        A folder that cannot be written (a read-only mount) keeps its pointer, and the decision stands all the same.
        """
        folder = self._folder()
        if folder is None:
            return None
        try:
            folder.promote(target.name)
        except StorageError as error:
            self._log.warning("the current pointer could not be moved", reason=str(error))
        return self._target()[1]


def _timestamp(iso: str) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return 0.0
