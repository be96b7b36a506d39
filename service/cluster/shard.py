"""One shard: a replica that searches its part of the items, for whichever version it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from greedy_core import Bundle, CorruptModelError, GreedyIndex, StorageError, read_manifest
from service.cluster.calling import ShardName

if TYPE_CHECKING:
    from greedy_core import SearchResult, ShardQuestions

# Versions that are kept open: the current one, the one before it, and the next one.
KEPT = 3
# What takes longer than this many products is searched in a thread, so that health checks and others get their turn.
MANY_PRODUCTS = 2048


class Shard:
    """The parts of one number, of all versions that are asked for. Serve makes, watches and replaces its replicas.

    A replica reads the files; memory for those that are served is shared by all replicas of a node.
    """

    def __init__(self, name: ShardName) -> None:
        """Open the shard of the version that was current when the cluster started, if it is still there.

        A replica that is started later may find it pruned: then it opens what it is asked for.
        """
        self._opened: OrderedDict[ShardName, Bundle] = OrderedDict()
        self._opening = threading.Lock()
        self._products = 0
        self._reason: StorageError | None = None
        with contextlib.suppress(StorageError):
            self._bundle(ShardName(*name))
        self._reason = None

    async def search(self, name: ShardName, questions: ShardQuestions, similar: bool) -> list[SearchResult]:
        """Return what one version of this shard has for the questions."""
        products = sum(questions.budgets)
        self._products += products
        try:
            bundle = self._opened.get(name)
            if bundle is None:
                bundle = await asyncio.to_thread(self._bundle, name)
            index = _index_of(bundle, similar=similar)
            if products <= MANY_PRODUCTS:
                return questions.answers(index)
            return await asyncio.to_thread(questions.answers, index)
        finally:
            self._products -= products

    async def load(self, name: ShardName, verify: bool) -> str:
        """Open the shard of a version, and read all of it if told to. Raises StorageError."""
        bundle = await asyncio.to_thread(self._bundle, name)
        if verify:
            await asyncio.to_thread(bundle.verify)
        return bundle.version

    def check_health(self) -> None:
        """Raise if nothing is open, and what was asked for could not be opened; called by Serve."""
        if not self._opened and self._reason is not None:
            raise RuntimeError(f"no version of this shard is open: {self._reason}")

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Return the inner products in flight, by which Serve scales; see scaling.py."""
        return {"products": float(self._products)}

    def _bundle(self, name: ShardName) -> Bundle:
        """Return the bundle of a name, opened if it is not yet; the one that was not used for longest is closed."""
        with self._opening:
            bundle = self._opened.get(name)
            if bundle is None:
                try:
                    bundle = self._opened[name] = _open(name)
                except StorageError as reason:
                    self._reason = reason
                    raise
                while len(self._opened) > KEPT:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(name)
            return bundle


def _open(name: ShardName) -> Bundle:
    path = Path(name.path)
    if read_manifest(path).checksum != name.checksum:
        raise CorruptModelError(f"{path} is another shard than the one that was asked for.")
    return Bundle.open(path)


def _index_of(bundle: Bundle, *, similar: bool) -> GreedyIndex:
    index = bundle.similar.index if similar and bundle.similar is not None else bundle.index
    if not isinstance(index, GreedyIndex):
        raise CorruptModelError(f"{bundle.path} is no shard: it has shards itself.")
    return index
