"""Query strings, read strictly: every parameter known, given once, well-formed UTF-8 and within its bounds.

Frameworks forgive (`budget=1&budget=2`, broken UTF-8, `bugdet=64`) and then answer a question nobody asked. The
table of parameters is also what OpenAPI shows, so that documentation and behaviour cannot part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from service.errors import ApiError, invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.settings import Settings

# Larger numbers are typing errors.
LARGEST_BUDGET = 10**12
LONGEST_DEADLINE_MS = 600_000.0

_DIGITS = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"(?:[0-9]{1,18}\.?[0-9]{0,18}|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,3})?")


class Parameter(NamedTuple):
    """A parameter of a GET call: how it is read, and how OpenAPI describes it."""

    name: str
    takes: str
    read: Callable[[bytes], Any]
    schema: dict[str, Any]
    example: Any
    required: bool = False

    def openapi(self) -> dict[str, Any]:
        """Return the parameter as an OpenAPI object."""
        spec: dict[str, Any] = {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.takes[0].upper() + self.takes[1:] + ".",
            "schema": self.schema,
            "example": self.example,
        }
        if self.schema.get("type") == "array":
            spec |= {"style": "form", "explode": False}
        return spec


class QueryReader:
    """Reads the query string of one call."""

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self._required = [p for p in self.parameters.values() if p.required]

    def read(self, raw: bytes) -> dict[str, Any]:
        """Return the values by name; 422 names the first parameter that is wrong."""
        values: dict[str, Any] = {}
        for part in raw.split(b"&"):
            if not part:
                continue
            encoded, _, value = part.partition(b"=")
            name = decode(encoded, "the query string")
            parameter = self.parameters.get(name)
            if parameter is None:
                raise invalid(name[:80] or "An empty name", "is not a parameter of this call", self._names())
            if name in values:
                raise invalid(name, "is given more than once", f"{parameter.takes}, once")
            values[name] = parameter.read(value)
        for parameter in self._required:
            if parameter.name not in values:
                raise invalid(parameter.name, "is missing", parameter.takes)
        return values

    def openapi(self) -> list[dict[str, Any]]:
        """Return all parameters as OpenAPI objects."""
        return [parameter.openapi() for parameter in self.parameters.values()]

    def _names(self) -> str:
        return "no such name; known are " + ", ".join(self.parameters)


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


def text(name: str, takes: str) -> Callable[[bytes], str]:
    """Return a reader of a non-empty text."""

    def read(raw: bytes) -> str:
        value = decode(raw, name)
        if not value:
            raise invalid(name, "is empty", takes)
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


def number(name: str, takes: str, high: float) -> Callable[[bytes], float]:
    """Return a reader of a number above zero and up to `high`."""

    def read(raw: bytes) -> float:
        value = decode(raw, name)
        if not _NUMBER.fullmatch(value) or not 0 < float(value) <= high:
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


def id_list(name: str, most: int) -> Callable[[bytes], list[str]]:
    """Return a reader of ids separated by commas; a comma inside an id is written %2C."""

    def read(raw: bytes) -> list[str]:
        if raw.count(b",") >= most > 0:
            raise invalid(name, f"has {raw.count(b',') + 1} ids", f"at most {most} item ids")
        if b"%" in raw or b"+" in raw or not raw.isascii():
            ids = [decode(part, name) for part in raw.split(b",") if part]
        else:
            ids = [part for part in raw.decode("ascii").split(",") if part]
        if len(ids) > most:
            raise invalid(name, f"has {len(ids)} ids", f"at most {most} item ids")
        return ids

    return read


def parameters(settings: Settings) -> dict[str, Parameter]:
    """Return all query parameters of the service by name."""
    budget_takes = "the most inner products the search may spend, a whole number from 1"
    top_takes = f"how many items to return, a whole number from 1 to {settings.max_top_k}"
    deadline_takes = f"milliseconds the answer may take, a number above 0 and up to {LONGEST_DEADLINE_MS:.0f}"
    recall_takes = "the recall@10 to buy, a number above 0 and up to 1"
    exclude_takes = f"up to {settings.max_exclude} item ids separated by commas (a comma in an id is written %2C)"
    seen_takes = "true or false: leave out what the user has seen (true when the model knows it)"
    user_takes = "the id of a user, a non-empty text"
    item_takes = "the id of an item, a non-empty text"
    table = (
        Parameter(
            "user_id", user_takes, text("user_id", user_takes), {"type": "string", "minLength": 1}, "42", required=True
        ),
        Parameter(
            "item_id", item_takes, text("item_id", item_takes), {"type": "string", "minLength": 1}, "7", required=True
        ),
        Parameter(
            "budget",
            budget_takes,
            whole("budget", budget_takes, 1, LARGEST_BUDGET),
            {"type": "integer", "minimum": 1, "maximum": LARGEST_BUDGET, "default": settings.default_budget},
            256,
        ),
        Parameter(
            "top_k",
            top_takes,
            whole("top_k", top_takes, 1, settings.max_top_k),
            {"type": "integer", "minimum": 1, "maximum": settings.max_top_k, "default": settings.default_top_k},
            10,
        ),
        Parameter(
            "deadline_ms",
            deadline_takes,
            number("deadline_ms", deadline_takes, LONGEST_DEADLINE_MS),
            {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DEADLINE_MS},
            5,
        ),
        Parameter(
            "target_recall",
            recall_takes,
            number("target_recall", recall_takes, 1.0),
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            0.9,
        ),
        Parameter(
            "exclude",
            exclude_takes,
            id_list("exclude", settings.max_exclude),
            {"type": "array", "items": {"type": "string"}, "maxItems": settings.max_exclude},
            ["7", "8"],
        ),
        Parameter("exclude_seen", seen_takes, switch("exclude_seen", seen_takes), {"type": "boolean"}, True),
    )
    return {parameter.name: parameter for parameter in table}
