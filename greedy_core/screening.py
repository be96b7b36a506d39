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

    reads             how many entries screening by sums reads for each candidate: 16 take about as much time as the
                      candidate's inner product
    decomposed_reads  the same for a query with a decomposition
    """

    variant: Variant = "threshold"
    reads: int = 16
    decomposed_reads: int = 16

    def __str__(self) -> str:
        """Return what a table calls it."""
        if self.variant != "sum":
            return self.variant
        decomposed = "" if self.decomposed_reads == self.reads else f", {self.decomposed_reads} when decomposed"
        return f"sum of {self.reads} reads{decomposed}"

    @property
    def with_decomposition(self) -> Screening:
        """The screening of queries with a decomposition."""
        return replace(self, reads=self.decomposed_reads)

    @property
    def without_decomposition(self) -> Screening:
        """The screening of queries without one."""
        return replace(self, decomposed_reads=self.reads)

    @property
    def cost(self) -> int:
        """The cost in list entries per candidate. The paper's rule reads one entry, in the time that four take here."""
        return self.reads if self.variant == "sum" else 4

    def to_info(self) -> dict[str, Any]:
        """Return what a stored index says of itself; the keys are those of the format."""
        return {"variant": self.variant, "reads": self.reads, "routed_reads": self.decomposed_reads}

    @classmethod
    def from_info(cls, info: Mapping[str, Any]) -> Screening:
        """Return what `to_info` described, defaults where nothing is said. Raises CorruptModelError."""
        variant, reads = info.get("variant", cls.variant), info.get("reads", cls.reads)
        decomposed_reads = info.get("routed_reads", cls.decomposed_reads)
        if variant not in VARIANTS or not is_count(reads) or not is_count(decomposed_reads):
            raise CorruptModelError(
                f"the index says variant {variant!r}, reads {reads!r} and routed_reads {decomposed_reads!r}; "
                "write the model again."
            )
        return cls(variant, reads, decomposed_reads)


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a whole number from 1 that an int32 holds."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31
