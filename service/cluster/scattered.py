"""An index whose shards lie elsewhere: what stands in the place of a loaded model's index in the ingress.

Splitting and merging are the library's, and so are walks on a map of all items, and all that looks at single items:
their vectors are mapped here, too, which takes no memory until one is looked at. Only searching is done by the shards.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Self

from greedy_core import Bundle, ShardedIndex, read_manifest
from service.cluster.calling import ShardName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core import SearchResult, ShardQuestions
    from service.cluster.calling import ShardHandles


class ScatteredIndex(ShardedIndex):
    """Searches by asking the shards of one version. Only for threads: the event loop must not wait."""

    def __init__(
        self, local: ShardedIndex, handles: ShardHandles, names: Sequence[ShardName], *, similar: bool
    ) -> None:
        """Take an index over the shards as they are mapped here.

        similar  it is that of similar items
        """
        super().__init__(local.shards, local.places, local.item_map, local.screening)
        self._handles = handles
        self._names = names
        self._similar = similar
        self._seconds: float | None = None
        # For each query of the last search: how many shards were asked, and how many answered.
        self.counts: list[tuple[int, int]] = []

    def within(self, seconds: float | None) -> Self:
        """Return the same index for one search, which has so long; None: as long as the cluster's patience."""
        mine = copy.copy(self)
        mine._seconds = seconds  # noqa: SLF001 - of its own
        mine.counts = []
        return mine

    def _ask(self, asked: Sequence[ShardQuestions], threads: int) -> list[list[SearchResult] | None]:
        del threads  # a shard has its own
        found = self._handles.search(self._names, asked, similar=self._similar, seconds=self._seconds)
        n_queries = 1 + max((row for questions in asked for row in questions.rows), default=0)
        n_asked, n_answered = [0] * n_queries, [0] * n_queries
        for questions, results in zip(asked, found, strict=True):
            for row in questions.rows:
                n_asked[row] += 1
                n_answered[row] += results is not None
        self.counts = list(zip(n_asked, n_answered, strict=True))
        return found


def scattered(bundle: Bundle, handles: ShardHandles) -> Bundle:
    """Return a bundle that is searched by the shards of the cluster."""
    names = shard_names(bundle)
    return bundle.searched_by(lambda index, similar: ScatteredIndex(index, handles, names, similar=similar))


def shard_names(bundle: Bundle) -> tuple[ShardName, ...]:
    """Return where the shards of a bundle lie, and what they are."""
    return tuple(ShardName(str(shard.path), read_manifest(shard.path).checksum) for shard in bundle.shards)
