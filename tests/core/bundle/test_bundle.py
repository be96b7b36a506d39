"""The model bundle: what goes in comes out, in every process, and nothing damaged is served."""

import contextlib
import multiprocessing
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from greedy_core import Bundle, GreedyIndex, write_bundle
from greedy_core.bundle import manifest, storage
from greedy_core.errors import (
    CorruptModelError,
    InvalidEmbeddingsError,
    InvalidQueryError,
    NotAModelError,
    StorageError,
)
from tests.core.golden import make as golden

GOLDEN = Path(__file__).parents[1] / "golden" / "bundle-v1"


def small_index(n_items=5, n_dims=4, max_budget=3):
    items = np.random.default_rng(0).standard_normal((n_items, n_dims), dtype=np.float32)
    return GreedyIndex.build(items, max_budget=max_budget)


@pytest.fixture
def made(tmp_path):
    """A bundle with every part, written by this release."""
    return write_bundle(
        tmp_path / "full",
        index=GreedyIndex.build(golden.ITEMS, max_budget=4),
        item_ids=golden.ITEM_IDS,
        user_vectors=golden.USERS,
        user_ids=golden.USER_IDS,
        seen=golden.SEEN,
        titles=golden.TITLES,
        calibration={"points": [{"budget": 3, "recall_at_10": 0.5}]},
        metadata={"made_by": "tests/core/golden/make.py"},
        version="bundle-v1",
    )


@pytest.fixture(params=["written now", "golden"])
def full(request, made):
    return made if request.param == "written now" else Bundle.open(GOLDEN)


class TestAnswers:
    """The same answers from a bundle written now and from the one kept since format version 1."""

    def test_the_paper(self, full):
        query = full.user_vector(full.user_position("42"))
        assert full.index.screen(query, budget=3).tolist() == [5, 0, 6]
        found = full.index.search(query, top_k=3, budget=3)
        assert found.ids.tolist() == [0, 5, 6]
        np.testing.assert_allclose(found.scores, [6.9, 5.9, 2.9], rtol=1e-6)
        assert full.item_ids(found.ids) == ["a/b", " ", "\n"]

    def test_seen_items_are_left_out(self, full):
        seen = full.seen_items(full.user_position("42"))
        assert seen.tolist() == [5, 6]
        found = full.index.search(full.user_vector(0), top_k=3, budget=3, exclude=seen)
        assert found.ids.tolist() == [0, 1, 2]
        assert full.seen_items(1).tolist() == []
        assert full.seen_items(2).tolist() == [0]

    def test_sizes_and_words(self, full):
        assert (full.n_items, full.n_users, full.n_dims) == (7, 3, 3)
        assert full.version == "bundle-v1"
        assert full.calibration == {"points": [{"budget": 3, "recall_at_10": 0.5}]}
        assert full.metadata == {"made_by": "tests/core/golden/make.py"}
        assert full.has_seen
        assert full.has_titles

    def test_ids_both_ways(self, full):
        assert [full.item_id(position) for position in range(7)] == golden.ITEM_IDS
        assert full.item_ids(range(7)) == golden.ITEM_IDS
        assert [full.item_position(item_id) for item_id in golden.ITEM_IDS] == list(range(7))
        assert [full.user_id(position) for position in range(3)] == ["42", "nobody", "user/é"]
        assert [full.user_position(user_id) for user_id in ("42", "nobody", "user/é")] == [0, 1, 2]
        for unknown in ("", "0", "a", "a/b ", "nobody\0", "\ud800", "x" * 999, "é" * 10**5):
            assert full.item_position(unknown) is None
            assert full.user_position(unknown) is None

    def test_titles(self, full):
        assert [full.title(position) for position in range(7)] == [title or None for title in golden.TITLES]

    def test_a_user_without_a_vector(self, full):
        assert full.user_vector(1) is None
        assert full.user_vectors[1].tolist() == [0, 0, 0]

    def test_popular_is_by_how_many_have_seen_it(self, full):
        assert full.popular.tolist() == [0, 5, 6, 1, 2, 3, 4]

    def test_nothing_can_be_written_to(self, full):
        for array in (full.popular, full.user_vectors, full.user_vector(0), full.seen_items(0), full.seen_items(1)):
            assert not array.flags.writeable

    def test_it_verifies(self, full):
        full.verify()


def test_a_format_version_has_a_golden_bundle():
    assert (GOLDEN.parent / f"bundle-v{manifest.FORMAT_VERSION}" / "model.json").is_file()


class TestLeastBundle:
    def test_items_alone(self, tmp_path):
        least = write_bundle(tmp_path / "least", index=small_index())
        assert least.n_users == 0
        assert not least.has_seen
        assert not least.has_titles
        assert least.version == "least"
        assert least.calibration is None
        assert least.metadata == {}
        assert least.title(4) is None
        assert least.user_vectors is None
        assert least.user_position("0") is None
        assert least.item_ids([0, 4]) == ["0", "4"]
        assert least.item_position("4") == 4
        for no_position in ("5", "-1", "04", "", "٤", "4.0", "99999999999999999999", " 4"):
            assert least.item_position(no_position) is None
        for out_of_range in (-1, 5):
            with pytest.raises(IndexError):
                least.item_id(out_of_range)

    def test_users_by_id_without_any_vector(self, tmp_path):
        made = write_bundle(tmp_path / "m", index=small_index(), user_ids=["a", "b"], seen=([0, 1, 1], [3]))
        assert made.n_users == 2
        assert made.user_vector(0) is None
        assert made.seen_items(0).tolist() == [3]
        assert made.popular[0] == 3

    def test_titles_that_are_all_empty_are_no_titles(self, tmp_path):
        assert not write_bundle(tmp_path / "m", index=small_index(), titles=["", None, "", "", ""]).has_titles

    def test_popular_given(self, tmp_path):
        assert write_bundle(tmp_path / "m", index=small_index(), popular=[4, 2]).popular.tolist() == [4, 2]

    def test_popular_by_the_mean_user_and_by_the_mean_item(self, tmp_path):
        index = GreedyIndex.build(np.array([[1.0, 0], [0, 3], [0, 3]]), max_budget=1)
        users = np.array([[5.0, 0], [3, 0.1]])
        by_users = write_bundle(tmp_path / "users", index=index, user_vectors=users)
        assert by_users.popular.tolist() == [0, 1, 2]
        assert write_bundle(tmp_path / "items", index=index).popular.tolist() == [1, 2, 0]


class TestRemembered:
    @pytest.fixture
    def remembering(self, tmp_path):
        rng = np.random.default_rng(4)
        users = rng.normal(size=(12, 6)).astype(np.float32)
        users[5] = np.nan
        index = GreedyIndex.build(rng.normal(size=(90, 6)), queries=users[:5], directions="graph", max_budget=30)
        return write_bundle(tmp_path / "remembering", index=index, user_vectors=users)

    def test_every_user_remembers_its_best_items(self, remembering):
        for user in (0, 4, 7, 11):
            vector, remembered = remembering.user_vector(user), remembering.user_remembered(user)
            exact = remembering.index.search(vector, top_k=64, budget=90)
            np.testing.assert_array_equal(remembered, exact.ids)
            found = remembering.index.search(vector, top_k=10, budget=10, remembered=remembered)
            assert (found.ids.tolist(), found.spent) == (exact.ids[:10].tolist(), 10)
            assert not remembered.flags.writeable

    def test_what_a_user_has_seen_takes_no_place(self, tmp_path):
        rng = np.random.default_rng(5)
        items, users = rng.normal(size=(70, 6)), rng.normal(size=(3, 6)).astype(np.float32)
        index = GreedyIndex.build(items, max_budget=30)
        best = np.argsort(-(users @ items.astype(np.float32).T), axis=1)
        # The first has seen its 20 best, the second nothing, the third all but two.
        seen = (np.array([0, 20, 20, 88]), np.concatenate([best[0, :20], best[2, :68]]))
        made = write_bundle(tmp_path / "seen", index=index, user_vectors=users, seen=seen)
        assert made.user_remembered(0).tolist() == [*best[0, 20:].tolist(), *[-1] * 14]
        assert made.user_remembered(1).tolist() == best[1, :64].tolist()
        assert made.user_remembered(2).tolist() == [*best[2, 68:].tolist(), *[-1] * 62]
        made.verify()
        found = index.search(users[0], 10, 10, made.seen_items(0), None, made.user_remembered(0))
        assert (found.ids.tolist(), found.spent) == (best[0, 20:30].tolist(), 10)

    def test_without_vectors_nobody_remembers(self, tmp_path):
        index = GreedyIndex.build(np.eye(3))
        made = write_bundle(tmp_path / "nobody", index=index, user_ids=["a"])
        assert made.user_remembered(0) is None

    @pytest.mark.parametrize(
        "change",
        [
            lambda remembered: remembered[:-1],
            lambda remembered: remembered.astype(np.int64),
            lambda remembered: remembered.ravel(),
            lambda remembered: np.where(remembered == remembered[0, 0], 90, remembered),
            lambda remembered: np.where(remembered == remembered[0, 0], -2, remembered),
        ],
    )
    def test_what_does_not_fit_is_refused(self, remembering, tmp_path, change):
        rewrite(remembering.path, tmp_path / "bad", users__remembered=change)
        with pytest.raises(CorruptModelError, match=r"users\.remembered"):
            Bundle.open(tmp_path / "bad")


class TestRefusals:
    @pytest.mark.parametrize(
        ("parts", "words"),
        [
            ({"item_ids": ["a", "b"]}, "2 item ids for 5 items"),
            ({"item_ids": ["a", "b", "c", "b", "e"]}, "'b' twice, in rows 1 and 3"),
            ({"item_ids": [1, "1", 2, 3, 4]}, "'1' twice, in rows 0 and 1"),
            ({"item_ids": ["a", "", "c", "d", "e"]}, "an empty id in row 1"),
            ({"item_ids": ["a", None, "c", "d", "e"]}, "None in row 1"),
            ({"item_ids": np.array([1.0, 2, 3, 4, 5])}, "1.0 in row 0"),
            ({"item_ids": [True, False, 2, 3, 4]}, "True in row 0"),
            ({"item_ids": ["a", "\ud800", "c", "d", "e"]}, "not valid text"),
            ({"item_ids": [b"\xff", b"b", b"c", b"d", b"e"]}, "not valid text"),
            ({"titles": ["a"]}, "1 titles for 5 items"),
            ({"titles": [1, 2, 3, 4, 5]}, "title must be text"),
            ({"user_vectors": np.ones((2, 3))}, "3 dimensions and items 4"),
            ({"user_vectors": np.ones(4)}, "user vectors must be a matrix"),
            ({"user_vectors": np.zeros((0, 4))}, "at least one row"),
            ({"user_vectors": [[1, 2, 3, 4], [1, np.nan, 3, 4]]}, "row 1 of user vectors"),
            ({"user_vectors": np.ma.masked_invalid(np.ones((2, 4)))}, "masked"),
            ({"user_vectors": np.ones((2, 4)), "user_ids": ["a"]}, "1 user ids for 2 user vectors"),
            ({"seen": ([0, 1], [1])}, "seen items need users"),
            ({"user_ids": ["a"], "seen": ([0, 1, 1], [1])}, "2 whole numbers for 1 users"),
            ({"user_ids": ["a"], "seen": ([0.0, 1.0], [1])}, "whole numbers"),
            ({"user_ids": ["a"], "seen": ([0, 2], [1])}, "rise from 0 to the 1 indices"),
            ({"user_ids": ["a", "b"], "seen": ([0, 2, 1], [1])}, "rise from 0"),
            ({"user_ids": ["a"], "seen": ([0, 1], [5])}, "holds 5, but positions of items go from 0 to 4"),
            ({"user_ids": ["a"], "seen": ([0, 1], [-1])}, "holds -1"),
            ({"popular": [5]}, "holds 5"),
            ({"popular": [0.5]}, "flat list of item positions"),
            ({"popular": [1, 0, 1]}, "popular names an item twice"),
        ],
    )
    def test_parts_that_do_not_fit(self, tmp_path, parts, words):
        with pytest.raises(InvalidEmbeddingsError) as caught:
            write_bundle(tmp_path / "m", index=small_index(), **parts)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    def test_a_bundle_is_never_overwritten(self, made):
        with pytest.raises(StorageError, match="already exists"):
            write_bundle(made.path, index=small_index())

    def test_an_index_is_no_bundle(self, tmp_path):
        small_index().save(tmp_path / "index")
        with pytest.raises(NotAModelError, match="holds a greedy-index, but a bundle was expected"):
            Bundle.open(tmp_path / "index")


def rewrite(source: Path, target: Path, *, info=None, **changes) -> None:
    """Write a bundle again, consistently signed, with some arrays changed; None removes one."""
    stored = storage.open_arrays(source, kind="bundle")
    arrays = {name: array.copy() for name, array in stored.arrays.items()}
    for keyword, change in changes.items():
        name = keyword.replace("__", ".")
        assert name in arrays, name
        if change is None:
            del arrays[name]
        else:
            arrays[name] = change(arrays[name])
    storage.write_arrays(target, kind="bundle", arrays=arrays, info={**stored.info, **(info or {})})


def put(position, value):
    def change(array):
        array.reshape(-1)[position] = value
        return array

    return change


@pytest.fixture
def fuzzed(tmp_path):
    shutil.copytree(GOLDEN, tmp_path / "fuzzed")
    return tmp_path / "fuzzed"


def use_everything(opened):
    """Call all that a bundle offers; a vector that is no longer finite is refused as a query."""
    for position in range(opened.n_items):
        opened.item_position(opened.item_id(position))
        opened.title(position)
    for user in range(opened.n_users):
        opened.user_position(opened.user_id(user))
        query = opened.user_vector(user)
        if query is None:
            continue
        with contextlib.suppress(InvalidQueryError):
            for variant in ("threshold", "improved-tree", "improved-heap", "original-tree"):
                for budget in (1, 4, 7):
                    opened.index.search(query, top_k=7, budget=budget, exclude=opened.seen_items(user), variant=variant)


class TestDamage:
    """Even a bundle whose checksums fit is refused if a part of it could lead a reader astray."""

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"index__list_ids": put(0, 7)}, "list 0"),
            ({"index__list_ids": put(-1, -1)}, "list 5"),
            ({"index__rows": lambda rows: rows[:, :8]}, "rows"),
            ({"index__rows": None}, "rows"),
            ({"index__list_values": None}, "list_values"),
            ({"items__ids__offsets": put(3, 10**12)}, "offsets of items.ids"),
            ({"items__ids__offsets": put(3, -1)}, "offsets of items.ids"),
            ({"items__ids__offsets": lambda offsets: offsets[:-1]}, "offsets of items.ids"),
            ({"items__ids__offsets": lambda offsets: offsets.astype(np.float64)}, "offsets of items.ids"),
            ({"items__ids__text": lambda text: text[:-1]}, "offsets of items.ids"),
            ({"items__ids__text": lambda text: text.astype(np.int32)}, "must be bytes"),
            ({"items__ids__positions": put(2, 7)}, "items.ids leads to ids that do not exist"),
            ({"items__ids__positions": put(2, -1)}, "items.ids leads to ids that do not exist"),
            ({"items__ids__positions": lambda positions: positions[:-1]}, "another number"),
            ({"items__ids__buckets": put(4, 10**6)}, "offsets of items.ids.buckets"),
            ({"items__ids__buckets": lambda buckets: np.append(buckets, buckets[-1])}, "power of two"),
            ({"items__ids__text": None}, "items.ids.text"),
            ({"items__titles__offsets": lambda offsets: offsets[[0, -1]]}, "titles for 7 items"),
            ({"users__vectors": lambda vectors: vectors[:2]}, "users.vectors"),
            ({"users__vectors": lambda vectors: vectors[:, :2]}, "users.vectors"),
            ({"users__vectors": lambda vectors: vectors.astype(np.float64)}, "users.vectors"),
            ({"users__known": lambda known: known[:2]}, "users.known"),
            ({"seen__starts": put(1, 10**9)}, "offsets of seen"),
            ({"seen__starts": lambda starts: starts[:-1]}, "seen.starts"),
            ({"seen__starts": lambda starts: starts.astype(np.int32)}, "seen.starts"),
            ({"seen__items": put(1, 7)}, "seen.items names items that do not exist"),
            ({"seen__items": put(1, -1)}, "seen.items names items that do not exist"),
            ({"seen__items": None}, "seen.items"),
            ({"popular": put(0, 7)}, "popular names items"),
            ({"popular": lambda popular: popular.reshape(1, -1)}, "popular"),
            ({"popular": None}, "popular"),
            ({"info": {"n_users": 4}}, "3 ids for 4 rows"),
            ({"info": {"n_users": "3"}}, "3 ids for 3 rows"),
            ({"info": {"version": 7}}, "not text"),
            ({"info": {"index": {}}}, "cannot be used"),
            ({"info": {"index": None}}, "cannot be used"),
        ],
    )
    def test_inconsistent_parts(self, made, tmp_path, changes, words):
        rewrite(made.path, tmp_path / "bad", **changes)
        storage.verify_files(tmp_path / "bad")
        with pytest.raises(CorruptModelError) as caught:
            Bundle.open(tmp_path / "bad")
        assert words in str(caught.value)
        assert str(tmp_path / "bad") in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"index__rows": put(0, np.nan)}, "row 0 of the items"),
            ({"index__rows": put(16, 2e15)}, "row 1 of the items"),
            ({"index__rows": put(15, 1)}, "padded with zeros"),
            ({"index__rows": put(0, 100)}, "list 0 of the index does not fit"),
            ({"index__list_values": lambda values: values / 2}, "list 0 of the index does not fit"),
            ({"users__vectors": put(-1, np.inf)}, "row 2 of users.vectors"),
            ({"users__vectors": put(3, 1)}, "user without a vector"),
            ({"users__known": put(0, False)}, "user without a vector"),
            ({"items__ids__text": put(0, 0xFF)}, "items.ids holds no valid text at byte 0"),
            ({"items__ids__text": put(0, ord("b"))}, "id 0 of items.ids"),
            ({"items__titles__text": put(0, 0xFF)}, "items.titles holds no valid text"),
            ({"items__titles__offsets": put(4, 17)}, "begins within a character"),
            ({"items__ids__positions": lambda positions: positions[::-1]}, "of items.ids"),
            ({"users__ids__positions": put(0, 1)}, "of users.ids"),
            ({"popular": put(0, 6)}, "popular names an item twice"),
        ],
    )
    def test_values_that_no_build_would_write_are_found_by_verify(self, made, tmp_path, changes, words):
        rewrite(made.path, tmp_path / "bad", **changes)
        with pytest.raises(CorruptModelError) as caught:
            Bundle.open(tmp_path / "bad").verify()
        assert words in str(caught.value)
        assert str(tmp_path / "bad") in str(caught.value)

    @pytest.mark.parametrize("name", sorted(path.stem for path in GOLDEN.glob("*.npy")))
    def test_a_part_that_is_missing_is_missed(self, made, tmp_path, name):
        rewrite(made.path, tmp_path / "bad", **{name.replace(".", "__"): None})
        with pytest.raises(CorruptModelError, match=name.split(".")[-1]):
            Bundle.open(tmp_path / "bad")

    def test_what_nobody_would_remember_is_found_by_verify(self, tmp_path):
        rng = np.random.default_rng(3)
        index = GreedyIndex.build(rng.normal(size=(90, 6)), directions="graph", max_budget=20)
        made = write_bundle(tmp_path / "good", index=index, user_vectors=rng.normal(size=(40, 6)))
        made.verify()
        worst = made.index.search(made.user_vector(0), top_k=90, budget=90).ids[-1]
        second = made.user_remembered(0)[1]
        for value in (worst, second, -1):
            target = tmp_path / f"bad {value}"
            rewrite(made.path, target, users__remembered=put(0, value))
            with pytest.raises(CorruptModelError, match=r"row 0 of users\.remembered"):
                Bundle.open(target).verify()

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"index__graph_codes": put(0, 77)}, "compressed rows"),
            ({"index__graph_details": put(0, 77)}, "compressed rows"),
            ({"index__graph_neighbours": put(0, 89)}, "is not the one that was built"),
            ({"index__graph_entries": put(0, 89)}, "is not the one that was built"),
        ],
    )
    def test_an_altered_graph_is_found_by_verify(self, tmp_path, changes, words):
        rng = np.random.default_rng(3)
        index = GreedyIndex.build(rng.normal(size=(90, 6)), directions="graph", max_budget=20)
        made = write_bundle(tmp_path / "good", index=index)
        made.verify()
        rewrite(made.path, tmp_path / "bad", **changes)
        with pytest.raises(CorruptModelError, match=words):
            Bundle.open(tmp_path / "bad").verify()

    def test_a_bundle_that_changes_while_it_is_open_is_not_verified(self, fuzzed):
        opened = Bundle.open(fuzzed)
        shutil.copy2(fuzzed / "popular.npy", fuzzed / "copy")
        (fuzzed / "copy").replace(fuzzed / "popular.npy")
        with pytest.raises(CorruptModelError, match="was changed while it was open"):
            opened.verify()

    def test_a_text_that_is_no_longer_text_does_not_crash(self, made, tmp_path):
        rewrite(made.path, tmp_path / "bad", items__ids__text=put(0, 0xFF), items__titles__text=put(0, 0xFF))
        damaged = Bundle.open(tmp_path / "bad")
        assert damaged.item_ids([0, 1]) == ["\ufffd/b", "ünïcödé ☃"]
        assert damaged.title(0) == "\ufffdirst"
        assert damaged.item_position("a/b") is None

    @given(
        file=st.sampled_from(sorted(path.name for path in GOLDEN.glob("*.npy"))),
        position=st.integers(0, 10**4),
        damage=st.binary(min_size=1, max_size=8),
    )
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400, deadline=None)
    def test_no_damage_to_the_data_reaches_a_reader_or_a_kernel(self, fuzzed, file, position, damage):
        place = fuzzed / file
        good = place.read_bytes()
        data = bytearray(good)
        start = 128 + position % (len(good) - 128)
        end = min(start + len(damage), len(good))
        data[start:end] = damage[: end - start]
        place.write_bytes(data)
        try:
            with contextlib.suppress(CorruptModelError):
                use_everything(Bundle.open(fuzzed))
        finally:
            place.write_bytes(good)

    @pytest.mark.parametrize("file", sorted(path.name for path in GOLDEN.glob("*.npy")))
    def test_every_file_counts(self, tmp_path, file):
        copy = tmp_path / "copy"
        shutil.copytree(GOLDEN, copy)
        content = bytearray((copy / file).read_bytes())
        content[-1] ^= 1
        (copy / file).write_bytes(content)
        with pytest.raises(CorruptModelError, match=file):
            storage.verify_files(copy)
        (copy / file).write_bytes(content[:-1])
        with pytest.raises(CorruptModelError, match=f"{file} is cut short"):
            Bundle.open(copy)
        (copy / file).unlink()
        with pytest.raises(CorruptModelError, match=f"{file} is missing"):
            Bundle.open(copy)


def _answers(path, results):
    opened = Bundle.open(path)
    opened.verify()
    results.put(opened.index.search(opened.user_vector(0), top_k=3, budget=3).ids.tolist())


class TestSharing:
    def test_two_processes_open_the_same_bundle(self, made):
        spawn = multiprocessing.get_context("spawn")
        results = spawn.Queue()
        processes = [spawn.Process(target=_answers, args=(made.path, results)) for _ in range(2)]
        for process in processes:
            process.start()
        assert [results.get(timeout=60) for _ in processes] == [[0, 5, 6], [0, 5, 6]]
        for process in processes:
            process.join(timeout=60)
            assert process.exitcode == 0

    def test_a_fork_keeps_the_bundle(self, made):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            found = made.index.search(made.user_vector(0), top_k=1, budget=3).ids[0]
            os.write(write, made.item_id(int(found)).encode())
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.close(write)
        with os.fdopen(read) as pipe:
            assert pipe.read() == "a/b"

    def test_threads_share_one_bundle(self, made):
        wrong = []

        def ask():
            for turn in range(500):
                position = turn % 7
                if made.item_position(made.item_id(position)) != position:
                    wrong.append(position)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_an_open_bundle_survives_its_deletion(self, made):
        shutil.rmtree(made.path)
        assert made.item_position("a/b") == 0
        assert made.index.search(made.user_vector(0), top_k=1, budget=3).ids.tolist() == [0]
