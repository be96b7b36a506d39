"""A fleet in discrete events: requests arrive, are scattered over shards, wait in replicas, and are gathered.

Times are drawn from what `make cluster` measured: how long Serve takes to bring a question to a shard and the answer
back, and how long a shard is at it. Everything else is arithmetic, and the same seed gives the same run.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

ARRIVES, REACHES, IS_DONE, COMES_BACK, HEDGES, GIVES_UP = range(6)


@dataclass(frozen=True)
class Latencies:
    """What was measured, in milliseconds.

    hop          from a request's thread to a shard and back, without the search
    fixed        of a search in a shard, whatever its share of the budget
    per_product  of each product more
    call         that an ingress is busy with each call of a shard: it sends them one after the other
    front        of HTTP, Serve's proxy and the ingress, for a request
    """

    hop: tuple[float, ...]
    call: float
    fixed: float
    per_product: float
    front: float

    @classmethod
    def read(cls, path: Path) -> Latencies:
        """Return what `make cluster` wrote."""
        stored = json.loads(path.read_text(encoding="utf-8"))
        names = ("call_ms", "fixed_ms", "per_product_ms", "front_ms")
        return cls(tuple(stored["hop_ms"]), *(stored[name] for name in names))


@dataclass(frozen=True)
class Fleet:
    """What is simulated; times in milliseconds.

    rate      requests a second
    lost      shards none of whose replicas answers
    slow      share of the replicas that take `slowness` times as long: a noisy neighbour, a cold cache
    hedge     a shard that has not answered by then is asked a second time; 0 is never
    deadline  shards that have not answered by then are left out
    """

    shards: int
    replicas: int = 2
    budget: int = 1024
    rate: float = 100.0
    lost: int = 0
    slow: float = 0.01
    slowness: float = 10.0
    hedge: float = 20.0
    deadline: float = 250.0


class Outcome(NamedTuple):
    """What became of the requests."""

    p50: float
    p99: float
    whole: float  # share of the requests that all shards answered
    answered: float  # mean share of the shards that answered
    questions: float  # to shards, for each shard of a request: more than 1 is what hedging costs
    busy: float  # share of the time that a replica works


class _Request:
    __slots__ = ("answered", "began", "free_at", "left", "open")

    def __init__(self, began: float, shards: int) -> None:
        self.began = began
        self.free_at = began  # when the ingress has made the calls that it is at
        self.answered = bytearray(shards)
        self.left = shards
        self.open = True


def simulate(fleet: Fleet, latencies: Latencies, *, requests: int = 2000, seed: int = 0) -> Outcome:
    """Run so many requests through a fleet."""
    rng = np.random.default_rng([seed, fleet.shards, fleet.replicas])
    draws = _Draws(rng, latencies)
    n_replicas = fleet.shards * fleet.replicas
    factor = np.where(rng.random(n_replicas) < fleet.slow, fleet.slowness, 1.0)
    lost = set(rng.permutation(fleet.shards)[: fleet.lost].tolist())
    free_at, waiting = [0.0] * n_replicas, [0] * n_replicas
    share = max(1, round(fleet.budget / fleet.shards))
    work = latencies.fixed + latencies.per_product * share
    arrivals = np.cumsum(rng.exponential(1000 / fleet.rate, requests))
    events: list[tuple[float, int, int, int, int]] = []
    number = 0

    def at(time: float, kind: int, request: int, place: int) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (time, number, kind, request, place))

    def ask(time: float, request: int, shard: int) -> None:
        """Send a question to the better of two replicas, as Serve's router does."""
        nonlocal questions
        questions += 1
        if shard in lost:
            return
        first = shard * fleet.replicas
        one = first + draws.whole(fleet.replicas)
        other = first + draws.whole(fleet.replicas)
        replica = one if waiting[one] <= waiting[other] else other
        waiting[replica] += 1
        at(time + draws.hop() / 2, REACHES, request, replica)

    took, shares = [], []
    questions, worked = 0, 0.0
    running = [_Request(float(time), fleet.shards) for time in arrivals]
    for request, time in enumerate(arrivals.tolist()):
        at(time, ARRIVES, request, 0)

    def close(time: float, request: _Request) -> None:
        request.open = False
        took.append(time - request.began + latencies.front)
        shares.append(1 - request.left / fleet.shards)

    while events:
        time, _, kind, request, place = heapq.heappop(events)
        mine = running[request]
        if kind == ARRIVES:
            for shard in range(fleet.shards):
                mine.free_at += latencies.call
                ask(mine.free_at, request, shard)
                if fleet.hedge > 0:
                    at(mine.free_at + fleet.hedge, HEDGES, request, shard)
            at(time + fleet.deadline, GIVES_UP, request, 0)
        elif kind == REACHES:
            seconds = work * float(factor[place]) * draws.noise()
            begins = max(time, free_at[place])
            free_at[place] = begins + seconds
            worked += seconds
            at(begins + seconds, IS_DONE, request, place)
        elif kind == IS_DONE:
            waiting[place] -= 1
            at(time + draws.hop() / 2, COMES_BACK, request, place // fleet.replicas)
        elif kind == COMES_BACK:
            if mine.open and not mine.answered[place]:
                mine.answered[place] = 1
                mine.left -= 1
                if mine.left == 0:
                    close(time, mine)
        elif kind == HEDGES and mine.open and not mine.answered[place]:
            mine.free_at = max(time, mine.free_at) + latencies.call
            ask(mine.free_at, request, place)
        elif kind == GIVES_UP and mine.open:
            close(time, mine)
    answered = np.array(shares)
    return Outcome(
        float(np.percentile(took, 50)),
        float(np.percentile(took, 99)),
        float((answered == 1).mean()),
        float(answered.mean()),
        questions / (requests * fleet.shards),
        worked / (float(arrivals[-1]) * n_replicas),
    )


class _Draws:
    """Random numbers, drawn many at once: one at a time they would be most of the run."""

    _MANY = 1 << 15

    def __init__(self, rng: np.random.Generator, latencies: Latencies) -> None:
        self._rng = rng
        self._hops = np.array(latencies.hop)
        self._uniform: list[float] = []

    def _next(self) -> float:
        if not self._uniform:
            self._uniform = self._rng.random(self._MANY).tolist()
        return self._uniform.pop()

    def whole(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return int(self._next() * n)

    def hop(self) -> float:
        """Return one of the measured hops."""
        return float(self._hops[int(self._next() * len(self._hops))])

    def noise(self) -> float:
        """Return what a search takes of its usual time: from nine tenths to a fifth more."""
        return 0.9 + 0.3 * self._next()
