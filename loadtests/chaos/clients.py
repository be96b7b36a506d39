"""Slow, stuck and very many clients: each is dealt with in time, and nobody else waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.probe import Probe
from loadtests.chaos.serving import Service, waited
from loadtests.chaos.wire import request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from loadtests.chaos.trial import Trial

# The service is told to have little patience, so that the suite need not have much.
_HURRY = {"keep_alive_seconds": 2, "receive_seconds": 2, "send_seconds": 2, "grace_seconds": 1}
# By then a client that trickles or never reads must have been let go.
_LET_GO = 14.0
_MEGABYTE = 1 << 20
_MOST_GROWTH = 64 * _MEGABYTE
_MOST_SENT = 40 * _MEGABYTE
_FEW = 50
_HEAVY_BUDGET = 40_000


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    trial.step("messages without end")
    with Service(trial, folder, **_HURRY) as service:
        endless(trial, service)
    trial.step("clients that trickle or never read")
    with Service(trial, folder, **_HURRY) as service, Probe(service.port, fresh=True) as probe:
        asyncio.run(slow(trial, service))
        probe.everything().judge(trial, "beside slow clients")
    trial.step(f"{trial.amounts.crowd} connections that do nothing")
    with Service(trial, folder, keep_alive_seconds=3) as service:
        idle(trial, service)
    trial.step("more connections than a worker may have")
    with Service(trial, folder, max_connections=_FEW) as service:
        too_many(trial, service)
    if trial.amounts.storm:
        trial.step(f"{trial.amounts.storm} connections with a budget of {_HEAVY_BUDGET:,}")
        heavy(trial, models.large(trial))


# ---- messages without end


def _endless_head() -> Iterator[bytes]:
    yield b"GET /recommend?user_id=1 HTTP/1.1\r\nHost: x\r\n"
    while True:
        yield b"X-More: " + b"m" * 4000 + b"\r\n"


def _endless_value() -> Iterator[bytes]:
    yield b"GET /recommend?user_id=1 HTTP/1.1\r\nHost: x\r\nX-More: "
    while True:
        yield b"m" * 4096


def _endless_target() -> Iterator[bytes]:
    yield b"GET /recommend?user_id="
    while True:
        yield b"m" * 4096


def _endless_trailers() -> Iterator[bytes]:
    body = b'{"user_id":"1"}'
    yield b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    while True:
        yield b"X-More: " + b"m" * 4000 + b"\r\n"


def _endless_extension() -> Iterator[bytes]:
    yield b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield b"1;"
    while True:
        yield b"m" * 4096


ENDLESS: dict[str, Callable[[], Iterator[bytes]]] = {
    "headers": _endless_head,
    "a header": _endless_value,
    "a target": _endless_target,
    "trailers": _endless_trailers,
    "a chunk extension": _endless_extension,
}


def endless(trial: Trial, service: Service) -> None:
    """Send what never ends: it is cut off, and little of it is kept."""
    before = service.own_memory()
    for name, pieces in ENDLESS.items():
        sent = 0
        with contextlib.closing(socket.create_connection(("127.0.0.1", service.port), timeout=3)) as connection:
            try:
                for piece in pieces():
                    connection.sendall(piece)
                    sent += len(piece)
                    if sent > _MOST_SENT:
                        break
            except OSError:
                pass
        trial.did("endless messages")
        trial.check(sent <= _MOST_SENT, f"a message without end is taken in: {name}", f"{sent:,} bytes")
        growth = (service.own_memory() - before) // _MEGABYTE
        trial.check(growth <= 64, f"a message without end takes more than 64 MB: {name}", f"{growth} MB")


# ---- slow clients


async def slow(trial: Trial, service: Service) -> None:
    """Hold connections by sending or reading too slowly: the service ends them, and keeps its memory."""
    before = service.own_memory()
    count = max(10, trial.amounts.crowd // 40)
    kinds: dict[str, Callable[[int], object]] = {
        "a slow head": lambda port: _trickle(port, b"GET /recommend?user_id=1&budget=16 HTTP/1.1\r\nHost: x\r\nX-A: "),
        "a slow body": lambda port: _trickle(
            port,
            b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n",
        ),
        "a row of empty lines": lambda port: _trickle(port, b"\r\n", b"\r\n"),
        "no reading": _never_read,
    }
    grown = before
    tasks = {name: [asyncio.create_task(make(service.port)) for _ in range(count)] for name, make in kinds.items()}
    waiting = asyncio.gather(*(task for each in tasks.values() for task in each))
    while not waiting.done():
        await asyncio.sleep(0.2)
        grown = max(grown, service.own_memory())
    for name, each in tasks.items():
        seconds = [task.result() for task in each]
        held = [value for value in seconds if value is None]
        trial.did("slow clients", len(seconds))
        trial.check(not held, f"{name} holds a connection for ever", f"{len(held)} of {count} after {_LET_GO:g} s")
        done = [value for value in seconds if value is not None]
        if done:
            trial.figure(f"{name}: let go after {max(done):.1f} s at most")
    growth = (grown - before) / _MEGABYTE
    trial.figure(f"{len(kinds) * count} slow clients: {growth:.0f} MB more")
    trial.check(growth * _MEGABYTE <= _MOST_GROWTH, "slow clients take more than 64 MB", f"{growth:.0f} MB")


async def _trickle(port: int, start: bytes, unit: bytes = b"x") -> float | None:
    """Send a byte now and then; return after how many seconds the service ended it, None if it never did."""
    began = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(start)
        while time.monotonic() - began < _LET_GO:
            writer.write(unit)
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1 << 16), 0.2)
                # Whether it was a 408 or the end: it did not wait any longer.
                return time.monotonic() - began
    except OSError:
        return time.monotonic() - began
    finally:
        writer.close()
    return None


async def _never_read(port: int) -> float | None:
    """Ask for large answers and read none; return after how many seconds the service ended it."""
    began = time.monotonic()
    loop = asyncio.get_running_loop()
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    raw = request("/recommend?user_id=1&budget=900&top_k=900") * 20
    try:
        await loop.sock_connect(connection, ("127.0.0.1", port))
        while time.monotonic() - began < _LET_GO:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(loop.sock_sendall(connection, raw), 0.2)
            await asyncio.sleep(0.05)
    except OSError:
        return time.monotonic() - began
    finally:
        connection.close()
    return None


# ---- very many


def idle(trial: Trial, service: Service) -> None:
    """Open far too many connections: others are served meanwhile, and later they are closed and forgotten."""
    descriptors = service.descriptors()
    crowd = []
    with Probe(service.port, fresh=True) as probe:
        try:
            while len(crowd) < trial.amounts.crowd:
                crowd.append(socket.create_connection(("127.0.0.1", service.port), timeout=5))
            trial.did("idle connections", len(crowd))
            time.sleep(1.0)
            probe.everything().judge(trial, "beside idle connections")
        except OSError as error:
            trial.check(False, "idle connections keep others out", f"after {len(crowd)}: {error!r}")
        finally:
            end = time.monotonic() + 12
            while service.descriptors() > descriptors + 20 and time.monotonic() < end:
                time.sleep(0.1)
            left = service.descriptors() - descriptors
            for connection in crowd:
                connection.close()
    trial.check(left <= 20, "idle connections are never closed", f"{left} descriptors of {len(crowd)} left")


def too_many(trial: Trial, service: Service) -> None:
    """Open more connections than are allowed: the idle ones go, and whoever comes last is served."""
    descriptors = service.descriptors()
    with contextlib.ExitStack() as crowd:
        for _ in range(4 * _FEW):
            crowd.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=5))
        trial.did("idle connections", 4 * _FEW)
        statuses = [answer.status if (answer := service.try_ask("/health/live")) else 0 for _ in range(10)]
        waited(lambda: service.descriptors() - descriptors <= _FEW, 3)
        held = service.descriptors() - descriptors
    trial.check(set(statuses) == {200}, "too many connections keep others out", statuses)
    trial.check(held <= _FEW + 5, "a worker takes more connections than it may", f"{held} where {_FEW} are allowed")


def heavy(trial: Trial, folder: Path) -> None:
    """Hundreds of connections with large budgets: a probe on a fresh connection is answered at once."""
    with Service(trial, folder, max_budget=60_000) as service, Probe(service.port, fresh=True) as probe:
        began = time.monotonic()
        answered, statuses = asyncio.run(
            _storm(service.port, trial.amounts.storm, max(6.0, trial.amounts.load_seconds))
        )
        seen = probe.since(began)
        trial.did("heavy requests", answered)
        trial.figure(f"{trial.amounts.storm} connections at budget {_HEAVY_BUDGET:,}: {statuses}; {seen}")
        seen.judge(trial, "beside large budgets")
        trial.check(set(statuses) <= {200, 503, 429}, "a large budget is answered strangely", statuses)
        trial.check(statuses.get(200, 0) > 0, "large budgets are never answered", statuses)


async def _storm(port: int, connections: int, seconds: float) -> tuple[int, dict[int, int]]:
    statuses: dict[int, int] = {}
    end = time.monotonic() + seconds

    async def caller(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while time.monotonic() < end:
                writer.write(request(f"/recommend?user_id={number % 100}&budget={_HEAVY_BUDGET}"))
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
                await reader.readexactly(length)
                status = int(head.split(None, 2)[1])
                statuses[status] = statuses.get(status, 0) + 1
                if status != 200:
                    await asyncio.sleep(0.05)
        writer.close()

    async def bounded(number: int) -> None:
        with contextlib.suppress(TimeoutError, OSError):
            await asyncio.wait_for(caller(number), seconds + 5)

    await asyncio.gather(*(bounded(number) for number in range(connections)))
    return sum(statuses.values()), statuses
