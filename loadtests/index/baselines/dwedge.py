"""dWedge: wedge sampling made deterministic."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import Answers, Method, columns, in_range, padded, validated

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


class Dwedge(Method):
    """Lorenzen and Pham (2020), the strongest budgeted sampler after the paper.

    An entry takes at least one sample, so a list is never read past its share, and lists are cut to
    `max_samples` entries.
    """

    name: ClassVar[str] = "dWedge"

    def __init__(self, items: NDArray[np.float32], max_samples: int) -> None:
        super().__init__(*items.shape)
        self.max_samples = max_samples
        self.wedge = compiled().Dwedge(self.n_items, self.n_dims, min(self.n_items, max_samples))
        for t, column in columns(items):
            self.wedge.fill(t, column)
        self._rows = compiled().Rows(padded(items))

    @classmethod
    def build(cls, items: ArrayLike, *, max_samples: int = 65_536) -> Self:
        """Sort every column by absolute value."""
        return cls(validated(items), in_range("max_samples", max_samples, 1))

    def _search(self, queries: NDArray[np.float32], top_k: int, *, samples: int = 1024, budget: int = 128) -> Answers:
        samples = in_range("samples", samples, 1, self.max_samples)
        budget = in_range("budget", budget, 1)
        ids, scores, candidates = self.wedge.search(self._rows, padded(queries), top_k, samples, budget)
        return Answers(ids, scores, candidates, candidates)
