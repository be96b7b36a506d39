"""One process of a fleet: started with its output in a file, waited for, stopped by its own id."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_PAUSE = 0.02


class NotReadyError(RuntimeError):
    """A process ended, or did not answer within its time."""


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str, *, status: int = 200, timeout: float = 2.0) -> bool:
    """Whether a GET of `url` gives `status` right now."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response:
            return bool(response.status == status)
    except urllib.error.HTTPError as error:
        return error.code == status
    except OSError:
        return False


def poll(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Return as soon as `condition` holds; raise NotReadyError naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotReadyError(f"Waited {seconds:g} s for {what} in vain.")
        time.sleep(_PAUSE)


class Running:
    """A child process in a process group of its own, so that its workers end with it."""

    def __init__(self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Id of the process, which is also the id of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def wait_until(self, condition: Callable[[], bool], *, seconds: float = 30.0) -> Self:
        """Wait for `condition`; an early end of the process is reported with the end of its output."""

        def holds() -> bool:
            if not self.alive:
                raise NotReadyError(f"{self.command[0]} ended with {self._process.returncode}:\n{self.tail()}")
            return condition()

        try:
            poll(holds, seconds=seconds, what=" ".join(self.command[:3]))
        except NotReadyError:
            self.kill()
            raise
        return self

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of the output so far."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the process and its workers."""
        os.killpg(self.pid, number)

    def stop(self, *, seconds: float = 15.0) -> int:
        """Ask the process to end with SIGTERM and return its exit code; insist after `seconds`."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        self._kill_group()
        return int(self._process.wait())

    def kill(self) -> None:
        """End the process and its workers with SIGKILL, as a crash would."""
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
