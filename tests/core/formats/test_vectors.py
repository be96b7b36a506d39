"""Reading vectors, ids, titles and what was seen from files."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from greedy_core import formats, load_embeddings, load_texts
from greedy_core.errors import InvalidEmbeddingsError, StorageError

MATRIX = np.array([[1, -2, 3], [0, 0, 0], [4, 5, 6], [4, 5, 6]], dtype=np.float32)


class Pickled:
    """Something that runs code when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return self.place.touch, ()


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
            load_embeddings(tmp_path / "items.doc")

    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize("change", [str.encode, lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()])
    def test_csv_with_ids_a_bom_windows_lines_and_gz(self, tmp_path, change, packed):
        rows = "\n".join(f"0{n},{a},{b},{c},Title {n}" for n, (a, b, c) in enumerate(MATRIX.tolist()))
        content = change(f"item_id,x,y,z,title\n{rows}\n")
        path = tmp_path / ("items.csv.gz" if packed else "items.csv")
        path.write_bytes(gzip.compress(content) if packed else content)
        loaded = load_embeddings(path)
        assert loaded.ids == ["00", "01", "02", "03"]
        np.testing.assert_array_equal(loaded.vectors, MATRIX)
        assert load_texts(f"{path}:title") == [f"Title {n}" for n in range(4)]

    def test_csv_without_names_and_with_fractions_far_down(self, tmp_path, monkeypatch):
        monkeypatch.setattr("greedy_core.formats.parquet._BLOCK_BYTES", 64)
        (tmp_path / "items.csv").write_text("1,2\n" * 100 + "0.5,3\n")
        vectors = load_embeddings(tmp_path / "items.csv").vectors
        assert vectors.shape == (101, 2)
        assert vectors[100].tolist() == [0.5, 3]

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("item_id,x\na,1\nb,\n", "row 1 of .* has no value in column x"),
            ("item_id,x\na,1\nb,inf\n", "row 1"),
            ("item_id,title\na,b\n", "numeric columns"),
            ("item_id,x\n", "neither a column|at least one row"),
        ],
    )
    def test_csv_that_holds_no_vectors(self, tmp_path, content, words):
        (tmp_path / "items.csv").write_text(content)
        with pytest.raises(InvalidEmbeddingsError, match=words):
            load_embeddings(tmp_path / "items.csv")

    def test_a_packed_npy(self, tmp_path):
        np.save(tmp_path / "items.npy", MATRIX)
        packed = tmp_path / "items.npy.gz"
        packed.write_bytes(gzip.compress((tmp_path / "items.npy").read_bytes()))
        np.testing.assert_array_equal(load_embeddings(packed).vectors, MATRIX)
        packed.write_bytes(packed.read_bytes()[:40])
        with pytest.raises(StorageError, match=r"items.npy.gz cannot be unpacked"):
            load_embeddings(packed)
        packed.write_bytes(gzip.compress(b"nothing"))
        with pytest.raises(StorageError, match=r"items.npy.gz cannot be read as .npy"):
            load_embeddings(packed)

    @pytest.mark.needs_packages("torch")
    def test_torch_tensors_and_nothing_else(self, tmp_path):
        import torch  # noqa: PLC0415 - an extra that not every machine has

        path = tmp_path / "model.pt"
        torch.save(torch.tensor(MATRIX).half(), path)
        np.testing.assert_array_equal(load_embeddings(path).vectors, MATRIX)
        state = {"items.weight": torch.nn.Parameter(torch.tensor(MATRIX)), "users.weight": torch.ones(2, 3), "n": 5}
        torch.save(state, path)
        np.testing.assert_array_equal(load_embeddings(f"{path}:items.weight").vectors, MATRIX)
        with pytest.raises(InvalidEmbeddingsError, match=r"it has: items.weight, users.weight"):
            load_embeddings(path)
        torch.save(Pickled(tmp_path / "ran"), path)
        with pytest.raises(StorageError, match=r"holds more than tensors, .*never loaded; save the tensor itself"):
            load_embeddings(path)
        assert not (tmp_path / "ran").exists()
        torch.save(torch.ones(3, 4).to_sparse(), path)
        with pytest.raises(InvalidEmbeddingsError, match="exactly one matrix"):
            load_embeddings(path)

    def test_torch_is_named_where_it_is_missing(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "torch", None)
        (tmp_path / "model.pt").write_bytes(b"")
        with pytest.raises(StorageError, match=r"needs torch.*pip install '\.\[towers\]'"):
            load_embeddings(tmp_path / "model.pt")

    @pytest.mark.parametrize("kind", ["pandas", "polars"])
    def test_a_list_column_as_other_libraries_write_it(self, tmp_path, kind):
        # pandas writes an index column and plain lists, polars large lists and large strings.
        lists = pa.list_(pa.float64()) if kind == "pandas" else pa.large_list(pa.float32())
        texts = pa.string() if kind == "pandas" else pa.large_string()
        columns = {"item_id": pa.array(["a", "b", "c", "d"], texts), "vector": pa.array(MATRIX.tolist(), lists)}
        if kind == "pandas":
            columns["__index_level_0__"] = pa.array([3, 1, 2, 0])
        pq.write_table(pa.table(columns), tmp_path / "items.parquet")
        loaded = load_embeddings(tmp_path / "items.parquet")
        assert loaded.ids == ["a", "b", "c", "d"]
        np.testing.assert_array_equal(loaded.vectors, MATRIX)

    @pytest.mark.parametrize(("suffix", "module"), [(".parquet", "pyarrow"), (".safetensors", "safetensors")])
    def test_a_missing_extra_is_named(self, tmp_path, monkeypatch, suffix, module):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(sys.modules, "greedy_core.formats.parquet", raising=False)
        monkeypatch.delattr(formats, "parquet", raising=False)
        path = tmp_path / f"items{suffix}"
        path.write_bytes(b"")
        with pytest.raises(StorageError, match=r"\.\[formats\]"):
            load_embeddings(path)
