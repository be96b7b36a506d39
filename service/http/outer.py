"""The outer ASGI layer: around FastAPI, without middlewares that cost more than a search.

    outer (request id, count, log) ─► CORS, if configured ─► guard (keys, size of the body, errors) ─► FastAPI

Starlette answers CORS; everything else here is what every call has in common.
"""

from __future__ import annotations

import itertools
import re
import secrets
from time import perf_counter
from typing import TYPE_CHECKING, Any

from starlette.middleware.cors import CORSMiddleware

from service import errors
from service.errors import ApiError
from service.http.calls import call_of
from service.http.keys import BROWSED, Caller, presented_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping, Sequence

    from service.http.calls import Call
    from service.worker import Worker

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Under this name the connection that a request came over is in the state of its scope; see service.front.connection.
CONNECTION = "budgetrec.connection"

VARY_ORIGIN = (b"vary", b"Origin")
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")


class RequestIds:
    """Takes the caller's id when it is safe to echo, else makes one: a random part per process and a counter."""

    def __init__(self) -> None:
        prefix = secrets.token_hex(6)
        made = (b"%b-%x" % (prefix.encode(), number) for number in itertools.count(1))
        self.make = made.__next__

    def of(self, headers: Any) -> bytes:
        """Return the id of a request."""
        for name, value in headers:
            if name == b"x-request-id" and _SAFE_ID.fullmatch(value):
                found: bytes = value
                return found
        return self.make()


class OuterLayer:
    """The ASGI application that the server runs."""

    def __init__(self, worker: Worker, api: App) -> None:
        self.worker = worker
        self.ids = RequestIds()
        self._api = api
        self._body_limit = worker.settings.body_limit
        origins = worker.settings.cors_origins
        browsing = [*origins, *(origin.decode() for origin in worker.keyring.origins)]
        # Answers differ by the caller's origin; whoever stores them has to know, also where no origin was sent.
        self._vary = [VARY_ORIGIN] if browsing and "*" not in origins else []
        self._inner = self._answering_origins(origins)
        self._browsed = self._answering_origins(browsing)

    def _answering_origins(self, origins: Sequence[str]) -> App:
        """Return what answers CORS for pages of these origins, with the guard behind it."""
        if not origins:
            return self._guarded
        return CORSMiddleware(
            self._guarded,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=[
                "Content-Type", "Authorization", "X-API-Key", "X-Request-ID", "X-Request-Deadline-Ms", "X-Priority",
                "Traceparent", "Tracestate",
            ],
            expose_headers=["X-Request-ID", "X-Error-Code", "Retry-After"],
            max_age=600,
        )  # fmt: skip

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection of the ASGI protocol."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            # There are no websockets here; refuse politely.
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.worker.start()
        except Exception as error:  # noqa: BLE001 - the server wants to be told
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.worker.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = perf_counter()
        call = call_of(scope["path"], scope["method"])
        connection = scope.get("state", {}).get(CONNECTION)
        if connection is not None:
            self.worker.admission.inline.note_wait(began - connection.arrival)
            # uvicorn adds the trailers of a chunked body to the headers; whoever sends them must not pass for a proxy.
            scope["headers"] = scope["headers"][: connection.n_headers]
        request_id = self.ids.of(scope["headers"])
        extra = [(b"x-request-id", request_id), *self._vary]
        if connection is not None and connection.is_last:
            extra.append((b"connection", b"close"))
        scope["budgetrec.call"] = call
        status = 500

        async def send_with_extra(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # Starlette adds its own Vary where the origin is one of ours.
                headers = [header for header in message.get("headers", ()) if header != VARY_ORIGIN]
                message["headers"] = [*headers, *extra]
            await send(message)

        try:
            inner = self._browsed if call.name in BROWSED else self._inner
            await inner(scope, receive, send_with_extra)
        except Exception:
            # FastAPI has answered or the connection is gone; the fault itself is ours to log.
            self.worker.log.exception("request failed", route=call.name, request_id=request_id.decode())
        finally:
            if connection is not None:
                connection.answered()
        self.worker.note_request(call.name, status, request_id, perf_counter() - began)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check key and size before anything of the request is read, and hand it to FastAPI."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            scope["budgetrec.limit"] = self._authorize(scope["budgetrec.call"], scope)
            await self._api(scope, self._limited(scope["headers"], receive), noted)
        except Exception as error:
            if started:
                raise
            shaped = error if isinstance(error, ApiError) else errors.internal()
            self.worker.note_failure(shaped, scope["headers"])
            await respond(send, shaped.status, shaped.body(), shaped.headers())
            if shaped is not error:
                raise

    def _authorize(self, call: Call, scope: Scope) -> Any:
        """Let the caller pass: 401 or 403 if not. Return the limit of its key, if it has one."""
        headers = scope["headers"]
        if call.access == "open":
            return None
        if call.access == "admin":
            client = scope.get("client")
            connection = scope.get("state", {}).get(CONNECTION)
            trusted = connection is not None and connection.is_trusted
            caller = Caller(client[0] if client else None, headers, trusted=trusted)
            self.worker.keyring.check_admin(presented_key(headers), caller)
            return None
        return self.worker.authorize(headers, call.name)

    def _limited(self, headers: Any, receive: Receive) -> Receive:
        """Refuse a body that says it is too large, and stop reading one that turns out to be."""
        limit = self._body_limit
        for name, value in headers:
            if name == b"content-length" and (not value.isdigit() or int(value) > limit):
                raise errors.body_too_large(limit)
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise errors.body_too_large(limit)
            return message

        return counted


async def respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Send a whole answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def arrival_of(scope: Scope) -> float:
    """Return when a request had arrived whole, on the clock of `perf_counter`."""
    connection = scope.get("state", {}).get(CONNECTION)
    return perf_counter() if connection is None else connection.arrival
