"""An experiment: which of several models a user gets, decided by a hash and remembered nowhere.

Every arm draws a number between 0 and 1 for the user, from a hash of the experiment's name, its own name and the user's
id; the arm with the smallest -ln(number) / share wins (weighted rendezvous hashing). So the same user has the same arm
in every worker, on every replica and after every restart; an arm whose share grows only wins users, and one that is
taken away leaves the users of the others where they are.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
EXAMPLE = '{"name": "two-towers", "arms": {"main": 0.9, "new": 0.1}}'

_LARGEST_SHARE = 1e9


@dataclass(frozen=True)
class Experiment:
    """A name, and for each arm, which is the name of a model, its share of the users, relative to the sum of all.

    The name is part of the hash: another one deals the users anew.
    """

    name: str
    shares: Mapping[str, float]

    @classmethod
    def read(cls, given: object) -> Experiment:
        """Read what the settings say, a JSON text or an object. A ValueError says what is wrong."""
        if isinstance(given, cls):
            return given
        found: Any = given
        if isinstance(given, str):
            try:
                found = json.loads(given)
            except ValueError:
                found = None
        if not isinstance(found, dict) or set(found) != {"name", "arms"} or not isinstance(found["arms"], dict):
            raise ValueError(f"an experiment is an object with a name and arms, as {EXAMPLE}")
        name, arms = found["name"], found["arms"]
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:80]!r} is no name for an experiment; use up to 64 letters, digits, - and _")
        for arm, share in arms.items():
            is_number = isinstance(share, int | float) and not isinstance(share, bool)
            if not is_number or not 0 <= share <= _LARGEST_SHARE:
                raise ValueError(
                    f"the share of {str(arm)[:80]} in the experiment {name} is {share!r}; give a number from 0 up"
                )
        if not any(arms.values()):
            raise ValueError(f"the experiment {name} gives no arm a share; give at least one a number above 0")
        return cls(name, {arm: float(share) for arm, share in arms.items()})

    def check(self, models: Collection[str]) -> None:
        """Raise a ValueError if an arm is no model of the service."""
        for arm in self.shares:
            if arm not in models:
                raise ValueError(
                    f"the experiment {self.name} has the arm {arm[:80]!r}, and the models are: {', '.join(models)}"
                )

    def share(self, arm: str) -> float:
        """Return the share of all users that an arm gets."""
        return self.shares.get(arm, 0.0) / sum(self.shares.values())

    def arm_of(self, user_id: str) -> str:
        """Return the arm of a user; a microsecond or two for each arm."""
        return min((arm for arm, share in self.shares.items() if share), key=lambda arm: self._distance(arm, user_id))

    def _distance(self, arm: str, user_id: str) -> float:
        text = f"{self.name}\0{arm}\0{user_id}".encode()
        drawn = (int.from_bytes(blake2b(text, digest_size=8).digest()) + 0.5) / 2**64
        return -math.log(drawn) / self.shares[arm]
