"""What the right answer to a question is: what the service said in peace, by model version.

The same question to the same model with the same budget has the same bytes on every replica, so one quiet
answer is the measure for all later ones.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from loadtests.chaos.serving import Service
from loadtests.chaos.wire import Wire, request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from loadtests.chaos.trial import Trial
    from loadtests.chaos.wire import Answer

# The made-up models are the same in every part, so each is asked once.
_PEACEFUL: dict[tuple[str, str], bytes] = {}
_TIME = re.compile(rb'"search_us":\s*\d+')


def timeless(body: bytes) -> bytes:
    """Return a body without what the clock decides."""
    return _TIME.sub(b'"search_us":0', body)


def target(user: object, budget: int = 64, top_k: int | None = None) -> str:
    """Return the target of a question."""
    return f"/recommend?user_id={user}&budget={budget}" + (f"&top_k={top_k}" if top_k else "")


class Oracle:
    """Answers by version and target."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bytes] = {}

    def learn(self, port: int, targets: Iterable[str]) -> None:
        """Ask a quiet service, one question after the other."""
        with Wire(port) as wire:
            for each in targets:
                wire.send(request(each))
                answer = wire.final()
                if answer is None or answer.status != 200 or answer.json()["degraded"] is not None:
                    raise RuntimeError(f"a quiet service did not answer {each}: {answer}")
                self._known[answer.json()["model"], each] = timeless(answer.body)

    @classmethod
    def of(cls, trial: Trial, folder: Path, versions: Iterable[str], targets: list[str]) -> Oracle:
        """Ask a service of its own for some versions of a folder, and leave the folder as it was."""
        oracle = cls()
        wanted = [(version, each) for version in versions for each in targets]
        missing = {version for version, each in wanted if (version, each) not in _PEACEFUL}
        for version in sorted(missing):
            with Service(trial, folder / version) as service:
                oracle.learn(service.port, targets)
        _PEACEFUL.update(oracle._known)
        oracle._known = {key: _PEACEFUL[key] for key in wanted}
        return oracle

    def complaint(self, asked: str, answer: Answer) -> str | None:
        """Say what is wrong with a good answer to `asked`, None if nothing is.

        An answer whose budget was shrunk is right if it keeps its own promises; its items are not known here.
        """
        try:
            receipt = json.loads(answer.body)
            version, degraded = receipt["model"], receipt["degraded"]
            if receipt["spent"] > receipt["budget"]:
                return f"spent {receipt['spent']} of {receipt['budget']}"
        except (ValueError, KeyError, TypeError) as error:
            return f"not a receipt ({error!r}): {answer.body[:200]!r}"
        if f"user_id={receipt['user_id']}&" not in f"{asked}&":
            return f"asked {asked}, answered for user {receipt['user_id']}"
        if degraded is not None or receipt["fallback"] == "deadline":
            return None
        known = self._known.get((version, asked))
        if known is None:
            return f"a version that should not answer: {version}"
        return None if known == timeless(answer.body) else f"{asked}: {answer.body[:200]!r} instead of {known[:200]!r}"
