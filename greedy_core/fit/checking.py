"""Whether stored lists and decompositions are what fitting would have made of the vectors they belong to.

These read everything, so they are for the verification of a model and not for its opening. Projections are computed
again; another machine's arithmetic may differ in the last digits, so they are compared within a tolerance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.embeddings import MAX_MAGNITUDE
from greedy_core.errors import CorruptModelError

if TYPE_CHECKING:
    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.sorting import Lists

# A share of an item's length.
_TOLERANCE = 1e-4
_BLOCK_VALUES = 1 << 22
_BLOCK_AXES = 16


def check_vectors(name: str, vectors: Float32Array) -> None:
    """Refuse vectors that the gate of embeddings.py would refuse."""
    step = max(1, _BLOCK_VALUES // vectors.shape[1])
    for start in range(0, len(vectors), step):
        usable = np.abs(vectors[start : start + step]) <= MAX_MAGNITUDE
        if not usable.all():
            row = start + int(np.argmax(~usable.all(axis=1)))
            raise CorruptModelError(
                f"row {row} of {name} has a value that is not finite or above {MAX_MAGNITUDE:g}; build the model again."
            )


def check_unit(name: str, directions: Float32Array) -> None:
    """Refuse directions that are not unit vectors."""
    if (np.abs(np.linalg.norm(directions, axis=1) - 1) > 10 * _TOLERANCE).any():
        raise CorruptModelError(f"the {name} of the index are not unit vectors; build the model again.")


def check_axis_lists(items: Float32Array, axes: Float32Array | None, lists: Lists) -> None:
    """Refuse lists along axes that hold another value than the item's, or pass over an item that belongs into them."""
    lengths = np.sqrt(np.einsum("ij,ij->i", items, items, dtype=np.float64)).astype(np.float32)
    tolerance = lengths * np.float32(_TOLERANCE)
    for start in range(0, items.shape[1], _BLOCK_AXES):
        block = slice(start, min(start + _BLOCK_AXES, items.shape[1]))
        columns = items[:, block] if axes is None else items @ axes[block].T
        for t, column in enumerate(np.ascontiguousarray(columns.T), start):
            for along, values in ((2 * t, column), (2 * t + 1, -column)):
                ids, listed = lists.ids[along], lists.values[along]
                missed = values > listed[-1] + tolerance
                missed[ids] = False
                if missed.any() or (np.abs(values[ids] - listed) > tolerance[ids]).any():
                    raise CorruptModelError(f"list {along} of the index does not fit to its items; build it again.")


def check_centre_lists(items: Float32Array, centres: Float32Array, lists: Lists) -> None:
    """Refuse lists along centres that hold another value than the item's, or an item twice."""
    for centre, (ids, listed) in enumerate(zip(lists.ids, lists.values, strict=True)):
        rows = items[ids]
        tolerance = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)) * _TOLERANCE
        if len(np.unique(ids)) < len(ids) or (np.abs(rows @ centres[centre] - listed) > tolerance).any():
            raise CorruptModelError(f"the list of centre {centre} does not fit to its items; build the model again.")


def check_decompositions(
    stored: Float32Array, queries: Float32Array, axes: Float32Array | None, centres: Float32Array | None
) -> None:
    """Refuse decompositions that do not add up to the queries at unit length."""
    n_axes = queries.shape[1] if axes is None else len(axes)
    followed = (stored.shape[1] - n_axes) // 2
    step = max(1, _BLOCK_VALUES // max(1, queries.shape[1] * (1 + followed)))
    for start in range(0, len(queries), step):
        rows, block = stored[start : start + step], queries[start : start + step].astype(np.float64)
        numbers = rows[:, n_axes + followed :]
        n_centres = 0 if centres is None else len(centres)
        sensible = ((numbers >= 0) & (numbers < n_centres) & (numbers == np.floor(numbers))).all(axis=1)
        sensible &= (np.abs(rows[:, : n_axes + followed]) <= MAX_MAGNITUDE).all(axis=1)
        if sensible.all():
            sums = rows[:, :n_axes] if axes is None else rows[:, :n_axes] @ axes
            if centres is not None:
                weights = rows[:, None, n_axes : n_axes + followed]
                sums = sums + (weights @ centres[numbers.astype(np.intp)])[:, 0]
            length = np.linalg.norm(block, axis=1, keepdims=True)
            unit = block / np.where(length > 0, length, 1)
            sensible = (np.abs(sums - unit) <= 10 * _TOLERANCE).all(axis=1)
        if not sensible.all():
            row = start + int(np.argmax(~sensible))
            raise CorruptModelError(
                f"row {row} of users.routes is not what the user's vector is made of; build the model again."
            )
