"""LSH-MIPS: random projections, AND of `bits` within OR of `tables`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import Answers, Method, in_range, padded, validated
from loadtests.index.baselines.transforms import transform as apply_transform

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_BITS = 20


class Lsh(Method):
    """Sign random projections of the transformed items (Neyshabur and Srebro 2015).

    The paper's `a` is `bits`, its `b` is `tables`. Items and queries are hashed with the same vectors. Tables and bits
    are independent, so one build answers for every smaller number of either too. `foreign_queries` hashes queries
    with other vectors than the items, as the code published with the paper does: it is there to show what
    that costs.
    """

    name: ClassVar[str] = "LSH-MIPS"

    def __init__(
        self,
        items: NDArray[np.float32],
        bits: int,
        tables: int,
        transform: str,
        seed: int,
        foreign_queries: bool,
    ) -> None:
        super().__init__(*items.shape)
        self.bits, self.tables = bits, tables
        transformed, _ = apply_transform(items, transform)
        shape = (tables * bits, transformed.shape[1])
        self.directions = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
        asked = self.directions
        if foreign_queries:
            asked = np.random.default_rng([seed, 1]).standard_normal(shape, dtype=np.float32)
        self.hashes = compiled().HashTables(self.n_items, bits, tables, padded(asked[:, : self.n_dims]))
        for table in range(tables):
            own = self.directions[table * bits : (table + 1) * bits]
            self.hashes.fill(table, np.ascontiguousarray(transformed @ own.T))
        self._rows = compiled().Rows(padded(items))

    @classmethod
    def build(
        cls,
        items: ArrayLike,
        *,
        bits: int = 8,
        tables: int = 16,
        transform: str = "eq2",
        seed: int = 0,
        foreign_queries: bool = False,
    ) -> Self:
        """Transform and hash all items into every table."""
        return cls(
            validated(items),
            in_range("bits", bits, 1, MAX_BITS),
            in_range("tables", tables, 1),
            transform,
            seed,
            foreign_queries,
        )

    def _search(
        self, queries: NDArray[np.float32], top_k: int, *, bits: int | None = None, tables: int | None = None
    ) -> Answers:
        compared = self.bits if bits is None else in_range("bits", bits, 1, self.bits)
        read = self.tables if tables is None else in_range("tables", tables, 1, self.tables)
        ids, scores, candidates = self.hashes.search(self._rows, padded(queries), top_k, compared, read)
        return Answers(ids, scores, candidates, candidates + read * compared)
