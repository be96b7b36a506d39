"""A text in memory that workers share, with a number that says whether it has changed.

    generation (8 bytes) | length (4) | CRC-32 of the text (4) | text

Looking at the number costs no system call. A reader that meets a half-written text sees that the checksum does not fit
and reads again.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = struct.Struct("<QII")


class SharedText:
    """The text. All methods may be called from any process and thread."""

    def __init__(self, descriptor: int, size: int) -> None:
        # A descriptor of our own: locks belong to what was opened, and a forked copy of a descriptor shares them.
        self._descriptor = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        self._map = mmap.mmap(self._descriptor, size)
        self._longest = size - _HEAD.size

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the right to write; yields False at once if another worker holds it."""
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
        """The number of the last text; one look at memory."""
        return int.from_bytes(self._map[:8], "little")

    def read(self) -> tuple[int, bytes]:
        """Return the last text with its number."""
        while True:
            generation, length, checksum = _HEAD.unpack_from(self._map)
            text = self._map[_HEAD.size : _HEAD.size + length]
            if zlib.crc32(text) == checksum:
                return generation, text

    def write(self, generation: int, text: bytes) -> None:
        """Write a text. A ValueError says that it is too long."""
        if len(text) > self._longest:
            raise ValueError(f"there is no room for {len(text)} bytes in the memory that workers share; say it shorter")
        self._map[_HEAD.size : _HEAD.size + len(text)] = text
        self._map[: _HEAD.size] = _HEAD.pack(generation, len(text), zlib.crc32(text))

    def close(self) -> None:
        """Let go of the memory."""
        self._map.close()
        os.close(self._descriptor)
