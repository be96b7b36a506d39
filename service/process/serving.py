"""What a worker process runs: the event loop, the front, uvicorn behind it, and its signals."""

from __future__ import annotations

import asyncio
import functools
import gc
import signal
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from service.front.connection import Connection
from service.front.front import Front
from service.http.app import create_app
from service.http.outer import CONNECTION
from service.process.acceptor import Acceptor
from service.process.signals import release
from service.worker import Worker

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from service.settings import Settings
    from service.shared_memory import SharedMemory


# How often a worker looks whether it should accept connections.
_LOOK_SECONDS = 0.01


class Listener:
    """A socket to accept from. `is_trusted`: only the operator can connect to it."""

    def __init__(self, bound: socket.socket, *, is_trusted: bool = False) -> None:
        self.socket = bound
        self.is_trusted = is_trusted


def run_worker(settings: Settings, slot: int, listeners: Sequence[Listener], shared: SharedMemory) -> int:
    """Serve on the sockets until SIGTERM; return 0 after a clean end."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(Worker(settings, slot=slot, shared=shared), listeners))
    return 0


async def _serve(worker: Worker, listeners: Sequence[Listener]) -> None:
    settings = worker.settings
    loop = asyncio.get_running_loop()
    outer = create_app(worker)
    # uvicorn has no socket of its own: connections come through the front, which hands requests over.
    server = uvicorn.Server(
        uvicorn.Config(
            outer,
            http="httptools",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=1,  # the front has waited for the requests by then
        )
    )
    serving = loop.create_task(server.serve(sockets=[]))
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.001)
    if serving.done():
        await serving
        return
    stopping = asyncio.Event()
    # After uvicorn's own handlers, which would end the process by the signal that they caught.
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    reload_wanted = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, reload_wanted.set)
    reloading = loop.create_task(_reload_when(reload_wanted, worker))
    release()
    # What is loaded by now lives as long as the process; the collector need not look at it again.
    gc.collect()
    gc.freeze()
    front = Front(worker, outer, functools.partial(_hand_over, server), loop)
    acceptors = [
        Acceptor(listener.socket, functools.partial(Connection, front, is_trusted=listener.is_trusted), loop)
        for listener in listeners
    ]
    accepting = loop.create_task(_accept_while_useful(worker, acceptors))
    await stopping.wait()
    reloading.cancel()
    worker.drain()
    await asyncio.sleep(settings.drain_seconds)
    accepting.cancel()
    for acceptor in acceptors:
        acceptor.close()
    await front.leave(settings.grace_seconds)
    server.should_exit = True
    await serving


def _hand_over(server: uvicorn.Server, connection: Connection) -> asyncio.Protocol:
    """Make uvicorn's protocol as its server would, with the connection in the state of every request's scope."""
    config = server.config
    protocol: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
        config=config, server_state=server.server_state, app_state={**server.lifespan.state, CONNECTION: connection}
    )
    return protocol


async def _accept_while_useful(worker: Worker, acceptors: Sequence[Acceptor]) -> None:
    """Accept connections, unless this worker is not ready and another one is, which then gets them all."""
    accepts = False
    while True:
        useful = worker.not_ready_because() is None or not worker.metrics.another_is_ready()
        if useful != accepts:
            accepts = useful
            for acceptor in acceptors:
                acceptor.start() if useful else acceptor.stop()
        await asyncio.sleep(_LOOK_SECONDS)


async def _reload_when(wanted: asyncio.Event, worker: Worker) -> None:
    """Try models and scenarios anew when asked to, once for all who ask meanwhile."""
    while True:
        await wanted.wait()
        wanted.clear()
        await worker.reload()
