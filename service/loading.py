"""Making a bundle ready to serve, aside from the requests: open, verify, warm up, and weigh against the running one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from greedy_core import Bundle, GreedyCoreError
from service.model import Model

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from service.rundir import RunDir
    from service.settings import Settings

    # User or vector, top_k, budget of questions asked lately.
    Recent = list[tuple[str | None, npt.NDArray[np.float32] | None, int, int]]


class RefusedError(Exception):
    """A model that will not be served; the text says why."""


class ModelLoader:
    """Loads models in whatever thread it is called from; touches nothing that requests use."""

    def __init__(self, settings: Settings, run_dir: RunDir) -> None:
        self.settings = settings
        self._run_dir = run_dir

    def load(self, path: Path, recent: Recent, *, recheck: bool) -> Model:
        """Open, verify and warm up a bundle aside; any fault becomes a RefusedError with its reason."""
        began = time.perf_counter()
        try:
            identity = identity_of(path)
            bundle = Bundle.open(path)
            if self.settings.verify and (recheck or not self._run_dir.is_verified(identity)):
                bundle.verify()
                self._run_dir.set_verified(identity)
            model = Model(bundle, identity=identity)
            self._warm_up(model, recent)
        except (GreedyCoreError, OSError, ValueError) as error:
            raise RefusedError(str(error)) from error
        model.load_seconds = time.perf_counter() - began
        return model

    def _warm_up(self, model: Model, recent: Recent) -> None:
        """Replay recent questions (or ask for the first users), so that the first callers find all of it warm."""
        most = self.settings.warm_up_queries
        bundle = model.bundle
        usual = (self.settings.default_top_k, self.settings.default_budget)
        questions: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32] | None, int, int]] = []
        for user_id, vector, top_k, budget in recent[-most:] if most else []:
            user = None if user_id is None else model.user(user_id)
            query = vector if user is None else user.vector
            if query is not None and len(query) == model.n_dims:
                questions.append((query, None if user is None else user.route, top_k, budget))
        if not questions:
            users = (model.user(bundle.user_id(position)) for position in range(min(most, bundle.n_users)))
            questions = [(user.vector, user.route, *usual) for user in users if user is not None]
        if not questions:
            questions = [(model.index.items[0], None, *usual)]
        for query, route, top_k, budget in questions:
            granted = model.reachable(min(budget, self.settings.max_budget))
            result = model.index.search(query, top_k, granted, decomposition=route)
            if result.spent > granted or not np.isfinite(result.scores).all():
                raise RefusedError("a warm-up query gave a result that breaks the contract; build the model again")
            model.fragments(result.ids.tolist())

    def gate(self, model: Model, running: Model | None) -> None:
        """Refuse a model whose calibrated recall at the default budget falls too far behind the running one's."""
        if running is None or running.calibration is None or model.calibration is None:
            return
        budget = self.settings.default_budget
        old, new = running.calibration.recall_at(budget), model.calibration.recall_at(budget)
        if new < old - self.settings.recall_tolerance:
            raise RefusedError(
                f"its recall@10 at budget {budget} is {new:.4f}, the running model has {old:.4f}, and at most "
                f"{self.settings.recall_tolerance} may be lost"
            )


def identity_of(path: Path) -> str:
    """Tell apart two bundles that were at the same path one after the other."""
    stat = (path / "model.json").stat()
    return f"{path.resolve()}:{stat.st_ino}:{stat.st_mtime_ns}"
