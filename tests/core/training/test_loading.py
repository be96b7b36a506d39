"""Events from files: every format gives the same, and what cannot be used is refused in one sentence."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core import InvalidEventsError, StorageError, load_events
from greedy_core.training import encoding
from greedy_core.training.encoding import Encoder

CSV = "user_id,item_id,at,count\nann,7,2026-01-01,2\nbob,007,2026-01-02,1\nann,9,2026-01-03,0.5\n"


def rows(events):
    """The events with their ids again."""
    return [
        (events.user_ids[user], events.item_ids[item])
        for user, item in zip(events.users.tolist(), events.items.tolist(), strict=True)
    ]


@pytest.mark.parametrize("change", [str.encode, lambda text: b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_with_a_bom_windows_lines_gz_and_other_separators(tmp_path, change, packed, separator):
    content = change(CSV.replace(",", separator))
    path = tmp_path / ("events.csv.gz" if packed else "events.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    events = load_events(path, weight="count", time="at")
    # 007 and 7 are two ids: what stands in a csv is text.
    assert rows(events) == [("ann", "7"), ("bob", "007"), ("ann", "9")]
    assert events.weights.tolist() == [2, 1, 0.5]
    assert events.times.astype(str).tolist()[1].startswith("2026-01-02")


def test_parquet_by_column_names_and_a_folder_of_parts(tmp_path):
    table = pa.table({"who": [3, 1, 3], "what": ["a", "b", "a"], "n": [1, 2, 3], "t": [30, 10, 20]})
    pq.write_table(table, tmp_path / "one.parquet")
    events = load_events(tmp_path / "one.parquet", user="who", item="what", weight="n", time="t")
    assert rows(events) == [("3", "a"), ("1", "b"), ("3", "a")]
    assert events.weights.tolist() == [1, 2, 3]
    assert events.times.tolist() == [30, 10, 20]
    (tmp_path / "parts").mkdir()
    for number in range(3):
        pq.write_table(table.slice(number, 1), tmp_path / "parts" / f"{number}.parquet")
    assert rows(load_events(tmp_path / "parts", user="who", item="what")) == rows(events)


def test_categories_are_read_by_what_they_name(tmp_path):
    users = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int32()), pa.array(["x", "y", "nobody"]))
    pq.write_table(pa.table({"user_id": users, "item_id": [1, 2, 3]}), tmp_path / "e.parquet")
    events = load_events(tmp_path / "e.parquet")
    assert events.user_ids == ["y", "x"]


def test_npz(tmp_path):
    np.savez(tmp_path / "e.npz", user=np.array([5, 2, 5]), item=np.array(["b", "a", "a"]), rating=np.array([1, 5, 3]))
    events = load_events(tmp_path / "e.npz", rating="rating")
    assert rows(events) == [("5", "b"), ("2", "a"), ("5", "a")]
    assert events.ratings.tolist() == [1, 5, 3]


TABLES = {
    "missing.parquet": ({"customer": [1], "thing": [2]}, "no column called user_id.*customer, thing"),
    "fractions.parquet": ({"user_id": [1.0, 1.5], "item_id": [2, 2]}, "row 1 .* 1.5 in column user_id.*a whole number"),
    "hole.parquet": ({"user_id": [1.0, None], "item_id": [2, 2]}, "row 1 .* no id in column user_id"),
    "bytes.parquet": ({"user_id": [b"1"], "item_id": [2]}, "user_id.*binary.*text or a whole number"),
    "no-user.parquet": ({"user_id": ["a", None], "item_id": [1, 2]}, "row 1 .* no id in column user_id"),
    "empty-item.parquet": ({"user_id": ["a", "b"], "item_id": ["x", ""]}, "row 1 .* no id in column item_id"),
    "nan.parquet": (
        {"user_id": [1, 2], "item_id": [1, 2], "weight": [1.0, float("nan")]},
        "row 1 .*nan in column weight",
    ),
    "null.parquet": ({"user_id": [1, 2], "item_id": [1, 2], "weight": [1.0, None]}, "row 1 .*nan in column weight"),
    "zero.parquet": ({"user_id": [1, 2], "item_id": [1, 2], "weight": [1, 0]}, "row 1 .*a weight is above 0.*--rating"),
    "text.parquet": ({"user_id": [1], "item_id": [1], "weight": ["x"]}, "weight .*string, but numbers were expected"),
    "large.parquet": ({"user_id": [1, 2], "item_id": [1, 2], "weight": [1.0, 3e38]}, "row 1 .*at most 1e\\+12"),
    "no-time.parquet": (
        {"user_id": [1], "item_id": [1], "time": ["soon"]},
        "column time .* 'soon', which is no time; write numbers, or dates such as",
    ),
    "american.parquet": ({"user_id": [1], "item_id": [1], "time": ["11/19/2025"]}, "'11/19/2025', which is no time"),
    "zones.parquet": (
        {"user_id": [1, 2], "item_id": [1, 2], "time": ["2026-01-01", "2026-01-01T10:00:00Z"]},
        "column time .* mixes numbers, dates with a zone and dates without one",
    ),
    "late.parquet": (
        {"user_id": [1], "item_id": [1], "time": np.array([2**63], np.uint64)},
        "column time .* is no time",
    ),
    "far.parquet": (
        {"user_id": [1], "item_id": [1], "time": pa.array([10**15], pa.timestamp("s"))},
        "column time .* is no time",
    ),
}


@pytest.mark.parametrize(
    "times",
    [
        np.array([2**63 + 5], np.uint64),
        np.array(["300000-01-01"], "datetime64[D]"),
        np.array([9_999_999], "datetime64[Y]"),
    ],
)
def test_a_time_that_would_turn_into_another_one_is_refused(tmp_path, times):
    np.savez(tmp_path / "e.npz", user=np.array([1]), item=np.array([1]), time=times)
    with pytest.raises(InvalidEventsError, match=r"time of .*e.npz has .* in row 0, which is no time; correct it"):
        load_events(tmp_path / "e.npz", time="time")


def test_nanoseconds_are_cut_down(tmp_path):
    fine = "2026-01-01T00:00:00.123456789"
    np.savez(tmp_path / "e.npz", user=np.array([1]), item=np.array([1]), time=np.array([fine], "datetime64[ns]"))
    (tmp_path / "e.csv").write_text(f"user_id,item_id,at\na,x,{fine}\n")
    for name, time in (("e.npz", "time"), ("e.csv", "at")):
        assert load_events(tmp_path / name, time=time).times.astype(str).tolist() == [fine[:-3]]


@pytest.mark.parametrize("name", TABLES)
def test_what_cannot_be_used_is_refused_with_its_place(tmp_path, name):
    columns, sentence = TABLES[name]
    pq.write_table(pa.table(columns), tmp_path / name)
    options = {column: column for column in ("weight", "time") if column in columns}
    with pytest.raises(InvalidEventsError, match=sentence):
        load_events(tmp_path / name, **options)


def test_one_column_of_two_types_is_refused(tmp_path):
    (tmp_path / "parts").mkdir()
    pq.write_table(pa.table({"user_id": [1], "item_id": [1]}), tmp_path / "parts" / "a.parquet")
    pq.write_table(pa.table({"user_id": ["x"], "item_id": [1]}), tmp_path / "parts" / "b.parquet")
    with pytest.raises(InvalidEventsError, match=r"user_id is string in .*b.parquet and int64 before it"):
        load_events(tmp_path / "parts")
    pq.write_table(pa.table({"user": [1], "item": [1]}), tmp_path / "parts" / "b.parquet")
    with pytest.raises(
        InvalidEventsError, match=r"b.parquet has its events in user, item, .* before it in user_id, item_id"
    ):
        load_events(tmp_path / "parts")
    (tmp_path / "mixed.csv").write_text("user_id,item_id,weight\na,1,2\nb,2,many\n")
    with pytest.raises(InvalidEventsError, match=r"column weight of .*mixed.csv has 'many', but numbers were expected"):
        load_events(tmp_path / "mixed.csv", weight="weight")
    (tmp_path / "commas.csv").write_text("weight;user_id;item_id\n1,5;a;b\n")
    with pytest.raises(InvalidEventsError, match=r"column weight of .* has '1,5', .* with a point for fractions"):
        load_events(tmp_path / "commas.csv", weight="weight")


@pytest.mark.parametrize(
    ("name", "content", "error", "sentence"),
    [
        ("empty.csv", b"", InvalidEventsError, "empty; the first line must name the columns"),
        ("latin.csv", b"user_id,\xe9\n", StorageError, "UTF-8"),
        (
            "latin-rows.csv",
            b"user_id,item_id\nJ\xf6rg,1\n",
            StorageError,
            "text that is not in UTF-8; save it in UTF-8",
        ),
        (
            "nameless.csv",
            b"7,8\n",
            InvalidEventsError,
            r"no column called user_id; .*: 7, 8 \(what its first line says",
        ),
        ("odd.csv", b'"a, b",c\n1,2\n', InvalidEventsError, r"no column called user_id; .*: 'a, b', 'c' \("),
        ("cut.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:20], StorageError, "cannot be read"),
        ("damaged.csv.gz", gzip.compress(CSV.encode(), mtime=0)[:12] + bytes(30), StorageError, "cannot be read"),
        ("mac.csv", b"user_id,item_id\ra,1\r", StorageError, "carriage return alone"),
        ("wide.csv", b"user_id," + b"x" * 200_000 + b"\n", StorageError, "does not name columns"),
        ("broken.parquet", b"PAR1", StorageError, "cannot be read as .parquet"),
        ("broken.npz", b"PK", StorageError, "cannot be read as .npz"),
        ("events.xls", b"", StorageError, "no format for events; give one of .parquet, .csv"),
    ],
)
def test_files_that_are_none(tmp_path, name, content, error, sentence):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=sentence):
        load_events(tmp_path / name)


def test_a_sparse_matrix_is_told_what_is_wanted(tmp_path):
    np.savez(tmp_path / "matrix.npz", indices=[0], indptr=[0, 1], data=[1.0], shape=[1, 1])
    with pytest.raises(InvalidEventsError, match="arrays called user and item"):
        load_events(tmp_path / "matrix.npz")


@pytest.mark.parametrize(
    ("early", "late", "kind"),
    [
        ("2026-01-01", "2026-01-01 10:00:00", "M"),
        ("2026-01-01T10:00:00Z", "2026-01-02T10:00:00Z", "M"),
        ("5", "5.5", "f"),
    ],
)
def test_a_time_may_look_different_further_down(tmp_path, monkeypatch, early, late, kind):
    monkeypatch.setattr("greedy_core.training.tables._BLOCK_BYTES", 1 << 10)
    rows = [f"u{n},i{n},{early if n < 200 else late}" for n in range(400)]
    (tmp_path / "e.csv").write_text("\n".join(["user_id,item_id,at", *rows]))
    times = load_events(tmp_path / "e.csv", time="at").times
    assert times.dtype.kind == kind
    assert (times[:200] == times[0]).all()
    assert (times[200:] > times[0]).all()
    (tmp_path / "e.csv").write_text("\n".join(["user_id,item_id,at", *rows, "u,i,"]))
    with pytest.raises(InvalidEventsError, match=r"row 400 .* has no time"):
        load_events(tmp_path / "e.csv", time="at")


def test_a_missing_file_and_a_missing_extra(tmp_path, monkeypatch):
    with pytest.raises(StorageError, match="does not exist"):
        load_events(tmp_path / "none.csv")
    (tmp_path / "e.csv").write_text(CSV)
    monkeypatch.delitem(sys.modules, "greedy_core.training.tables", raising=False)
    monkeypatch.delattr("greedy_core.training.tables", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StorageError, match=r"needs pyarrow.*pip install '.\[train\]'"):
        load_events(tmp_path / "e.csv")


IDS = st.one_of(
    st.lists(st.lists(st.text(min_size=1, max_size=4)), min_size=1, max_size=6),
    st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=6),
)


@settings(max_examples=150, deadline=None)
@given(batches=IDS, pending=st.integers(0, 5))
def test_ids_survive_in_batches_however_often_they_are_merged(batches, pending):
    kind = pa.string() if any(isinstance(value, str) for batch in batches for value in batch) else pa.int64()
    before = encoding._PENDING
    encoding._PENDING = pending
    try:
        encoder = Encoder()
        for batch in batches:
            encoder.add(pa.array(batch, kind))
        codes, ids = encoder.finish()
    finally:
        encoding._PENDING = before
    flat = [str(value) for batch in batches for value in batch]
    assert [ids[code] for code in codes.tolist()] == flat
    assert ids == list(dict.fromkeys(flat))


def test_whole_numbers_that_pandas_made_fractions_of_are_ids(tmp_path):
    pq.write_table(pa.table({"user_id": [3.0, 1.0, 3.0], "item_id": [1, 2, 2]}), tmp_path / "e.parquet")
    assert load_events(tmp_path / "e.parquet").user_ids == ["3", "1"]


@pytest.mark.parametrize("names", ["User ID,itemId", "USER_ID,Item-Id", "customer id,product_id"])
def test_usual_names_are_known_in_any_spelling(tmp_path, names):
    (tmp_path / "e.csv").write_text(f"{names}\na,x\n")
    assert rows(load_events(tmp_path / "e.csv")) == [("a", "x")]


def test_columns_that_would_help_are_named(tmp_path):
    (tmp_path / "e.csv").write_text("user_id,item_id,Rating,event time\na,x,5,2026-01-01\n")
    rating, time = sorted(load_events(tmp_path / "e.csv").notes)
    assert "a column Rating that is not used: with --rating Rating low grades" in rating
    assert "a column event time that is not used: with --time 'event time' the model" in time
    assert load_events(tmp_path / "e.csv", rating="Rating", time="event time").notes == []


def test_a_parquet_file_whose_pages_were_altered_is_refused(tmp_path):
    path = tmp_path / "e.parquet"
    table = pa.table({"user_id": np.arange(1000), "item_id": np.arange(1000)})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False, compression=None)
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="cannot be read as a table"):
        load_events(path)
