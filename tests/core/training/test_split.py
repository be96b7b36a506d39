"""What is held out never leaks into what is trained on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import Interactions, InvalidEventsError
from greedy_core.training import split as splitting
from greedy_core.training.split import split


def interactions(pairs, times=None, n_users=None, n_items=None):
    users, items = (np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True))
    n_users, n_items = n_users or int(users.max()) + 1, n_items or int(items.max()) + 1
    empty = (np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    moments = None if times is None else np.array(times, dtype=np.int64)
    return Interactions(
        users, items, list(map(str, range(n_users))), list(map(str, range(n_items))), None, moments, empty
    )


def test_by_time_the_last_tenth_is_held_out(monkeypatch):
    monkeypatch.setattr(splitting, "_ENOUGH_USERS", 1)
    # User 0 begins with item 9, the others end with it.
    met = [[9, *range(9)], [*range(10)], [*range(10)]]
    pairs = [(user, item) for user, items in enumerate(met) for item in items]
    parts = split(interactions(pairs, times=[*range(10)] * 3), seed=0)
    assert parts.how == "trained on what happened before 9, asked for what happened from then on"
    assert parts.users.tolist() == [0, 1, 2]
    assert parts.held_out.indices.tolist() == [8, 9, 9]
    assert parts.training.toarray()[0].tolist() == [1] * 8 + [0, 1]
    assert parts.training.toarray()[1].tolist() == [1] * 9 + [0]


def test_an_item_that_nobody_met_before_is_not_asked_for():
    # Item 9 is met by everybody at the very end: no model could know it, so the times are of no use.
    pairs = [(user, item) for user in range(3) for item in range(10)]
    parts = split(interactions(pairs, times=[*range(10)] * 3), seed=0)
    assert parts.how == "trained without one item of each user, drawn with seed 0, and asked for that item"
    assert parts.users.tolist() == [0, 1, 2]
    assert (np.bincount(parts.training.indices, minlength=10)[parts.held_out.indices] > 0).all()


def test_the_last_of_each_where_a_cut_would_leave_too_few():
    # All of a user's events are in one session.
    pairs = [(user, (user + step) % 6) for user in range(6) for step in (0, 1, 2, 0)]
    parts = split(interactions(pairs, times=range(24)), seed=0)
    assert parts.how == "trained without each user's last new item, asked for that item"
    assert parts.held_out.indices.tolist() == [(user + 2) % 6 for user in range(6)]
    # The repeated first item came after what is held out: only its first event is trained on.
    assert parts.training.nnz == 12


def test_without_times_one_of_each_drawn_by_the_seed():
    pairs = [(user, item) for user in range(40) for item in range(20)] + [(40, 3)]
    parts = split(interactions(pairs), seed=1)
    assert parts.users.tolist() == list(range(40))
    assert np.diff(parts.held_out.indptr).tolist() == [1] * 40 + [0]
    assert parts.training.nnz + parts.held_out.nnz == len(pairs)
    assert parts.held_out.indices.tolist() == split(interactions(pairs), seed=1).held_out.indices.tolist()
    assert parts.held_out.indices.tolist() != split(interactions(pairs), seed=2).held_out.indices.tolist()


def test_nobody_to_ask():
    with pytest.raises(InvalidEventsError, match=r"no user has two items.*--no-quality"):
        split(interactions([(0, 0), (1, 1)]), seed=0)


@settings(max_examples=200, deadline=None)
@given(
    events=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 5), st.integers(0, 9)), min_size=2, max_size=80),
    timed=st.booleans(),
    enough=st.sampled_from([0, 10**6]),
    seed=st.integers(0, 3),
)
def test_a_split_never_leaks(events, timed, enough, seed):
    pairs = [event[:2] for event in events]
    met = interactions(pairs, times=[event[2] for event in events] if timed else None, n_users=8, n_items=6)
    before = splitting._ENOUGH_USERS
    splitting._ENOUGH_USERS = enough
    try:
        parts = split(met, seed=seed)
    except InvalidEventsError:
        return
    finally:
        splitting._ENOUGH_USERS = before
    training, held_out = parts.training.toarray() > 0, parts.held_out.toarray() > 0
    everything = np.zeros_like(training)
    everything[tuple(np.array(pairs).T)] = True
    assert not (training & held_out).any()
    assert not ((training | held_out) & ~everything).any()
    # Whoever is asked for, and whatever is asked for, is known to the model.
    assert training[parts.users].any(axis=1).all()
    assert training[:, held_out.any(axis=0)].any(axis=0).all()
    assert held_out.any(axis=1).nonzero()[0].tolist() == parts.users.tolist()
    # Where the times are of no use, items are drawn as without them.
    if timed and "drawn with seed" not in parts.how:
        first = {pair: min(at for *other, at in events if tuple(other) == pair) for pair in set(pairs)}
        for user in parts.users.tolist():
            start = min(first[user, item] for item in held_out[user].nonzero()[0].tolist())
            assert all(first[user, item] <= start for item in training[user].nonzero()[0].tolist())
