"""The vectors that benchmarks run on."""

import numpy as np
import pytest

from loadtests.index import datasets

WEIGHT = 0.05


@pytest.fixture(scope="module")
def ratings():
    """Ratings by 60 users of 40 items, some met by one user only; two dimensions explain most of them."""
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((60, 40)) < np.linspace(0.05, 0.9, 40))
    # Everyone has rated something and everything was rated.
    user, item = (np.concatenate(pair) for pair in ((user, np.arange(60)), (item, np.arange(60) % 40)))
    true = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 40))
    user, item, _ = datasets._distinct(user, item)
    return datasets.Interactions(user, item, (true[user, item] + 3).astype(np.float32))


def _objective(pairs, users, items):
    """Read like the paper's section 5."""
    lost = np.square(pairs.rating - np.einsum("pd,pd->p", users[pairs.user], items[pairs.item])).sum()
    lengths = np.bincount(pairs.user) @ np.square(users).sum(axis=1) + np.bincount(pairs.item) @ np.square(items).sum(
        axis=1
    )
    return lost + WEIGHT * lengths


def _solved(pairs, fixed, rows, others):
    """Every row's least squares, one after the other."""
    solved = np.zeros((rows.max() + 1, fixed.shape[1]))
    for row in range(len(solved)):
        known, target = fixed[others[rows == row]], pairs.rating[rows == row]
        ridge = WEIGHT * len(target) * np.eye(fixed.shape[1])
        solved[row] = np.linalg.solve(known.T @ known + ridge, known.T @ target)
    return solved


@pytest.mark.parametrize("dims", [1, 3, 20])
def test_explicit_factors_minimise_the_papers_objective(ratings, dims):
    users, items = datasets.factorise_explicit(ratings, dims, progress=False, iterations=40)
    assert users.shape == (60, dims)
    assert items.shape == (40, dims)
    reached = _objective(ratings, users, items)
    # Nothing is gained by solving either side exactly: it is where alternating least squares come to rest.
    better_users = _solved(ratings, items.astype(np.float64), ratings.user, ratings.item)
    better_items = _solved(ratings, users.astype(np.float64), ratings.item, ratings.user)
    assert _objective(ratings, better_users, items) >= 0.999 * reached
    assert _objective(ratings, users, better_items) >= 0.999 * reached
    assert reached < 0.5 * _objective(ratings, np.zeros_like(users), items)


def test_without_ratings_met_pairs_are_told_from_others():
    pairs = datasets.generate_topics(300, progress=False)
    users, items = datasets.factorise_explicit(pairs, 16, progress=False)
    met = np.einsum("pd,pd->p", users[pairs.user], items[pairs.item])
    drawn = np.einsum("pd,pd->p", users[pairs.user], items[np.random.default_rng(1).permutation(pairs.item)])
    assert np.median(met) > np.median(drawn) + 0.2


def test_the_same_seed_gives_the_same_vectors():
    pairs = datasets.generate_topics(300, progress=False)
    first, again, other = (datasets.factorise_explicit(pairs, 8, seed=seed, progress=False) for seed in (0, 0, 1))
    assert np.array_equal(first[1], again[1])
    assert not np.array_equal(first[1], other[1])
