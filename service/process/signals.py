"""Signals as the supervisor takes them: numbers in a pipe, to be waited for.

Blocking a signal in the main thread is not enough: libraries have threads of their own (a BLAS starts them when it is
imported), and the kernel gives a signal to any thread that takes it. A handler writes it to a pipe, whichever it is.
"""

from __future__ import annotations

import os
import select
import signal

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class Signals:
    """From here on signals wait in the pipe instead of ending the process. One per process, in its main thread."""

    def __init__(self) -> None:
        self._received, self._sent = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._sent, warn_on_full_buffer=False)
        for number in HANDLED:
            signal.signal(number, _nothing)

    def wait(self, seconds: float) -> list[int]:
        """Return the signals that came, after `seconds` at the latest."""
        ready, _, _ = select.select([self._received], [], [], seconds)
        return list(os.read(self._received, 256)) if ready else []

    def forget(self) -> None:
        """Let a forked child handle signals in its own way; until it does, they are to be blocked."""
        signal.set_wakeup_fd(-1)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        os.close(self._received)
        os.close(self._sent)


def hold() -> None:
    """Block the signals in this thread and in those that it starts or forks."""
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)


def release() -> None:
    """Take the signals that were held, and all that come."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)


def _nothing(*_: object) -> None:
    """Do nothing: that the signal came is in the pipe already."""
