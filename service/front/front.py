"""What all connections of a worker share: the line, the limits, and the set of connections itself."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from http import HTTPStatus
from time import perf_counter
from typing import TYPE_CHECKING

from service.front.descriptors import room_for
from service.front.line import Line
from service.http.outer import VARY_ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.front.connection import Connection
    from service.front.farewell import Farewell
    from service.http.outer import OuterLayer
    from service.worker import Worker

# How often connections are looked at: for those that are idle or slow.
SWEEP_SECONDS = 0.25
# At the limit, this share of the connections makes room: the ones that have been idle longest.
ROOM = 1 / 64


class Front:
    """Used by the event loop's thread only.

    hand_over  makes uvicorn's protocol for a connection
    closing    connections behind their last answer
    """

    def __init__(
        self,
        worker: Worker,
        outer: OuterLayer,
        hand_over: Callable[[Connection], asyncio.Protocol],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        settings = worker.settings
        self.worker = worker
        self.settings = settings
        self.ids = outer.ids
        self.hand_over = hand_over
        self.loop = loop
        self.load = worker.admission.inline
        self.line = Line(self.load, loop)
        # With a single model there is no choice to make.
        self.only_answering = worker.answering if worker.arms.is_one else None
        # The spans of a request are made on the ordinary way.
        self.has_short_cut = settings.lane and settings.traces is None
        self.header_limit = settings.header_limit
        self.has_cors = bool(settings.cors_origins or worker.keyring.origins)
        self.connections: set[Connection] = set()
        self.most_connections = room_for(settings.max_connections)
        if self.most_connections < settings.max_connections:
            worker.log.warning(
                "fewer connections than are allowed, because there are no more descriptors; see `ulimit -n`",
                connections=self.most_connections,
                max_connections=settings.max_connections,
            )
        self.closing: set[Farewell] = set()
        self.leaving = False
        varies = self.has_cors and "*" not in settings.cors_origins
        self._vary = b"%b: %b\r\n" % VARY_ORIGIN if varies else b""
        self._heads: dict[int, bytes] = {}
        self.good_head = b""  # that of a 200
        self._sweep()

    def head(self, status: int) -> bytes:
        """Return the beginning of an answer, up to the value of its request id."""
        head = self._heads.get(status)
        if head is None:
            line = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ndate: {formatdate(usegmt=True)}\r\n".encode()
            head = line + self._vary + b"content-type: application/json\r\nx-request-id: "
            self._heads[status] = head
        return head

    def has_room(self) -> bool:
        """Whether another connection may stay; idle ones are closed for it."""
        most = self.most_connections
        if len(self.connections) < most:
            return True
        idle = sorted(
            (connection for connection in self.connections if connection.is_idle()),
            key=lambda connection: connection.idle_since,
        )
        for connection in idle[: max(1, int(most * ROOM))]:
            self.worker.metrics.count("budgetrec_connections_closed_total", "connections")
            connection.close()
        return bool(idle)

    def forget(self, connection: Connection) -> None:
        """Count a connection no longer: it has ended, or is about to."""
        self.connections.discard(connection)

    def may_linger(self) -> bool:
        """Whether there is room to wait for a caller that may still be sending behind the end."""
        return len(self.closing) < self.most_connections

    async def leave(self, seconds: float) -> None:
        """Close idle connections, the others after their answers, and after `seconds` those that are left."""
        self.leaving = True
        end = perf_counter() + seconds
        while (self.connections or self.closing) and perf_counter() < end:
            for connection in list(self.connections):
                connection.leave()
            await asyncio.sleep(0.02)
        for each in self._all():
            each.abort()

    def _all(self) -> list[Connection | Farewell]:
        return [*self.connections, *self.closing]

    def _sweep(self) -> None:
        """Close connections that are idle or slow; one timer for all instead of one for each answer."""
        now = perf_counter()
        self._heads.clear()  # they have the date
        self.good_head = self.head(200)
        for each in self._all():
            reason = each.overdue(now)
            if reason is not None:
                self.worker.metrics.count("budgetrec_connections_closed_total", reason)
        self.worker.metrics.set("budgetrec_connections", len(self.connections))
        self.loop.call_later(SWEEP_SECONDS, self._sweep)
