"""A folder of models, and which of them is current.

    models/
      2026-11-15T08-00/     a bundle, immutable
      2026-11-16T08-00/
      current -> 2026-11-16T08-00
      previous -> 2026-11-15T08-00     what a rollback returns to
      history.json                     what was current before, the oldest first: a rollback takes from its end

`current` is replaced by one rename, so whoever looks sees the old version or the new one and never neither. Names
that begin with a dot are unfinished and are ignored.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from greedy_core.bundle.files import open_file
from greedy_core.bundle.manifest import is_bundle, read_manifest
from greedy_core.bundle.opening import Bundle
from greedy_core.bundle.storage import is_abandoned, sync_directory
from greedy_core.bundle.version_names import CURRENT, HISTORY, PREVIOUS, RESERVED, check_version_name
from greedy_core.errors import NotAModelError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# How many versions back a rollback can go.
_LONGEST_HISTORY = 100
_MAX_HISTORY_BYTES = 1 << 20
# What is unfinished: a name, what was being done to it, and by which process and thread.
_LEFT = re.compile(r"\..+\.(writing|deleting)-\d+-\d+")


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
        """Return the version that a rollback would return to: the last before the current one that is still there."""
        return next((name for name in reversed(self.history()) if self._is_version(name)), None)

    def history(self) -> list[str]:
        """Return what was current before the current version, the oldest first; some may have been deleted since.

        A version that a rollback has left is not among them.
        """
        current = self.current_version()
        past = self._read_history()
        if past is None:
            # A folder of an earlier release remembers one step.
            previous = self._target(PREVIOUS)
            past = [] if previous is None else [previous]
        # A promotion that was interrupted has noted the current version already; a rollback has not yet removed it.
        while past and past[-1] == current:
            past.pop()
        return past

    def promote(self, version: str) -> None:
        """Make a version current, and remember the one that was. Nothing happens if it already is.

        Raises NotAModelError, FormatVersionError or CorruptModelError, with the reason, for a version that is
        missing, unfinished or damaged in its structure; `current` then stays as it was.
        """
        try:
            check_version_name(version)
        except NotAModelError as reason:
            raise NotAModelError(f"{reason} {self._choice()[:1].upper()}{self._choice()[1:]}") from None
        if not (self.path / version).is_dir():
            raise NotAModelError(f"{self.path} has no version {version}; {self._choice()}")
        Bundle.open(self.path / version)
        with self._alone():
            before = self.current_version()
            if before == version:
                return
            # This order, so that a crash in between leaves a current version and a history that fits to it.
            if before is not None:
                self._write_history([*self.history(), before][-_LONGEST_HISTORY:])
                self._point(PREVIOUS, before)
            self._point(CURRENT, version)

    def rollback(self) -> str:
        """Return to the version that was current before, and return its name; a second rollback goes one further back.

        Versions that were deleted are passed over. Raises StorageError if none is left, CorruptModelError and the like
        for one that can no longer be used; `current` then stays as it was.
        """
        with self._alone():
            past = self.history()
            back = next((at for at in reversed(range(len(past))) if self._is_version(past[at])), None)
            if back is None:
                why = f"; deleted since: {', '.join(past)}" if past else ""
                raise StorageError(f"{self.path} has no previous version to return to{why}; promote one by its name.")
            Bundle.open(self.path / past[back])
            self._point(CURRENT, past[back])
            self._write_history(past[:back])
            self._point(PREVIOUS, past[back - 1] if back else None)
        return past[back]

    def prune(self, keep: int) -> list[str]:
        """Delete all but the `keep` versions built last, and return the names of those deleted, the oldest first.

        The current version and the one that a rollback would return to are never deleted. What builds, promotions and
        deletions left behind that were killed is removed, too.
        """
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise StorageError(f"the number of versions to keep must be a whole number from 1, but it is {keep!r}.")
        with self._alone():
            by_age = sorted(self.versions(), key=lambda name: (self._built_at(name), _as_people_count(name)))
            needed = {self.current_version(), self.previous_version()}
            old = [name for name in by_age[: max(0, len(by_age) - keep)] if name not in needed]
            for name in old:
                self._delete(name)
            past = self.history()
            if not set(past).isdisjoint(old):
                self._write_history([name for name in past if name not in old])
            self._remove_leftovers()
        return old

    def _is_version(self, name: str) -> bool:
        return name not in RESERVED and not name.startswith(".") and is_bundle(self.path / name)

    def _choice(self) -> str:
        versions = self.versions()
        return f"choose one of: {', '.join(versions)}." if versions else "build one with `budgetrec build`."

    def _built_at(self, name: str) -> str:
        """Return when a version was built; one that does not say so is the oldest."""
        try:
            return str(read_manifest(self.path / name).info.get("built_at", ""))
        except StorageError:
            return ""

    def _delete(self, name: str) -> None:
        """Delete a version; under another name first, so that nobody finds half of it."""
        temporary = self.path / f".{name}.deleting-{os.getpid()}-{threading.get_ident()}"
        try:
            (self.path / name).rename(temporary)
            sync_directory(self.path)
            shutil.rmtree(temporary)
        except OSError as reason:
            raise StorageError(f"{self.path / name} cannot be deleted: {reason.strerror or reason}.") from None

    def _remove_leftovers(self) -> None:
        """Remove what nobody writes any more. Everything but a bundle is written by whoever is alone, as we are now."""
        for place in self.path.glob(".*-*"):
            if _LEFT.fullmatch(place.name) is None:
                continue
            if place.is_dir() and not place.is_symlink():
                if is_abandoned(place):
                    shutil.rmtree(place, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    place.unlink()

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

    def _read_history(self) -> list[str] | None:
        """Return what the history file says, None if there is none."""
        try:
            with open_file(self.path / HISTORY) as file:
                past = json.loads(file.read(_MAX_HISTORY_BYTES))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError):
            past = None
        if not isinstance(past, list) or not all(isinstance(name, str) for name in past):
            raise StorageError(
                f"{self.path / HISTORY} is no list of versions; remove it, and a rollback goes back one version."
            )
        return past

    def _write_history(self, past: Sequence[str]) -> None:
        content = json.dumps(list(past), ensure_ascii=True).encode()

        def write(temporary: Path) -> None:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())

        self._put(HISTORY, write)

    def _point(self, pointer: str, version: str | None) -> None:
        """Make a pointer point to a version, or remove it."""
        if version is None:
            with contextlib.suppress(FileNotFoundError):
                (self.path / pointer).unlink()
            return
        self._put(pointer, lambda temporary: temporary.symlink_to(version))

    def _put(self, name: str, write: Callable[[Path], None]) -> None:
        """Write something under a temporary name and put it in place by one rename."""
        temporary = self.path / f".{name}.writing-{os.getpid()}-{threading.get_ident()}"
        try:
            temporary.unlink(missing_ok=True)
            write(temporary)
            temporary.replace(self.path / name)
            sync_directory(self.path)
        except OSError as reason:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise StorageError(f"{self.path / name} cannot be changed: {reason.strerror or reason}.") from None

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
