"""Attributes from tables: types by column, rows matched by id, whatever is wrong said in one sentence."""

import gzip
import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from greedy_core import InvalidAttributesError, StorageError, load_attributes

ROWS = [
    {"item_id": "b", "title": "Two", "price": 9.5, "in_stock": True, "tags": ["x", "y"], "published": "2026-11-18"},
    {"item_id": "a", "title": "One", "price": 3, "in_stock": None, "tags": [], "published": "2026-11-17T10:00:00Z"},
    {"item_id": "q", "title": "Nobody's"},
    {"item_id": "c", "price": None},
]
EXPECTED = [
    {"title": "One", "price": 3, "in_stock": None, "tags": [], "published": "2026-11-17T10:00:00Z"},
    {"title": "Two", "price": 9.5, "in_stock": True, "tags": ["x", "y"], "published": "2026-11-18T00:00:00Z"},
    {"title": None, "price": None, "in_stock": None, "tags": None, "published": None},
    {"title": None, "price": None, "in_stock": None, "tags": None, "published": None},
]


def write_lines(path, rows, *, bom=False):
    content = b"\r\n".join(json.dumps(row).encode() for row in rows)
    content = (b"\xef\xbb\xbf" if bom else b"") + content + b"\n\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_parquet(path, columns):
    pq.write_table(pa.table(columns), path)
    return path


def check(loaded):
    attributes = loaded.attributes
    assert [attributes.values(j, EXPECTED[0]) for j in range(4)] == EXPECTED
    assert [attributes[name].kind for name in EXPECTED[0]] == ["text", "number", "flag", "list", "time"]
    assert loaded.n_unknown == 1
    assert loaded.n_absent == 1


@pytest.mark.parametrize("name", ["items.jsonl", "items.ndjson", "items.jsonl.gz", "items.JSONL"])
def test_json_lines(tmp_path, name):
    loaded = load_attributes(write_lines(tmp_path / name, ROWS, bom=True), 4, ["a", "b", "c", "d"])
    check(loaded)
    assert loaded.left_out == {}


def test_parquet(tmp_path):
    columns = {
        "item_id": ["b", "a", "q", "c"],
        "title": pa.array(["Two", "One", "Nobody's", None]).dictionary_encode(),
        "price": pa.array([Decimal("9.5"), Decimal(3), None, None], pa.decimal128(9, 2)),
        "in_stock": pa.array([True, None, None, None]),
        "tags": pa.array([["x", "y"], [], None, None], pa.large_list(pa.large_string())),
        "published": pa.array(
            [datetime(2026, 11, 18, tzinfo=UTC), datetime(2026, 11, 17, 10, tzinfo=UTC), None, None],
            pa.timestamp("ns", tz="Europe/Berlin"),
        ),
        "vector": pa.array([[1.0], [2.0], [3.0], [4.0]]),
    }
    loaded = load_attributes(write_parquet(tmp_path / "items.parquet", columns), 4, ["a", "b", "c", "d"])
    check(loaded)
    assert (
        loaded.left_out == {"vector": "it is list<item: double>"}
        or "list<element: double>" in loaded.left_out["vector"]
    )


def test_parquet_takes_every_width_of_numbers_and_dates(tmp_path):
    columns = {
        "id": pa.array([1, 0], pa.int64()),
        "small": pa.array([1, 2], pa.int8()),
        "half": pa.array([0.5, 0.25], pa.float32()),
        "gaps": pa.array([None, 7], pa.int64()),
        "day": pa.array([date(2026, 1, 2), None]),
        "empty": pa.array([None, None], pa.float64()),
    }
    loaded = load_attributes(write_parquet(tmp_path / "items.parquet", columns), 2)
    assert loaded.attributes.values(1, loaded.attributes.names) == {
        "small": 1,
        "half": 0.5,
        "gaps": None,
        "day": "2026-01-02T00:00:00Z",
        "empty": None,
    }
    assert loaded.attributes["gaps"].value(0) == 7


def test_without_ids_positions_are_the_ids_and_a_column_can_be_named(tmp_path):
    path = write_lines(tmp_path / "items.jsonl", [{"sku": 1, "price": 2}, {"sku": 0, "price": 3}])
    loaded = load_attributes(f"{path}:sku", 2)
    assert [loaded.attributes["price"].value(j) for j in range(2)] == [3, 2]


def test_columns_that_are_no_attributes_are_left_out_and_said(tmp_path):
    path = write_lines(tmp_path / "items.jsonl", [{"id": "0", "size": {"w": 1}, "nothing": None, "price": 1}])
    loaded = load_attributes(path, 1)
    assert loaded.attributes.names == ("price",)
    assert loaded.left_out == {"size": "it holds objects", "nothing": "it has no values"}


def test_texts_that_are_not_all_times_stay_texts(tmp_path):
    path = write_lines(tmp_path / "items.jsonl", [{"id": "0", "when": "2026-01-01"}, {"id": "1", "when": "soon"}])
    assert load_attributes(path, 2).attributes["when"].kind == "text"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must have at least one row"),
        (b"{", "line 1 of"),
        (b"[1]", "is no object"),
        (b'{"price": 1}', "has no column item_id or id"),
        (b'{"item_id": null}', "has None for an id"),
        (b'{"item_id": 1.5}', "has 1.5 for an id"),
        (b'{"item_id": true}', "has True for an id"),
        (b'{"item_id": "zz", "price": 1}', "no row of"),
        (b'{"item_id": "a", "x": 1}\n{"item_id": "b"}\n{"item_id": "a"}', "has the item 'a' twice, in rows 0 and 2"),
        (b'{"item_id": "a", "x": 1}\n{"item_id": "b", "x": "1"}', "is a number in row 0 and a text in row 1"),
        (b'{"item_id": "a", "a,b": 1}', "must not have commas"),
    ],
)
def test_bad_tables_get_one_sentence(tmp_path, content, sentence):
    path = tmp_path / "items.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidAttributesError) as raised:
        load_attributes(path, 2, ["a", "b"])
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bad_files_get_one_sentence(tmp_path):
    with pytest.raises(StorageError, match="does not exist"):
        load_attributes(tmp_path / "none.jsonl", 2)
    (tmp_path / "items.xlsx").write_bytes(b"x")
    with pytest.raises(StorageError, match="is no format for attributes"):
        load_attributes(tmp_path / "items.xlsx", 2)
    (tmp_path / "items.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(StorageError, match="cannot be read"):
        load_attributes(tmp_path / "items.jsonl.gz", 2)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"item_id": "a"}\n' * 100)[:30])
    with pytest.raises(StorageError, match="cannot be read"):
        load_attributes(tmp_path / "cut.jsonl.gz", 2)
    (tmp_path / "items.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"cannot be read as \.parquet"):
        load_attributes(tmp_path / "items.parquet", 2)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"price": [1.0]}, "has no column item_id or id"),
        ({"item_id": [1.5]}, "an id is text or a whole number"),
        ({"item_id": pa.array([None], pa.string())}, "has no id"),
        ({"item_id": pa.array([], pa.string())}, "must have at least one row"),
        ({"item_id": ["a"], "big": pa.array([2**60])}, "give the column as text"),
    ],
)
def test_bad_parquet_gets_one_sentence(tmp_path, columns, sentence):
    with pytest.raises(InvalidAttributesError) as raised:
        load_attributes(write_parquet(tmp_path / "items.parquet", columns), 2, ["a", "b"])
    assert sentence in str(raised.value)


@pytest.mark.parametrize("name", ["items.csv", "items.csv.gz", "items.tsv"])
def test_separated_texts(tmp_path, name):
    rows = ["id;title;price;in_stock;added;nothing;a,b", '007;"One; and\nonly";9.5;true;2026-01-02;;1', "7;;;;;;"]
    content = "\ufeff".encode() + "\r\n".join(rows).encode()
    if name.endswith(".tsv"):
        content = content.replace(b"; ", b", ").replace(b";", b"\t").replace(b", and", b"; and")
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    loaded = load_attributes(path, 2, ["007", "7"])
    assert [(each["name"], each["type"]) for each in loaded.attributes.describe()] == [
        ("title", "text"),
        ("price", "number"),
        ("in_stock", "flag"),
        ("added", "time"),
    ]
    assert loaded.attributes.values(0, ["title", "price"]) == {"title": "One; and\nonly", "price": 9.5}
    assert set(loaded.attributes.values(1, loaded.attributes.names).values()) == {None}
    assert loaded.left_out.keys() == {"nothing", "a,b"}
