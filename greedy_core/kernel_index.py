"""What every compiled index does: search, screen, search many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from greedy_core._kernel import Variant as NativeVariant
from greedy_core.bundle import storage
from greedy_core.embeddings import CACHE_LINE_FLOATS
from greedy_core.errors import CorruptModelError, InvalidQueryError
from greedy_core.screening import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core._kernel import Kernel
    from greedy_core.embeddings import Float32Array
    from greedy_core.result import SearchResult
    from greedy_core.screening import Variant

_NATIVE = {name: NativeVariant[name.replace("-", "_")] for name in VARIANTS}


def stored_array(arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Return a named matrix from a file, or say what is wrong with it."""
    array = arrays.get(name)
    if array is None or array.ndim != 2 or array.dtype != dtype or not array.flags.c_contiguous:
        found = "missing" if array is None else f"{array.dtype} {array.shape}"
        raise CorruptModelError(
            f"the array {name} must be a matrix of {dtype.__name__}, but it is {found}; write the model again."
        )
    return array


def rows_from(arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> tuple[Float32Array, int]:
    """Return the padded item rows from a file, and how many of their columns are dimensions."""
    rows, n_dims = stored_array(arrays, "rows", np.float32), info.get("n_dims")
    n_items, stride = rows.shape
    if n_items == 0 or stride % CACHE_LINE_FLOATS or not isinstance(n_dims, int) or not 0 < n_dims <= stride:
        raise CorruptModelError(
            f"rows of shape {rows.shape} do not fit to {n_dims!r} dimensions; write the model again."
        )
    return rows, n_dims


class KernelIndex(ABC):
    """The common part of GreedyIndex and ExactIndex. Immutable; any number of threads may search it at once."""

    kind: ClassVar[str]
    default_budget: ClassVar[int]

    def __init__(self, kernel: Kernel, rows: Float32Array, n_dims: int, variant: Variant) -> None:
        self._kernel = kernel
        self._rows = rows
        self._n_dims = n_dims
        self._variant = _NATIVE[variant]

    @property
    def n_items(self) -> int:
        """How many items are indexed."""
        return len(self._rows)

    @property
    def n_dims(self) -> int:
        """How long a vector is."""
        return self._n_dims

    @property
    def items(self) -> Float32Array:
        """The item vectors, (n_items, n_dims), as a view of the index's own rows."""
        return self._rows[:, : self._n_dims]

    def search(
        self,
        query: npt.ArrayLike,
        top_k: int = 10,
        budget: int | None = None,
        exclude: npt.ArrayLike | None = None,
        variant: Variant | None = None,
        remembered: npt.NDArray[np.int32] | None = None,
    ) -> SearchResult:
        """Return the best `top_k` items that `budget` inner products find.

        exclude     positions of items that must not appear; no exact product is spent on them
        variant     how candidates are screened: the index's own way, or one of VARIANTS
        remembered  what `GreedyIndex.remember` found for this query: ranked first, and where a walk begins
        """
        if budget is None:
            budget = self.default_budget
        return self._kernel.search(query, top_k, budget, exclude, self._native(variant), remembered)

    def screen(
        self,
        query: npt.ArrayLike,
        budget: int | None = None,
        exclude: npt.ArrayLike | None = None,
        variant: Variant | None = None,
        ordered: bool = True,
        remembered: npt.NDArray[np.int32] | None = None,
    ) -> npt.NDArray[np.int32]:
        """Return the candidates C(w) that a search would rank, in the greedy order or, faster, in any.

        Remembered items come first. A walk spends a part of the budget on compressed rows, and has as many fewer.
        """
        if budget is None:
            budget = self.default_budget
        return self._kernel.screen(query, budget, exclude, self._native(variant), ordered, remembered)

    def search_batch(
        self,
        queries: npt.ArrayLike,
        top_k: int = 10,
        budget: int | Sequence[int] | npt.NDArray[np.integer] | None = None,
        exclude: Sequence[npt.ArrayLike | None] | None = None,
        variant: Variant | None = None,
        threads: int = 1,
        remembered: Sequence[npt.NDArray[np.int32] | None] | npt.NDArray[np.int32] | None = None,
    ) -> list[SearchResult]:
        """Return one result for each row of `queries`, with the GIL released and on `threads` threads.

        budget      one for all queries, or one for each
        exclude     None, or for each query its own positions or None
        remembered  None, or for each query its own or None
        """
        if threads < 1:
            raise InvalidQueryError(f"threads must be at least 1, but {threads} was given.")
        if budget is None:
            budget = self.default_budget
        return self._kernel.search_batch(queries, top_k, budget, exclude, self._native(variant), threads, remembered)

    def _native(self, variant: Variant | None) -> NativeVariant:
        try:
            return self._variant if variant is None else _NATIVE[variant]
        except (KeyError, TypeError):
            raise InvalidQueryError(f"there is no variant {variant!r}; choose one of {', '.join(VARIANTS)}.") from None

    @abstractmethod
    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> Self:
        """Return the index over arrays that come from a file, without copying them.

        Raises CorruptModelError if they do not fit together.
        """

    def save(self, path: str | Path) -> None:
        """Write the index to a new directory, all or nothing."""
        arrays, info = self.to_arrays()
        storage.write_arrays(path, kind=self.kind, arrays=arrays, info=info)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Open a saved index, memory-mapped."""
        stored = storage.open_arrays(path, kind=cls.kind)
        return cls.from_arrays(stored.arrays, stored.info)
