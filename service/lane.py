"""The fast lane: GET /recommend answered inside uvicorn's HTTP protocol.

An ASGI request costs a scope, a task, two coroutines and several callbacks, together more than a search. The
lane reads the query where the parser leaves it and puts the question into a queue; one callback of the loop
works the queue off and writes each answer with one call. Everything that is not a plain question (another path
or method, a body, a key, CORS, anything that is not well-formed) takes the ordinary way through ASGI, so there
is one place that words errors.

The queue is also what admission needs: it knows how much work waits before any of it is done, serves
interactive callers first, and yields to the loop every few milliseconds, so that health checks and metrics are
answered under any load.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from service import errors
from service.admission import BATCH
from service.ask import Ask
from service.engine import MANY_IDS
from service.errors import ApiError
from service.hot import HotPath

if TYPE_CHECKING:
    import asyncio

    from service.keys import Key
    from service.shell import Shell

PATH = b"/recommend?"
# Work off the queue at most this long before the loop may look at sockets and timers.
SLICE_SECONDS = 0.003
# While interactive callers wait, every so many turns one goes to a batch caller, so that none starves.
BATCH_TURN = 8

# Headers that change what a question asks, or who asks it.
_ASKING = frozenset((b"authorization", b"x-api-key", b"x-priority", b"x-request-deadline-ms", b"x-request-id"))
# Headers of requests that ASGI has to look at.
_FOREIGN = frozenset((b"connection", b"content-length", b"expect", b"origin", b"transfer-encoding", b"upgrade"))
_NOTED = _ASKING | _FOREIGN

_USUAL = re.compile(
    rb"/recommend\?user_id=([A-Za-z0-9._~:@-]{1,200})(?:&budget=([1-9][0-9]{0,8}))?(?:&top_k=([1-9][0-9]{0,5}))?"
).fullmatch


# User, budget, top_k, arrival.
Plain = tuple[str, int, int, float]


class Lane:
    """The queue of one worker, shared by its connections."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.service = shell.service
        self.engine = shell.service.engine
        self.enabled = shell.service.settings.lane
        self.hot = HotPath(self.engine)
        self.queue = self.engine.admission.inline
        self.header_limit = shell.service.settings.header_limit
        self._default_budget = shell.service.settings.default_budget
        self._default_top_k = shell.service.settings.default_top_k
        self._max_top_k = shell.service.settings.max_top_k
        self._keep_alive = shell.service.settings.keep_alive_seconds
        self._keys = shell.service.keyring.required
        self._cors = bool(shell.service.settings.cors_origins)
        self._interactive: deque[LaneProtocol] = deque()
        self._batch: deque[LaneProtocol] = deque()
        self._scheduled = False
        self._turn = 0
        self._head: tuple[Any, bytes] = (None, b"")
        self._sweeping = False

    def take(self, connection: LaneProtocol) -> bool:
        """Queue a connection's request if it is a question for the lane; False leaves it to ASGI."""
        engine = self.engine
        connection.idle_since = arrival = perf_counter()
        usual = None if connection.noted or self._keys else _USUAL(connection.url)
        if usual is not None:
            user_id, budget, top_k = usual.groups()
            products = self._default_budget if budget is None else int(budget)
            wanted = self._default_top_k if top_k is None else int(top_k)
            if products > engine.plain_budget or wanted > self._max_top_k or not self.queue.is_calm():
                usual = None
            else:
                connection.plain = (user_id.decode("ascii"), products, wanted, arrival)
        if usual is None:
            products = self._take_unusual(connection, arrival)
            if products == 0:
                return False
        connection.products = products
        connection.seconds = seconds = engine.law.seconds(products)
        self.queue.enter(products, seconds)
        if connection.ask is not None and connection.ask.priority == BATCH:
            self._batch.append(connection)
        else:
            self._interactive.append(connection)
        if not self._scheduled:
            self._scheduled = True
            connection.loop.call_soon(self.work, connection.loop)
        return True

    def _take_unusual(self, connection: LaneProtocol, arrival: float) -> int:
        """Read any other question that is well-formed and short enough for the loop.

        Return its products, 0 if it is not.
        """
        service, engine = self.service, self.engine
        model = engine.model
        if model is None:
            return 0
        headers = connection.headers
        try:
            connection.key = service.authorize(headers)
            ask = service.ask_recommend(connection.url[len(PATH) :], headers, arrival)
            products = engine.wish(ask, model, arrival)[1]
            self.queue.check(ask.priority)
        except ApiError:
            # ASGI finds the same fault and words it.
            return 0
        if products > engine.inline_budget or len(ask.exclude) > MANY_IDS:
            return 0
        connection.ask = ask
        # What it will get when its turn comes, not what it asked: budgets shrink before anyone is refused.
        return self.queue.shrink(products, ask.priority, arrival)

    def work(self, loop: asyncio.AbstractEventLoop) -> None:
        """Work the queue off, interactive callers first, for one slice of time."""
        end = perf_counter() + SLICE_SECONDS
        interactive, batch = self._interactive, self._batch
        try:
            while interactive or batch:
                self._turn += 1
                if batch and (not interactive or self._turn % BATCH_TURN == 0):
                    connection = batch.popleft()
                else:
                    connection = interactive.popleft()
                connection.serve()
                if perf_counter() > end:
                    break
        finally:
            # Whatever happens to one answer, those behind it are served.
            self._scheduled = bool(interactive or batch)
            if self._scheduled:
                loop.call_soon(self.work, loop)

    def answer(self, plain: Plain | None, ask: Ask | None, key: Key | None) -> bytes:
        """Answer in a straight line if that will do, else with all that the engine can."""
        if plain is not None:
            body = self.hot.answer(*plain)
            if body is not None:
                return body
            user_id, products, top_k, arrival = plain
            ask = Ask(top_k, arrival, user_id, products)
        if ask is None:
            raise ValueError("there is no question")
        return self.engine.answer_inline(ask, key)

    def head(self, default_headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the beginning of a good answer, up to the value of its request id.

        Made anew when the date changes.
        """
        if self._head[0] is not default_headers:
            lines = b"".join(name + b": " + value + b"\r\n" for name, value in default_headers)
            self._head = (
                default_headers,
                STATUS_LINE[200] + lines + b"content-type: application/json\r\nx-request-id: ",
            )
        return self._head[1]

    def is_foreign(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether a header asks for something that only ASGI does."""
        for name, value in headers:
            if name in _FOREIGN:
                if name == b"connection" and value.lower() == b"keep-alive":
                    continue
                if name == b"origin" and not self._cors:
                    continue
                return True
        return False

    def sweep(self, connections: set[LaneProtocol], loop: asyncio.AbstractEventLoop) -> None:
        """Close connections that have been idle too long; one timer for all instead of one per answer."""
        oldest = perf_counter() - self._keep_alive
        for connection in list(connections):
            if connection.idle_since < oldest and connection.is_idle():
                connection.transport.close()
        loop.call_later(max(0.2, self._keep_alive / 8), self.sweep, connections, loop)

    def watch(self, connections: Any, loop: asyncio.AbstractEventLoop) -> None:
        """Begin sweeping, once."""
        if not self._sweeping:
            self._sweeping = True
            self.sweep(connections, loop)


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
        self.noted = False
        self.idle_since = perf_counter()
        self._in_lane = False
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
        """Parse, but do not let a head grow without end."""
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
        self.noted = False
        self.expect_100_continue = False
        self._in_head = True
        self._head_bytes = self._chunk

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header and note those that matter."""
        name = name.lower()
        if name in _NOTED:
            self.noted = True
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Take the request into the lane, or hand it to ASGI."""
        self._in_head = False
        if self._chunk > self.lane.header_limit:
            self._refuse_large_head()
        if self.waits():
            # Pipelined: the question before this one is answered first.
            self.serve()
        cycle = self.cycle
        if (
            self.lane.enabled
            and self.url.startswith(PATH)
            and (cycle is None or cycle.response_complete)
            and not self.flow.write_paused
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

    def _is_foreign(self) -> bool:
        """Whether ASGI has to see the request: for a header, or as HTTP/1.0 that wants to keep the connection."""
        return self.parser.get_http_version() != "1.1" or self.lane.is_foreign(self.headers)

    def on_body(self, body: bytes) -> None:
        """Pass a body on; questions have none."""
        if not self._in_lane:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
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
