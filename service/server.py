"""Processes: one supervisor that binds the port and keeps the workers alive, N workers that serve.

    supervisor  bind ─► fork N workers ─► wait for signals
                  SIGCHLD  a worker died: forget its gauges, start another in its slot
                  SIGHUP   ask one worker to try the model anew; the others follow its decision
                  SIGTERM  close the port, pass it on, wait for the workers, exit 0

All workers accept from the one socket that the supervisor bound, so the port answers from the first moment and
a dead worker takes no waiting connections with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import math
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from service import logs
from service.settings import unknown_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.settings import Settings

_HANDLED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
# A worker that dies sooner than this after its start is restarted with a growing delay.
_TOO_SOON = 5.0
_LONGEST_DELAY = 5.0
# Beyond the grace period: what the workers need to notice and to close.
_MARGIN = 3.0
_PR_SET_PDEATHSIG = 1
# How often a leaving worker looks for connections that have become idle.
_SOON = 0.2


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status: 0 if every worker ended within the grace period."""
    logs.configure(settings)
    for name in unknown_variables():
        logs.logger().warning("unknown setting ignored", variable=name)
    listener = bind(settings)
    own = settings.run_dir is None
    run_dir = Path(tempfile.mkdtemp(prefix="budgetrec-")) if settings.run_dir is None else settings.run_dir
    try:
        return Supervisor(settings, listener, run_dir).run()
    finally:
        listener.close()
        if own:
            shutil.rmtree(run_dir, ignore_errors=True)


def bind(settings: Settings) -> socket.socket:
    """Bind and listen, before anything slow happens; an OSError says which address and why."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno, f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another port"
        ) from None
    listener.listen(settings.backlog)
    listener.setblocking(False)
    return listener


class Supervisor:
    """Keeps the workers alive. Single-threaded and without an event loop, so that forking is safe."""

    def __init__(self, settings: Settings, listener: socket.socket, run_dir: Path) -> None:
        # Imported after the port is bound, for it takes most of a second, and before the fork, so that a worker that
        # has to be replaced is there at once and shares the code's memory.
        import service.app  # noqa: PLC0415
        import service.protocol  # noqa: F401, PLC0415
        from service.metrics import Metrics  # noqa: PLC0415
        from service.rundir import RunDir  # noqa: PLC0415

        self._settings = settings
        self._listener = listener
        self._run_dir = RunDir(run_dir)
        self._run_dir.clear()
        self._metrics = Metrics(slots=settings.workers, path=self._run_dir.metrics)
        self._slots: dict[int, int] = {}
        self._started: dict[int, float] = {}
        self._delay = dict.fromkeys(range(settings.workers), 0.0)
        self._due: dict[int, float] = {}
        self._log = logs.logger()

    def run(self) -> int:
        """Start the workers and handle signals until one says stop."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        address = self._listener.getsockname()
        self._log.info(
            "serving",
            address=f"http://{address[0]}:{address[1]}",
            workers=self._settings.workers,
            pid=os.getpid(),
            models=str(self._settings.models),
        )
        # What is loaded by now lives as long as the processes; collectors that leave it alone leave its pages shared.
        gc.collect()
        gc.freeze()
        for slot in range(self._settings.workers):
            self._start(slot)
        while True:
            received = signal.sigtimedwait(_HANDLED, self._patience())
            number = received.si_signo if received else None
            if number in (signal.SIGTERM, signal.SIGINT):
                return self._stop()
            if number == signal.SIGHUP and self._slots:
                os.kill(next(iter(self._slots)), signal.SIGHUP)
            self._reap()
            self._restart_due()

    def _start(self, slot: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _worker_process(self._settings, slot, self._listener, self._run_dir.path)
        self._slots[pid] = slot
        self._started[slot] = time.monotonic()

    def _reap(self) -> None:
        """Collect dead workers; their slots are due again, at once or, if they die young, after a growing delay."""
        while self._slots:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            slot = self._slots.pop(pid, None)
            if slot is None:
                continue
            self._metrics.cells.clear_gauges(slot)
            self._run_dir.forget(slot)
            young = time.monotonic() - self._started[slot] < _TOO_SOON
            self._delay[slot] = min(_LONGEST_DELAY, self._delay[slot] * 2 or 0.1) if young else 0.0
            self._due[slot] = time.monotonic() + self._delay[slot]
            self._log.error("worker died", slot=slot, pid=pid, status=os.waitstatus_to_exitcode(status))

    def _restart_due(self) -> None:
        for slot, due in list(self._due.items()):
            if time.monotonic() >= due:
                del self._due[slot]
                self._start(slot)

    def _patience(self) -> float:
        """Return how long to wait for a signal: until a restart is due."""
        return max(0.01, min([1.0, *(due - time.monotonic() for due in self._due.values())]))

    def _stop(self) -> int:
        """Close the port, let the workers finish, and kill those that do not."""
        self._log.info("stopping", workers=len(self._slots))
        self._listener.close()
        for pid in self._slots:
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + self._settings.drain_seconds + self._settings.grace_seconds + _MARGIN
        clean = True
        while self._slots and time.monotonic() < end:
            signal.sigtimedwait({signal.SIGCHLD}, 0.1)
            for pid in list(self._slots):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    del self._slots[pid]
                    clean = clean and os.waitstatus_to_exitcode(status) == 0
        for pid in self._slots:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            clean = False
        self._log.info("stopped", clean=clean)
        return 0 if clean else 1


def _worker_process(settings: Settings, slot: int, listener: socket.socket, run_dir: Path) -> None:
    """Be a worker; never returns to the supervisor's code."""
    status = 1
    try:
        # Do not outlive a supervisor that was killed.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        logs.configure(settings, worker=slot)
        status = run_worker(settings, slot, listener, run_dir)
    except BaseException:  # noqa: BLE001 - a forked process has nobody above it to report to
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_worker(settings: Settings, slot: int, listener: socket.socket, run_dir: Path) -> int:
    """Serve on the socket until SIGTERM; return 0 after a clean end."""
    import uvicorn  # noqa: PLC0415 - after the port is bound

    from service.app import create_app  # noqa: PLC0415
    from service.protocol import lane_for  # noqa: PLC0415

    shell = create_app(settings, slot=slot, run_dir=run_dir)
    service = shell.service
    config = uvicorn.Config(
        shell,
        http=lane_for(shell),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=settings.backlog,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
    )

    class Worker(uvicorn.Server):
        """uvicorn's server with our signals: uvicorn would re-raise SIGTERM at the end, and end with it."""

        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.drain)
            loop.add_signal_handler(signal.SIGHUP, self.reload)
            # What is loaded by now lives as long as the process; the collector need not look at it again.
            gc.collect()
            gc.freeze()
            yield

        def drain(self) -> None:
            """Report not ready, and stop accepting after the drain time."""
            service.drain()
            asyncio.get_running_loop().call_later(settings.drain_seconds, self.leave)

        def leave(self) -> None:
            """Stop accepting and let what runs finish."""
            self.should_exit = True
            self.close_idle()

        def close_idle(self) -> None:
            """Close connections that ask nothing, also those that were accepted while the port was being closed."""
            for connection in list(self.server_state.connections):
                connection.shutdown()
            asyncio.get_running_loop().call_later(_SOON, self.close_idle)

        def reload(self) -> None:
            """Try the model anew; a refusal is logged and counted by the keeper."""
            task = asyncio.get_running_loop().create_task(self.try_model())
            self.reloading = task

        async def try_model(self) -> None:
            """Reload; the reason of a refusal was said by the keeper."""
            from service.errors import ApiError  # noqa: PLC0415

            with contextlib.suppress(ApiError):
                await service.keeper.reload()

    Worker(config).run(sockets=[listener])
    return 0
