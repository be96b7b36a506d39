"""A bundle in shards: complete, checked, promoted and rolled back like any other."""

import json
import shutil

import numpy as np
import pytest

from greedy_core import (
    Attributes,
    Bundle,
    CorruptModelError,
    FoldIn,
    InvalidEmbeddingsError,
    NotAModelError,
    StorageError,
    VersionsFolder,
    build_bundle,
    build_shards,
    read_manifest,
    shard_bundle,
)
from greedy_core.bundle import storage

N_ITEMS, N_USERS, N_DIMS = 500, 90, 8
RNG = np.random.default_rng(5)
SCALE = np.linspace(2, 0.2, N_DIMS)
ITEMS = (RNG.standard_normal((N_ITEMS, N_DIMS)) * SCALE).astype(np.float32)
USERS = (RNG.standard_normal((N_USERS, N_DIMS)) * SCALE).astype(np.float32)
USERS[-1] = np.nan
PARTS = {
    "items": ITEMS,
    "users": USERS,
    "item_ids": [f"i{number}" for number in range(N_ITEMS)],
    "user_ids": [f"u{number}" for number in range(N_USERS)],
    "titles": [f"Title of {number}" for number in range(N_ITEMS)],
    "seen": (np.arange(N_USERS + 1) * 4, RNG.integers(0, N_ITEMS, N_USERS * 4)),
    "attributes": Attributes.from_columns({"price": [number % 40 for number in range(N_ITEMS)]}, N_ITEMS),
    "fold_in": FoldIn(0.5, 5.0),
    "metadata": {"by": "a test"},
    "directions": "principal",
    "max_budget": 128,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return build_bundle(tmp_path_factory.mktemp("whole") / "v1", **PARTS)


@pytest.fixture(scope="module")
def sharded(tmp_path_factory):
    return build_shards(tmp_path_factory.mktemp("sharded") / "v1", 3, **PARTS)


def test_everything_is_kept_once_and_the_same(whole, sharded):
    assert (sharded.n_items, sharded.n_users, sharded.n_dims) == (whole.n_items, whole.n_users, whole.n_dims)
    for item in (0, 17, N_ITEMS - 1):
        assert (sharded.item_id(item), sharded.title(item)) == (whole.item_id(item), whole.title(item))
        assert sharded.item_position(f"i{item}") == item
    for user in (0, 5, N_USERS - 1):
        assert (sharded.seen_items(user) == whole.seen_items(user)).all()
    assert sharded.user_vector(N_USERS - 1) is None
    assert (sharded.popular == whole.popular).all()
    assert sharded.metadata == whole.metadata
    assert sharded.filter("price < 10") == whole.filter("price < 10")
    here, there = whole.vector_of_items([3, 9]), sharded.vector_of_items([3, 9])
    assert here.made == there.made == "fold_in"
    np.testing.assert_allclose(there.vector, here.vector, rtol=1e-4)


def test_shards_are_ordinary_bundles(sharded):
    assert [shard.path.name for shard in sharded.shards] == ["shard-0000", "shard-0001", "shard-0002"]
    assert sum(shard.n_items for shard in sharded.shards) == N_ITEMS
    for number, shard in enumerate(sharded.shards):
        alone = Bundle.open(shard.path)
        alone.verify()
        assert alone.n_users == 0
        mine = sharded.index.places.in_shard(number)
        assert alone.item_ids(range(alone.n_items)) == sharded.item_ids(mine)
        assert (alone.index.items == ITEMS[mine]).all()


def test_an_exact_answer_is_that_of_the_whole(whole, sharded):
    for user in range(20):
        query, seen = whole.user_vector(user), whole.seen_items(user)
        here, there = (bundle.index.search(query, 10, N_ITEMS, seen) for bundle in (whole, sharded))
        assert there.complete
        assert (here.ids == there.ids).all()
        assert here.scores.tobytes() == there.scores.tobytes()


def test_a_known_user_s_best_items_are_remembered_over_all_shards(whole, sharded):
    for user in range(20):
        best = whole.index.search(whole.user_vector(user), 10, N_ITEMS, whole.seen_items(user)).ids
        assert sharded.user_remembered(user)[:10].tolist() == best.tolist()


def test_similar_items_are_those_of_all_shards(whole, sharded):
    for item in (0, 100, 499):
        query = sharded.similar.query([item])
        found = sharded.similar.index.search(query.vector, 5, N_ITEMS, query.exclude, None, query.remembered)
        asked = whole.similar.query([item])
        best = whole.similar.index.search(asked.vector, 5, N_ITEMS, asked.exclude, None, asked.remembered)
        assert (found.ids == best.ids).all()
        assert found.ids[0] == query.remembered[0]


def test_curves_are_measured_over_all_shards(sharded):
    points = sharded.calibration["points"]
    assert points[-1]["recall_at_10"] >= 0.9
    assert sharded.calibration["filtered"]
    assert all(shard.calibration is None for shard in sharded.shards)
    assert sharded.similar.calibration is not None


def test_it_verifies_and_the_bytes_are_those_of_all(sharded):
    told = []
    sharded.verify(lambda done, total: told.append((done, total)))
    assert told[-1] == (sharded.bytes, sharded.bytes)
    assert sharded.bytes > sum(shard.bytes for shard in sharded.shards) > 0
    sharded.verify(with_shards=False)


def test_a_bundle_is_split_as_it_was_built(whole, tmp_path):
    made = shard_bundle(whole, tmp_path / "split", 4)
    made.verify()
    assert (made.index.directions, made.index.screening) == (whole.index.directions, whole.index.screening)
    axes = whole.index.to_arrays()[0]["axes"]
    assert all((shard.index.to_arrays()[0]["axes"] == axes).all() for shard in made.shards)
    assert made.item_ids(range(N_ITEMS)) == whole.item_ids(range(N_ITEMS))
    assert made.title(7) == whole.title(7)
    with pytest.raises(InvalidEmbeddingsError, match="has 4 shards already"):
        shard_bundle(made, tmp_path / "again", 2)


def test_versions_are_promoted_and_rolled_back(sharded, whole, tmp_path):
    folder = VersionsFolder(tmp_path)
    shutil.copytree(sharded.path, tmp_path / "v1")
    shutil.copytree(whole.path, tmp_path / "v2")
    folder.promote("v1")
    folder.promote("v2")
    assert folder.rollback() == "v1"
    assert folder.versions() == ["v1", "v2"]


class TestDamage:
    @pytest.fixture
    def copy(self, sharded, tmp_path):
        shutil.copytree(sharded.path, tmp_path / "copy")
        return tmp_path / "copy"

    def test_a_shard_that_is_missing(self, copy):
        shutil.rmtree(copy / "shard-0001")
        with pytest.raises(NotAModelError, match="shard-0001 does not exist"):
            Bundle.open(copy)

    def test_a_shard_of_another_version(self, copy, tmp_path):
        other = build_shards(tmp_path / "other", 3, **(PARTS | {"metadata": {}, "item_ids": None}))
        shutil.rmtree(copy / "shard-0001")
        shutil.copytree(other.shards[1].path, copy / "shard-0001")
        with pytest.raises(CorruptModelError, match="shard-0001 is another shard than the one that belongs here"):
            Bundle.open(copy)

    def test_a_byte_of_a_shard(self, copy):
        damaged = bytearray((copy / "shard-0002" / "index.rows.npy").read_bytes())
        damaged[-5] ^= 1
        (copy / "shard-0002" / "index.rows.npy").write_bytes(damaged)
        bundle = Bundle.open(copy)
        with pytest.raises(CorruptModelError, match=r"index\.rows\.npy was altered"):
            bundle.verify()

    def test_an_older_release_says_what_it_is(self, copy):
        with pytest.raises(NotAModelError, match="holds a shards, but a bundle was expected"):
            storage.open_arrays(copy, kind="bundle")
        assert json.loads((copy / "model.json").read_text())["kind"] == "shards"


def test_nothing_is_left_behind_where_a_build_fails(tmp_path):
    with pytest.raises(InvalidEmbeddingsError, match="500 items can be dealt"):
        build_shards(tmp_path / "v1", 501, **PARTS)
    with pytest.raises(InvalidEmbeddingsError, match="there are 3 titles for 500 items"):
        build_shards(tmp_path / "v1", 2, **(PARTS | {"titles": ["a", "b", "c"]}))
    (tmp_path / "there").mkdir()
    with pytest.raises(StorageError, match="already exists"):
        build_shards(tmp_path / "there", 2, **PARTS)
    assert [place.name for place in tmp_path.iterdir()] == ["there"]


def test_shards_are_built_by_whoever_is_asked_to(tmp_path):
    taken = []

    def build(orders):
        from greedy_core import build_shard  # noqa: PLC0415

        for order in orders:
            taken.append(order.path.name)
            assert order.whole.axes is None
            build_shard(order)

    made = build_shards(tmp_path / "v1", 3, **PARTS, build=build)
    assert taken == ["shard-0001", "shard-0002"]
    assert read_manifest(made.path).kind == "shards"
