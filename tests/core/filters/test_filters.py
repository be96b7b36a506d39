"""The language of filters: what it means, how it is written, and what it says about what it cannot read."""

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from greedy_core import Attributes, Filter, GreedyCoreError, InvalidFilterError, clock
from greedy_core.filters.parsing import DEEPEST, LONGEST, MOST_CONDITIONS, MOST_VALUES, parse
from greedy_core.filters.tree import Comparison
from tests.core.filters.shops import FILTERS, NAMES, NOW, holds, tables

SHOP = Attributes.from_columns(
    {
        "category": ["jazz", "cooking", "jazz", None],
        "price": [9.5, 25, None, 20],
        "in_stock": [True, False, None, True],
        "tags": [["live", "vinyl"], [], None, ["vinyl"]],
        "published": [
            datetime(2026, 11, 1, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
            None,
            datetime(1969, 7, 20, tzinfo=UTC),
        ],
        "any": [1, 2, 3, 4],
        "odd name": ["x", "y", "x", "y"],
    },
    4,
)
TIME = 1_795_000_000_000_000  # 2026-11-18


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('category = "jazz"', [0, 2]),
        ("category == 'jazz'", [0, 2]),
        ('category != "jazz"', [1]),
        ('category < "d"', [1]),
        ('category >= "d"', [0, 2]),
        ('category in ["jazz", "cooking"] and price < 20 and in_stock', [0]),
        ("price < 20", [0]),
        ("price <= 20", [0, 3]),
        ("price > 20", [1]),
        ("price >= 20", [1, 3]),
        ("price = 20.0", [3]),
        ("price = 20.5", []),
        ("price != 20.5", [0, 1, 3]),
        ("price in [25, 20, 1e3, -4, .5]", [1, 3]),
        ("price in []", []),
        # A comparison with a missing value is false; its opposite is true.
        ("price not in [20]", [0, 1]),
        ("not price in [20]", [0, 1, 2]),
        ("not price < 20", [1, 2, 3]),
        ("price is missing", [2]),
        ("price is not missing", [0, 1, 3]),
        ("in_stock", [0, 3]),
        ("not in_stock", [1, 2]),
        ("in_stock = false", [1]),
        ("in_stock != true", [1]),
        ("in_stock in [true, false]", [0, 1, 3]),
        ('tags contains "vinyl"', [0, 3]),
        ('tags contains "shellac"', []),
        ('tags contains any ["live", "shellac"]', [0]),
        ('tags contains all ["vinyl", "live"]', [0]),
        ('tags contains all ["vinyl", "shellac"]', []),
        ("tags contains any []", []),
        ("tags contains all []", [0, 1, 3]),
        ("tags is missing", [2]),
        ("published > now - 30d", [0]),
        ("published > now - 720h and published < now + 1s", [0]),
        ("published < now - 52w", [3]),
        ("published = 2026-01-01", [1]),
        ('published >= "2026-01-01T00:00:00Z"', [0, 1]),
        ("published > 2026-01-01T01:00:00+02:00", [0, 1]),
        # `and` binds stronger than `or`, `not` strongest.
        ('in_stock or category = "cooking" and price < 1', [0, 3]),
        ('(in_stock or category = "cooking") and price > 10', [1, 3]),
        ("not in_stock and price > 10", [1]),
        ("not (in_stock and price > 10)", [0, 1, 2]),
        ("NOT in_stock AND price IS NOT MISSING OR Price_", None),
        ("`odd name` = 'y'", [1, 3]),
        ("`any` > 2", [2, 3]),
        ("any > 2", [2, 3]),
        ("  price\n<\t20 ", [0]),
    ],
)
def test_what_filters_mean(text, items):
    if items is None:
        with pytest.raises(InvalidFilterError, match="no attribute 'Price_'"):
            Filter(text).mask(SHOP, TIME)
        return
    chosen = Filter(text).eligible(SHOP, TIME)
    assert np.flatnonzero(chosen.mask()).tolist() == items
    assert chosen.count == len(items)


@settings(max_examples=200)
@given(tables(), FILTERS)
def test_a_filter_lets_through_what_a_row_by_row_reading_does(table, node):
    columns = {NAMES[kind]: values for kind, values in table.items()}
    n_items = len(table["text"])
    attributes = Attributes.from_columns(columns, n_items, kinds={NAMES[kind]: kind for kind in table})
    rows = [{name: values[j] for name, values in columns.items()} for j in range(n_items)]
    mask = Filter(str(node)).mask(attributes, NOW)
    assert mask.tolist() == [holds(node, row) for row in rows]


@settings(max_examples=300)
@given(FILTERS)
@example(Comparison("price", "=", -0.0))
def test_what_is_written_is_read_as_the_same(node):
    assert parse(str(node)) == node
    assert str(parse(str(node))) == str(node)


@settings(max_examples=300)
@given(st.text() | st.text(alphabet="ab<>=!()[]\"'`@,.-+0123 \\ndortis", max_size=60))
def test_any_text_is_a_filter_or_gets_one_sentence(text):
    found = None
    try:
        Filter(text).mask(SHOP, TIME)
    except InvalidFilterError as error:
        found = error
    if found is not None:
        assert str(found).endswith(".")
        assert "\n" not in str(found)
        assert 0 <= found.place <= len(text)


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("", 0, "the filter is empty"),
        ("  ", 0, "the filter is empty"),
        ("price <", 7, "at character 8 (its end): a value was expected (a text in quotes, a number"),
        ("price < and in_stock", 8, "a value was expected (a text"),
        ("category = jazz", 11, 'a value was expected; a text stands in quotes: "jazz"'),
        ("price 20", 6, "a comparison was expected after the name"),
        ("(in_stock", 9, "a closing parenthesis was expected"),
        ("in_stock)", 8, "and, or, or the end was expected"),
        ('category in "jazz"', 12, 'a list was expected, as ["a", "b"]'),
        ('category in ["jazz"', 19, "a comma or ] was expected"),
        ("price is", 8, "is missing, or is not missing, was expected"),
        ("price not 3", 10, "not in, with a list, was expected"),
        ("20 < price", 0, "begins with the name of an attribute"),
        ("1 < price < 20", 0, "begins with the name of an attribute"),
        ("price < 20 < 30", 11, "and, or, or the end was expected"),
        ('category = "jazz', 11, 'what begins here with " has no end'),
        ("`price < 20", 0, "what begins here with ` has no end"),
        ("published > now - ", 18, "a duration was expected, as 30d"),
        ("published > now - 30", 18, "a duration was expected, as 30d"),
        ("published > now - 30y", 18, "a duration was expected, as 30d"),
        ("published > 2026-13-01", 12, "this is no time"),
        ("price = 1e999", 8, "larger than any"),
        (r'category = "a\qb"', 13, r"\q is no escape"),
        ("price ; drop", 6, "a comparison was expected"),
        ("in_stock and", 12, "a condition was expected"),
        ("@", 1, "the name of a filter was expected after @"),
        ("in_stock and @cheap", 13, "there is no filter @cheap; named filters are: none"),
        ("in_stock and prise < 3", 13, "there is no attribute 'prise' (did you mean price?); there are: category"),
        ('price = "9"', 0, 'price is a number, and "9" is a text'),
        ("category = 9", 0, "category is a text, and 9 is a number"),
        ("category in ['a', 9]", 0, "category is a text, and 9 is a number"),
        ("price = true", 0, "price is a number, and true is a flag"),
        ("price = now", 0, "price is a number, and now is a time"),
        ("in_stock = 1", 0, "in_stock is a flag, and 1 is a number"),
        ("in_stock < true", 0, "use in_stock or not in_stock"),
        ("published = 2026", 0, "published is a time, and 2026 is a number"),
        ('published > "soon"', 0, 'published is a time, and "soon" is none'),
        ("price", 0, "price is a number, not a flag"),
        ('tags = "vinyl"', 0, "use contains"),
        ('tags in ["vinyl"]', 0, "use contains"),
        ("tags contains 3", 0, "tags is a list of texts, and 3 is a number"),
        ('category contains "jazz"', 0, "contains is for lists"),
        ("x" * (LONGEST + 1), LONGEST, f"at most {LONGEST} are allowed"),
        ("not " * DEEPEST + "in_stock", 0, f"at most {DEEPEST} are allowed"),
        (" or ".join(["in_stock"] * (MOST_CONDITIONS + 1)), 12 * MOST_CONDITIONS, f"at most {MOST_CONDITIONS} are"),
        (f"price in [{','.join(map(str, range(MOST_VALUES + 1)))}]", 0, f"at most {MOST_VALUES} are allowed"),
    ],
)
def test_what_cannot_be_read_or_applied_gets_one_sentence_with_the_place(text, place, sentence):
    with pytest.raises(InvalidFilterError) as raised:
        Filter(text).mask(SHOP, TIME)
    assert sentence in str(raised.value)
    assert raised.value.place == place
    assert isinstance(raised.value, GreedyCoreError)


def test_as_large_as_is_allowed():
    assert Filter("not " * (DEEPEST - 1) + "in_stock").mask(SHOP).tolist() == [False, True, True, False]
    assert Filter(" or ".join(["in_stock"] * MOST_CONDITIONS)).mask(SHOP).tolist() == [True, False, False, True]
    assert Filter(f"price in [{','.join(map(str, range(MOST_VALUES)))}]").mask(SHOP).tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert Filter("(" * 5000 + "in_stock" + ")" * 5000).mask(SHOP).tolist() == [True, False, False, True]


def test_escapes():
    texts = ['a"b', "a'b", "a\\b", "a\nb", "aéb"]
    attributes = Attributes.from_columns({"x": texts}, len(texts))
    for j, written in enumerate([r'"a\"b"', r'"a' + "'" + r'b"', r"'a\\b'", r'"a\nb"', r'"a\u00e9b"']):
        assert Filter(f"x = {written}").mask(attributes).tolist() == [k == j for k in range(len(texts))]


def test_named_filters_stand_for_what_they_say():
    named = {"available": Filter("in_stock and price is not missing"), "new": Filter("published > now - 30d")}
    cheap = Filter("@available and price < 20", named)
    assert cheap.mask(SHOP).tolist() == [True, False, False, False]
    assert Filter("not @available", named).mask(SHOP).tolist() == [False, True, True, False]
    assert str(Filter("NOT  @new", named)) == "not @new"
    assert not cheap.uses_now
    assert Filter("in_stock or @new", named).uses_now
    assert (cheap.n_conditions, Filter("@available or @new", named).n_conditions) == (3, 3)


def test_a_fault_in_a_named_filter_is_found_by_checking():
    named = {"cheap": Filter("cost < 20")}
    with pytest.raises(InvalidFilterError, match="no attribute 'cost'"):
        Filter("@cheap", named).check(SHOP)
    with pytest.raises(InvalidFilterError, match="there is no filter @cheep; named filters are: @cheap"):
        Filter("@cheep", named)


def test_two_filters_together():
    both = Filter("in_stock") & Filter("price > 10 or price < 5")
    assert both.mask(SHOP).tolist() == [False, False, False, True]
    assert Filter(both.text).mask(SHOP).tolist() == [False, False, False, True]
    assert (Filter("in_stock") & Filter("published > now")).uses_now


def test_now_is_a_whole_minute():
    assert clock() % 60_000_000 == 0


@pytest.mark.parametrize("n_values", [3, 300, 70_000])
def test_many_values_and_wide_codes(n_values):
    rng = np.random.default_rng(0)
    numbers = rng.permutation(n_values).astype(float)
    numbers[::7] = np.nan
    attributes = Attributes.from_columns({"x": numbers}, n_values)
    wanted = rng.integers(0, n_values, 40)
    text = f"[{', '.join(map(str, wanted))}]"
    known = ~np.isnan(numbers)
    assert (Filter(f"x in {text}").mask(attributes) == np.isin(numbers, wanted)).all()
    assert (Filter(f"x not in {text}").mask(attributes) == known & ~np.isin(numbers, wanted)).all()
    middle = n_values // 2
    assert (Filter(f"x >= 1 and x < {middle}").mask(attributes) == ((numbers >= 1) & (numbers < middle))).all()
    assert (Filter(f"x < {middle}").mask(attributes) == (numbers < middle)).all()
