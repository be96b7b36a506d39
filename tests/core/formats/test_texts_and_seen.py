"""Reading ids, titles and what was seen from files."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from greedy_core import load_embeddings, load_seen, load_texts
from greedy_core.errors import InvalidEmbeddingsError, StorageError

TEXTS = ["a/b", "ünïcödé ☃", " ", "42"]


class TestTexts:
    def test_lines(self, tmp_path):
        path = tmp_path / "ids.txt"
        path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
        assert load_texts(path) == TEXTS
        path.write_text("", encoding="utf-8")
        assert load_texts(path) == []

    @pytest.mark.parametrize("suffix", ["txt", "json"])
    def test_a_byte_order_mark_is_no_part_of_the_first_text(self, tmp_path, suffix):
        content = "\n".join(TEXTS) if suffix == "txt" else json.dumps(TEXTS)
        (tmp_path / f"ids.{suffix}").write_text(content, encoding="utf-8-sig")
        assert load_texts(tmp_path / f"ids.{suffix}") == TEXTS

    def test_packed_with_windows_lines(self, tmp_path):
        (tmp_path / "ids.txt.gz").write_bytes(gzip.compress("\r\n".join(TEXTS).encode()))
        assert load_texts(tmp_path / "ids.txt.gz") == TEXTS
        (tmp_path / "ids.json.gz").write_bytes(gzip.compress(json.dumps(TEXTS).encode())[:-9])
        with pytest.raises(StorageError, match="cannot be read"):
            load_texts(tmp_path / "ids.json.gz")

    def test_a_column_of_csv(self, tmp_path):
        (tmp_path / "items.csv").write_text('sku;title\n007;"one; two"\n8;\n')
        assert load_texts(f"{tmp_path}/items.csv:sku") == ["007", "8"]
        assert load_texts(f"{tmp_path}/items.csv:title") == ["one; two", ""]
        with pytest.raises(InvalidEmbeddingsError, match="it has: sku, title"):
            load_texts(tmp_path / "items.csv")

    def test_json(self, tmp_path):
        (tmp_path / "titles.json").write_text(json.dumps(["a", 7, None]))
        assert load_texts(tmp_path / "titles.json") == ["a", "7", None]

    @pytest.mark.parametrize("array", [np.array(TEXTS), np.array([1, 2])])
    def test_npy(self, tmp_path, array):
        np.save(tmp_path / "ids.npy", array)
        assert load_texts(tmp_path / "ids.npy") == [str(value) for value in array.tolist()]

    def test_a_column_of_parquet(self, tmp_path):
        path = tmp_path / "items.parquet"
        pq.write_table(pa.table({"id": TEXTS, "title": ["x", None, "", "y"]}), path)
        assert load_texts(f"{path}:id") == TEXTS
        assert load_texts(f"{path}:title") == ["x", None, "", "y"]
        with pytest.raises(InvalidEmbeddingsError, match="it has: id, title"):
            load_texts(path)

    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("ids.txt", b"\xff", "cannot be read"),
            ("ids.json", b"{}", "expected a list of texts"),
            ("ids.json", b"[1.5]", "expected a list of texts"),
            ("ids.json", b"[", "cannot be read"),
            ("ids.npy", b"", "cannot be read"),
            ("ids.doc", b"a", "is no format for ids or titles"),
        ],
    )
    def test_what_is_no_list_of_texts(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(StorageError, match=words):
            load_texts(tmp_path / name)

    def test_a_missing_file(self, tmp_path):
        with pytest.raises(StorageError, match="does not exist"):
            load_texts(tmp_path / "ids.txt")


class TestKeys:
    def test_a_key_is_given_behind_a_colon(self, tmp_path):
        np.savez(tmp_path / "model.npz", items=np.eye(3), users=np.ones((1, 3)))
        assert load_embeddings(f"{tmp_path}/model.npz:users").vectors.tolist() == [[1, 1, 1]]
        assert load_embeddings(f"{tmp_path}/model.npz", "items").vectors.shape == (3, 3)

    def test_a_name_with_a_colon_is_a_name(self, tmp_path):
        np.savez(tmp_path / "a.npz", items=np.eye(3))
        (tmp_path / "a.npz").rename(tmp_path / "a.npz:b.npz")
        assert load_embeddings(tmp_path / "a.npz:b.npz").vectors.shape == (3, 3)


class TestSeen:
    def load(self, tmp_path, user_ids=None, item_ids=None, **arrays):
        np.savez(tmp_path / "seen.npz", **arrays)
        return load_seen(tmp_path / "seen.npz", 3, 4, user_ids, item_ids)

    def test_pairs_of_ids_are_sorted_and_given_once(self, tmp_path):
        seen = self.load(
            tmp_path, ["u", "v", "w"], ["a", "b", "c", "d"], user=["w", "u", "w", "w"], item=["c", "d", "a", "c"]
        )
        assert (seen.starts.tolist(), seen.items.tolist(), seen.n_unknown) == ([0, 1, 1, 3], [3, 0, 2], 0)
        assert (seen.starts.dtype, seen.items.dtype) == (np.int64, np.int32)

    def test_unknown_ids_are_left_out_and_counted(self, tmp_path):
        seen = self.load(tmp_path, ["u", "v", "w"], None, user=["u", "x", "u"], item=[1, 1, 9])
        assert (seen.starts.tolist(), seen.items.tolist(), seen.n_unknown) == ([0, 1, 1, 1], [1], 2)

    def test_positions_are_the_ids_where_there_are_none(self, tmp_path):
        seen = self.load(tmp_path, user=[2, 0, -1], item=[3, 0, 0])
        assert (seen.starts.tolist(), seen.items.tolist(), seen.n_unknown) == ([0, 1, 1, 2], [0, 3], 1)

    def test_a_matrix_of_scipy(self, tmp_path):
        seen = self.load(tmp_path, indptr=[0, 2, 2, 3], indices=[1, 0, 3], data=[1, 1, 1], format=b"csr")
        assert (seen.starts.tolist(), seen.items.tolist(), seen.n_unknown) == ([0, 2, 2, 3], [1, 0, 3], 0)

    @pytest.mark.parametrize(
        ("arrays", "words"),
        [
            ({"users": [1]}, "must hold the arrays user and item"),
            ({"user": [1, 2], "item": [1]}, "two lists of the same length"),
            ({"user": [7], "item": [1]}, "no pair in"),
        ],
    )
    def test_what_makes_no_sense(self, tmp_path, arrays, words):
        with pytest.raises(InvalidEmbeddingsError, match=words):
            self.load(tmp_path, **arrays)

    def test_a_damaged_file(self, tmp_path):
        (tmp_path / "seen.npz").write_bytes(b"PK")
        with pytest.raises(StorageError, match=r"cannot be read as \.npz"):
            load_seen(tmp_path / "seen.npz", 3, 4, None, None)
