"""Merging: the answers of shards -> one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from greedy_core.result import SearchResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from greedy_core.shards.item_map import Walked


def merge_results(
    results: Sequence[SearchResult],
    positions: Sequence[npt.NDArray[np.int32]],
    top_k: int,
    *,
    eligible: int,
    complete: bool,
    walked: Walked | None = None,
) -> SearchResult:
    """Return the best `top_k` of what shards found, ties to the smaller position among all items.

    positions  for each result, the positions among all of the items of its shard
    eligible   items that could have been found, in all shards
    complete   nothing else could: every shard that has eligible items is among the results
    walked     what was spent before the shards were asked
    """
    spent, entries_read = (0, 0) if walked is None else (walked.on_the_way, walked.entries_read)
    if not results:
        nothing = np.empty(0, dtype=np.int32)
        return SearchResult(nothing, nothing.astype(np.float32), spent, eligible == 0, entries_read, eligible)
    ids = np.concatenate([own[result.ids] for result, own in zip(results, positions, strict=True)])
    scores = np.concatenate([result.scores for result in results])
    best = np.lexsort((ids, -scores))[:top_k]
    return SearchResult(
        ids[best],
        scores[best],
        spent + sum(result.spent for result in results),
        complete and all(result.complete for result in results),
        entries_read + sum(result.entries_read for result in results),
        eligible,
    )
