"""JSON bodies, bounded before they are parsed.

A megabyte of `[{},{},…]` becomes 350,000 objects and holds the event loop and the memory for as long as they take. So
the values of a body are counted first, which is fast, and a body with more values than any question of this service
can have is refused. Large bodies are counted, parsed and validated in a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError

from greedy_core import MOST_BOOSTS, MOST_CAPS, MOST_PINS
from service.errors import invalid, too_many_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.settings import Settings

# Above this a body is parsed and validated in a thread.
LARGE = 64 << 10
# Values beside vectors and ids that an entry of a batch has, those of an item with a weight, and those of all rules of
# a page. The entries of a batch have no room for all rules each: with vectors' room they have for some.
_FIELDS, _ITEM_FIELDS = 32, 3
_RULES = MOST_CAPS + 3 * (MOST_BOOSTS + MOST_PINS)
# So many are parsed in a moment, whatever the limits are.
_HARMLESS = 10_000
_CHUNK = 64 << 10


def most_values(settings: Settings, n_dims: int) -> int:
    """Return how many values a body may have: a full batch of vectors, or one question with full lists."""
    lists = settings.max_exclude + _ITEM_FIELDS * settings.max_items
    return max(_HARMLESS, lists, settings.max_batch * (n_dims + _FIELDS)) + _FIELDS + _RULES


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


def parse(body: bytes, most: int, most_entries: int) -> Any:
    """Return what the JSON says. Raises a 413 for more than `most` values, JSONDecodeError for what is no JSON.

    A batch of too many entries is refused here, before each of them is validated.
    """
    # What stands in strings makes the quick count too large, never too small; only then an exact one is needed.
    if _count(body) > most and count_values(body) > most:
        raise too_many_values(most)
    parsed = orjson.loads(body)
    entries = parsed.get("requests") if isinstance(parsed, dict) else None
    if isinstance(entries, list) and len(entries) > most_entries:
        raise invalid("requests", f"has {len(entries)} entries", f"at most {most_entries} entries")
    return parsed


def read(body: bytes, most: int, most_entries: int, schema: TypeAdapter[Any]) -> Any:
    """Return what the JSON says, validated. Raises what `parse` raises, and RequestValidationError."""
    parsed = parse(body, most, most_entries)
    try:
        return schema.validate_python(parsed)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise RequestValidationError([first | {"loc": ("body", *first["loc"])}]) from None


class BoundedRequest(Request):
    """A request whose JSON is counted before it is parsed.

    schema  of the body; FastAPI leaves what was validated by it as it is
    """

    schema: TypeAdapter[Any]

    async def json(self) -> Any:
        """Return the body as JSON; one that is large is validated already."""
        if not hasattr(self, "_json"):
            worker = self.app.state.worker
            models = [answering.model for answering in worker.arms.by_name.values()]
            n_dims = max([model.n_dims for model in models if model is not None], default=0)
            most = most_values(worker.settings, n_dims)
            body, bounds = await self.body(), (most, worker.settings.max_batch)
            if len(body) > LARGE:
                loop = asyncio.get_running_loop()
                self._json = await loop.run_in_executor(None, read, body, *bounds, self.schema)
            else:
                self._json = parse(body, *bounds)
        return self._json


class BoundedRoute(APIRoute):
    """The route of a call that takes a body."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return FastAPI's handler, fed with bounded requests."""
        handler = super().get_route_handler()
        body: Any = None if self.body_field is None else self.body_field.field_info.annotation
        schema: TypeAdapter[Any] = TypeAdapter(body)

        async def bounded(request: Request) -> Any:
            bounded_request = BoundedRequest(request.scope, request.receive)
            bounded_request.schema = schema
            return await handler(bounded_request)

        return bounded
