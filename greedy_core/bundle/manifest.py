"""model.json: every array of a model by name, with dtype, shape, size and checksum, and free `info`."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core.bundle.files import open_file
from greedy_core.errors import CorruptModelError, FormatVersionError, NotAModelError, StorageError, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "budgetrec-model"
FORMAT_VERSION = 1
MANIFEST_NAME = "model.json"

# Also keeps a manifest from naming files outside of its directory.
ARRAY_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
DTYPES = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_CHECKSUM = re.compile(r"[0-9a-f]{64}")
_MAX_BYTES = 1 << 26


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
    checksum: str  # of all the above

    @property
    def bytes(self) -> int:
        """The size of all arrays on disk."""
        return sum(file.bytes for file in self.files.values())


def is_bundle(path: str | Path) -> bool:
    """Whether the path is a directory with a model in it: the one place that answers this question."""
    return (Path(path) / MANIFEST_NAME).is_file()


def read_manifest(path: str | Path) -> Manifest:
    """Read and check `model.json`. Raises NotAModelError, FormatVersionError or CorruptModelError."""
    path = Path(path)
    manifest = path / MANIFEST_NAME
    try:
        with open_file(manifest) as file:
            content = file.read(_MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        what = "holds no model.json" if path.is_dir() else "is not a directory" if path.exists() else "does not exist"
        raise NotAModelError(f"{path} {what}; give a directory written by budgetrec.") from None
    if len(content) > _MAX_BYTES:
        raise CorruptModelError(f"{manifest} is larger than any manifest; write the model again.")
    try:
        return _parse_manifest(manifest, json.loads(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as reason:
        raise CorruptModelError(
            f"{manifest} is not a valid manifest ({type(reason).__name__}: {first_line(reason)}); "
            "restore it or write the model again."
        ) from None


def manifest_text(kind: str, files: Mapping[str, StoredFile], info: Mapping[str, Any]) -> bytes:
    """Return the content of a new model.json. Raises StorageError if `info` is not plain JSON."""
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
    return Manifest(content["kind"], files, content["info"], content["checksum"])


def _parse_file(name: str, file: Mapping[str, Any]) -> StoredFile:
    shape = file["shape"]
    if not ARRAY_NAME.fullmatch(name) or file["dtype"] not in DTYPES or not _CHECKSUM.fullmatch(file["checksum"]):
        raise ValueError(f"the entry of {name!r} makes no sense")
    if not isinstance(shape, list) or len(shape) > 32 or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"the shape of {name!r} makes no sense")
    if type(file["bytes"]) is not int:
        raise ValueError(f"the size of {name!r} makes no sense")
    return StoredFile(file["dtype"], tuple(shape), file["bytes"], file["checksum"])
