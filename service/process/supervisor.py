"""Processes: one supervisor that binds the port and keeps the workers alive, N workers that serve.

    supervisor  bind ─► fork N workers ─► wait for signals
                  SIGCHLD  a worker died: forget its gauges, start another in its slot
                  SIGHUP   ask one worker to try models and scenarios anew; the others follow its decision
                  SIGTERM  close the port, pass it on, wait for the workers, exit 0

All workers accept from the one socket that the supervisor bound, so the port answers from the first moment and
a dead worker takes no waiting connections with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import gc
import os
import signal
import socket
import sys
import time
import traceback
from typing import TYPE_CHECKING

from service import logs
from service.process.signals import Signals, hold, release
from service.settings import unknown_variables

if TYPE_CHECKING:
    from pathlib import Path

    from service.process.serving import Listener
    from service.settings import Settings
    from service.shared_memory import SharedMemory

# A worker that dies sooner than this after its start is restarted with a growing delay.
_TOO_SOON = 5.0
_LONGEST_DELAY = 5.0
# Beyond the grace period: what the workers need to notice and to close.
_MARGIN = 3.0
_PR_SET_PDEATHSIG = 1


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit status: 0 if every worker ended within the grace period."""
    signals = Signals()
    logs.configure(settings)
    for name in unknown_variables():
        logs.logger().warning("unknown setting ignored", variable=name)
    bound = [bind(settings)]
    made: Path | None = None
    try:
        if settings.admin_socket is not None:
            bound.append(bind_admin(settings.admin_socket))
            made = settings.admin_socket
        return Supervisor(settings, bound, signals).run()
    finally:
        for listener in bound:
            listener.close()
        if made is not None:
            made.unlink(missing_ok=True)


def bind(settings: Settings) -> socket.socket:
    """Bind and listen, before anything slow happens; an OSError says which address and why."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it: answers are written whole, so there is nothing to wait for.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        advice = "choose another port" if error.errno == errno.EADDRINUSE else "check host and port"
        raise OSError(
            error.errno, f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; {advice}"
        ) from None
    listener.listen(settings.backlog)
    listener.setblocking(False)
    return listener


def bind_admin(path: Path) -> socket.socket:
    """Bind the operator's socket; only the user that runs the service can connect to it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if path.is_socket() and listener.connect_ex(str(path)) != 0:
            path.unlink()  # left by a service that was killed: nobody answers
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno, f"cannot make the admin socket {path}: {error.strerror or error}; choose another path"
        ) from None
    listener.listen()
    listener.setblocking(False)
    return listener


class Supervisor:
    """Keeps the workers alive. Single-threaded and without an event loop, so that forking is safe."""

    def __init__(self, settings: Settings, bound: list[socket.socket], signals: Signals) -> None:
        # Imported after the port is bound, for it takes most of a second, and before the fork, so that a worker that
        # has to be replaced is there at once and shares the code's memory.
        import service.process.serving  # noqa: PLC0415
        from service.shared_memory import SharedMemory  # noqa: PLC0415
        from service.telemetry.metrics import forget_worker, open_rows  # noqa: PLC0415

        self._settings = settings
        self._signals = signals
        self._listeners = [
            service.process.serving.Listener(listener, is_trusted=listener.family == socket.AF_UNIX)
            for listener in bound
        ]
        self._shared = SharedMemory.make(settings)
        models, scenarios = tuple(settings.folders), tuple(settings.first_scenarios)
        rows = open_rows(self._shared.metrics, models, scenarios, slots=settings.workers, slot=0)
        self._forget_worker = functools.partial(forget_worker, rows, models=models, scenarios=scenarios)
        self._slots: dict[int, int] = {}
        self._started: dict[int, float] = {}
        self._delay = dict.fromkeys(range(settings.workers), 0.0)
        self._due: dict[int, float] = {}
        self._log = logs.logger()

    def run(self) -> int:
        """Start the workers and handle signals until one says stop."""
        address = self._listeners[0].socket.getsockname()
        self._log.info(
            "serving",
            address=f"http://{address[0]}:{address[1]}",
            workers=self._settings.workers,
            pid=os.getpid(),
            models=_places(self._settings),
        )
        # What is loaded by now lives as long as the processes; collectors that leave it alone leave its pages shared.
        gc.collect()
        gc.freeze()
        for slot in range(self._settings.workers):
            self._start(slot)
        while True:
            received = self._signals.wait(self._patience())
            if signal.SIGTERM in received or signal.SIGINT in received:
                return self._stop()
            if signal.SIGHUP in received and self._slots:
                os.kill(next(iter(self._slots)), signal.SIGHUP)
            self._reap()
            self._restart_due()

    def _start(self, slot: int) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        # A worker takes no signal before it can handle it.
        hold()
        pid = os.fork()
        if pid == 0:
            self._signals.forget()
            _worker_process(self._settings, slot, self._listeners, self._shared)
        release()
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
            self._forget_worker(slot)
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
        for listener in self._listeners:
            listener.socket.close()
        for pid in self._slots:
            os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + self._settings.drain_seconds + self._settings.grace_seconds + _MARGIN
        clean = True
        while self._slots and time.monotonic() < end:
            self._signals.wait(0.1)
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


def _places(settings: Settings) -> str:
    """Return where the models lie, as on the command line."""
    return (
        ", ".join(f"{name}={path}" for name, path in settings.models.items())
        if isinstance(settings.models, dict)
        else str(settings.models)
    )


def _worker_process(settings: Settings, slot: int, listeners: list[Listener], shared: SharedMemory) -> None:
    """Be a worker; never returns to the supervisor's code."""
    status = 1
    try:
        from service.process.serving import run_worker  # noqa: PLC0415 - loaded before the fork, see Supervisor

        # Do not outlive a supervisor that was killed.
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        logs.configure(settings, worker=slot)
        status = run_worker(settings, slot, listeners, shared)
    except BaseException:  # noqa: BLE001 - a forked process has nobody above it to report to
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
