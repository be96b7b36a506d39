"""SIGKILL at the worst moment: what is left is whole, what is lost comes back soon, and nobody is told a lie."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Self

from loadtests.chaos import models
from loadtests.chaos.oracle import Oracle, target
from loadtests.chaos.serving import Service, budgetrec, is_alive, kill, spoken, succeed, waited
from loadtests.http.fleet import need_command

if TYPE_CHECKING:
    from pathlib import Path

    from loadtests.chaos.trial import Trial

_TARGETS = [target(user) for user in range(20)]
_WORKER_BACK, _GONE = 5.0, 5.0


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1", "v2")
    oracle = Oracle.of(trial, folder, ("v1", "v2"), _TARGETS)
    trial.step("a worker, while it serves")
    worker_while_serving(trial, folder, oracle)
    trial.step("a worker, while models are swapped")
    worker_while_swapping(trial, folder, oracle)
    trial.step("the supervisor")
    supervisor(trial, folder)
    trial.step("SIGTERM at the very beginning")
    stopped_at_once(trial, folder)
    trial.step("a build")
    build(trial)
    trial.step("a promotion")
    promotion(trial, folder)


class Callers:
    """Some threads that ask without end and note every wrong answer; a broken connection is no wrong answer."""

    def __init__(self, service: Service, oracle: Oracle, count: int = 3) -> None:
        self._service, self._oracle = service, oracle
        self._stop = threading.Event()
        self.answered, self.broken, self.refused = 0, 0, 0
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(count)]

    def _ask(self, number: int) -> None:
        while not self._stop.is_set():
            number += 1
            asked = _TARGETS[number % len(_TARGETS)]
            answer = self._service.try_ask(asked)
            if answer is None:
                self.broken += 1
            elif answer.status == 503:
                self.refused += 1
            elif answer.status != 200:
                self.wrong.append(f"{asked}: {answer.status} {answer.body[:100]!r}")
            else:
                self.answered += 1
                complaint = self._oracle.complaint(asked, answer)
                if complaint:
                    self.wrong.append(complaint)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def judge(self, trial: Trial, during: str) -> None:
        """Record what was wrong."""
        trial.did("answers", self.answered)
        trial.check(self.answered > 0, f"nobody is answered {during}")
        trial.check(not self.wrong, f"a wrong answer {during}", self.wrong[:1])


def worker_while_serving(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Kill one of two workers under load: another one is there soon, and only its own callers notice."""
    with Service(trial, folder, workers=2) as service:
        service.deaths_expected = True
        took = []
        with Callers(service, oracle) as callers:
            for _ in range(trial.amounts.kills):
                victim = trial.rng.choice(service.workers())
                kill(victim)
                trial.did("workers killed")
                seconds = waited(
                    lambda victim=victim: (
                        victim not in service.workers() and len(service.workers()) == 2 and service.is_ready()
                    ),
                    _WORKER_BACK + 5,
                )
                took.append(seconds or 99.0)
                trial.check(took[-1] <= _WORKER_BACK, "a killed worker is not replaced in time", f"{seconds} s")
        callers.judge(trial, "when a worker is killed")
        trial.figure(
            f"a killed worker was replaced and ready after {max(took):.2f} s at most; {callers.broken} calls broke"
        )


def worker_while_swapping(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Kill a worker some milliseconds after a swap was asked for: afterwards all serve the same version."""
    with Service(trial, folder, workers=2) as service:
        service.deaths_expected = True
        versions = ["v2", "v1"] * (trial.amounts.kills + 1)
        with Callers(service, oracle) as callers:
            for version in versions[: 2 * trial.amounts.kills]:
                swap = threading.Thread(
                    target=service.try_ask,
                    args=("/admin/reload",),
                    kwargs={"method": "POST", "body": {"version": version}, "timeout": 15},
                )
                swap.start()
                time.sleep(trial.rng.uniform(0, 0.05))
                victim = trial.rng.choice(service.workers())
                kill(victim)
                trial.did("workers killed")
                swap.join()
                agreed = waited(
                    lambda victim=victim: (
                        victim not in service.workers()
                        and len(service.workers()) == 2
                        and service.is_ready()
                        and len(service.versions()) == 1
                    ),
                    10,
                )
                trial.check(agreed is not None, "workers disagree after a kill during a swap", service.versions())
                # Whether the swap came through is open; which version is served must be the one that `current` names.
                named = (folder / "current").readlink().name
                trial.check(
                    waited(lambda named=named: service.versions() == {named}, 5) is not None,
                    "after a kill during a swap another version is served than `current` names",
                    f"{service.versions()} and {named}",
                )
        callers.judge(trial, "when a worker is killed during a swap")
    succeed("promote", "v1", "--models", folder)


def supervisor(trial: Trial, folder: Path) -> None:
    """Kill the supervisor: its workers go, the port is free, and the next start leaves no folders of it behind."""
    for moment in ("serving", "swapping")[: trial.amounts.kills]:
        service = Service(trial, folder, workers=2)
        try:
            workers = service.workers()
            if moment == "swapping":
                version = "v2" if (folder / "current").readlink().name == "v1" else "v1"
                succeed("promote", version, "--models", folder)
            kill(service.running.pid)
            trial.did("supervisors killed")
            gone = waited(lambda workers=workers: not any(map(is_alive, workers)), _GONE + 5)
            trial.check(gone is not None and gone <= _GONE, "workers outlive their supervisor", f"{gone} s, {moment}")
            trial.check(is_free(service.port), "the port is not free after a kill of the supervisor", service.port)
            trial.figure(f"the supervisor killed, {moment}: its workers gone {spoken(gone)}")
        finally:
            service.running.kill()
        before = service.leftovers()
        with Service(trial, folder, workers=1, port=service.port, temporary=service.temporary) as again:
            trial.check(again.versions(4) <= {"v1", "v2"}, "after a kill of the supervisor nothing is served")
        after = [name for name in service.leftovers() if name in before]
        trial.check(not after, "run directories of a killed supervisor stay for ever", after)


def stopped_at_once(trial: Trial, folder: Path) -> None:
    """SIGTERM as soon as the service says that it serves: it ends cleanly, whatever it was about to do."""
    for _ in range(2 * trial.amounts.kills):
        service = Service(trial, folder, workers=2, ready=False)
        try:
            status = service.stop()
            trial.did("early stops")
            trial.check(status == 0, "SIGTERM at the very beginning is no clean end", f"status {status}")
            trial.check(not service.leftovers(), "an early SIGTERM leaves run directories behind", service.leftovers())
        finally:
            service.running.kill()


def is_free(port: int) -> bool:
    """Whether one can listen there."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def build(trial: Trial) -> None:
    """Kill builds at any moment: a version is whole or not there, `current` stays, and no rubbish stays for ever."""
    folder = trial.directory / "built"
    items, users = models.vectors(trial.directory, 5, 2_000, 100, 16)
    command = ["build", "--items", str(items), "--users", str(users), "--models", str(folder), "--promote", "--version"]
    began = time.monotonic()
    succeed(*command, "first")
    whole = time.monotonic() - began
    finished = 0
    for number in range(3 * trial.amounts.kills):
        process = subprocess.Popen(
            [need_command("budgetrec"), *command, f"cut-{number}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(trial.rng.uniform(0.5, 1.05) * whole)
            finished += 1
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        trial.did("builds killed")
        named = (folder / "current").readlink().name
        trial.check((folder / named / "model.json").is_file(), "after a killed build `current` names nothing", named)
        for version in (folder / named, folder / f"cut-{number}"):
            if version.exists():
                done = budgetrec("verify", version)
                trial.check(
                    done.returncode == 0, "a killed build leaves a half-made version", f"{version.name}: {done.stderr}"
                )
    succeed(*command, "last")
    budgetrec("prune", "--models", folder)
    rubbish = [path.name for path in folder.iterdir() if path.name.startswith(".")]
    trial.check(not rubbish, "what killed builds left behind stays for ever", f"{len(rubbish)}: {rubbish[:3]}")
    trial.figure(
        f"a build takes {whole:.1f} s; {3 * trial.amounts.kills - finished} were killed, {finished} were done before"
    )


def promotion(trial: Trial, folder: Path) -> None:
    """Kill `budgetrec promote` at any moment: `current` names a whole version, before and after."""
    began = time.monotonic()
    succeed("promote", "v1", "--models", folder)
    whole = time.monotonic() - began
    for number in range(4 * trial.amounts.kills):
        process = subprocess.Popen(
            [need_command("budgetrec"), "promote", ("v2", "v1")[number % 2], "--models", str(folder)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(trial.rng.uniform(0.7, 1.05) * whole)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        trial.did("promotions killed")
        named = (folder / "current").readlink().name
        trial.check(named in ("v1", "v2"), "a killed promotion breaks `current`", named)
    succeed("promote", "v1", "--models", folder)
    rubbish = [path.name for path in folder.iterdir() if path.name.startswith(".current")]
    trial.check(not rubbish, "what killed promotions left behind stays for ever", rubbish)
