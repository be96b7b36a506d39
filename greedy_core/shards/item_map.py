"""ItemMap: the way to candidates among the items of all shards, kept once.

A walk that has to find its way in each shard by itself needs as many times the budget. So the graph is one of all
items, and lies with the compressed rows where the budget is split; the shards have the rows, and rank what the walk has
found. Candidates and cost are those of one index.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from greedy_core._kernel import Kernel, Variant, few_of
from greedy_core.errors import CorruptModelError
from greedy_core.fit.checking import check_codes
from greedy_core.index import arrays_of_graph, stored_centre, stored_graph, stored_guided

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.graph import ItemGraph
    from greedy_core.index import GreedyIndex


class Walked(NamedTuple):
    """What one walk has found.

    candidates  positions among all items
    spent       products, those with the candidates' rows among them
    """

    candidates: npt.NDArray[np.int32]
    spent: int
    entries_read: int

    @property
    def on_the_way(self) -> int:
        """The products that are spent when the candidates are known, and before any is ranked."""
        return self.spent - len(self.candidates)


def is_for_few(eligible: Eligible | None) -> bool:
    """Whether so few items are eligible that an index with a graph estimates them all, however it screens."""
    return eligible is not None and eligible.count <= few_of(eligible.n_items)


class ItemMap:
    """A graph over all items, with their compressed rows. Immutable; any number of threads may walk at once."""

    def __init__(
        self, graph: ItemGraph, n_dims: int, *, max_budget: int, guided: bool, centre: Float32Array | None
    ) -> None:
        """Take the graph of an index over all items.

        guided  whether what is not eligible guides a walk under a filter
        centre  what the codes leave out; None: the mean of the items
        """
        self.n_items, self.n_dims = len(graph.codes), n_dims
        self._graph, self._guided, self._centre = graph, guided, centre
        self._max_budget = max_budget
        self._checksum: object = graph.checksum
        self._kernel = Kernel(None, n_dims, None, None, None, max_budget, 0, self.n_items)
        self._kernel.walk_on(*graph, guided=guided)

    def walk(
        self,
        query: Float32Array,
        budget: int,
        exclude: npt.NDArray[np.int32] | None,
        remembered: npt.NDArray[np.int32] | None,
        eligible: Eligible | None,
        page: int,
    ) -> Walked:
        """Return what a search with this budget would rank, all items being in one index; as `KernelIndex.screen`."""
        found, spent, entries_read = self._kernel.screen(
            query, budget, exclude, Variant.walk, Variant.walk, False, remembered, eligible, page
        )
        return Walked(found, spent, entries_read)

    @property
    def nbytes(self) -> int:
        """The size of all arrays."""
        arrays, _ = self.to_arrays()
        return sum(array.nbytes for array in arrays.values())

    @classmethod
    def of(cls, index: GreedyIndex) -> Self:
        """Return the map of an index over all items, which has a graph."""
        if index.graph is None:
            raise CorruptModelError('an index without a graph has no map; build it with directions "graph".')
        return cls(index.graph, index.n_dims, max_budget=index.max_budget, guided=index.guided, centre=index.centre)

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what `from_arrays` needs: named arrays, and a description that JSON can hold."""
        arrays, info = arrays_of_graph(self._graph, self._centre, guided=self._guided)
        return arrays, info | {"max_budget": self._max_budget}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any], n_items: int) -> Self | None:
        """Return the map from a file, or None where there is none. Raises CorruptModelError."""
        if "graph_neighbours" not in arrays:
            return None
        n_dims = info["n_dims"]
        graph = stored_graph(arrays, info, None, n_items, n_dims)
        made = cls(
            graph,
            n_dims,
            max_budget=info["max_budget"],
            guided=stored_guided(info),
            centre=stored_centre(arrays, n_dims),
        )
        if made._kernel.first_bad_item() >= 0:
            raise CorruptModelError("the map of the shards leads to items that do not exist; restore its files.")
        made._checksum = info.get("graph_checksum")
        return made

    def verify(self, items: Float32Array) -> None:
        """Read all arrays. Raises CorruptModelError for what a build would not have made of the items."""
        check_codes(np.ascontiguousarray(items), self._graph.coded, self._centre)
        if self._graph.checksum != self._checksum:
            raise CorruptModelError("the map of the shards is not the one that was built; build the model again.")
