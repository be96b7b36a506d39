"""GreedyIndex: sorted lists per direction, greedy screening, exact ranking."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core._kernel import Kernel, build_lists
from greedy_core.calibration import choose, hold_out
from greedy_core.directions import KINDS, fit_axes, fit_centres
from greedy_core.embeddings import as_embeddings, own_rows, pad_rows, same_dims
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidEmbeddingsError
from greedy_core.kernel_index import KernelIndex, rows_from, stored_array
from greedy_core.progress import progress_bar
from greedy_core.routes import find_routes, route_length
from greedy_core.screening import Screening, is_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from greedy_core.directions import FixedKind, Kind
    from greedy_core.embeddings import Float32Array

# Items are projected on a few directions at a time, which fill a cache line of each row of the result.
_DIRECTIONS_AT_ONCE = 16
# The first entries of a centre's list are the ones that tell: many centres with short lists find more than few with
# long ones.
_CENTRE_DEPTH = 1024
# A route through centres says more than one along the axes, so it is read less.
_SCREENINGS = {"sparse": Screening("sum", 16, 16), "learned": Screening("sum", 16, 4)}


def list_depth(n_items: int, max_budget: int) -> int:
    """Return the length of the lists: by the paper's rule no search reads further than entry `max_budget`."""
    return min(n_items, max_budget + 1)


class Lists(NamedTuple):
    """Sorted lists of one length: entry r of a list is its r-th largest item, and the item's projection."""

    ids: npt.NDArray[np.int32]  # (n_lists, depth)
    values: Float32Array

    @classmethod
    def empty(cls, n_lists: int, depth: int) -> Lists:
        """Return lists to be filled."""
        return cls(np.empty((n_lists, depth), dtype=np.int32), np.empty((n_lists, depth), dtype=np.float32))


class Centres(NamedTuple):
    """Directions beside the axes, as unit rows (n_centres, n_dims), and a list along each."""

    vectors: Float32Array
    lists: Lists


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
        lists: Lists,
        axes: Float32Array | None,
        centres: Centres | None,
        *,
        directions: str,
        max_budget: int,
        screening: Screening,
    ) -> None:
        """Use `build` or `load`."""
        centre_ids, centre_values = (None, None) if centres is None else centres.lists
        reads = (screening.reads, screening.routed_reads)
        kernel = Kernel(rows, n_dims, *lists, axes, centre_ids, centre_values, max_budget, *reads)
        super().__init__(kernel, rows, n_dims, screening.variant)
        self._lists = lists
        self._axes = axes
        self._centres = centres
        self._directions = directions
        self._max_budget = max_budget
        self._screening = screening

    @property
    def max_budget(self) -> int:
        """The largest budget for which the lists are long enough."""
        return self._max_budget

    @property
    def directions(self) -> str:
        """Which kind of directions the lists belong to."""
        return self._directions

    @property
    def n_centres(self) -> int:
        """How many centres there are beside the axes."""
        return 0 if self._centres is None else len(self._centres.vectors)

    @property
    def screening(self) -> Screening:
        """How this index screens unless a search says otherwise."""
        return self._screening

    def screened_by(self, screening: Screening) -> GreedyIndex:
        """Return the same index, sharing all arrays, with another way of screening for its own."""
        return self._sharing(self._centres, self._directions, screening)

    def without_centres(self) -> GreedyIndex:
        """Return the index of the axes alone, sharing all arrays."""
        return self._sharing(None, "sparse", self._screening.unrouted)

    def _sharing(self, centres: Centres | None, directions: str, screening: Screening) -> GreedyIndex:
        return GreedyIndex(
            self._rows,
            self._n_dims,
            self._lists,
            self._axes,
            centres,
            directions=directions,
            max_budget=self._max_budget,
            screening=screening,
        )

    @property
    def follows_routes(self) -> bool:
        """Whether its own way of screening can follow routes."""
        return self._screening.variant == "sum"

    @property
    def route_length(self) -> int:
        """How many numbers a route of this index has."""
        return route_length(self._n_dims if self._axes is None else len(self._axes), self.n_centres)

    def routes(self, queries: npt.ArrayLike, *, progress: bool = False) -> Float32Array:
        """Return a route for each query, for `search` to follow (see greedy_core.routes).

        This spends a product on every centre for every query, which no budget counts: it is for queries that are known
        before they are asked.
        """
        vectors = as_embeddings(queries, name="queries")
        same_dims(vectors, self._n_dims, name="queries")
        axes = None if self._axes is None else self._axes[:, : self._n_dims]
        return find_routes(vectors, axes, None if self._centres is None else self._centres.vectors, show=progress)

    @property
    def nbytes(self) -> int:
        """The size of the index without the items' rows."""
        arrays, _ = self.to_arrays()
        return sum(array.nbytes for name, array in arrays.items() if name != "rows")

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
        if not is_count(max_budget):
            raise InvalidBudgetError(f"max_budget must be a whole number from 1, but {max_budget!r} was given.")
        vectors = as_embeddings(items, name="items")
        users = None if queries is None else as_embeddings(queries, name="queries")
        if users is not None:
            same_dims(users, vectors.shape[1], name="queries")
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
        depth = list_depth(len(vectors), max_budget)
        lists = _sort_along_axes(vectors, axes, depth, threads, show=show)
        centres = None
        if directions == "learned":
            around = fit_centres(vectors if queries is None else queries)
            along = _sort_along_centres(vectors, around, min(depth, _CENTRE_DEPTH), threads, show=show)
            centres = Centres(around, along)
        return cls(
            rows,
            vectors.shape[1],
            lists,
            None if axes is None else pad_rows(axes),
            centres,
            directions=directions,
            max_budget=max_budget,
            screening=_SCREENINGS.get(directions, Screening()),
        )

    @classmethod
    def _build_auto(
        cls, vectors: Float32Array, queries: Float32Array | None, max_budget: int, threads: int, *, show: bool
    ) -> Self:
        """Build every kind of directions worth having, and keep what calibration finds best."""
        rows = own_rows(vectors)
        fitted, held_out = hold_out(vectors if queries is None else queries)
        known = None if queries is None else fitted
        # Without queries nobody is known beforehand, so there is nobody to follow centres.
        kinds: list[FixedKind] = ["axes", "principal", "sparse" if queries is None else "learned"]
        indexes: list[GreedyIndex] = [
            cls._build(rows, vectors, known, kind, max_budget, threads, show=show) for kind in kinds
        ]
        if indexes[-1].n_centres:
            indexes.append(indexes[-1].without_centres())
        chosen = choose(indexes, held_out)
        assert isinstance(chosen, cls)  # noqa: S101 - one of those above
        return chosen

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays = {"rows": self._rows, "list_ids": self._lists.ids, "list_values": self._lists.values}
        if self._axes is not None:
            arrays["axes"] = self._axes
        if self._centres is not None:
            vectors, (ids, values) = self._centres
            arrays |= {"centres": vectors, "centre_list_ids": ids, "centre_list_values": values}
        info = {"n_dims": self._n_dims, "directions": self._directions, "max_budget": self._max_budget}
        return arrays, {**info, **asdict(self._screening)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> Self:
        """Return the index over arrays that come from a file, without copying them.

        Reads the lists once: an id that is out of range never reaches the kernels. Raises CorruptModelError.
        """
        rows, n_dims = rows_from(arrays, info)
        axes = stored_array(arrays, "axes", np.float32) if "axes" in arrays else None
        directions, max_budget = info.get("directions"), info.get("max_budget")
        if not isinstance(directions, str) or not is_count(max_budget):
            raise CorruptModelError(
                f"the index says directions {directions!r} and max_budget {max_budget!r}; write the model again."
            )
        depth = list_depth(len(rows), max_budget)
        lists = _stored_lists(arrays, "list", 2 * (n_dims if axes is None else len(axes)), range(depth, depth + 1))
        centres = None
        if "centres" in arrays:
            vectors = stored_array(arrays, "centres", np.float32)
            centres = Centres(vectors, _stored_lists(arrays, "centre_list", len(vectors), range(1, depth + 1)))
        _check_directions("axes", axes, rows.shape[1])
        _check_directions("centres", None if centres is None else centres.vectors, n_dims)
        screening = Screening.from_info(info)
        index = cls(
            rows,
            n_dims,
            lists,
            axes,
            centres,
            directions=directions,
            max_budget=max_budget,
            screening=screening,
        )
        bad = index._kernel.first_bad_list()
        if bad >= 0:
            raise CorruptModelError(
                f"list {bad} of the index is out of order or names no item; restore the model's files."
            )
        return index


def _stored_lists(arrays: Mapping[str, npt.NDArray[Any]], name: str, n_lists: int, depths: range) -> Lists:
    """Return lists from a file that are as many and as long as they should be."""
    ids = stored_array(arrays, f"{name}_ids", np.int32)
    values = stored_array(arrays, f"{name}_values", np.float32)
    if ids.shape != values.shape or len(ids) != n_lists or ids.shape[1] not in depths:
        raise CorruptModelError(
            f"{name}_ids and {name}_values of shape {ids.shape} and {values.shape} should be {n_lists} lists of "
            f"{depths[0]} to {depths[-1]} items, by the directions, the items and max_budget; write the model again."
        )
    return Lists(ids, values)


def _check_directions(name: str, vectors: Float32Array | None, width: int) -> None:
    if vectors is not None and (len(vectors) == 0 or vectors.shape[1] != width or not (np.abs(vectors) <= 1.001).all()):
        raise CorruptModelError(
            f"{name} of shape {vectors.shape} are not unit vectors like the rows; write the model again."
        )


def _sort_along_axes(items: Float32Array, axes: Float32Array | None, depth: int, threads: int, *, show: bool) -> Lists:
    """Return two lists for each axis, along it and against it."""
    lists = Lists.empty(2 * items.shape[1], depth)

    def sort(start: int, stop: int) -> None:
        columns = items[:, start:stop] if axes is None else items @ axes[start:stop].T
        both = slice(2 * start, 2 * stop)
        build_lists(np.ascontiguousarray(columns.T), depth, lists.ids[both], lists.values[both])

    _for_each_block(sort, items.shape[1], threads, "sorting along axes", show=show)
    return lists


def _sort_along_centres(items: Float32Array, centres: Float32Array, depth: int, threads: int, *, show: bool) -> Lists:
    """Return a list for each centre, along it."""
    lists = Lists.empty(len(centres), depth)

    def sort(start: int, stop: int) -> None:
        columns = items @ centres[start:stop].T
        build_lists(np.ascontiguousarray(columns.T), depth, lists.ids[start:stop], lists.values[start:stop])

    _for_each_block(sort, len(centres), threads, "sorting along centres", show=show)
    return lists


def _for_each_block(
    sort: Callable[[int, int], None], n_directions: int, threads: int, what: str, *, show: bool
) -> None:
    """Call sort(start, stop) for all directions, a few at a time, on several threads."""
    starts = range(0, n_directions, _DIRECTIONS_AT_ONCE)
    stops = [min(start + _DIRECTIONS_AT_ONCE, n_directions) for start in starts]
    # The threads here are enough; those of a BLAS beneath each of them would only be in each other's way.
    with (
        threadpool_limits(1, "blas"),
        ThreadPoolExecutor(threads) as pool,
        progress_bar(what, n_directions, show=show) as advance,
    ):
        for start, stop, _ in zip(starts, stops, pool.map(sort, starts, stops), strict=True):
            advance(stop - start)
