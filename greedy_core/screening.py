"""Screening: which rule chooses the candidates, and how much it reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, get_args

from greedy_core.errors import CorruptModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

# The first four follow the paper's rule and differ in time only; the others have their own.
MaxVariant: TypeAlias = Literal["threshold", "improved-tree", "improved-heap", "original-tree"]
Variant: TypeAlias = MaxVariant | Literal["sum", "walk"]
MAX_VARIANTS: tuple[MaxVariant, ...] = get_args(MaxVariant)
VARIANTS: tuple[Variant, ...] = (*MAX_VARIANTS, "sum", "walk")


@dataclass(frozen=True)
class Screening:
    """How an index screens unless a search says otherwise.

    variant  threshold and the like: the paper's rule; sum: past it, by lists; walk: past it, by a graph
    reads    how many entries screening by sums reads for each candidate: 16 take about as much time as the candidate's
             inner product
    """

    variant: Variant = "threshold"
    reads: int = 16

    def __str__(self) -> str:
        """Return what a table calls it."""
        return f"sum of {self.reads} reads" if self.variant == "sum" else self.variant

    @property
    def cost(self) -> int:
        """The cost of one product of the budget and all that comes before it, in list entries; a product alone is 16.

        The paper's rule reads one entry for a candidate, in the time that four take here. A walk estimates some ten
        items for each product.
        """
        if self.variant == "walk":
            return 64
        return 16 + (self.reads if self.variant == "sum" else 4)

    def to_info(self) -> dict[str, Any]:
        """Return what a stored index says of itself; the keys are those of the format."""
        return {"variant": self.variant, "reads": self.reads}

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Screening:
        """Return what `to_info` described, defaults where nothing is said. Raises CorruptModelError."""
        variant, reads = info.get("variant", cls.variant), info.get("reads", cls.reads)
        if variant not in VARIANTS or not is_count(reads):
            raise CorruptModelError(f"the index says variant {variant!r} and reads {reads!r}; write the model again.")
        return cls(variant, reads)


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a whole number from 1 that an int32 holds."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
