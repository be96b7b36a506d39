"""The graph that a greedy walk follows: which items lead to which, where a walk begins, and the compressed rows.

    items ──► likeness: the space in which near items are scored alike by most queries
                 │
                 ├──► groups of near items ──► each item's nearest ──┐
    queries ─────┴──► their best items, by a walk over a first graph ┴─► neighbours, pruned and made mutual

Two items h and g are alike when <w, h> and <w, g> differ little for most queries w. The mean of that difference's square
is a squared distance after items are multiplied by the root of the queries' second-moment matrix. Edges lead to the items
nearest in this sense, and to those that stand together among the best of the same queries; of several that lie behind each
other only the first is kept (the relative-neighbourhood rule), and each edge is offered to its other end.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from greedy_core._graph import Reversed, code_stride, encode_rows, nearest_in_group, prune

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from greedy_core.embeddings import Float32Array

    Ids = npt.NDArray[np.int32]

DEGREE = 32
# Neighbours that are looked for: in each group, and among the best of the same queries, from so many of these.
_NEAREST, _TOGETHER, _MOST_LISTS = 24, 48, 32
# An item belongs to its nearest groups; a group has about so many items of its own, and at most as many as fit.
_GROUPS, _GROUP_ITEMS, _GROUP_MOST = 3, 400, 6000
_SAMPLE, _ITERATIONS = 40_000, 5
_ENTRIES = 64
_BLOCK = 4096
_SEED = 20170818


class ItemGraph(NamedTuple):
    """What a walk needs beside the rows."""

    neighbours: Ids  # (n_items, DEGREE), -1 from where an item has no more
    entries: Ids  # where a walk begins
    codes: npt.NDArray[np.uint8]  # the compressed rows
    longest: float  # of what the codes stand for


def likeness(items: Float32Array, queries: Float32Array) -> Float32Array:
    """Return the items in the space where distance is the root mean square of the difference between two items' scores."""
    moment = (queries.T.astype(np.float64) @ queries) / max(len(queries), 1)
    values, vectors = np.linalg.eigh(moment)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.ascontiguousarray(items @ root.astype(np.float32))


def compressed(items: Float32Array, threads: int) -> tuple[npt.NDArray[np.uint8], float]:
    """Return the items at two bits a coordinate, and the length of the longest code."""
    codes = np.empty((len(items), code_stride(items.shape[1])), dtype=np.uint8)
    mean = items.mean(axis=0, dtype=np.float64).astype(np.float32)
    longest = _in_blocks(
        lambda part: encode_rows(np.ascontiguousarray(items[part]), mean, codes[part]), len(items), threads
    )
    return codes, max(longest)


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
    yield from _split(space, everything, _GROUPS, np.random.default_rng(_SEED))


def _split(space: Float32Array, members: Ids, shared: int, rng: np.random.Generator) -> Iterator[Ids]:
    if len(members) <= _GROUP_ITEMS * shared:
        yield members
        return
    n_groups = min(len(members) // _GROUP_ITEMS, 4096)
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
    for start, stop in zip(ends[:-1], ends[1:], strict=True):
        inside = members[order[start:stop] // nearest.shape[1]]
        if len(inside) <= _GROUP_MOST:
            if len(inside) > 1:
                yield inside
        elif len(inside) < 0.9 * len(members):
            yield from _split(space, inside, 1, rng)
        else:  # nothing tells these apart, so any of them are as near as others
            yield from np.array_split(inside, len(inside) // _GROUP_ITEMS)


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
    if count == 1:
        return nearness.argmax(axis=1)[:, None]
    return np.argpartition(nearness, -count, axis=1)[:, -count:]


def listed_together(lists: Ids, n_items: int, threads: int) -> Ids:
    """Return for each item those that most often stand in the same lists, (n_items, _TOGETHER)."""
    found = np.empty((n_items, _TOGETHER), dtype=np.int32)
    rows = Reversed(lists, n_items)
    _in_blocks(lambda part: rows.together(part.start, _MOST_LISTS, found[part]), n_items, threads)
    return found


def connect(space: Float32Array, candidates: list[Ids], threads: int, degree: int = DEGREE) -> Ids:
    """Return the neighbours of each item: the candidates, pruned, and once more with those that chose the item."""
    neighbours = np.empty((len(space), degree), dtype=np.int32)
    chosen = np.empty_like(neighbours)
    _in_blocks(lambda part: prune(space, part.start, candidates, None, chosen[part]), len(space), threads)
    reverse = Reversed(chosen, len(space))
    _in_blocks(lambda part: prune(space, part.start, [chosen], reverse, neighbours[part]), len(space), threads)
    return neighbours


def find_entries(lists: Ids, n_items: int) -> Ids:
    """Return items to begin at: again and again the one that is in most lists that have none yet."""
    return np.argsort(-np.bincount(lists[lists >= 0], minlength=n_items), kind="stable")[:_ENTRIES].astype(np.int32)


def _in_blocks(work: Callable[[slice], object], n: int, threads: int) -> list[object]:
    """Call work for all n, a block at a time, on several threads."""
    parts = [slice(start, min(start + _BLOCK, n)) for start in range(0, n, _BLOCK)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
