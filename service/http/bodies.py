"""JSON bodies, bounded before they are parsed.

A megabyte of `[{},{},…]` becomes 350,000 objects and holds the event loop and the memory for as long as they take. So
the values of a body are counted first, which is fast, and a body with more values than any question of this service
can have is refused. Large bodies are counted and parsed in a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute

from service.errors import too_many_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.settings import Settings

# Above this a body is parsed in a thread.
LARGE = 64 << 10
# Values beside vectors and ids that an entry of a batch can have.
_FIELDS = 16
# So many are parsed in a moment, whatever the limits are.
_HARMLESS = 10_000
_CHUNK = 64 << 10


def most_values(settings: Settings, n_dims: int) -> int:
    """Return how many values a body may have: a full batch of vectors, or one full list of exclusions."""
    return max(_HARMLESS, settings.max_exclude, settings.max_batch * (n_dims + _FIELDS)) + _FIELDS


def count_values(body: bytes) -> int:
    """Return how many lists, objects and commas stand outside of strings: at least as many as there are values."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    values, inside = 0, 0
    for start in range(0, len(body), _CHUNK):
        parts = body[start : start + _CHUNK].split(b'"')
        values += sum(map(_count, parts[inside::2]))
        inside ^= (len(parts) - 1) & 1
    return values


def _count(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parse(body: bytes, most: int) -> Any:
    """Return what the JSON says. Raises a 413 for more than `most` values, JSONDecodeError for what is no JSON."""
    # What stands in strings makes the quick count too large, never too small; only then an exact one is needed.
    if _count(body) > most and count_values(body) > most:
        raise too_many_values(most)
    return orjson.loads(body)


class BoundedRequest(Request):
    """A request whose JSON is counted before it is parsed."""

    async def json(self) -> Any:
        """Return the body as JSON."""
        if not hasattr(self, "_json"):
            worker = self.app.state.worker
            model = worker.answering.model
            most = most_values(worker.settings, 0 if model is None else model.n_dims)
            body = await self.body()
            if len(body) > LARGE:
                self._json = await asyncio.get_running_loop().run_in_executor(None, parse, body, most)
            else:
                self._json = parse(body, most)
        return self._json


class BoundedRoute(APIRoute):
    """The route of a call that takes a body."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return FastAPI's handler, fed with bounded requests."""
        handler = super().get_route_handler()

        async def bounded(request: Request) -> Any:
            return await handler(BoundedRequest(request.scope, request.receive))

        return bounded
