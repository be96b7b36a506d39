"""The folder of versions: what is current, what was, and nothing in between."""

import shutil
import threading

import numpy as np
import pytest

from greedy_core import GreedyIndex, check_version_name, write_bundle
from greedy_core.bundle import storage
from greedy_core.bundle.versions import VersionsFolder
from greedy_core.errors import CorruptModelError, NotAModelError, StorageError


@pytest.fixture
def folder(tmp_path):
    index = GreedyIndex.build(np.eye(3, dtype=np.float32), max_budget=2)
    for version in ("v9", "v10", "v2"):
        write_bundle(tmp_path / "models" / version, index=index)
    return VersionsFolder(tmp_path / "models")


def test_versions_are_sorted_as_people_count(folder):
    assert folder.versions() == ["v2", "v9", "v10"]


def test_what_is_unfinished_or_no_model_is_no_version(folder):
    (folder.path / ".v11.writing-1-2").mkdir()
    (folder.path / ".v11.writing-1-2" / "model.json").write_text("{}")
    (folder.path / "notes").mkdir()
    (folder.path / "readme.txt").write_text("x")
    folder.promote("v2")
    assert folder.versions() == ["v2", "v9", "v10"]


def test_a_folder_that_does_not_exist_has_no_versions(tmp_path):
    folder = VersionsFolder(tmp_path / "nowhere")
    assert folder.versions() == []
    assert folder.current() is None
    with pytest.raises(NotAModelError, match="budgetrec build"):
        folder.promote("v1")


def test_promote_and_rollback(folder):
    assert folder.current() is None
    folder.promote("v2")
    assert folder.current() == folder.path / "v2"
    assert folder.previous_version() is None
    folder.promote("v9")
    assert (folder.current_version(), folder.previous_version()) == ("v9", "v2")
    assert folder.rollback() == "v2"
    assert (folder.current_version(), folder.previous_version()) == ("v2", None)


def test_promoting_the_current_version_keeps_the_previous(folder):
    folder.promote("v2")
    folder.promote("v9")
    folder.promote("v9")
    assert folder.previous_version() == "v2"


def test_the_pointer_is_relative_so_the_folder_can_move(folder, tmp_path):
    folder.promote("v2")
    folder.path.rename(tmp_path / "moved")
    moved = VersionsFolder(tmp_path / "moved")
    assert moved.current().resolve() == (tmp_path / "moved" / "v2").resolve()


def test_nothing_to_roll_back_to(folder):
    with pytest.raises(StorageError, match="no previous version"):
        folder.rollback()
    folder.promote("v2")
    with pytest.raises(StorageError, match="no previous version"):
        folder.rollback()


def test_a_missing_version_names_those_that_exist(folder):
    with pytest.raises(NotAModelError, match="no version v3; choose one of: v2, v9, v10"):
        folder.promote("v3")


def test_an_incomplete_bundle_is_refused_and_the_pointer_stays(folder):
    folder.promote("v2")
    (folder.path / "v9" / "index.rows.npy").write_bytes(b"")
    with pytest.raises(CorruptModelError, match="cut short"):
        folder.promote("v9")
    (folder.path / "v10" / "model.json").unlink()
    with pytest.raises(NotAModelError, match=r"holds no model\.json"):
        folder.promote("v10")
    assert folder.current_version() == "v2"


def test_a_directory_called_current_is_not_overwritten(folder):
    (folder.path / "current").mkdir()
    with pytest.raises(StorageError, match="not a link"):
        folder.promote("v2")
    assert (folder.path / "current").is_dir()


def test_a_crash_between_the_two_pointers_leaves_a_current_version(folder, monkeypatch):
    folder.promote("v2")
    point = folder._point

    def crash(pointer, version):
        if pointer == "current":
            raise KeyboardInterrupt
        point(pointer, version)

    monkeypatch.setattr(folder, "_point", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.promote("v9")
    assert folder.current_version() == "v2"
    assert folder.previous_version() is None


def test_readers_never_see_a_missing_pointer_while_writers_promote(folder):
    folder.promote("v2")
    done = threading.Event()

    def promote_all():
        for turn in range(60):
            VersionsFolder(folder.path).promote(("v2", "v9", "v10")[turn % 3])
        done.set()

    writers = [threading.Thread(target=promote_all) for _ in range(2)]
    for writer in writers:
        writer.start()
    looks = 0
    while not done.is_set() or looks < 100:
        assert folder.current_version() in {"v2", "v9", "v10"}
        assert (folder.path / "current" / "model.json").is_file()
        looks += 1
    for writer in writers:
        writer.join()
    assert folder.previous_version() != folder.current_version()
    assert list(folder.path.glob(".*")) == []


def test_a_second_rollback_goes_further_back_and_never_forward(folder):
    for version in ("v2", "v9", "v10"):
        folder.promote(version)
    assert folder.history() == ["v2", "v9"]
    assert folder.rollback() == "v9"
    assert folder.rollback() == "v2"
    assert not (folder.path / "previous").is_symlink()
    with pytest.raises(StorageError, match="no previous version to return to; promote one"):
        folder.rollback()
    assert folder.current_version() == "v2"
    folder.promote("v10")
    assert folder.rollback() == "v2"


def test_a_rollback_passes_over_deleted_versions(folder):
    for version in ("v2", "v9", "v10"):
        folder.promote(version)
    shutil.rmtree(folder.path / "v9")
    assert folder.previous_version() == "v2"
    assert folder.rollback() == "v2"


def test_a_rollback_says_that_all_earlier_versions_are_gone(folder):
    folder.promote("v2")
    folder.promote("v9")
    shutil.rmtree(folder.path / "v2")
    with pytest.raises(StorageError, match="deleted since: v2; promote one by its name"):
        folder.rollback()
    assert folder.current_version() == "v9"


def test_a_rollback_to_a_damaged_version_changes_nothing(folder):
    folder.promote("v2")
    folder.promote("v9")
    (folder.path / "v2" / "popular.npy").unlink()
    with pytest.raises(CorruptModelError, match="missing"):
        folder.rollback()
    assert (folder.current_version(), folder.previous_version()) == ("v9", "v2")


def test_a_folder_of_an_earlier_release_rolls_back_by_its_link(folder):
    (folder.path / "current").symlink_to("v9")
    (folder.path / "previous").symlink_to("v2")
    assert folder.history() == ["v2"]
    folder.promote("v10")
    assert folder.history() == ["v2", "v9"]
    assert [folder.rollback(), folder.rollback()] == ["v9", "v2"]


@pytest.mark.parametrize("content", ["", "{", "{}", "[1]", '"v2"', "[" * 100_000])
def test_a_history_that_is_none_is_refused(folder, content):
    folder.promote("v2")
    (folder.path / "history.json").write_text(content)
    with pytest.raises(StorageError, match=r"history\.json is no list of versions"):
        folder.rollback()


@pytest.mark.parametrize("interrupted", ["history.json", "previous", "current"])
def test_a_crash_within_a_promotion_or_a_rollback_leaves_a_history_that_fits(folder, monkeypatch, interrupted):
    for version in ("v2", "v9"):
        folder.promote(version)
    put = folder._put

    def crash(name, write):
        if name == interrupted:
            raise KeyboardInterrupt
        put(name, write)

    monkeypatch.setattr(folder, "_put", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.promote("v10")
    monkeypatch.undo()
    assert (folder.current_version(), folder.history()) == ("v9", ["v2"])
    folder.promote("v10")
    monkeypatch.setattr(folder, "_put", crash)
    with pytest.raises(KeyboardInterrupt):
        folder.rollback()
    monkeypatch.undo()
    assert (folder.current_version(), folder.history()) in [("v10", ["v2", "v9"]), ("v9", ["v2"])]


@pytest.mark.parametrize(
    "name",
    ["", "current", "previous", "history.json", ".hidden", "..", "a/b", "a\0", "a\n", " a", "-a", "a" * 201, "\ud800"],
)
def test_names_that_no_version_can_have(folder, name):
    with pytest.raises(NotAModelError, match="is no name of a version"):
        check_version_name(name)
    with pytest.raises(NotAModelError, match="is no name of a version"):
        folder.promote(name)
    index = GreedyIndex.build(np.eye(3, dtype=np.float32), max_budget=2)
    with pytest.raises(NotAModelError, match="is no name of a version"):
        write_bundle(folder.path / "new", index=index, version=name)
    assert folder.versions() == ["v2", "v9", "v10"]


@pytest.mark.parametrize("name", ["v1", "2026-11-16T08-00", "Straße 7", "a" * 200, "current2", "1.0_rc~1+b"])
def test_names_that_a_version_can_have(name):
    check_version_name(name)


class TestPrune:
    @pytest.fixture
    def folder(self, tmp_path):
        index = GreedyIndex.build(np.eye(3, dtype=np.float32), max_budget=2)
        for version in ("v1", "v2", "v3", "v9", "v10"):
            write_bundle(tmp_path / "models" / version, index=index)
        return VersionsFolder(tmp_path / "models")

    def test_the_last_are_kept(self, folder):
        assert folder.prune(keep=2) == ["v1", "v2", "v3"]
        assert folder.versions() == ["v9", "v10"]
        assert sorted(place.name for place in folder.path.iterdir()) == ["v10", "v9"]
        assert folder.prune(keep=2) == []

    def test_what_is_current_and_what_a_rollback_returns_to_is_kept(self, folder):
        for version in ("v3", "v1", "v2"):
            folder.promote(version)
        assert folder.prune(keep=1) == ["v3", "v9"]
        assert folder.history() == ["v1"]
        assert folder.rollback() == "v1"

    def test_what_killed_builds_and_promotions_left_is_removed(self, folder):
        for leftover in (".v11.writing-1-2", ".v1.deleting-3-4"):
            (folder.path / leftover).mkdir()
            (folder.path / leftover / "items.npy").write_bytes(b"half of it")
        (folder.path / ".current.writing-5-6").symlink_to("v9")
        (folder.path / ".history.json.writing-7-8").write_text("[")
        (folder.path / ".keep-me").mkdir()
        before = folder.versions()
        assert folder.prune(keep=len(before)) == []
        assert sorted(place.name for place in folder.path.iterdir()) == sorted([".keep-me", *before])

    def test_what_is_being_written_stays(self, folder, monkeypatch):
        seen = []
        write_file = storage._write_file

        def prune_meanwhile(place, chunks):
            folder.prune(keep=10)
            seen.append(place.parent.exists())
            return write_file(place, chunks)

        monkeypatch.setattr(storage, "_write_file", prune_meanwhile)
        write_bundle(folder.path / "v11", index=GreedyIndex.build(np.eye(3, dtype=np.float32), max_budget=2))
        assert set(seen) == {True}
        assert "v11" in folder.versions()

    @pytest.mark.parametrize("keep", [0, -1, True, 1.5, "2", None])
    def test_a_number_that_makes_no_sense(self, folder, keep):
        with pytest.raises(StorageError, match="whole number from 1"):
            folder.prune(keep)
        assert len(folder.versions()) == 5
