"""Which requests are sent: a mix of budgets for users of the demo model, a few of them unknown.

Plain Python, because locust's workers import it too.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

BUDGET_CLASSES = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)


def budget_class(budget: int) -> str:
    """Return the class that the service's metrics put a granted budget into."""
    position = bisect_left(BUDGET_CLASSES, budget)
    return str(BUDGET_CLASSES[position]) if position < len(BUDGET_CLASSES) else "more"


@dataclass(frozen=True)
class Mix:
    """Budgets and their shares; users are 1 to `users`, and `unknown` of the requests name nobody."""

    shares: tuple[tuple[int, float], ...] = ((16, 0.15), (64, 0.4), (256, 0.3), (1024, 0.1), (4096, 0.05))
    users: int = 1000
    unknown: float = 0.02

    def draw(self, source: random.Random) -> tuple[int, str]:
        """Return a budget and the target of a request for it."""
        totals = list(accumulate(share for _, share in self.shares))
        budget = self.shares[bisect_left(totals, source.random() * totals[-1])][0]
        user = "nobody" if source.random() < self.unknown else str(source.randint(1, self.users))
        return budget, f"/recommend?user_id={user}&budget={budget}"


def equal_shares(*budgets: int) -> Mix:
    """Return a mix of known users only in which every budget is as frequent as any other."""
    return Mix(tuple((budget, 1.0) for budget in budgets), unknown=0.0)
