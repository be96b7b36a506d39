"""A folder of models, and which of them is current.

    models/
      2026-11-15T08-00/     a bundle, immutable
      2026-11-16T08-00/
      current -> 2026-11-16T08-00
      previous -> 2026-11-15T08-00

`current` is replaced by one rename, so whoever looks sees the old version or the new one and never neither. Names
that begin with a dot are unfinished and are ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from greedy_core.bundle.manifest import is_bundle
from greedy_core.bundle.opening import Bundle
from greedy_core.bundle.storage import sync_directory
from greedy_core.errors import NotAModelError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

CURRENT = "current"
PREVIOUS = "previous"


class VersionsFolder:
    """The versions under one path. Holds no state: every call looks at the folder anew."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def versions(self) -> list[str]:
        """Return the names of the complete versions, sorted as people count: v9 before v10."""
        try:
            names = [place.name for place in self.path.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as reason:
            raise StorageError(f"{self.path} cannot be listed: {reason.strerror or reason}.") from None
        return sorted((name for name in names if self._is_version(name)), key=_as_people_count)

    def current(self) -> Path | None:
        """Return the directory that is current, None if no version was promoted. It may have been deleted since."""
        name = self.current_version()
        return None if name is None else self.path / name

    def current_version(self) -> str | None:
        """Return the name of the current version."""
        return self._target(CURRENT)

    def previous_version(self) -> str | None:
        """Return the name of the version that was current before, None if there was none."""
        previous = self._target(PREVIOUS)
        return None if previous == self.current_version() else previous

    def promote(self, version: str) -> None:
        """Make a version current, and remember the one that was. Nothing happens if it already is.

        Raises NotAModelError, FormatVersionError or CorruptModelError, with the reason, for a version that is
        missing, unfinished or damaged in its structure; `current` then stays as it was.
        """
        if version in {"", CURRENT, PREVIOUS} or version.startswith(".") or "/" in version or "\0" in version:
            raise NotAModelError(f"{version!r} is no name of a version; {self._choice()}")
        if not (self.path / version).is_dir():
            raise NotAModelError(f"{self.path} has no version {version}; {self._choice()}")
        Bundle.open(self.path / version)
        with self._alone():
            before = self.current_version()
            if before == version:
                return
            # This order, so that a crash between the two leaves a current version and loses no more than a memory.
            if before is not None:
                self._point(PREVIOUS, before)
            self._point(CURRENT, version)

    def rollback(self) -> str:
        """Make the previous version current again, and return its name; a second rollback undoes the first."""
        previous = self.previous_version()
        if previous is None:
            raise StorageError(f"{self.path} has no previous version to return to; promote one by its name.")
        self.promote(previous)
        return previous

    def _is_version(self, name: str) -> bool:
        if name in {CURRENT, PREVIOUS} or name.startswith("."):
            return False
        return is_bundle(self.path / name)

    def _choice(self) -> str:
        versions = self.versions()
        return f"choose one of: {', '.join(versions)}." if versions else "build one with `budgetrec build`."

    def _target(self, pointer: str) -> str | None:
        try:
            return (self.path / pointer).readlink().name
        except FileNotFoundError:
            return None
        except OSError as reason:
            raise StorageError(
                f"{self.path / pointer} is not a link to a version ({reason.strerror or reason}); "
                "remove it and promote one."
            ) from None

    def _point(self, pointer: str, version: str) -> None:
        temporary = self.path / f".{pointer}.writing-{os.getpid()}-{threading.get_ident()}"
        try:
            temporary.unlink(missing_ok=True)
            temporary.symlink_to(version)
            temporary.replace(self.path / pointer)
            sync_directory(self.path)
        except OSError as reason:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StorageError(f"{self.path / pointer} cannot be changed: {reason.strerror or reason}.") from None

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep two promotions from remembering each other's half."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as reason:
            raise StorageError(f"{self.path} cannot be opened: {reason.strerror or reason}.") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _as_people_count(name: str) -> list[tuple[int, int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
