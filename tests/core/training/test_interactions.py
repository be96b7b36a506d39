"""What counts of the events, who is left out, and what no model can be made of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import Events, Interactions, InvalidEventsError


def events(pairs, **columns):
    users, items = sorted({user for user, _ in pairs}), sorted({item for _, item in pairs})
    return Events(
        "events.csv",
        np.array([users.index(user) for user, _ in pairs], dtype=np.int32),
        np.array([items.index(item) for _, item in pairs], dtype=np.int32),
        users,
        items,
        **{name: np.array(values, dtype=np.float32) for name, values in columns.items()},
    )


PAIRS = [("a", "x"), ("a", "y"), ("b", "x"), ("a", "x"), ("c", "z")]


def test_a_pair_counts_once_without_weights_and_their_sum_with_them():
    assert Interactions.of(events(PAIRS)).matrix().toarray().tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    weighted = Interactions.of(events(PAIRS, weights=[1, 2, 3, 4, 5])).matrix()
    assert weighted.toarray().tolist() == [[5, 2, 0], [3, 0, 0], [0, 0, 5]]


def test_low_ratings_are_seen_but_not_liked():
    pairs = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "z"), ("a", "z")]
    met = Interactions.of(events(pairs, ratings=[5, 1, 4, 5, 3]))
    # y is liked by nobody, so no model knows it; z was rated 3, the middle, by a.
    assert met.item_ids == ["x", "z"]
    assert met.matrix().toarray().tolist() == [[1, 0], [1, 1]]
    starts, items = met.seen
    assert (starts.tolist(), items.tolist()) == ([0, 2, 4], [0, 1, 0, 1])
    assert met.notes[0] == "2 of 5 events count as seen only: rated 3 or less, the lower half of a scale from 1 to 5."
    assert Interactions.of(events(pairs, ratings=[5, 1, 4, 5, 3]), min_rating=3).matrix().nnz == 4


def test_rare_users_and_items_are_left_out_until_all_have_enough():
    # z is met by c alone; without z, c has one item left; without c, y is met by a alone.
    pairs = [("a", "x"), ("b", "x"), ("a", "w"), ("b", "w"), ("c", "z"), ("c", "y"), ("a", "y")]
    met = Interactions.of(events(pairs), min_user=2, min_item=2)
    assert (met.user_ids, met.item_ids) == (["a", "b"], ["w", "x"])
    assert "1 of 3 users left out: fewer than 2 interactions." in met.notes


@pytest.mark.parametrize(
    ("given_events", "options", "sentence"),
    [
        (events([]), {}, "events.csv has no interactions"),
        (events([("a", "x")] * 3), {}, "all 3 interactions in events.csv are the same pair of user a and item x"),
        (events([("a", "x")]), {}, "the only interaction in events.csv is of user a and item x"),
        (events([("a", "x"), ("a", "y")]), {}, "by one user, a; a model needs at least two users.*--user"),
        (events([("a", "x"), ("b", "x")]), {}, "with one item, x; .*--item"),
        (events(PAIRS), {"min_user": 9}, "nothing of events.csv is left.*--min-user"),
        (events(PAIRS), {"min_rating": 3}, "needs ratings.*--rating"),
        (events(PAIRS, ratings=[1, 1, 2, 1, 1]), {"min_rating": 3}, "no rating in events.csv is 3 or more"),
    ],
)
def test_what_no_model_can_be_made_of(given_events, options, sentence):
    with pytest.raises(InvalidEventsError, match=sentence):
        Interactions.of(given_events, **options)


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), min_size=4, max_size=40),
    min_user=st.integers(1, 3),
    min_item=st.integers(1, 3),
)
def test_who_is_left_has_enough_and_nobody_who_could_stay_is_missing(pairs, min_user, min_item):
    users, items = {user for user, _ in pairs}, {item for _, item in pairs}
    while True:
        left = {(user, item) for user, item in pairs if user in users and item in items}
        stay = {user for user in users if sum(pair[0] == user for pair in left) >= min_user}
        keep = {item for item in items if sum(pair[1] == item for pair in left) >= min_item}
        if (stay, keep) == (users, items):
            break
        users, items = stay, keep
    try:
        met = Interactions.of(events(pairs), min_user=min_user, min_item=min_item)
    except InvalidEventsError:
        assert min(len(users), len(items)) < 2
        return
    assert (set(met.user_ids), set(met.item_ids)) == (users, items)
    entries = met.matrix().tocoo()
    found = {(met.user_ids[u], met.item_ids[i]) for u, i in zip(entries.row, entries.col, strict=True)}
    assert found == left
