"""One connection: takes requests apart, answers plain questions, and hands the others to uvicorn one at a time.

    no request ──► waiting in the line ──► answered
        │    └───► with uvicorn, which is given the bytes of exactly one request ──► answered
        └── a head that is no HTTP, too large, or too slow: an error, and the end

While a request is under way, what arrives behind it is kept; a pipeline is answered in order.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any

from service import errors
from service.errors import ApiError
from service.front.farewell import Farewell
from service.front.head import read_head, read_plain, without_upgrade

if TYPE_CHECKING:
    from service.answering.answering import Answering
    from service.answering.question import Question
    from service.front.front import Front
    from service.http.key_limits import KeyLimit

_END = b"\r\n\r\n"
# Bytes behind a request that is under way; more are left to the caller's side of the connection.
_BEHIND = 64 << 10


class Connection(asyncio.Protocol):
    """A connection of one caller. The event loop calls; nothing here waits.

    arrival     when the request under way had arrived whole, on the clock of `perf_counter`
    idle_since  when there was last a request under way
    is_trusted  it came over the operator's socket
    is_last     the connection ends with the request that is under way
    n_headers   how many headers the head of the request with uvicorn has; what follows them are trailers
    question    the plain question that is under way
    """

    def __init__(self, front: Front, *, is_trusted: bool = False) -> None:
        self._front = front
        self._worker = front.worker
        self.is_trusted = is_trusted
        self.arrival = self.idle_since = perf_counter()
        self.is_last = False
        self.n_headers = 0
        self.question: Question | None = None
        self._answering: Answering | None = None  # the model that it is for
        self._limit: KeyLimit | None = None
        self._request_id = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._handed: _Handed | None = None
        self._task: asyncio.Task[None] | None = None  # answers a question that is too long for the line
        self._left = 0  # bytes of the request that have not arrived yet
        self._is_chunked = False  # then it is the most that may arrive
        self._begun: float | None = None  # when the first byte of a request came that is not whole yet
        self._blocked_since: float | None = None  # since when the caller does not read
        self._held = False  # we read no more until what arrived is worked off
        self._held_by_uvicorn = False
        self._scheduled = False
        self._at_end = False  # the caller sends no more

    # ---- what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = transport  # type: ignore[assignment]
        has_room = self._front.has_room()
        self._front.connections.add(self)
        if not has_room:
            self._refuse(errors.too_many_connections(self._front.most_connections))

    def data_received(self, data: bytes) -> None:
        """Take bytes in."""
        self._buffer = self._buffer + data if self._buffer else data
        if self._handed is not None or self._left:
            self._pass_on()
            return
        if self.question is None and self._blocked_since is None:
            self._take_request()
        if len(self._buffer) > _BEHIND and self._begun is None:
            self._hold_reading(True)

    def eof_received(self) -> bool:
        """Answer what is under way, then end: the caller sends no more."""
        self._at_end = True
        if self._left:
            return False  # the rest of the request will never come
        return self.question is not None or self._handed is not None or _END in self._buffer

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the caller."""
        self._front.forget(self)
        self.question = None
        handed, self._handed = self._handed, None
        if handed is not None:
            handed.connection_lost(exc)
        self._transport = None

    def pause_writing(self) -> None:
        """Answer nothing more until the caller reads what it was sent."""
        self._blocked_since = perf_counter()
        if self._handed is not None:
            self._handed.protocol.pause_writing()

    def resume_writing(self) -> None:
        """Go on: the caller reads again."""
        self._blocked_since = None
        if self._handed is not None:
            self._handed.protocol.resume_writing()
        else:
            self._go_on()

    # ---- requests in

    def _next_request(self) -> None:
        """Take the next request out of what has arrived, unless something stands in its way."""
        self._scheduled = False
        if self._transport is None or self._transport.is_closing():
            return
        if self.question is None and self._handed is None and not self._left and self._blocked_since is None:
            self._take_request()

    def _take_request(self) -> None:
        """Take the next request out of what has arrived, if its head is there. Nothing else is under way."""
        data = self._buffer
        if data.startswith(b"\r\n"):
            # An empty line before a request is to be ignored (RFC 9112).
            data = self._buffer = data.lstrip(b"\r\n")
        if not data:
            self._begun = None
            if self._at_end:
                self.end()
            return
        end = data.find(_END) + len(_END)
        if end < len(_END) or end > self._front.header_limit:
            self._wait_for_head(data)
            return
        self.arrival = self.idle_since = perf_counter()
        self._begun = None
        head, self._buffer = data[:end], data[end:]
        self.is_last = self._at_end and not self._buffer
        plain = read_plain(head) if self._front.has_short_cut else None
        if plain is None or not self._ask(*plain):
            self._hand_over(head)

    def _wait_for_head(self, data: bytes) -> None:
        """Wait for the rest of a head, unless there can be none."""
        if len(data) > self._front.header_limit:
            self._refuse(errors.headers_too_large(self._front.header_limit))
        elif b"\n\n" in data or self._at_end:
            self._refuse(errors.malformed())
        elif self._begun is None:
            self._begun = perf_counter()

    def _ask(self, query: bytes, headers: list[tuple[bytes, bytes]]) -> bool:
        """Answer a plain question, or let it wait for its turn; False if it is not for the short cut after all."""
        front, worker = self._front, self._worker
        if headers and front.has_cors and any(name == b"origin" for name, _ in headers):
            return False
        self._headers = headers
        self._request_id = front.ids.of(headers) if headers else front.ids.make()
        try:
            limit = worker.authorize(headers)
            question = worker.questions.recommend(query, headers, self.arrival)
            answering = front.only_answering
            if answering is None or question.model is not None:
                answering = worker.arms.of(question)
            grant = answering.usual_grant(question)
            if grant is not None and grant.granted <= answering.short_budget and front.line.is_empty:
                # Nothing waits, and it is short: its turn is now.
                self._answer(200, answering.answer_inline(question, limit, grant))
                return True
            if grant is None:
                grant = answering.turned_away(question, self.arrival)
                if grant is not None:
                    # To answer with the popular items at once is less work than to let it wait.
                    self._answer(200, answering.answer_inline(question, limit, grant))
                    return True
            products = answering.expected_products(question, self.arrival)
            if products and answering.comes_too_late(question, front.load, self.arrival):
                question.expire()
                products = 0
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            self._fail(error)
            return True
        self.question = question
        self._answering = answering
        self._limit = limit
        if products is None:
            self._task = front.loop.create_task(self._serve_later(question, answering))
        else:
            front.line.enter(self, question.priority, products, answering.law.seconds(products))
        return True

    def _hand_over(self, head: bytes) -> None:
        """Give a request to uvicorn."""
        head = without_upgrade(head)
        known = read_head(head)
        if known is None:
            self._refuse(errors.malformed())
            return
        self.n_headers = known.n_headers
        limit = self._front.settings.body_limit
        if known.length is None:
            # The end of a chunked body is for its parser to see, so nothing can come behind it.
            self._left = 2 * limit + self._front.header_limit
            self.is_last = self._is_chunked = True
        else:
            self._left = known.length
            if known.expects_continue or not known.keeps_alive or (self._at_end and len(self._buffer) <= self._left):
                self.is_last = True
        self._handed = _Handed(self, self._front.hand_over(self))
        self._handed.protocol.connection_made(self._handed)
        self._handed.protocol.data_received(head)
        if self._handed is not None:
            self._pass_on()

    def _pass_on(self) -> None:
        """Pass bytes of a body to uvicorn; without uvicorn, which has answered already, drop them."""
        part, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        self._left -= len(part)
        if part and self._handed is not None:
            self._handed.protocol.data_received(part)
        if self._left:
            self._begun = self._begun or perf_counter()
            return
        self._begun = None
        if self._is_chunked:
            self._refuse(errors.body_too_large(self._front.settings.body_limit))
            return
        self.arrival = perf_counter()
        if self._handed is None:
            self._go_on()
        elif self.is_last and self._buffer:
            self._buffer = b""
        elif len(self._buffer) > _BEHIND:
            self._hold_reading(True)

    # ---- answers out

    def serve(self) -> None:
        """Answer the question that waited in the line."""
        question, self.question = self.question, None
        if question is None or self._transport is None or self._answering is None:
            return
        try:
            body = self._answering.answer_inline(question, self._limit)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            self._fail(error)
        else:
            self._answer(200, body)

    async def _serve_later(self, question: Question, answering: Answering) -> None:
        """Answer a question that is too long for the line, or not to be answered at all."""
        try:
            body = await answering.answer(question, self._limit)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            self.question = None
            self._fail(error)
        else:
            self.question = None
            self._answer(200, body)

    def _fail(self, error: Exception) -> None:
        """Answer a plain question with an error; one that nobody expected is ours, and logged."""
        if not isinstance(error, ApiError):
            self._worker.log.error(
                "request failed", route="recommend", request_id=self._request_id.decode(), exc_info=error
            )
            error = errors.internal()
        self._worker.note_failure(error, self._headers)
        # The type of the content is in the head that all answers begin with.
        self._answer(error.status, error.body(), error.headers()[1:])

    def _answer(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]] | None = None) -> None:
        """Write a whole answer to a plain question and look for what came behind it."""
        if self._transport is None or self._transport.is_closing():
            return
        more = b"".join([b"\r\n%b: %b" % header for header in headers]) if headers else b""
        if self.is_last:
            more += b"\r\nconnection: close"
        head = self._front.good_head if status == 200 else self._front.head(status)
        self._transport.write(
            b"%b%b%b\r\ncontent-length: %d\r\n\r\n%b" % (head, self._request_id, more, len(body), body)
        )
        now = perf_counter()
        self.idle_since = now
        self._worker.note_request("recommend", status, self._request_id, now - self.arrival)
        self._go_on()

    def answered(self) -> None:
        """Take the connection back from uvicorn: the application has answered. Called by the outer layer."""
        self._front.loop.call_soon(self._take_back)

    def _take_back(self) -> None:
        handed, self._handed = self._handed, None
        if handed is None:
            return
        handed.let_go()
        self.idle_since = perf_counter()
        if self._transport is None or self._transport.is_closing():
            return
        self._pass_on() if self._left else self._go_on()

    def _go_on(self) -> None:
        """End if this was the last request; else look, a turn of the loop later, for the next one."""
        if self._front.leaving or self.is_last or (self._at_end and not self._buffer):
            self.end()
            return
        if self._held and len(self._buffer) <= _BEHIND:
            self._hold_reading(False)
        if self._buffer and not self._scheduled:
            self._scheduled = True
            self._front.loop.call_soon(self._next_request)

    def _refuse(self, error: ApiError) -> None:
        """Answer what is no request, or one too many, with an error, and end."""
        if self._transport is None or self._transport.is_closing():
            return
        self._worker.note_no_http(error)
        if self._handed is not None:
            handed, self._handed = self._handed, None
            handed.let_go()
        body = error.body()
        lines = b"".join([b"\r\n%b: %b" % header for header in error.headers()[1:]])
        head = self._front.head(error.status)
        self._transport.write(
            b"%b%b%b\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"
            % (head, self._front.ids.make(), lines, len(body), body)
        )
        self.end()

    # ---- the life of the connection

    def is_idle(self) -> bool:
        """Whether nothing is being asked or answered."""
        return self.question is None and self._handed is None and not self._buffer and not self._left

    def overdue(self, now: float) -> str | None:
        """End a connection that has been idle or slow for too long, and say which; None for all others."""
        settings = self._front.settings
        if self._transport is None:
            return None
        if self._blocked_since is not None and now - self._blocked_since > settings.send_seconds:
            self._transport.abort()
            return "slow_reader"
        if self._begun is not None and now - self._begun > settings.receive_seconds:
            if self._handed is not None and self._handed.has_written:
                self._transport.abort()
            elif self._handed is None and self._left:
                # It has its answer, and only the rest of its body is late: a second answer would be another's.
                self.end()
            else:
                self._refuse(errors.slow_request(settings.receive_seconds))
            return "slow_request"
        if self.is_idle() and now - self.idle_since > settings.keep_alive_seconds:
            self.close()
            return "idle"
        return None

    def leave(self) -> None:
        """End as soon as nothing is under way."""
        self.is_last = True
        if self.question is None and self._handed is None:
            self.close()

    def end(self) -> None:
        """End behind the last answer: it is sent, and what the caller still sends is dropped."""
        self._leave_it(lingers=not self._at_end and self._front.may_linger())

    def close(self) -> None:
        """End where nothing is under way, after what has been written is sent."""
        self._leave_it(lingers=False)

    def _leave_it(self, *, lingers: bool) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._front.forget(self)
        if self._handed is not None:
            # Nobody else will tell uvicorn, and the application would wait for the rest of a body that was no HTTP.
            self._front.loop.call_soon(self._take_back)
        self._buffer, self._left = b"", 0
        if lingers and (self._held or self._held_by_uvicorn):
            transport.resume_reading()
        if not transport.is_closing():
            Farewell(self._front, transport, lingers=lingers)

    def abort(self) -> None:
        """End at once."""
        if self._transport is not None:
            self._transport.abort()

    def _hold_reading(self, hold: bool, *, by_uvicorn: bool = False) -> None:
        """Read from the connection only as long as neither we nor uvicorn want it to wait."""
        before = self._held or self._held_by_uvicorn
        if by_uvicorn:
            self._held_by_uvicorn = hold
        else:
            self._held = hold
        after = self._held or self._held_by_uvicorn
        if self._transport is None or before == after or self._transport.is_closing():
            return
        if after:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class _Handed(asyncio.Transport):
    """The transport as uvicorn sees it while it has a request: the real one, until it is taken back."""

    def __init__(self, connection: Connection, protocol: Any) -> None:
        super().__init__()
        self.protocol = protocol
        self.has_written = False
        self._connection = connection
        self._real: Any = connection._transport  # noqa: SLF001 - two halves of one thing

    def let_go(self) -> None:
        """Cut uvicorn off and let it clean up behind itself."""
        self.resume_reading()
        self._real = None
        self.protocol.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell uvicorn that the caller has gone."""
        self._real = None
        self.protocol.connection_lost(exc)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the real one."""
        return default if self._real is None else self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """As the real one."""
        return self._real is None or self._real.is_closing()

    def write(self, data: Any) -> None:
        """As the real one."""
        if self._real is not None:
            self.has_written = True
            self._real.write(data)

    def close(self) -> None:
        """As the real one."""
        if self._real is not None:
            self._real = None
            self._connection.end()

    def abort(self) -> None:
        """As the real one."""
        if self._real is not None:
            self._real.abort()

    def pause_reading(self) -> None:
        """As the real one."""
        if self._real is not None:
            self._connection._hold_reading(True, by_uvicorn=True)  # noqa: SLF001

    def resume_reading(self) -> None:
        """As the real one."""
        if self._real is not None:
            self._connection._hold_reading(False, by_uvicorn=True)  # noqa: SLF001
