"""A stand-in for a replica, which serves, sheds, hangs or resets as the test decides."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field

_ANSWERS = {
    "serve": "200 OK\r\nX-Request-ID: from-replica",
    "not_ready": "503 Service Unavailable\r\nX-Error-Code: not_ready\r\nRetry-After: 1",
    "shed": "503 Service Unavailable\r\nX-Error-Code: overload\r\nRetry-After: 7",
    "refuse": "422 Unprocessable Content",
}


@dataclass
class Request:
    method: str
    target: str
    headers: dict[str, str]


@dataclass
class StubReplica:
    """Listens in a thread of its own. `behaviour`: a key of the answers above, "reset", "hang", or
    "pause", which is a hang until `resume` is called and a "serve" from then on."""

    behaviour: str = "serve"
    requests: list[Request] = field(default_factory=list)

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._writers = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def resume(self):
        self._loop.call_soon_threadsafe(self._resumed.set)

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started):
        self._stop = asyncio.Event()
        self._resumed = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self):
        return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]

    async def _connection(self, reader, writer):
        self._writers.add(writer)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while not reader.at_eof():
                await self._exchange(reader, writer)
        self._writers.discard(writer)
        writer.transport.abort()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
        await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(method, target, headers))
        if self.behaviour == "reset":
            writer.transport.abort()
        elif self.behaviour == "hang":
            await self._stop.wait()
        else:
            if self.behaviour == "pause":
                await self._resumed.wait()
            body = f'{{"from":{self.port}}}'
            head = _ANSWERS.get(self.behaviour, _ANSWERS["serve"])
            writer.write(f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            await writer.drain()
