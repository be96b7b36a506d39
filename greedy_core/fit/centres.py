"""Centres: directions in which many queries point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.fit.sampling import SEED, unit_sample

if TYPE_CHECKING:
    from greedy_core.embeddings import Float32Array

_MOST_CENTRES = 4096
# A centre stands for at least 8 queries, and is fitted to about 16.
_FEWEST_QUERIES, _MOST_QUERIES = 8, 16
_ITERATIONS = 8


def fit_centres(queries: Float32Array) -> Float32Array:
    """Return directions in which many of the queries point, as unit rows (n_centres, n_dims); fewer for few queries.

    Spherical k-means: a centre is the direction of the mean of the unit queries that are nearest to it.
    """
    rng = np.random.default_rng(SEED)
    n_centres = min(_MOST_CENTRES, max(1, len(queries) // _FEWEST_QUERIES))
    sample = unit_sample(queries, rng, most=_MOST_QUERIES * n_centres).astype(np.float32)
    if len(sample) == 0:
        return np.eye(1, queries.shape[1], dtype=np.float32)
    centres = sample[np.sort(rng.permutation(len(sample))[:n_centres])]
    for _ in range(_ITERATIONS):
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
