"""GreedyIndex: sorted lists per direction, perhaps a graph, greedy screening, exact ranking."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from greedy_core._graph import code_stride
from greedy_core._kernel import Kernel
from greedy_core.embeddings import UserVectors, as_embeddings, own_rows, pad_rows, same_dims
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidEmbeddingsError
from greedy_core.fit.checking import check_axis_lists, check_codes, check_unit, check_vectors
from greedy_core.fit.choice import Compared, best_walk, cheapest, compare, describe
from greedy_core.fit.directions import KINDS, Axes
from greedy_core.fit.graph import ItemGraph, compressed, fit_graphs
from greedy_core.fit.guides import finds_more
from greedy_core.fit.remembered import REMEMBERED, find_best, find_remembered
from greedy_core.fit.sorting import Lists, sort_along_axes
from greedy_core.fit.trial import hold_out
from greedy_core.kernel_index import KernelIndex, rows_from, stored_array
from greedy_core.precision import check_precision, narrow, rounded, widen
from greedy_core.screening import Screening, is_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.directions import FixedKind, Kind
    from greedy_core.precision import Precision, StoredRows

_SCREENINGS = {"sparse": Screening("sum", 16), "graph": Screening("walk")}


class Whole(NamedTuple):
    """What is learned of all items where an index is of a part of them.

    axes    of all items and queries; None where another index has them, which this one is built as
    centre  the mean of all items
    """

    axes: Axes | None
    centre: Float32Array


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
        rows: StoredRows,
        n_dims: int,
        lists: Lists,
        axes: Float32Array | None,
        graph: ItemGraph | None,
        *,
        directions: str,
        max_budget: int,
        screening: Screening,
        centre: Float32Array | None = None,
        guided: bool = False,
    ) -> None:
        """Use `build` or `load`."""
        kernel = Kernel(rows, n_dims, *lists, axes, max_budget, screening.reads)
        if graph is not None:
            kernel.walk_on(*graph, guided=guided)
        super().__init__(kernel, rows, n_dims, screening.variant, walks_to_few=graph is not None)
        self._lists = lists
        self._axes = axes
        self._graph = graph
        self._directions = directions
        self._max_budget = max_budget
        self._screening = screening
        self._centre = centre
        self._guided = guided
        self._graph_checksum: object = None if graph is None else graph.checksum
        # What was compared where directions were chosen, the chosen first: for people to read.
        self.compared: tuple[Compared, ...] = ()

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
    def graph(self) -> ItemGraph | None:
        """The graph to walk on, if there is one."""
        return self._graph

    @property
    def guided(self) -> bool:
        """Whether what is not eligible guides a walk under a filter."""
        return self._guided

    @property
    def centre(self) -> Float32Array | None:
        """What the graph's codes leave out, where it is not the mean of these items."""
        return self._centre

    def without_graph(self) -> Self:
        """Return the same index, sharing all arrays, that has its lists only."""
        directions = "sparse" if self._directions == "graph" else self._directions
        made = self._sharing(None, directions, _SCREENINGS.get(directions, Screening()), guided=False)
        made.compared = self.compared
        return made

    @property
    def screening(self) -> Screening:
        """How this index screens unless a search says otherwise."""
        return self._screening

    def screened_by(self, screening: Screening) -> Self:
        """Return the same index, sharing all arrays, with another way of screening for its own."""
        return self._sharing(self._graph, self._directions, screening)

    def _stored_in(self, precision: Precision) -> Self:
        """Return the index, whose rows hold values of a precision already, with rows of it."""
        if precision == self.precision:
            return self
        return self._sharing(self._graph, self._directions, self._screening, narrow(self._rows, precision))

    def _sharing(
        self,
        graph: ItemGraph | None,
        directions: str,
        screening: Screening,
        rows: StoredRows | None = None,
        *,
        centre: Float32Array | None = None,
        guided: bool | None = None,
    ) -> Self:
        return type(self)(
            self._rows if rows is None else rows,
            self._n_dims,
            self._lists,
            self._axes,
            graph,
            directions=directions,
            max_budget=self._max_budget,
            screening=screening,
            centre=self._centre if centre is None else centre,
            guided=self._guided if guided is None else guided,
        )

    def _guided_by_others(self) -> Self:
        return self._sharing(self._graph, self._directions, self._screening, guided=True)

    def _walking_as(self, other: Self) -> Self:
        """Return the index with the graph of another one, and with its way of walking under filters."""
        return self._sharing(
            other._graph, self._directions, self._screening, centre=other._centre, guided=other._guided
        )

    def remember(
        self,
        queries: npt.ArrayLike | UserVectors,
        count: int = REMEMBERED,
        *,
        exclude: Sequence[npt.NDArray[np.int32]] | npt.NDArray[np.int32] | None = None,
        progress: bool = False,
    ) -> npt.NDArray[np.int32]:
        """Return the best items of each query, (n_queries, count), for `search` to begin with.

        This takes a search with a large budget for every query, which no request's budget counts: it is for queries
        that are known before they are asked. `exclude` has for each of them the positions of items that its searches
        will leave out, so that none of these takes another's place.
        """
        vectors = self.checked_queries(queries)
        return find_remembered(self, vectors, count=count, exclude=exclude, show=progress)

    def checked_queries(self, queries: npt.ArrayLike | UserVectors) -> Float32Array:
        """Return queries as the index takes them; UserVectors were checked before, and those without one are left out.

        Raises InvalidEmbeddingsError.
        """
        vectors = _checked(queries)
        same_dims(vectors, self._n_dims, name="queries")
        return vectors

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
        precision: Precision = "float32",
        whole: Whole | None = None,
    ) -> Self:
        """Sort the items (n_items, n_dims) along the directions, on all cores unless told otherwise.

        queries     vectors like those that will be asked for (users), for directions that fit themselves to them;
                    UserVectors were checked before and are not checked again
        directions  see greedy_core.fit.directions
        max_budget  lists are cut to what this budget can reach
        precision   of the items' rows, to which they are rounded before anything else, see greedy_core.precision
        whole       what was learned of more items, of which these are a part
        """
        if directions not in KINDS:
            raise InvalidEmbeddingsError(f"there are no directions {directions!r}; choose one of {', '.join(KINDS)}.")
        if not is_count(max_budget):
            raise InvalidBudgetError(f"max_budget must be a whole number from 1, but {max_budget!r} was given.")
        check_precision(precision)
        vectors = rounded(as_embeddings(items, name="items"), precision)
        users = None if queries is None else _checked(queries)
        if users is not None:
            same_dims(users, vectors.shape[1], name="queries")
        threads = threads or os.cpu_count() or 1
        centre = None if whole is None else whole.centre
        make = partial(cls._of_kind, own_rows(vectors), vectors, int(max_budget), threads, progress, centre)
        if directions != "auto":
            axes = whole.axes if whole is not None and whole.axes is not None else Axes(vectors, users)
            return make(users, axes.of(directions), directions)._stored_in(precision)  # noqa: SLF001 - of its own
        # Every kind of directions worth having is built, and the one kept that is best on queries it was not fitted to.
        held_out = hold_out(vectors if users is None else users)
        fitted = None if users is None else held_out.fitted
        axes = whole.axes if whole is not None and whole.axes is not None else Axes(vectors, fitted)
        kinds: list[FixedKind] = ["axes", "principal", "sparse"]
        indexes = [make(fitted, axes.of(kind), kind) for kind in kinds]
        walking = indexes[-1].with_graph(vectors if fitted is None else fitted, threads, show=progress, centre=centre)
        ways = compare([*indexes, walking], held_out.sample)
        chosen = cheapest(ways)
        if not chosen.has_graph:
            # Lists serve all items and many; the compressed rows serve filters that leave few.
            chosen = chosen._walking_as(walking)  # noqa: SLF001 - of its own
        chosen = chosen._stored_in(precision)  # noqa: SLF001 - of its own
        chosen.compared = describe(ways)
        return chosen

    def of_others(
        self,
        items: npt.ArrayLike,
        queries: npt.ArrayLike | UserVectors | None = None,
        *,
        centre: Float32Array,
        threads: int | None = None,
        progress: bool = False,
    ) -> Self:
        """Return an index of other items that is built as this one was: the same axes, precision and screening.

        centre  what the codes of both leave out
        """
        vectors = rounded(as_embeddings(items, name="items"), self.precision)
        same_dims(vectors, self._n_dims, name="items")
        asked = None if queries is None else self.checked_queries(queries)
        threads = threads or os.cpu_count() or 1
        made = self._of_kind(
            own_rows(vectors),
            vectors,
            self._max_budget,
            threads,
            progress,
            centre,
            asked,
            None if self._axes is None else np.ascontiguousarray(self._axes[:, : self._n_dims]),
            cast("FixedKind", self._directions),
        )
        if self.has_graph and not made.has_graph:
            made = made.with_graph(vectors if asked is None else asked, threads, show=progress, centre=centre)
        made = made._sharing(made._graph, self._directions, self._screening, centre=centre)  # noqa: SLF001 - of its own
        return made._stored_in(self.precision)  # noqa: SLF001 - of its own

    @classmethod
    def _of_kind(
        cls,
        rows: Float32Array,
        vectors: Float32Array,
        max_budget: int,
        threads: int,
        show: bool,
        centre: Float32Array | None,
        queries: Float32Array | None,
        along: Float32Array | None,
        directions: FixedKind,
    ) -> Self:
        """Build one kind of directions. All vectors are checked, `rows` are the items padded."""
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
        return index.with_graph(vectors if queries is None else queries, threads, show=show, centre=centre)

    def with_graph(
        self, queries: Float32Array, threads: int, *, show: bool = False, centre: Float32Array | None = None
    ) -> Self:
        """Return the index, sharing all arrays, with a graph to walk on beside its lists. The queries are checked."""

        def find(graph: ItemGraph, asked: Float32Array) -> npt.NDArray[np.int32]:
            return find_best(self._sharing(graph, "graph", _SCREENINGS["graph"]), asked, threads)

        items = np.ascontiguousarray(self.items)
        graphs = fit_graphs(items, queries, find, threads, show=show, centre=centre)
        walks = [self._sharing(graph, "graph", _SCREENINGS["graph"], centre=centre) for graph in graphs]
        walking = best_walk(walks, queries)
        guided = walking._guided_by_others()  # noqa: SLF001 - of its own
        return guided if finds_more(guided, walking, queries) else walking

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "rows": self._rows,
            "list_ids": self._lists.ids,
            "list_values": self._lists.values,
        }
        if self._axes is not None:
            arrays["axes"] = self._axes
        info: dict[str, Any] = {"n_dims": self._n_dims, "precision": self.precision}
        info |= {"directions": self._directions, "max_budget": self._max_budget}
        if self._graph is not None:
            graph_arrays, graph_info = arrays_of_graph(self._graph, self._centre, guided=self._guided)
            arrays |= graph_arrays
            info |= graph_info
        if self.compared:
            info["compared"] = [way._asdict() for way in self.compared]
        return arrays, {**info, **self._screening.to_info()}

    def verify(self) -> None:
        """Read all arrays. Raises CorruptModelError for what a build would not have made of the rows."""
        items = self.items
        check_vectors("the items", items)
        if self._rows[:, self._n_dims :].any():
            raise CorruptModelError("the rows of the index are not padded with zeros; build the model again.")
        axes = None if self._axes is None else self._axes[:, : self._n_dims]
        if axes is not None:
            check_unit("axes", axes)
        check_axis_lists(items, axes, self._lists)
        if self._graph is not None:
            check_codes(np.ascontiguousarray(items), self._graph.coded, self._centre)
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
        graph = stored_graph(arrays, info, rows, len(rows), n_dims) if "graph_neighbours" in arrays else None
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
            centre=stored_centre(arrays, n_dims),
            guided=stored_guided(info),
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
        index.compared = Compared.from_info(info.get("compared", ()))
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


def arrays_of_graph(
    graph: ItemGraph, centre: Float32Array | None, *, guided: bool
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return what a stored index has of its graph: named arrays, and what is said of them."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "graph_neighbours": graph.neighbours,
        "graph_entries": graph.entries[None],
        "graph_codes": graph.codes,
        "graph_details": graph.details,
    }
    if centre is not None:
        arrays["graph_centre"] = centre[None]
    return arrays, {"longest_code": graph.longest, "graph_checksum": graph.checksum, "guided": guided}


def stored_guided(info: Mapping[str, Any]) -> bool:
    """Return whether others guide walks under a filter; a model of before knows of no guides."""
    guided = info.get("guided", False)
    if not isinstance(guided, bool):
        raise CorruptModelError(f"the index says guided {guided!r}, which is not yes or no; write the model again.")
    return guided


def stored_centre(arrays: Mapping[str, npt.NDArray[Any]], n_dims: int) -> Float32Array | None:
    """Return what the codes leave out, where the items are a part of more and it is not their own mean."""
    if "graph_centre" not in arrays:
        return None
    centre = stored_array(arrays, "graph_centre", np.float32)
    if centre.shape != (1, n_dims):
        raise CorruptModelError(f"graph_centre of shape {centre.shape} is no vector; write the model again.")
    found: Float32Array = centre[0]
    return found


def stored_graph(
    arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any], rows: StoredRows | None, n_items: int, n_dims: int
) -> ItemGraph:
    """Return the graph from a file, of the right shape; without rows, these lie elsewhere."""
    neighbours = stored_array(arrays, "graph_neighbours", np.int32)
    entries = stored_array(arrays, "graph_entries", np.int32)
    codes = stored_array(arrays, "graph_codes", np.uint8)
    # A model written before there were details has none; they follow from the items.
    details = (
        stored_array(arrays, "graph_details", np.uint8)
        if "graph_details" in arrays or rows is None
        else compressed(np.ascontiguousarray(widen(rows[:, :n_dims])), os.cpu_count() or 1).details
    )
    longest = info.get("longest_code")
    shapes = (len(neighbours), neighbours.shape[1] > 0, len(entries), entries.shape[1] > 0, codes.shape, details.shape)
    coded = (n_items, code_stride(n_dims))
    if shapes != (n_items, True, 1, True, coded, coded) or not isinstance(longest, float):
        raise CorruptModelError(
            f"a graph with neighbours, entries, codes and details of shape {neighbours.shape}, {entries.shape}, "
            f"{codes.shape} and {details.shape} and a longest code of {longest!r} does not fit to {n_items} items of "
            f"{n_dims} dimensions; write the model again."
        )
    return ItemGraph(neighbours, entries[0], codes, details, longest)


def _check_axes(axes: Float32Array | None, width: int) -> None:
    if axes is not None and (len(axes) == 0 or axes.shape[1] != width or not (np.abs(axes) <= 1.001).all()):
        raise CorruptModelError(
            f"axes of shape {axes.shape} are not unit vectors like the rows; write the model again."
        )
