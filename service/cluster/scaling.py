"""How many replicas a shard needs: Serve asks, and scales by the inner products that are in flight."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.serve.config import AutoscalingContext

# A replica is busy with so many products at once for about a millisecond.
PRODUCTS_PER_REPLICA = 4096


def replicas_for(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Return as many replicas as keep each below PRODUCTS_PER_REPLICA in flight, within Serve's bounds."""
    in_flight = context.aggregated_metrics.get("products", {}) if context.aggregated_metrics else {}
    wanted = math.ceil(sum(in_flight.values()) / PRODUCTS_PER_REPLICA)
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return max(least, min(most, wanted)), {}
