"""A keep-alive HTTP/1.1 client on asyncio that costs a few microseconds per request.

General clients spend several hundred, more than the service: they would measure themselves. It knows what
the service and nginx send (Content-Length, no chunks) and reports everything else as a failure.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple


class Answer(NamedTuple):
    """Status and body; status 0 is a connection that broke, with the reason as the body."""

    status: int
    body: bytes


class _Exchange(asyncio.Protocol):
    """One connection; at most one request is under way on it."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.used = False
        self._buffer = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._deliver(Answer(0, repr(exc or "connection closed by the server").encode()))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        mark = head.find(b"\r\ncontent-length:")
        if mark < 0:
            self.close()
            self._deliver(Answer(0, b"no Content-Length in the answer"))
            return
        stop = head.find(b"\r\n", mark + 2)
        length = int(head[mark + 17 : stop if stop >= 0 else len(head)])
        if len(self._buffer) < end + 4 + length:
            return
        status = int(head[9:12])
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        self._buffer.clear()
        if b"\r\nconnection: close" in head:
            self.close()
        self._deliver(Answer(status, body))

    @property
    def usable(self) -> bool:
        return not self._closing

    def close(self) -> None:
        self._closing = True
        if self.transport is not None:
            self.transport.close()

    def send(self, request: bytes) -> asyncio.Future[Answer]:
        self._waiting = asyncio.get_running_loop().create_future()
        self.used = True
        assert self.transport is not None  # connection_made ran before anyone could call
        self.transport.write(request)
        return self._waiting

    def _deliver(self, answer: Answer) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)


class Client:
    """A pool of connections to one address. Not thread-safe; use within one event loop."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._idle: list[_Exchange] = []

    async def get(self, target: str, *, headers: str = "", patience: float = 10.0) -> Answer:
        """GET `target`; `headers` are whole lines, each ending in CRLF. Never raises for the network."""
        return await self._ask(f"GET {target} HTTP/1.1\r\nHost: {self.host}\r\n{headers}\r\n".encode(), patience)

    async def post(self, target: str, body: bytes, *, headers: str = "", patience: float = 10.0) -> Answer:
        """POST JSON to `target`."""
        head = f"POST {target} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\n"
        return await self._ask(f"{head}Content-Length: {len(body)}\r\n{headers}\r\n".encode() + body, patience)

    async def _ask(self, request: bytes, patience: float) -> Answer:
        try:
            async with asyncio.timeout(patience):
                exchange = await self._connected()
                answer = await exchange.send(request)
        except TimeoutError:
            # The connection is dropped with its answer still to come.
            return Answer(0, b"no answer in time")
        except OSError as error:
            return Answer(0, repr(error).encode())
        if exchange.usable:
            self._idle.append(exchange)
        return answer

    async def _connected(self) -> _Exchange:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(_Exchange, self.host, self.port)
        return exchange

    def close(self) -> None:
        """Close the connections that are idle."""
        while self._idle:
            self._idle.pop().close()
