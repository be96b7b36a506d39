"""Accepting connections, many at a turn of the event loop.

The loop's own server accepts one connection at a turn, so that a health check behind four hundred callers waits for
four hundred turns. Here a turn takes all that wait, up to a bound.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from service.logs import logger

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable

AT_ONCE = 128
# Out of descriptors: wait for some to be closed.
_EXHAUSTED = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE = 0.1


class Acceptor:
    """Accepts from one listening socket; `make_protocol` makes what each connection talks to."""

    def __init__(
        self, listener: socket.socket, make_protocol: Callable[[], asyncio.Protocol], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._loop = loop
        self._joining: set[asyncio.Task[object]] = set()
        self._open = False
        self._pausing: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept."""
        self._open = True
        self._pausing = None
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def stop(self) -> None:
        """Accept no more."""
        if self._pausing is not None:
            self._pausing.cancel()
            self._pausing = None
        if self._open:
            self._open = False
            self._loop.remove_reader(self._listener.fileno())

    def close(self) -> None:
        """Accept no more, and let the port be closed as far as this process is concerned."""
        self.stop()
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                logger().error("no more connections can be accepted", reason=error.strerror)
                self.stop()
                self._pausing = self._loop.call_later(_PAUSE, self.start)
                return
            connection.setblocking(False)
            joining = self._loop.create_task(self._join(connection))
            self._joining.add(joining)
            joining.add_done_callback(self._joining.discard)

    async def _join(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
        except OSError:
            connection.close()
