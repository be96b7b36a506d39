"""A small grid of settings around the defaults, chosen by NDCG@10 on held-out interactions."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from greedy_core.exact import ExactIndex
from greedy_core.training.measuring import exact_ndcg
from greedy_core.training.models import factorise, usual_factors

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from greedy_core.training.models import ModelSettings
    from greedy_core.training.split import Split

_GRID: dict[str, dict[str, tuple[float, ...]]] = {
    "als": {"alpha": (1.0, 10.0, 40.0), "regularization": (1.0, 10.0, 30.0)},
    "bpr": {"learning_rate": (0.02, 0.05, 0.1), "regularization": (0.005, 0.02)},
    "lmf": {"learning_rate": (0.5, 1.0), "regularization": (0.2, 0.6, 2.0)},
}


class Tried(NamedTuple):
    """Settings, and the NDCG@10 that they had."""

    settings: ModelSettings
    ndcg_at_10: float


def candidates(settings: ModelSettings, n_users: int, n_items: int) -> list[ModelSettings]:
    """Return the settings to compare, the defaults first; what the caller gave stays as it is."""
    tried = {name: values for name, values in _GRID[settings.kind].items() if getattr(settings, name) is None}
    points: list[dict[str, Any]] = [dict(zip(tried, values, strict=True)) for values in product(*tried.values())]
    grid = [replace(settings, **point) for point in points]
    return list(dict.fromkeys(each.complete(n_users, n_items) for each in (settings, *grid)))


def tune(
    parts: Split, users: npt.NDArray[np.int64], settings: ModelSettings, *, threads: int | None, show: bool
) -> list[Tried]:
    """Train every candidate on the training part and ask for what these users had held out; the best comes first.

    Half and twice the dimensions are tried with the best of the rest, unless the caller gave their number.
    """
    chosen = candidates(settings, *parts.training.shape)
    n_tries = len(chosen) + (2 if settings.factors is None else 0)
    tried: list[Tried] = []

    def attempt(each: ModelSettings) -> None:
        what = f"trying {len(tried) + 1} of {n_tries}"
        vectors = factorise(parts.training, each, what=what, threads=threads, show=show)
        index: Any = ExactIndex.build(vectors.items)
        tried.append(Tried(each, exact_ndcg(index, vectors.users, users, parts)))
        tried.sort(key=lambda one: -one.ndcg_at_10)

    for each in chosen:
        attempt(each)
    if settings.factors is None:
        best = tried[0].settings
        usual = usual_factors(*parts.training.shape)
        for factors in (usual // 2, usual * 2):
            attempt(replace(best, factors=factors))
    return tried
