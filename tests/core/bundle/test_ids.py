"""Ids, packed so that a million of them cost no memory per process."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greedy_core._kernel import hash_ids
from greedy_core.bundle.ids import IdTable, PositionIds, pack_ids
from greedy_core.errors import InvalidEmbeddingsError, InvalidQueryError


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, unique=True))
@settings(max_examples=60, deadline=None)
def test_any_texts_are_found_again(texts):
    table = IdTable("ids", pack_ids("ids", texts))
    assert [table.position(text) for text in texts] == list(range(len(texts)))
    assert table.many(range(len(texts))) == texts
    assert table.position("".join(texts) + "?") is None


def test_many_ids():
    numbers = np.random.default_rng(1).permutation(50_000) * 977
    table = IdTable("ids", pack_ids("ids", numbers))
    assert len(table) == 50_000
    for row in range(0, 50_000, 97):
        assert table.position(str(numbers[row])) == row
    assert table.position("1") is None


def test_one_id():
    assert IdTable("ids", pack_ids("ids", ["only"])).position("only") == 0


def test_numpy_texts():
    table = IdTable("ids", pack_ids("ids", np.array(["a", "bc"])))
    assert table.many([0, 1]) == ["a", "bc"]


def test_ids_in_one_bucket_are_told_apart():
    texts = [f"id {number}" for number in range(300)]
    arrays = pack_ids("ids", texts)
    middle = int((hash_ids([text.encode() for text in texts]) < 2**63).sum())
    arrays["ids.buckets"] = np.array([0, middle, 300], dtype=np.int32)
    table = IdTable("ids", arrays)
    assert table.positions(texts).tolist() == list(range(300))
    assert table.position("id 300") is None
    table.verify()


def test_ids_with_equal_hashes_are_no_duplicates(monkeypatch):
    monkeypatch.setattr("greedy_core.bundle.ids.hash_ids", lambda encoded: np.ones(len(encoded), dtype=np.uint64))
    assert pack_ids("ids", ["a", "b", "c"])["ids.positions"].tolist() == [0, 1, 2]
    with pytest.raises(InvalidEmbeddingsError, match="'a' twice, in rows 0 and 2"):
        pack_ids("ids", ["a", "b", "a"])


@given(st.lists(st.binary(max_size=300), max_size=9))
def test_the_hash_is_blake2b(texts):
    digests = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") for text in texts]
    assert hash_ids(texts).tolist() == digests


@given(st.lists(st.sampled_from(["a", "b", "é" * 200, "x", "\ud800", ""]), max_size=40))
def test_many_at_once_are_each_alone(wanted):
    table = IdTable("ids", pack_ids("ids", ["a", "b", "c", "é" * 200]))
    alone = [table.position(text) for text in wanted]
    assert table.positions(wanted).tolist() == [-1 if found is None else found for found in alone]
    assert table.positions(iter(wanted)).dtype == np.int32


@pytest.mark.parametrize("wanted", [["a", 1], [None], [b"a"]])
def test_what_is_no_text_is_no_id(wanted):
    with pytest.raises(InvalidQueryError, match="an id is text"):
        IdTable("ids", pack_ids("ids", ["a"])).positions(wanted)


def test_positions_as_ids():
    ids = PositionIds(11)
    assert ids.position("10") == 10
    assert ids.many([0, 10]) == ["0", "10"]
    wanted = [
        "10",
        "11",
        "010",
        "x",
        "0",
        "",
        "00",
        "-1",
        "+1",
        " 1",
        "1 ",
        "\u0661",
        "9" * 10,
        "9" * 20,
        "\ud800",
        "1\0",
    ]
    assert ids.positions(wanted).tolist() == [10, -1, -1, -1, 0, *([-1] * 11)]
    assert [ids.position(text) for text in wanted] == [10, None, None, None, 0, *([None] * 11)]
    with pytest.raises(InvalidQueryError, match="an id is text"):
        ids.positions(["1", 2])
