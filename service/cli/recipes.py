"""Scenarios and rules on the command line: what a file says, and options that count more."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from greedy_core import (
    Boost,
    InvalidScenariosError,
    Pin,
    Rules,
    Scenario,
    load_scenarios,
    read_boost,
    read_caps,
    read_pin,
)

ScenarioFile = Annotated[
    Path | None, typer.Option("--scenario-file", help="A file of scenarios, .toml or .json; --scenario names one.")
]
ScenarioName = Annotated[str | None, typer.Option("--scenario", help="The scenario of the file to ask with.")]
AtMost = Annotated[str | None, typer.Option("--at-most", help="At most so many items of a value: author:2,category:3.")]
Diversity = Annotated[
    float | None,
    typer.Option(help="How much likeness counts against the score, from 0 to 1; takes half of the budget."),
]
Boosts = Annotated[
    list[str] | None, typer.Option("--boost", help="A factor on scores: '1.5: in_stock'; any number of times.")
]
Pins = Annotated[list[str] | None, typer.Option("--pin", help="An item at a place: 1:jazz-0007; any number of times.")]


def read_recipe(
    file: Path | None,
    name: str | None,
    at_most: str | None = None,
    diversity: float | None = None,
    boost: list[str] | None = None,
    pin: list[str] | None = None,
) -> Scenario:
    """Return what a file and options say together. Raises InvalidRulesError and InvalidScenariosError."""
    if (file is None) != (name is None):
        raise typer.BadParameter("--scenario-file and --scenario go together")
    scenario = Scenario()
    if file is not None and name is not None:
        scenarios = load_scenarios(file)
        if name not in scenarios:
            raise InvalidScenariosError([f"{file} has no scenario {name!r}; it has: {', '.join(scenarios) or 'none'}."])
        scenario = scenarios[name]
    given: dict[str, Any] = {
        "at_most": None if at_most is None else read_caps(at_most),
        "diversity": diversity,
        "boost": None if boost is None else _several(boost),
        "pin": None if pin is None else _pins(pin),
    }
    said = {rule: value for rule, value in given.items() if value is not None}
    names = ("at_most", "diversity", "boost", "pin")
    rules = Rules(**{rule: getattr(scenario.rules, rule) for rule in names} | said)
    return replace(scenario, rules=rules)


def _several(texts: list[str]) -> tuple[Boost, ...]:
    return tuple(read_boost(text) for text in texts)


def _pins(texts: list[str]) -> tuple[Pin, ...]:
    return tuple(read_pin(text) for text in texts)
