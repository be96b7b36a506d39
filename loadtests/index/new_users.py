"""What the vector of somebody is worth who just met some items: stored, made of them, or moved by them.

    python -m loadtests.index.new_users interactions.npz [--method als|bpr] [--alpha 10] [--regularization 0.1]

Of users with at least 20 items, 15 items each are kept out of the training: some of ten that "just happened", and
five to be found. Printed: recall and NDCG of these five, history and new items left out, and the paired difference
to the stored vector with its standard error; and before that, what making a vector of 3, 30 and 300 items takes.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from timeit import repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core.fold_in import FoldIn, FoldInSystem, ItemsMet, make_vector
from loadtests.index.datasets import read_interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ids = NDArray[np.int64]

RECENT, TARGETS, LEAST = 10, 5, 20
HELD_OUT, ASKED = 4000, 1500
FACTORS, SEED = 128, 7
GAINS = 1 / np.log2(np.arange(2, 12))


class User(NamedTuple):
    """A user whose items were drawn apart."""

    position: int
    history: Ids
    recent: Ids
    targets: Ids


def split(user: Ids, item: Ids) -> tuple[list[User], NDArray[np.bool_]]:
    """Return the users to ask for, and which interactions to train on."""
    rng = np.random.default_rng(SEED)
    order = np.argsort(user, kind="stable")
    starts = np.searchsorted(user[order], np.arange(user.max() + 2))
    drawn = rng.permutation(np.flatnonzero(np.diff(starts) >= LEAST))[:HELD_OUT]
    kept = np.ones(len(user), dtype=bool)
    users = []
    for position in drawn.tolist():
        rows = rng.permutation(order[starts[position] : starts[position + 1]])
        kept[rows[-RECENT - TARGETS :]] = False
        parts = (rows[: -RECENT - TARGETS], rows[-RECENT - TARGETS : -TARGETS], rows[-TARGETS:])
        users.append(User(position, *(item[part] for part in parts)))
    return users[:ASKED], kept


def train(user: Ids, item: Ids, method: str, fold_in: FoldIn) -> tuple[Floats, Floats]:
    """Return user and item vectors by `implicit`."""
    # implicit has threads of its own; with BLAS threads underneath it is many times slower, and says so.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - optional extra
    from implicit.cpu.bpr import BayesianPersonalizedRanking  # noqa: PLC0415
    from scipy.sparse import csr_matrix  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    met = csr_matrix((np.ones(len(user), dtype=np.float32), (user, item)))
    with threadpool_limits(1, "blas"):
        if method == "als":
            model = AlternatingLeastSquares(
                FACTORS, regularization=fold_in.regularization, alpha=fold_in.alpha, iterations=12, random_state=1
            )
        else:
            model = BayesianPersonalizedRanking(FACTORS - 1, iterations=60, random_state=1)
        model.fit(met, show_progress=False)
    return model.user_factors, model.item_factors


def score(items: Floats, vectors: Floats, users: list[User], n_recent: int) -> NDArray[np.float64]:
    """Return recall@10, recall@20 and NDCG@10 of each user."""
    found = []
    for vector, user in zip(vectors, users, strict=True):
        products = items @ vector
        products[user.history] = products[user.recent[:n_recent]] = -np.inf
        top = np.argpartition(-products, 20)[:20]
        hits = np.isin(top[np.argsort(-products[top])], user.targets)
        found.append(
            (hits[:10].mean() * 10 / TARGETS, hits.mean() * 20 / TARGETS, hits[:10] @ GAINS / GAINS[:TARGETS].sum())
        )
    return np.array(found)


def microseconds(items: Floats, system: FoldInSystem | None, n_met: int) -> tuple[float, float]:
    """Return how long a vector of so many items takes in the best of many loops, alone and with one to be moved."""
    rng = np.random.default_rng(SEED)
    positions = rng.choice(len(items), n_met, replace=False)
    weights = rng.uniform(1.0, 5.0, n_met)
    loops = 20

    def seconds(prior: Floats | None) -> float:
        def make() -> None:
            make_vector(items, system, ItemsMet.of(positions, weights, len(items)), prior)

        return min(repeat(make, number=loops, repeat=50)) / loops

    return seconds(None) * 1e6, seconds(items[0]) * 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interactions", type=Path)
    parser.add_argument("--method", choices=("als", "bpr"), default="als")
    parser.add_argument("--alpha", type=float, default=10.0)
    parser.add_argument("--regularization", type=float, default=0.1)
    asked = parser.parse_args(arguments)
    pairs = read_interactions(asked.interactions)
    users, kept = split(pairs.user, pairs.item)
    fold_in = FoldIn(asked.regularization, asked.alpha)
    stored, items = train(pairs.user[kept], pairs.item[kept], asked.method, fold_in)
    system = FoldInSystem.of(fold_in, items) if asked.method == "als" else None

    for n_met in (3, 30, 300):
        print(
            "{} items with weights, {} dimensions: {:.0f} us, with a vector to be moved {:.0f} us".format(
                n_met, items.shape[1], *microseconds(items, system, n_met)
            ),
            flush=True,
        )

    def made(ids: Ids, prior: Floats | None = None) -> Floats:
        return make_vector(items, system, ItemsMet.of(ids, None, len(items)), prior).vector

    for n_recent in (1, 3, 10):
        before = np.array([stored[user.position] for user in users])
        alone = np.array([made(user.recent[:n_recent]) for user in users])
        vectors = {
            "stored": before,
            "made of the new items": alone,
            "made of history and new items": np.array(
                [made(np.concatenate([user.history, user.recent[:n_recent]])) for user in users]
            ),
            "stored, moved": np.array([made(user.recent[:n_recent], stored[user.position]) for user in users]),
            "half stored, half new": (before + alone) / 2,
        }
        print(f"{asked.method}, {n_recent} new items")
        base = score(items, before, users, n_recent)
        for name, of_users in vectors.items():
            reached = score(items, of_users, users, n_recent)
            more = reached[:, 2] - base[:, 2]
            print(
                "  {:30} recall@10 {:.4f}  recall@20 {:.4f}  NDCG@10 {:.4f}  {:+.4f} ± {:.4f}".format(
                    name, *reached.mean(axis=0), more.mean(), more.std() / len(more) ** 0.5
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
