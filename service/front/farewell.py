"""The end of a connection: what was answered reaches the caller, whatever the caller still sends.

A socket that is closed before everything that arrived was read resets the connection, and the caller loses the answers
that are still on their way (RFC 9112, 9.6). So we only stop sending, and read and drop what comes until the caller
stops too, or for a short time.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.front.front import Front

# So long, and so much, a caller may go on sending behind the end.
LINGER_SECONDS = 1.0
LINGER_BYTES = 4 << 20


class Farewell(asyncio.Protocol):
    """What the event loop talks to in the place of a connection that has answered for the last time."""

    def __init__(self, front: Front, transport: asyncio.Transport, *, lingers: bool) -> None:
        """Take a transport over; `lingers`: the caller may still send something."""
        self._front = front
        self._transport = transport
        self._lingers = lingers
        self._since = perf_counter()
        self._dropped = 0
        front.closing.add(self)
        transport.set_protocol(self)
        if lingers:
            transport.write_eof()
        else:
            transport.close()

    def data_received(self, data: bytes) -> None:
        """Drop what comes, up to a bound."""
        self._dropped += len(data)
        if self._dropped > LINGER_BYTES:
            self._transport.close()

    def eof_received(self) -> bool:
        """Close: nothing more comes from either side."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is over, whatever the reason
        """Forget the caller."""
        self._front.closing.discard(self)

    def overdue(self, now: float) -> str | None:
        """End a connection whose caller does not read, or does not stop sending, and say which; None for others."""
        waited = now - self._since
        if self._transport.get_write_buffer_size():
            if waited > self._front.settings.send_seconds:
                self.abort()
                return "slow_reader"
        elif self._lingers and waited > LINGER_SECONDS:
            self._lingers = False
            self._transport.close()
            return "lingering"
        return None

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()
