"""Whether stored lists, codes and remembered items are what fitting would have made of the vectors they belong to.

These read everything, so they are for the verification of a model and not for its opening. Projections are computed
again; another machine's arithmetic may differ in the last digits, so they are compared within a tolerance.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from greedy_core.embeddings import MAX_MAGNITUDE
from greedy_core.errors import CorruptModelError
from greedy_core.fit.graph import compressed

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.graph import Compressed
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


def check_codes(items: Float32Array, coded: Compressed, centre: Float32Array | None = None) -> None:
    """Refuse compressed rows that are not those of the items."""
    expected = compressed(items, os.cpu_count() or 1, centre)
    fitting = np.array_equal(coded.codes, expected.codes) and np.array_equal(coded.details, expected.details)
    if not fitting or abs(coded.longest - expected.longest) > _TOLERANCE * expected.longest:
        raise CorruptModelError("the compressed rows of the index do not fit to its items; build the model again.")


def check_remembered(
    items: Float32Array,
    remembered: npt.NDArray[np.int32],
    queries: Float32Array,
    seen: Callable[[int], npt.NDArray[np.int32]] | None = None,
    *,
    name: str = "users.remembered",
) -> None:
    """Refuse remembered items that are not distinct, or not in the order of their products.

    A row ends with -1 where there are fewer items that its query has not seen.
    """
    step = max(1, _BLOCK_VALUES // max(1, remembered.shape[1] * items.shape[1]))
    for start in range(0, len(queries), step):
        ids, block = remembered[start : start + step], queries[start : start + step]
        is_item = ids >= 0
        # Entries without an item stand at the end, and differ from each other here.
        ordered = np.sort(np.where(is_item, ids, -1 - np.arange(ids.shape[1])), axis=1)
        distinct = np.asarray((np.diff(ordered, axis=1) > 0).all(axis=1))
        distinct &= (is_item[:, 1:] <= is_item[:, :-1]).all(axis=1)
        for short in np.flatnonzero(~is_item[:, -1]).tolist():
            n_seen = 0 if seen is None else len(np.unique(seen(start + short)))
            distinct[short] &= is_item[short].sum() == len(items) - n_seen
        products = np.einsum("ukd,ud->uk", items[np.maximum(ids, 0)], block, dtype=np.float64)
        # The largest product that there could be is as far as rounding can reach.
        tolerance = (
            _TOLERANCE * np.linalg.norm(block, axis=1) * np.linalg.norm(items[np.maximum(ids, 0)], axis=2).max(1)
        )
        rises = (np.diff(products, axis=1) > tolerance[:, None]) & is_item[:, 1:]
        in_order = ~rises.any(axis=1)
        if not (distinct & in_order).all():
            row = start + int(np.argmin(distinct & in_order))
            raise CorruptModelError(f"row {row} of {name} is not the best items of its query; build the model again.")
