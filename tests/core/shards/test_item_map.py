"""Shards with a map of all items find what one index finds, at the same cost: a walk has one way, not one in each."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greedy_core import Bundle, CorruptModelError, Eligible, GreedyIndex, build_bundle, build_shards, shard_bundle
from greedy_core.shards.index import ShardedIndex
from greedy_core.shards.item_map import ItemMap
from greedy_core.shards.places import Places, deal

N_ITEMS, N_DIMS, N_SHARDS = 4000, 12, 4
RNG = np.random.default_rng(23)
# Flat vectors, which no list says much about; some are alike, so that scores are tied across shards.
ITEMS = RNG.standard_normal((N_ITEMS, N_DIMS)).astype(np.float32)
ITEMS[1::9] = ITEMS[0::9][: len(ITEMS[1::9])]
USERS = RNG.standard_normal((400, N_DIMS)).astype(np.float32)
MAX_BUDGET = 600


@pytest.fixture(scope="module")
def one():
    return GreedyIndex.build(ITEMS, USERS, directions="graph", max_budget=MAX_BUDGET)


@pytest.fixture(scope="module")
def mapped(one):
    places = Places.of(deal(ITEMS, N_SHARDS), N_SHARDS)
    lists = one.without_graph()
    shards = [lists.of_others(ITEMS[places.in_shard(number)], centre=ITEMS.mean(axis=0)) for number in range(N_SHARDS)]
    assert not any(shard.has_graph for shard in shards)
    return ShardedIndex(shards, places, ItemMap.of(one))


QUERY = st.integers(0, len(USERS) - 1).map(USERS.__getitem__)
BUDGET = st.one_of(st.integers(1, MAX_BUDGET), st.just(N_ITEMS))
POSITIONS = st.lists(st.integers(0, N_ITEMS - 1), max_size=60).map(lambda given: np.array(given, dtype=np.int32))
SHARES = st.tuples(st.integers(0, 50), st.sampled_from([0.0, 0.002, 0.05, 0.5, 0.9, 1.0]))
MASKS = st.none() | SHARES.map(
    lambda drawn: Eligible.from_mask(np.random.default_rng(drawn[0]).random(N_ITEMS) < drawn[1])
)
HINTS = st.none() | POSITIONS


def same(one, other):
    return (
        one.ids.tolist() == other.ids.tolist()
        and one.scores.tobytes() == other.scores.tobytes()
        and (one.spent, one.complete, one.eligible) == (other.spent, other.complete, other.eligible)
    )


@given(QUERY, BUDGET, POSITIONS, HINTS, MASKS, st.integers(1, 30))
def test_the_answer_is_that_of_one_index(one, mapped, query, budget, exclude, hint, eligible, top_k):
    asked = (query, top_k, budget, exclude, None, hint, eligible)
    assert same(one.search(*asked), mapped.search(*asked))


@given(st.lists(st.tuples(QUERY, BUDGET, POSITIONS, HINTS, MASKS), min_size=1, max_size=6), st.sampled_from([1, 3]))
def test_so_is_a_batch_of_them(one, mapped, asked, threads):
    queries, budgets, excludes, hints, masks = zip(*asked, strict=True)
    rows = np.array(queries)
    arguments = (rows, 10, list(budgets), excludes, None, threads, hints, masks)
    here, there = one.search_batch(*arguments), mapped.search_batch(*arguments)
    assert all(same(a, b) for a, b in zip(here, there, strict=True))


@pytest.mark.parametrize("variant", ["walk", "sum", "threshold"])
def test_a_variant_may_be_named(one, mapped, variant):
    for query in USERS[:10]:
        found = mapped.search(query, 10, 100, variant=variant)
        assert found.spent <= 100
        assert len(found.ids) == 10
        if variant == "walk":
            assert same(found, one.search(query, 10, 100, variant=variant))


def test_other_screenings_leave_the_map_to_filters(one, mapped):
    lists = mapped.screened_by(one.without_graph().screening)
    few = Eligible.from_mask(np.arange(N_ITEMS) % 33 == 0)
    for query in USERS[:10]:
        assert same(lists.search(query, 5, 60, eligible=few), one.search(query, 5, 60, eligible=few))
    assert same(lists.screened_by(mapped.screening).search(USERS[0]), one.search(USERS[0]))


@given(QUERY, st.integers(1, MAX_BUDGET - 1), MASKS)
def test_candidates_are_nested_and_shares_never_fall(mapped, query, budget, eligible):
    fewer, more = (
        set(mapped.search(query, b, b, eligible=eligible, page=10).ids.tolist()) for b in (budget, budget + 1)
    )
    assert fewer <= more


def test_a_lost_shard_takes_its_items_and_what_they_cost(one, mapped, monkeypatch):
    def lose_one(self, asked, threads):
        return [None if number == 2 else q.answers(self.shards[number], threads) for number, q in enumerate(asked)]

    whole = mapped.search(USERS[0], 50, 200)
    monkeypatch.setattr(ShardedIndex, "_ask", lose_one)
    found = mapped.search(USERS[0], 50, 200)
    assert not found.complete
    assert found.ids.tolist()[:5] == [i for i in whole.ids.tolist() if mapped.places.shard[i] != 2][:5]
    assert 0 < found.spent < whole.spent <= 200


PARTS = {
    "items": ITEMS,
    "users": USERS,
    "directions": "graph",
    "max_budget": MAX_BUDGET,
    "seen": (np.arange(len(USERS) + 1) * 3, RNG.integers(0, N_ITEMS, len(USERS) * 3)),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return build_bundle(tmp_path_factory.mktemp("whole") / "v1", **PARTS)


@pytest.fixture(scope="module")
def split(whole, tmp_path_factory):
    return shard_bundle(whole, tmp_path_factory.mktemp("split") / "v1", N_SHARDS)


class TestBundles:
    def test_a_bundle_that_was_split_answers_as_before(self, whole, split):
        split.verify()
        assert not any(shard.index.has_graph for shard in split.shards)
        for user, query in enumerate(USERS[:40]):
            assert same(whole.index.search(query, 10, 100), split.index.search(query, 10, 100))
            known = (query, 10, 40, whole.seen_items(user), None)
            here = whole.index.search(*known, whole.user_remembered(user))
            assert same(here, split.index.search(*known, split.user_remembered(user)))
        for item in range(20):
            asked = whole.similar.query([item, item + 50])
            here = whole.similar.index.search(asked.vector, 10, 80, asked.exclude, None, asked.remembered)
            there = split.similar.index.search(asked.vector, 10, 80, asked.exclude, None, asked.remembered)
            assert same(here, there)

    def test_shards_that_are_built_at_once_have_a_map_too(self, whole, tmp_path):
        built = build_shards(tmp_path / "v1", N_SHARDS, **PARTS)
        built.verify()
        assert built.index.screening.variant == "walk"
        assert not any(shard.index.has_graph for shard in built.shards)
        truth = [whole.index.search(query, 10, N_ITEMS).ids for query in USERS]
        for budget in (32, 128, 512):
            recalls = [
                np.mean(
                    [
                        len(np.intersect1d(bundle.index.search(query, 10, budget).ids, best)) / 10
                        for query, best in zip(USERS, truth, strict=True)
                    ]
                )
                for bundle in (whole, built)
            ]
            assert recalls[1] > recalls[0] - 0.01

    def test_a_map_that_leads_nowhere_is_refused(self, split, tmp_path):
        shutil.copytree(split.path, tmp_path / "v1")
        path = tmp_path / "v1" / "index.graph_neighbours.npy"
        damaged = bytearray(path.read_bytes())
        damaged[-4:] = (N_ITEMS).to_bytes(4, "little")
        path.write_bytes(damaged)
        with pytest.raises(CorruptModelError, match="the map of the shards leads to items that do not exist"):
            Bundle.open(tmp_path / "v1")

    def test_a_map_of_other_items_is_refused(self, split, tmp_path):
        shutil.copytree(split.path, tmp_path / "v1")
        path = tmp_path / "v1" / "index.graph_codes.npy"
        damaged = bytearray(path.read_bytes())
        damaged[-20] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(CorruptModelError, match="was altered"):
            Bundle.open(tmp_path / "v1").verify()
        said = json.loads((tmp_path / "v1" / "model.json").read_text())
        assert said["info"]["index"]["graph_checksum"]
        other = ItemMap.of(GreedyIndex.build(ITEMS[::-1].copy(), directions="graph", max_budget=MAX_BUDGET))
        with pytest.raises(CorruptModelError, match="compressed rows of the index do not fit"):
            other.verify(ITEMS)
