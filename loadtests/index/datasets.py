"""The data that every benchmark of the index runs on.

    from loadtests.index import datasets
    data = datasets.load("topics", items=650_000, dims=128)
    data.items, data.users, data.queries      # float32, one row per vector

| name           | what it is                                                                              |
|----------------|-----------------------------------------------------------------------------------------|
| `gaussian`     | items and queries from the normal distribution, as in the paper                         |
| `uniform`      | items and queries uniform in [0, 1): the non-negative case                              |
| `topics`       | interactions generated from a topic model, factorised by `implicit`: recommender-like   |
| `interactions` | any `.npz` with arrays `user` and `item` (optionally `rating`), factorised              |

`users` may be used to fit directions; `queries` are other users, never to be shown to a build. Factorised
sets are cached under `.cache/datasets` and memory-mapped from there; same arguments, same vectors.

`python -m loadtests.index.datasets topics --items 650000 --dims 128` fills the cache ahead of a benchmark.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadtests.index import training

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int32]

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "datasets"
NAMES = ("gaussian", "uniform", "topics", "interactions")
# How interactions are factorised, with a number that changes with the generator or the factorisation: vectors cached
# by an older one must not be met again.
METHODS = {"als": 1, "explicit": 2, **training.METHODS}
# Of conjugate gradients in a round of the explicit factorisation; where nothing is left to improve, TINY is divided by.
STEPS, TINY = 3, np.float32(1e-30)


class Dataset(NamedTuple):
    """Items to search, users that a build may look at, and queries that it may not."""

    name: str
    items: Floats
    users: Floats
    queries: Floats


class Interactions(NamedTuple):
    """Who met what: parallel arrays, each pair once, users and items numbered from 0 without gaps."""

    user: Ints
    item: Ints
    rating: Floats | None = None


def load(
    name: str,
    *,
    items: int = 650_000,
    dims: int = 128,
    interactions: str | Path | None = None,
    method: str = "als",
    alpha: float = 1.0,
    queries: int = 2_000,
    seed: int = 0,
    progress: bool = True,
) -> Dataset:
    """Return the named data set, from the cache if it was made before.

    `interactions` (a path) selects the set of that name and ignores `items`; `method` is how interactions are
    factorised, "als" (implicit feedback), "explicit" (the paper's objective) or a method of training.py. `alpha` is
    the confidence that ALS puts in an interaction: 1 is the library's default, 10 to 40 give flatter vectors that are
    harder to search.
    At most a fifth of the users become queries.
    """
    if interactions is not None:
        name = "interactions"
    if name not in NAMES or method not in METHODS:
        raise ValueError(
            f"There is no data set {name!r} by {method!r}: choose one of {', '.join(NAMES)} by {', '.join(METHODS)}."
        )
    if min(items, dims, queries) < 1:
        raise ValueError(f"Sizes are at least 1; got items={items}, dims={dims}, queries={queries}.")
    if name in ("gaussian", "uniform"):
        return _independent(name, items, dims, queries, seed)
    if name == "interactions":
        if interactions is None:
            raise ValueError("The data set 'interactions' needs a file: pass interactions=file.npz.")
        path = Path(interactions)
        label = path.stem
        key: dict[str, object] = {"file": hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()}
    else:
        path = None
        label = "topics"
        key = {"items": items}
    key |= {"dims": dims, "method": method, "seed": seed, "recipe": METHODS[method]}
    if alpha != 1.0:
        key["alpha"] = alpha
    digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=4).hexdigest()
    folder = CACHE / f"{label}-{method}-{dims}-{digest}"
    if not folder.exists():
        pairs = read_interactions(path) if path else generate_topics(items, seed=seed, progress=progress)
        if method == "als":
            vectors = factorise_implicit(pairs, dims, alpha=alpha, seed=seed, progress=progress)
        elif method == "explicit":
            vectors = factorise_explicit(pairs, dims, seed=seed, progress=progress)
        else:
            vectors = training.train(pairs, method, dims, seed=seed)
        _store(folder, *vectors)
    item_vectors = np.load(folder / "items.npy", mmap_mode="r")
    user_vectors = np.load(folder / "users.npy", mmap_mode="r")
    # Users were shuffled when they were stored: a slice is a sample.
    cut = min(queries, max(1, len(user_vectors) // 5))
    shape = f"{len(item_vectors)}x{item_vectors.shape[1]}"
    suffix = f"-{method}" if method != "als" else "" if alpha == 1.0 else f"-alpha{alpha:g}"
    return Dataset(f"{label}{suffix}-{shape}", item_vectors, user_vectors[cut:], np.array(user_vectors[:cut]))


def _independent(name: str, items: int, dims: int, queries: int, seed: int) -> Dataset:
    """Vectors without any structure: too quick to make to be worth a cache."""
    rng = np.random.default_rng([seed, items, dims])
    draw = rng.standard_normal if name == "gaussian" else rng.random
    vectors = [draw((rows, dims), dtype=np.float32) for rows in (items, max(queries, 10_000), queries)]
    return Dataset(f"{name}-{items}x{dims}", *vectors)


def _store(folder: Path, users: Floats, items: Floats) -> None:
    """Write both matrices under a temporary name first, so that a crash never leaves half a data set."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent))
    order = np.random.default_rng(len(users)).permutation(len(users))
    np.save(unfinished / "users.npy", np.ascontiguousarray(users[order], dtype=np.float32))
    np.save(unfinished / "items.npy", np.ascontiguousarray(items, dtype=np.float32))
    try:
        unfinished.rename(folder)
    except OSError:  # another process made the same set meanwhile
        shutil.rmtree(unfinished)


def read_interactions(path: Path) -> Interactions:
    """Read `user`, `item` and perhaps `rating` from a `.npz`; users and items are renumbered without gaps."""
    with np.load(path) as stored:
        if "user" not in stored or "item" not in stored:
            raise ValueError(f"{path} has arrays {', '.join(stored) or 'none'}; expected `user` and `item`.")
        user, item = stored["user"], stored["item"]
        rating = stored["rating"].astype(np.float32) if "rating" in stored else None
    if (
        user.shape != item.shape
        or user.ndim != 1
        or user.size == 0
        or (rating is not None and rating.shape != user.shape)
    ):
        raise ValueError(f"The arrays in {path} do not fit together; expected the same length, at least 1, for each.")
    user = np.unique(user, return_inverse=True)[1]
    item = np.unique(item, return_inverse=True)[1]
    return _distinct(user, item, rating)


def _distinct(user: NDArray[np.int64], item: NDArray[np.int64], rating: Floats | None = None) -> Interactions:
    """Sort by user, then item, and keep the first of each repeated pair."""
    width = int(item.max()) + 1
    pair, first = np.unique(user.astype(np.int64) * width + item, return_index=True)
    kept = None if rating is None else rating[first]
    return Interactions((pair // width).astype(np.int32), (pair % width).astype(np.int32), kept)


def generate_topics(n_items: int, *, seed: int = 0, progress: bool = True) -> Interactions:
    """Draw interactions as a recommender sees them.

    Topics of uneven size lie in genres. A user has one genre of its own and a few topics, most of them there;
    how much a user does is log-normal. Inside a topic items are popular by a shifted Zipf law, and one
    interaction in twelve is with something popular everywhere. A quarter of the items is listed in a second
    topic. Every item is met at least three times, by users of its own topic where there are any.
    """
    rng = np.random.default_rng([seed, n_items])
    n_users = max(200, min(200_000, n_items // 2))
    n_topics = int(np.clip(n_items // 400, 8, 1_200))
    n_genres = max(2, n_topics // 25)
    with _progress("generating interactions", 4, shown=progress) as advance:
        genre_of_topic = rng.integers(0, n_genres, n_topics)
        topic_order = np.argsort(genre_of_topic, kind="stable")
        genre_start = np.searchsorted(genre_of_topic[topic_order], np.arange(n_genres + 1))
        topic_share = rng.dirichlet(np.full(n_topics, 1.5))

        home = rng.choice(n_topics, n_items, p=topic_share).astype(np.int64)
        second = np.flatnonzero(rng.random(n_items) < 0.25)
        listed = np.concatenate([home, rng.choice(n_topics, second.size, p=topic_share)])
        listed_item = np.concatenate([np.arange(n_items), second])
        # The order inside a topic is its popularity; a random key first keeps item numbers free of meaning.
        shuffled = rng.permutation(listed.size)
        shuffled = shuffled[np.argsort(listed[shuffled], kind="stable")]
        catalogue = listed_item[shuffled]
        topic_start = np.searchsorted(listed[shuffled], np.arange(n_topics + 1))
        advance()

        own_genre = rng.integers(0, n_genres, n_users)
        n_own = 1 + rng.poisson(2.0, n_users).clip(0, 7)
        user_of_slot = np.repeat(np.arange(n_users), n_own)
        genre = own_genre[user_of_slot]
        size = genre_start[genre + 1] - genre_start[genre]
        inside = topic_order[
            (genre_start[genre] + (rng.random(genre.size) * size).astype(np.int64)).clip(0, n_topics - 1)
        ]
        anywhere = rng.choice(n_topics, genre.size, p=topic_share)
        slot_topic = np.where((rng.random(genre.size) < 0.65) & (size > 0), inside, anywhere)
        slot_start = np.concatenate([[0], np.cumsum(n_own)])
        advance()

        activity = np.exp(rng.normal(3.2, 0.9, n_users)).astype(np.int64).clip(5, 2_000)
        user = np.repeat(np.arange(n_users), activity)
        # The first topic of a user is its favourite: the square leans towards it.
        slot = slot_start[user] + (rng.random(user.size) ** 2 * n_own[user]).astype(np.int64)
        item = catalogue[_popular(rng, topic_start, slot_topic[slot])]
        everywhere = rng.random(user.size) < 1 / 12
        by_fame = rng.permutation(n_items)
        ends = np.array([0, n_items])
        item[everywhere] = by_fame[_popular(rng, ends, np.zeros(int(everywhere.sum()), dtype=np.int64))]
        advance()

        # The long tail: nothing in a catalogue was never met at all.
        slots_by_topic = np.argsort(slot_topic, kind="stable")
        fans_start = np.searchsorted(slot_topic[slots_by_topic], np.arange(n_topics + 1))
        rare = np.repeat(np.arange(n_items), np.maximum(3 - np.bincount(item, minlength=n_items), 0))
        fans = fans_start[home[rare] + 1] - fans_start[home[rare]]
        pick = (fans_start[home[rare]] + (rng.random(rare.size) * fans).astype(np.int64)).clip(0, slot_topic.size - 1)
        fan = np.where(fans > 0, user_of_slot[slots_by_topic[pick]], rng.integers(0, n_users, rare.size))
        pairs = _distinct(np.concatenate([user, fan]), np.concatenate([item, rare]))
        advance()
    return pairs


def _popular(rng: np.random.Generator, start: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """One position per entry of `group`, inside that group's range, by a Zipf law of its rank."""
    size = np.maximum(start[group + 1] - start[group], 1)
    rank = (8.0 * ((1.0 + size / 8.0) ** rng.random(group.size) - 1.0)).astype(np.int64)
    return np.minimum(start[group] + np.minimum(rank, size - 1), start[-1] - 1)


def factorise_implicit(
    pairs: Interactions,
    dims: int,
    *,
    alpha: float = 1.0,
    seed: int = 0,
    progress: bool = True,
    iterations: int = 10,
) -> tuple[Floats, Floats]:
    """User and item vectors by `implicit`'s alternating least squares."""
    # implicit has threads of its own; with BLAS threads underneath it is many times slower, and says so.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.cpu.als import AlternatingLeastSquares  # noqa: PLC0415 - optional extra
    from scipy.sparse import csr_matrix  # noqa: PLC0415 - optional extra
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - optional extra

    matrix = csr_matrix((np.ones(pairs.user.size, dtype=np.float32), (pairs.user, pairs.item)))
    with (
        threadpool_limits(1, "blas"),
        _progress(f"factorising, {dims} dimensions", iterations, shown=progress) as step,
    ):
        model = AlternatingLeastSquares(
            factors=dims, alpha=alpha, iterations=iterations, regularization=0.01, random_state=seed
        )
        model.fit(matrix, show_progress=False, callback=lambda *_: step())
    return model.user_factors, model.item_factors


def factorise_explicit(
    pairs: Interactions,
    dims: int,
    *,
    regularization: float | None = None,
    seed: int = 0,
    progress: bool = True,
    iterations: int = 8,
) -> tuple[Floats, Floats]:
    """User and item vectors by the paper's objective (section 5), with alternating least squares.

    min sum over ratings (rating - w_i.h_j)^2
        + lambda (sum_i |ratings of i| / n |w_i|^2 + sum_j |ratings of j| / m |h_j|^2)

    Unless `regularization` (lambda) is given, both factors lambda / n and lambda / m are 0.05. Without
    ratings a met pair counts 1, and as many pairs that were not met (drawn by popularity) count 0: ones
    alone are fitted perfectly by one dimension.
    """
    user, item, rating = pairs
    rng = np.random.default_rng([seed, dims])
    if rating is None:
        met = user.size
        user = np.concatenate([user, user])
        item = np.concatenate([item, rng.permutation(item)])
        rating = np.concatenate([np.ones(met, dtype=np.float32), np.zeros(met, dtype=np.float32)])
        user, item, rating = _distinct(user, item, rating)
    n_users, n_items = int(user.max()) + 1, int(item.max()) + 1
    user_weight = 0.05 if regularization is None else regularization / n_items
    item_weight = 0.05 if regularization is None else regularization / n_users
    items = (rng.standard_normal((n_items, dims), dtype=np.float32) * np.float32(dims**-0.5)).astype(np.float32)
    users = np.zeros((n_users, dims), dtype=np.float32)
    by_user, by_item = _grouped(user, item, rating), _grouped(item, user, rating)
    with _progress(f"factorising explicitly, {dims} dimensions", 2 * iterations, shown=progress) as advance:
        for _ in range(iterations):
            _improve_side(users, items, by_user, user_weight)
            advance()
            _improve_side(items, users, by_item, item_weight)
            advance()
    return users, items


class _Grouped(NamedTuple):
    """Ratings in the order of their row: row r has entries start[r]..start[r + 1]."""

    start: NDArray[np.int64]
    other: Ints
    rating: Floats


def _grouped(row: Ints, other: Ints, rating: Floats) -> _Grouped:
    order = np.argsort(row, kind="stable")
    return _Grouped(np.concatenate([[0], np.cumsum(np.bincount(row))]), other[order], rating[order])


def _improve_side(solved: Floats, fixed: Floats, ratings: _Grouped, weight: float) -> None:
    """Bring every row of `solved` closer to its least squares, in batches of rows with about as many ratings.

    Conjugate gradients from where the last round left a row: three steps cost a third of a solution and take the
    objective of the alternation as far down (Takacs, Pilaszy, Tikk: Applications of the conjugate gradient method for
    implicit feedback collaborative filtering).
    """
    count = np.diff(ratings.start)
    for rows, width in _batches(count, fixed.shape[1]):
        offset = np.arange(width)
        real = offset < count[rows, None]
        entry = np.where(real, ratings.start[rows, None] + offset, 0)
        known = fixed[ratings.other[entry]] * real[..., None].astype(np.float32)
        target = (ratings.rating[entry] * real).astype(np.float32)[..., None]
        ridge = (weight * count[rows]).astype(np.float32)[:, None, None]
        across = known.transpose(0, 2, 1)
        vectors = solved[rows][..., None]
        residual = across @ (target - known @ vectors) - ridge * vectors
        direction, left = residual, _squares(residual)
        for _ in range(STEPS):
            image = across @ (known @ direction) + ridge * direction
            step = left / np.maximum((direction * image).sum(axis=1, keepdims=True), TINY)
            vectors += step * direction
            residual = residual - step * image
            before, left = left, _squares(residual)
            direction = residual + left / np.maximum(before, TINY) * direction
        solved[rows] = vectors[..., 0]


def _squares(vectors: Floats) -> Floats:
    return np.square(vectors).sum(axis=1, keepdims=True)


def _batches(count: NDArray[np.int64], dims: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Rows by rising number of ratings, in batches that fill about 64 MB when padded to their longest."""
    order = np.argsort(count, kind="stable")
    order = order[count[order] > 0]
    begin = 0
    while begin < order.size:
        end = begin + 1
        for size in (1 << p for p in range(14)):
            stop = min(begin + size, order.size)
            width = int(count[order[stop - 1]])
            if size > 1 and (
                (stop - begin) * max(width, dims) * dims > 1 << 24 or width > 1.5 * count[order[begin]] + 4
            ):
                break
            end = stop
        yield order[begin:end], int(count[order[end - 1]])
        begin = end


class _progress:  # noqa: N801 - reads as a function at its use
    """A bar of known length on stderr; entering gives the function that moves it on."""

    def __init__(self, what: str, steps: int, *, shown: bool) -> None:
        from rich.console import Console  # noqa: PLC0415 - only when there is something to show
        from rich.progress import Progress  # noqa: PLC0415

        self._bar = Progress(console=Console(stderr=True), disable=not shown)
        self._task = self._bar.add_task(what, total=steps)

    def __enter__(self):  # noqa: ANN204
        self._bar.start()
        return lambda: self._bar.advance(self._task)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options by which every benchmark chooses its data."""
    parser.add_argument("--items", type=int, default=650_000, help="items of a generated set (default: %(default)s)")
    parser.add_argument("--dims", type=int, default=128, help="dimensions (default: %(default)s)")
    parser.add_argument(
        "--interactions", type=Path, metavar="FILE.npz", help="factorise these instead: arrays user, item"
    )
    parser.add_argument("--alpha", type=float, default=1.0, help="confidence in ALS (default: %(default)s)")
    parser.add_argument("--method", choices=METHODS, default="als", help="how interactions are factorised")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.index.datasets", description="Fill the cache of data sets."
    )
    parser.add_argument("name", nargs="?", default="topics", choices=NAMES)
    add_arguments(parser)
    options = vars(parser.parse_args(arguments))
    data = load(**options)
    print(f"{data.name}: items {data.items.shape}, users {data.users.shape}, queries {data.queries.shape}")


if __name__ == "__main__":
    main()
