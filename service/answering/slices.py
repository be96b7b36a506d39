"""Long work on the event loop, such as that for a batch, is cut into slices."""

from __future__ import annotations

import asyncio
from time import perf_counter

# So long a piece of work goes on before the loop may look after others.
SLICE_SECONDS = 0.005


async def yield_after(end: float) -> float:
    """Let the loop look after others if the time of this slice is over; return when the slice ends."""
    if perf_counter() <= end:
        return end
    await asyncio.sleep(0)
    return perf_counter() + SLICE_SECONDS
