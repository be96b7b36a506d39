"""The parts of the suite, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from loadtests.chaos import (
    admin,
    bodies,
    bundles,
    clients,
    disk,
    fuzzing,
    kills,
    limits,
    overload,
    short_cut,
    soak,
    swaps,
)
from loadtests.chaos.trial import Trial

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loadtests.chaos.trial import Amounts


class Part(NamedTuple):
    """One kind of fault."""

    title: str
    run: Callable[[Trial], None]


PARTS = {
    "fuzzing": Part("HTTP as nobody should send it", fuzzing.run),
    "short-cut": Part("the short cut answers like the plain application", short_cut.run),
    "bodies": Part("large and senseless JSON bodies", bodies.run),
    "bundles": Part("damaged models offered to a running service", bundles.run),
    "kills": Part("SIGKILL during serve, build, promote and reload", kills.run),
    "disk": Part("full disks, live files cut short and replaced", disk.run),
    "clients": Part("slow, stuck and very many clients", clients.run),
    "overload": Part("three times the capacity, on a timetable", overload.run),
    "limits": Part("keys with a limit, over all workers", limits.run),
    "swaps": Part("models that come, go and come back", swaps.run),
    "admin": Part("who may swap a model", admin.run),
    "soak": Part("steady load with swaps", soak.run),
}


def run_part(
    name: str, amounts: Amounts, directory: Path, *, seed: int = 0, on_step: Callable[[str], None] = lambda _: None
) -> Trial:
    """Run one part and return its record; it never raises for what the service does."""
    trial = Trial(name, amounts, directory / name, seed, on_step)
    with trial.timed():
        PARTS[name].run(trial)
    return trial
