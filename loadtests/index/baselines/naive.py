"""Naive-MIPS, the paper's kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import Answers, Method, validated

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class NaiveFullSort(Method):
    """Inner products in double, one addition at a time, and a full sort: the paper's speed-ups are over this.

    Our own naive scan (float32, SIMD, a bounded selection) is `greedy_core.ExactIndex`.
    """

    name: ClassVar[str] = "Naive-MIPS"

    def __init__(self, items: NDArray[np.float32]) -> None:
        super().__init__(*items.shape)
        self._items = np.ascontiguousarray(items, dtype=np.float64)

    @classmethod
    def build(cls, items: ArrayLike) -> Self:
        """Copy the items to double."""
        return cls(validated(items))

    def _search(self, queries: NDArray[np.float32], top_k: int) -> Answers:
        rows = np.ascontiguousarray(queries, dtype=np.float64)
        ids, scores, candidates = compiled().naive_search(self._items, rows, top_k)
        return Answers(ids, scores, candidates, candidates)
