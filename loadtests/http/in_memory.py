"""What the usual question costs without sockets: one connection of a real worker, with a transport that only listens.

    python -m loadtests.http.in_memory [--rounds 60] [--profile]
    valgrind --tool=callgrind python -m loadtests.http.in_memory --rounds 5    counts instructions, the same each time

The least of many short rounds is printed, in the processor's time, which a busy machine moves little. `make httpbench`
has the whole, with sockets. Its bare ASGI function gets the same bytes on uvicorn's protocol, on the same terms.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import uvicorn
import uvloop

from loadtests.http.bare_app import bare
from service import demo
from service.front.connection import Connection
from service.front.front import Front
from service.http.app import create_app
from service.settings import Settings
from service.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_REQUEST = "GET /recommend?user_id={user}&budget={budget}&top_k={top_k} HTTP/1.1\r\n{headers}\r\n"
HEADS = {
    "direct": "Host: 127.0.0.1:8000\r\n",
    "nginx": (
        "Host: 127.0.0.1\r\nX-Request-ID: 3bc05f71fcfd0d2f7f0cf4b3bcb0e6dc\r\nX-Real-IP: 127.0.0.1\r\n"
        "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n"
    ),
}
_ROUND = 200
# As in `make httpbench`.
BUDGET, TOP_K, N_USERS = 64, 10, 1000
MODEL = Path(__file__).resolve().parents[2] / ".cache" / "httpbench" / "demo"


class Listening(asyncio.Transport):
    """A transport that keeps the last answer."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        """Keep it."""
        self.written = data

    def is_closing(self) -> bool:
        """Never."""
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As a connection from this machine."""
        return ("127.0.0.1", 1234) if name in ("peername", "sockname") else default


def requests(headers: str) -> list[bytes]:
    """Return a request for each user, in an order that jumps around as that of `make httpbench` does."""
    users = [(n * 421 + 17) % N_USERS + 1 for n in range(N_USERS)]
    return [_REQUEST.format(user=user, budget=BUDGET, top_k=TOP_K, headers=headers).encode() for user in users]


async def connect(models: Path) -> tuple[Worker, Connection, Listening]:
    """Return a worker that serves these models in this loop, a connection to it, and what it is answered over."""
    worker = Worker(Settings(models=models, log_sample=0))
    await worker.start()
    while worker.not_ready_because() is not None:  # noqa: ASYNC110 - as the real one is waited for
        await asyncio.sleep(0.01)
    front = Front(worker, create_app(worker), lambda _: asyncio.Protocol(), asyncio.get_running_loop())
    transport, connection = Listening(), Connection(front)
    connection.connection_made(transport)
    return worker, connection, transport


def rounds(number: int, raws: list[bytes], send: Callable[[bytes], None]) -> Iterator[float]:
    """Yield the seconds of a request in each round."""
    for n in range(number):
        some = [raws[(n * _ROUND + k) % len(raws)] for k in range(_ROUND)]
        began = process_time()
        for raw in some:
            send(raw)
        yield (process_time() - began) / _ROUND


def calls_of(send: Callable[[bytes], None], raw: bytes) -> Counter[str]:
    """Return how often each of our Python functions is called for one request, by file and name."""
    seen: Counter[str] = Counter()

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and ("/service/" in frame.f_code.co_filename or "greedy_core" in frame.f_code.co_filename):
            seen[f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    send(raw)
    sys.setprofile(None)
    return seen


async def measure(n_rounds: int, *, profile: bool) -> None:
    """Print what each takes."""
    if not MODEL.exists():
        demo.make(MODEL)
    worker, connection, transport = await connect(MODEL)
    body = b""
    for name, headers in HEADS.items():
        raws = requests(headers)
        for raw in raws:
            connection.data_received(raw)
            if b'"items":[{' not in transport.written:
                raise RuntimeError(f"not answered at once: {transport.written!r}")
        body = transport.written.partition(b"\r\n\r\n")[2]
        seconds = list(rounds(n_rounds, raws, connection.data_received))
        calls = calls_of(connection.data_received, raws[0])
        files = len({call.partition(":")[0] for call in calls})
        print(f"{name:<8} {min(seconds) * 1e6:6.2f} us   {calls.total()} Python calls of ours in {files} files")
    model = worker.answering.model
    if model is None:
        raise RuntimeError("the model is gone")
    known = [user for number in range(1, _ROUND + 1) if (user := model.user(str(number))) is not None]
    least = 1.0
    for _ in range(n_rounds):
        began = process_time()
        for user in known:
            model.index.search(user.vector, TOP_K, BUDGET, user.seen, None, user.hint)
        least = min(least, (process_time() - began) / len(known))
    print(f"{'search':<8} {least * 1e6:6.2f} us")
    if profile:
        profiler = cProfile.Profile()
        profiler.enable()
        for raw in raws * 5:
            connection.data_received(raw)
        profiler.disable()
        for call, count in calls.items():
            print(f"    {count} {call}")
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
    await worker.stop()
    await measure_bare(n_rounds, body)


async def measure_bare(n_rounds: int, body: bytes) -> None:
    """Print what uvicorn takes with a function that only answers."""
    config = uvicorn.Config(bare(body), http="httptools", lifespan="off", log_config=None, access_log=False)
    config.load()
    server = uvicorn.Server(config)
    protocol: Any = config.http_protocol_class(  # type: ignore[call-arg]
        config=config, server_state=server.server_state, app_state={}
    )
    transport = Listening()
    protocol.connection_made(transport)
    least = 1.0
    raws = requests(HEADS["direct"])
    for n in range(n_rounds):
        began = process_time()
        for k in range(_ROUND):
            protocol.data_received(raws[(n * _ROUND + k) % len(raws)])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        least = min(least, (process_time() - began) / _ROUND)
    print(f"{'bare':<8} {least * 1e6:6.2f} us")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description="What the usual question costs without sockets.")
    parser.add_argument("--rounds", type=int, default=60, help="of 200 requests each (default 60)")
    parser.add_argument("--profile", action="store_true", help="also print which functions take the time")
    options = parser.parse_args()
    began = perf_counter()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(options.rounds, profile=options.profile))
    print(f"in {perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
