"""Models that come, go and come back: every worker follows, the way back is there, and a refusal says why."""

from __future__ import annotations

import os
import shutil
import signal
import time
from typing import TYPE_CHECKING

from greedy_core import VersionsFolder
from loadtests.chaos import models
from loadtests.chaos.oracle import Oracle, target
from loadtests.chaos.serving import Service, budgetrec, kill, spoken, succeed, waited

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loadtests.chaos.trial import Trial

_TARGETS = [target(user) for user in range(20)]
_FOLLOWS = 10.0


def run(trial: Trial) -> None:
    source = models.small(trial, "models", "v1", "v2", "v3")
    oracle = Oracle.of(trial, source, ("v1",), _TARGETS)
    for name, scenario in SCENARIOS.items():
        trial.step(name)
        folder = trial.directory / name.replace(" ", "-")
        shutil.copytree(source, folder, symlinks=True)
        trial.did("scenarios")
        scenario(trial, folder, oracle)


def follow_later(trial: Trial, folder: Path, _: Oracle) -> None:
    """Hide the new version when it is a worker's turn to open it: the worker tries again later."""
    with Service(trial, folder, workers=2) as service:
        sleeper = service.workers()[0]
        os.kill(sleeper, signal.SIGSTOP)
        try:
            succeed("promote", "v2", "--models", folder)
            # The other one decides for both; then the version is out of reach for a while.
            decided = waited(lambda: service_awake(service, "v2"), _FOLLOWS)
            (folder / "v2").rename(folder / ".hidden")
        finally:
            os.kill(sleeper, signal.SIGCONT)
        if not trial.check(decided is not None, "the worker that is awake does not follow the pointer"):
            return
        time.sleep(1.5)
        (folder / ".hidden").rename(folder / "v2")
        took = waited(lambda: service.versions(16) == {"v2"}, _FOLLOWS)
        trial.check(took is not None, "a worker that failed to follow once stays stale", service.versions(16))
        trial.figure(f"a worker that failed to follow once, and then could: served the new version {spoken(took)}")


def service_awake(service: Service, version: str) -> bool:
    """Whether the worker that runs serves `version`; connections to the one that does not are given up soon."""
    for _ in range(4):
        answer = service.try_ask("/recommend?user_id=1&budget=16", timeout=0.3)
        if answer is not None and answer.status == 200:
            return bool(answer.json()["model"] == version)
    return False


def swap_while_draining(trial: Trial, folder: Path, _: Oracle) -> None:
    """Swap during draining: that does not make the service ready again."""
    with Service(trial, folder, drain_seconds=5, poll_seconds=0.05) as service:
        os.kill(service.running.pid, signal.SIGTERM)
        drained = waited(lambda: (a := service.try_ask("/health/ready")) is not None and a.status == 503, 2)
        if not trial.check(drained is not None, "a draining service does not say that it is not ready"):
            return
        # Not by the command, which may take longer to start than the draining lasts.
        VersionsFolder(folder).promote("v2")
        seen, gauges = set(), set()
        end = time.monotonic() + 1.2
        while time.monotonic() < end:
            answer = service.try_ask("/health/ready")
            if answer is not None:
                seen.add(answer.status)
                gauges.add(service.metric("budgetrec_ready"))
            time.sleep(0.05)
        trial.check(seen == {503}, "a swap makes a draining service ready", seen)
        trial.check(gauges <= {0.0, None}, "a swap sets the gauge of a draining service to ready", gauges)
        service.deaths_expected = True


def rollback_to_deleted(trial: Trial, folder: Path, _: Oracle) -> None:
    """Roll back to a version that was deleted: refused, and the running one serves on."""
    with Service(trial, folder) as service:
        reload(service, "v2")
        shutil.rmtree(folder / "v1")
        answer = service.ask("/admin/rollback", method="POST", timeout=15)
        trial.check(
            answer.status == 409,
            "a rollback to a deleted version is not a 409",
            f"{answer.status} {answer.body[:200]!r}",
        )
        trial.check(service.versions() == {"v2"}, "after a refused rollback another version serves", service.versions())
        trial.check(b"Traceback" not in answer.body, "a refusal shows a traceback")


def rollback_twice(trial: Trial, folder: Path, _: Oracle) -> None:
    """Roll back again and again, over HTTP and by the command line: further back each time, until nothing is left."""
    with Service(trial, folder, workers=2) as service:
        reload(service, "v2")
        reload(service, "v3")
        seen = []
        for _ in range(2):
            answer = service.ask("/admin/rollback", method="POST", timeout=15)
            seen.append(answer.json().get("version", answer.status))
        trial.check(seen == ["v2", "v1"], "a second rollback does not go further back", seen)
        trial.check(
            waited(lambda: service.versions() == {"v1"}, _FOLLOWS) is not None,
            "two rollbacks, and not the first version",
            service.versions(),
        )
        status = service.ask("/admin/rollback", method="POST", timeout=15).status
        trial.check(status == 409, "a rollback beyond the first version is not a 409", status)
    for version in ("v1", "v2", "v3"):
        succeed("promote", version, "--models", folder)
    for expected in ("v2", "v1"):
        budgetrec("rollback", "--models", folder)
        named = (folder / "current").readlink().name
        trial.check(
            named == expected, "a second `budgetrec rollback` does not go further back", f"{named}, not {expected}"
        )


def decided_is_gone(trial: Trial, folder: Path, _: Oracle) -> None:
    """Delete the version that was decided and kill the workers: the new ones follow the pointer when it moves."""
    with Service(trial, folder, workers=2) as service:
        service.deaths_expected = True
        shutil.rmtree(folder / "v1")
        before = set(service.workers())
        for pid in before:
            kill(pid)
        waited(lambda: len(set(service.workers()) - before) == 2, 5)
        answers = [answer for _ in range(12) if (answer := service.try_ask("/health/ready")) is not None]
        told = b" ".join(answer.body for answer in answers if answer.status == 503)
        trial.check(str(trial.directory).encode() not in told, "/health/ready tells where files lie", told[:300])
        for _ in range(4):
            answer = service.try_ask(_TARGETS[0])
            trial.check(
                answer is not None and answer.status in (200, 503),
                "a worker without a model answers neither 200 nor 503",
                answer,
            )
        succeed("promote", "v2", "--models", folder)
        took = waited(lambda: service.versions(16) == {"v2"} and service.is_ready(), _FOLLOWS)
        trial.check(
            took is not None, "stuck: a worker whose version is gone does not follow the pointer", service.versions(16)
        )
        trial.figure(f"decided version gone: all serve the promoted one {spoken(took)}")


def starts_on_nothing(trial: Trial, folder: Path, _: Oracle) -> None:
    """Start with a pointer that names nothing: ready as soon as it names something."""
    shutil.rmtree(folder / "v1")
    with Service(trial, folder, workers=2, ready=False) as service:
        answer = service.ask("/health/ready")
        trial.check(answer.status == 503, "ready without a model", answer.status)
        trial.check(
            str(trial.directory).encode() not in answer.body, "/health/ready tells where files lie", answer.body
        )
        succeed("promote", "v2", "--models", folder)
        took = waited(lambda: service.versions() == {"v2"} and service.is_ready(), _FOLLOWS)
        trial.check(
            took is not None,
            "stuck: a service that began without a model does not follow the pointer",
            service.versions(),
        )


def altered_between_workers(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Alter a file after the workers checked it: the next ones that start do not serve it."""
    with Service(trial, folder, workers=2) as service:
        service.deaths_expected = True
        victim = folder / "v1" / "index.rows.npy"
        data = bytearray(victim.read_bytes())
        for place in range(128, len(data), 64):
            data[place + 2] ^= 0x40
        victim.with_suffix(".new").write_bytes(data)
        victim.with_suffix(".new").replace(victim)
        for pid in service.workers():
            kill(pid)
        waited(lambda: len(service.workers()) == 2 and service.try_ask("/health/live") is not None, 5)
        time.sleep(1.0)
        wrong = []
        for asked in _TARGETS:
            answer = service.try_ask(asked)
            if answer is not None and answer.status == 200:
                wrong.append(oracle.complaint(asked, answer))
        wrong = [each for each in wrong if each]
        trial.check(
            not wrong,
            "an altered file is served by a worker that starts later",
            f"{len(wrong)} of {len(_TARGETS)}: {wrong[:1]}",
        )


def wrong_names(trial: Trial, folder: Path, _: Oracle) -> None:
    """Names that would break the pointer are refused by the command line, and so is a folder that is not there."""
    items, users = models.vectors(trial.directory, 0, models.N_ITEMS, models.N_USERS, models.N_DIMS)
    before = (folder / "current").readlink()
    for name in ("current", "previous", ".hidden", "a/b", "..", ""):
        done = budgetrec("build", "--items", items, "--users", users, "--models", folder, "--version", name)
        trial.check(done.returncode != 0, "`build` takes a name that is none", repr(name))
    trial.check(
        (folder / "current").is_symlink() and (folder / "current").readlink() == before, "`build` breaks the pointer"
    )
    began = time.monotonic()
    try:
        service = Service(trial, folder / "typo", ready=False)
    except Exception as error:  # noqa: BLE001 - it ended, as it should
        trial.check("typo" in str(error), "`serve --models typo` does not say what is wrong", str(error)[-300:])
        trial.check(time.monotonic() - began < 10, "`serve --models typo` takes its time to say so")
    else:
        with service:
            trial.check(False, "`serve --models typo` runs on")


def reload(service: Service, version: str) -> None:
    """Swap by name; it must work."""
    answer = service.ask("/admin/reload", method="POST", body={"version": version}, timeout=15)
    service.trial.check(answer.status == 200, "a sound version is refused", answer.body[:200])
    service.trial.did("swaps")


SCENARIOS: dict[str, Callable[[Trial, Path, Oracle], None]] = {
    "follow later": follow_later,
    "swap while draining": swap_while_draining,
    "rollback to a deleted version": rollback_to_deleted,
    "rollback twice": rollback_twice,
    "the decided version is gone": decided_is_gone,
    "a start on nothing": starts_on_nothing,
    "altered between workers": altered_between_workers,
    "wrong names": wrong_names,
}
