"""What a question says together with its scenario: what it says itself counts more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from greedy_core import InvalidRulesError, Rules, Scenario
from service.answering.arranging import Arrangement
from service.errors import invalid_rule, unknown_scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.models.scenarios import ServedScenarios

# What a request can say about how its page is made, beside naming a scenario.
ARRANGING = ("at_most", "diversity", "boost", "pin", "fallback", "offset")

_NOTHING = Scenario()


class Recipe(NamedTuple):
    """What a question gets of request and scenario."""

    budget: int | None
    target_recall: float | None
    filter: str | None
    arrangement: Arrangement | None


class Recipes:
    """Puts requests and scenarios together."""

    def __init__(self, scenarios: ServedScenarios) -> None:
        self._scenarios = scenarios

    def of(self, said: Mapping[str, Any], place: str = "") -> Recipe:
        """Return the recipe of a request; `said` is what it says, `place` where it stands in a batch.

        404 for a scenario that there is none of, 422 for rules that make no sense.
        """
        budget, recall, wanted = said.get("budget"), said.get("target_recall"), said.get("filter")
        name = said.get("scenario")
        if name is None and not any(each in said for each in ARRANGING):
            return Recipe(budget, recall, wanted, None)
        scenario = _NOTHING if name is None else self._scenarios.by_name.get(name)
        if scenario is None:
            raise unknown_scenario(str(name), list(self._scenarios.by_name), place)
        if budget is None and recall is None:
            budget, recall = scenario.budget, scenario.target_recall
        arrangement = Arrangement(
            name, _rules(said, scenario.rules, place), said.get("offset"), said.get("fallback", scenario.fallback)
        )
        return Recipe(budget, recall, scenario.filter if wanted is None else wanted, arrangement)


def _rules(said: Mapping[str, Any], base: Rules, place: str) -> Rules:
    if not any(name in said for name in ARRANGING[:4]):
        return base
    try:
        return Rules(
            said.get("at_most", base.at_most),
            said.get("diversity", base.diversity),
            tuple(said.get("boost", base.boost)),
            tuple(said.get("pin", base.pin)),
        )
    except InvalidRulesError as error:
        raise invalid_rule(error, place) from None
