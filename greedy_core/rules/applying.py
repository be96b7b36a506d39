"""From rules to conditions on the items of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.attributes.attribute import Attribute
from greedy_core.errors import InvalidRulesError
from greedy_core.rules.caps import Cap
from greedy_core.rules.collecting import Conditions
from greedy_core.rules.rules import CAPS_TAKE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from greedy_core.attributes.table import Attributes
    from greedy_core.eligible import Eligible
    from greedy_core.rules.collecting import Collected, Factors
    from greedy_core.rules.diversity import Products
    from greedy_core.rules.rules import Rules

    Positions = npt.NDArray[np.int32]


class AppliedRules(NamedTuple):
    """Rules, what they say about the items of a model, and the pins that cannot be kept: their ids and why."""

    rules: Rules
    conditions: Conditions
    unkept: tuple[tuple[str, str], ...] = ()

    def receipt(self, collected: Collected) -> dict[str, Any]:
        """Return what each rule did, as JSON can hold it."""
        rules, said = self.rules, dict[str, Any]()
        if rules.boost:
            said["boost"] = {"items": collected.boosted}
        if rules.at_most:
            said["at_most"] = {"left_out": collected.left_out, "filled": collected.filled}
        if rules.diversity:
            said["diversity"] = {"places": collected.diverse, "products": collected.spent}
        if rules.pin:
            named = {item: pin.item_id for pin, item in self._positions()}
            unkept = [*self.unkept, *((named[item], "at_most") for item in collected.crossed)]
            said["pin"] = {
                "placed": collected.placed,
                "left_out": [{"item_id": item_id, "because": why} for item_id, why in unkept],
            }
        return said

    def _positions(self) -> Iterable[tuple[Any, int]]:
        return ((pin, self.conditions.pins[pin.place]) for pin in self.rules.pin if pin.place in self.conditions.pins)


def check_caps(rules: Rules, attributes: Attributes) -> None:
    """Raise InvalidRulesError if a model has no attribute that a cap is about."""
    for name in rules.at_most:
        if name not in attributes:
            raise InvalidRulesError(
                "at_most", f"cannot be kept: {attributes.unknown(name).removesuffix('.')}", CAPS_TAKE
            )


def apply_rules(
    rules: Rules,
    attributes: Attributes,
    positions_of: Callable[[Sequence[str]], Positions],
    let_through: Callable[[str], Eligible],
    *,
    excluded: Positions | None = None,
    eligible: Eligible | None = None,
    products: Products | None = None,
) -> AppliedRules:
    """Return what rules say about the items of a model. Raises InvalidRulesError.

    positions_of  where items stand by their ids, -1 for unknown ones
    let_through   which items a filter lets through
    products      of an item with others, for diversity
    """
    check_caps(rules, attributes)
    pins, unkept = _place(rules, positions_of, excluded, eligible)
    caps = [_cap(attributes, name, most) for name, most in rules.at_most.items()]
    factors = _factors([(let_through(boost.filter), boost.factor) for boost in rules.boost])
    return AppliedRules(rules, Conditions(caps, factors, rules.diversity, products, pins), unkept)


def _cap(attributes: Attributes, name: str, most: int) -> Cap:
    attribute = attributes[name]
    return Cap(most, attribute.values_at, attribute.codes if isinstance(attribute, Attribute) else None)


def _factors(boosts: Sequence[tuple[Eligible, float]]) -> Factors | None:
    if not boosts:
        return None

    def factors(items: Positions) -> npt.NDArray[np.float64]:
        found = np.ones(len(items))
        for wanted, factor in boosts:
            found[wanted.has(items)] *= factor
        return found

    return factors


def _place(
    rules: Rules,
    positions_of: Callable[[Sequence[str]], Positions],
    excluded: Positions | None,
    eligible: Eligible | None,
) -> tuple[dict[int, int], tuple[tuple[str, str], ...]]:
    """Return the pins that may come back, by place, and why the others may not."""
    if not rules.pin:
        return {}, ()
    pins: dict[int, int] = {}
    unkept: list[tuple[str, str]] = []
    positions = positions_of([pin.item_id for pin in rules.pin])
    for pin, position in zip(rules.pin, positions.tolist(), strict=True):
        if position < 0:
            unkept.append((pin.item_id, "unknown"))
        elif eligible is not None and position not in eligible:
            unkept.append((pin.item_id, "filter"))
        elif excluded is not None and bool((excluded == position).any()):
            unkept.append((pin.item_id, "excluded"))
        else:
            pins[pin.place] = position
    return pins, tuple(unkept)
