"""Readers of single values in a query string: what is not what it should be is a 422 that says what it takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from greedy_core import InvalidRulesError, Pin, read_pin
from service.answering.question import ItemsAsked
from service.errors import ApiError, invalid, invalid_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_DIGITS = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"(?:[0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")
_NEXT_PIN = re.compile(r",(?=[0-9]{1,9}:)")


def decode(encoded: bytes, name: str) -> str:
    """Undo the percent-encoding; 422 if what comes out is not UTF-8."""
    if b"+" in encoded:
        encoded = encoded.replace(b"+", b" ")
    if b"%" in encoded:
        encoded = unquote_to_bytes(encoded)
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise ApiError(
            422, "invalid_parameter", f"{name} is not valid UTF-8.", "Percent-encode the UTF-8 bytes of the text."
        ) from None


def text(name: str, takes: str, longest: int | None = None) -> Callable[[bytes], str]:
    """Return a reader of a non-empty text; `longest` in characters."""

    def read(raw: bytes) -> str:
        value = decode(raw, name)
        if not value:
            raise invalid(name, "is empty", takes)
        if longest is not None and len(value) > longest:
            raise invalid(name, f"has {len(value)} characters", takes)
        return value

    return read


def whole(name: str, takes: str, low: int, high: int) -> Callable[[bytes], int]:
    """Return a reader of a whole number within bounds."""

    def read(raw: bytes) -> int:
        value = decode(raw, name)
        if not _DIGITS.fullmatch(value) or not low <= int(value) <= high:
            raise invalid(name, f"is {value[:40]!r}", takes)
        return int(value)

    return read


def number(name: str, takes: str, high: float, *, zero: bool = False) -> Callable[[bytes], float]:
    """Return a reader of a number above zero, or from zero on, and up to `high`."""

    def read(raw: bytes) -> float:
        value = decode(raw, name)
        if not _NUMBER.fullmatch(value) or not (0 < float(value) <= high or (zero and float(value) == 0)):
            raise invalid(name, f"is {value[:40]!r}", takes)
        return float(value)

    return read


def switch(name: str, takes: str) -> Callable[[bytes], bool]:
    """Return a reader of true or false."""
    words = {"true": True, "1": True, "false": False, "0": False}

    def read(raw: bytes) -> bool:
        value = decode(raw, name)
        if value.lower() not in words:
            raise invalid(name, f"is {value[:40]!r}", takes)
        return words[value.lower()]

    return read


def choice(name: str, takes: str, words: Sequence[str]) -> Callable[[bytes], str]:
    """Return a reader of one of a few words."""

    def read(raw: bytes) -> str:
        value = decode(raw, name)
        if value not in words:
            raise invalid(name, f"is {value[:40]!r}", takes)
        return value

    return read


def id_list(name: str, most: int) -> Callable[[bytes], list[str]]:
    """Return a reader of ids separated by commas.

    A comma inside an id is written %2C. Many clients write every comma so, and mean a list: such a text stands for the
    id and for its parts.
    """

    def read(raw: bytes) -> list[str]:
        if raw.count(b",") >= most > 0:
            raise invalid(name, f"has {raw.count(b',') + 1} ids", f"at most {most} item ids")
        if b"%" in raw or b"+" in raw or not raw.isascii():
            ids = [decode(part, name) for part in raw.split(b",") if part]
            ids += [part for text in ids if "," in text for part in text.split(",") if part]
        else:
            ids = [part for part in raw.decode("ascii").split(",") if part]
        if len(ids) > most:
            raise invalid(name, f"has {len(ids)} ids", f"at most {most} item ids")
        return ids

    return read


def name_list(name: str, most: int, longest: int) -> Callable[[bytes], list[str]]:
    """Return a reader of names separated by commas, each kept once."""

    def read(raw: bytes) -> list[str]:
        names = list(dict.fromkeys(part for part in decode(raw, name).split(",") if part))
        if len(names) > most or any(len(each) > longest for each in names):
            raise invalid(name, "is too long", f"at most {most} names of at most {longest} characters")
        return names

    return read


def rule(name: str, read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    """Return a reader of a rule of a page, as it is written in one line."""

    def read_rule(raw: bytes) -> Any:
        try:
            return read(decode(raw, name))
        except InvalidRulesError as error:
            raise invalid_rule(error) from None

    return read_rule


def pins(raw: bytes) -> tuple[Pin, ...]:
    """Read pins separated by commas; a comma in an id is written %2C.

    Many clients write every comma so, and mean a list: such a comma ends a pin where a place and a colon follow.
    """
    texts = [text for part in raw.split(b",") if part for text in _NEXT_PIN.split(decode(part, "pin"))]
    try:
        return tuple(read_pin(text) for text in texts)
    except InvalidRulesError as error:
        raise invalid_rule(error) from None


def choices(name: str, takes: str, words: Sequence[str]) -> Callable[[bytes], list[str]]:
    """Return a reader of some of a few words, separated by commas."""
    known = frozenset(words)

    def read(raw: bytes) -> list[str]:
        given = decode(raw, name).split(",")
        for each in given:
            if each not in known:
                raise invalid(name, f"has {each[:40]!r}", takes)
        return given

    return read


def items_asked(name: str, most: int) -> Callable[[bytes], ItemsAsked]:
    """Return a reader of items that a vector is made of, separated by commas; one in an id may be written %2C."""

    def read(raw: bytes) -> ItemsAsked:
        ids = [decode(part, name) for part in raw.split(b",") if part]
        count = sum(text.count(",") + 1 for text in ids)
        if not 1 <= count <= most:
            raise invalid(name, "is empty" if count == 0 else f"has {count} ids", f"1 to {most} item ids")
        return ItemsAsked(ids, loose=count > len(ids))

    return read
