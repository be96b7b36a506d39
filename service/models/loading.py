"""Making a bundle ready to serve, aside from the requests: open, verify, warm up, and weigh against the running one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import Bundle, GreedyCoreError
from service.models.default_budget import DefaultBudget
from service.models.filters import ConfiguredFilters
from service.models.model import Model

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from service.models.scenarios import ServedScenarios
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

    def __init__(self, settings: Settings, scenarios: ServedScenarios, arm: str | None = None) -> None:
        """Load for a service. `arm` is the name of the model where there are several."""
        self._settings = settings
        self._scenarios = scenarios
        self._arm = arm
        self._experiment = None if settings.experiment is None else settings.experiment.name
        self._default_budget = DefaultBudget(settings)
        self._filters = ConfiguredFilters(settings.filters, settings.default_filter)
        # The memory is a worker's; its models share it evenly.
        self._filter_bytes = (settings.filter_cache_mb << 20) // len(settings.folders)

    def load(self, path: Path, lately: Sequence[AskedLately], *, verified: Collection[str]) -> Model:
        """Open, verify and warm up a bundle; any fault becomes a RefusedError with its reason.

        Checksums are read unless the bundle's fingerprint, which covers every file as it is now, is in `verified`.
        """
        began = time.perf_counter()
        try:
            bundle = self._open(path)
            self._filters.check(bundle.attributes)
            self._scenarios.check(bundle.attributes)
            model = Model(bundle, self._filters, self._filter_bytes, arm=self._arm, experiment=self._experiment)
            if self._settings.verify and model.fingerprint not in verified:
                self._verify(bundle)
            self._make_ready(bundle)
            self._warm_up(model, lately)
        except (GreedyCoreError, OSError, ValueError) as error:
            raise RefusedError(str(error)) from error
        model.load_seconds = time.perf_counter() - began
        return model

    def _open(self, path: Path) -> Bundle:
        return Bundle.open(path)

    def _verify(self, bundle: Bundle) -> None:
        bundle.verify()

    def _make_ready(self, bundle: Bundle) -> None:
        """Do what is left to do before the bundle can be searched."""

    def _warm_up(self, model: Model, lately: Sequence[AskedLately]) -> None:
        """Replay recent questions (or ask for the first users), so that the first callers find all of it warm."""
        if self._filters.default is not None:
            model.filters.keep(None, model.filters.apply(None))
        for name in self._filters.named:
            model.filters.keep(f"@{name}", model.filters.apply(f"@{name}"))
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
        usual = (self._settings.default_top_k, self._default_budget.usual(model))
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
        """Refuse a model that falls too far behind the running one at the default budget of that.

        By recall against exact search; and by NDCG@10 on real behaviour, where the operator says how far.
        """
        if running is None:
            return
        self._compare_quality(model, running)
        if running.calibration is None:
            return
        if model.calibration is None:
            raise RefusedError(
                "it has no calibration, so its recall cannot be compared with the running model's; build it with one"
            )
        budget = self._default_budget.usual(running)
        old, new = running.calibration.recall_at(budget), model.calibration.recall_at(budget)
        if new < old - self._settings.recall_tolerance:
            raise RefusedError(
                f"its recall@10 against exact search at budget {budget} is {new:.4f}, the running model has {old:.4f}, "
                f"and at most {self._settings.recall_tolerance} may be lost"
            )

    def _compare_quality(self, model: Model, running: Model) -> None:
        tolerance = self._settings.ndcg_tolerance
        if tolerance is None or running.quality is None:
            return
        if model.quality is None:
            raise RefusedError(
                "it was not measured on real behaviour, so its NDCG@10 cannot be compared with the running model's; "
                "train it with `budgetrec train`, or unset ndcg_tolerance"
            )
        budget = self._default_budget.usual(running)
        old, new = running.quality.ndcg_at(budget), model.quality.ndcg_at(budget)
        if new < old * (1 - tolerance):
            raise RefusedError(
                f"its NDCG@10 on real behaviour at budget {budget} is {new:.4f}, the running model has {old:.4f}, and "
                f"at most {tolerance:.1%} of it may be lost"
            )
