"""PCA-MIPS: a complete PCA tree with neighbourhood boosting."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import Answers, Method, in_range, padded, validated
from loadtests.index.baselines.transforms import transform as apply_transform

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MAX_DEPTH = 24


class PcaTree(Method):
    """The tree of Bachrach et al. (2014) on the items transformed by eq. 2.

    Level d splits every node at its own median along principal component d; the components are those of all
    items. With more levels than components they are used again from the first. A query is scaled to the
    sphere of the items, goes down to its leaf, and with `boost` also reads the leaves whose code differs in
    one bit. Rows are kept in the order of the leaves, so a leaf is read from one stretch of memory. A tree is every
    shallower tree too: its nodes on level `depth` are the leaves of that one.
    """

    name: ClassVar[str] = "PCA-MIPS"

    def __init__(self, items: NDArray[np.float32], depth: int, transform: str) -> None:
        super().__init__(*items.shape)
        self.depth = depth
        transformed, radius = apply_transform(items, transform)
        components = principal_components(transformed)
        used = components[np.arange(depth) % len(components)]
        self.projections = np.ascontiguousarray(used @ transformed.T)
        self.tree = compiled().PcaTree(self.projections, padded(used[:, : self.n_dims]), radius)
        self._rows = compiled().Rows(padded(items[self.tree.order]), self.tree.order)

    @classmethod
    def build(cls, items: ArrayLike, *, depth: int = 8, transform: str = "eq2") -> Self:
        """Transform, find the components, and split level by level."""
        return cls(validated(items), in_range("depth", depth, 1, MAX_DEPTH), transform)

    def leaf_of(self, w: ArrayLike, *, root_pivots: bool = False) -> int:
        """Return the number of the leaf that a query falls into."""
        return self.tree.leaf_of(padded(np.asarray(w, dtype=np.float32)[None, :])[0], root_pivots)

    def _search(
        self,
        queries: NDArray[np.float32],
        top_k: int,
        *,
        depth: int | None = None,
        boost: bool = True,
        root_pivots: bool = False,
    ) -> Answers:
        """Answer; `root_pivots` compares with the root's pivot at every level, the published code's slip."""
        levels = self.depth if depth is None else in_range("depth", depth, 1, self.depth)
        ids, scores, candidates = self.tree.search(self._rows, padded(queries), top_k, levels, boost, root_pivots)
        return Answers(ids, scores, candidates, candidates + levels)


def principal_components(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit eigenvectors of the covariance, one per row, largest variance first, signs fixed."""
    mean = vectors.mean(axis=0, dtype=np.float64)
    scatter = (vectors.T @ vectors).astype(np.float64) / len(vectors) - np.outer(mean, mean)
    _, vectors_of = np.linalg.eigh(scatter)
    components = vectors_of.T[::-1]
    heaviest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), heaviest])
    return np.ascontiguousarray(components * signs[:, None], dtype=np.float32)
