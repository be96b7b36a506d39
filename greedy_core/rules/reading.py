"""Rules as they are written in one line: in a query string, on a command line.

at_most    author:2,category:3
boost      1.5: category = "jazz"
pin        1:jazz-0007
fallback   popular, error, or popular: category = "jazz"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from greedy_core.errors import InvalidRulesError
from greedy_core.rules.rules import BOOSTS_TAKE, CAPS_TAKE, PINS_TAKE, Boost, Pin

FALLBACK_TAKES = "popular, error, or popular: and a filter, such as popular: in_stock"

_COUNT = re.compile(r"[0-9]{1,9}")
_FACTOR = re.compile(r"(?:[0-9]{1,9}\.?[0-9]{0,18}|\.[0-9]{1,18})")


@dataclass(frozen=True)
class Fallback:
    """What stands in where there is nothing to search with: the popular items, under a filter or not, or an error."""

    kind: Literal["popular", "error"] = "popular"
    filter: str | None = None

    def __str__(self) -> str:
        """Return it as it is written."""
        return self.kind if self.filter is None else f"{self.kind}: {self.filter}"


def read_caps(text: str) -> dict[str, int]:
    """Read `author:2,category:3`; an empty text is no cap."""
    caps: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, colon, most = part.rpartition(":")
        if not colon or not name or not _COUNT.fullmatch(most):
            raise InvalidRulesError("at_most", f"has {part[:80]!r}", f"{CAPS_TAKE}: author:2,category:3")
        if name in caps:
            raise InvalidRulesError("at_most", f"names {name[:80]} twice", CAPS_TAKE)
        caps[name] = int(most)
    return caps


def read_boost(text: str) -> Boost:
    """Read `1.5: category = "jazz"`."""
    factor, colon, wanted = text.partition(":")
    if not colon or not _FACTOR.fullmatch(factor.strip()):
        raise InvalidRulesError("boost", f"is {text[:80]!r}", f"{BOOSTS_TAKE}: 1.5: in_stock")
    return Boost(wanted.strip(), float(factor))


def read_pin(text: str) -> Pin:
    """Read `1:jazz-0007`; an id may have colons."""
    place, colon, item_id = text.partition(":")
    if not colon or not _COUNT.fullmatch(place.strip()):
        raise InvalidRulesError("pin", f"has {text[:80]!r}", f"{PINS_TAKE}: 1:jazz-0007")
    return Pin(int(place), item_id)


def read_fallback(text: str) -> Fallback:
    """Read `popular`, `error` or `popular: category = "jazz"`."""
    kind, colon, wanted = (part.strip() for part in text.partition(":"))
    if kind == "popular" and bool(colon) == bool(wanted):
        return Fallback("popular", wanted or None)
    if kind == "error" and not colon:
        return Fallback("error")
    raise InvalidRulesError("fallback", f"is {text[:80]!r}", FALLBACK_TAKES)
