"""Vectors from interactions, by `implicit`: alternating least squares, BPR, logistic matrix factorisation."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core.embeddings import MAX_MAGNITUDE
from greedy_core.errors import InvalidEventsError, StorageError
from greedy_core.formats.names import missing_extra
from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from greedy_core.embeddings import Float32Array

MODEL_KINDS = ("als", "bpr", "lmf")

_LARGEST = 1e9


class Vectors(NamedTuple):
    """Rows of users and items whose inner products rank the items for a user."""

    users: Float32Array
    items: Float32Array


@dataclass(frozen=True)
class ModelSettings:
    """How a model is trained; None stands for the default of its kind.

    factors  dimensions of the vectors; by default fewer for small tables, which many would learn by heart
    alpha    how much more an interaction counts than none: the confidence of ALS is alpha times the weight
    """

    kind: str = "als"
    factors: int | None = None
    regularization: float | None = None
    alpha: float | None = None
    learning_rate: float | None = None
    iterations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in MODEL_KINDS:
            raise InvalidEventsError(f"there is no model {self.kind!r}; choose one of {', '.join(MODEL_KINDS)}.")
        unused = "learning_rate" if self.kind == "als" else "alpha"
        if getattr(self, unused) is not None:
            raise InvalidEventsError(f"{unused} means nothing to the model {self.kind}; leave it out.")
        for name in ("alpha", "regularization"):
            value = getattr(self, name)
            # Written so that NaN is refused too.
            if (value is not None and not 0 <= value <= _LARGEST) or (name == "alpha" and value == 0):
                lowest = "above 0" if name == "alpha" else "from 0"
                raise InvalidEventsError(f"{name} is a number {lowest} up to {_LARGEST:.0e}, but {value!r} was given.")

    def complete(self, n_users: int, n_items: int) -> ModelSettings:
        """Return the same with the defaults for a table of this size filled in."""
        defaults = _DEFAULTS[self.kind] | {"factors": usual_factors(n_users, n_items)}
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can hold, without what means nothing to this kind."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_DEFAULTS: dict[str, dict[str, Any]] = {
    "als": {"regularization": 10.0, "alpha": 20.0, "iterations": 15},
    "bpr": {"regularization": 0.01, "learning_rate": 0.05, "iterations": 100},
    "lmf": {"regularization": 0.6, "learning_rate": 1.0, "iterations": 30},
}


def usual_factors(n_users: int, n_items: int) -> int:
    """Return the power of two, from 8 to 128, that is nearest to a 32nd of the smaller side of the table."""
    return 1 << round(min(max(math.log2(max(min(n_users, n_items), 1) / 32), 3.0), 7.0))


def factorise(
    matrix: Any, settings: ModelSettings, *, what: str = "training", threads: int | None = None, show: bool = False
) -> Vectors:
    """Train a model on a users x items matrix of weights (CSR).

    ALS gives the same vectors for the same seed; the threads of the others race, so theirs differ a little.
    """
    settings = settings.complete(*matrix.shape)
    make = _maker(settings.kind)
    options = {name: value for name, value in settings.to_dict().items() if name not in {"kind", "seed"}}
    # implicit has threads of its own; with BLAS threads underneath it is many times slower, and says so.
    with (
        threadpool_limits(1, "blas"),
        progress_bar(f"{what} ({settings.kind})", settings.iterations, show=show) as advance,
    ):
        model = make(**options, random_state=settings.seed, num_threads=threads or 0)
        with suppress(_fit_error()):
            model.fit(matrix, show_progress=False, callback=lambda *_: advance(1))
    vectors = Vectors(model.user_factors, model.item_factors)
    # Written so that NaN is refused too.
    if not all(float(np.abs(side).max()) <= MAX_MAGNITUDE for side in vectors):
        raise InvalidEventsError(
            f"the model {settings.kind} did not converge: its vectors grew without bound; try a larger regularization, "
            "a smaller learning rate, or another model."
        )
    return vectors


def _maker(kind: str) -> Callable[..., Any]:
    """Return the class of a kind of model: those for CPUs, since a GPU's are not there everywhere."""
    try:
        if kind == "als":
            from implicit.cpu.als import AlternatingLeastSquares as Model  # type: ignore[import-untyped]  # noqa: PLC0415
        elif kind == "bpr":
            from implicit.cpu.bpr import BayesianPersonalizedRanking as Model  # type: ignore[import-untyped]  # noqa: PLC0415
        else:
            from implicit.cpu.lmf import LogisticMatrixFactorization as Model  # type: ignore[import-untyped]  # noqa: PLC0415
    except ModuleNotFoundError:
        raise StorageError(missing_extra("training", "implicit", "train")) from None
    made: Callable[..., Any] = Model
    return made


def _fit_error() -> type[Exception]:
    from implicit.recommender_base import ModelFitError  # type: ignore[import-untyped]  # noqa: PLC0415

    error: type[Exception] = ModelFitError
    return error
