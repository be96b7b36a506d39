"""GreedyIndex: sorted lists per direction, perhaps a graph, greedy screening, exact ranking."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from greedy_core._graph import code_stride
from greedy_core._kernel import Kernel
from greedy_core.embeddings import UserVectors, as_embeddings, own_rows, pad_rows, same_dims
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidEmbeddingsError
from greedy_core.fit.checking import check_axis_lists, check_codes, check_unit, check_vectors
from greedy_core.fit.choice import cheapest, compare, describe
from greedy_core.fit.directions import KINDS, Axes
from greedy_core.fit.graph import ItemGraph, fit_graph
from greedy_core.fit.remembered import REMEMBERED, find_best, find_remembered
from greedy_core.fit.sorting import Lists, sort_along_axes
from greedy_core.fit.trial import hold_out
from greedy_core.kernel_index import KernelIndex, rows_from, stored_array
from greedy_core.screening import Screening, is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.directions import FixedKind, Kind

_SCREENINGS = {"sparse": Screening("sum", 16), "graph": Screening("walk")}


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
        lists: Lists,
        axes: Float32Array | None,
        graph: ItemGraph | None,
        *,
        directions: str,
        max_budget: int,
        screening: Screening,
    ) -> None:
        """Use `build` or `load`."""
        kernel = Kernel(rows, n_dims, *lists, axes, max_budget, screening.reads)
        if graph is not None:
            kernel.walk_on(*graph)
        super().__init__(kernel, rows, n_dims, screening.variant)
        self._lists = lists
        self._axes = axes
        self._graph = graph
        self._directions = directions
        self._max_budget = max_budget
        self._screening = screening
        self._graph_checksum: object = None if graph is None else graph.checksum
        # What was compared where directions were chosen, the chosen first: for people to read.
        self.compared: list[str] = []

    @property
    def max_budget(self) -> int:
        """The largest budget for which the lists are long enough."""
        return self._max_budget

    @property
    def directions(self) -> str:
        """Which kind of directions the lists belong to."""
        return self._directions

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph to walk on."""
        return self._graph is not None

    @property
    def screening(self) -> Screening:
        """How this index screens unless a search says otherwise."""
        return self._screening

    def screened_by(self, screening: Screening) -> Self:
        """Return the same index, sharing all arrays, with another way of screening for its own."""
        return self._sharing(self._graph, self._directions, screening)

    def _sharing(self, graph: ItemGraph | None, directions: str, screening: Screening) -> Self:
        return type(self)(
            self._rows,
            self._n_dims,
            self._lists,
            self._axes,
            graph,
            directions=directions,
            max_budget=self._max_budget,
            screening=screening,
        )

    def remember(
        self, queries: npt.ArrayLike | UserVectors, count: int = REMEMBERED, *, progress: bool = False
    ) -> npt.NDArray[np.int32]:
        """Return the best items of each query, (n_queries, count), for `search` to begin with.

        This takes a search with a large budget for every query, which no request's budget counts: it is for queries
        that are known before they are asked.
        """
        vectors = _checked(queries)
        same_dims(vectors, self._n_dims, name="queries")
        return find_remembered(self, vectors, count=count, show=progress)

    @property
    def nbytes(self) -> int:
        """The size of the index without the items' rows."""
        arrays, _ = self.to_arrays()
        return sum(array.nbytes for name, array in arrays.items() if name != "rows")

    @classmethod
    def build(
        cls,
        items: npt.ArrayLike,
        queries: npt.ArrayLike | UserVectors | None = None,
        directions: Kind = "axes",
        max_budget: int = 4096,
        threads: int | None = None,
        progress: bool = False,
    ) -> Self:
        """Sort the items (n_items, n_dims) along the directions, on all cores unless told otherwise.

        queries     vectors like those that will be asked for (users), for directions that fit themselves to them;
                    UserVectors were checked before and are not checked again
        directions  see greedy_core.fit.directions
        max_budget  lists are cut to what this budget can reach
        """
        if directions not in KINDS:
            raise InvalidEmbeddingsError(f"there are no directions {directions!r}; choose one of {', '.join(KINDS)}.")
        if not is_count(max_budget):
            raise InvalidBudgetError(f"max_budget must be a whole number from 1, but {max_budget!r} was given.")
        vectors = as_embeddings(items, name="items")
        users = None if queries is None else _checked(queries)
        if users is not None:
            same_dims(users, vectors.shape[1], name="queries")
        threads = threads or os.cpu_count() or 1
        make = partial(cls._of_kind, own_rows(vectors), vectors, int(max_budget), threads, progress)
        if directions != "auto":
            return make(users, Axes(vectors, users), directions)
        # Every kind of directions worth having is built, and the one kept that is best on queries it was not fitted to.
        held_out = hold_out(vectors if users is None else users)
        fitted = None if users is None else held_out.fitted
        axes = Axes(vectors, fitted)
        kinds: list[FixedKind] = ["axes", "principal", "sparse"]
        indexes = [make(fitted, axes, kind) for kind in kinds]
        indexes.append(indexes[-1].with_graph(vectors if fitted is None else fitted, threads, show=progress))
        ways = compare(indexes, held_out.sample)
        chosen = cheapest(ways)
        chosen.compared = describe(ways)
        return chosen

    @classmethod
    def _of_kind(
        cls,
        rows: Float32Array,
        vectors: Float32Array,
        max_budget: int,
        threads: int,
        show: bool,
        queries: Float32Array | None,
        axes: Axes,
        directions: FixedKind,
    ) -> Self:
        """Build one kind of directions. All vectors are checked, `rows` are the items padded."""
        along = axes.of(directions)
        lists = sort_along_axes(vectors, along, list_depth(len(vectors), max_budget), threads, show=show)
        index = cls(
            rows,
            vectors.shape[1],
            lists,
            None if along is None else pad_rows(along),
            None,
            directions=directions,
            max_budget=max_budget,
            screening=_SCREENINGS.get(directions, Screening()) if directions != "graph" else Screening(),
        )
        if directions != "graph":
            return index
        return index.with_graph(vectors if queries is None else queries, threads, show=show)

    def with_graph(self, queries: Float32Array, threads: int, *, show: bool = False) -> Self:
        """Return the index, sharing all arrays, with a graph to walk on beside its lists. The queries are checked."""

        def find(graph: ItemGraph, asked: Float32Array) -> npt.NDArray[np.int32]:
            return find_best(self._sharing(graph, "graph", _SCREENINGS["graph"]), asked, threads)

        graph = fit_graph(np.ascontiguousarray(self.items), queries, find, threads, show=show)
        return self._sharing(graph, "graph", _SCREENINGS["graph"])

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "rows": self._rows,
            "list_ids": self._lists.ids,
            "list_values": self._lists.values,
        }
        if self._axes is not None:
            arrays["axes"] = self._axes
        info = {"n_dims": self._n_dims, "directions": self._directions, "max_budget": self._max_budget}
        if self._graph is not None:
            arrays |= {
                "graph_neighbours": self._graph.neighbours,
                "graph_entries": self._graph.entries[None],
                "graph_codes": self._graph.codes,
            }
            info |= {"longest_code": self._graph.longest, "graph_checksum": self._graph.checksum}
        return arrays, {**info, **self._screening.to_info()}

    def verify(self) -> None:
        """Read all arrays. Raises CorruptModelError for what a build would not have made of the rows."""
        check_vectors("the items", self._rows)
        if self._rows[:, self._n_dims :].any():
            raise CorruptModelError("the rows of the index are not padded with zeros; build the model again.")
        axes = None if self._axes is None else self._axes[:, : self._n_dims]
        if axes is not None:
            check_unit("axes", axes)
        check_axis_lists(self.items, axes, self._lists)
        if self._graph is not None:
            check_codes(np.ascontiguousarray(self.items), self._graph.codes, self._graph.longest)
            # Whether the edges are those of a build cannot be told from the items, so they carry a checksum.
            if self._graph.checksum != self._graph_checksum:
                raise CorruptModelError("the graph of the index is not the one that was built; build the model again.")

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]) -> Self:
        """Return the index over arrays that come from a file, without copying them.

        Reads lists and graph once: an id that is out of range never reaches the kernels. Raises CorruptModelError.
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
        _check_axes(axes, rows.shape[1])
        graph = _stored_graph(arrays, info, len(rows), n_dims) if "graph_neighbours" in arrays else None
        screening = Screening.from_info(info)
        if screening.variant == "walk" and graph is None:
            raise CorruptModelError("the index says that it walks, but it has no graph; write the model again.")
        index = cls(
            rows,
            n_dims,
            lists,
            axes,
            graph,
            directions=directions,
            max_budget=max_budget,
            screening=screening,
        )
        bad = index._kernel.first_bad_list()
        if bad >= 0:
            raise CorruptModelError(
                f"list {bad} of the index is out of order or names no item; restore the model's files."
            )
        if graph is not None and index._kernel.first_bad_item() >= 0:
            raise CorruptModelError(
                "the graph of the index leads to items that do not exist; restore the model's files."
            )
        index._graph_checksum = info.get("graph_checksum")
        return index


def _checked(queries: npt.ArrayLike | UserVectors) -> Float32Array:
    return queries.of_known if isinstance(queries, UserVectors) else as_embeddings(queries, name="queries")


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


def _stored_graph(
    arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any], n_items: int, n_dims: int
) -> ItemGraph:
    """Return the graph from a file, of the right shape."""
    neighbours = stored_array(arrays, "graph_neighbours", np.int32)
    entries = stored_array(arrays, "graph_entries", np.int32)
    codes = stored_array(arrays, "graph_codes", np.uint8)
    longest = info.get("longest_code")
    shapes = (len(neighbours), neighbours.shape[1] > 0, len(entries), entries.shape[1] > 0, codes.shape)
    if shapes != (n_items, True, 1, True, (n_items, code_stride(n_dims))) or not isinstance(longest, float):
        raise CorruptModelError(
            f"a graph with neighbours, entries and codes of shape {neighbours.shape}, {entries.shape} and "
            f"{codes.shape} and a longest code of {longest!r} does not fit to {n_items} items of {n_dims} dimensions; "
            "write the model again."
        )
    return ItemGraph(neighbours, entries[0], codes, longest)


def _check_axes(axes: Float32Array | None, width: int) -> None:
    if axes is not None and (len(axes) == 0 or axes.shape[1] != width or not (np.abs(axes) <= 1.001).all()):
        raise CorruptModelError(
            f"axes of shape {axes.shape} are not unit vectors like the rows; write the model again."
        )
