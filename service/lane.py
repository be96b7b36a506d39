"""The fast lane: GET /recommend answered ahead of ASGI.

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

import re
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from service.admission import BATCH
from service.ask import Ask
from service.engine import MANY_IDS
from service.errors import ApiError
from service.hot import HotPath

if TYPE_CHECKING:
    import asyncio

    from service.keys import Key
    from service.protocol import LaneProtocol
    from service.shell import Shell

PATH = b"/recommend?"
# Work off the queue at most this long before the loop may look at sockets and timers.
SLICE_SECONDS = 0.003
# While interactive callers wait, every so many turns one goes to a batch caller, so that none starves.
BATCH_TURN = 8

# Headers of requests that ASGI has to look at.
FOREIGN = frozenset((b"connection", b"content-length", b"expect", b"origin", b"transfer-encoding", b"upgrade"))

# Headers that change what a question asks; who asks it is the keyring's business.
ASKING = frozenset((b"x-priority", b"x-request-deadline-ms"))
NOTED = ASKING | FOREIGN | {b"x-request-id"}

_QUESTION = (
    rb"/recommend\?user_id=([A-Za-z0-9._~:@-]{1,200})(?:&budget=([1-9][0-9]{0,8}))?(?:&top_k=([1-9][0-9]{0,5}))?"
)
_USUAL = re.compile(_QUESTION).fullmatch
# A whole request and nothing else: the usual question, well-formed headers, none of them one that matters.
_WHOLE = re.compile(
    rb"GET " + _QUESTION + rb" HTTP/1\.1\r\n"
    rb"(?:(?!(?i:" + b"|".join(sorted(NOTED)) + rb"):)[A-Za-z0-9!#$%&'*+.^_`|~-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+\r\n"
).fullmatch
_LONGEST_GLANCE = 2048


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
        connection.idle_since = arrival = perf_counter()
        usual = None if connection.asking or self._keys else _USUAL(connection.url)
        products = self._take_usual(connection, usual, arrival) if usual is not None else 0
        if products == 0:
            products = self._take_unusual(connection, arrival)
        if products == 0:
            return False
        self._enter(connection, products)
        return True

    def glance(self, connection: LaneProtocol, data: bytes) -> bool:
        """Queue a whole request that is the usual question, without parsing it; False leaves it to the parser.

        What it accepts, the parser would accept and read in the same way; it is only quicker.
        """
        if self._keys or not self.enabled or len(data) > _LONGEST_GLANCE:
            return False
        whole = _WHOLE(data)
        if whole is None:
            return False
        connection.idle_since = arrival = perf_counter()
        products = self._take_usual(connection, whole, arrival)
        if products == 0:
            return False
        self._enter(connection, products)
        return True

    def _take_usual(self, connection: LaneProtocol, usual: re.Match[bytes], arrival: float) -> int:
        """Read the usual question; return its products, 0 if there is more to it."""
        user_id, budget, top_k = usual.groups()
        products = self._default_budget if budget is None else int(budget)
        wanted = self._default_top_k if top_k is None else int(top_k)
        if products > self.engine.plain_budget or wanted > self._max_top_k or not self.queue.is_calm():
            return 0
        connection.plain = (user_id.decode("ascii"), products, wanted, arrival)
        return products

    def _enter(self, connection: LaneProtocol, products: int) -> None:
        """Let a question wait for its turn, and make sure that there will be one."""
        connection.products = products
        connection.seconds = seconds = self.engine.law.seconds(products)
        self.queue.enter(products, seconds)
        if connection.ask is not None and connection.ask.priority == BATCH:
            self._batch.append(connection)
        else:
            self._interactive.append(connection)
        if not self._scheduled:
            self._scheduled = True
            connection.loop.call_soon(self.work, connection.loop)

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
            if name in FOREIGN:
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
