"""The split of an experiment: shares hold, it never changes by itself, and a growing arm only wins users."""

import math
from hashlib import blake2b

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.experiment import Experiment

names = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789_-", min_size=1, max_size=20)
shares = st.floats(0.05, 20, allow_nan=False)
experiments = st.builds(Experiment, names, st.dictionaries(names, shares, min_size=2, max_size=5))
users = st.lists(st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()), min_size=1, max_size=50)
MANY = [f"user-{number}" for number in range(2000)]


def test_known_answers():
    experiment = Experiment("two-towers", {"main": 0.9, "new": 0.1})
    arms = "".join(experiment.arm_of(str(user))[0] for user in range(60))
    assert arms == "mmmmmmmmmmmmmmmmmnmmmmnmmmmmmmmmmnmmmmmmmmmmmnmmmmmnmmmmmmmn"


def test_as_documented():
    experiment = Experiment("e", {"a": 2.0, "b": 1.0, "c": 1.0})

    def distance(arm, user):
        drawn = (int.from_bytes(blake2b(f"e\0{arm}\0{user}".encode(), digest_size=8).digest(), "big") + 0.5) / 2**64
        return -math.log(drawn) / experiment.shares[arm]

    for user in (*MANY[:200], "ünï ©ode", "日本", "a\0b"):
        assert experiment.arm_of(user) == min("abc", key=lambda arm: distance(arm, user))


@settings(max_examples=25)
@given(experiments)
def test_shares_hold(experiment):
    arms = [experiment.arm_of(user) for user in MANY]
    assert math.isclose(sum(map(experiment.share, experiment.shares)), 1)
    for arm in experiment.shares:
        share = experiment.share(arm)
        # Five standard errors and a half of a user: one wrong alarm in a million arms.
        allowed = 5 * math.sqrt(share * (1 - share) * len(MANY)) + 0.5
        assert abs(arms.count(arm) - share * len(MANY)) <= allowed


@settings(max_examples=60)
@given(experiments, users, st.randoms(use_true_random=False))
def test_the_order_of_the_arms_does_not_matter(experiment, users, random):
    shuffled = list(experiment.shares.items())
    random.shuffle(shuffled)
    again = Experiment(experiment.name, dict(shuffled))
    assert [again.arm_of(user) for user in users] == [experiment.arm_of(user) for user in users]


@settings(max_examples=60)
@given(experiments, st.floats(1.01, 10), st.data())
def test_a_growing_arm_only_wins_users(experiment, factor, data):
    grown = data.draw(st.sampled_from(sorted(experiment.shares)))
    after = Experiment(experiment.name, experiment.shares | {grown: experiment.shares[grown] * factor})
    for user in MANY[:300]:
        now = after.arm_of(user)
        assert now in (experiment.arm_of(user), grown)


@settings(max_examples=60)
@given(st.floats(0.01, 0.98), st.floats(0.001, 0.01))
def test_of_two_arms_one_may_grow_by_what_the_other_loses(share, more):
    before = Experiment("e", {"main": 1 - share, "new": share})
    after = Experiment("e", {"main": 1 - share - more, "new": share + more})
    assert all(after.arm_of(user) == "new" for user in MANY[:500] if before.arm_of(user) == "new")


@settings(max_examples=60)
@given(experiments, st.data())
def test_an_arm_that_ends_leaves_the_users_of_the_others(experiment, data):
    ended = data.draw(st.sampled_from(sorted(experiment.shares)))
    left = Experiment(experiment.name, experiment.shares | {ended: 0.0})
    for user in MANY[:300]:
        before = experiment.arm_of(user)
        assert left.arm_of(user) == before or before == ended


def test_another_name_deals_the_users_anew():
    first, second = (Experiment(name, {"a": 1.0, "b": 1.0}) for name in ("first", "second"))
    same = sum(first.arm_of(user) == second.arm_of(user) for user in MANY)
    assert abs(same - len(MANY) / 2) < 5 * math.sqrt(len(MANY) / 4)


@pytest.mark.parametrize(
    ("given_text", "sentence"),
    [
        ("main=0.9", "an experiment is an object with a name and arms"),
        ('{"name": "e"}', "an experiment is an object with a name and arms"),
        ('{"name": "e", "arms": ["main"]}', "an experiment is an object with a name and arms"),
        ('{"name": "two towers", "arms": {"main": 1}}', "'two towers' is no name for an experiment"),
        ('{"name": 7, "arms": {"main": 1}}', "'7' is no name for an experiment"),
        ('{"name": "e", "arms": {"main": -1}}', "the share of main in the experiment e is -1; give a number"),
        ('{"name": "e", "arms": {"main": NaN}}', "the share of main in the experiment e is nan; give a number"),
        ('{"name": "e", "arms": {"main": true}}', "the share of main in the experiment e is True; give a number"),
        ('{"name": "e", "arms": {"main": 0}}', "the experiment e gives no arm a share"),
        ('{"name": "e", "arms": {}}', "the experiment e gives no arm a share"),
    ],
)
def test_what_is_no_experiment(given_text, sentence):
    with pytest.raises(ValueError, match=sentence):
        Experiment.read(given_text)
