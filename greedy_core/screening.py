"""Screening: which rule chooses the candidates, and how much it reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, get_args

from greedy_core.errors import CorruptModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The first four follow the paper's rule and differ in time only; the last has its own.
MaxVariant: TypeAlias = Literal["threshold", "improved-tree", "improved-heap", "original-tree"]
Variant: TypeAlias = MaxVariant | Literal["sum"]
MAX_VARIANTS: tuple[MaxVariant, ...] = get_args(MaxVariant)
VARIANTS: tuple[Variant, ...] = (*MAX_VARIANTS, "sum")


@dataclass(frozen=True)
class Screening:
    """How an index screens unless a search says otherwise.

    reads         how many entries screening by sums reads for each candidate: 16 take about as much time as the
                  candidate's inner product
    routed_reads  the same for a query with a route
    """

    variant: Variant = "threshold"
    reads: int = 16
    routed_reads: int = 16

    def __str__(self) -> str:
        """Return what a table calls it."""
        if self.variant != "sum":
            return self.variant
        routed = "" if self.routed_reads == self.reads else f", {self.routed_reads} on a route"
        return f"sum of {self.reads} reads{routed}"

    @property
    def routed(self) -> Screening:
        """The screening of queries with a route."""
        return replace(self, reads=self.routed_reads)

    @property
    def unrouted(self) -> Screening:
        """The screening of queries without one."""
        return replace(self, routed_reads=self.reads)

    @property
    def cost(self) -> int:
        """The entries read for each candidate. The paper's rule reads one and thinks for as long as four take."""
        return self.reads if self.variant == "sum" else 4

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Screening:
        """Return what a stored index says of itself. Raises CorruptModelError."""
        found = cls(
            info.get("variant", cls.variant), info.get("reads", cls.reads), info.get("routed_reads", cls.routed_reads)
        )
        if found.variant not in VARIANTS or not is_count(found.reads) or not is_count(found.routed_reads):
            raise CorruptModelError(
                f"the index says variant {found.variant!r}, reads {found.reads!r} and routed_reads "
                f"{found.routed_reads!r}; write the model again."
            )
        return found


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a whole number from 1 that an int32 holds."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
