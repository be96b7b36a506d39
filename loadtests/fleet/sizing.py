"""What so many items take and cost, in shards: arithmetic on what a bundle's arrays hold and what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from greedy_core._graph import code_stride

if TYPE_CHECKING:
    from loadtests.fleet.simulation import Latencies

_GIB = 1 << 30
# Of an item: its row of float32, two codes of two bits a coordinate, 48 neighbours, an id of 16 bytes with its place.
_NEIGHBOURS, _ID_BYTES = 48, 16 + 8 + 12
# Lists are as long as the largest budget, whatever the number of items.
_MAX_BUDGET = 4096
# What a core costs for an hour, and what a million requests cost by it, in the same money.
PRICE_OF_CORE_HOUR = 0.04


class Sizing(NamedTuple):
    """Memory in GiB, time in seconds of a core.

    shard_gib   of a shard that has all its parts itself
    mapped_gib  of one of a model that walks: its graph and compressed rows are in the map
    map_gib     of the map, on every node with an ingress
    total_gib   of all replicas of the shards that have all their parts
    """

    shard_gib: float
    mapped_gib: float
    map_gib: float
    total_gib: float
    core_seconds_per_million: float
    cost_per_million: float

    @classmethod
    def of(
        cls, items: int, shards: int, latencies: Latencies, *, dims: int = 128, replicas: int = 2, budget: int = 1024
    ) -> Sizing:
        """Return the sizes for items of so many dimensions."""
        each = -(-items // shards)
        stride = -(-dims // 16) * 16
        row, node = stride * 4 + _ID_BYTES, 2 * code_stride(dims) + _NEIGHBOURS * 4
        lists = 2 * dims * (_MAX_BUDGET + 1) * 8
        shard = (each * (row + node) + lists) / _GIB
        share = max(1, budget // shards)
        # A call is work on both of its ends.
        milliseconds = shards * (latencies.fixed + latencies.per_product * share + 2 * latencies.call) + latencies.front
        seconds = milliseconds / 1000 * 1_000_000
        return cls(
            shard,
            (each * row + lists) / _GIB,
            items * node / _GIB,
            shard * shards * replicas,
            seconds,
            seconds / 3600 * PRICE_OF_CORE_HOUR,
        )
