"""A full disk under the run directory, and live model files cut short or replaced: the service stays or comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from loadtests.chaos import models
from loadtests.chaos.oracle import Oracle, target
from loadtests.chaos.serving import Service, spoken, succeed, waited

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loadtests.chaos.trial import Trial

_TARGETS = [target(user) for user in range(20)]
_SIZE = "2m"
_LIVE_AGAIN, _FOLLOWS = 2.0, 8.0


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1", "v2")
    oracle = Oracle.of(trial, folder, ("v1", "v2"), _TARGETS)
    full_disk(trial, folder, oracle)
    no_room_at_start(trial, folder)
    trial.step("a live file replaced")
    replaced(trial, folder, oracle)
    trial.step("a live file cut short")
    cut_short(trial, folder, oracle)


@contextmanager
def tiny_disk(trial: Trial, name: str) -> Iterator[Path | None]:
    """Mount a small file system; None, and a loud fault, where that is not allowed."""
    place = trial.directory / name
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "chaos", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if not trial.check(done.returncode == 0, "NOT TESTED: a tiny disk cannot be mounted; run as root", done.stderr):
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path, *, leave: int = 0) -> Path:
    """Write until nothing more fits, but for `leave` bytes."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
        file.truncate(max(0, os.fstat(file.fileno()).st_size - leave))
    return filler


def full_disk(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Fill the disk of the run directory while serving, swap while it is full, and make room again."""
    with tiny_disk(trial, "run-disk") as place:
        if place is None:
            return
        with Service(trial, folder, workers=2, run_dir=place / "run") as service:
            trial.step("a full disk while serving")
            filler = fill(place)
            trial.did("disks filled")
            ask_all(trial, service, oracle, "on a full disk")
            trial.check(service.try_ask("/metrics") is not None, "/metrics fails on a full disk")
            trial.step("a swap on a full disk")
            succeed("promote", "v2", "--models", folder)
            answer = service.try_ask("/admin/reload", method="POST", timeout=15)
            trial.check(
                answer is not None and answer.status != 500,
                "a swap on a full disk is answered with 500",
                answer.body[:200] if answer else "no answer",
            )
            ask_all(trial, service, oracle, "after a swap on a full disk")
            filler.unlink()
            took = waited(lambda: service.versions() == {"v2"} and service.is_ready(), _FOLLOWS)
            trial.check(took is not None, "after a full disk the swap does not come through", service.versions())
            trial.figure(f"room again: all workers on the new version {spoken(took)}")
    succeed("promote", "v1", "--models", folder)


def no_room_at_start(trial: Trial, folder: Path) -> None:
    """Start on a disk that is nearly full: a clear end or proper service, never a worker that dies of SIGBUS."""
    for leave in (0, 4096, 65536):
        trial.step(f"a start with {leave} bytes of room")
        with tiny_disk(trial, f"full-{leave}") as place:
            if place is None:
                return
            fill(place, leave=leave)
            trial.did("disks filled")
            try:
                service = Service(trial, folder, run_dir=place / "run", ready=False)
            except Exception as error:  # noqa: BLE001 - what it said is judged
                text = str(error)
                trial.check(
                    "Traceback" not in text and "space" in text,
                    "a start without room is not explained in a line",
                    text[-300:],
                )
                continue
            with service:
                service.deaths_expected = True
                time.sleep(2.0)
                log = service.log.read_text()
                trial.check('"status": -7' not in log, "workers die of SIGBUS on a full disk", log[-300:])
                trial.check(
                    service.try_ask("/health/live") is not None, "a start without room does not answer", log[-300:]
                )


def ask_all(trial: Trial, service: Service, oracle: Oracle, when: str) -> None:
    """Every question is answered, and rightly."""
    for asked in _TARGETS:
        answer = service.try_ask(asked)
        trial.did("requests")
        if trial.check(answer is not None and answer.status == 200, f"no answer {when}", answer) and answer is not None:
            complaint = oracle.complaint(asked, answer)
            trial.check(complaint is None, f"a wrong answer {when}", complaint)


def replaced(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Put other files in the place of live ones, as a careless copy does: what serves goes on serving the old ones."""
    place = trial.directory / "replaced"
    shutil.copytree(folder, place, symlinks=True)
    with Service(trial, place, workers=2) as service:
        for file in sorted((place / "v1").glob("*.npy")):
            other = place / "v2" / file.name
            if other.exists():
                shutil.copy(other, file.with_suffix(".new"))
                file.with_suffix(".new").replace(file)
                trial.did("files replaced")
        ask_all(trial, service, oracle, "after live files were replaced")


def cut_short(trial: Trial, folder: Path, oracle: Oracle) -> None:
    """Cut live files: a worker may fall, but the port answers again at once, nothing wrong is said, and v2 helps."""
    for number, name in enumerate(("index.rows.npy", "users.vectors.npy", "index.list_ids.npy")):
        if not (folder / "v1" / name).exists():
            continue
        place = trial.directory / f"cut-{number}"
        shutil.copytree(folder, place, symlinks=True)
        with Service(trial, place, workers=2) as service:
            service.deaths_expected = True
            # At the end of a page: within one, the kernel shows zeros instead of a fault, and nobody can tell.
            os.truncate(place / "v1" / name, 4096)
            trial.did("files cut short")
            wrong = []
            for asked in _TARGETS:
                answer = service.try_ask(asked, timeout=2)
                if answer is not None and answer.status == 200:
                    wrong.append(oracle.complaint(asked, answer))
                trial.did("requests")
            wrong = [each for each in wrong if each]
            trial.check(not wrong, "a file cut short gives wrong answers", f"{name}: {wrong[:1]}")
            live = waited(lambda: all(service.try_ask("/health/live", timeout=1) for _ in range(6)), _LIVE_AGAIN + 5)
            trial.check(
                live is not None and live <= _LIVE_AGAIN,
                "a file cut short: the port does not answer again",
                f"{name}: {live} s",
            )
            succeed("promote", "v2", "--models", place)
            took = waited(lambda: service.versions() == {"v2"} and service.is_ready(), _FOLLOWS)
            trial.check(
                took is not None, "a file cut short: a promoted version is not served", f"{name}: {service.versions()}"
            )
            trial.figure(f"{name} cut short: live again {spoken(live)}, a promoted version served {spoken(took)}")
