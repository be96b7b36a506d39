"""Items are dealt so that no shard has all the long ones, and are found again where they lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core.eligible import Eligible
from greedy_core.errors import CorruptModelError, InvalidEmbeddingsError
from greedy_core.shards.places import Places, deal

LENGTHS = st.lists(st.floats(0, 100, width=32), min_size=1, max_size=60)


@st.composite
def dealt(draw):
    items = np.array(draw(LENGTHS), dtype=np.float32)[:, None]
    n_shards = draw(st.integers(1, len(items)))
    return items, n_shards, Places.of(deal(items, n_shards), n_shards)


@given(dealt())
def test_every_item_lies_in_one_place(dealing):
    items, n_shards, places = dealing
    assert places.n_items == len(items)
    assert max(places.sizes) - min(places.sizes) <= 1
    for number in range(n_shards):
        mine = places.in_shard(number)
        assert (np.diff(mine) > 0).all()
        assert (places.shard[mine] == number).all()
        assert places.local[mine].tolist() == list(range(len(mine)))


@given(dealt())
def test_long_items_are_spread_evenly(dealing):
    items, n_shards, places = dealing
    longest_first = np.argsort(-(items[:, 0].astype(np.float64) ** 2), kind="stable")
    for start in range(0, len(items) - n_shards + 1, n_shards):
        assert sorted(places.shard[longest_first[start : start + n_shards]].tolist()) == list(range(n_shards))


@given(dealt(), st.data())
def test_splitting_keeps_the_order_and_loses_nothing(dealing, data):
    items, n_shards, places = dealing
    asked = np.array(data.draw(st.lists(st.integers(0, len(items) - 1))), dtype=np.int32)
    parts = places.split(asked)
    for number in range(n_shards):
        back = places.in_shard(number)[parts[number]]
        assert back.tolist() == [item for item in asked.tolist() if places.shard[item] == number]


@given(dealt(), st.data())
def test_a_filter_lets_the_same_items_through_in_each_shard(dealing, data):
    items, n_shards, places = dealing
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items))))
    eligible = Eligible.from_mask(mask)
    parts = places.split_eligible(eligible)
    assert [part.mask().tolist() for part in parts] == [mask[places.in_shard(n)].tolist() for n in range(n_shards)]
    assert places.split_eligible(eligible) is parts


@given(dealt())
def test_what_is_stored_is_opened_again(dealing):
    _, _, places = dealing
    opened = Places.from_arrays(places.to_arrays(), places.sizes)
    assert (opened.shard == places.shard).all()
    assert opened.sizes == places.sizes


@pytest.mark.parametrize("name", ["shard", "local", "positions", "starts"])
def test_what_was_altered_is_refused(name):
    items = np.arange(1, 13, dtype=np.float32)[:, None]
    places = Places.of(deal(items, 3), 3)
    arrays = {key: value.copy() for key, value in places.to_arrays().items()}
    arrays[name][1] += 1
    with pytest.raises(CorruptModelError):
        Places.from_arrays(arrays, places.sizes)


@pytest.mark.parametrize("n_shards", [0, 4])
def test_more_shards_than_items_are_refused(n_shards):
    with pytest.raises(InvalidEmbeddingsError, match="3 items can be dealt to 1 to 3 shards"):
        deal(np.ones((3, 2), dtype=np.float32), n_shards)
