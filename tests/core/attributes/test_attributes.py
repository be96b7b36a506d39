"""Attributes: what goes in comes out, typed; what makes no sense is refused with one sentence."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest

from greedy_core import ATTRIBUTE_KINDS, Attributes, CorruptModelError, InvalidAttributesError

COLUMNS = {
    "category": ["jazz", None, "cooking", "jazz", ""],
    "tags": [["live", "vinyl", "live"], [], None, ["vinyl"], ("日本",)],
    "price": [9.5, 20, None, -0.0, Decimal("0.25")],
    "in_stock": [True, False, None, True, np.False_],
    "published": [datetime(2026, 11, 18, 6, tzinfo=UTC), None, date(2020, 2, 29), datetime(1969, 12, 31), None],  # noqa: DTZ001 - without a zone it is in UTC
}


def shop():
    return Attributes.from_columns(COLUMNS, 5)


def test_every_kind_comes_back():
    attributes = shop()
    assert attributes.names == tuple(COLUMNS)
    assert [attributes[name].kind for name in attributes.names] == ["text", "list", "number", "flag", "time"]
    assert sorted(attribute.kind for attribute in attributes) == sorted(ATTRIBUTE_KINDS)
    assert attributes.values(0, attributes.names) == {
        "category": "jazz",
        "tags": ["live", "vinyl"],
        "price": 9.5,
        "in_stock": True,
        "published": "2026-11-18T06:00:00Z",
    }
    assert attributes.values(2, ["in_stock", "category", "tags", "price", "published"]) == {
        "in_stock": None,
        "category": "cooking",
        "tags": None,
        "price": None,
        "published": "2020-02-29T00:00:00Z",
    }
    assert [attributes["category"].value(j) for j in range(5)] == ["jazz", None, "cooking", "jazz", ""]
    assert [attributes["price"].value(j) for j in range(5)] == [9.5, 20, None, 0, 0.25]
    assert attributes["tags"].value(1) == []
    assert attributes["tags"].value(4) == ["日本"]
    assert attributes["published"].value(3) == "1969-12-31T00:00:00Z"


def test_a_description_counts_values_and_what_is_missing():
    assert shop().describe() == [
        {"name": "category", "type": "text", "values": 3, "missing": 0.2},
        {"name": "tags", "type": "list", "values": 3, "missing": 0.2},
        {"name": "price", "type": "number", "values": 4, "missing": 0.2},
        {"name": "in_stock", "type": "flag", "values": 2, "missing": 0.2},
        {"name": "published", "type": "time", "values": 3, "missing": 0.4},
    ]


def test_what_is_stored_opens_again():
    arrays, described = shop().to_arrays()
    again = Attributes.from_arrays(arrays, described, 5)
    again.verify()
    for position in range(5):
        assert again.values(position, again.names) == shop().values(position, again.names)


@pytest.mark.parametrize(
    ("n_values", "dtype"), [(255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]
)
def test_codes_are_as_small_as_they_can_be(n_values, dtype):
    numbers = np.arange(n_values)[::-1]
    attribute = Attributes.from_columns({"x": numbers}, n_values)["x"]
    assert attribute.codes.dtype == dtype
    assert [attribute.value(j) for j in (0, n_values - 1)] == [n_values - 1, 0]


def test_rows_are_kept_for_their_items():
    attributes = Attributes.from_columns({"x": [1, 2], "t": [["a"], None]}, 4, positions=[3, 0])
    assert [attributes["x"].value(j) for j in range(4)] == [2, None, None, 1]
    assert [attributes["t"].value(j) for j in range(4)] == [None, None, None, ["a"]]


def test_times_of_other_zones_and_texts_called_times():
    zone = timezone(timedelta(hours=2))
    attributes = Attributes.from_columns(
        {"a": [datetime(2026, 1, 1, 1, tzinfo=zone), None], "b": ["2026-01-01T01:00:00+02:00", "2026-01-01 00:00"]},
        2,
        kinds={"b": "time"},
    )
    assert attributes["a"].value(0) == attributes["b"].value(0) == "2025-12-31T23:00:00Z"
    assert attributes["b"].value(1) == "2026-01-01T00:00:00Z"
    assert Attributes.from_columns({"c": np.array(["2026-01-01", "NaT"], dtype="M8[ns]")}, 2)["c"].value(1) is None


def test_a_column_without_values_needs_a_kind():
    nothing = [None, None]
    assert Attributes.from_columns({"a": nothing}, 2).names == ()
    made = Attributes.from_columns(
        dict.fromkeys(ATTRIBUTE_KINDS, nothing), 2, kinds={kind: kind for kind in ATTRIBUTE_KINDS}
    )
    assert made.names == ATTRIBUTE_KINDS
    assert made.values(0, made.names) == dict.fromkeys(ATTRIBUTE_KINDS)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"a": [1, "x"]}, "the attribute a is a number in row 0 and a text in row 1"),
        ({"a": [True, 1]}, "the attribute a is a flag in row 0 and a number in row 1"),
        ({"a": [{}, None]}, "row 0 of the attribute a holds {}"),
        ({"a": [["x"], [1]]}, "row 1 of the attribute a holds 1, but text was expected"),
        ({"a": ["\ud800", None]}, "text that UTF-8 can hold"),
        ({"a": [2**53 + 1, None]}, "give the column as text"),
        ({"a": np.array([2**60, 1])}, "give the column as text"),
        ({"a": [float("inf"), 1.0]}, "a finite number was expected"),
        ({"a": [1]}, "the attribute a has 1 values for 2 rows"),
        ({"": [1, 2]}, "called by 1 to 100 characters"),
        ({"x" * 101: [1, 2]}, "called by 1 to 100 characters"),
        ({"a,b": [1, 2]}, "must not have commas"),
        ({" a": [1, 2]}, "space at its ends"),
        ({f"a{n}": [1, 2] for n in range(257)}, "at most 256"),
    ],
)
def test_what_makes_no_sense_is_refused(columns, sentence):
    with pytest.raises(InvalidAttributesError) as raised:
        Attributes.from_columns(columns, 2)
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "values", "sentence"),
    [
        ("time", ["yesterday", None], "a time in ISO 8601"),
        ("time", ["2026-02-30", None], "a time in ISO 8601"),
        ("time", np.array(["10000-01-01", "NaT"], dtype="M8[us]"), "the years 1 to 9999"),
        ("flag", ["yes", None], "true or false was expected"),
        ("number", ["1", None], "a number was expected"),
        ("number", [True, None], "a number was expected"),
        ("list", ["a", None], "a list of texts was expected"),
        ("colour", ["a", None], "cannot be a colour"),
    ],
)
def test_values_that_do_not_fit_a_given_kind_are_refused(kind, values, sentence):
    with pytest.raises(InvalidAttributesError) as raised:
        Attributes.from_columns({"a": values}, 2, kinds={"a": kind})
    assert sentence in str(raised.value)


@pytest.mark.parametrize("positions", [[0, 0], [-1, 0], [0, 2]])
def test_positions_are_different_ones_of_the_items(positions):
    with pytest.raises(InvalidAttributesError, match="different ones from 0 to 1"):
        Attributes.from_columns({"a": [1, 2]}, 2, positions=positions)


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(
        InvalidAttributesError, match=r"no attribute 'prise' \(did you mean price\?\); there are: category"
    ):
        shop()["prise"]
    with pytest.raises(InvalidAttributesError, match="build it with --attributes"):
        Attributes.from_columns({}, 2)["price"]


def changed(name, change):
    arrays, described = shop().to_arrays()
    arrays[name] = change(arrays[name].copy())
    return arrays, described


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0.codes", put(0, 4)),
        ("0.codes", lambda codes: codes[:-1]),
        ("0.codes", lambda codes: codes.astype(np.uint16)),
        ("0.values.offsets", put(1, 100)),
        ("1.codes", put(0, 3)),
        ("1.starts", put(1, -1)),
        ("1.starts", lambda starts: starts[:-1]),
        ("1.item_starts", put(-1, 99)),
        ("1.items", put(0, 5)),
        ("1.items", put(0, -1)),
        ("1.items", lambda items: items.astype(np.int64)),
        ("1.known", lambda known: known.astype(np.uint8)),
        ("2.values", put(0, np.nan)),
        ("2.values", put(1, -7.0)),
        ("2.values", lambda values: values.astype(np.float32)),
        ("2.codes", put(0, 5)),
        ("3.codes", put(0, 3)),
        ("4.values", put(-1, 2**62)),
        ("4.values", lambda values: values[::-1].copy()),
    ],
)
def test_arrays_that_lead_outside_are_refused_when_they_are_opened(name, change):
    with pytest.raises(CorruptModelError, match="build the model again"):
        Attributes.from_arrays(*changed(name, change), 5)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0.values.text", put(0, ord("z"))),  # the dictionary is out of order
        ("0.values.text", put(0, 0xFF)),
        ("1.known", put(0, False)),
        ("1.items", lambda items: np.roll(items, 1)),
        ("1.codes", lambda codes: np.roll(codes, 1)),
    ],
)
def test_verifying_finds_what_no_build_would_have_written(name, change):
    opened = Attributes.from_arrays(*changed(name, change), 5)
    with pytest.raises(CorruptModelError, match="build the model again"):
        opened.verify()


def test_names_and_kinds_are_checked():
    arrays, described = shop().to_arrays()
    with pytest.raises(CorruptModelError, match="two the same"):
        Attributes.from_arrays(arrays, [*described[:4], described[0]], 5)
    with pytest.raises(CorruptModelError, match="which this release does not know"):
        Attributes.from_arrays(arrays, [{"name": "a", "kind": "colour"}], 5)
