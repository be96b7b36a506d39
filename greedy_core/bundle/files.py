"""Opening the files of a model, and nothing that only looks like one."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from greedy_core.errors import CorruptModelError, StorageError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def open_file(place: Path) -> Iterator[io.BufferedReader]:
    """Open an ordinary file to read it; never waits for a writer at the other end of a pipe.

    Raises CorruptModelError for what is no ordinary file, StorageError for what cannot be read, and lets
    FileNotFoundError and NotADirectoryError through, since only the caller knows what is missing then.
    """
    try:
        # Looked at before it is opened, because opening a device can have effects; and once more afterwards, because
        # it may have been replaced in between.
        _refuse_other(place, place.stat())
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            _refuse_other(place, os.fstat(descriptor))
            yield file
    except (FileNotFoundError, NotADirectoryError, StorageError):
        raise
    except OSError as reason:
        raise StorageError(f"{place} cannot be read: {reason.strerror or reason}.") from None


def _refuse_other(place: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise CorruptModelError(f"{place} is {kind}, not a file; copy the model again.")
