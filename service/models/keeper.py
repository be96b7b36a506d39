"""Which model the workers serve, and how it changes without a request noticing.

    pointer, SIGHUP, /admin/reload ──► one worker, holding the lock: open ─► verify ─► warm up ─► gate
                                              │ good                             │ bad
                                              ▼                                  ▼
                              decision: serve this one            decision: refused, and why; the old one serves on
                                              │
          every worker sees the decision ──► open ─► warm up ─► swap between two requests ─► report

A worker that cannot follow a decision tries again, ever less often, says so in log and metrics, and reports not ready
when it has been behind for too long. All file access happens in the loader's thread.
"""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from greedy_core import StorageError, VersionsFolder, is_bundle
from service.errors import ApiError, nothing_to_roll_back, swap_refused
from service.logs import logger
from service.models.loading import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.models.agreement import Agreement, Decision
    from service.models.loading import AskedLately, ModelLoader
    from service.models.model import Model
    from service.settings import Settings
    from service.telemetry.model_metrics import ModelMetrics

# How long /admin/reload waits for the other workers before it answers with those that made it.
OTHERS_SECONDS = 10.0
# How long a change waits for another worker that is deciding.
LOCK_SECONDS = 60.0
# A model that could not be loaded is tried again after a delay that doubles between these two.
SHORTEST_DELAY, LONGEST_DELAY = 0.25, 5.0


class Place(Protocol):
    """Where models are served from."""

    model: Model | None

    @property
    def asked_lately(self) -> Sequence[AskedLately]:
        """Return what was asked lately, for the warm-up of the next model."""

    def use(self, model: Model) -> None:
        """Serve this model from the next request on."""


class Change(NamedTuple):
    """What the loader's thread hands to the event loop: a decision, and its model if this worker has to swap."""

    decision: Decision
    model: Model | None


class ModelKeeper:
    """Loads, swaps and rolls back a model of one worker, in agreement with the others.

    models  the models folder, or a single bundle
    """

    def __init__(
        self,
        settings: Settings,
        models: Path,
        place: Place,
        metrics: ModelMetrics,
        agreement: Agreement,
        loader: ModelLoader,
    ) -> None:
        self._settings = settings
        self._models = models
        self._place = place
        self._metrics = metrics
        self._agreement = agreement
        self._loader = loader
        self._generation = 0
        self._waits_for = "the model is loading"
        self._behind_since: float | None = None
        self._failures = 0
        self._next_try = 0.0
        self._failed_on: object = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="loader")
        self._busy = asyncio.Lock()
        self._log = logger() if metrics.arm is None else logger().bind(model=metrics.arm)

    def not_ready_because(self) -> str | None:
        """Why this worker should get no requests, None if it should. Anybody may read it, so it names no paths."""
        if self._place.model is None:
            return self._waits_for
        if self._behind_since is not None and time.monotonic() - self._behind_since > self._settings.follow_seconds:
            return "this worker cannot follow a change of the model"
        return None

    # ---- the life of the keeper

    async def run(self) -> None:
        """Load the first model, then follow the pointer and the other workers until cancelled."""
        while True:
            try:
                await self._step()
            except RefusedError:
                pass  # said and counted where it happened
            except Exception as error:  # noqa: BLE001 - the running model serves on
                self._log.error("looking for a new model failed", reason=str(error))
            await asyncio.sleep(self._settings.poll_seconds)

    async def close(self) -> None:
        """Stop the loader thread."""
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)
        self._agreement.close()

    # ---- what callers ask for

    async def reload(self, version: str | None = None, *, force: bool = False) -> dict[str, Any]:
        """Load what the pointer names (or `version`), and swap in every worker; 409 with the reason if it is bad."""
        before = self._version()
        try:
            await self._decide(self._try_change, version, force, True)
        except (RefusedError, OSError) as refused:
            raise swap_refused(version, str(refused)) from None
        return await self._outcome("swapped", before)

    async def rollback(self) -> dict[str, Any]:
        """Return to the model served before, in every worker."""
        before = self._version()
        try:
            await self._decide(self._try_rollback)
        except (RefusedError, OSError) as refused:
            raise swap_refused(None, f"the one before cannot be served: {refused}") from None
        return await self._outcome("rolled_back", before)

    # ---- on the event loop

    async def _step(self) -> None:
        """Follow a decision of another worker; else, if the pointer moved, try what it names."""
        async with self._busy:
            change = await self._in_loader(self._look)
            if change is not None:
                self._apply(change)

    async def _decide(self, function: Callable[..., Change | None], *arguments: Any) -> None:
        """Run a decision in the loader, waiting for another worker that is at one."""
        end = time.monotonic() + LOCK_SECONDS
        async with self._busy:
            while True:
                change = await self._in_loader(self._alone, function, *arguments)
                if change is not None:
                    self._apply(change)
                    return
                if time.monotonic() > end:
                    raise RefusedError("another worker has been changing the model for a minute; try again later")
                await asyncio.sleep(0.05)

    def _apply(self, change: Change) -> None:
        """Follow a decision. Putting a model in place is one assignment, between two requests."""
        decision, model = change
        if model is not None:
            self._place.use(model)
            self._metrics.serves(
                model.version,
                built=_timestamp(model.bundle.built_at),
                loaded=model.loaded_at,
                seconds=model.load_seconds,
            )
            self._log.info("model ready", version=model.version, seconds=round(model.load_seconds, 3))
        self._generation = decision.generation
        self._metrics.follows(decision.generation)
        self._behind_since = None
        self._failures = 0
        self._failed_on = None

    def _version(self) -> str | None:
        return None if self._place.model is None else self._place.model.version

    async def _outcome(self, outcome: str, before: str | None) -> dict[str, Any]:
        """Wait for the other workers and say how far the change came."""
        version, decided = self._version(), self._generation
        end = time.monotonic() + OTHERS_SECONDS
        while True:
            generations = self._metrics.generations()
            done = sum(generation >= decided for generation in generations)
            if done >= len(generations) or time.monotonic() > end:
                break
            await asyncio.sleep(0.02)
        return {
            "outcome": outcome,
            **({} if self._metrics.arm is None else {"model": self._metrics.arm}),
            "version": version,
            "previous": before,
            "workers": {"total": max(1, len(generations)), "serving": max(1, done)},
        }

    async def _in_loader(self, function: Callable[..., Change | None], *arguments: Any) -> Change | None:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    # ---- in the loader's thread

    def _look(self) -> Change | None:
        """Return what to follow, None if nothing has changed or it is too early to try again."""
        if self._agreement.generation > self._generation or self._place.model is None:
            decision = self._agreement.decision()
            if decision.path is not None and self._may_try(decision.generation):
                try:
                    return self._follow(decision)
                except RefusedError as refused:
                    self._note_failure(decision.generation, Path(decision.path).name, refused)
        decision = self._agreement.decision()
        pointer = self._pointer()
        if decision.path is not None and (pointer is None or pointer == decision.pointer):
            return None
        if not self._may_try(pointer):
            return None
        try:
            return self._alone(self._try_change, None, False, False)
        except RefusedError as refused:
            if decision.path is None:
                self._note_failure(pointer, None if pointer is None else Path(pointer).name, refused)
            raise

    def _follow(self, decision: Decision) -> Change:
        """Open what another worker decided."""
        if decision.outcome == "refused" and self._place.model is not None:
            return Change(decision, None)
        return Change(decision, self._load(Path(decision.path or ""), decision))

    def _may_try(self, what: object) -> bool:
        """Whether something else is wanted than what failed, or the delay since the failure is over."""
        return what != self._failed_on or time.monotonic() >= self._next_try

    def _note_failure(self, what: object, version: str | None, refused: RefusedError) -> None:
        now = time.monotonic()
        if what != self._failed_on:
            self._failures = 0
        self._failed_on = what
        self._next_try = now + min(LONGEST_DELAY, SHORTEST_DELAY * 2**self._failures)
        self._failures += 1
        self._behind_since = self._behind_since or now
        named = "no version is current" if version is None else f"version {version!r} could not be loaded"
        self._waits_for = f"{named}; it is tried again, or promote another one; the log has the reason"
        self._metrics.swapped("not_followed")
        self._log.error("model not loaded", version=version, attempt=self._failures, reason=str(refused))

    def _alone(self, function: Callable[..., Change | None], *arguments: Any) -> Change | None:
        """Call with the right to decide; None if another worker has it."""
        with self._agreement.lock() as mine:
            return function(*arguments) if mine else None

    def _try_change(self, version: str | None, force: bool, recheck: bool) -> Change | None:
        """Load and decide. `recheck` reads all checksums, also of a version that is served already."""
        decision = self._agreement.decision()
        # Looked up under the lock: what the pointer names now is what this decision answers for.
        target, pointer = self._target(version)
        if target is None:
            raise RefusedError(f"{self._models} has no current version; make one with `budgetrec promote`")
        if not recheck and decision.path is not None and pointer == decision.pointer:
            return self._follow(decision)
        generation = decision.generation + 1
        returns = str(target) in decision.history
        try:
            verified = () if recheck else decision.verified
            model = self._loader.load(target, self._place.asked_lately, verified=verified)
            # A pointer moved back to what was served before is a rollback, and needs no gate.
            if not force and (recheck or not returns):
                self._loader.gate(model, self._place.model)
        except RefusedError as refused:
            self._metrics.swapped("refused")
            self._log.error("model refused", version=target.name, reason=str(refused))
            if decision.path is not None:
                refusal = replace(
                    decision, generation=generation, pointer=pointer, outcome="refused", reason=str(refused)
                )
                self._agreement.decide(refusal)
            raise
        if returns:
            history = decision.history[: decision.history.index(str(target))]
        else:
            history = decision.history if decision.path == str(target) else decision.with_history(decision.path)
        decided = replace(
            decision,
            generation=generation,
            path=str(target),
            history=history,
            # Whoever follows the pointer leaves it alone: it may have moved on while the model was loaded.
            pointer=pointer if version is None else self._point_at(target),
            outcome="swapped",
            reason=None,
            verified=decision.with_verified(model.fingerprint),
        )
        self._agreement.decide(decided)
        if decision.path is not None:
            # Counted where it is decided, so that one change is one, however many workers follow.
            self._metrics.swapped("swapped")
        return Change(decided, model)

    def _try_rollback(self) -> Change:
        decision = self._agreement.decision()
        target = self._before(decision)
        if target is None:
            raise nothing_to_roll_back()
        model = self._load(target, decision)
        pointer = self._point_back(target)
        decided = replace(
            decision,
            generation=decision.generation + 1,
            path=str(target),
            history=decision.history if str(target) == decision.path else decision.history[:-1],
            pointer=pointer,
            outcome="rolled_back",
            reason=None,
            verified=decision.with_verified(model.fingerprint),
        )
        self._agreement.decide(decided)
        self._log.info("model rolled back", version=target.name)
        self._metrics.swapped("rolled_back")
        return Change(decided, model)

    def _before(self, decision: Decision) -> Path | None:
        """Return what was current before: by the folder's history, or by this run's if the folder is read-only.

        Where the current version was refused, that is the one which is served: the pointer returns to it.
        """
        folder = self._folder()
        if folder is not None and (decision.outcome == "refused" or decision.path == self._pointer()):
            version = folder.previous_version()
            return None if version is None else (folder.path / version).resolve()
        return Path(decision.history[-1]) if decision.history else None

    def _load(self, path: Path, decision: Decision) -> Model:
        """Return a model that was found good before; its checksums are read again if any file has changed since."""
        return self._loader.load(path, self._place.asked_lately, verified=decision.verified)

    # ---- the folder

    def _folder(self) -> VersionsFolder | None:
        """Return the versions folder, None if the setting names a single bundle."""
        path = self._models
        return None if is_bundle(path) else VersionsFolder(path)

    def _pointer(self) -> str | None:
        """Return the bundle that `current` names, None where nothing does."""
        folder = self._folder()
        current = None if folder is None else folder.current()
        # Not Path.resolve, which raises its own kind of error for a link that leads to itself.
        return None if current is None else os.path.realpath(current)

    def _target(self, version: str | None) -> tuple[Path | None, str | None]:
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
            return self._models.resolve(), None
        if version is not None and version not in folder.versions():
            raise ApiError(
                404, "not_found", f"There is no version {version[:80]!r}.", "`budgetrec inspect` lists the versions."
            )
        pointer = self._pointer()
        if version is not None:
            return (folder.path / version).resolve(), pointer
        return None if pointer is None else Path(pointer), pointer

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
        return self._pointer()

    def _point_back(self, target: Path) -> str | None:
        """Move `current` back, as `_point_at` moves it on."""
        folder = self._folder()
        if folder is not None and folder.previous_version() == target.name:
            try:
                folder.rollback()
            except StorageError as error:
                self._log.warning("the current pointer could not be moved", reason=str(error))
        return self._pointer()


def _timestamp(iso: str) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return 0.0
