"""Ids of any kind to numbers without gaps, batch by batch, in the order in which they first appear. Imports pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import numpy.typing as npt

# Ids of single batches that are kept before they are merged: bounds the memory when most rows have an id of their own.
_PENDING = 1 << 23


class Encoder:
    """Takes columns of ids, all of one type; gives a number for each row, and the ids in their order.

    Equal ids are found by pyarrow inside of a batch and again among the distinct ids of all batches, so nothing is
    done row by row in Python.
    """

    def __init__(self) -> None:
        self._codes: list[npt.NDArray[np.int32]] = []
        self._distinct: list[Any] = []
        self._merged = 0  # how many of the codes are by the first of `_distinct` already

    def add(self, ids: Any) -> None:
        """Take the ids of one batch."""
        encoded = ids.dictionary_encode()
        self._codes.append(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False))
        self._distinct.append(encoded.dictionary)
        if sum(map(len, self._distinct[1:])) > max(_PENDING, len(self._distinct[0])):
            self._merge()

    def finish(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        """Return the number of each row, and the ids as text: number n is id n."""
        if not self._codes:
            return np.empty(0, dtype=np.int32), []
        self._merge()
        return np.concatenate(self._codes), [str(value) for value in self._distinct[0].to_pylist()]

    def _merge(self) -> None:
        numbered = [
            pa.DictionaryArray.from_arrays(pa.array(np.arange(len(d), dtype=np.int32)), d) for d in self._distinct
        ]
        united = pa.chunked_array(numbered).unify_dictionaries()
        maps = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in united.chunks]
        # The first dictionary keeps its numbers; those that were merged before are numbered by it.
        first = 0 if self._merged == 0 else 1
        for at, mapping in enumerate(maps[first:], start=self._merged):
            self._codes[at] = mapping[self._codes[at]]
        self._distinct = [united.chunk(0).dictionary]
        self._merged = len(self._codes)
