"""The scenarios that all workers follow.

They lie in shared memory as JSON: the worker that is told to read the file again publishes what it found, if nothing is
wrong with it, and the others see it a moment later. A worker that is started later finds what was published last.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from greedy_core import LARGEST_SCENARIOS_FILE, Filter, read_scenarios
from service.models.shared_text import SharedText

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greedy_core import Attributes, Scenario

# JSON may take more room than what it was read from.
SCENARIOS_BYTES = 4 * LARGEST_SCENARIOS_FILE


def publish(descriptor: int, scenarios: Mapping[str, Scenario]) -> None:
    """Write the first scenarios to new memory."""
    shared = SharedText(descriptor, SCENARIOS_BYTES)
    shared.write(1, _text(scenarios))
    shared.close()


class ServedScenarios:
    """The scenarios of one worker. Changed by the event loop's thread only."""

    def __init__(self, descriptor: int, named: Mapping[str, str]) -> None:
        """Follow what is in shared memory; `named` are the filters of the settings."""
        self._shared = SharedText(descriptor, SCENARIOS_BYTES)
        self._named = {name: Filter(text) for name, text in named.items()}
        self._generation = 0
        self.by_name: Mapping[str, Scenario] = {}
        self.follow()

    def follow(self) -> None:
        """Take what was published since the last look, which costs nothing if there is nothing."""
        if self._shared.generation != self._generation:
            self._generation, text = self._shared.read()
            self.by_name = read_scenarios(json.loads(text), self._named)

    def publish(self, scenarios: Mapping[str, Scenario]) -> None:
        """Have all workers follow these."""
        self._shared.write(self._shared.generation + 1, _text(scenarios))
        self.follow()

    def check(self, attributes: Attributes, scenarios: Mapping[str, Scenario] | None = None) -> None:
        """Raise InvalidScenariosError if a model with these attributes does not fit to a scenario."""
        for scenario in (self.by_name if scenarios is None else scenarios).values():
            scenario.check(attributes, self._named)

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.close()


def _text(scenarios: Mapping[str, Scenario]) -> bytes:
    recipes = {name: scenario.to_dict() for name, scenario in scenarios.items()}
    for recipe in recipes.values():
        del recipe["name"]
    return json.dumps(recipes).encode()
