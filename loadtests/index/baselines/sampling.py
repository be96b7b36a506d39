"""Sample-MIPS and Diamond-MSIPS: items met by drawing entries of Z."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import (
    Answers,
    Method,
    UnsuitableDataError,
    columns,
    in_range,
    padded,
    validated,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class _Sampling(Method):
    """Draws (j, t) with probability proportional to |h_jt w_t| from one alias table for each column."""

    diamond: ClassVar[bool]

    def __init__(self, items: NDArray[np.float32]) -> None:
        super().__init__(*items.shape)
        rows = padded(items)
        self.sampling = compiled().Sampling(rows, self.n_dims, self.diamond)
        for t, column in columns(items):
            self.sampling.fill(t, np.abs(column))
        self._rows = compiled().Rows(rows)

    @classmethod
    def build(cls, items: ArrayLike) -> Self:
        """Fill an alias table for every column."""
        return cls(validated(items))

    def _search(
        self,
        queries: NDArray[np.float32],
        top_k: int,
        *,
        samples: int = 1024,
        budget: int | None = None,
        seed: int = 0,
    ) -> Answers:
        """`budget` items of best score are ranked; by default every item that was met, as the paper does."""
        samples = in_range("samples", samples, 1)
        budget = samples if budget is None else in_range("budget", budget, 1)
        ids, scores, candidates = self.sampling.search(self._rows, padded(queries), top_k, samples, budget, seed)
        return Answers(ids, scores, candidates, candidates)


class Sample(_Sampling):
    """Cohen and Lewis (1997): the count of an item estimates its inner product; data must not be negative."""

    name: ClassVar[str] = "Sample-MIPS"
    diamond: ClassVar[bool] = False

    @classmethod
    def build(cls, items: ArrayLike) -> Self:
        """Fill an alias table for every column, or refuse negative items."""
        matrix = validated(items)
        _refuse_negatives("Items", matrix)
        return cls(matrix)

    def _search(self, queries: NDArray[np.float32], top_k: int, **knobs: int) -> Answers:
        _refuse_negatives("Queries", queries)
        return super()._search(queries, top_k, **knobs)


class Diamond(_Sampling):
    """Ballard et al. (2015): the score of an item estimates its *squared* inner product."""

    name: ClassVar[str] = "Diamond-MSIPS"
    diamond: ClassVar[bool] = True


def _refuse_negatives(what: str, matrix: NDArray[np.float32]) -> None:
    smallest = float(matrix.min())
    if smallest < 0.0:
        raise UnsuitableDataError(
            f"{what} hold negative values (smallest {smallest:.3g}), and Sample-MIPS draws entries with "
            "probability proportional to h_jt * w_t, which must not be negative; use Diamond-MSIPS or dWedge."
        )
