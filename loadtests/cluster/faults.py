"""kill -9 under load: of a shard's replica, and of an ingress."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from loadtests.cluster.running import Client

if TYPE_CHECKING:
    from loadtests.cluster.running import Cluster

CLIENTS = 2


class Asked(NamedTuple):
    """What became of one request: when it ended, its status, and how many shards answered of those asked."""

    at: float
    status: int
    asked: int
    answered: int


def measure(cluster: Cluster, seconds: float) -> None:
    """Print what callers saw."""
    print("| killed | requests | failed | smaller answers | all well again after (s) |")
    print("|---|---:|---:|---:|---:|")
    for deployment in ("shard-1", "ingress"):
        killed_at, seen = _under_load(cluster, deployment, seconds)
        failed = sum(each.status != 200 for each in seen)
        smaller = sum(each.status == 200 and each.answered < each.asked for each in seen)
        unwell = [each.at for each in seen if each.status != 200 or each.answered < each.asked]
        recovery = f"{max(unwell) - killed_at:.1f}" if unwell else "0"
        print(f"| {deployment} | {len(seen)} | {failed} | {smaller} | {recovery} |", flush=True)
    print()


def _under_load(cluster: Cluster, deployment: str, seconds: float) -> tuple[float, list[Asked]]:
    seen: list[Asked] = []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        client, user = Client(cluster.port), number
        while time.monotonic() < end:
            status, body = client.get(f"/recommend?user_id={user % 1000}&budget=256&deadline_ms=300")
            user += CLIENTS
            shards = {"asked": 0, "answered": 0}
            if status == 200:
                shards = json.loads(body).get("shards", shards)
            seen.append(Asked(time.monotonic(), status, shards["asked"], shards["answered"]))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)
    os.kill(cluster.processes_of(deployment)[0], signal.SIGKILL)
    killed_at = time.monotonic()
    for thread in threads:
        thread.join()
    return killed_at, seen
