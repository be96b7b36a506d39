"""What a filter is made of, and how it is written: parsing what `str` gives returns the same tree."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from greedy_core.attributes.times import write_time

if TYPE_CHECKING:
    from collections.abc import Iterator

Operator = Literal["=", "!=", "<", "<=", ">", ">="]

# Words with a meaning of their own; an attribute that is called so is written in backquotes.
WORDS = frozenset({"and", "or", "not", "in", "contains", "any", "all", "is", "missing", "true", "false", "now"})
# Units of durations in microseconds, the largest first.
UNITS = {"w": 604_800_000_000, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000}

_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')


@dataclass(frozen=True, slots=True)
class Moment:
    """A time: microseconds since 1970."""

    microseconds: int

    def __str__(self) -> str:
        return write_time(self.microseconds)


@dataclass(frozen=True, slots=True)
class Now:
    """The time of the evaluation, moved by so many seconds."""

    seconds: int = 0

    def __str__(self) -> str:
        if self.seconds == 0:
            return "now"
        amount = abs(self.seconds)
        unit = next(unit for unit, size in UNITS.items() if amount * 1_000_000 % size == 0)
        return f"now {'-' if self.seconds < 0 else '+'} {amount * 1_000_000 // UNITS[unit]}{unit}"


Value = str | float | bool | Moment | Now


@dataclass(frozen=True, slots=True)
class Condition:
    """Something about one attribute.

    place  where in the text its name stands
    """

    name: str
    place: int = field(default=0, compare=False, kw_only=True)

    @property
    def depth(self) -> int:
        """How many nodes lie above each other."""
        return 1


@dataclass(frozen=True, slots=True)
class Flagged(Condition):
    """The flag is set."""

    def __str__(self) -> str:
        return write_name(self.name)


@dataclass(frozen=True, slots=True)
class Missing(Condition):
    """There is no value."""

    def __str__(self) -> str:
        return f"{write_name(self.name)} is missing"


@dataclass(frozen=True, slots=True)
class Comparison(Condition):
    """There is a value, and it compares so with another."""

    operator: Operator
    value: Value

    def __str__(self) -> str:
        return f"{write_name(self.name)} {self.operator} {write_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Membership(Condition):
    """There is a value, and it is among others; or, negated, there is one that is not."""

    values: tuple[Value, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{write_name(self.name)} {'not in' if self.negated else 'in'} {_write_list(self.values)}"


@dataclass(frozen=True, slots=True)
class Containment(Condition):
    """There is a list, and it holds one of the values, or every one."""

    quantity: Literal["any", "all"]
    values: tuple[Value, ...]

    def __str__(self) -> str:
        if self.quantity == "any" and len(self.values) == 1:
            return f"{write_name(self.name)} contains {write_value(self.values[0])}"
        return f"{write_name(self.name)} contains {self.quantity} {_write_list(self.values)}"


@dataclass(frozen=True, slots=True)
class Named:
    """A filter that the configuration has under this name."""

    name: str
    place: int = field(default=0, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    part: Node
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", self.part.depth + 1)

    def __str__(self) -> str:
        return f"not {_write_part(self.part)}"


@dataclass(frozen=True, slots=True)
class _Several:
    parts: tuple[Node, ...]
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", max(part.depth for part in self.parts) + 1)


@dataclass(frozen=True, slots=True)
class And(_Several):
    """All of two or more."""

    def __str__(self) -> str:
        return " and ".join(map(_write_part, self.parts))


@dataclass(frozen=True, slots=True)
class Or(_Several):
    """One or more of two or more."""

    def __str__(self) -> str:
        # What `and` joins is joined first, but is easier to read in parentheses.
        return " or ".join(map(_write_part, self.parts))


Node = Flagged | Missing | Comparison | Membership | Containment | Named | Not | And | Or


def leaves(node: Node) -> Iterator[Condition | Named]:
    """Yield the conditions of a tree, and what it names, from left to right."""
    if isinstance(node, And | Or):
        for part in node.parts:
            yield from leaves(part)
    elif isinstance(node, Not):
        yield from leaves(node.part)
    else:
        yield node


def values_of(condition: Condition | Named) -> tuple[Value, ...]:
    """Return the values that a condition compares with."""
    if isinstance(condition, Comparison):
        return (condition.value,)
    return condition.values if isinstance(condition, Membership | Containment) else ()


def write_name(name: str) -> str:
    """Return a name as a filter has it: in backquotes where it would be read as something else."""
    return name if _PLAIN_NAME.fullmatch(name) and name.lower() not in WORDS else f"`{name}`"


def write_value(value: Value) -> str:
    """Return a value as a filter has it."""
    if isinstance(value, str):
        return '"' + _ESCAPED.sub(_escape, value) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Moment | Now):
        return str(value)
    # Adding zero makes of minus zero, which compares the same, the one that is read back.
    return repr(float(value) + 0.0).removesuffix(".0")


def _write_list(values: tuple[Value, ...]) -> str:
    return f"[{', '.join(map(write_value, values))}]"


def _write_part(node: Node) -> str:
    return f"({node})" if isinstance(node, And | Or) else str(node)


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\{character}" if character in '"\\' else f"\\u{ord(character):04x}"
