"""Connections that wait are taken many at a turn of the event loop, and not all at one."""

import asyncio
import errno
import socket
from itertools import pairwise

import uvloop

from service.process.acceptor import AT_ONCE, Acceptor

N_WAITING = 2 * AT_ONCE + 10


def test_many_are_accepted_at_a_turn():
    async def turns():
        made = []

        class Caller(asyncio.Protocol):
            def connection_made(self, transport):
                made.append(transport)

        with socket.create_server(("127.0.0.1", 0), backlog=N_WAITING) as listener:
            listener.setblocking(False)
            callers = [socket.create_connection(listener.getsockname()) for _ in range(N_WAITING)]
            acceptor = Acceptor(listener, Caller, asyncio.get_running_loop())
            acceptor.start()
            counts = []
            while len(made) < N_WAITING and len(counts) < N_WAITING:
                await asyncio.sleep(0)
                counts.append(len(made))
            acceptor.stop()
            for transport in made:
                transport.abort()
            for caller in callers:
                caller.close()
            await asyncio.sleep(0)
        return counts

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        counts = runner.run(turns())
    # Some turns go by before the first one is there; a caller behind hundreds does not wait for hundreds of turns.
    assert counts[-1] == N_WAITING
    assert len(counts) < 30
    assert max(after - before for before, after in pairwise(counts)) <= AT_ONCE


def test_whoever_was_told_to_stop_does_not_begin_again():
    async def out_of_descriptors():
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
            listener.setblocking(False)
            loop = asyncio.get_running_loop()
            faults = []
            loop.set_exception_handler(lambda _, context: faults.append(context))
            exhausted = Exhausted(listener)
            acceptor = Acceptor(exhausted, asyncio.Protocol, loop)
            acceptor.start()
            await asyncio.sleep(0.01)
            assert exhausted.n_asked == 1
            acceptor.close()
            await asyncio.sleep(0.2)
            return faults

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(out_of_descriptors()) == []


class Exhausted:
    """A listener that finds no descriptor for another connection."""

    def __init__(self, listener):
        self.fileno, self.close = listener.fileno, listener.close
        self.n_asked = 0

    def accept(self):
        self.n_asked += 1
        raise OSError(errno.EMFILE, "Too many open files")
