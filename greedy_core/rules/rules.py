"""Rules: what a shop wants of a page beside the best items."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from greedy_core.errors import InvalidRulesError

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_CAPS = 8
MOST_BOOSTS = 8
MOST_PINS = 32
LAST_PLACE = 10_000
LEAST_FACTOR, LARGEST_FACTOR = 0.01, 100.0

CAPS_TAKE = f"up to {MOST_CAPS} names of attributes, each with how many items of a value may come back, from 1"
DIVERSITY_TAKES = "a number from 0 (by score alone) to 1 (as different as can be)"
BOOSTS_TAKE = f"up to {MOST_BOOSTS} filters, each with a factor from {LEAST_FACTOR} to {LARGEST_FACTOR:g}"
PINS_TAKE = f"up to {MOST_PINS} ids of items, each with a place of its own from 1 to {LAST_PLACE}"


@dataclass(frozen=True)
class Boost:
    """A factor on the score of the items that a filter lets through. A score below zero is divided by it instead."""

    filter: str
    factor: float

    def __post_init__(self) -> None:
        if not self.filter.strip():
            raise InvalidRulesError("boost", "has an empty filter", BOOSTS_TAKE)
        if not math.isfinite(self.factor) or not LEAST_FACTOR <= self.factor <= LARGEST_FACTOR:
            raise InvalidRulesError("boost", f"has the factor {self.factor:g}", BOOSTS_TAKE)


@dataclass(frozen=True)
class Pin:
    """An item at a place; the first place is 1."""

    place: int
    item_id: str

    def __post_init__(self) -> None:
        if not 1 <= self.place <= LAST_PLACE:
            raise InvalidRulesError("pin", f"has the place {self.place}", PINS_TAKE)
        if not self.item_id:
            raise InvalidRulesError("pin", f"names no item for place {self.place}", PINS_TAKE)


@dataclass(frozen=True)
class Rules:
    """The rules of one page. Raises InvalidRulesError for what makes no sense.

    at_most    attribute -> at most so many items of each of its values; items without a value are not counted
    diversity  how much an item's likeness to those above it counts against its score: 0 not at all, 1 alone
    boost      factors on scores; those of an item that several let through are multiplied
    pin        items at places
    """

    at_most: Mapping[str, int] = field(default_factory=dict)
    diversity: float = 0.0
    boost: tuple[Boost, ...] = ()
    pin: tuple[Pin, ...] = ()

    def __post_init__(self) -> None:
        for rule, given, most, takes in (
            ("at_most", self.at_most, MOST_CAPS, CAPS_TAKE),
            ("boost", self.boost, MOST_BOOSTS, BOOSTS_TAKE),
            ("pin", self.pin, MOST_PINS, PINS_TAKE),
        ):
            if len(given) > most:
                raise InvalidRulesError(rule, f"has {len(given)} entries", takes)
        for name, most in self.at_most.items():
            if most < 1:
                raise InvalidRulesError("at_most", f"allows {most} items of a value of {name[:80]}", CAPS_TAKE)
        if not 0 <= self.diversity <= 1:
            raise InvalidRulesError("diversity", f"is {self.diversity:g}", DIVERSITY_TAKES)
        for what in ("place", "item_id"):
            named = set()
            for pin in self.pin:
                each = getattr(pin, what)
                if each in named:
                    called = f"the {what.replace('item_id', 'item')} {str(each)[:80]}"
                    raise InvalidRulesError("pin", f"names {called} twice", PINS_TAKE)
                named.add(each)

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.at_most or self.diversity or self.boost or self.pin)
