"""GreedyIndex: sorted lists per direction, greedy screening, exact ranking."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from greedy_core._kernel import Kernel
from greedy_core.embeddings import UserVectors, as_embeddings, own_rows, pad_rows, same_dims
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidEmbeddingsError
from greedy_core.fit.centres import fit_centres
from greedy_core.fit.choice import choose
from greedy_core.fit.decomposition import decompose, decomposition_length
from greedy_core.fit.directions import KINDS, Axes
from greedy_core.fit.sorting import Lists, sort_along_axes, sort_along_centres
from greedy_core.fit.trial import hold_out
from greedy_core.kernel_index import KernelIndex, rows_from, stored_array
from greedy_core.screening import Screening, is_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.directions import FixedKind, Kind

# The first entries of a centre's list are the ones that tell: many centres with short lists find more than few with
# long ones.
_CENTRE_DEPTH = 1024
# A query that is decomposed into centres is known better than by the axes alone, so fewer entries are read for it.
_SCREENINGS = {"sparse": Screening("sum", 16, 16), "learned": Screening("sum", 16, 4)}


def list_depth(n_items: int, max_budget: int) -> int:
    """Return the length of the lists: by the paper's rule no search reads further than entry `max_budget`."""
    return min(n_items, max_budget + 1)


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
        reads = (screening.reads, screening.decomposed_reads)
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

    def screened_by(self, screening: Screening) -> Self:
        """Return the same index, sharing all arrays, with another way of screening for its own."""
        return self._sharing(self._centres, self._directions, screening)

    def without_centres(self) -> Self:
        """Return the index of the axes alone, sharing all arrays."""
        return self._sharing(None, "sparse", self._screening.without_decomposition)

    def _sharing(self, centres: Centres | None, directions: str, screening: Screening) -> Self:
        return type(self)(
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
    def uses_decompositions(self) -> bool:
        """Whether its own way of screening can follow decompositions."""
        return self._screening.variant == "sum"

    @property
    def decomposition_length(self) -> int:
        """How many numbers a decomposition of this index has."""
        return decomposition_length(self._n_dims if self._axes is None else len(self._axes), self.n_centres)

    def decompose(self, queries: npt.ArrayLike | UserVectors, *, progress: bool = False) -> Float32Array:
        """Return a decomposition for each query, for `search` to follow (see greedy_core.fit.decomposition).

        This spends a product on every centre for every query, which no budget counts: it is for queries that are known
        before they are asked.
        """
        vectors = _checked(queries)
        same_dims(vectors, self._n_dims, name="queries")
        axes = None if self._axes is None else self._axes[:, : self._n_dims]
        return decompose(vectors, axes, None if self._centres is None else self._centres.vectors, show=progress)

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
        make = partial(
            cls._of_kind, own_rows(vectors), vectors, int(max_budget), threads or os.cpu_count() or 1, progress
        )
        if directions != "auto":
            return make(users, Axes(vectors, users), directions)
        # Every kind of directions worth having is built, and the one kept that is best on queries it was not fitted to.
        held_out = hold_out(vectors if users is None else users)
        fitted = None if users is None else held_out.fitted
        axes = Axes(vectors, fitted)
        # Without queries nobody is known beforehand, so there is nobody to follow centres.
        kinds: list[FixedKind] = ["axes", "principal", "sparse" if users is None else "learned"]
        indexes = [make(fitted, axes, kind) for kind in kinds]
        if indexes[-1].n_centres:
            indexes.append(indexes[-1].without_centres())
        return choose(indexes, held_out.sample)

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
        depth = list_depth(len(vectors), max_budget)
        lists = sort_along_axes(vectors, along, depth, threads, show=show)
        centres = None
        if directions == "learned":
            around = fit_centres(vectors if queries is None else queries)
            centre_lists = sort_along_centres(vectors, around, min(depth, _CENTRE_DEPTH), threads, show=show)
            centres = Centres(around, centre_lists)
        return cls(
            rows,
            vectors.shape[1],
            lists,
            None if along is None else pad_rows(along),
            centres,
            directions=directions,
            max_budget=max_budget,
            screening=_SCREENINGS.get(directions, Screening()),
        )

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays = {"rows": self._rows, "list_ids": self._lists.ids, "list_values": self._lists.values}
        if self._axes is not None:
            arrays["axes"] = self._axes
        if self._centres is not None:
            vectors, (ids, values) = self._centres
            arrays |= {"centres": vectors, "centre_list_ids": ids, "centre_list_values": values}
        info = {"n_dims": self._n_dims, "directions": self._directions, "max_budget": self._max_budget}
        return arrays, {**info, **self._screening.to_info()}

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


def _check_directions(name: str, vectors: Float32Array | None, width: int) -> None:
    if vectors is not None and (len(vectors) == 0 or vectors.shape[1] != width or not (np.abs(vectors) <= 1.001).all()):
        raise CorruptModelError(
            f"{name} of shape {vectors.shape} are not unit vectors like the rows; write the model again."
        )
