"""The paper in plain Python, to be read beside it. Slow, obvious, and what every fast path is compared with.

H is (n_items, n_dims), w a query, Z[j, t] = H[j, t] * w[t] the implicit matrix. Items and dimensions count from 0.
Where the paper leaves ties open, the smaller item comes first; dimensions with w_t = 0 are skipped.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from greedy_core.result import SearchResult

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt

    Matrix: TypeAlias = npt.NDArray[np.floating]


def sorted_index_arrays(H: Matrix, depth: int | None = None) -> list[tuple[list[int], list[int]]]:
    """Section 4.2: for every dimension the items from the largest and from the smallest value, cut to `depth`."""
    arrays = []
    for t in range(H.shape[1]):
        j = np.arange(len(H))
        largest_first = np.lexsort((j, -H[:, t]))
        smallest_first = np.lexsort((j, H[:, t]))
        arrays.append((largest_first[:depth].tolist(), smallest_first[:depth].tolist()))
    return arrays


class ConditionalIterator:
    """Algorithm 1: the items in the order of the conditional ranking pi_t(j|w)."""

    def __init__(self, s_t: tuple[list[int], list[int]], query_val: float) -> None:
        self.s = s_t[0] if query_val > 0 else s_t[1]
        self.ptr = 0

    def current(self) -> int:
        return self.s[self.ptr]

    def has_next(self) -> bool:
        return self.ptr < len(self.s) - 1

    def get_next(self) -> int:
        self.ptr += 1
        return self.current()


class MaxHeap:
    """The Q of algorithm 2: entries (z, j, t), the largest z on top."""

    def __init__(self, entries: Iterable[tuple[float, int, int]]) -> None:
        self.heap = [(-z, j, t) for z, j, t in entries]
        heapq.heapify(self.heap)

    def __bool__(self) -> bool:
        return bool(self.heap)

    def top(self) -> tuple[float, int, int]:
        z, j, t = self.heap[0]
        return -z, j, t

    def pop(self) -> tuple[float, int, int]:
        z, j, t = heapq.heappop(self.heap)
        return -z, j, t

    def push(self, z: float, j: int, t: int) -> None:
        heapq.heappush(self.heap, (-z, j, t))


class SelectionTree:
    """Algorithm 6: the same queue as a tournament. `buf[1]` is the winner, leaf t is `buf[k_bar + t]`."""

    EXHAUSTED = (-np.inf, np.iinfo(np.int32).max, -1)

    def __init__(self, entries: list[tuple[float, int, int]]) -> None:
        self.leaf_of = {t: leaf for leaf, (_, _, t) in enumerate(entries)}
        self.k_bar = 1
        while self.k_bar < len(entries):
            self.k_bar *= 2
        self.buf = [self.EXHAUSTED] * (2 * self.k_bar)
        for leaf, entry in enumerate(entries):
            self.buf[self.k_bar + leaf] = entry
        for i in range(self.k_bar - 1, 0, -1):
            self.buf[i] = self._winner(i)

    def __bool__(self) -> bool:
        return self.buf[1] != self.EXHAUSTED

    def top(self) -> tuple[float, int, int]:
        return self.buf[1]

    def pop(self) -> tuple[float, int, int]:
        entry = self.top()
        self._update_value(entry[2], self.EXHAUSTED)
        return entry

    def push(self, z: float, j: int, t: int) -> None:
        self._update_value(t, (z, j, t))

    def _update_value(self, t: int, entry: tuple[float, int, int]) -> None:
        i = self.k_bar + self.leaf_of[t]
        self.buf[i] = entry
        while i > 1:
            i //= 2
            self.buf[i] = self._winner(i)

    def _winner(self, i: int) -> tuple[float, int, int]:
        return max(self.buf[2 * i], self.buf[2 * i + 1], key=lambda entry: (entry[0], -entry[1]))


Queue: TypeAlias = MaxHeap | SelectionTree


def preprocess_query(
    H: Matrix, w: Matrix, queue: type[Queue], arrays: list[tuple[list[int], list[int]]]
) -> tuple[dict[int, ConditionalIterator], Queue]:
    """Algorithm 2: an iterator for every dimension, and a queue of their heads."""
    iters = {t: ConditionalIterator(arrays[t], w[t]) for t in range(H.shape[1]) if w[t] != 0}
    heads = []
    for t, iterator in iters.items():
        j = iterator.current()
        heads.append((float(H[j, t]) * float(w[t]), j, t))
    return iters, queue(heads)


class JointIterator:
    """Algorithm 3: all (z, j, t) in the order of the joint ranking pi(j,t|w)."""

    def __init__(self, H: Matrix, w: Matrix, queue: type[Queue], arrays: list[tuple[list[int], list[int]]]) -> None:
        self.H, self.w = H, w
        self.iters, self.Q = preprocess_query(H, w, queue, arrays)

    def __iter__(self) -> JointIterator:
        return self

    def __next__(self) -> tuple[float, int, int]:
        if not self.Q:
            raise StopIteration
        z, j, t = self.Q.pop()
        if self.iters[t].has_next():
            following = self.iters[t].get_next()
            self.Q.push(float(self.H[following, t]) * float(self.w[t]), following, t)
        return z, j, t


def screen_original(
    H: Matrix,
    w: Matrix,
    budget: int,
    excluded: AbstractSet[int] = frozenset(),
    queue: type[Queue] = SelectionTree,
    most_entries: int | None = None,
) -> list[int]:
    """Algorithm 4: C(w), from a walk over all entries, or the first `most_entries`."""
    candidates: list[int] = []
    for n_read, (_, j, _) in enumerate(JointIterator(H, w, queue, sorted_index_arrays(H))):
        if len(candidates) == budget or n_read == most_entries:
            break
        if j not in candidates and j not in excluded:
            candidates.append(j)
    return fill_in_id_order(candidates, len(H), budget, excluded)


def screen_improved(
    H: Matrix,
    w: Matrix,
    budget: int,
    excluded: AbstractSet[int] = frozenset(),
    queue: type[Queue] = SelectionTree,
    depth: int | None = None,
    before: Iterable[int] = (),
    most_entries: float = np.inf,
) -> list[int]:
    """Algorithm 5: C(w), passing over entries of visited items before they reach the queue.

    Lists may be cut to `depth`, and candidates found otherwise may come `before`. A filter is a set of excluded items,
    too; under one the search ends once `most_entries` were read (see ENTRIES).
    """
    candidates = list(before)
    visited = {*excluded, *candidates}
    iters, Q = preprocess_query(H, w, queue, sorted_index_arrays(H, depth))
    n_read = len(iters)
    while len(candidates) < budget and Q and n_read < most_entries:
        _, j, t = Q.pop()
        if j not in visited:
            candidates.append(j)
            visited.add(j)
        while iters[t].has_next():
            j = iters[t].get_next()
            n_read += 1
            if j not in visited:
                Q.push(float(H[j, t]) * float(w[t]), j, t)
                break
    return fill_in_id_order(candidates, len(H), budget, excluded)


# Under a filter a search looks at no more list entries, or neighbours, than so many for each eligible item.
ENTRIES = 16


LEVELS = 64
_QUARTERS = np.array([1.0, 0.8408964, 0.70710677, 0.59460354], dtype=np.float32)


def level_of(values: Matrix, top: np.float32) -> npt.NDArray[np.int64]:
    """Return the first m with value >= top * 2^(-m/4), or one that is never reached."""
    thresholds = [top * _QUARTERS[m % 4] * np.float32(0.5 ** (m // 4)) for m in range(LEVELS)]
    reached = np.array([values >= threshold for threshold in thresholds]) & (values > 0)
    return np.where(reached.any(axis=0), reached.argmax(axis=0), 10 * LEVELS)


def shift_of(largest: np.float32, weight: np.float32) -> int:
    """Return round(4 log2(largest / weight)); a weight of zero is past all levels."""
    with np.errstate(over="ignore", divide="ignore"):
        ratio = float(largest / weight)
    if np.isinf(ratio):
        return 10 * LEVELS
    mantissa, octaves = np.frexp(np.float32(ratio))
    bounds = np.array([1.0905077, 1.2968396, 1.5422108, 1.8340081], dtype=np.float32)
    return 4 * (int(octaves) - 1) + int((2 * mantissa > bounds).sum())


def gains(values: Matrix, depth: int) -> npt.NDArray[np.float32]:
    """Return what a list says for each item: its value above the last one that the list holds, if it holds the item."""
    held = np.lexsort((np.arange(len(values)), -values))[:depth]
    gain = np.zeros(len(values), dtype=np.float32)
    gain[held] = np.maximum(values[held] - max(values[held[-1]], np.float32(0)), 0)
    return gain


def screen_sum(
    H: Matrix,
    w: Matrix,
    budget: int,
    excluded: AbstractSet[int] = frozenset(),
    reads: int = 16,
    depth: int | None = None,
    n_eligible: int | None = None,
) -> list[int]:
    """Past the paper: C(w) by the sum of the gains w_t h_jt >= tau, in rounds for 32, 64, 128, ... candidates.

    Round r lowers tau, by quarters of an octave, while no more than reads * B_r entries in favour lie above it; entries
    against are read as far, or until they are as many. An item comes into sight with its first entry in favour; of
    those in sight, the largest sums are chosen, up to 3/2 B_r in all. When all is read, the paper's rule says what
    follows.

    Where only `n_eligible` items are not filtered out, as many more entries are read as it takes to see as many of
    them, and the round that reads half of the most allowed on a side is the last.
    """
    most_entries: float = np.inf
    if n_eligible is not None:
        reads *= -(-len(H) // n_eligible)
        most_entries = ENTRIES * n_eligible
    most_of_side = most_entries // 2
    n_items, n_dims = H.shape
    depth = depth or n_items
    along = [gains(H[:, t], depth) for t in range(n_dims)]
    opposite = [gains(-H[:, t], depth) for t in range(n_dims)]
    favour = [along[t] if w[t] > 0 else opposite[t] for t in range(n_dims)]
    against = [opposite[t] if w[t] > 0 else along[t] for t in range(n_dims)]
    top, largest = np.max([*along, *opposite]), np.abs(w).max()
    candidates: list[int] = []
    if top > 0 and largest > 0:
        shifts = np.array([shift_of(largest, np.abs(weight)) for weight in w])[:, None]
        unit = 2.0**28 / (float(n_dims) * float(top) * float(largest))
        scale = np.minimum(np.abs(w).astype(np.float64) * unit, 1e38).astype(np.float32)[:, None]
        positive, negative = np.array(favour), np.array(against)
        level_of_positive, level_of_negative = level_of(positive, top) + shifts, level_of(negative, top) + shifts
        positive, negative = (positive * scale).astype(np.int64), (negative * scale).astype(np.int64)
        m, m_negative, goal = 0, -1, 32
        while len(candidates) < budget:
            while m + 1 < LEVELS and (level_of_positive <= m + 1).sum() <= min(reads * goal, most_of_side):
                m += 1
            while m_negative < m and (level_of_negative <= m_negative + 1).sum() <= min(reads * goal, most_of_side):
                m_negative += 1
            everything = m == m_negative == LEVELS - 1 or reads * goal >= most_of_side
            read = level_of_positive <= m
            sums = np.where(read, positive, 0).sum(axis=0)
            sums -= np.where(level_of_negative <= m_negative, negative, 0).sum(axis=0)
            in_sight = read.any(axis=0)
            taken = excluded | set(candidates)
            order = [int(j) for j in np.lexsort((np.arange(n_items), -sums)) if in_sight[j] and j not in taken]
            candidates += order[: (budget if everything else min(goal + goal // 2, budget)) - len(candidates)]
            if everything:
                break
            goal *= 2
    return screen_improved(H, w, budget, excluded, depth=depth, before=candidates, most_entries=most_entries)


def fill_in_id_order(candidates: list[int], n_items: int, budget: int, excluded: AbstractSet[int]) -> list[int]:
    """Spend what is left on the items that no list named."""
    rest = (j for j in range(n_items) if j not in candidates and j not in excluded)
    return candidates + [j for _, j in zip(range(budget - len(candidates)), rest, strict=False)]


def greedy_ranking(H: Matrix, w: Matrix) -> list[int]:
    """Equation 5: all items by max_t z_jt, which is what every screening above is a prefix of (theorem 1)."""
    Z = H[:, w != 0].astype(np.float64) * w[w != 0].astype(np.float64)
    largest = Z.max(axis=1) if Z.shape[1] else np.zeros(len(H))
    return [int(j) for j in np.lexsort((np.arange(len(H)), -largest))]


def rank_candidates(H: Matrix, w: Matrix, candidates: list[int], top_k: int) -> SearchResult:
    """Section 3.1: exact inner products of the candidates, the best `top_k` of them."""
    ids = np.array(sorted(candidates), dtype=np.int32)
    scores = (H[ids].astype(np.float64) @ w.astype(np.float64)).astype(np.float32)
    best = np.lexsort((ids, -scores))[:top_k]
    return SearchResult(ids[best], scores[best], len(ids), False, 0, len(H))


def search(H: Matrix, w: Matrix, top_k: int, budget: int, exclude: Iterable[int] = ()) -> SearchResult:
    """Greedy-MIPS: screen, then rank."""
    excluded = set(exclude)
    candidates = screen_improved(H, w, budget, excluded)
    result = rank_candidates(H, w, candidates, top_k)
    eligible = len(H) - len(excluded)
    return result._replace(complete=result.spent == eligible, eligible=eligible)
