"""A sample of unit vectors, to fit directions to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

SEED = 20170818
_SAMPLE = 20_000


def unit_sample(
    vectors: Float32Array, rng: np.random.Generator, *, by_length: bool = False, most: int = _SAMPLE
) -> npt.NDArray[np.float64]:
    """Return at most `most` of the vectors at unit length, drawn evenly or by their squared length; none of zeros."""
    squared = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
    usable = np.flatnonzero(squared > 0)
    if len(usable) == 0:
        return np.zeros((0, vectors.shape[1]))
    weights = squared[usable] / squared[usable].sum() if by_length else None
    chosen = np.sort(rng.choice(usable, most, p=weights)) if len(usable) > most else usable
    unit: npt.NDArray[np.float64] = vectors[chosen] / np.sqrt(squared[chosen])[:, None]
    return unit
