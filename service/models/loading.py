"""Making a bundle ready to serve, aside from the requests: open, verify, warm up, and weigh against the running one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import Bundle, GreedyCoreError
from service.models.model import Model

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.settings import Settings


class RefusedError(Exception):
    """A model that will not be served; the text says why."""


class AskedLately(NamedTuple):
    """A question that was answered, kept for the warm-up of the next model: a user or a vector, and its size."""

    user_id: str | None
    vector: npt.NDArray[np.float32] | None
    top_k: int
    budget: int


class ModelLoader:
    """Loads models in whatever thread it is called from; touches nothing that requests use."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def load(self, path: Path, lately: Sequence[AskedLately], *, verified: Collection[str]) -> Model:
        """Open, verify and warm up a bundle; any fault becomes a RefusedError with its reason.

        Checksums are read unless the bundle's fingerprint, which covers every file as it is now, is in `verified`.
        """
        began = time.perf_counter()
        try:
            bundle = Bundle.open(path)
            model = Model(bundle)
            if self._settings.verify and model.fingerprint not in verified:
                bundle.verify()
            self._warm_up(model, lately)
        except (GreedyCoreError, OSError, ValueError) as error:
            raise RefusedError(str(error)) from error
        model.load_seconds = time.perf_counter() - began
        return model

    def _warm_up(self, model: Model, lately: Sequence[AskedLately]) -> None:
        """Replay recent questions (or ask for the first users), so that the first callers find all of it warm."""
        for query, hint, top_k, budget in self._questions(model, lately):
            granted = model.reachable(min(budget, self._settings.max_budget))
            result = model.index.search(query, top_k, granted, None, None, hint)
            if result.spent > granted or not np.isfinite(result.scores).all():
                raise RefusedError("a warm-up query gave a result that breaks the contract; build the model again")
            model.fragments(result.ids.tolist())

    def _questions(
        self, model: Model, lately: Sequence[AskedLately]
    ) -> list[tuple[npt.NDArray[np.float32], npt.NDArray[Any] | None, int, int]]:
        """Return what to warm up with: query, hint, top_k and budget."""
        most = self._settings.warm_up_queries
        usual = (self._settings.default_top_k, self._settings.default_budget)
        found: list[tuple[npt.NDArray[np.float32], npt.NDArray[Any] | None, int, int]] = []
        for user_id, vector, top_k, budget in lately[-most:] if most else ():
            user = None if user_id is None else model.user(user_id)
            if user is not None:
                found.append((user.vector, user.hint, top_k, budget))
            elif vector is not None and len(vector) == model.n_dims:
                found.append((vector, None, top_k, budget))
        if not found:
            bundle = model.bundle
            users = (model.user(bundle.user_id(position)) for position in range(min(most, bundle.n_users)))
            found = [(user.vector, user.hint, *usual) for user in users if user is not None]
        return found or [(np.ones(model.n_dims, dtype=np.float32), None, *usual)]

    def gate(self, model: Model, running: Model | None) -> None:
        """Refuse a model whose calibrated recall at the default budget falls too far behind the running one's."""
        if running is None or running.calibration is None:
            return
        if model.calibration is None:
            raise RefusedError(
                "it has no calibration, so its recall cannot be compared with the running model's; build it with one"
            )
        budget = self._settings.default_budget
        old, new = running.calibration.recall_at(budget), model.calibration.recall_at(budget)
        if new < old - self._settings.recall_tolerance:
            raise RefusedError(
                f"its recall@10 against exact search at budget {budget} is {new:.4f}, the running model has {old:.4f}, "
                f"and at most {self._settings.recall_tolerance} may be lost"
            )
