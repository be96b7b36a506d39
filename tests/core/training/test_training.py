"""Training on people with tastes: the model finds them, says how well, and no library warns."""

import sys

import numpy as np
import pytest

from greedy_core import (
    Bundle,
    Events,
    Interactions,
    InvalidEventsError,
    ModelSettings,
    StorageError,
    build_bundle,
    train,
)
from greedy_core.training.models import factorise, usual_factors
from greedy_core.training.tuning import candidates

N_USERS, N_ITEMS = 240, 120


def people(*, timed=False):
    """Users of four tastes, who meet thirty items each of their own kind, and few others."""
    rng = np.random.default_rng(3)
    users = np.repeat(np.arange(N_USERS), 14)
    own = rng.random(len(users)) < 0.9
    items = np.where(own, 30 * (users % 4) + rng.integers(0, 30, len(users)), rng.integers(0, N_ITEMS, len(users)))
    return Events(
        "people",
        users.astype(np.int32),
        items.astype(np.int32),
        [f"u{user}" for user in range(N_USERS)],
        [f"i{item}" for item in range(N_ITEMS)],
        times=rng.integers(0, 10**6, len(users)) if timed else None,
    )


@pytest.mark.parametrize("kind", ["als", "bpr", "lmf"])
@pytest.mark.parametrize("timed", [False, True])
def test_every_kind_of_model_finds_the_tastes(kind, timed):
    met = Interactions.of(people(timed=timed))
    trained = train(met, ModelSettings(kind, factors=8, iterations=40), threads=1)
    assert trained.vectors.users.shape[0] == N_USERS
    assert trained.quality.exact.ndcg_at_10 > 1.5 * trained.quality.popular.ndcg_at_10
    assert ("before" in trained.quality.split) == timed
    scores = trained.vectors.users @ trained.vectors.items.T
    best = np.argsort(-scores, axis=1)[:, :10]
    assert (best // 30 == (np.arange(N_USERS) % 4)[:, None]).mean() > 0.8


def test_als_is_the_same_for_the_same_seed():
    matrix = Interactions.of(people()).matrix()
    one, two, other = (factorise(matrix, ModelSettings(factors=8, seed=seed)) for seed in (1, 1, 2))
    assert (one.items == two.items).all()
    assert (one.items != other.items).any()


def test_tuning_takes_the_best_of_the_grid_and_measures_on_others():
    trained = train(Interactions.of(people()), ModelSettings(factors=4, iterations=3), tuned=True)
    ndcgs = [one.ndcg_at_10 for one in trained.tried]
    assert ndcgs == sorted(ndcgs, reverse=True)
    assert trained.settings == trained.tried[0].settings
    assert len(trained.tried) == len(candidates(ModelSettings(factors=4, iterations=3), 10, 10)) == 10
    assert trained.quality.n_users == N_USERS // 2


def test_what_the_caller_set_is_not_tuned():
    assert {each.alpha for each in candidates(ModelSettings(alpha=3.0), 10, 10)} == {3.0}
    assert candidates(ModelSettings(alpha=3.0, regularization=1.0), 10, 10) == [
        ModelSettings(alpha=3.0, regularization=1.0).complete(10, 10)
    ]


def test_dimensions_follow_the_size_of_the_table_and_are_tuned_around_it():
    shapes = [(1, 1), (10**6, 240), (2_000, 480), (10**5, 2_000), (10**6, 10**6)]
    assert [usual_factors(*shape) for shape in shapes] == [8, 8, 16, 64, 128]
    trained = train(Interactions.of(people()), ModelSettings(alpha=10, regularization=10, iterations=3), tuned=True)
    assert sorted(one.settings.factors for one in trained.tried) == [4, 8, 16]
    assert trained.settings.factors == trained.tried[0].settings.factors == trained.vectors.items.shape[1]


def test_the_defaults_beat_the_popular_items_on_a_small_table():
    quality = train(Interactions.of(people())).quality
    assert quality.exact.ndcg_at_10 > 1.5 * quality.popular.ndcg_at_10


def test_settings_that_make_no_sense():
    with pytest.raises(InvalidEventsError, match="no model 'svd'; choose one of als, bpr, lmf"):
        ModelSettings("svd")
    with pytest.raises(InvalidEventsError, match="learning_rate means nothing to the model als"):
        ModelSettings(learning_rate=0.1)
    with pytest.raises(InvalidEventsError, match="alpha means nothing to the model bpr"):
        ModelSettings("bpr", alpha=1)
    for wrong in ({"alpha": 0.0}, {"alpha": 1e20}, {"regularization": float("nan")}, {"regularization": -1.0}):
        with pytest.raises(InvalidEventsError, match=f"{next(iter(wrong))} is a number"):
            ModelSettings(**wrong)


def test_a_model_that_runs_away_is_refused():
    with pytest.raises(InvalidEventsError, match=r"did not converge.*smaller learning rate"):
        factorise(Interactions.of(people()).matrix(), ModelSettings("lmf", factors=8, learning_rate=1e30))


def test_without_the_extra_the_advice_works_from_a_checkout(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(
        StorageError, match=r"needs implicit.*in a checkout of budgetrec, run: pip install '.\[train\]'"
    ):
        factorise(Interactions.of(people()).matrix(), ModelSettings())


def test_the_quality_is_kept_in_the_bundle(tmp_path):
    met = Interactions.of(people())
    trained = train(met, ModelSettings(factors=8, iterations=3))
    build_bundle(
        tmp_path / "m",
        items=trained.vectors.items,
        users=trained.vectors.users,
        item_ids=met.item_ids,
        user_ids=met.user_ids,
        seen=met.seen,
        quality=trained.quality,
    )
    opened = Bundle.open(tmp_path / "m")
    assert opened.quality == trained.quality
    position = opened.user_position("u7")
    assert set(opened.seen_items(position).tolist()) == set(people().items[people().users == 7].tolist())
