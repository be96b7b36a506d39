"""Named arrays in a directory: written atomically, memory-mapped, checked.

    model-directory/
      model.json     format, format version, kind, {dtype, shape, bytes, checksum} of every file, free `info`
      <name>.npy     one plain NumPy file per array, little-endian, data on a cache line

The directory is complete or it is not there: it is written under a temporary name beside its place (a dot,
the name, ".writing-" and a number), every file is synced, and one rename puts it in place. After that it never
changes. The writer holds a lock on its directory, so a leftover of a crash is known by having none.

Opening checks everything that could make a reader stumble (the manifest against its own checksum, each file's
size, header, dtype and shape) and reads no data, so it costs the same for any size. `verify_files` also
reads the data and compares SHA-256 checksums (those of `sha256sum`). No pickle is ever read or written.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import math
import mmap
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.bundle.files import open_file
from greedy_core.bundle.manifest import ARRAY_NAME, DTYPES, MANIFEST_NAME, StoredFile, manifest_text, read_manifest
from greedy_core.embeddings import CACHE_LINE_BYTES
from greedy_core.errors import CorruptModelError, NotAModelError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    Progress = Callable[[int, int], None]

_CHUNK_BYTES = 1 << 22


class Stored(NamedTuple):
    """An opened directory: read-only arrays that live as long as they are referenced, the info, and a fingerprint.

    The fingerprint names the very files that are mapped, by inode, size and times: a file that was changed or replaced
    since gives another one. It costs one look at each file, not a look into it.
    """

    arrays: dict[str, npt.NDArray[Any]]
    info: dict[str, Any]
    fingerprint: str


def write_arrays(
    path: str | Path,
    *,
    kind: str,
    arrays: Mapping[str, npt.NDArray[Any]],
    info: Mapping[str, Any],
    directories: Mapping[str, Path] | None = None,
) -> None:
    """Write the arrays as a new directory at `path`, all or nothing.

    Names are lower-case words joined by dots, dtypes plain numbers, `info` is anything that JSON can hold. Directories
    that were written before, on the same file system, are moved into it under the names given.
    Raises StorageError, and leaves nothing behind, if `path` exists or cannot be written.
    """
    path = Path(path)
    if os.path.lexists(path):
        raise StorageError(f"{path} already exists and models are never overwritten; choose another name.")
    if not path.name:
        raise StorageError(f"{path} is not the name of a new directory; choose another.")
    temporary = path.parent / f".{path.name}.writing-{os.getpid()}-{threading.get_ident()}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        with _locked(temporary):
            files = {name: _write_array(temporary, name, array) for name, array in arrays.items()}
            for name, place in (directories or {}).items():
                place.rename(temporary / name)
            _write_file(temporary / MANIFEST_NAME, [manifest_text(kind, files, info)])
            sync_directory(temporary)
            # A directory replaces no directory with files in it, so a writer that came second fails here.
            temporary.rename(path)
        sync_directory(path.parent)
    except OSError as reason:
        if isinstance(reason, StorageError):
            raise
        raise StorageError(f"{path} cannot be written: {reason.strerror or reason}.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def is_abandoned(temporary: Path) -> bool:
    """Whether a directory that somebody began to write has no writer any more, in this process or another."""
    try:
        with _locked(temporary):
            return True
    except OSError:
        return False  # somebody writes it, or it is gone


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which ends with the process at the latest. OSError if another has it."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def open_arrays(path: str | Path, *, kind: str, or_kind: str | None = None) -> Stored:
    """Map every array of a directory of this `kind`, or of the other one, after checking its structure.

    Checksums are not compared.

    Raises NotAModelError (nothing there, or another kind), FormatVersionError or CorruptModelError. The
    arrays are read-only views of the files: share them among threads and processes, never change the files.
    """
    path = Path(path)
    manifest = read_manifest(path)
    if manifest.kind not in (kind, or_kind):
        raise NotAModelError(f"{path} holds a {manifest.kind}, but a {kind} was expected; check the path.")
    arrays: dict[str, npt.NDArray[Any]] = {}
    # The manifest is small and was read whole: its own content stands for it.
    looks = [manifest.checksum]
    for name, file in manifest.files.items():
        arrays[name], status = _map_array(path, name, file)
        looks.append(
            f"{name} {status.st_dev} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        )
    return Stored(arrays, manifest.info, hashlib.sha256("\n".join(looks).encode()).hexdigest())


def verify_files(path: str | Path, *, progress: Progress | None = None, threads: int | None = None) -> None:
    """Check the structure, then read every file and compare its checksum; one thread per file.

    `progress` is called with (bytes read, bytes in all), from one thread at a time. Raises CorruptModelError
    that names the first file found altered.
    """
    path = Path(path)
    manifest = read_manifest(path)
    for name, file in manifest.files.items():
        _map_array(path, name, file)
    total, done, lock = manifest.bytes, 0, threading.Lock()

    def advance(n_bytes: int) -> None:
        nonlocal done
        if progress is not None:
            with lock:
                done += n_bytes
                progress(done, total)

    def check(name: str, file: StoredFile) -> None:
        if _checksum(_file_of(path, name), advance) != file.checksum:
            raise CorruptModelError(
                f"{_file_of(path, name)} was altered: its checksum is not the one in {MANIFEST_NAME}; "
                "restore it or write the model again."
            )

    # The largest first, so that no thread is left alone with it at the end.
    largest_first = sorted(manifest.files.items(), key=lambda item: -item[1].bytes)
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        for result in [pool.submit(check, name, file) for name, file in largest_first]:
            result.result()


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk; without this a rename may be forgotten in a power failure."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_of(path: Path, name: str) -> Path:
    return path / f"{name}.npy"


def _write_array(directory: Path, name: str, array: npt.NDArray[Any]) -> StoredFile:
    if not ARRAY_NAME.fullmatch(name):
        raise StorageError(f"{name!r} is no name for an array; use lower-case words joined by dots.")
    little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if little.dtype.str not in DTYPES:
        raise StorageError(f"the array {name} has dtype {array.dtype}, but only plain numbers can be stored.")
    data = little.reshape(-1).view(np.uint8).data
    chunks = [memoryview(_header(little.dtype.str, array.shape))]
    chunks += [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
    checksum = _write_file(_file_of(directory, name), chunks)
    return StoredFile(little.dtype.str, array.shape, sum(len(chunk) for chunk in chunks), checksum)


def _write_file(path: Path, chunks: list[Any]) -> str:
    checksum = hashlib.sha256()
    with path.open("xb") as file:
        for chunk in chunks:
            file.write(chunk)
            checksum.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    return checksum.hexdigest()


def _map_array(path: Path, name: str, expected: StoredFile) -> tuple[npt.NDArray[Any], os.stat_result]:
    """Map one file read-only, after comparing its size and header with the manifest; and say which file it was."""
    place = _file_of(path, name)
    dtype, count = np.dtype(expected.dtype), math.prod(expected.shape)
    with _open(place) as file:
        status = os.fstat(file.fileno())
        size = status.st_size
        if size != expected.bytes:
            word = "cut short" if size < expected.bytes else "too long"
            raise CorruptModelError(
                f"{place} is {word}: {size} bytes where {MANIFEST_NAME} says {expected.bytes}; copy it again."
            )
        offset = size - count * dtype.itemsize
        fits = 0 < offset < 1 << 16 and offset % CACHE_LINE_BYTES == 0
        if not fits or not _is_header(file.read(offset), expected):
            raise CorruptModelError(
                f"{place} does not begin as {expected.dtype} data of shape {expected.shape}, "
                f"as {MANIFEST_NAME} says; write the model again."
            )
        if count == 0:
            array = np.empty(expected.shape, dtype)
            array.flags.writeable = False
            return array, status
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # A plain array over the map: np.memmap is the same, with slower indexing.
    return np.frombuffer(mapped, dtype=dtype, count=count, offset=offset).reshape(expected.shape), status


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _is_header(found: bytes, expected: StoredFile) -> bool:
    """Compare with the header that NumPy writes, instead of parsing what may be damaged.

    NumPy's releases agree on the text (the .npy format fixes it) but not on the padding after it.
    """
    length = len(found) - 10
    text = _header(expected.dtype, expected.shape)[10:].rstrip()
    start = b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little")
    return found[:10] == start and found[10:].rstrip(b" \n") == text


def _checksum(place: Path, advance: Callable[[int], None]) -> str:
    checksum = hashlib.sha256()
    buffer = bytearray(_CHUNK_BYTES)
    view = memoryview(buffer)
    with _open(place) as file:
        while n_bytes := file.readinto(buffer):
            checksum.update(view[:n_bytes])
            advance(n_bytes)
    return checksum.hexdigest()


@contextlib.contextmanager
def _open(place: Path) -> Iterator[io.BufferedReader]:
    try:
        with open_file(place) as file:
            yield file
    except (FileNotFoundError, NotADirectoryError):
        raise CorruptModelError(f"{place} is missing; copy the model again.") from None
