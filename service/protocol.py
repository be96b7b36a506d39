"""HTTP on a connection: uvicorn's protocol, with questions for the lane taken out before they become ASGI requests.

It also bounds what uvicorn does not: the size of a request's head, and how long a connection may say nothing.
"""

from __future__ import annotations

import functools
from time import perf_counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service import errors
from service.errors import ApiError
from service.lane import ASKING, NOTED, PATH, Lane

if TYPE_CHECKING:
    import asyncio

    from service.ask import Ask
    from service.keys import Key
    from service.lane import Plain
    from service.shell import Shell


class LaneProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with questions taken out before they become ASGI requests."""

    def __init__(self, lane: Lane, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.lane = lane
        self.url = b""
        self.plain: Plain | None = None  # a usual question that waits in the lane
        self.ask: Ask | None = None  # any other that does
        self.key: Key | None = None
        self.products = 0
        self.seconds = 0.0
        self.noted = False  # a header that matters has come
        self.asking = False  # one that changes the question
        self.idle_since = perf_counter()
        self._in_lane = False
        self._in_message = False
        self._in_head = False
        self._head_bytes = 0
        self._chunk = 0
        self._leaving = False
        self._too_large = False

    # ---- bytes in

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.lane.watch(self.connections, self.loop)

    def data_received(self, data: bytes) -> None:
        """Glance, else parse, but do not let a head grow without end."""
        if not self._in_message and self._is_free() and self.lane.glance(self, data):
            self.headers = []
            self.noted = False
            self._unset_keepalive_if_required()
            return
        self._chunk = len(data)
        if self._in_head:
            self._head_bytes += self._chunk
            if self._head_bytes > self.lane.header_limit:
                self._too_large = True
                self.send_400_response("")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin a request. The ASGI scope is made only for those that need it."""
        self.url = b""
        self.headers = []
        self.noted = self.asking = False
        self.expect_100_continue = False
        self._in_message = self._in_head = True
        self._head_bytes = self._chunk

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header and note those that matter."""
        name = name.lower()
        if name in NOTED:
            self.noted = True
            if name in ASKING:
                self.asking = True
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the request into the lane, or hand it to ASGI."""
        self._in_head = False
        if self._chunk > self.lane.header_limit:
            self._refuse_large_head()
        pipelined = self.waits()
        if pipelined:
            # The question before it is answered first; this one goes to ASGI, which takes pipelines one by one.
            self.serve()
        if (
            self.lane.enabled
            and not pipelined
            and self.url.startswith(PATH)
            and self._is_free()
            and self.parser.get_method() == b"GET"
            and self.parser.should_keep_alive()
            and not (self.noted and self._is_foreign())
        ):
            self._in_lane = self.lane.take(self)
            if self._in_lane:
                return
        self._in_lane = False
        url, headers, expect = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expect
        self.headers.extend(headers)
        super().on_headers_complete()

    def _is_free(self) -> bool:
        """Whether no other request of this connection is under way, and the caller reads its answers."""
        cycle = self.cycle
        return (
            (cycle is None or cycle.response_complete)
            and self.plain is None
            and self.ask is None
            and not self.flow.write_paused
        )

    def _is_foreign(self) -> bool:
        """Whether ASGI has to see the request: for a header, or as HTTP/1.0 that wants to keep the connection."""
        return self.parser.get_http_version() != "1.1" or self.lane.is_foreign(self.headers)

    def on_body(self, body: bytes) -> None:
        """Pass a body on; questions have none."""
        if not self._in_lane:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_message = False
        if not self._in_lane:
            # From here on a request waits for us; before, we waited for its body.
            self.scope["budgetrec.arrival"] = perf_counter()  # type: ignore[typeddict-unknown-key]
            super().on_message_complete()

    # ---- bytes out

    def serve(self) -> None:
        """Answer the waiting question, if it still waits."""
        lane, plain, ask = self.lane, self.plain, self.ask
        if plain is None and ask is None:
            return
        self.plain = self.ask = None
        lane.queue.leave(self.products, self.seconds)
        transport = self.transport
        if transport.is_closing():
            return
        service = lane.service
        request_id = lane.shell.ids.of(self.headers) if self.noted else lane.shell.ids.make()
        try:
            body = lane.answer(plain, ask, self.key)
        except ApiError as error:
            self._fail(error, request_id)
        except Exception:
            service.log.exception("request failed", route="recommend", request_id=request_id.decode())
            self._fail(errors.internal(), request_id)
        else:
            head = lane.head(self.server_state.default_headers)
            transport.write(b"%b%b\r\ncontent-length: %d\r\n\r\n%b" % (head, request_id, len(body), body))
            service.metrics.row[service.metrics.recommend_ok] += 1.0
            if service.sample():
                service.log.info(
                    "request",
                    route="recommend",
                    status=200,
                    request_id=request_id.decode(),
                    budget=self.products,
                    microseconds=int((perf_counter() - self.idle_since) * 1e6),
                )
        self.server_state.total_requests += 1
        if self._leaving:
            transport.close()

    def _fail(self, error: ApiError, request_id: bytes) -> None:
        self.lane.service.failed(error, self.headers)
        self.lane.service.metrics.request("recommend", error.status)
        self._write_error(error, (b"x-request-id", request_id))

    def _write_error(self, error: ApiError, *more: tuple[bytes, bytes]) -> None:
        body = error.body()
        headers = [*self.server_state.default_headers, *error.headers(), *more]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(b"%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[error.status], lines, len(body), body))

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or too much of it, in the shape of all errors, and close."""
        del msg
        if self.transport.is_closing():
            return
        error = (
            errors.headers_too_large(self.lane.header_limit)
            if self._too_large
            else ApiError(400, "bad_request", "This is not a well-formed HTTP request.", "Send HTTP/1.1.")
        )
        self.lane.service.failed(error, ())
        self.lane.service.metrics.request("other", error.status)
        self._write_error(error, (b"connection", b"close"))
        self.transport.close()

    def _refuse_large_head(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.lane.header_limit:
            self._too_large = True
            raise ValueError("the head is too large")

    # ---- the life of a connection

    def waits(self) -> bool:
        """Whether a question waits in the lane."""
        return self.plain is not None or self.ask is not None

    def is_idle(self) -> bool:
        """Whether nothing is being asked or answered."""
        return not self.waits() and (self.cycle is None or self.cycle.response_complete)

    def on_response_complete(self) -> None:
        """Note that an answer of ASGI is out."""
        self.idle_since = perf_counter()
        super().on_response_complete()

    def shutdown(self) -> None:
        """Leave when the waiting question is answered."""
        if self.waits():
            self._leaving = True
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a question whose caller has gone."""
        if self.waits():
            self.plain = self.ask = None
            self.lane.queue.leave(self.products, self.seconds)
        super().connection_lost(exc)


def lane_for(shell: Shell) -> Any:
    """Return what uvicorn's `http=` takes: the protocol with this worker's lane in it."""
    return functools.partial(LaneProtocol, Lane(shell))
