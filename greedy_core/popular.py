"""The popular items, in parts, of which only some may come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from greedy_core.eligible import Eligible

    Positions = npt.NDArray[np.int32]

# Most questions are answered by the first of the popular items, and a few need all: parts grow.
_FIRST = 1024
# To look up fewer than these one by one is quicker than numpy, which has to sort first.
_FEW = 256


def popular_parts(popular: Positions, excluded: Positions | None, eligible: Eligible | None) -> Iterator[Positions]:
    """Yield the popular items, the most popular first, without those that are excluded or not eligible."""
    start, size = 0, _FIRST
    while start < len(popular):
        some = popular[start : start + size]
        if eligible is not None:
            some = some[eligible.has(some)]
        if excluded is not None and len(excluded):
            some = some[~np.isin(some, excluded)]
        yield some
        start, size = start + size, 4 * size


def most_popular(
    popular: Positions, top_k: int, excluded: Positions | None = None, eligible: Eligible | None = None
) -> Positions:
    """Return the first `top_k` of them."""
    if eligible is None and (excluded is None or len(excluded) <= _FEW):
        left_out = frozenset(() if excluded is None else excluded.tolist())
        first = popular[: top_k + len(left_out)]
        return first if not left_out else np.array([j for j in first.tolist() if j not in left_out][:top_k], np.int32)
    found: list[Positions] = [popular[:0]]
    wanted = top_k
    for some in popular_parts(popular, excluded, eligible):
        found.append(some[:wanted])
        wanted -= len(found[-1])
        if wanted == 0:
            break
    return np.concatenate(found)
