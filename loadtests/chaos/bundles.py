"""Damaged models offered to a running service: refused with a reason, or good for the same answers as before."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import time
from collections import Counter
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from loadtests.chaos import models
from loadtests.chaos.bundle_mutations import Mutation, mutations
from loadtests.chaos.oracle import timeless
from loadtests.chaos.serving import Service, budgetrec
from loadtests.chaos.wire import BrokenAnswerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loadtests.chaos.bundle_mutations import Mutation
    from loadtests.chaos.trial import Trial

# What takes longer hangs.
_PATIENCE = 60.0
_ADDRESS_SPACE = 3 << 30
_VERSION = re.compile(rb'"model":"[^"]*"')
# Every so many bundles one goes the operator's way, by the command line, which takes as long as fifty others: in a long
# run a hundred do.
_BY_HAND, _HANDFULS = 20, 100


def run(trial: Trial) -> None:
    folder = models.small(trial, "models", "v1")
    with little_memory():
        offer_all(trial, folder)


@contextmanager
def little_memory() -> Iterator[None]:
    """Bound the address space of what is started inside: a file that never ends must not fill the machine's memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def offer_all(trial: Trial, folder: Path) -> None:
    """Offer one damaged bundle after the other."""
    left, outcomes = trial.amounts.bundles, Counter[str]()
    each = max(_BY_HAND, left // _HANDFULS)
    damages = draw(trial, folder / "v1")
    while left > 0 and not trial.out_of_time():
        with Service(trial, folder, poll_seconds=0.05) as service:
            right = everything(service)
            while left > 0 and not trial.out_of_time():
                left -= 1
                if left % 25 == 0:
                    trial.step(f"{left} damaged bundles to go")
                if not offer(trial, service, folder, right, next(damages), outcomes, by_hand=left % each == 0):
                    # What hangs in a loader does not come back; the rest is offered to a fresh service.
                    service.deaths_expected = True
                    service.running.kill()
                    break
    trial.figure(", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items())))


def draw(trial: Trial, bundle: Path) -> Iterator[Mutation]:
    """Yield mutations without end, in random order: all of one seed, then all of the next."""
    for seed in count(trial.seed):
        drawn = list(mutations(bundle, seed))
        trial.rng.shuffle(drawn)
        yield from drawn


def offer(
    trial: Trial,
    service: Service,
    folder: Path,
    right: list[bytes],
    damage: Mutation,
    outcomes: Counter[str],
    *,
    by_hand: bool,
) -> bool:
    """Offer one damaged bundle; False if the service cannot be used any more."""
    place = folder / "damaged"
    workers = service.workers()
    trial.did("bundles")
    damage.make(folder / "v1", place)
    try:
        status, reason = promote(service, folder) if by_hand else reload(service, "damaged")
        if not trial.check(status is not None, "a damaged bundle hangs the service", f"{damage.name}: {reason}"):
            return False
        trial.check(status != 500, "a damaged bundle is answered with 500", f"{damage.name}: {reason}")
        if status == 200:
            verdict = "same" if everything(service) == right else "different"
            trial.check(verdict in damage.allowed, "a damaged bundle is served with other answers", damage.name)
            outcomes["served with the same answers" if verdict == "same" else "served as another sound model"] += 1
            back, why = reload(service, "v1")
            if not trial.check(back == 200, "there is no way back from a damaged bundle", f"{damage.name}: {why}"):
                return False
        else:
            trial.check(len(reason) > 20, "a refusal does not say why", f"{damage.name}: {reason!r}")
            outcomes["refused"] += 1
            answer = service.try_ask("/recommend/batch", method="POST", body=_questions())
            fine = answer is not None and _plain(answer.body) == right[0]
            trial.check(fine, "after a refusal the old model does not serve on", f"{damage.name}: {answer}")
        return trial.check(service.workers() == workers, "a damaged bundle kills a worker", damage.name)
    finally:
        shutil.rmtree(place)


def reload(service: Service, version: str) -> tuple[int | None, str]:
    """POST /admin/reload and return the status, None if there is no answer, and the reason."""
    try:
        answer = service.ask("/admin/reload", method="POST", body={"version": version}, timeout=_PATIENCE)
    except (OSError, BrokenAnswerError) as error:
        return None, repr(error)
    return answer.status, "" if answer.status == 200 else str(answer.json()["error"]["message"])


def promote(service: Service, folder: Path) -> tuple[int | None, str]:
    """`budgetrec promote`, and then what the service makes of it if the command let it pass."""
    try:
        done = budgetrec("promote", "damaged", "--models", folder, timeout=_PATIENCE)
    except subprocess.TimeoutExpired as error:
        return None, repr(error)
    if done.returncode:
        return 409, done.stderr if "Traceback" not in done.stderr else ""
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        if not service.is_ready():
            return None, "not ready after a promotion"
        time.sleep(0.2)
    status, reason = reload(service, "damaged")
    budgetrec("promote", "v1", "--models", folder)
    return status, reason


def everything(service: Service) -> list[bytes]:
    """Return answers to questions that touch every array of a bundle, but for time and version."""
    targets = ("/similar?item_id=5&budget=64", "/similar?item_id=999&budget=16", "/recommend?user_id=nobody")
    answers = [
        service.ask("/recommend/batch", method="POST", body=_questions(), timeout=_PATIENCE),
        *(service.ask(target, timeout=_PATIENCE) for target in targets),
    ]
    return [_plain(answer.body) for answer in answers]


def _questions() -> dict[str, object]:
    vectors = np.random.default_rng(1).normal(size=(5, models.N_DIMS)).round(3).tolist()
    users = [{"user_id": str(user), "budget": budget} for user in range(models.N_USERS) for budget in (16, 200)]
    return {"requests": [*users, *({"vector": vector, "budget": 100, "top_k": 30} for vector in vectors)]}


def _plain(body: bytes) -> bytes:
    return _VERSION.sub(b"", timeless(body))
