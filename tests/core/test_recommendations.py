"""A whole night's answers in a file: those of single searches, resumed after a kill, never half written."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from greedy_core import (
    Attributes,
    Bundle,
    GreedyIndex,
    InvalidQueryError,
    Order,
    Scenario,
    StorageError,
    write_bundle,
    write_recommendations,
)
from greedy_core import recommendations as module

N_ITEMS, N_USERS = 400, 150


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    rng = np.random.default_rng(0)
    items = rng.standard_normal((N_ITEMS, 8)).astype(np.float32)
    users = rng.standard_normal((N_USERS, 8)).astype(np.float32)
    users[7] = np.nan
    starts = np.arange(N_USERS + 1) * 4
    return write_bundle(
        tmp_path_factory.mktemp("bundle") / "m",
        index=GreedyIndex.build(items, queries=rng.standard_normal((50, 8)).astype(np.float32), directions="graph"),
        item_ids=[f"i{n}" for n in range(N_ITEMS)],
        user_vectors=users,
        user_ids=[f"u{n}" for n in range(N_USERS)],
        seen=(starts, rng.integers(0, N_ITEMS, starts[-1])),
    )


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    monkeypatch.setattr(module, "_PART_USERS", 16)


def answers(path):
    rows = pq.read_table(path).to_pylist()
    found = {}
    for row in rows:
        found.setdefault(row["user_id"], []).append(row)
    return found


def test_every_user_gets_the_answer_of_a_single_search(bundle, tmp_path):
    told = []
    path = tmp_path / "recs.parquet"
    written = write_recommendations(bundle, path, Order(None, 5, 32), progress=lambda *done: told.append(done))
    assert written == (N_USERS, 5 * N_USERS, 0)
    assert told[0] == (0, N_USERS)
    assert told[-1] == (N_USERS, N_USERS)
    found = answers(path)
    assert list(found) == [f"u{n}" for n in range(N_USERS)]
    for user, rows in found.items():
        position = int(user[1:])
        assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
        if position == 7:
            continue
        seen = bundle.seen_items(position)
        single = bundle.index.search(bundle.user_vector(position), 5, 32, seen, None, bundle.user_remembered(position))
        assert [row["item_id"] for row in rows] == bundle.item_ids(single.ids)
        assert [row["score"] for row in rows] == single.scores.tolist()
        assert not set(bundle.item_ids(seen)) & {row["item_id"] for row in rows}
    popular = [item for item in bundle.popular.tolist() if item not in bundle.seen_items(7)][:5]
    assert [row["item_id"] for row in found["u7"]] == bundle.item_ids(popular)
    assert [row["score"] for row in found["u7"]] == [None] * 5
    assert sorted(each.name for each in tmp_path.iterdir()) == ["recs.parquet"]


def test_some_users_in_their_order(bundle, tmp_path):
    write_recommendations(bundle, tmp_path / "some.parquet", Order(np.array([40, 3]), 2, 16, exclude_seen=False))
    assert list(answers(tmp_path / "some.parquet")) == ["u40", "u3"]


def test_what_was_killed_goes_on_where_it_stopped_and_ends_the_same(bundle, tmp_path, monkeypatch):
    whole, path = tmp_path / "whole.parquet", tmp_path / "recs.parquet"
    write_recommendations(bundle, whole, Order(None, 5, 32))
    real = module._Writer.write_part
    made = []

    def until_killed(self, number, part):
        if number == 4:
            raise KeyboardInterrupt
        made.append(number)
        real(self, number, part)

    monkeypatch.setattr(module._Writer, "write_part", until_killed)
    with pytest.raises(KeyboardInterrupt):
        write_recommendations(bundle, path, Order(None, 5, 32), threads=1)
    assert not path.exists()
    again = []
    monkeypatch.setattr(
        module._Writer, "write_part", lambda self, number, part: (again.append(number), real(self, number, part))
    )
    # A part that was being written when the process died has another name, and does not count.
    (tmp_path / "recs.parquet.parts" / ".part-00004.parquet.writing").write_bytes(b"half")
    written = write_recommendations(bundle, path, Order(None, 5, 32))
    assert not set(made) & set(again)
    assert set(made) | set(again) == set(range(10))
    assert written.n_resumed == 16 * len(made)
    assert pq.read_table(path).equals(pq.read_table(whole))
    assert not (tmp_path / "recs.parquet.parts").exists()


def test_parts_of_another_order_are_left_alone(bundle, tmp_path):
    parts = tmp_path / "recs.parquet.parts"
    parts.mkdir()
    (parts / "plan.json").write_text(json.dumps({**Order(None, 5, 32).plan(bundle), "budget": 64}))
    with pytest.raises(StorageError, match=r"unfinished recommendations of another model, budget.*remove the folder"):
        write_recommendations(bundle, tmp_path / "recs.parquet", Order(None, 5, 32))
    (parts / "plan.json").write_text("{")
    (parts / "part-00000.parquet").write_bytes(b"of nobody knows what")
    with pytest.raises(StorageError, match=r"unfinished recommendations of another model"):
        write_recommendations(bundle, tmp_path / "recs.parquet", Order(None, 5, 32))
    (parts / "part-00000.parquet").unlink()
    assert write_recommendations(bundle, tmp_path / "recs.parquet", Order(None, 5, 32)).n_users == N_USERS


def test_a_run_that_goes_on_leaves_the_plan_alone(bundle, tmp_path):
    """A kill while it was written anew would leave parts without one."""
    parts, plan = tmp_path / "recs.parquet.parts", Order(None, 5, 32).plan(bundle)
    with module._alone(parts, plan, 7) as began:
        assert began == 7
    (parts / "plan.json").chmod(0o444)
    written = (parts / "plan.json").stat()
    with module._alone(parts, plan, 8) as began:
        assert began == 7
    assert (parts / "plan.json").stat() == written


def test_two_at_once_and_a_damaged_part(bundle, tmp_path):
    path, plan = tmp_path / "recs.parquet", Order(None, 5, 32).plan(bundle)
    with (
        module._alone(tmp_path / "recs.parquet.parts", plan, 0),
        pytest.raises(StorageError, match="another process is writing"),
    ):
        write_recommendations(bundle, path, Order(None, 5, 32))
    (tmp_path / "recs.parquet.parts" / "part-00002.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"part-00002.parquet is damaged; remove it"):
        write_recommendations(bundle, path, Order(None, 5, 32))
    assert not path.exists()


def test_orders_that_make_no_sense(bundle, tmp_path):
    with pytest.raises(InvalidQueryError, match="a budget of 4 finds no 5 items"):
        Order(None, 5, 4)
    with pytest.raises(InvalidQueryError, match="no users to recommend to"):
        write_recommendations(bundle, tmp_path / "x.parquet", Order(np.empty(0, dtype=np.int64), 5, 8))
    with pytest.raises(StorageError, match="is no directory"):
        write_recommendations(bundle, tmp_path / "none" / "x.parquet", Order(None, 5, 8))


def test_a_bundle_without_vectors_gives_popular_items(tmp_path):
    items = np.eye(6, dtype=np.float32)
    made = write_bundle(tmp_path / "m", index=GreedyIndex.build(items), user_ids=["a", "b"])
    assert isinstance(made, Bundle)
    write_recommendations(made, tmp_path / "x.parquet", Order(None, 3, 6))
    assert {user: len(rows) for user, rows in answers(tmp_path / "x.parquet").items()} == {"a": 3, "b": 3}


def test_parts_are_many_enough_for_all_cores_and_never_large(bundle, monkeypatch):
    monkeypatch.setattr(module, "_PART_USERS", 1 << 14)
    for n_users, size in [(1, 256), (800, 256), (64_000, 1000), (450_000, 7032), (9_000_000, 1 << 14)]:
        assert Order(np.zeros(n_users, dtype=np.int64), 5, 32).part_users(bundle) == size


def test_a_full_disk_at_the_end_leaves_the_parts_and_nothing_else(bundle, tmp_path, monkeypatch):
    path, writing = tmp_path / "recs.parquet", module.os.fsync
    path.write_bytes(b"of yesterday")

    def full(descriptor):
        if ".recs.parquet.writing" in module.os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(28, "No space left on device")
        writing(descriptor)

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(StorageError, match=r"recs.parquet cannot be written: No space left on device"):
        write_recommendations(bundle, path, Order(None, 5, 32))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["recs.parquet", "recs.parquet.parts"]
    assert path.read_bytes() == b"of yesterday"
    monkeypatch.undo()
    monkeypatch.setattr(module, "_PART_USERS", 16)
    assert write_recommendations(bundle, path, Order(None, 5, 32)).n_resumed == N_USERS


def test_what_goes_on_after_a_kill_has_the_time_of_its_beginning(tmp_path, monkeypatch):
    """Half of the items are new when the night begins, and none when it goes on."""
    rng = np.random.default_rng(1)
    began = 1_790_000_040
    published = np.full(40, began - 3 * 86_400)
    published[::2] = began - 60
    made = write_bundle(
        tmp_path / "m",
        index=GreedyIndex.build(rng.standard_normal((40, 4)).astype(np.float32)),
        user_vectors=rng.standard_normal((48, 4)).astype(np.float32),
        attributes=Attributes.from_columns({"published": published.astype("datetime64[s]")}, 40),
    )
    order = Order(None, 3, 40, scenario=Scenario(filter="published > now - 1d"))
    real = module._Writer.write_part

    def until_killed(self, number, part):
        if number == 1:
            raise KeyboardInterrupt
        real(self, number, part)

    monkeypatch.setattr(module, "clock", lambda: began * 1_000_000)
    with monkeypatch.context() as dying:
        dying.setattr(module._Writer, "write_part", until_killed)
        with pytest.raises(KeyboardInterrupt):
            write_recommendations(made, tmp_path / "x.parquet", order, threads=1)
    monkeypatch.setattr(module, "clock", lambda: (began + 2 * 86_400) * 1_000_000)
    # One part was done at the least, and one was not.
    assert 16 <= write_recommendations(made, tmp_path / "x.parquet", order).n_resumed < 48
    found = answers(tmp_path / "x.parquet")
    assert {len(rows) for rows in found.values()} == {3}
    assert len(found) == 48
    assert all(int(row["item_id"]) % 2 == 0 for rows in found.values() for row in rows)
