"""From text to tree, within bounds, with the place of an error in its message."""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, Any, cast

from lark import Lark, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from greedy_core.attributes.times import read_time
from greedy_core.errors import InvalidFilterError
from greedy_core.filters.grammar import GRAMMAR
from greedy_core.filters.tree import (
    UNITS,
    WORDS,
    And,
    Comparison,
    Containment,
    Flagged,
    Membership,
    Missing,
    Moment,
    Named,
    Node,
    Not,
    Now,
    Or,
    Value,
    leaves,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST = 16_384
DEEPEST = 32
MOST_CONDITIONS = 64
MOST_VALUES = 1_000

_SHOWN = 24
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "/": "/"}


def parse(text: str) -> Node:
    """Return the tree of a filter. Raises InvalidFilterError with the place where the text is wrong.

    A text of 60 characters takes about a quarter of a millisecond, one of the largest allowed about 20.
    """
    if len(text) > LONGEST:
        raise InvalidFilterError(
            f"the filter has {len(text)} characters, but at most {LONGEST} are allowed; shorten it, or name it in the "
            "settings.",
            text[:LONGEST],
            LONGEST,
        )
    if not text.strip():
        raise InvalidFilterError("the filter is empty; give a condition, such as price < 20, or no filter.", text)
    try:
        # Not a tree of lark's: the builder makes ours.
        tree = cast("Node", _parser().parse(text))
    except UnexpectedInput as reason:
        raise _unexpected(text, reason) from None
    except _Misfit as reason:
        raise wrong(text, reason.place, reason.what) from None
    _check_size(text, tree)
    return tree


def wrong(text: str, place: int, what: str) -> InvalidFilterError:
    """Return the error for a filter that is wrong at a place."""
    rest = text[place : place + _SHOWN].split("\n", maxsplit=1)[0]
    near = f" (near {rest!a})" if rest.strip() else " (its end)" if place >= len(text.rstrip()) else ""
    return InvalidFilterError(f"the filter is wrong at character {place + 1}{near}: {what}.", text, place)


class _Misfit(Exception):  # noqa: N818 - never leaves this module
    def __init__(self, place: int, what: str) -> None:
        self.place = place
        self.what = what


class _Builder:
    """Makes the nodes while lark reads, so that there is no second tree; one method for each rule."""

    def name(self, parts: list[Token]) -> Token:
        token = parts[0]
        return token.update(value=token[1:-1]) if token.type == "QUOTED_NAME" else token

    def either(self, parts: list[Node]) -> Or:
        return Or(tuple(parts))

    def both(self, parts: list[Node]) -> And:
        return And(tuple(parts))

    def negation(self, parts: list[Node]) -> Not:
        return Not(parts[0])

    def flagged(self, parts: list[Token]) -> Flagged:
        return Flagged(str(parts[0]), place=_place(parts[0]))

    def missing(self, parts: list[Token]) -> Missing:
        return Missing(str(parts[0]), place=_place(parts[0]))

    def present(self, parts: list[Token]) -> Not:
        return Not(self.missing(parts))

    def comparison(self, parts: list[Any]) -> Comparison:
        name, operator, value = parts
        meant: Any = "=" if operator == "==" else str(operator)
        return Comparison(str(name), meant, value, place=_place(name))

    def values(self, parts: list[Value | None]) -> tuple[Value, ...]:
        return tuple(value for value in parts if value is not None)

    def among(self, parts: list[Any]) -> Membership:
        return Membership(str(parts[0]), parts[1], place=_place(parts[0]))

    def not_among(self, parts: list[Any]) -> Membership:
        return Membership(str(parts[0]), parts[1], negated=True, place=_place(parts[0]))

    def contains(self, parts: list[Any]) -> Containment:
        return Containment(str(parts[0]), "any", (parts[1],), place=_place(parts[0]))

    def contains_any(self, parts: list[Any]) -> Containment:
        return Containment(str(parts[0]), "any", parts[1], place=_place(parts[0]))

    def contains_all(self, parts: list[Any]) -> Containment:
        return Containment(str(parts[0]), "all", parts[1], place=_place(parts[0]))

    def named(self, parts: list[Token]) -> Named:
        return Named(str(parts[0]), place=_place(parts[0]) - 1)

    def text(self, parts: list[Token]) -> str:
        token = parts[0]

        def unescape(match: re.Match[str]) -> str:
            escape = match[1]
            if len(escape) > 1:
                return chr(int(escape[1:], 16))
            if escape not in _ESCAPED:
                raise _Misfit(_place(token) + 1 + match.start(), f"\\{escape} is no escape; write \\\\ for a backslash")
            return _ESCAPED[escape]

        return _ESCAPE.sub(unescape, token[1:-1]) if "\\" in token else str(token[1:-1])

    def number(self, parts: list[Token]) -> float:
        number = float(parts[0])
        if not math.isfinite(number):
            raise _Misfit(_place(parts[0]), "this number is larger than any that can be stored")
        # Adding zero makes -0 and 0 the same.
        return number + 0.0

    def moment(self, parts: list[Token]) -> Moment:
        moment = read_time(str(parts[0]))
        if moment is None:
            raise _Misfit(_place(parts[0]), "this is no time; write 2026-11-18 or 2026-11-18T06:00:00Z")
        return Moment(moment)

    def true(self, _: list[Token]) -> bool:
        return True

    def false(self, _: list[Token]) -> bool:
        return False

    def now(self, _: list[Token]) -> Now:
        return Now()

    def before(self, parts: list[Token]) -> Now:
        return Now(-_seconds(parts[0]))

    def after(self, parts: list[Token]) -> Now:
        return Now(_seconds(parts[0]))


@functools.cache
def _parser() -> Lark:
    # Made at the first use: a hundredth of a second or two that a program without filters need not spend.
    return Lark(GRAMMAR, parser="lalr", lexer="contextual", transformer=_Builder(), maybe_placeholders=False)


def _place(token: Token) -> int:
    place = token.start_pos
    return 0 if place is None else place


def _seconds(duration: Token) -> int:
    return int(duration[:-1]) * UNITS[duration[-1].lower()] // 1_000_000


def _check_size(text: str, tree: Node) -> None:
    if tree.depth > DEEPEST:
        raise InvalidFilterError(
            f"the filter is nested {tree.depth} deep, but at most {DEEPEST} are allowed; write it flatter.", text
        )
    conditions = list(leaves(tree))
    if len(conditions) > MOST_CONDITIONS:
        place = conditions[MOST_CONDITIONS].place
        raise wrong(text, place, f"there are {len(conditions)} conditions, but at most {MOST_CONDITIONS} are allowed")
    n_values = sum(len(values_of(condition)) for condition in conditions)
    if n_values > MOST_VALUES:
        raise InvalidFilterError(
            f"the filter compares with {n_values} values, but at most {MOST_VALUES} are allowed; name fewer.", text
        )


def _unexpected(text: str, reason: UnexpectedInput) -> InvalidFilterError:
    place = len(text) if reason.pos_in_stream is None or reason.pos_in_stream < 0 else reason.pos_in_stream
    expected: Collection[str] = ()
    if isinstance(reason, UnexpectedToken):
        expected = reason.accepts or reason.expected
        if reason.token.type == "$END":
            place = len(text)
    elif isinstance(reason, UnexpectedCharacters):
        expected = reason.allowed or ()
    return wrong(text, place, _what(text[place:], set(expected)))


def _what(rest: str, expected: set[str]) -> str:
    """Say what was expected where the rest of the text stands."""
    if rest[:1] in ('"', "'", "`") and rest.count(rest[0]) == 1:
        return f"what begins here with {rest[0]} has no end"
    if {"TEXT", "NUMBER"} <= expected:
        return _no_value(rest, in_list="RSQB" in expected)
    explained = (
        ("NAME", "a condition was expected, which begins with the name of an attribute"),
        (
            "OPERATOR",
            "a comparison was expected after the name (=, !=, <, <=, >, >=, in, contains, is missing)",
        ),
        ("LSQB", 'a list was expected, as ["a", "b"]'),
        ("COMMA", "a comma or ] was expected"),
        ("MISSING", "is missing, or is not missing, was expected"),
        ("DURATION", "a duration was expected, as 30d, in s, m, h, d or w"),
        ("NAMED", "the name of a filter was expected after @"),
        ("IN", "not in, with a list, was expected"),
        ("RPAR", "and, or, or a closing parenthesis was expected"),
    )
    return next((what for name, what in explained if name in expected), "and, or, or the end was expected")


def _no_value(rest: str, *, in_list: bool) -> str:
    word = re.match(r"[^\W\d][\w-]*", rest)
    if word and word[0].lower() not in WORDS:
        return f'a value was expected; a text stands in quotes: "{word[0][:40]}"'
    what = "a text in quotes, a number, true, false, a time, or now"
    return f"a value was expected ({what})" + (" or the end of the list" if in_list else "")
