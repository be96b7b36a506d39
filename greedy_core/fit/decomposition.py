"""Decompositions: what a query is made of, worked out before it is asked.

    w  =  sum over its nearest centres of  a_l d_l   +   what is left, on the axes

An item's product with w is the same sum of its products with centres and axes, so screening by sums reads the lists of
both. The nearest centres already say most about a query; what is left is small and spread, and its lists are read
less. Finding the nearest costs a product with every centre: too much for a request, nothing when a model is built.

A decomposition is a row of float32: a weight for every axis, one for each centre followed, and those centres' numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

# How many centres a query follows, and the ridge of the regression on them, which keeps their weights from growing
# against each other.
FOLLOWED = 8
_RIDGE = 0.1
_BLOCK_ROWS = 1 << 11


def decomposition_length(n_axes: int, n_centres: int) -> int:
    """Return how many numbers a decomposition has."""
    return n_axes + 2 * min(FOLLOWED, n_centres)


def decompose(
    queries: Float32Array, axes: Float32Array | None, centres: Float32Array | None, *, show: bool = False
) -> Float32Array:
    """Return a decomposition for each query, (n_queries, decomposition_length). Queries are taken at unit length."""
    n_axes = queries.shape[1] if axes is None else len(axes)
    n_centres = 0 if centres is None else len(centres)
    followed = min(FOLLOWED, n_centres)
    decompositions = np.empty((len(queries), decomposition_length(n_axes, n_centres)), dtype=np.float32)
    with progress_bar("finding decompositions", len(queries), show=show) as advance:
        for start in range(0, len(queries), _BLOCK_ROWS):
            block = _unit(queries[start : start + _BLOCK_ROWS])
            rows = decompositions[start : start + _BLOCK_ROWS]
            left = block
            if centres is not None:
                nearest = _nearest(block, centres, followed)
                directions = centres[nearest]
                weights = _regression(block, directions)
                left = block - (weights[:, None, :] @ directions)[:, 0]
                rows[:, n_axes : n_axes + followed] = weights
                rows[:, n_axes + followed :] = nearest
            rows[:, :n_axes] = left if axes is None else left @ axes.T
            advance(len(block))
    return decompositions


def _unit(vectors: Float32Array) -> Float32Array:
    # In two steps, since the square of a very long or very short vector is no float32.
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    scaled = vectors / np.where(largest > 0, largest, 1)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return (scaled / np.where(length > 0, length, 1)).astype(np.float32, copy=False)


def _nearest(queries: Float32Array, centres: Float32Array, followed: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the nearest centres, nearest first."""
    nearness = queries @ centres.T
    nearest = np.empty((len(queries), followed), dtype=np.intp)
    for place in range(followed):
        # A few passes over all are faster than any partial sort.
        best = nearness.argmax(axis=1, keepdims=True)
        np.put_along_axis(nearness, best, -np.inf, axis=1)
        nearest[:, place] = best[:, 0]
    return nearest


def _regression(queries: Float32Array, directions: Float32Array) -> Float32Array:
    """Return the ridge regression of each query (q, d) on its own directions (q, p, d)."""
    system = directions @ directions.transpose(0, 2, 1) + _RIDGE * np.eye(directions.shape[1], dtype=np.float32)
    weights: Float32Array = np.linalg.solve(system, directions @ queries[..., None])[..., 0]
    return weights
