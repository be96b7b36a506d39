"""The graph that a greedy walk follows: which items lead to which, where a walk begins, and the compressed rows.

    items ──► groups of near items ──► each item's nearest ──► a first graph ──► its walks: queries' best items
                                             │                                            │
                                             └─────────────► neighbours ◄─── items that stand together among these

Edges lead to items that are near, and to items that stand together among the best of the same queries; of several that
lie behind each other only the first is kept (the relative-neighbourhood rule), and each edge is offered to its other
end. At last, some edges that no item depends on give way to others, until walks can reach every item.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core._graph import Reversed, code_stride, encode_rows, nearest_in_group, prune
from greedy_core.embeddings import pad_rows
from greedy_core.fit.directions import second_moment
from greedy_core.fit.reach import lead_everywhere
from greedy_core.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Ids = npt.NDArray[np.int32]

T = TypeVar("T")

# How many neighbours an item has. Few let a walk go further for the same number of estimates, many lead it less often
# astray: models differ, so graphs of each degree are compared. So do those for each way of measuring how near items
# are, see `likeness`.
DEGREES = (24, 48)
POWERS = (0.0, 0.25)
# Neighbours that are looked for: in each group, and among the best of the same queries, from so many of these.
_NEAREST, _TOGETHER, _MOST_LISTS = 24, 48, 32
# An item belongs to its nearest groups. The larger they are, the more of the nearest items are found: as large as keeps
# the number of pairs within bounds; and none has more than ten times its share.
_GROUPS, _PAIRS, _LEAST_GROUP, _MOST_GROUP, _LARGEST = 3, 160_000_000, 300, 2000, 10
_SAMPLE, _ITERATIONS = 40_000, 5
_ENTRIES = 64
# Of so many queries the best items are looked at, and so many of each decide where walks begin.
_QUERIES, _FIRST = 30_000, 10
_BLOCK = 4096
_SEED = 20170818


class ItemGraph(NamedTuple):
    """What a walk needs beside the rows."""

    neighbours: Ids  # (n_items, degree), -1 from where an item has no more
    entries: Ids  # where a walk begins
    codes: npt.NDArray[np.uint8]  # the compressed rows
    details: npt.NDArray[np.uint8]  # for a closer look
    longest: float  # of what the codes stand for

    @property
    def coded(self) -> Compressed:
        """What belongs to the items alone."""
        return Compressed(self.codes, self.details, self.longest)

    @property
    def checksum(self) -> str:
        """Of where walks lead: neighbours and entries."""
        digest = blake2b(self.neighbours.data, digest_size=16)
        digest.update(self.entries.data)
        return digest.hexdigest()


def fit_graphs(
    items: Float32Array,
    queries: Float32Array,
    find: Callable[[ItemGraph, Float32Array], Ids],
    threads: int,
    *,
    show: bool = False,
    centre: Float32Array | None = None,
) -> list[ItemGraph]:
    """Return a graph of items (n_items, n_dims) for queries like these, for each of POWERS and DEGREES.

    find    the best items of each query by walks over a graph, (n_queries, any number), -1 where there are fewer
    centre  see `compressed`
    """
    rng = np.random.default_rng(_SEED)
    asked = queries[np.sort(rng.permutation(len(queries))[:_QUERIES])]
    graphs: list[ItemGraph] = []
    with progress_bar("connecting items", 2 + len(POWERS) * (1 + len(DEGREES)), show=show) as advance:
        coded = compressed(items, threads, centre)
        for power in POWERS:
            space = likeness(items, asked, power)
            near = near_items(space, threads)
            advance(1)
            if not graphs:
                first = ItemGraph(connect(space, [near], threads, max(DEGREES)), _long_items(items), *coded)
                advance(1)
                lists = find(first, asked)
                together = listed_together(lists, len(items), threads)
                entries = find_entries(lists, len(items))
                advance(1)
            for degree in DEGREES:
                neighbours = connect(space, [near, together], threads, degree)
                lead_everywhere(neighbours, entries, space)
                graphs.append(ItemGraph(neighbours, entries, *coded))
                advance(1)
    return graphs


def likeness(items: Float32Array, queries: Float32Array, power: float) -> Float32Array:
    """Return the items in the space where near ones are looked for, padded like rows.

    After a multiplication by the root of the queries' second moment (a power of a half), distance is the root mean
    square of the difference between two items' scores; without one (a power of 0) it is that between their vectors. A
    quarter lies half way: some models have items that differ in what no query asks for, others have queries that all
    ask for one thing first.

    One more coordinate makes all vectors equally long, so that items of different length lie apart. Without it short
    items are near to everything, and walks pass through them although no query scores them high.
    """
    turned = items
    if power > 0:
        values, vectors = np.linalg.eigh(second_moment(queries))
        turned = items @ (vectors * np.maximum(values, 0.0) ** power).astype(np.float32)
    squares = np.einsum("ij,ij->i", turned, turned, dtype=np.float64)
    missing = np.sqrt(squares.max() - squares).astype(np.float32)
    return pad_rows(np.concatenate([turned, missing[:, None]], axis=1))


class Compressed(NamedTuple):
    """Items at two bits a coordinate, two bits more, and the length of the longest code."""

    codes: npt.NDArray[np.uint8]
    details: npt.NDArray[np.uint8]
    longest: float


def compressed(items: Float32Array, threads: int, centre: Float32Array | None = None) -> Compressed:
    """Return the compressed rows of the items.

    centre  what the codes leave out, for items that are a part of more; without it their own mean. Estimates by codes
            with the same centre can be compared
    """
    codes = np.empty((len(items), code_stride(items.shape[1])), dtype=np.uint8)
    details = np.empty_like(codes)
    mean = items.mean(axis=0, dtype=np.float64).astype(np.float32) if centre is None else centre
    lengths = _in_blocks(
        lambda part: encode_rows(np.ascontiguousarray(items[part]), mean, codes[part], details[part]),
        len(items),
        threads,
    )
    return Compressed(codes, details, max(lengths))


def near_items(space: Float32Array, threads: int) -> Ids:
    """Return for each item the nearest in the groups that it belongs to, (n_items, _GROUPS * _NEAREST)."""
    n_items = len(space)
    found = np.full((n_items, _GROUPS, _NEAREST), -1, dtype=np.int32)
    turn = np.zeros(n_items, dtype=np.int8)
    squares = np.einsum("ij,ij->i", space, space)
    work = []
    for members in groups(space):
        # Which of the item's places the group fills: a group has an item once, so the turns are known beforehand.
        work.append((members, turn[members].copy()))
        turn[members] += 1

    def look(task: tuple[Ids, npt.NDArray[np.int8]]) -> None:
        members, turns = task
        near = np.empty((len(members), _NEAREST), dtype=np.int32)
        vectors = space[members]
        nearest_in_group(vectors @ vectors.T, squares[members], members, near)
        found[members, turns] = near

    with threadpool_limits(1), ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(look, work):
            pass
    return found.reshape(n_items, -1)


def groups(space: Float32Array) -> Iterator[Ids]:
    """Yield groups of near items, each item in at most _GROUPS of them."""
    everything = np.arange(len(space), dtype=np.int32)
    size = int(np.clip(_PAIRS // len(space), _LEAST_GROUP, _MOST_GROUP))
    yield from _split(space, everything, _GROUPS, size, np.random.default_rng(_SEED))


def _split(space: Float32Array, members: Ids, shared: int, size: int, rng: np.random.Generator) -> Iterator[Ids]:
    if len(members) <= size * shared:
        yield members
        return
    n_groups = min(len(members) // size, 4096)
    sample = space[members[np.sort(rng.permutation(len(members))[:_SAMPLE])]]
    centres = _means(sample, n_groups, rng)
    nearest = np.concatenate(
        [
            _nearest(space[members[start : start + _BLOCK]], centres, min(shared, n_groups))
            for start in range(0, len(members), _BLOCK)
        ]
    )
    order = np.argsort(nearest, axis=None, kind="stable")
    ends = np.searchsorted(nearest.ravel()[order], np.arange(n_groups + 1))
    for start, stop in pairwise(ends):
        inside = members[order[start:stop] // nearest.shape[1]]
        if len(inside) <= _LARGEST * size:
            if len(inside) > 1:
                yield inside
        elif len(inside) < 0.9 * len(members):
            yield from _split(space, inside, 1, size, rng)
        else:  # nothing tells these apart, so any of them are as near as others
            yield from np.array_split(inside, len(inside) // size)


def _means(sample: Float32Array, n_groups: int, rng: np.random.Generator) -> Float32Array:
    centres = sample[np.sort(rng.permutation(len(sample))[:n_groups])]
    for _ in range(_ITERATIONS):
        nearest = np.concatenate(
            [_nearest(sample[start : start + _BLOCK], centres, 1)[:, 0] for start in range(0, len(sample), _BLOCK)]
        )
        order = np.argsort(nearest, kind="stable")
        first = np.flatnonzero(np.diff(nearest[order], prepend=-1))
        sizes = np.diff(np.append(first, len(order)))
        centres[nearest[order][first]] = np.add.reduceat(sample[order], first, axis=0) / sizes[:, None]
    return centres


def _nearest(vectors: Float32Array, centres: Float32Array, count: int) -> npt.NDArray[np.intp]:
    nearness = vectors @ centres.T
    nearness -= 0.5 * np.einsum("ij,ij->i", centres, centres)
    nearest = np.empty((len(vectors), count), dtype=np.intp)
    for place in range(count):
        # A few passes over all are faster than any partial sort.
        nearest[:, place] = nearness.argmax(axis=1)
        nearness[np.arange(len(vectors)), nearest[:, place]] = -np.inf
    return nearest


def listed_together(lists: Ids, n_items: int, threads: int) -> Ids:
    """Return for each item those that most often stand in the same lists, (n_items, _TOGETHER)."""
    found = np.empty((n_items, _TOGETHER), dtype=np.int32)
    rows = Reversed(lists, n_items)
    _in_blocks(lambda part: rows.together(part.start, _MOST_LISTS, found[part]), n_items, threads)
    return found


def connect(space: Float32Array, candidates: list[Ids], threads: int, degree: int) -> Ids:
    """Return the neighbours of each item: the candidates, pruned, and once more with those that chose the item."""
    neighbours = np.empty((len(space), degree), dtype=np.int32)
    chosen = np.empty_like(neighbours)
    squares = np.einsum("ij,ij->i", space, space)
    _in_blocks(lambda part: prune(space, squares, part.start, candidates, None, chosen[part]), len(space), threads)
    reverse = Reversed(chosen, len(space))
    _in_blocks(lambda part: prune(space, squares, part.start, [chosen], reverse, neighbours[part]), len(space), threads)
    return neighbours


def find_entries(lists: Ids, n_items: int) -> Ids:
    """Return items to begin at: again and again the one that is among the first of most lists that have none yet."""
    first = np.ascontiguousarray(lists[:, :_FIRST])
    entries: list[int] = []
    for _ in range(min(_ENTRIES, n_items)):
        named = first[first >= 0]
        if named.size == 0:
            break
        entries.append(int(np.bincount(named).argmax()))
        first = first[(first != entries[-1]).all(axis=1)]
    return np.array(entries or [0], dtype=np.int32)


def _long_items(items: Float32Array) -> Ids:
    """Return where the first walks begin, before any query was asked: at the longest items."""
    squares = np.einsum("ij,ij->i", items, items)
    return np.argsort(-squares, kind="stable")[:_ENTRIES].astype(np.int32)


def _in_blocks(work: Callable[[slice], T], n: int, threads: int) -> list[T]:
    """Call work for all n, a block at a time, on several threads."""
    parts = [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
