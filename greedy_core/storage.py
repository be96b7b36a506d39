"""Named arrays in a directory: written atomically, memory-mapped, checked.

    model-directory/
      model.json     format, format version, kind, {dtype, shape, bytes, checksum} of every file, free `info`
      <name>.npy     one plain NumPy file per array, little-endian, data on a cache line

The directory is complete or it is not there: it is written under a temporary name beside its place (a dot,
the name, ".writing-" and a number; such a leftover of a crash may be deleted at will), every file is synced,
and one rename puts it in place. After that it never changes.

Opening checks everything that could make a reader stumble (the manifest against its own checksum, each file's
size, header, dtype and shape) and reads no data, so it costs the same for any size. `verify_arrays` also
reads the data and compares SHA-256 checksums (those of `sha256sum`). No pickle is ever read or written.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import mmap
import os
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.embeddings import CACHE_LINE_BYTES, first_line
from greedy_core.errors import CorruptModelError, FormatVersionError, NotAModelError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    Progress = Callable[[int, int], None]

FORMAT = "budgetrec-model"
FORMAT_VERSION = 1
MANIFEST = "model.json"

# Also keeps a manifest from naming files outside of its directory.
_ARRAY_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 22
_MAX_MANIFEST_BYTES = 1 << 26


class StoredFile(NamedTuple):
    """What the manifest says about one array: NumPy's dtype string, shape, the file's size and SHA-256."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    checksum: str


@dataclass(frozen=True)
class Manifest:
    """A parsed and checked `model.json`."""

    kind: str
    files: dict[str, StoredFile]
    info: dict[str, Any]

    @property
    def bytes(self) -> int:
        """The size of all arrays on disk."""
        return sum(file.bytes for file in self.files.values())


class Stored(NamedTuple):
    """An opened directory: read-only arrays that live as long as they are referenced, and the info."""

    arrays: dict[str, npt.NDArray[Any]]
    info: dict[str, Any]


def write_arrays(
    path: str | Path, *, kind: str, arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]
) -> None:
    """Write the arrays as a new directory at `path`, all or nothing.

    Names are lower-case words joined by dots, dtypes plain numbers, `info` is anything that JSON can hold.
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
        files = {name: _write_array(temporary, name, array) for name, array in arrays.items()}
        _write_file(temporary / MANIFEST, [_manifest_text(kind, files, info)])
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


def read_manifest(path: str | Path) -> Manifest:
    """Read and check `model.json`. Raises NotAModelError, FormatVersionError or CorruptModelError."""
    path = Path(path)
    manifest = path / MANIFEST
    try:
        if manifest.stat().st_size > _MAX_MANIFEST_BYTES:
            raise CorruptModelError(f"{manifest} is larger than any manifest; write the model again.")
        content = manifest.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = "holds no model.json" if path.is_dir() else "is not a directory" if path.exists() else "does not exist"
        raise NotAModelError(f"{path} {what}; give a directory written by budgetrec.") from None
    except OSError as reason:
        if isinstance(reason, StorageError):
            raise
        raise StorageError(f"{manifest} cannot be read: {reason.strerror or reason}.") from None
    try:
        return _parse_manifest(manifest, json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as reason:
        raise CorruptModelError(
            f"{manifest} is not a valid manifest ({type(reason).__name__}: {first_line(reason)}); "
            "restore it or write the model again."
        ) from None


def open_arrays(path: str | Path, *, kind: str) -> Stored:
    """Map every array of a directory of this `kind`, after checking its structure but not its checksums.

    Raises NotAModelError (nothing there, or another kind), FormatVersionError or CorruptModelError. The
    arrays are read-only views of the files: share them among threads and processes, never change the files.
    """
    path = Path(path)
    manifest = read_manifest(path)
    if manifest.kind != kind:
        raise NotAModelError(f"{path} holds a {manifest.kind}, but a {kind} was expected; check the path.")
    return Stored({name: _map_array(path, name, file) for name, file in manifest.files.items()}, manifest.info)


def verify_arrays(path: str | Path, *, progress: Progress | None = None, threads: int | None = None) -> None:
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
                f"{_file_of(path, name)} was altered: its checksum is not the one in {MANIFEST}; "
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
    if not _ARRAY_NAME.fullmatch(name):
        raise StorageError(f"{name!r} is no name for an array; use lower-case words joined by dots.")
    little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if little.dtype.str not in _DTYPES:
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


def _manifest_text(kind: str, files: Mapping[str, StoredFile], info: Mapping[str, Any]) -> bytes:
    content: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": kind,
        "files": {name: file._asdict() for name, file in files.items()},
        "info": dict(info),
    }
    try:
        content["checksum"] = _manifest_checksum(content)
        return json.dumps(content, indent=1, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as reason:
        raise StorageError(f"the info of a model must be plain JSON, but it is not: {first_line(reason)}.") from None


def _manifest_checksum(content: Mapping[str, Any]) -> str:
    covered = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), default=_plain, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> object:
    """Turn NumPy's scalars into Python's, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _parse_manifest(manifest: Path, content: Any) -> Manifest:
    if content["format"] != FORMAT:
        raise NotAModelError(f"{manifest} is not a manifest of budgetrec; give a directory written by budgetrec.")
    if content["format_version"] != FORMAT_VERSION:
        raise FormatVersionError(
            f"{manifest} has format version {content['format_version']!r}, but this release reads version "
            f"{FORMAT_VERSION}; build the model again with this release."
        )
    if content["checksum"] != _manifest_checksum(content):
        raise CorruptModelError(f"{manifest} was altered: its checksum does not fit; write the model again.")
    files = {name: _parse_file(name, file) for name, file in content["files"].items()}
    if not isinstance(content["kind"], str) or not isinstance(content["info"], dict):
        raise TypeError("kind must be text and info an object")
    return Manifest(content["kind"], files, content["info"])


def _parse_file(name: str, file: Mapping[str, Any]) -> StoredFile:
    shape = file["shape"]
    if not _ARRAY_NAME.fullmatch(name) or file["dtype"] not in _DTYPES or not _CHECKSUM.fullmatch(file["checksum"]):
        raise ValueError(f"the entry of {name!r} makes no sense")
    if not isinstance(shape, list) or len(shape) > 32 or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"the shape of {name!r} makes no sense")
    if type(file["bytes"]) is not int:
        raise ValueError(f"the size of {name!r} makes no sense")
    return StoredFile(file["dtype"], tuple(shape), file["bytes"], file["checksum"])


def _map_array(path: Path, name: str, expected: StoredFile) -> npt.NDArray[Any]:
    """Map one file read-only, after comparing its size and header with the manifest."""
    place = _file_of(path, name)
    dtype, count = np.dtype(expected.dtype), math.prod(expected.shape)
    with _open_to_read(place) as file:
        size = os.fstat(file.fileno()).st_size
        if size != expected.bytes:
            word = "cut short" if size < expected.bytes else "too long"
            raise CorruptModelError(
                f"{place} is {word}: {size} bytes where {MANIFEST} says {expected.bytes}; copy it again."
            )
        offset = size - count * dtype.itemsize
        fits = 0 < offset < 1 << 16 and offset % CACHE_LINE_BYTES == 0
        if not fits or not _is_header(file.read(offset), expected):
            raise CorruptModelError(
                f"{place} does not begin as {expected.dtype} data of shape {expected.shape}, "
                f"as {MANIFEST} says; write the model again."
            )
        if count == 0:
            array = np.empty(expected.shape, dtype)
            array.flags.writeable = False
            return array
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # A plain array over the map: np.memmap is the same, with slower indexing.
    return np.frombuffer(mapped, dtype=dtype, count=count, offset=offset).reshape(expected.shape)


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
    with _open_to_read(place) as file:
        while n_bytes := file.readinto(buffer):
            checksum.update(view[:n_bytes])
            advance(n_bytes)
    return checksum.hexdigest()


@contextlib.contextmanager
def _open_to_read(place: Path) -> Iterator[io.BufferedReader]:
    try:
        with place.open("rb") as file:
            yield file
    except FileNotFoundError:
        raise CorruptModelError(f"{place} is missing; copy the model again.") from None
    except OSError as reason:
        if isinstance(reason, StorageError):
            raise
        raise StorageError(f"{place} cannot be read: {reason.strerror or reason}.") from None
