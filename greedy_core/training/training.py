"""The recipe: interactions -> a model measured on what was held out -> the served model, trained on everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core.embeddings import UserVectors
from greedy_core.fold_in import FoldIn
from greedy_core.index import GreedyIndex
from greedy_core.training.measuring import MOST_USERS, measure
from greedy_core.training.models import ModelSettings, Vectors, factorise
from greedy_core.training.split import split
from greedy_core.training.tuning import Tried, tune

if TYPE_CHECKING:
    from greedy_core.quality import Quality
    from greedy_core.training.interactions import Interactions


class Trained(NamedTuple):
    """The vectors to serve, the settings they were trained with, and what is known about them.

    quality  of a model with the same settings that was trained on a part, asked for the rest; None if not measured
    tried    what was compared, the best first; empty where nothing was tuned
    """

    vectors: Vectors
    settings: ModelSettings
    quality: Quality | None
    tried: list[Tried]

    @property
    def fold_in(self) -> FoldIn | None:
        """How somebody who is not in the model gets the vector that the training would have given, where it is ALS."""
        regularization, alpha = self.settings.regularization, self.settings.alpha
        return None if regularization is None or alpha is None else FoldIn(regularization, alpha)


def train(
    interactions: Interactions,
    settings: ModelSettings | None = None,
    *,
    tuned: bool = False,
    measured: bool = True,
    max_budget: int = 4096,
    threads: int | None = None,
    progress: bool = False,
) -> Trained:
    """Train a model on all interactions; before that, measure its kind on a part of them, and choose its settings.

    Needs the extra `train`. Takes about twice the time of training and indexing alone where the quality is measured,
    and that of a dozen more trainings where settings are tuned.
    """
    given = settings or ModelSettings()
    chosen = given.complete(interactions.n_users, interactions.n_items)
    quality, tried = None, []
    if measured or tuned:
        parts = split(interactions, seed=chosen.seed)
        users = np.random.default_rng(chosen.seed).permutation(parts.users)
        if tuned:
            # Those by whom the settings are chosen are not those by whom they are measured.
            half = max(1, min(len(users) // 2, MOST_USERS))
            tried = tune(parts, np.sort(users[:half]), given, threads=threads, show=progress)
            chosen, users = tried[0].settings, users[half:] if len(users) > 1 else users
        if measured:
            trial = factorise(
                parts.training, chosen, what="training on the earlier part", threads=threads, show=progress
            )
            asked = np.diff(parts.training.indptr) > 0
            index = GreedyIndex.build(
                trial.items,
                queries=UserVectors(np.ascontiguousarray(trial.users[asked]), None),
                directions="auto",
                max_budget=max_budget,
                threads=threads,
                progress=progress,
            )
            quality = measure(index, trial.users, np.sort(users[:MOST_USERS]), parts, threads=threads, show=progress)
    vectors = factorise(interactions.matrix(), chosen, what="training on everything", threads=threads, show=progress)
    return Trained(vectors, chosen, quality, tried)
