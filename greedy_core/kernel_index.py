"""What every compiled index does: search, screen, search many."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from greedy_core._kernel import Variant as NativeVariant
from greedy_core.bundle import storage
from greedy_core.embeddings import CACHE_LINE_FLOATS
from greedy_core.errors import CorruptModelError, InvalidQueryError
from greedy_core.fold_in import gram_of
from greedy_core.precision import DTYPES, PRECISIONS, precision_of, widen
from greedy_core.screening import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core._kernel import Kernel
    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array
    from greedy_core.precision import Precision, StoredRows
    from greedy_core.result import SearchResult
    from greedy_core.screening import Variant

_BLOCK_ROWS = 1 << 16
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


def rows_from(arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> tuple[StoredRows, int]:
    """Return the padded item rows from a file, and how many of their columns are dimensions."""
    # What an earlier release wrote names no precision.
    precision, n_dims = info.get("precision", "float32"), info.get("n_dims")
    if precision not in PRECISIONS:
        raise CorruptModelError(
            f"the index says precision {precision!r}, which is none of {', '.join(PRECISIONS)}; write the model again."
        )
    rows = stored_array(arrays, "rows", DTYPES[precision])
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

    def __init__(
        self, kernel: Kernel, rows: StoredRows, n_dims: int, variant: Variant, *, walks_to_few: bool = False
    ) -> None:
        """Take a kernel; `walks_to_few` says that it has a graph, for filters that leave few items."""
        self._kernel = kernel
        self._rows = rows
        self._n_dims = n_dims
        self._variant = _NATIVE[variant]
        self._walks_to_few = walks_to_few

    @property
    def n_items(self) -> int:
        """How many items are indexed."""
        return len(self._rows)

    @property
    def n_dims(self) -> int:
        """How long a vector is."""
        return self._n_dims

    @property
    def precision(self) -> Precision:
        """In how many bits the values of the items' rows are stored."""
        return precision_of(self._rows)

    @property
    def items(self) -> Float32Array:
        """The item vectors, (n_items, n_dims): a view of rows of float32, and a copy of all narrower ones."""
        return widen(self._rows[:, : self._n_dims])

    def some_items(self, positions: npt.NDArray[np.int32]) -> tuple[Float32Array, npt.NDArray[np.int32]]:
        """Return vectors that include these items', and where among them these stand. Only narrow rows are copied."""
        if self._rows.dtype == np.float32:
            return self.items, positions
        vectors = widen(self._rows[positions, : self._n_dims])
        return vectors, np.arange(len(positions), dtype=np.int32)

    def search(
        self,
        query: npt.ArrayLike,
        top_k: int = 10,
        budget: int | None = None,
        exclude: npt.ArrayLike | None = None,
        variant: Variant | None = None,
        remembered: npt.NDArray[np.int32] | None = None,
        eligible: Eligible | None = None,
        page: int | None = None,
    ) -> SearchResult:
        """Return the best `top_k` items that `budget` inner products find.

        exclude     positions of items that must not appear; no exact product is spent on them
        variant     how candidates are screened: the index's own way, or one of VARIANTS
        remembered  what `GreedyIndex.remember` found for this query: ranked first, and where a walk begins
        eligible    the only items that may appear; those that fit into the budget are all scored. As many items come
                    back as are asked for and eligible, where the budget has a product for each. No product is spent on
                    others, and no more list entries or neighbours are looked at than an exact scan of the eligible
                    items would cost
        page        how many are asked for, in the sense of the last sentences but one, where that is less than `top_k`:
                    whoever wants all candidates, and not as many as the budget at any cost
        """
        if budget is None:
            budget = self.default_budget
        return self._kernel.search(query, top_k, budget, exclude, *self._native(variant), remembered, eligible, page)

    def products(self, item: int, others: npt.ArrayLike) -> Float32Array:
        """Return the inner products of an item with others, all given by their positions; the same on every machine."""
        if not 0 <= item < self.n_items:
            raise InvalidQueryError(f"there is no item {item}; positions are from 0 to {self.n_items - 1}.")
        return self.products_with(self.row(item), others)

    def row(self, item: int) -> Float32Array:
        """Return the padded row of an item, for `products_with` of any index over items like these."""
        row: Float32Array = widen(self._rows[item : item + 1])[0]
        return row

    def products_with(self, row: Float32Array, others: npt.ArrayLike) -> Float32Array:
        """Return the inner products of a padded row with items, given by their positions."""
        return self._kernel.products(row, others)

    def with_all(self, vector: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the products of a vector with all items, in plain NumPy: the same on this machine only."""
        items = self.items
        blocks = range(0, self.n_items, _BLOCK_ROWS)
        return np.concatenate([items[start : start + _BLOCK_ROWS] @ vector for start in blocks])

    def lengths(self) -> Float32Array:
        """Return the length of each item."""
        items = self.items
        found: Float32Array = np.sqrt(np.einsum("ij,ij->i", items, items))
        return found

    def gram(self) -> npt.NDArray[np.float64]:
        """Return the sum of the items' outer products with themselves, (n_dims, n_dims)."""
        return gram_of(self.items)

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean of all items."""
        return np.asarray(self.items.mean(axis=0, dtype=np.float64))

    def screen(
        self,
        query: npt.ArrayLike,
        budget: int | None = None,
        exclude: npt.ArrayLike | None = None,
        variant: Variant | None = None,
        ordered: bool = True,
        remembered: npt.NDArray[np.int32] | None = None,
        eligible: Eligible | None = None,
        top_k: int = 10,
    ) -> npt.NDArray[np.int32]:
        """Return the candidates C(w) that a search would rank, in the greedy order or, faster, in any.

        Remembered items come first. A walk spends a part of the budget on compressed rows, and has as many fewer; under
        a filter it chooses the first `top_k` before it spends anything on these.
        """
        if budget is None:
            budget = self.default_budget
        found, _, _ = self._kernel.screen(
            query, budget, exclude, *self._native(variant), ordered, remembered, eligible, top_k
        )
        return found

    def search_batch(
        self,
        queries: npt.ArrayLike,
        top_k: int = 10,
        budget: int | Sequence[int] | npt.NDArray[np.integer] | None = None,
        exclude: Sequence[npt.ArrayLike | None] | npt.NDArray[np.int32] | None = None,
        variant: Variant | None = None,
        threads: int = 1,
        remembered: Sequence[npt.NDArray[np.int32] | None] | npt.NDArray[np.int32] | None = None,
        eligible: Eligible | Sequence[Eligible | None] | None = None,
    ) -> list[SearchResult]:
        """Return one result for each row of `queries`, with the GIL released and on `threads` threads.

        budget      one for all queries, or one for each
        exclude     None, or for each query its own positions or None
        remembered  None, or for each query its own or None
        eligible    None, one for all queries, or for each query its own or None
        """
        if threads < 1:
            raise InvalidQueryError(f"threads must be at least 1, but {threads} was given.")
        if budget is None:
            budget = self.default_budget
        return self._kernel.search_batch(
            queries, top_k, budget, exclude, *self._native(variant), threads, remembered, eligible
        )

    def _native(self, variant: Variant | None) -> tuple[NativeVariant, NativeVariant]:
        """Return how candidates are screened, and how where few items are eligible."""
        if variant is None:
            return self._variant, NativeVariant.walk if self._walks_to_few else self._variant
        try:
            return _NATIVE[variant], _NATIVE[variant]
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
