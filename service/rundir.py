"""What the workers of one service tell each other: a few small files in a folder they share.

metrics       the shared cells (cells.py)
model.json    which model all workers are to serve, and how the last attempt to change it ended
lock          held by the one worker that tries a new model
verified      models whose checksums were read, so that only one of many workers reads them
worker-<slot> what that worker serves now
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Decision:
    """The last word on which model to serve. `generation` grows with every decision."""

    generation: int = 0
    path: str | None = None  # the bundle that every worker is to serve
    previous: str | None = None  # the one before it, for a rollback
    pointer: str | None = None  # what `current` named when this was decided
    outcome: str = "none"
    reason: str | None = None


class RunDir:
    """The shared folder. All methods are safe to call from any process and thread."""

    def __init__(self, path: Path, *, slot: int = 0) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.slot = slot
        self.metrics = path / "metrics"
        self._decision = path / "model.json"
        self._seen: tuple[int, int] | None = None

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the right to decide; waits for others. Released when the process dies."""
        with (self.path / "lock").open("a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def decision(self) -> Decision:
        """Read the last decision."""
        try:
            return Decision(**json.loads(self._decision.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Decision()

    def decide(self, decision: Decision) -> None:
        """Publish a decision; call with the lock held."""
        self._replace(self._decision, json.dumps(asdict(decision)))

    def decision_changed(self) -> bool:
        """Whether a decision was published since this was last asked; one stat."""
        try:
            stat = self._decision.stat()
        except FileNotFoundError:
            return False
        stamp = (stat.st_mtime_ns, stat.st_ino)
        changed = stamp != self._seen
        self._seen = stamp
        return changed

    def is_verified(self, identity: str) -> bool:
        """Whether some worker has read all checksums of this very bundle."""
        try:
            return identity in (self.path / "verified").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return False

    def set_verified(self, identity: str) -> None:
        """Remember it; call with the lock held."""
        with (self.path / "verified").open("a", encoding="utf-8") as handle:
            handle.write(identity + "\n")

    def report(self, status: dict[str, Any]) -> None:
        """Say what this worker serves."""
        self._replace(self.path / f"worker-{self.slot}", json.dumps(status | {"pid": os.getpid()}))

    def reports(self) -> dict[int, dict[str, Any]]:
        """Return what every living worker serves, by slot."""
        found = {}
        for path in self.path.glob("worker-*"):
            if not path.name[7:].isdigit():
                continue
            try:
                status = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue
            found[int(path.name[7:])] = status
        return found

    def forget(self, slot: int) -> None:
        """Remove the report of a worker that is gone."""
        (self.path / f"worker-{slot}").unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget an earlier run: its decisions, reports and counts are not this one's."""
        for path in self.path.iterdir():
            if path.name in {"metrics", "model.json", "verified"} or path.name.startswith("worker-"):
                path.unlink(missing_ok=True)

    def _replace(self, path: Path, text: str) -> None:
        temporary = path.with_name(f".{path.name}.{self.slot}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
