"""Reading vectors, ids, titles and what was seen from files."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from greedy_core import formats, load_embeddings
from greedy_core.errors import InvalidEmbeddingsError, StorageError

MATRIX = np.array([[1, -2, 3], [0, 0, 0], [4, 5, 6], [4, 5, 6]], dtype=np.float32)


class TestFiles:
    def test_npy_is_memory_mapped(self, tmp_path):
        np.save(tmp_path / "items.npy", MATRIX)
        loaded = load_embeddings(tmp_path / "items.npy")
        assert loaded.ids is None
        assert not loaded.vectors.flags.writeable
        np.testing.assert_array_equal(loaded.vectors, MATRIX)

    def test_npz(self, tmp_path):
        path = tmp_path / "model.npz"
        np.savez(path, items=MATRIX.astype(np.float64))
        np.testing.assert_array_equal(load_embeddings(path).vectors, MATRIX)
        np.savez(path, items=MATRIX, users=MATRIX[:1])
        np.testing.assert_array_equal(load_embeddings(path, "users").vectors, MATRIX[:1])
        with pytest.raises(InvalidEmbeddingsError, match="it has: items, users"):
            load_embeddings(path)
        with pytest.raises(InvalidEmbeddingsError, match="no array called songs; it has: items, users"):
            load_embeddings(path, "songs")

    def test_pickles_are_never_opened(self, tmp_path):
        np.save(tmp_path / "items.npy", np.array([{"a": 1}]), allow_pickle=True)
        with pytest.raises(StorageError, match=r"cannot be read as \.npy"):
            load_embeddings(tmp_path / "items.npy")

    def test_safetensors(self, tmp_path):
        path = tmp_path / "model.safetensors"
        save_file({"items": MATRIX.astype(np.float16), "users": MATRIX[:2]}, path)
        np.testing.assert_array_equal(load_embeddings(path, "items").vectors, MATRIX)
        with pytest.raises(InvalidEmbeddingsError, match="it has: items, users"):
            load_embeddings(path)

    @pytest.mark.parametrize("fixed", [True, False])
    def test_parquet_list_column(self, tmp_path, fixed, monkeypatch):
        monkeypatch.setattr("greedy_core.formats.parquet._BATCH_ROWS", 3)
        kind = pa.list_(pa.float32(), 3) if fixed else pa.list_(pa.float64())
        table = pa.table({"item_id": ["é/1", "b", "c", "d"], "vector": pa.array(MATRIX.tolist(), type=kind)})
        pq.write_table(table, tmp_path / "items.parquet")
        loaded = load_embeddings(tmp_path / "items.parquet")
        assert loaded.ids == ["é/1", "b", "c", "d"]
        np.testing.assert_array_equal(loaded.vectors, MATRIX)

    def test_parquet_wide_columns(self, tmp_path):
        table = pa.table({"sku": [7, 8, 9, 10], **{f"f{t}": MATRIX[:, t] for t in range(3)}, "title": ["x"] * 4})
        pq.write_table(table, tmp_path / "items.parquet")
        loaded = load_embeddings(tmp_path / "items.parquet", id_column="sku")
        assert loaded.ids == ["7", "8", "9", "10"]
        np.testing.assert_array_equal(loaded.vectors, MATRIX)

    def test_parquet_whole_numbers_beside_fractions_are_no_dimensions(self, tmp_path):
        table = pa.table({"sku": [7, 8, 9, 10], **{f"f{t}": MATRIX[:, t] for t in range(3)}})
        pq.write_table(table, tmp_path / "items.parquet")
        np.testing.assert_array_equal(load_embeddings(tmp_path / "items.parquet").vectors, MATRIX)

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"vector": [[1.0, 2.0], [3.0]]}, "row 1 of"),
            ({"vector": [[1.0], None]}, "row 1 of"),
            ({"vector": [[1.0, 1.0], [1.0, None]]}, "missing value"),
            ({"vector": [[1.0], [float("nan")]]}, "row 1 of"),
            ({"a": [[1.0], [2.0]], "b": [[1.0], [2.0]]}, "it has: a, b"),
            ({"title": ["x", "y"]}, "neither"),
            ({"id": ["x", None], "vector": [[1.0], [2.0]]}, "row 1 of"),
            ({"id": [1.0, 2.0], "vector": [[1.0], [2.0]]}, "an id is text or a whole number"),
        ],
    )
    def test_parquet_that_makes_no_sense(self, tmp_path, columns, words):
        pq.write_table(pa.table(columns), tmp_path / "items.parquet")
        with pytest.raises(InvalidEmbeddingsError) as caught:
            load_embeddings(tmp_path / "items.parquet")
        assert words in str(caught.value)

    def test_an_empty_parquet_table(self, tmp_path):
        pq.write_table(pa.table({"f0": pa.array([], pa.float32())}), tmp_path / "items.parquet")
        with pytest.raises(InvalidEmbeddingsError, match="at least one row"):
            load_embeddings(tmp_path / "items.parquet")

    @pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".safetensors"])
    @pytest.mark.parametrize("content", [b"", b"not at all", b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4'"])
    def test_damaged_files_are_refused_in_one_line(self, tmp_path, suffix, content):
        path = tmp_path / f"items{suffix}"
        path.write_bytes(content)
        with pytest.raises(StorageError) as caught:
            load_embeddings(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("suffix", [".npy", ".npz"])
    def test_truncated_files_are_refused(self, tmp_path, suffix):
        path = tmp_path / f"items{suffix}"
        (np.save if suffix == ".npy" else np.savez)(path, np.ones((100, 8), dtype=np.float32))
        path.write_bytes(path.read_bytes()[:-1000])
        with pytest.raises(StorageError):
            load_embeddings(path)

    def test_a_missing_file_or_an_unknown_format_is_refused(self, tmp_path):
        with pytest.raises(StorageError, match="does not exist"):
            load_embeddings(tmp_path / "items.npy")
        with pytest.raises(StorageError, match=r"give one of \.npy"):
            load_embeddings(tmp_path / "items.csv")

    @pytest.mark.parametrize(("suffix", "module"), [(".parquet", "pyarrow"), (".safetensors", "safetensors")])
    def test_a_missing_extra_is_named(self, tmp_path, monkeypatch, suffix, module):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, "greedy_core.formats.parquet", raising=False)
        monkeypatch.delattr(formats, "parquet", raising=False)
        path = tmp_path / f"items{suffix}"
        path.write_bytes(b"")
        with pytest.raises(StorageError, match=r"\.\[formats\]"):
            load_embeddings(path)
