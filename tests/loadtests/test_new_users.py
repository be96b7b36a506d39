"""The measurement of new users keeps out of the training what it asks for, and prints its table."""

import numpy as np
import pytest

from loadtests.index import new_users


@pytest.fixture(scope="module")
def interactions():
    rng = np.random.default_rng(2)
    user = np.repeat(np.arange(80), 25)
    item = np.concatenate([rng.permutation(300)[:25] for _ in range(80)])
    return user, item


def test_nothing_that_is_asked_for_was_trained_on(interactions):
    user, item = interactions
    users, kept = new_users.split(user, item)
    assert len(users) == 80
    assert (~kept).sum() == 80 * 15
    for one in users:
        trained = set(item[kept & (user == one.position)].tolist())
        assert trained == set(one.history.tolist())
        assert not trained & {*one.recent.tolist(), *one.targets.tolist()}
        assert (len(one.recent), len(one.targets)) == (10, 5)


def test_scores_of_known_answers():
    items = np.eye(30, dtype=np.float32)
    user = new_users.User(0, np.array([29]), np.arange(10, 20), np.arange(5))
    best = np.linspace(1, 0, 30, dtype=np.float32)
    worst = best[::-1].copy()
    perfect, nothing = new_users.score(items, np.array([best, worst]), [user, user], 10)
    np.testing.assert_allclose(perfect, [1, 1, 1])
    assert nothing[0] == nothing[2] == 0


@pytest.mark.parametrize("method", ["als", "bpr"])
def test_prints_a_line_for_each_vector(interactions, tmp_path, capsys, method):
    np.savez(tmp_path / "pairs.npz", user=interactions[0], item=interactions[1])
    new_users.main([str(tmp_path / "pairs.npz"), "--method", method, "--regularization", "1"])
    out = capsys.readouterr().out
    assert out.count("stored, moved") == 3
    assert out.count("NDCG@10") == 15
