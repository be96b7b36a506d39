"""The service as an operator starts it: `budgetrec serve`, watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from loadtests.chaos.wire import Answer, BrokenAnswerError, ask
from loadtests.http.fleet import need_command
from loadtests.http.processes import NotReadyError, Running

if TYPE_CHECKING:
    from collections.abc import Callable

    from loadtests.chaos.trial import Trial

# Generous: on a machine that others use, a command may have to wait for a core for a long time.
READY_SECONDS = 60.0
_PAUSE = 0.02
_USUAL = {"log_format": "json", "log_sample": 0, "monitor_share": 0}


def budgetrec(*arguments: str | Path, timeout: float = 600.0) -> subprocess.CompletedProcess[str]:
    """Run a command of the command line and return what became of it."""
    command = [need_command("budgetrec"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def succeed(*arguments: str | Path) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = budgetrec(*arguments)
    if done.returncode:
        raise RuntimeError(f"budgetrec {' '.join(map(str, arguments))} failed: {done.stderr.strip()}")
    return done.stdout


def waited(condition: Callable[[], object], seconds: float) -> float | None:
    """Return after how many seconds `condition` held, None if it did not in time."""
    began = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - began
        if time.monotonic() - began > seconds:
            return None
        time.sleep(_PAUSE)


def spoken(seconds: float | None) -> str:
    """Say how long something took; None is for what never came."""
    return "never" if seconds is None else f"after {seconds:.2f} s"


class Service:
    """One supervisor with its workers, on a free port, with a temporary folder of its own.

    As a context it checks at the end that nobody died unasked and that nothing is left behind.
    """

    def __init__(
        self,
        trial: Trial,
        models: Path,
        *,
        workers: int = 1,
        port: int = 0,
        ready: bool = True,
        temporary: Path | None = None,
        **settings: object,
    ) -> None:
        self.trial = trial
        self.models = models
        number = len(list(trial.directory.glob("service-*.log")))
        self.log = trial.directory / f"service-{number}.log"
        self.temporary = temporary or trial.directory / f"temporary-{number}"
        self.temporary.mkdir(exist_ok=True)
        self._found = set(self.leftovers())
        self.n_workers = workers
        env = {f"BUDGETREC_{name.upper()}": str(value) for name, value in {**_USUAL, **settings}.items()}
        command = [need_command("budgetrec"), "serve", "--models", str(models)]
        self.running = Running(
            [*command, "--port", str(port), "--workers", str(workers)],
            log=self.log,
            env={**env, "TMPDIR": str(self.temporary)},
        )
        self._first_workers: set[int] = set()
        self.deaths_expected = False
        self.status: int | None = None
        try:
            self.port = self._address()
            if ready:
                self.wait_ready()
        except BaseException:
            self.running.kill()
            raise

    def _address(self) -> int:
        self.running.wait_until(lambda: bool(self.logged("serving")), seconds=READY_SECONDS)
        return int(str(self.logged("serving")[0]["address"]).rpartition(":")[2])

    # ---- what it says

    def lines(self) -> list[dict[str, object]]:
        """Return the log so far."""
        text = self.log.read_text(errors="replace")
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]

    def logged(self, event: str) -> list[dict[str, object]]:
        """Return the lines of one event."""
        return [line for line in self.lines() if line.get("event") == event]

    def ask(self, target: str, **options: object) -> Answer:
        """Ask on a fresh connection, so that any worker may answer."""
        return ask(self.port, target, **options)  # type: ignore[arg-type]

    def try_ask(self, target: str, **options: object) -> Answer | None:
        """Ask, and return None where there is no answer at all."""
        try:
            return self.ask(target, **options)
        except (OSError, BrokenAnswerError):
            return None

    def is_ready(self) -> bool:
        """Whether each of some fresh connections is told so."""
        for _ in range(2 * self.n_workers):
            answer = self.try_ask("/health/ready")
            if answer is None or answer.status != 200:
                return False
        return self.metric("budgetrec_ready") == 1

    def wait_ready(self, seconds: float = READY_SECONDS) -> Self:
        """Wait until every worker is there and ready."""
        if waited(lambda: len(self.workers()) == self.n_workers and self.is_ready(), seconds) is None:
            raise NotReadyError(f"not ready after {seconds:g} s:\n{self.running.tail(10)}")
        if not self._first_workers:
            self._first_workers = set(self.workers())
        return self

    def metric(self, name: str) -> float | None:
        """Return the value of one series."""
        answer = self.try_ask("/metrics")
        for line in answer.body.decode().splitlines() if answer else ():
            series, _, value = line.rpartition(" ")
            if series == name:
                return float(value)
        return None

    def versions(self, asks: int = 12) -> set[str]:
        """Return which model versions answer on fresh connections; "" stands for no good answer."""
        seen = set()
        for _ in range(asks):
            answer = self.try_ask("/recommend?user_id=1&budget=16")
            seen.add(str(answer.json()["model"]) if answer is not None and answer.status == 200 else "")
        return seen

    # ---- its processes

    def workers(self) -> list[int]:
        """Return the ids of the supervisor's children."""
        return children(self.running.pid)

    def own_memory(self) -> int:
        """Return the bytes that are the workers' own: mapped model files do not count."""
        return sum(memory(pid, "RssAnon") for pid in self.workers())

    def descriptors(self) -> int:
        """Return how many files and sockets all workers hold open."""
        return sum(n_descriptors(pid) for pid in self.workers())

    def leftovers(self) -> list[str]:
        """Return what lies in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir())

    def stop(self, seconds: float = 15.0) -> int:
        """Ask it to end and return the exit status."""
        self.status = self.running.stop(seconds=seconds)
        return self.status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._check_end()
        finally:
            self.running.kill()

    def _check_end(self) -> None:
        check = self.trial.check
        if self.running.alive and not self.deaths_expected:
            lost = self._first_workers - set(self.workers())
            check(not lost, "a worker died unasked", f"{len(lost)} of {self.n_workers}: {self.running.tail(3)}")
        if self.running.alive:
            check(self.stop() == 0, "the service did not end cleanly", f"status {self.status}: {self.running.tail(4)}")
            left = set(self.leftovers()) - self._found
            check(not left, "run directories are left behind", left)
        text = self.log.read_text(errors="replace")
        traces = re.findall(r"Traceback|request failed|Fatal Python error|Segmentation", text)
        check(
            not traces, "the log holds a traceback", text[max(0, text.find(traces[0]) - 200) :][:400] if traces else ""
        )


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, none if it is gone."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def memory(pid: int, field: str) -> int:
    """Return one memory field of /proc/PID/status in bytes, 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


def forget_peak(pid: int) -> None:
    """Let VmHWM, the most memory a process ever had, begin anew from what it has now."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def n_descriptors(pid: int) -> int:
    """Return how many descriptors a process holds, 0 if it is gone."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return 0


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int) -> None:
    """SIGKILL, if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
