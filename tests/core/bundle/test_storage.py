"""The directory format: what is written comes back, and nothing damaged is ever opened."""

import hashlib
import json
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from greedy_core.bundle import manifest, storage
from greedy_core.errors import CorruptModelError, FormatVersionError, NotAModelError, StorageError

ARRAYS = {
    "rows": np.arange(48, dtype=np.float32).reshape(3, 16),
    "index.list_ids": np.array([2, 0, 1], dtype=np.int32),
    "empty": np.empty((0, 4), dtype=np.int64),
    "scalar": np.array(7, dtype=np.uint64),
}
INFO = {"n_items": 3, "note": "naïve ☃", "nested": {"a": [1, 2.5, None, True]}}


@pytest.fixture
def model(tmp_path):
    storage.write_arrays(tmp_path / "model", kind="toy", arrays=ARRAYS, info=INFO)
    return tmp_path / "model"


def edit_manifest(model, change, *, sign=True):
    content = json.loads((model / "model.json").read_text())
    change(content)
    if sign:
        content["checksum"] = manifest._manifest_checksum(content)
    (model / "model.json").write_text(json.dumps(content))


class TestRoundTrip:
    def test_arrays_and_info_come_back(self, model):
        stored = storage.open_arrays(model, kind="toy")
        assert stored.info == INFO
        assert stored.arrays.keys() == ARRAYS.keys()
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(stored.arrays[name], array)
            assert stored.arrays[name].dtype == array.dtype
            assert not stored.arrays[name].flags.writeable
        storage.verify_files(model)

    def test_data_is_mapped_on_a_cache_line(self, model):
        rows = storage.open_arrays(model, kind="toy").arrays["rows"]
        assert type(rows) is np.ndarray
        assert not rows.flags.owndata
        assert rows.ctypes.data % 64 == 0

    def test_arrays_outlive_the_directory(self, model):
        arrays = storage.open_arrays(model, kind="toy").arrays
        for file in model.iterdir():
            file.unlink()
        np.testing.assert_array_equal(arrays["rows"], ARRAYS["rows"])

    @given(
        array=st.sampled_from(["<f4", ">f8", "f2", "i1", ">i2", "u8", "?"]).flatmap(
            lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
        )
    )
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
    def test_any_plain_array_in_any_order(self, tmp_path_factory, array):
        path = tmp_path_factory.mktemp("any") / "model"
        storage.write_arrays(path, kind="toy", arrays={"c": array, "transposed": array.T}, info={})
        arrays = storage.open_arrays(path, kind="toy").arrays
        assert arrays["c"].dtype.isnative
        np.testing.assert_array_equal(arrays["c"], array)
        np.testing.assert_array_equal(arrays["transposed"], array.T)

    def test_numpy_scalars_in_the_info_become_plain(self, tmp_path):
        storage.write_arrays(tmp_path / "m", kind="toy", arrays={}, info={"n": np.int64(3), "x": np.float32(0.5)})
        assert storage.open_arrays(tmp_path / "m", kind="toy").info == {"n": 3, "x": 0.5}

    def test_the_manifest_is_what_product_and_operators_expect(self, model):
        manifest = storage.read_manifest(model)
        assert manifest.kind == "toy"
        assert manifest.files["rows"].shape == (3, 16)
        assert manifest.files["rows"].dtype == "<f4"
        content = (model / "rows.npy").read_bytes()
        assert manifest.files["rows"].bytes == len(content)
        assert manifest.files["rows"].checksum == hashlib.sha256(content).hexdigest()
        assert manifest.bytes == sum(file.stat().st_size for file in model.glob("*.npy"))

    def test_progress_reaches_the_whole(self, model):
        seen = []
        storage.verify_files(model, progress=lambda done, total: seen.append((done, total)))
        total = storage.read_manifest(model).bytes
        assert seen[-1] == (total, total)
        assert seen == sorted(seen)


class TestWriting:
    @pytest.mark.parametrize("kind", ["directory", "file", "dangling link"])
    def test_nothing_is_overwritten(self, tmp_path, kind):
        path = tmp_path / "model"
        if kind == "directory":
            path.mkdir()
        elif kind == "file":
            path.write_text("precious")
        else:
            path.symlink_to(tmp_path / "nowhere")
        with pytest.raises(StorageError, match="already exists"):
            storage.write_arrays(path, kind="toy", arrays=ARRAYS, info={})
        assert [place.name for place in tmp_path.iterdir()] == ["model"]

    @pytest.mark.parametrize("fails_at", ["_write_file", "sync_directory"])
    def test_a_failure_leaves_nothing_behind(self, tmp_path, monkeypatch, fails_at):
        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(storage, fails_at, full)
        with pytest.raises(StorageError, match="No space left on device"):
            storage.write_arrays(tmp_path / "model", kind="toy", arrays=ARRAYS, info={})
        assert list(tmp_path.iterdir()) == []

    def test_a_crash_leaves_only_a_leftover_that_is_no_model(self, tmp_path):
        pid = os.fork()
        if pid == 0:
            storage.sync_directory = lambda _: os._exit(9)
            storage.write_arrays(tmp_path / "model", kind="toy", arrays=ARRAYS, info={})
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
        (leftover,) = tmp_path.iterdir()
        assert leftover.name.startswith(".model.writing-")
        storage.write_arrays(tmp_path / "model", kind="toy", arrays=ARRAYS, info={})
        storage.verify_files(tmp_path / "model")

    def test_the_second_of_two_writers_fails(self, tmp_path, monkeypatch):
        path = tmp_path / "model"
        sync = storage.sync_directory

        def interrupted(directory):
            monkeypatch.setattr(storage, "sync_directory", sync)
            storage.write_arrays(path, kind="toy", arrays={"first": np.zeros(1)}, info={})
            sync(directory)

        monkeypatch.setattr(storage, "sync_directory", interrupted)
        monkeypatch.setattr(storage.threading, "get_ident", iter([1, 2]).__next__)
        with pytest.raises(StorageError, match="cannot be written"):
            storage.write_arrays(path, kind="toy", arrays=ARRAYS, info={})
        assert storage.open_arrays(path, kind="toy").arrays.keys() == {"first"}
        assert [place.name for place in tmp_path.iterdir()] == ["model"]

    @pytest.mark.parametrize("name", ["", "../rows", "a/b", "Rows", ".rows", "rows.", "a..b", "ro ws", "rows\n"])
    def test_names_that_are_no_file_names(self, tmp_path, name):
        with pytest.raises(StorageError, match="no name for an array"):
            storage.write_arrays(tmp_path / "model", kind="toy", arrays={name: np.zeros(1)}, info={})
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("array", [np.array([{}]), np.array(["a"]), np.zeros(1, complex), np.zeros(1, "i4,f4")])
    def test_arrays_that_are_no_plain_numbers(self, tmp_path, array):
        with pytest.raises(StorageError, match="only plain numbers"):
            storage.write_arrays(tmp_path / "model", kind="toy", arrays={"a": array}, info={})

    @pytest.mark.parametrize("info", [{"a": object()}, {"a": float("nan")}, {"a": {1, 2}}, {("a",): 1}])
    def test_info_that_is_no_json(self, tmp_path, info):
        with pytest.raises(StorageError, match="plain JSON"):
            storage.write_arrays(tmp_path / "model", kind="toy", arrays={}, info=info)
        assert list(tmp_path.iterdir()) == []


class TestDamage:
    """Every way to break a directory is refused with the type and the file's name."""

    def test_nothing_there(self, tmp_path):
        with pytest.raises(NotAModelError, match="does not exist"):
            storage.open_arrays(tmp_path / "nothing", kind="toy")
        with pytest.raises(NotAModelError, match=r"holds no model\.json"):
            storage.open_arrays(tmp_path, kind="toy")
        (tmp_path / "file").write_text("x")
        with pytest.raises(NotAModelError, match="is not a directory"):
            storage.open_arrays(tmp_path / "file", kind="toy")

    def test_another_kind(self, model):
        with pytest.raises(NotAModelError, match="holds a toy, but a bundle was expected"):
            storage.open_arrays(model, kind="bundle")

    @pytest.mark.parametrize("version", [0, 2, 99, "1", None])
    def test_another_version(self, model, version):
        edit_manifest(model, lambda content: content.update(format_version=version))
        with pytest.raises(FormatVersionError, match="this release reads version 1"):
            storage.open_arrays(model, kind="toy")

    def test_another_program(self, model):
        edit_manifest(model, lambda content: content.update(format="something"))
        with pytest.raises(NotAModelError, match="not a manifest of budgetrec"):
            storage.open_arrays(model, kind="toy")

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"x"', "{}", "[" * 100_000, "\xff", "NaN"])
    def test_a_manifest_that_is_none(self, model, text):
        (model / "model.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(CorruptModelError, match=r"model\.json is not a valid manifest"):
            storage.open_arrays(model, kind="toy")

    def test_an_altered_manifest(self, model):
        edit_manifest(model, lambda content: content["info"].update(n_items=4), sign=False)
        with pytest.raises(CorruptModelError, match=r"model\.json was altered"):
            storage.open_arrays(model, kind="toy")

    @pytest.mark.parametrize(
        "change",
        [
            lambda files: files.update({"../../etc/passwd": files["rows"]}),
            lambda files: files["rows"].update(dtype="|O"),
            lambda files: files["rows"].update(dtype=["<f4"]),
            lambda files: files["rows"].update(shape=[-3, 16]),
            lambda files: files["rows"].update(shape=[3.0, 16]),
            lambda files: files["rows"].update(shape="3"),
            lambda files: files["rows"].update(bytes="many"),
            lambda files: files["rows"].update(checksum="abc"),
            lambda files: files["rows"].pop("shape"),
            lambda files: files.update(rows=None),
        ],
    )
    def test_a_signed_manifest_that_makes_no_sense(self, model, change):
        edit_manifest(model, lambda content: change(content["files"]))
        with pytest.raises(CorruptModelError, match=r"model\.json is not a valid manifest"):
            storage.open_arrays(model, kind="toy")

    @pytest.mark.parametrize(
        "changes",
        [
            {"shape": [16, 3]},
            {"shape": [4, 16]},
            {"shape": [2**62, 2**62]},
            {"dtype": "<i4"},
            {"dtype": "<f8"},
        ],
    )
    def test_a_manifest_that_contradicts_the_file(self, model, changes):
        edit_manifest(model, lambda content: content["files"]["rows"].update(changes))
        with pytest.raises(CorruptModelError, match=r"rows\.npy does not begin as"):
            storage.open_arrays(model, kind="toy")

    @pytest.mark.parametrize("name", ["rows", "index.list_ids", "empty", "scalar"])
    def test_a_missing_file(self, model, name):
        (model / f"{name}.npy").unlink()
        for check in (lambda: storage.open_arrays(model, kind="toy"), lambda: storage.verify_files(model)):
            with pytest.raises(CorruptModelError, match=f"{name}.npy is missing"):
                check()

    @pytest.mark.parametrize("keep", [0, 1, 64, 128, -1])
    def test_a_file_cut_short(self, model, keep):
        content = (model / "rows.npy").read_bytes()
        (model / "rows.npy").write_bytes(content[:keep])
        with pytest.raises(CorruptModelError, match=r"rows\.npy is cut short"):
            storage.open_arrays(model, kind="toy")

    def test_a_file_too_long(self, model):
        with (model / "rows.npy").open("ab") as file:
            file.write(b"\0")
        with pytest.raises(CorruptModelError, match=r"rows\.npy is too long"):
            storage.open_arrays(model, kind="toy")

    @given(position=st.integers(0, 10**6), bit=st.integers(0, 7), name=st.sampled_from(sorted(ARRAYS)))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
    def test_one_flipped_bit_anywhere_is_found(self, model, position, bit, name):
        file = model / f"{name}.npy"
        content = bytearray(file.read_bytes())
        good = bytes(content)
        content[position % len(content)] ^= 1 << bit
        file.write_bytes(content)
        try:
            with pytest.raises(CorruptModelError, match=f"{name}.npy"):
                storage.verify_files(model)
            if position % len(content) < 128:
                with pytest.raises(CorruptModelError, match=f"{name}.npy does not begin"):
                    storage.open_arrays(model, kind="toy")
        finally:
            file.write_bytes(good)

    @given(position=st.integers(0, 10**6), byte=st.integers(0, 255))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
    def test_any_byte_of_the_manifest_may_change(self, model, position, byte):
        file = model / "model.json"
        good = file.read_bytes()
        content = bytearray(good)
        content[position % len(content)] = byte
        file.write_bytes(content)
        try:
            same = json.loads(content) == json.loads(good)
        except ValueError:
            same = False
        try:
            if same:
                storage.verify_files(model)
            else:
                with pytest.raises(StorageError):
                    storage.verify_files(model)
        finally:
            file.write_bytes(good)

    def test_pickled_data_is_never_opened(self, model):
        np.save(model / "rows.npy", np.array([{"a": 1}]), allow_pickle=True)
        size = (model / "rows.npy").stat().st_size
        edit_manifest(model, lambda content: content["files"]["rows"].update(bytes=size))
        with pytest.raises(CorruptModelError, match=r"rows\.npy"):
            storage.open_arrays(model, kind="toy")

    def test_fortran_order_is_never_misread(self, model):
        np.save(model / "rows.npy", np.asfortranarray(ARRAYS["rows"]))
        with pytest.raises(CorruptModelError, match=r"rows\.npy does not begin as"):
            storage.open_arrays(model, kind="toy")

    def test_a_directory_in_place_of_a_file(self, model):
        (model / "rows.npy").unlink()
        (model / "rows.npy").mkdir()
        with pytest.raises(StorageError, match="is a directory, not a file"):
            storage.open_arrays(model, kind="toy")


class TestOddFiles:
    """What lies where a file should be must neither be waited for nor be believed."""

    @staticmethod
    def make_pipe(place):
        os.mkfifo(place)

    @staticmethod
    def make_socket(place):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place))

    @staticmethod
    def make_device(place):
        place.symlink_to("/dev/zero")

    @staticmethod
    def make_loop(place):
        place.symlink_to(place.name)

    @pytest.mark.parametrize("name", ["model.json", "rows.npy"])
    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (make_pipe, "is a pipe, not a file"),
            (make_socket, "is a socket, not a file"),
            (make_device, "is a device, not a file"),
            (lambda place: place.mkdir(), "is a directory, not a file"),
            (make_loop, "cannot be read: Too many levels of symbolic links"),
            (lambda place: place.symlink_to("nowhere"), "missing|holds no model"),
        ],
        ids=["pipe", "socket", "device", "directory", "loop of links", "link to nothing"],
    )
    def test_they_are_refused_at_once(self, model, monkeypatch, name, make, words):
        (model / name).unlink()
        monkeypatch.chdir(model)  # a socket's path is short
        make(Path(name))
        with pytest.raises(StorageError, match=words):
            storage.open_arrays(model, kind="toy")
        with pytest.raises(StorageError, match=words):
            storage.verify_files(model)

    def test_a_link_to_a_file_is_a_file(self, model):
        (model / "rows.npy").rename(model / "elsewhere")
        (model / "rows.npy").symlink_to("elsewhere")
        storage.verify_files(model)


class TestFingerprint:
    @staticmethod
    def of(model):
        return storage.open_arrays(model, kind="toy").fingerprint

    def test_it_stays_while_the_files_stay(self, model):
        assert self.of(model) == self.of(model)

    @pytest.mark.parametrize("name", sorted(name for name, array in ARRAYS.items() if array.size))
    def test_every_file_counts_even_with_its_size_and_time_restored(self, model, name):
        before = self.of(model)
        place = model / f"{name}.npy"
        status = place.stat()
        content = bytearray(place.read_bytes())
        content[-1] ^= 1
        place.write_bytes(content)
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert self.of(model) != before

    def test_a_file_that_was_replaced_by_its_copy_is_another(self, model):
        before = self.of(model)
        shutil.copy2(model / "rows.npy", model / "copy")
        (model / "copy").replace(model / "rows.npy")
        assert self.of(model) != before
