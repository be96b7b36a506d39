"""Directions: the axes along which the items are sorted.

An axis d gives two lists, the items by <h_j, d> from the largest and from the smallest, and a query follows the one
that the sign of <w, d> picks. With orthonormal axes <w, h> does not change, but how it is spread over the axes does,
and with it how much a few lists say about the whole.

    axes        the paper's: the coordinates that the model happens to have
    principal   eigenvectors of the items' second-moment matrix, and of the queries' if any are given
    sparse      the rotation in which queries and items live on few axes each (quartimax), fitted to samples of both
    graph       sparse axes, and beside their lists a graph from item to item that a walk follows (see graph.py)
    auto        whichever of these a calibration on held-out queries finds best
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from greedy_core.fit.sampling import SEED, unit_sample

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Matrix: TypeAlias = npt.NDArray[np.float64]

FixedKind: TypeAlias = Literal["axes", "principal", "sparse", "graph"]
Kind: TypeAlias = FixedKind | Literal["auto"]
FIXED_KINDS: tuple[FixedKind, ...] = get_args(FixedKind)
KINDS: tuple[Kind, ...] = (*FIXED_KINDS, "auto")

_BLOCK_ROWS = 1 << 16
_ITERATIONS = 60
# A step that gains less than this share is the last one.
_LEAST_GAIN = 1e-5


class Axes:
    """The axes of one set of items and queries, as rows (n_axes, n_dims). Each kind is computed once, when needed."""

    def __init__(self, items: Float32Array, queries: Float32Array | None) -> None:
        self._items = items
        self._queries = queries

    def of(self, kind: FixedKind) -> Float32Array | None:
        """Return the axes of a kind, or None where they are the coordinates. Those beside a graph are sparse."""
        if kind == "axes":
            return None
        return self._principal if kind == "principal" else self._sparse

    @cached_property
    def _principal(self) -> Float32Array:
        moment = second_moment(self._items)
        if self._queries is not None:
            moment = moment + second_moment(self._queries)
        return principal_axes(moment)

    @cached_property
    def _sparse(self) -> Float32Array:
        return sparse_axes(self._principal, self._items, self._items if self._queries is None else self._queries)


def second_moment(vectors: Float32Array) -> Matrix:
    """Return X'X scaled to trace 1, so that items and queries of any length count alike; zeros stay zeros."""
    n_dims = vectors.shape[1]
    moment = np.zeros((n_dims, n_dims))
    for start in range(0, len(vectors), _BLOCK_ROWS):
        block = vectors[start : start + _BLOCK_ROWS].astype(np.float64)
        moment += block.T @ block
    trace = np.trace(moment)
    return moment / trace if trace > 0 else moment


def principal_axes(moment: Matrix) -> Float32Array:
    """Return the eigenvectors of a symmetric matrix as rows, the largest eigenvalue first, with a fixed sign."""
    _, vectors = np.linalg.eigh(moment)
    axes = vectors.T[::-1]
    # An eigenvector's sign is arbitrary; the largest component is made positive so that builds agree.
    largest = axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)]
    return np.ascontiguousarray(axes * np.where(largest < 0, -1.0, 1.0)[:, None], dtype=np.float32)


def sparse_axes(start: Float32Array, items: Float32Array, queries: Float32Array) -> Float32Array:
    """Rotate the axes `start` until sampled queries and items have few large coordinates and many small ones.

    The criterion is quartimax, the sum of fourth powers of the coordinates of unit vectors. It is climbed by taking,
    again and again, the rotation nearest to the gradient, which never goes down. Long items are the ones that
    get found, so they are sampled by their squared length.
    """
    rng = np.random.default_rng(SEED)
    sample = np.concatenate([unit_sample(queries, rng), unit_sample(items, rng, by_length=True)])
    axes = start.astype(np.float64)
    before = 0.0
    for _ in range(_ITERATIONS):
        coordinates = sample @ axes.T
        # Two multiplications: a power of 3 goes through the general and far slower pow.
        gradient = (coordinates * coordinates * coordinates).T @ sample
        reached = float((gradient * axes).sum())
        if reached - before <= _LEAST_GAIN * reached:
            break
        before = reached
        axes = _nearest_rotation(gradient)
    return np.ascontiguousarray(axes, dtype=np.float32)


def _nearest_rotation(matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the rotation that is nearest to a square matrix."""
    try:
        left, _, right = np.linalg.svd(matrix)
    except np.linalg.LinAlgError:
        # LAPACK gives up on some matrices with rows of almost nothing, and not on their transposes.
        across, _, down = np.linalg.svd(np.ascontiguousarray(matrix.T))
        left, right = down.T, across.T
    rotation: npt.NDArray[np.float64] = left @ right
    return rotation
