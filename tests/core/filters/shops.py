"""Random tables and random filters, and what a filter means, written down row by row."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from greedy_core.attributes.times import microseconds, read_time
from greedy_core.filters import tree

TEXTS = st.sampled_from(["", "a", "b", "ab", "ü", "日本", 'q"uote', "back\\slash", "new\nline", "2026-01-01"])
NUMBERS = st.sampled_from([-1.5, 0.0, 1.0, 2.0, 2.5, 1e10]) | st.floats(-1e6, 1e6)
START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = st.integers(-3, 3).map(lambda days: START + timedelta(days=days))
NOW = microseconds(START)

CELLS = {
    "text": TEXTS,
    "list": st.lists(TEXTS, max_size=4),
    "number": NUMBERS,
    "flag": st.booleans(),
    "time": TIMES,
}
# A name for each kind, among them some that have to be quoted.
NAMES = {"text": "not", "list": "tags", "number": "the price", "flag": "in_stock", "time": "größe"}


@st.composite
def tables(draw, max_items=30):
    """A column of each kind, of the same length, with gaps."""
    n_items = draw(st.integers(1, max_items))
    return {
        kind: draw(st.lists(st.none() | cells, min_size=n_items, max_size=n_items)) for kind, cells in CELLS.items()
    }


def _values(kind):
    if kind == "time":
        moments = TIMES.map(lambda time: tree.Moment(microseconds(time)))
        offsets = st.integers(-300_000, 300_000).map(tree.Now)
        return moments | offsets | TIMES.map(lambda time: time.isoformat())
    return TEXTS if kind == "list" else CELLS[kind]


def _conditions(kind):
    name = st.just(NAMES[kind])
    values = st.lists(_values(kind), max_size=12).map(tuple)
    found = [st.builds(tree.Missing, name)]
    if kind == "list":
        found.append(st.builds(tree.Containment, name, st.sampled_from(["any", "all"]), values))
    else:
        operators = ["=", "!="] if kind == "flag" else ["=", "!=", "<", "<=", ">", ">="]
        found.append(st.builds(tree.Comparison, name, st.sampled_from(operators), _values(kind)))
        found.append(st.builds(tree.Membership, name, values, st.booleans()))
    if kind == "flag":
        found.append(st.builds(tree.Flagged, name))
    return st.one_of(found)


CONDITIONS = st.one_of([_conditions(kind) for kind in CELLS])


def _larger(parts):
    several = st.lists(parts, min_size=2, max_size=4).map(tuple)
    return st.builds(tree.Not, parts) | st.builds(tree.And, several) | st.builds(tree.Or, several)


FILTERS = st.recursive(CONDITIONS, _larger, max_leaves=8)


def holds(node, row):
    """Say whether a filter is true for a row, as slowly and plainly as can be."""
    if isinstance(node, tree.And):
        return all(holds(part, row) for part in node.parts)
    if isinstance(node, tree.Or):
        return any(holds(part, row) for part in node.parts)
    if isinstance(node, tree.Not):
        return not holds(node.part, row)
    value = row[node.name]
    if isinstance(node, tree.Missing):
        return value is None
    if value is None:
        return False
    if isinstance(node, tree.Flagged):
        return value is True
    if isinstance(node, tree.Containment):
        return (any if node.quantity == "any" else all)([wanted in value for wanted in node.values])
    value = microseconds(value) if isinstance(value, datetime) else value
    is_time = isinstance(row[node.name], datetime)
    if isinstance(node, tree.Membership):
        return (value in [_meant(other, is_time=is_time) for other in node.values]) != node.negated
    other = _meant(node.value, is_time=is_time)
    return {
        "=": value == other,
        "!=": value != other,
        "<": value < other,
        "<=": value <= other,
        ">": value > other,
        ">=": value >= other,
    }[node.operator]


def _meant(value, *, is_time):
    if not is_time:
        return value
    if isinstance(value, tree.Now):
        return NOW + value.seconds * 1_000_000
    return value.microseconds if isinstance(value, tree.Moment) else read_time(value)
