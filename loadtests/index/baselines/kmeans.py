"""k-means MIPS: clusters of the transformed items."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from loadtests.index.baselines.build import compiled
from loadtests.index.baselines.method import Answers, Method, in_range, padded, validated
from loadtests.index.baselines.transforms import transform as apply_transform

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Centres are fitted to at most this many items for each cluster: they change little, most of the time is
# saved.
FITTED_PER_CLUSTER = 64


class KMeans(Method):
    """Auvolat et al. (2015): spherical k-means after a transform; a query reads its best clusters.

    One level of clusters, by default about sqrt(n_items) of them. Rows are kept in the order of the clusters.
    """

    name: ClassVar[str] = "k-means MIPS"

    def __init__(self, items: NDArray[np.float32], clusters: int, transform: str, iterations: int, seed: int) -> None:
        super().__init__(*items.shape)
        self.n_clusters = clusters
        transformed, _ = apply_transform(items, transform)
        transformed /= np.maximum(np.linalg.norm(transformed, axis=1, keepdims=True), np.float32(1e-30))
        self.centres = spherical_centres(transformed, clusters, iterations, seed)
        self.cluster_of = nearest_centre(transformed, self.centres)
        order = np.argsort(self.cluster_of, kind="stable").astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.cluster_of, minlength=clusters))])
        self.clusters = compiled().Clusters(padded(self.centres[:, : self.n_dims]), starts.astype(np.int64))
        self._rows = compiled().Rows(padded(items[order]), order)

    @classmethod
    def build(
        cls,
        items: ArrayLike,
        *,
        clusters: int | None = None,
        transform: str = "eq2",
        iterations: int = 10,
        seed: int = 0,
    ) -> Self:
        """Transform, fit the centres and put every item into its cluster."""
        matrix = validated(items)
        wanted = max(1, round(len(matrix) ** 0.5)) if clusters is None else clusters
        return cls(matrix, in_range("clusters", wanted, 1, len(matrix)), transform, iterations, seed)

    def _search(self, queries: NDArray[np.float32], top_k: int, *, probes: int = 8) -> Answers:
        probes = in_range("probes", probes, 1)
        ids, scores, candidates = self.clusters.search(self._rows, padded(queries), top_k, probes)
        return Answers(ids, scores, candidates, candidates + self.n_clusters)


def nearest_centre(vectors: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """For every vector the centre with the largest inner product, in pieces that stay small."""
    piece = max(1, (1 << 24) // len(centres))
    nearest = np.empty(len(vectors), dtype=np.int64)
    for begin in range(0, len(vectors), piece):
        nearest[begin : begin + piece] = (vectors[begin : begin + piece] @ centres.T).argmax(axis=1)
    return nearest


def spherical_centres(vectors: NDArray[np.float32], clusters: int, iterations: int, seed: int) -> NDArray[np.float32]:
    """Lloyd's iterations on unit vectors; a cluster that runs empty starts again at a random vector."""
    rng = np.random.default_rng(seed)
    fitted = vectors
    if len(vectors) > clusters * FITTED_PER_CLUSTER:
        fitted = vectors[rng.choice(len(vectors), clusters * FITTED_PER_CLUSTER, replace=False)]
    centres = fitted[rng.choice(len(fitted), clusters, replace=False)].copy()
    for _ in range(iterations):
        nearest = nearest_centre(fitted, centres)
        order = np.argsort(nearest, kind="stable")
        occupied, begins = np.unique(nearest[order], return_index=True)
        centres[occupied] = np.add.reduceat(fitted[order], begins, axis=0)
        empty = np.setdiff1d(np.arange(clusters), occupied)
        centres[empty] = fitted[rng.choice(len(fitted), empty.size)]
        centres /= np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), np.float32(1e-30))
    return centres
