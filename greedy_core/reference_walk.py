"""The walk in plain NumPy: past the paper, and as slow and obvious as what `reference.py` has of it.

Rows are estimated by codes of two bits a coordinate, and by two more after a closer look; estimates are compared by
the ranges that they fall into, as the queues of native/bucket_queue.h do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from greedy_core.reference import ENTRIES, fill_in_id_order

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    import numpy.typing as npt

    Matrix: TypeAlias = npt.NDArray[np.floating]


CODE_BITS, ROW_BITS = 2, 32
RANGES = 1024


def rotated(vectors: Matrix) -> npt.NDArray[np.float32]:
    """Return the vectors in blocks of 64 and rotated: signs and a Hadamard transform, twice with several blocks."""
    padded = -(-vectors.shape[1] // 64) * 64
    x = np.zeros((len(vectors), padded), dtype=np.float32)
    x[:, : vectors.shape[1]] = vectors
    signs = np.array([_sign(place) for place in range(2 * padded)], dtype=np.float32)
    x = _transformed(x * signs[:padded])
    if padded == 64:
        return x
    mixed = x.reshape(len(x), -1, 64).transpose(0, 2, 1).reshape(len(x), padded)
    return _transformed(mixed * signs[padded:])


def _sign(place: int) -> int:
    """Return a sign that looks drawn (SplitMix)."""
    z = (place + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return -1 if (z ^ (z >> 31)) >> 63 else 1


def _transformed(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    blocks = x.reshape(-1, 64)
    half = 1
    while half < 64:
        pairs = blocks.reshape(-1, 64 // (2 * half), 2, half)
        blocks = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(-1, 64)
        half *= 2
    return (blocks * np.float32(0.125)).reshape(x.shape)


def levels_and_scale(codes: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the two bits of each coordinate, and the scale of each item."""
    width = codes.shape[1] - 4
    levels = np.concatenate([codes[:, :width] >> (2 * part) & 3 for part in range(4)], axis=1).astype(np.int64)
    return levels, np.ascontiguousarray(codes[:, width:]).view(np.float32)[:, 0]


def estimates(
    codes: npt.NDArray[np.uint8], w: Matrix, optimism: float = 0.0, details: npt.NDArray[np.uint8] | None = None
) -> tuple[npt.NDArray[np.float32], np.float32]:
    """Return about <w, h_j - mean> for every item, from two bits a coordinate, and |w|, in units that depend on w.

    optimism  how many times |w| times an item's scale is added: 3/4 is about the standard error of an estimate
    details   two more bits a coordinate, and the scale of all four
    """
    levels, scale = levels_and_scale(codes)
    middle = 3
    if details is not None:
        finer, scale = levels_and_scale(details)
        levels, middle = 4 * levels + finer, 15
    x = rotated(w[None])[0]
    largest = np.abs(x).max()
    up = np.float32(1e30 if 0 < largest < np.float32(1e-30) else 1)
    unit = np.float32(127) / (largest * up) if largest > 0 else np.float32(0)
    q = np.clip(np.rint(x * up * unit), -127, 127).astype(np.int64)
    length = np.sqrt(np.float32((q * q).sum()))
    more = int(np.rint(np.float32(optimism) * length))
    return (2 * (levels @ q) - middle * q.sum() + more).astype(np.float32) * scale, length


def screen_walk(  # noqa: C901, PLR0915 - one procedure, as the fast one is
    neighbours: npt.NDArray[np.int32],
    entries: npt.NDArray[np.int32],
    codes: npt.NDArray[np.uint8],
    details: npt.NDArray[np.uint8],
    longest: float,
    w: Matrix,
    budget: int,
    excluded: AbstractSet[int] = frozenset(),
    remembered: Iterable[int] = (),
) -> tuple[list[int], int]:
    """Past the paper: candidates by a walk over a graph, and what is spent, rounded up.

    Items that the walk meets are estimated, each at 2/32 of a product. It looks closer at the best, each at 2/32 more,
    until the best of those looked at is as good as all others; it goes on from two of these, later from up to eight,
    and meets their neighbours. Of the items gone on from, the best become candidates: exact products are up to half of
    what is spent, but no more than 8 and 5/32 of it. What is remembered comes first, and the walk begins there.
    """
    known = list(dict.fromkeys(j for j in remembered if j not in excluded))[:budget]
    barred = {*excluded, *known}
    left, n_chosen = ROW_BITS * (budget - len(known)), 0
    start = left
    found: list[int] = []
    estimate, length = estimates(codes, w)
    closer, _ = estimates(codes, w, details=details)
    top = _key(length * np.float32(longest))
    place, closer_place = ([min(max(top - _key(value), 0), RANGES - 1) for value in e] for e in (estimate, closer))
    seen: set[int] = set()
    ahead: list[list[int]] = [[] for _ in range(RANGES)]
    close: list[list[int]] = [[] for _ in range(RANGES)]
    behind: list[list[int]] = [[] for _ in range(RANGES)]

    def best(queue: list[list[int]]) -> int:
        return next((i for i, stack in enumerate(queue) if stack), RANGES)

    def look_closer() -> bool:
        nonlocal left
        while best(ahead) < best(close):
            if left < CODE_BITS:
                return False
            left -= CODE_BITS
            j = ahead[best(ahead)].pop()
            close[closer_place[j]].append(j)
        return True

    def meet(items: Iterable[int]) -> bool:
        nonlocal left
        fresh = [j for j in dict.fromkeys(items) if j >= 0 and j not in seen]
        seen.update(fresh)
        affordable = fresh[: left // CODE_BITS]
        left -= CODE_BITS * len(affordable)
        for j in affordable:
            ahead[place[j]].append(j)
        return len(affordable) == len(fresh)

    def choose(*, everything: bool) -> bool:
        nonlocal left, n_chosen
        while any(behind):
            afterwards = start - left + ROW_BITS
            most = min(16 * afterwards, 8 * 32 * ROW_BITS + 5 * afterwards)
            if not everything and 32 * ROW_BITS * (n_chosen + 1) > most:
                return True
            if left < ROW_BITS:
                return False
            found.append(behind[best(behind)].pop())
            left -= ROW_BITS
            n_chosen += 1
        return True

    begin = known or entries.tolist()
    if not known:
        first = next(j for j in [*begin, *range(len(codes))] if j not in barred)
        found.append(first)
        barred.add(first)
        left -= ROW_BITS
        n_chosen += 1
    going, n_gone = left > 0 and meet(begin), 0
    while going and (any(ahead) or any(close)):
        items: list[int] = []
        while going and len(items) < min(max(n_gone // 16, 2), 8):
            going = look_closer()
            if not going or not any(close):
                break
            items.append(close[best(close)].pop())
            if items[-1] not in barred:
                behind[closer_place[items[-1]]].append(items[-1])
        n_gone += len(items)
        going = going and choose(everything=False)
        going = going and meet([j for item in items for j in neighbours[item].tolist()])
    if going:
        choose(everything=True)
    found = known + found
    rest = left // ROW_BITS
    filled = fill_in_id_order(found, len(codes), len(found) + rest, excluded)
    left -= ROW_BITS * (len(filled) - len(found))
    return filled, budget - left // ROW_BITS


def screen_filtered_walk(  # noqa: C901, PLR0912, PLR0915 - one procedure, as the fast one is
    neighbours: npt.NDArray[np.int32],
    entries: npt.NDArray[np.int32],
    codes: npt.NDArray[np.uint8],
    details: npt.NDArray[np.uint8],
    longest: float,
    w: Matrix,
    budget: int,
    eligible: AbstractSet[int],
    spread: Iterable[int],
    top_k: int,
    excluded: AbstractSet[int] = frozenset(),
    remembered: Iterable[int] = (),
    scanned: int = 3072,
    guided: bool = False,
) -> tuple[list[int], int, int]:
    """Return eligible candidates by a walk, what is spent, rounded up, and how many neighbours were looked at.

    The first `top_k` candidates are taken as they come: entries, those that are `spread` over all eligible, any. Then,
    if more than `scanned` items are eligible, a walk as above. Either it meets eligible items only, and an item with
    fewer than 16 of them for neighbours has those behind its other neighbours looked at, too. Or it is `guided`: it
    estimates all it meets, and goes on from others, too, where they seem best by their first estimates, as long as each
    found a quarter of the eligible items that each eligible one did. At last, all that was not met is estimated in
    ascending order, in blocks of 64, and exact products are up to an eighth of what is spent meanwhile. Then it
    looks closer at the best sixteen, chooses four of all that were looked at, and so on.
    """
    remembered, spread = list(remembered), list(spread)
    known = list(dict.fromkeys(j for j in remembered if j in eligible and j not in excluded))[:budget]
    barred = {*excluded, *known}
    left, n_chosen, n_read, n_gone = ROW_BITS * (budget - len(known)), 0, 0, 0
    found: list[int] = []
    estimate, length = estimates(codes, w, 0.75)
    closer, _ = estimates(codes, w, details=details)
    hopeful, _ = estimates(codes, w, 0.75, details)
    top = _half_key(length * np.float32(longest))
    place, closer_place, hopeful_place = (
        [_signed_range(value, top) for value in values] for values in (estimate, closer, hopeful)
    )
    seen: set[int] = set()
    met: list[int] = []
    ahead, close, behind, aside = ([list[int]() for _ in range(RANGES)] for _ in range(4))
    # Eligible items met on the way from eligible ones and from others, and how many of each there were.
    yields, gone_on = [8, 8], [1, 1]

    def best(queue: list[list[int]]) -> int:
        return next((i for i, stack in enumerate(queue) if stack), RANGES)

    def choose_best() -> bool:
        nonlocal left, n_chosen
        while any(behind):
            afterwards = start - left + ROW_BITS
            if 32 * ROW_BITS * (n_chosen + 1) > min(16 * afterwards, 8 * 32 * ROW_BITS + 5 * afterwards):
                return True
            if left < ROW_BITS:
                return False
            found.append(behind[best(behind)].pop())
            left -= ROW_BITS
            n_chosen += 1
        return True

    def estimate_all(items: list[int], queue: list[list[int]]) -> bool:
        nonlocal left
        affordable = items[: left // CODE_BITS]
        left -= CODE_BITS * len(affordable)
        for j in affordable:
            (queue if j in eligible else aside)[place[j]].append(j)
        return len(affordable) == len(items)

    def estimate_met() -> bool:
        items = met.copy()
        met.clear()
        return estimate_all(items, ahead)

    def meet(items: Iterable[int]) -> int:
        of_these = [j for j in items if j >= 0 and (guided or j in eligible)]
        fresh = [j for j in dict.fromkeys(of_these) if j not in seen]
        seen.update(fresh)
        met.extend(fresh)
        return sum(j in eligible for j in fresh) if guided else len(of_these)

    def look_behind(items: Iterable[int], wanted: int) -> None:
        nonlocal n_read
        for j in items:
            if wanted > 0 and j >= 0 and j not in eligible and j not in seen:
                seen.add(j)
                n_read += neighbours.shape[1]
                wanted -= meet(neighbours[j].tolist())

    def look_closer() -> bool:
        nonlocal left
        while best(ahead) < best(close):
            if left < CODE_BITS:
                return False
            left -= CODE_BITS
            j = ahead[best(ahead)].pop()
            close[closer_place[j]].append(j)
        return True

    def others_are_next() -> bool:
        if not (any(aside) and any(close)):
            return any(aside)
        return best(aside) <= best(close) and 4 * yields[1] * gone_on[0] >= yields[0] * gone_on[1]

    def choose_item(j: int) -> bool:
        nonlocal left, n_chosen
        if j in barred:
            return True
        if left < ROW_BITS:
            return False
        found.append(j)
        left -= ROW_BITS
        n_chosen += 1
        return True

    def choose_early() -> bool:
        while 32 * ROW_BITS * (n_chosen + 1) <= 4 * (start - left + ROW_BITS) and (any(ahead) or any(close)):
            queue = close if best(close) <= best(ahead) else ahead
            if not choose_item(queue[best(queue)].pop()):
                return False
        return True

    def choose_closer() -> bool:
        nonlocal left
        some = [ahead[best(ahead)].pop() for _ in range(16) if any(ahead)]
        for j in some:
            if left < CODE_BITS:
                return False
            left -= CODE_BITS
            close[hopeful_place[j]].append(j)
        return all(choose_item(close[best(close)].pop()) for _ in range(4) if any(close))

    for j in [*entries.tolist(), *spread, *sorted(eligible)]:
        if j in eligible and j not in barred and len(known) + len(found) < top_k and left >= ROW_BITS:
            found.append(j)
            left -= ROW_BITS
            barred.add(j)
    start = left
    going = left >= CODE_BITS
    if going and len(eligible) > scanned:
        for beginning in (spread, entries.tolist(), remembered):
            meet(beginning)
        if not guided:
            look_behind(remembered, 64)
        going = estimate_met()
        while going and n_read < ENTRIES * len(eligible):
            items: list[tuple[int, int]] = []
            while going and len(items) < min(max(n_gone // 16, 2), 8):
                going = look_closer()
                if not going or not (any(aside) or any(close)):
                    break
                kind = int(others_are_next())
                queue = aside if kind else close
                i = best(queue)
                items.append((queue[i].pop(), kind))
                if not kind and items[-1][0] not in barred:
                    behind[i].append(items[-1][0])
            n_gone += len(items)
            going = going and choose_best()
            for item, kind in items if going else []:
                row = neighbours[item].tolist()
                n_read += neighbours.shape[1]
                if guided:
                    yields[kind] += meet(row)
                    gone_on[kind] += 1
                else:
                    look_behind(row, 16 - meet(row))
            going = going and estimate_met()
            if not (any(ahead) or any(close) or any(aside)):
                break
    while any(behind):
        i = best(behind)
        close[i].append(behind[i].pop())
    in_order = sorted(eligible)
    for start_of_block in range(0, len(in_order), 64):
        block = [j for j in in_order[start_of_block : start_of_block + 64] if j not in seen and j not in barred]
        going = going and estimate_all(block, ahead) and choose_early()
    while going and (any(ahead) or any(close)):
        going = choose_closer()
    return known + found, budget - left // ROW_BITS, n_read


def _signed_range(value: np.floating, top: int) -> int:
    distance = min(max(top - _half_key(abs(value)), 0), RANGES // 2 - 1)
    return distance if value > 0 else RANGES - 1 - distance


def _half_key(value: np.floating) -> int:
    """Return the leading bits of a float that is not negative, one fewer than `_key`."""
    return int(np.float32(value).view(np.int32)) >> 18


def _key(value: np.floating) -> int:
    """Return the leading bits of a positive float, in the order of its value; 0 for others."""
    return max(int(np.float32(value).view(np.int32)), 0) >> 17
