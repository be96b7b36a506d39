"""Scenarios: named recipes of budget, filter, rules and fallback, in a file that an operator writes.

    [home]                                             # scenario=home
    description = "The first page of the shop"
    budget = 512                                       # or target_recall = 0.95
    filter = "in_stock"
    at_most = { author = 2 }
    diversity = 0.3
    boost = [{ filter = "published > now - 90d", factor = 1.2 }]
    pin = [{ place = 1, item_id = "jazz-0007" }]
    fallback = "popular"                               # or "error", or 'popular: category = "jazz"'

The same as JSON if the file is called so. Each part may be left out.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greedy_core.errors import InvalidFilterError, InvalidRulesError, InvalidScenariosError
from greedy_core.filters.filter import Filter
from greedy_core.rules.applying import check_caps
from greedy_core.rules.reading import Fallback, read_fallback
from greedy_core.rules.rules import BOOSTS_TAKE, CAPS_TAKE, DIVERSITY_TAKES, PINS_TAKE, Boost, Pin, Rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from greedy_core.attributes.table import Attributes

MOST_SCENARIOS = 100
LONGEST_DESCRIPTION = 500
LARGEST_FILE = 256 << 10
LARGEST_BUDGET = 10**9

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PARTS = ("description", "budget", "target_recall", "filter", "at_most", "diversity", "boost", "pin", "fallback")


@dataclass(frozen=True)
class Scenario:
    """A recipe. What it does not say is as if it had not been named.

    budget, target_recall  what questions get that name neither; at most one of them
    filter                 where a question names none
    fallback               what stands in where there is nothing to search with
    """

    name: str = ""
    description: str = ""
    budget: int | None = None
    target_recall: float | None = None
    filter: str | None = None
    rules: Rules = field(default_factory=Rules)
    fallback: Fallback | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return what `read_scenarios` reads, with the name beside it; only what the scenario says."""
        rules = self.rules
        said = {
            "name": self.name,
            "description": self.description,
            "budget": self.budget,
            "target_recall": self.target_recall,
            "filter": self.filter,
            "at_most": dict(rules.at_most) or None,
            "diversity": rules.diversity or None,
            "boost": [{"filter": boost.filter, "factor": boost.factor} for boost in rules.boost] or None,
            "pin": [{"place": pin.place, "item_id": pin.item_id} for pin in rules.pin] or None,
            "fallback": None if self.fallback is None else str(self.fallback),
        }
        return {name: value for name, value in said.items() if value is not None}

    def filters(self) -> Iterator[tuple[str, str]]:
        """Yield all filters in it, each with the name of the part that it is in."""
        if self.filter is not None:
            yield "filter", self.filter
        for boost in self.rules.boost:
            yield "boost", boost.filter
        if self.fallback is not None and self.fallback.filter is not None:
            yield "fallback", self.fallback.filter

    def check(self, attributes: Attributes, named: Mapping[str, Filter] | None = None) -> None:
        """Raise InvalidScenariosError if a model with these attributes cannot be asked so.

        Items that are pinned are not looked for: a catalogue changes, and each answer says which it had to leave out.
        """
        try:
            check_caps(self.rules, attributes)
            for _, text in self.filters():
                Filter(text, named).check(attributes)
        except (InvalidRulesError, InvalidFilterError) as error:
            raise InvalidScenariosError([f"the scenario {self.name} does not fit it: {error}"]) from None


def load_scenarios(path: str | Path, named: Mapping[str, Filter] | None = None) -> dict[str, Scenario]:
    """Read a file of scenarios, TOML or JSON by its name. `named` are the filters that may be named as @name.

    Raises InvalidScenariosError with a sentence for each fault.
    """
    return read_scenarios(_parsed(Path(path)), named)


def read_scenarios(document: object, named: Mapping[str, Filter] | None = None) -> dict[str, Scenario]:
    """Read scenarios by their names from what a file holds. Raises InvalidScenariosError."""
    if not isinstance(document, dict) or not all(isinstance(recipe, dict) for recipe in document.values()):
        raise InvalidScenariosError(["scenarios are tables by their names, as [home] and what it says; write them so."])
    if len(document) > MOST_SCENARIOS:
        raise InvalidScenariosError([f"there are {len(document)} scenarios; at most {MOST_SCENARIOS} are allowed."])
    faults: list[str] = []
    found: dict[str, Scenario] = {}
    for name, recipe in document.items():
        if not _NAME.fullmatch(name):
            faults.append(f"{name[:80]!r} is no name for a scenario; use up to 64 letters, digits, - and _.")
            continue
        reader = _Reader(recipe, named)
        found[name] = reader.scenario(name)
        faults += [f"the scenario {name}: {fault}" for fault in reader.faults]
    if faults:
        raise InvalidScenariosError(faults)
    return found


def _parsed(path: Path) -> object:
    try:
        if path.suffix.lower() not in (".toml", ".json"):
            raise InvalidScenariosError([f"{path} is neither .toml nor .json; name it by what it is."])
        # Not waited for if it is a pipe, and no more of it read than it may have.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidScenariosError([f"{path} is no file; name one."])
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise InvalidScenariosError([f"{path} has more than the {LARGEST_FILE} bytes that are allowed."])
        parse = json.loads if path.suffix.lower() == ".json" else tomllib.loads
        document: object = parse(raw.decode())
    except OSError as reason:
        raise InvalidScenariosError([f"{path} cannot be read: {reason.strerror}; check the path."]) from None
    except (UnicodeDecodeError, ValueError, RecursionError) as reason:
        if isinstance(reason, InvalidScenariosError):
            raise
        raise InvalidScenariosError([f"{path} cannot be read: {reason}; repair it."]) from None
    return document


class _Reader:
    """Reads one scenario, and collects what is wrong with it."""

    def __init__(self, recipe: Mapping[str, Any], named: Mapping[str, Filter] | None) -> None:
        self._recipe = recipe
        self._named = named
        self.faults = [
            f"{str(part)[:80]!r} is no part of a scenario; known are {', '.join(_PARTS)}."
            for part in recipe
            if part not in _PARTS
        ]

    def scenario(self, name: str) -> Scenario:
        """Return the scenario; what is wrong is left out of it, and is in `faults`."""
        scenario = Scenario(
            name,
            self._text("description", LONGEST_DESCRIPTION) or "",
            self._whole("budget", LARGEST_BUDGET),
            self._share("target_recall"),
            self._text("filter"),
            self._rules(),
            self._fallback(),
        )
        if scenario.budget is not None and scenario.target_recall is not None:
            self.faults.append("it has budget and target_recall; give one of them.")
        for part, text in scenario.filters():
            try:
                Filter(text, self._named)
            except InvalidFilterError as error:
                self.faults.append(f"{part} cannot be used: {error}")
        return scenario

    def _wrong(self, part: str, takes: str) -> None:
        self.faults.append(f"{part} takes {takes}.")

    def _text(self, part: str, longest: int | None = None) -> str | None:
        value = self._recipe.get(part)
        if value is None or (isinstance(value, str) and (longest is None or len(value) <= longest)):
            return value
        self._wrong(part, "a text" if longest is None else f"a text of up to {longest} characters")
        return None

    def _whole(self, part: str, most: int) -> int | None:
        value = self._recipe.get(part)
        if value is None or (_is_whole(value) and 1 <= value <= most):
            return value
        self._wrong(part, f"a whole number from 1 to {most}")
        return None

    def _share(self, part: str) -> float | None:
        value = self._recipe.get(part)
        if value is None or (_is_number(value) and 0 < value <= 1):
            return value
        self._wrong(part, "a number above 0 and up to 1")
        return None

    def _rules(self) -> Rules:
        """Read the rules one by one, so that each has its own sentence."""
        recipe, parts = self._recipe, dict[str, Any]()
        caps = recipe.get("at_most", {})
        if not isinstance(caps, dict) or not all(_is_whole(most) for most in caps.values()):
            self._wrong("at_most", f"{CAPS_TAKE}: {{ author = 2 }}")
        else:
            parts["at_most"] = caps
        strength = recipe.get("diversity", 0)
        if not _is_number(strength):
            self._wrong("diversity", DIVERSITY_TAKES)
        else:
            parts["diversity"] = float(strength)
        parts["boost"] = self._several("boost", Boost, {"filter": str, "factor": float}, BOOSTS_TAKE)
        parts["pin"] = self._several("pin", Pin, {"place": int, "item_id": str}, PINS_TAKE)
        kept = Rules()
        for part, value in parts.items():
            try:
                Rules(**{part: value})
            except InvalidRulesError as error:
                self.faults.append(str(error))
            else:
                kept = Rules(**{name: getattr(kept, name) for name in parts} | {part: value})
        return kept

    def _several(self, part: str, made: type[Any], fields: Mapping[str, type], takes: str) -> tuple[Any, ...]:
        given = self._recipe.get(part, [])
        checks = {str: lambda value: isinstance(value, str), int: _is_whole, float: _is_number}
        is_right = isinstance(given, list) and all(
            isinstance(each, dict)
            and set(each) == set(fields)
            and all(checks[kind](each[name]) for name, kind in fields.items())
            for each in given
        )
        if not is_right:
            self._wrong(part, f"a list, each entry with {' and '.join(fields)}: {takes}")
            return ()
        try:
            return tuple(made(**each) for each in given)
        except InvalidRulesError as error:
            self.faults.append(str(error))
            return ()

    def _fallback(self) -> Fallback | None:
        text = self._text("fallback")
        try:
            return None if text is None else read_fallback(text)
        except InvalidRulesError as error:
            self.faults.append(str(error))
            return None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    # Whole numbers have no bounds in JSON and TOML; what no float can hold is no number here.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
