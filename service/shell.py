"""The outermost layer: pure ASGI around FastAPI, instead of middlewares that cost more than a search.

It gives each request an id, reads the caller's key, limits the body, answers CORS, shapes every error the same,
counts and logs; `GET /recommend` it answers itself, everything else it hands to FastAPI.
"""

from __future__ import annotations

import itertools
import re
import secrets
from time import perf_counter
from typing import TYPE_CHECKING, Any

from service import errors
from service.errors import ApiError
from service.keys import presented_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from service.keys import Key
    from service.service import Service

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

ROUTES = {
    "/recommend": "recommend",
    "/recommend/batch": "batch",
    "/similar": "similar",
    "/budgets": "budgets",
    "/model": "model",
    "/health/live": "live",
    "/health/ready": "ready",
    "/metrics": "metrics",
    "/admin/reload": "reload",
    "/admin/rollback": "rollback",
    "/docs": "docs",
    "/openapi.json": "docs",
}

# Answered to anybody; a path that does not exist may be known to anybody too.
_OPEN = frozenset(("live", "ready", "metrics", "docs", "other"))
_ADMIN = frozenset(("reload", "rollback"))
# A call that carries one of these came through a proxy.
_FORWARDED = frozenset((b"x-forwarded-for", b"forwarded", b"x-real-ip", b"via"))

JSON_TYPE = (b"content-type", b"application/json")
_SAFE_ID = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,128}")

# What a browser may send and read across origins.
_CORS_ALLOWED = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Authorization, X-API-Key, X-Request-ID, X-Request-Deadline-Ms, X-Priority",
    ),
    (b"access-control-max-age", b"600"),
)
_CORS_EXPOSED = (b"access-control-expose-headers", b"X-Request-ID, Retry-After")


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


class Shell:
    """The ASGI application that the server runs."""

    def __init__(self, service: Service, inner: App) -> None:
        self.service = service
        self.ids = RequestIds()
        self._inner = inner
        self._origins = frozenset(origin.encode() for origin in service.settings.cors_origins)
        self._body_limit = service.settings.body_limit

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
            await self.service.start()
        except Exception as error:  # noqa: BLE001 - the server wants to be told
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.service.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = perf_counter()
        # The lane's protocol knows when the request was complete; other servers leave it to us.
        arrival = scope.setdefault("budgetrec.arrival", now)
        self.service.engine.admission.inline.note_wait(now - arrival)
        headers = scope["headers"]
        path, method = scope["path"], scope["method"]
        route = ROUTES.get(path, "other")
        if route == "recommend" and method == "POST":
            route = "recommend_post"
        request_id = self.ids.of(headers)
        extra = [(b"x-request-id", request_id), *self._cors(headers)]
        status = 500
        started = False

        async def send_with_extra(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                started = True
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        try:
            if self._origins and method == "OPTIONS":
                await respond(send_with_extra, 204, b"", list(_CORS_ALLOWED))
            else:
                scope["budgetrec.key"] = self._guard(route, scope)
                await self._serve(route, scope, receive, send_with_extra)
        except ApiError as error:
            await self.fail(error, headers, send_with_extra)
        except Exception:
            self.service.log.exception("request failed", route=route, request_id=request_id.decode())
            if not started:
                await self.fail(errors.internal(), headers, send_with_extra)
        self.service.metrics.request(route, status)
        if self.service.sample():
            self.service.log.info(
                "request",
                route=route,
                status=status,
                request_id=request_id.decode(),
                microseconds=int((perf_counter() - arrival) * 1e6),
            )

    async def _serve(self, route: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer GET /recommend here, and leave everything else to FastAPI."""
        headers = scope["headers"]
        if route == "recommend" and scope["method"] == "GET":
            ask = self.service.ask_recommend(scope["query_string"], headers, scope["budgetrec.arrival"])
            body = await self.service.engine.answer(ask, scope["budgetrec.key"])
            await respond(send, 200, body, [JSON_TYPE])
        else:
            await self._inner(scope, self._limited(headers, receive), send)

    async def fail(self, error: ApiError, headers: Any, send: Send) -> None:
        """Answer with an error."""
        self.service.failed(error, headers)
        await respond(send, error.status, error.body(), error.headers())

    def _guard(self, route: str, scope: Scope) -> Key | None:
        """Let the caller pass, before anything of the request is read: 401 or 403 if not."""
        headers = scope["headers"]
        if route in _ADMIN:
            client = scope.get("client")
            self.service.keyring.check_admin(
                presented_key(headers),
                client[0] if client else None,
                forwarded=any(name in _FORWARDED for name, _ in headers),
            )
            return None
        return None if route in _OPEN else self.service.authorize(headers)

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

    def _cors(self, headers: Any) -> list[tuple[bytes, bytes]]:
        """Return the headers that let a configured origin read the answer."""
        if not self._origins:
            return []
        origin = next((value for name, value in headers if name == b"origin"), None)
        if b"*" in self._origins:
            return [(b"access-control-allow-origin", b"*"), _CORS_EXPOSED] if origin else []
        vary = (b"vary", b"Origin")
        if origin not in self._origins:
            return [vary]
        return [(b"access-control-allow-origin", origin), vary, _CORS_EXPOSED]


async def respond(send: Send, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Send a whole answer."""
    length = [(b"content-length", str(len(body)).encode())] if status != 204 else []
    await send({"type": "http.response.start", "status": status, "headers": headers + length})
    await send({"type": "http.response.body", "body": body})
