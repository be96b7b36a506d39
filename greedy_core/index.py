"""GreedyIndex: sorted lists per direction, greedy screening, exact ranking."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard

import numpy as np

from greedy_core._kernel import Kernel, build_lists
from greedy_core.calibration import choose, hold_out
from greedy_core.directions import FIXED_KINDS, KINDS, fit_axes
from greedy_core.embeddings import as_embeddings, own_rows, pad_rows
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidEmbeddingsError
from greedy_core.kernel_index import VARIANTS, KernelIndex, rows_from, stored_array
from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.directions import FixedKind, Kind
    from greedy_core.embeddings import Float32Array
    from greedy_core.kernel_index import Variant

# One cache line of each row is projected and sorted at a time: every line of the items is read once.
_AXES_AT_ONCE = 16
# How many entries screening by sums reads for each candidate: about as much time as a candidate's inner product takes.
READS = 16


def list_depth(n_items: int, max_budget: int) -> int:
    """Return the length of the lists: by the paper's rule no search reads further than entry `max_budget`."""
    return min(n_items, max_budget + 1)


class GreedyIndex(KernelIndex):
    """Budgeted maximum inner product search over a fixed set of items.

    `search` spends at most `budget` inner products, never one more; candidate sets are nested (a larger budget adds
    candidates and drops none); ties go to the smaller item position; the same query and budget give the same answer on
    every machine. A budget that covers all eligible items is spent on an exact scan and the result says `complete`.
    """

    kind: ClassVar[str] = "greedy-index"
    default_budget = 256

    def __init__(
        self,
        rows: Float32Array,
        n_dims: int,
        lists: tuple[npt.NDArray[np.int32], Float32Array],
        axes: Float32Array | None,
        *,
        directions: str,
        max_budget: int,
        variant: Variant,
        reads: int,
    ) -> None:
        """Use `build` or `load`."""
        super().__init__(Kernel(rows, n_dims, *lists, axes, max_budget, reads), rows, n_dims, variant)
        self._lists = lists
        self._axes = axes
        self._directions = directions
        self._max_budget = max_budget
        self._own_variant: Variant = variant
        self._reads = reads

    @property
    def max_budget(self) -> int:
        """The largest budget for which the lists are long enough."""
        return self._max_budget

    @property
    def directions(self) -> str:
        """Which kind of directions the lists belong to."""
        return self._directions

    @property
    def screening(self) -> str:
        """How this index screens unless a search says otherwise."""
        return f"sum of {self._reads} reads" if self._own_variant == "sum" else self._own_variant

    @property
    def reads_per_candidate(self) -> int:
        """How many entries screening by sums reads for each candidate; 1 for the paper's rule, which reads few more."""
        return self._reads if self._own_variant == "sum" else 1

    def screened_by(self, variant: Variant, reads: int = READS) -> GreedyIndex:
        """Return the same index, sharing all arrays, with another way of screening for its own."""
        return GreedyIndex(
            self._rows,
            self._n_dims,
            self._lists,
            self._axes,
            directions=self._directions,
            max_budget=self._max_budget,
            variant=variant,
            reads=reads,
        )

    @property
    def nbytes(self) -> int:
        """The size of the index without the items' rows."""
        return sum(array.nbytes for array in self._lists) + (0 if self._axes is None else self._axes.nbytes)

    @classmethod
    def build(
        cls,
        items: npt.ArrayLike,
        queries: npt.ArrayLike | None = None,
        directions: Kind = "axes",
        max_budget: int = 4096,
        threads: int | None = None,
        progress: bool = False,
    ) -> Self:
        """Sort the items (n_items, n_dims) along the directions, on all cores unless told otherwise.

        queries     vectors like those that will be asked for (users), for directions that fit themselves to them
        directions  see greedy_core.directions
        max_budget  lists are cut to what this budget can reach
        """
        if directions not in KINDS:
            raise InvalidEmbeddingsError(f"there are no directions {directions!r}; choose one of {', '.join(KINDS)}.")
        if not _is_count(max_budget):
            raise InvalidBudgetError(f"max_budget must be a whole number from 1, but {max_budget!r} was given.")
        vectors = as_embeddings(items, name="items")
        n_dims = vectors.shape[1]
        users = None if queries is None else as_embeddings(queries, name="queries")
        if users is not None and users.shape[1] != n_dims:
            raise InvalidEmbeddingsError(
                f"items have {n_dims} dimensions and queries {users.shape[1]}; both must come from the same model."
            )
        workers = threads or os.cpu_count() or 1
        if directions == "auto":
            return cls._build_auto(vectors, users, int(max_budget), workers, show=progress)
        return cls._build(own_rows(vectors), vectors, users, directions, int(max_budget), workers, show=progress)

    @classmethod
    def _build(
        cls,
        rows: Float32Array,
        vectors: Float32Array,
        queries: Float32Array | None,
        directions: FixedKind,
        max_budget: int,
        threads: int,
        *,
        show: bool,
    ) -> Self:
        axes = fit_axes(directions, vectors, queries)
        lists = _build_lists(vectors, axes, list_depth(len(vectors), max_budget), threads, show=show)
        return cls(
            rows,
            vectors.shape[1],
            lists,
            None if axes is None else pad_rows(axes),
            directions=directions,
            max_budget=max_budget,
            variant="sum" if directions == "sparse" else "threshold",
            reads=READS,
        )

    @classmethod
    def _build_auto(
        cls, vectors: Float32Array, queries: Float32Array | None, max_budget: int, threads: int, *, show: bool
    ) -> Self:
        """Build every kind of directions worth having, and keep what calibration finds best."""
        fitted, held_out = hold_out(vectors if queries is None else queries)
        rows = own_rows(vectors)
        known = None if queries is None else fitted
        indexes = [cls._build(rows, vectors, known, kind, max_budget, threads, show=show) for kind in FIXED_KINDS]
        chosen = choose(indexes, held_out)
        assert isinstance(chosen, cls)  # noqa: S101 - one of those above
        return chosen

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        ids, values = self._lists
        arrays = {"rows": self._rows, "list_ids": ids, "list_values": values}
        if self._axes is not None:
            arrays["axes"] = self._axes
        info = {"n_dims": self._n_dims, "directions": self._directions, "max_budget": self._max_budget}
        return arrays, {**info, "variant": self._own_variant, "reads": self._reads}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> Self:
        """Return the index over arrays that come from a file, without copying them.

        Reads the lists once: an id that is out of range never reaches the kernels. Raises CorruptModelError.
        """
        rows, n_dims = rows_from(arrays, info)
        ids, values = stored_array(arrays, "list_ids", np.int32), stored_array(arrays, "list_values", np.float32)
        axes = stored_array(arrays, "axes", np.float32) if "axes" in arrays else None
        n_axes = n_dims if axes is None else len(axes)
        directions, max_budget, reads = info.get("directions"), info.get("max_budget"), info.get("reads", READS)
        variant = info.get("variant", "threshold")
        if (
            not isinstance(directions, str)
            or variant not in VARIANTS
            or not _is_count(max_budget)
            or not _is_count(reads)
        ):
            raise CorruptModelError(
                f"the index says directions {directions!r}, max_budget {max_budget!r}, variant {variant!r} and "
                f"reads {reads!r}; write the model again."
            )
        if ids.shape != values.shape or ids.shape != (2 * n_axes, list_depth(len(rows), max_budget)):
            raise CorruptModelError(
                f"lists of shape {ids.shape} and {values.shape} do not fit to {len(rows)} items, {n_axes} axes and a "
                f"max_budget of {max_budget}; write the model again."
            )
        if axes is not None and (axes.shape[1] != rows.shape[1] or not (np.abs(axes) <= 1.001).all()):
            raise CorruptModelError(
                f"axes of shape {axes.shape} are not unit vectors like the rows; write the model again."
            )
        index = cls(
            rows,
            n_dims,
            (ids, values),
            axes,
            directions=directions,
            max_budget=max_budget,
            variant=variant,
            reads=reads,
        )
        bad = index._kernel.first_bad_list()
        if bad >= 0:
            raise CorruptModelError(
                f"list {bad} of the index is out of order or names no item; restore the model's files."
            )
        return index


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**31


def _build_lists(
    items: Float32Array, axes: Float32Array | None, depth: int, threads: int, *, show: bool
) -> tuple[npt.NDArray[np.int32], Float32Array]:
    """Return ids and values, (2 * n_axes, depth); list 2t goes along axis t and list 2t + 1 against it."""
    n_axes = items.shape[1] if axes is None else len(axes)
    ids = np.empty((2 * n_axes, depth), dtype=np.int32)
    values = np.empty((2 * n_axes, depth), dtype=np.float32)

    def build(start: int) -> int:
        stop = min(start + _AXES_AT_ONCE, n_axes)
        if axes is None:
            columns = np.ascontiguousarray(items[:, start:stop].T)
        else:
            columns = np.ascontiguousarray((items @ axes[start:stop].T).T)
        build_lists(columns, depth, ids[2 * start : 2 * stop], values[2 * start : 2 * stop])
        return stop - start

    with ThreadPoolExecutor(threads) as pool, progress_bar("sorting lists", n_axes, show=show) as advance:
        for done in pool.map(build, range(0, n_axes, _AXES_AT_ONCE)):
            advance(done)
    return ids, values
