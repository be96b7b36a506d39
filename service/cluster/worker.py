"""The worker of an ingress: that of one machine, with answers from shards."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from greedy_core import Bundle, NotAModelError
from service.cluster.answering import ClusterAnswering
from service.cluster.scattered import scattered, shard_names
from service.models.loading import ModelLoader
from service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from service.answering.answering import Answering
    from service.cluster.calling import ShardHandles
    from service.models.scenarios import ServedScenarios
    from service.settings import Settings

# A replica that Serve starts is given so long to load its model before it is asked anything.
START_SECONDS = 120.0
# Shards may have to read all of their files before they say that these are good.
LOAD_SECONDS = 600.0


class ClusterLoader(ModelLoader):
    """Loads what is kept once here, and has the shards load the rest."""

    def __init__(self, settings: Settings, scenarios: ServedScenarios, handles: ShardHandles) -> None:
        super().__init__(settings, scenarios)
        self._handles = handles
        self._is_verified = settings.verify

    def _open(self, path: Path) -> Bundle:
        bundle = Bundle.open(path)
        found, running = len(bundle.shards), len(self._handles.handles)
        if found != running:
            what = f"{found} shards" if found else "no shards"
            raise NotAModelError(
                f"{path} has {what}, and this cluster has {running}; build it with --shards {running}, or start the "
                "cluster anew."
            )
        return scattered(bundle, self._handles)

    def _verify(self, bundle: Bundle) -> None:
        bundle.verify(with_shards=False)

    def _make_ready(self, bundle: Bundle) -> None:
        self._handles.load(shard_names(bundle), verify=self._is_verified, seconds=LOAD_SECONDS)


class ClusterWorker(Worker):
    """Everything that a request can reach in one replica of the ingress."""

    def __init__(self, settings: Settings, handles: ShardHandles) -> None:
        self._handles = handles
        super().__init__(settings)

    def _answering_maker(self) -> Callable[..., Answering]:
        return functools.partial(ClusterAnswering, self.settings)

    def _make_loader(self, arm: str | None) -> ModelLoader:
        del arm  # there is one model
        return ClusterLoader(self.settings, self.scenarios, self._handles)

    async def start(self) -> None:
        """Begin, and wait for the model: Serve sends requests to replicas that have started."""
        self._handles.use(asyncio.get_running_loop())
        await super().start()
        end = asyncio.get_running_loop().time() + START_SECONDS
        while self.not_ready_because() is not None and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110
            await asyncio.sleep(self.settings.poll_seconds)

    def check_health(self) -> None:
        """Raise if the work between requests has stopped; called by Serve."""
        for task in self._tasks:
            if task.done():
                raise RuntimeError("the ingress has stopped its work between requests")
