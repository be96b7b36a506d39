"""What the workers agreed on: the one model that all of them are to serve.

The decision lies in a few kilobytes of shared memory. One worker at a time decides, holding a lock that dies with its
process.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from service.models.shared_text import SharedText

AGREEMENT_BYTES = 64 << 10

# Versions verified lately, and places to roll back to; more are forgotten.
_REMEMBERED = 16


@dataclass(frozen=True)
class Decision:
    """The last word on which model to serve. `generation` grows with every decision.

    path      the bundle that every worker is to serve
    history   what was served before it in this run, the latest last: where a rollback returns to
    pointer   what `current` named when this was decided
    verified  fingerprints of bundles whose checksums were read, so that only one of many workers reads them
    """

    generation: int = 0
    path: str | None = None
    history: tuple[str, ...] = ()
    pointer: str | None = None
    outcome: str = "none"
    reason: str | None = None
    verified: tuple[str, ...] = ()

    def with_verified(self, fingerprint: str) -> tuple[str, ...]:
        """Return the fingerprints with one more."""
        others = tuple(known for known in self.verified if known != fingerprint)
        return (*others, fingerprint)[-_REMEMBERED:]

    def with_history(self, served: str | None) -> tuple[str, ...]:
        """Return the history with what was served until now."""
        return self.history if served is None else (*self.history, served)[-_REMEMBERED:]


class Agreement:
    """The shared decision. All methods may be called from any process and thread."""

    def __init__(self, descriptor: int) -> None:
        self._shared = SharedText(descriptor, AGREEMENT_BYTES)
        self.lock = self._shared.lock

    @property
    def generation(self) -> int:
        """The number of the last decision; one look at memory."""
        return self._shared.generation

    def decision(self) -> Decision:
        """Read the last decision."""
        _, text = self._shared.read()
        if not text:
            return Decision()
        stored = json.loads(text)
        for name in ("history", "verified"):
            stored[name] = tuple(stored[name])
        return Decision(**stored)

    def decide(self, decision: Decision) -> None:
        """Publish a decision; call with the lock held."""
        self._shared.write(decision.generation, json.dumps(asdict(decision)).encode())

    def close(self) -> None:
        """Let go of the memory."""
        self._shared.close()
