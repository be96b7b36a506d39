"""ExactIndex: every item, one pass. The oracle of the tests and the honest baseline of the benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from greedy_core._kernel import Kernel
from greedy_core.embeddings import as_embeddings, own_rows
from greedy_core.kernel_index import KernelIndex, rows_from
from greedy_core.precision import check_precision, narrow

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.precision import Precision, StoredRows


class ExactIndex(KernelIndex):
    """The rows and nothing else. A search spends one inner product on every eligible item.

    A budget smaller than that is refused; the default has no limit.
    """

    kind: ClassVar[str] = "exact-index"
    default_budget = 2**31

    def __init__(self, rows: StoredRows, n_dims: int) -> None:
        """Use `build` or `load`."""
        super().__init__(Kernel(rows, n_dims, None, None, None, 0, 0), rows, n_dims, "threshold")

    @classmethod
    def build(cls, items: npt.ArrayLike, precision: Precision = "float32") -> Self:
        """Lay out the items (n_items, n_dims) for scanning, in rows of a precision (see greedy_core.precision)."""
        check_precision(precision)
        vectors = as_embeddings(items, name="items")
        return cls(narrow(own_rows(vectors), precision), vectors.shape[1])

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a JSON-able description."""
        return {"rows": self._rows}, {"n_dims": self._n_dims, "precision": self.precision}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> Self:
        """Return the index over arrays that come from a file, without copying them."""
        rows, n_dims = rows_from(arrays, info)
        return cls(rows, n_dims)
