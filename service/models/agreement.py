"""What the workers agreed on: the one model that all of them are to serve.

The decision lies in a few kilobytes of shared memory, so that looking at it costs no system call:

    generation (8 bytes) | length (4) | CRC-32 of the text (4) | JSON text

One worker at a time decides, holding a lock that dies with its process. A reader that meets a half-written decision
sees that the checksum does not fit and reads again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

AGREEMENT_BYTES = 64 << 10

_HEAD = struct.Struct("<QII")
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
        # A descriptor of our own: locks belong to what was opened, and a forked copy of a descriptor shares them.
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        self._map = mmap.mmap(self._descriptor, AGREEMENT_BYTES)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the right to decide; yields False at once if another worker holds it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    @property
    def generation(self) -> int:
        """The number of the last decision; one look at memory."""
        return int.from_bytes(self._map[:8], "little")

    def decision(self) -> Decision:
        """Read the last decision."""
        while True:
            _, length, checksum = _HEAD.unpack_from(self._map)
            text = self._map[_HEAD.size : _HEAD.size + length]
            if zlib.crc32(text) == checksum:
                break
        if not text:
            return Decision()
        stored = json.loads(text)
        for name in ("history", "verified"):
            stored[name] = tuple(stored[name])
        return Decision(**stored)

    def decide(self, decision: Decision) -> None:
        """Publish a decision; call with the lock held."""
        text = json.dumps(asdict(decision)).encode()
        if len(text) > AGREEMENT_BYTES - _HEAD.size:
            raise ValueError("the decision is too long to be shared; use shorter paths for the models")
        self._map[_HEAD.size : _HEAD.size + len(text)] = text
        self._map[: _HEAD.size] = _HEAD.pack(decision.generation, len(text), zlib.crc32(text))

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()
        os.close(self._descriptor)
