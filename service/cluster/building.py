"""Building shards as Ray tasks: each from its own order, as many at once as the cluster has room for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ray

from greedy_core import build_shard
from service.cluster.starting import connect

if TYPE_CHECKING:
    from collections.abc import Iterable

    from greedy_core import ShardOrder

# Orders that wait hold their items in memory: one is ready when a task ends, and no more.
WAITING = 1


def build_on_ray(orders: Iterable[ShardOrder]) -> None:
    """Build shards by their orders; the folder that they are written to must be the same on all nodes."""
    connect()
    build = ray.remote(num_cpus=1, max_retries=1)(build_shard)
    at_once = max(1, int(ray.cluster_resources().get("CPU", 1))) + WAITING
    running: list[ray.ObjectRef[None]] = []
    for order in orders:
        if len(running) >= at_once:
            done, running = ray.wait(running)
            ray.get(done)
        running.append(build.remote(order))
    ray.get(running)
