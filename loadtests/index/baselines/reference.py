"""The compared methods again, in plain NumPy: slow, and short enough to check against their papers by eye.

Each function returns the candidate set of one query as a sorted list of items; `ranked` is the last stage
of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Matrix = NDArray[np.floating]
    Ints = NDArray[np.integer]

WORD = (1 << 64) - 1


def ranked(items: Matrix, w: Matrix, candidates: list[int], top_k: int) -> list[int]:
    """Return the candidates of largest inner product, best first, ties by item."""
    product = {j: float(items[j].astype(np.float64) @ w.astype(np.float64)) for j in candidates}
    return sorted(candidates, key=lambda j: (-product[j], j))[:top_k]


def pca_leaves(projections: Matrix) -> tuple[list[list[int]], dict[int, float]]:
    """Split every node at its middle item; leaves from left to right, pivots by heap number."""
    nodes = [list(range(projections.shape[1]))]
    pivots = {}
    for level, along in enumerate(projections):
        halves = []
        for place, node in enumerate(nodes):
            by_value = sorted(node, key=lambda j, along=along: (along[j], j))
            middle = len(by_value) // 2
            pivots[2**level + place] = float(along[by_value[middle]]) if by_value else 0.0
            halves += [by_value[:middle], by_value[middle:]]
        nodes = halves
    return [sorted(node) for node in nodes], pivots


def pca_leaf_of(values: Matrix, pivots: dict[int, float], *, root_pivots: bool = False) -> int:
    """Go down from the root: right where the query's projection reaches the pivot of the node it is at."""
    node = 1
    for value in values:
        node = 2 * node + int(value >= pivots[1 if root_pivots else node])
    return node - 2 ** len(values)


def pca_candidates(leaves: list[list[int]], leaf: int, depth: int, *, boost: bool) -> list[int]:
    """Read the query's leaf, and with `boost` every leaf whose code has one other bit."""
    read = [leaf] + [leaf ^ (1 << bit) for bit in range(depth) if boost]
    return sorted(j for number in read for j in leaves[number])


def lsh_candidates(item_projections: Matrix, query_projections: Matrix, bits: int, tables: int) -> list[int]:
    """Items that agree with the query in all signs of at least one table."""
    same = (item_projections > 0) == (query_projections > 0)
    agree = same[:, : tables * bits].reshape(len(same), tables, bits).all(axis=2).any(axis=1)
    return np.flatnonzero(agree).tolist()


def splitmix64(seed: int) -> Iterator[int]:
    """Repeat the generator of the compiled samplers."""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & WORD
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
        yield z ^ (z >> 31)


def alias_probabilities(keep: Ints, other: Ints) -> Matrix:
    """Return the distribution that an alias table stands for."""
    n = len(keep)
    kept = np.where(keep == 0xFFFFFFFF, 1.0, keep / 2.0**32)
    probability = kept / n
    np.add.at(probability, other, (1.0 - kept) / n)
    return probability


def alias_table(weights: Matrix) -> tuple[list[int], list[int]]:
    """Vose's construction, in the order of the compiled one: (keep, other) for every slot."""
    n, total = len(weights), float(sum(float(weight) for weight in weights))
    keep, other = [0xFFFFFFFF] * n, list(range(n))
    share = [float(weight) * (n / total) if total > 0 else 1.0 for weight in weights]
    small = [i for i in range(n) if share[i] < 1.0]
    large = [i for i in range(n) if share[i] >= 1.0]
    while small and large:
        poor, rich = small.pop(), large[-1]
        keep[poor], other[poor] = int(share[poor] * 2**32), rich
        share[rich] -= 1.0 - share[poor]
        if share[rich] < 1.0:
            small.append(large.pop())
    return keep, other


def _draw(table: tuple[list[int], list[int]], random: int) -> int:
    keep, other = table
    slot = ((random >> 32) * len(keep)) >> 32
    return slot if (random & 0xFFFFFFFF) < keep[slot] else other[slot]


def sampled_scores(items: Matrix, w: Matrix, samples: int, seed: int, *, diamond: bool) -> dict[int, float]:
    """Sample-MIPS counts, or Diamond-MSIPS scores, of the items met in that many draws."""
    column_tables = [alias_table(np.abs(column)) for column in items.T]
    column_sums = [sum(float(abs(value)) for value in column) for column in items.T]
    weight = [abs(float(value)) for value in w]
    first = alias_table([a * b for a, b in zip(weight, column_sums, strict=True)])
    second = alias_table(weight)
    generator = splitmix64(seed)
    scores: dict[int, float] = {}
    for _ in range(samples):
        t = _draw(first, next(generator))
        j = _draw(column_tables[t], next(generator))
        value = 1.0
        if diamond:
            u = _draw(second, next(generator))
            value = float(_sign(w[t]) * _sign(items[j, t]) * _sign(w[u]) * items[j, u])
        scores[j] = float(np.float32(scores.get(j, 0.0)) + np.float32(value))
    return scores


def dwedge_scores(items: Matrix, w: Matrix, samples: int) -> dict[int, float]:
    """Counters of dWedge after its samples were handed out."""
    sums = np.abs(items).astype(np.float64).sum(axis=0)
    weight = np.abs(w).astype(np.float64) * sums
    scores: dict[int, float] = {}
    for t in np.flatnonzero(weight > 0):
        share = np.ceil(weight[t] / weight.sum() * samples)
        used = 0.0
        for j in sorted(range(len(items)), key=lambda j, t=t: (-abs(items[j, t]), j)):
            taken = np.ceil(abs(float(items[j, t])) * (share / sums[t]))
            if used >= share or taken == 0:
                break
            used += taken
            scores[j] = scores.get(j, 0.0) + float(_sign(items[j, t]) * _sign(w[t]) * taken)
    return scores


def best_scored(scores: dict[int, float], budget: int) -> list[int]:
    """Return the items of largest score, ties by item."""
    return sorted(sorted(scores, key=lambda j: (-scores[j], j))[:budget])


def cluster_candidates(centres: Matrix, cluster_of: Ints, w: Matrix, probes: int) -> list[int]:
    """Members of the clusters whose centres have the largest product with the query."""
    nearness = centres[:, : len(w)].astype(np.float64) @ w.astype(np.float64)
    chosen = np.argsort(-nearness, kind="stable")[:probes]
    return np.flatnonzero(np.isin(cluster_of, chosen)).tolist()


def _sign(value: float) -> int:
    return -1 if value < 0 else 1
