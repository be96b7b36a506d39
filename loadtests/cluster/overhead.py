"""What a request costs more than in one process, and whether both say the same."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core import ShardQuestions
from loadtests.cluster.running import Client

if TYPE_CHECKING:
    from greedy_core import Bundle
    from loadtests.cluster.running import Cluster, OneProcess

BUDGETS = (64, 1024, 4096)
ASKED = 150
EQUAL = 100


def measure(bundle: Bundle, cluster: Cluster, alone: OneProcess) -> dict[str, Any]:
    """Print the tables; return what the simulation needs."""
    there, here = Client(cluster.port), Client(alone.port)
    equal = sum(_is_equal(bundle, there, user) for user in range(EQUAL))
    print(f"{equal} of {EQUAL} answers are the library's merge of the same shards\n")
    print("| budget | one process: p50, p99 (ms) | cluster: p50, p99 (ms) | more, at p50 |")
    print("|---:|---:|---:|---:|")
    checked: dict[str, Any] = {}
    for budget in BUDGETS:
        for warm in range(20):
            _ask(there, warm, budget), _ask(here, warm, budget)
        mine, theirs = _times(here, budget), _times(there, budget)
        print(
            f"| {budget} | {np.percentile(mine, 50):.2f}, {np.percentile(mine, 99):.2f} | "
            f"{np.percentile(theirs, 50):.2f}, {np.percentile(theirs, 99):.2f} | "
            f"{np.percentile(theirs, 50) - np.percentile(mine, 50):.2f} |",
            flush=True,
        )
        if budget == 1024:
            checked = {
                "shards": len(bundle.shards),
                "budget": budget,
                "rate": round(1000 / float(np.mean(theirs)), 1),
                "p50_ms": round(float(np.percentile(theirs, 50)), 3),
                "p99_ms": round(float(np.percentile(theirs, 99)), 3),
            }
    hops, call, fixed, per_product = _shard(bundle, cluster)
    shards = checked["shards"]
    behind = float(np.median(hops)) + shards * call + fixed + per_product * 1024 / shards
    front = max(0.0, checked["p50_ms"] - behind)
    print(
        f"\na call of a shard: p50 {np.percentile(hops, 50):.2f} ms, p99 {np.percentile(hops, 99):.2f} ms without its "
        f"search of {fixed:.3f} ms + {per_product * 1000:.3f} us for each product; {call:.2f} ms each where many are "
        f"made at once; HTTP and ingress: {front:.2f} ms\n"
    )
    rounded = [round(float(hop), 3) for hop in np.sort(hops)]
    return {
        "hop_ms": rounded,
        "call_ms": round(call, 4),
        "fixed_ms": round(fixed, 5),
        "per_product_ms": round(per_product, 7),
        "front_ms": round(front, 3),
        "checked": checked,
    }


def _ask(client: Client, user: int, budget: int) -> bytes:
    status, body = client.get(f"/recommend?user_id={user}&budget={budget}")
    if status != 200:
        raise RuntimeError(f"{status}: {body[:200]!r}")
    return body


def _times(client: Client, budget: int) -> list[float]:
    times = []
    for user in range(ASKED):
        began = time.perf_counter()
        _ask(client, user, budget)
        times.append((time.perf_counter() - began) * 1000)
    return times


def _is_equal(bundle: Bundle, client: Client, user: int) -> bool:
    vector = bundle.user_vector(user)
    assert vector is not None
    found = bundle.index.search(vector, 10, 256, None, None, bundle.user_remembered(user))
    answer = json.loads(_ask(client, user, 256))
    ids = [item["item_id"] for item in answer["items"]]
    return ids == bundle.item_ids(found.ids) and answer["spent"] == found.spent


def _shard(bundle: Bundle, cluster: Cluster) -> tuple[list[float], float, float, float]:
    """Return the times of calls of a shard less their search, the time of each of many at once, and the search's."""
    from service.cluster.scattered import shard_names  # noqa: PLC0415 - needs Ray

    handle, name = cluster.shard(0), shard_names(bundle)[0]
    users = bundle.user_vectors
    assert users is not None

    def questions(user: int, budget: int) -> ShardQuestions:
        return ShardQuestions([0], users[user : user + 1], 10, [budget], [None], None, [None], [None], None)

    index = bundle.shards[0].index
    costs = []
    for budget in (64, 1024):
        for user in range(50):
            index.search(users[user], 10, budget)
        began = time.perf_counter()
        for user in range(500):
            index.search(users[user], 10, budget)
        costs.append((time.perf_counter() - began) * 2)  # milliseconds of one
    per_product = max(1e-6, (costs[1] - costs[0]) / 960)
    fixed = max(0.0, costs[0] - 64 * per_product)
    times = []
    for user in range(ASKED + 20):
        began = time.perf_counter()
        handle.search.remote(name, questions(user, 64), False).result()
        times.append((time.perf_counter() - began) * 1000 - costs[0])
    began = time.perf_counter()
    for answer in [handle.search.remote(name, questions(user, 1), False) for user in range(ASKED)]:
        answer.result()
    call = (time.perf_counter() - began) * 1000 / ASKED
    return times[20:], call, fixed, per_product
