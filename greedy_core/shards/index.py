"""ShardedIndex: several indexes that are searched as one.

What one index promises holds for all together: `spent` is never more than the budget, candidate sets are nested, ties
go to the smaller position among all items, and the same question has the same answer. Where there is a map of all items
(item_map.py), walks choose the candidates here, and the shards rank theirs. Here the shards are searched one after the
other, in this process; whoever has them elsewhere overrides `_ask`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, cast

import numpy as np

from greedy_core.embeddings import as_query
from greedy_core.errors import CorruptModelError, InvalidBudgetError, InvalidQueryError
from greedy_core.fit.remembered import REMEMBERED, find_remembered
from greedy_core.index import GreedyIndex
from greedy_core.positions import as_positions
from greedy_core.screening import Screening
from greedy_core.shards.item_map import is_for_few
from greedy_core.shards.merging import merge_results
from greedy_core.shards.shares import split_budget

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.eligible import Eligible
    from greedy_core.embeddings import Float32Array, UserVectors
    from greedy_core.fit.choice import Compared
    from greedy_core.precision import Precision
    from greedy_core.result import SearchResult
    from greedy_core.screening import Variant
    from greedy_core.shards.item_map import ItemMap, Walked
    from greedy_core.shards.places import Places

    Positions = npt.NDArray[np.int32]


class ShardQuestions(NamedTuple):
    """What one shard is asked: some of the queries of a batch, each with its share of the budget.

    rows  which queries of the batch these are; the others have nothing to spend here
    All positions are those in the shard.
    """

    rows: list[int]
    queries: Float32Array
    top_k: int
    budgets: list[int]
    exclude: list[Positions | None]
    variant: Variant | None
    remembered: list[Positions | None]
    eligible: list[Eligible | None]
    page: int | None

    def answers(self, index: GreedyIndex, threads: int = 1) -> list[SearchResult]:
        """Search the shard: one result for each of the rows."""
        if len(self.rows) == 1:
            (query,), (budget,), (exclude,) = self.queries, self.budgets, self.exclude
            (remembered,), (eligible,) = self.remembered, self.eligible
            return [index.search(query, self.top_k, budget, exclude, self.variant, remembered, eligible, self.page)]
        return index.search_batch(
            self.queries,
            self.top_k,
            self.budgets,
            self.exclude,
            self.variant,
            threads,
            self.remembered,
            self.eligible,
        )


class _Split(NamedTuple):
    """One query, split over the shards.

    offered  how many items of each may be found
    walked   what a walk has found already; the shards rank it, as what is remembered
    """

    shares: list[int]
    offered: list[int]
    exclude: list[Positions] | None
    remembered: list[Positions] | None
    eligible: list[Eligible] | None
    walked: Walked | None = None


class _Asked(NamedTuple):
    """One query, as it was asked."""

    query: Float32Array
    budget: int
    exclude: npt.ArrayLike | None
    remembered: Positions | None
    eligible: Eligible | None


class ShardedIndex:
    """Several shards as one index. Immutable; any number of threads may search it at once."""

    kind: ClassVar[str] = "sharded-index"
    default_budget = 256

    def __init__(
        self,
        shards: Sequence[GreedyIndex],
        places: Places,
        item_map: ItemMap | None = None,
        screening: Screening | None = None,
    ) -> None:
        """Take the shards, in the order of their numbers. Raises CorruptModelError if they do not fit together.

        item_map   of all items, by which walks find their way; the shards have no graphs of their own then
        screening  how the index screens unless a search says otherwise; None: by the map, or else as the shards do
        """
        if tuple(shard.n_items for shard in shards) != places.sizes:
            raise CorruptModelError("its shards do not have the items that it says; build the model again.")
        first = shards[0]
        if any(_kind_of(shard) != _kind_of(first) for shard in shards):
            raise CorruptModelError("its shards were not built alike; build the model again.")
        self.shards = tuple(shards)
        self.places = places
        self.n_items = places.n_items
        self.n_dims = first.n_dims
        if item_map is not None and (item_map.n_items, item_map.n_dims) != (self.n_items, self.n_dims):
            raise CorruptModelError("the map is not one of the items of its shards; build the model again.")
        self.item_map = item_map
        self.precision: Precision = first.precision
        self.directions = first.directions if item_map is None else "graph"
        self.has_graph = first.has_graph or item_map is not None
        self.screening: Screening = screening or (first.screening if item_map is None else Screening("walk"))
        self.max_budget = first.max_budget
        # The first shard chose for all.
        self.compared: tuple[Compared, ...] = first.compared

    # ---- searching

    def search(
        self,
        query: npt.ArrayLike,
        top_k: int = 10,
        budget: int | None = None,
        exclude: npt.ArrayLike | None = None,
        variant: Variant | None = None,
        remembered: Positions | None = None,
        eligible: Eligible | None = None,
        page: int | None = None,
    ) -> SearchResult:
        """Return the best `top_k` items that `budget` inner products find, in all shards; as `KernelIndex.search`."""
        vector = as_query(query, self.n_dims)
        asked = _Asked(vector, self.default_budget if budget is None else budget, exclude, remembered, eligible)
        return self._search([asked], top_k, variant, 1, page)[0]

    def search_batch(
        self,
        queries: npt.ArrayLike,
        top_k: int = 10,
        budget: int | Sequence[int] | npt.NDArray[np.integer] | None = None,
        exclude: Sequence[npt.ArrayLike | None] | npt.NDArray[np.int32] | None = None,
        variant: Variant | None = None,
        threads: int = 1,
        remembered: Sequence[Positions | None] | Positions | None = None,
        eligible: Eligible | Sequence[Eligible | None] | None = None,
    ) -> list[SearchResult]:
        """Return one result for each row of `queries`; as `KernelIndex.search_batch`."""
        if threads < 1:
            raise InvalidQueryError(f"threads must be at least 1, but {threads} was given.")
        vectors = np.asarray(queries, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.n_dims:
            raise InvalidQueryError(
                f"queries must be a matrix of rows with {self.n_dims} values, but they have shape {vectors.shape}."
            )
        n = len(vectors)
        budgets: list[Any] = [self.default_budget if budget is None else budget] * n
        if not _is_one(budget):
            budgets = list(cast("Sequence[int]", budget))
        excludes = _one_each("exclude", exclude, n)
        hints = _one_each("remembered", remembered, n)
        allowed = (
            [eligible] * n if eligible is None or hasattr(eligible, "words") else _one_each("eligible", eligible, n)
        )
        if len(budgets) != n:
            raise InvalidQueryError(f"there are {len(budgets)} budgets for {n} queries; give one, or one for each.")
        asked = [
            _Asked(vector, int(own), left_out, hint, only)
            for vector, own, left_out, hint, only in zip(vectors, budgets, excludes, hints, allowed, strict=True)
        ]
        return self._search(asked, top_k, variant, threads, None) if n else []

    def _search(
        self, asked: Sequence[_Asked], top_k: int, variant: Variant | None, threads: int, page: int | None
    ) -> list[SearchResult]:
        if top_k < 1:
            raise InvalidQueryError(f"top_k must be at least 1, but {top_k} was given.")
        if self.item_map is None or threads == 1 or len(asked) == 1:
            splits = [self._split(one, variant, page or top_k) for one in asked]
        else:
            # Walks take the time here, and leave the GIL to others.
            with ThreadPoolExecutor(threads) as pool:
                splits = list(pool.map(self._split, asked, repeat(variant), repeat(page or top_k)))
        if self.item_map is not None and variant == "walk":
            # Shards have nothing to walk on, and nothing to screen.
            variant = None
        queries = np.stack([one.query for one in asked])
        questions = [
            self._questions(shard, queries, top_k, splits, variant, page) for shard in range(self.places.n_shards)
        ]
        answers = self._ask(questions, threads)
        found: list[list[tuple[int, SearchResult]]] = [[] for _ in splits]
        for shard, (questions_of_one, results) in enumerate(zip(questions, answers, strict=True)):
            for row, result in zip(questions_of_one.rows, results or (), strict=results is not None):
                found[row].append((shard, result))
        merged = []
        for split, own in zip(splits, found, strict=True):
            needed = sum(offered > 0 for offered in split.offered)
            merged.append(
                merge_results(
                    [result for _, result in own],
                    [self.places.in_shard(shard) for shard, _ in own],
                    top_k,
                    eligible=sum(split.offered),
                    complete=len(own) == needed,
                    walked=split.walked,
                )
            )
        return merged

    def _ask(self, asked: Sequence[ShardQuestions], threads: int) -> list[list[SearchResult] | None]:
        """Search the shards; None stands for a shard that did not answer."""
        return [questions.answers(shard, threads) for questions, shard in zip(asked, self.shards, strict=True)]

    def _questions(
        self,
        shard: int,
        queries: Float32Array,
        top_k: int,
        splits: Sequence[_Split],
        variant: Variant | None,
        page: int | None,
    ) -> ShardQuestions:
        rows = [row for row, split in enumerate(splits) if split.shares[shard] > 0]
        mine = [splits[row] for row in rows]
        return ShardQuestions(
            rows,
            queries if len(rows) == len(queries) else queries[rows],
            top_k,
            [split.shares[shard] for split in mine],
            [None if split.exclude is None else split.exclude[shard] for split in mine],
            variant,
            [None if split.remembered is None else split.remembered[shard] for split in mine],
            [None if split.eligible is None else split.eligible[shard] for split in mine],
            page,
        )

    def _split(self, asked: _Asked, variant: Variant | None, page: int) -> _Split:
        """Split one budget, and all that is said of items."""
        places, (query, budget, exclude, remembered, eligible) = self.places, asked
        offered = list(places.sizes)
        parts = None
        if eligible is not None:
            if eligible.n_items != self.n_items:
                raise InvalidQueryError(
                    f"the eligible items are of {eligible.n_items}, but this index has {self.n_items} items."
                )
            parts = places.split_eligible(eligible)
            offered = [part.count for part in parts]
        excluded = None
        if exclude is not None:
            left_out = np.unique(as_positions(exclude, self.n_items))
            excluded = places.split(left_out)
            for shard, own in enumerate(excluded):
                offered[shard] -= len(own) if parts is None else int(parts[shard].has(own).sum())
        self._check_budget(budget, sum(offered))
        if self.item_map is not None and self._walks(variant, eligible) and budget < sum(offered):
            walked = self.item_map.walk(
                query, budget, None if exclude is None else left_out, remembered, eligible, page
            )
            candidates = places.split(walked.candidates)
            return _Split([len(own) for own in candidates], offered, None, candidates, None, walked)
        hints, first = None, []
        if remembered is not None:
            known = self._first_to_rank(remembered, None if exclude is None else left_out, eligible)
            hints, first = places.split(known), places.shard[known].tolist()
        return _Split(split_budget(budget, offered, first), offered, excluded, hints, parts)

    def _walks(self, variant: Variant | None, eligible: Eligible | None) -> bool:
        """Whether a search walks on the map; as in an index with a graph, one does where few items are eligible."""
        if variant is not None:
            return variant == "walk"
        return self.screening.variant == "walk" or is_for_few(eligible)

    def _first_to_rank(self, remembered: Positions, left_out: Positions | None, eligible: Eligible | None) -> Positions:
        """Return the remembered items that may be found, each once, in their order; an entry below 0 ends them."""
        ends = np.flatnonzero(remembered < 0)
        known = remembered[: ends[0]] if len(ends) else remembered
        if len(known) and known.max() >= self.n_items:
            raise InvalidQueryError(
                f"the query remembers item {known.max()}, but this index has {self.n_items} items; ask it for its own "
                "with `remember`."
            )
        if eligible is not None:
            known = known[eligible.has(known)]
        if left_out is not None and len(left_out):
            known = known[~np.isin(known, left_out)]
        _, once = np.unique(known, return_index=True)
        return known if len(once) == len(known) else known[np.sort(once)]

    def _check_budget(self, budget: int, offered: int) -> None:
        if isinstance(budget, bool) or not isinstance(budget, int | np.integer):
            raise InvalidBudgetError(f"budget must be a whole number, but {budget!r} was given.")
        if budget < 1:
            raise InvalidBudgetError(f"budget must be at least 1, but {budget} was given.")
        if self.max_budget < budget < offered:
            raise InvalidBudgetError(
                f"the budget {budget} is above this index's max_budget of {self.max_budget} and below the {offered} "
                "products of an exact scan; lower it, or build the index with a larger max_budget."
            )

    def remember(
        self,
        queries: npt.ArrayLike | UserVectors,
        count: int = REMEMBERED,
        *,
        exclude: Sequence[Positions] | Positions | None = None,
        progress: bool = False,
    ) -> Positions:
        """Return the best items of each query, in all shards; as `GreedyIndex.remember`."""
        vectors = self.shards[0].checked_queries(queries)
        return find_remembered(self, vectors, count=count, exclude=exclude, show=progress)

    # ---- the items

    @property
    def items(self) -> Float32Array:
        """All item vectors, (n_items, n_dims): a copy. For small sets, and for verification, which reads everything."""
        vectors = np.empty((self.n_items, self.n_dims), dtype=np.float32)
        for number, shard in enumerate(self.shards):
            vectors[self.places.in_shard(number)] = shard.items
        return vectors

    def some_items(self, positions: Positions) -> tuple[Float32Array, Positions]:
        """Return vectors that include these items', copied, and where among them these stand."""
        vectors = np.empty((len(positions), self.n_dims), dtype=np.float32)
        for number in np.unique(self.places.shard[positions]).tolist():
            mine = np.flatnonzero(self.places.shard[positions] == number)
            items, at = self.shards[number].some_items(self.places.local[positions[mine]])
            vectors[mine] = items[at]
        return vectors, np.arange(len(positions), dtype=np.int32)

    def products(self, item: int, others: npt.ArrayLike) -> Float32Array:
        """Return the inner products of an item with others; as `KernelIndex.products`."""
        if not 0 <= item < self.n_items:
            raise InvalidQueryError(f"there is no item {item}; positions are from 0 to {self.n_items - 1}.")
        row = self.shards[self.places.shard[item]].row(int(self.places.local[item]))
        positions = as_positions(others, self.n_items, name="others")
        shards, locals_ = self.places.shard[positions], self.places.local[positions]
        found = np.empty(len(positions), dtype=np.float32)
        for number in np.unique(shards).tolist():
            mine = shards == number
            found[mine] = self.shards[number].products_with(row, locals_[mine])
        return found

    def with_all(self, vector: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        """Return the products of a vector with all items, in plain NumPy; as `KernelIndex.with_all`."""
        parts = [shard.with_all(vector) for shard in self.shards]
        found = np.empty(self.n_items, dtype=parts[0].dtype)
        for number, part in enumerate(parts):
            found[self.places.in_shard(number)] = part
        return found

    def lengths(self) -> Float32Array:
        """Return the length of each item; as `KernelIndex.lengths`."""
        found = np.empty(self.n_items, dtype=np.float32)
        for number, shard in enumerate(self.shards):
            found[self.places.in_shard(number)] = shard.lengths()
        return found

    def gram(self) -> npt.NDArray[np.float64]:
        """Return the sum of the items' outer products with themselves."""
        return np.asarray(np.sum([shard.gram() for shard in self.shards], axis=0))

    def mean(self) -> npt.NDArray[np.float64]:
        """Return the mean of all items."""
        total = sum(shard.mean() * shard.n_items for shard in self.shards)
        return np.asarray(total / self.n_items)

    # ---- as a whole

    def verify(self) -> None:
        """Read the map, if there is one. Raises CorruptModelError. Each shard is verified where it lies."""
        if self.item_map is not None:
            self.item_map.verify(self.items)

    def screened_by(self, screening: Screening) -> Self:
        """Return the same shards with another way of screening."""
        shards = self.shards
        if self.item_map is None or screening.variant != "walk":
            shards = tuple(shard.screened_by(screening) for shard in shards)
        return type(self)(shards, self.places, self.item_map, screening)

    @property
    def nbytes(self) -> int:
        """The size of all shards, and of the map, without the items' rows."""
        return sum(shard.nbytes for shard in self.shards) + (0 if self.item_map is None else self.item_map.nbytes)

    def map_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return the map as it is stored, if there is one, and what is said of it and of the index."""
        arrays, info = ({}, {}) if self.item_map is None else self.item_map.to_arrays()
        return arrays, info | {"n_dims": self.n_dims, "sizes": list(self.places.sizes)}

    def to_arrays(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
        """Return what is kept once: where the items lie, how many each shard has, and the map if there is one."""
        arrays, info = self.map_arrays()
        return self.places.to_arrays() | arrays, info


# Whatever a bundle's items are searched by.
AnyIndex: TypeAlias = GreedyIndex | ShardedIndex


def _kind_of(shard: GreedyIndex) -> tuple[object, ...]:
    return (shard.n_dims, shard.precision, shard.directions, shard.has_graph, shard.screening, shard.max_budget)


def _is_one(budget: object) -> bool:
    return budget is None or isinstance(budget, int | np.integer)


def _one_each(name: str, given: Any, n: int) -> list[Any]:
    if given is None:
        return [None] * n
    if len(given) != n:
        raise InvalidQueryError(f"{name} has {len(given)} entries for {n} queries; give one for each.")
    return list(given)
