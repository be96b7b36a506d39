"""What a search returns: the items, and the receipt for the work they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class SearchResult(NamedTuple):
    """The best items found, best first, with the cost on the receipt.

    spent         inner products computed; never more than the budget
    complete      every eligible item was scored, so the answer is exact
    entries_read  list entries that screening looked at, or neighbours under a filter; 0 for an exact scan
    eligible      items that could have been found: those of the filter, or all, but the excluded
    """

    ids: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]
    spent: int
    complete: bool
    entries_read: int
    eligible: int
