"""Directions: the axes along which the items are sorted.

An axis d gives two lists, the items by <h_j, d> from the largest and from the smallest, and a query follows the one
that the sign of <w, d> picks. With orthonormal axes <w, h> does not change, but how it is spread over the axes does,
and with it how much a few lists say about the whole.

    axes        the paper's: the coordinates that the model happens to have
    principal   eigenvectors of the items' second-moment matrix, and of the queries' if any are given
    sparse      the rotation in which queries and items live on few axes each (quartimax), fitted to samples of both
    learned     sparse axes, and beside them centres: directions in which many queries point (spherical k-means)
    auto        whichever of these a calibration on held-out queries finds best

A centre gives one list, along it. Queries follow the axes; one whose nearest centres were looked up beforehand, as
those of a known user are, follows both (see routes.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Matrix: TypeAlias = npt.NDArray[np.float64]

FixedKind: TypeAlias = Literal["axes", "principal", "sparse", "learned"]
Kind: TypeAlias = FixedKind | Literal["auto"]
FIXED_KINDS: tuple[FixedKind, ...] = get_args(FixedKind)
KINDS: tuple[Kind, ...] = (*FIXED_KINDS, "auto")

_BLOCK_ROWS = 1 << 16
_SAMPLE = 20_000
_MOST_CENTRES = 4096
# So many queries speak for a centre at least, and no more than so many are asked.
_FEWEST_QUERIES, _MOST_QUERIES = 8, 16
_CENTRE_ITERATIONS = 8
_ITERATIONS = 60
# A step that gains less than this share is the last one.
_LEAST_GAIN = 1e-5
_SEED = 20170818


def fit_axes(kind: FixedKind, items: Float32Array, queries: Float32Array | None) -> Float32Array | None:
    """Return the axes as rows, (n_axes, n_dims), or None where they are the coordinates. Learned ones are sparse."""
    if kind == "axes":
        return None
    moment = second_moment(items)
    if queries is not None:
        moment = moment + second_moment(queries)
    axes = principal_axes(moment)
    return axes if kind == "principal" else sparse_axes(axes, items, items if queries is None else queries)


def fit_centres(queries: Float32Array) -> Float32Array:
    """Return directions in which many of the queries point, as unit rows (n_centres, n_dims); fewer for few queries.

    Spherical k-means: a centre is the direction of the mean of the unit queries that are nearest to it.
    """
    rng = np.random.default_rng(_SEED)
    n_centres = min(_MOST_CENTRES, max(1, len(queries) // _FEWEST_QUERIES))
    sample = _unit_sample(queries, rng, most=_MOST_QUERIES * n_centres).astype(np.float32)
    if len(sample) == 0:
        return np.eye(1, queries.shape[1], dtype=np.float32)
    centres = sample[np.sort(rng.permutation(len(sample))[:n_centres])]
    for _ in range(_CENTRE_ITERATIONS):
        nearest = np.concatenate(
            [(block @ centres.T).argmax(axis=1) for block in np.array_split(sample, max(1, len(sample) // 4096))]
        )
        order = np.argsort(nearest, kind="stable")
        first = np.flatnonzero(np.diff(nearest[order], prepend=-1))
        means = np.add.reduceat(sample[order], first, axis=0)
        length = np.linalg.norm(means, axis=1, keepdims=True)
        # A centre that nobody is nearest to stays where it is; so does one whose queries cancel out.
        found = nearest[order][first]
        centres[found] = np.where(length > 0, means / np.where(length > 0, length, 1), centres[found])
    return np.ascontiguousarray(centres)


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
    rng = np.random.default_rng(_SEED)
    sample = np.concatenate([_unit_sample(queries, rng), _unit_sample(items, rng, by_length=True)])
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
        left, _, right = np.linalg.svd(gradient)
        axes = left @ right
    return np.ascontiguousarray(axes, dtype=np.float32)


def _unit_sample(
    vectors: Float32Array, rng: np.random.Generator, *, by_length: bool = False, most: int = _SAMPLE
) -> Matrix:
    squared = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    usable = np.flatnonzero(squared > 0)
    if len(usable) == 0:
        return np.zeros((0, vectors.shape[1]))
    weights = squared[usable] / squared[usable].sum() if by_length else None
    chosen = np.sort(rng.choice(usable, most, p=weights)) if len(usable) > most else usable
    unit: Matrix = vectors[chosen] / np.sqrt(squared[chosen])[:, None]
    return unit
