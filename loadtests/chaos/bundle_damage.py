"""Bundles damaged in one way each: files cut, flipped, swapped, dropped, and values that no build would write.

A damaged bundle is a copy whose untouched files are hard links, so thousands of them cost little.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

MANIFEST = "model.json"
_ODD_FLOATS = (np.nan, np.inf, -np.inf, 3e38, 0.0, 1.0)
_ODD_WHOLES = (-1, 2**31 - 1, -(2**31), 2**62, 0, 1)
_MAY_BE_BUILT = (False, False, False, False, True, True)
_ODD_JSON: tuple[Any, ...] = (None, -1, 0, 1.5, 2**70, "", "x", [], {}, True, "../../etc/passwd")


@dataclass(frozen=True)
class Damage:
    """One way to damage a bundle."""

    name: str
    harm: Callable[[Path], None]
    sound: bool = False  # with checksums recomputed it may be a proper model, though another one

    def make(self, source: Path, place: Path) -> None:
        """Make a damaged copy of `source` at `place`."""
        place.mkdir()
        for file in source.iterdir():
            os.link(file, place / file.name)
        self.harm(place)


def draw(rng: random.Random, source: Path) -> Damage:
    """Draw a way to damage a copy of `source`."""
    files = sorted(path.name for path in source.iterdir() if path.suffix == ".npy")
    name = rng.choice(files)
    recompute = rng.random() < 0.7
    kinds = (_cut, _grow, _flip, _flip, _value, _value, _value, _swap, _drop, _special, _manifest, _manifest, _reshape)
    harm = rng.choice(kinds)(rng, name, files)
    suffix = ", checksums recomputed" if recompute else ""

    def whole(place: Path) -> None:
        harm.harm(place)
        if recompute:
            recompute_checksums(place)

    return Damage(harm.name + suffix, whole, sound=recompute and harm.sound)


def replace(path: Path, content: bytes) -> None:
    """Write a file that was a hard link without touching what it was linked to."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def recompute_checksums(place: Path) -> None:
    """Make the manifest agree with what lies there, as a careless tool or an attacker would."""
    if not _is_plain(place / MANIFEST):
        return  # a device may never end, and a FIFO never begin
    try:
        content = json.loads((place / MANIFEST).read_bytes())
        for name, entry in content["files"].items():
            path = place / f"{name}.npy"
            if _is_plain(path):
                data = path.read_bytes()
                entry["checksum"], entry["bytes"] = hashlib.sha256(data).hexdigest(), len(data)
        content.pop("checksum", None)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return  # the damage went so deep that there is nothing to agree with
    replace(place / MANIFEST, json.dumps(content, indent=1).encode())


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _cut(rng: random.Random, name: str, _: list[str]) -> Damage:
    share = rng.choice((0.0, 0.01, rng.random(), 0.999))

    def harm(place: Path) -> None:
        data = (place / name).read_bytes()
        replace(place / name, data[: int(len(data) * share)])

    return Damage(f"{name} cut to {share:.3f}", harm)


def _grow(rng: random.Random, name: str, _: list[str]) -> Damage:
    more = rng.randbytes(rng.choice((1, 64, 4096)))
    return Damage(
        f"{name} longer by {len(more)}", lambda place: replace(place / name, (place / name).read_bytes() + more)
    )


def _flip(rng: random.Random, name: str, _: list[str]) -> Damage:
    share, bit = rng.random(), rng.randrange(8)

    def harm(place: Path) -> None:
        data = bytearray((place / name).read_bytes())
        data[int(len(data) * share)] ^= 1 << bit
        replace(place / name, bytes(data))

    return Damage(f"{name} with bit {bit} at {share:.3f} flipped", harm, sound=True)


def _value(rng: random.Random, name: str, _: list[str]) -> Damage:
    share = rng.random()
    pick = rng.randrange(6)

    def harm(place: Path) -> None:
        array = np.load(place / name)
        if array.size == 0:
            return
        flat = array.reshape(-1)
        odd = _ODD_FLOATS[pick] if array.dtype.kind == "f" else _ODD_WHOLES[pick]
        flat[int(share * array.size)] = np.array(odd).astype(array.dtype)
        _save(place / name, array)

    return Damage(f"{name} with odd value {pick} at {share:.3f}", harm, sound=_MAY_BE_BUILT[pick])


def _swap(rng: random.Random, name: str, files: list[str]) -> Damage:
    other = rng.choice(files)

    def harm(place: Path) -> None:
        first, second = (place / name).read_bytes(), (place / other).read_bytes()
        replace(place / name, second)
        replace(place / other, first)

    return Damage(f"{name} and {other} swapped", harm, sound=True)


def _drop(rng: random.Random, name: str, _: list[str]) -> Damage:
    with_entry = rng.random() < 0.7

    def harm(place: Path) -> None:
        (place / name).unlink()
        if with_entry:
            content = json.loads((place / MANIFEST).read_bytes())
            del content["files"][name.removesuffix(".npy")]
            replace(place / MANIFEST, json.dumps(content).encode())

    return Damage(f"{name} dropped{', and its entry' if with_entry else ''}", harm)


def _special(rng: random.Random, name: str, _: list[str]) -> Damage:
    """Put something in place of a file that cannot be read like one."""
    name = rng.choice((name, MANIFEST))
    kind = rng.choice(("a FIFO", "/dev/zero", "/dev/null", "a directory", "a loop", "nothing"))

    def harm(place: Path) -> None:
        path = place / name
        path.unlink()
        if kind == "a FIFO":
            os.mkfifo(path)
        elif kind == "a directory":
            path.mkdir()
        elif kind == "a loop":
            path.symlink_to(path.name)
        elif kind != "nothing":
            path.symlink_to(kind)

    return Damage(f"{name} is {kind}", harm)


def _manifest(rng: random.Random, name: str, _: list[str]) -> Damage:
    """Set something in the manifest to what it should never be, or remove it."""
    odd, choice, remove = rng.choice(_ODD_JSON), rng.random(), rng.random() < 0.3

    def harm(place: Path) -> None:
        content = json.loads((place / MANIFEST).read_bytes())
        places = [
            *((content, key) for key in content),
            *((content["info"], key) for key in content["info"]),
            *((entry, key) for entry in content["files"].values() for key in entry),
        ]
        holder, key = places[int(choice * len(places))]
        if remove:
            del holder[key]
        else:
            holder[key] = odd
        replace(place / MANIFEST, json.dumps(content).encode())

    del name
    return Damage(f"{MANIFEST}: entry at {choice:.3f} {'removed' if remove else f'is {odd!r}'}", harm)


def _reshape(rng: random.Random, name: str, _: list[str]) -> Damage:
    """Give an array another shape or type, and let the manifest agree."""
    kind = rng.choice(("one row less", "one row more", "float64", "int8", "flat", "no rows"))

    def harm(place: Path) -> None:
        array = np.load(place / name)
        changed = {
            "one row less": lambda: array[:-1],
            "one row more": lambda: np.concatenate([array, array[-1:]]),
            "float64": lambda: array.astype(np.float64),
            "int8": lambda: array.astype(np.int8),
            "flat": lambda: array.reshape(-1),
            "no rows": lambda: array[:0],
        }[kind]()
        _save(place / name, changed)
        content = json.loads((place / MANIFEST).read_bytes())
        entry = content["files"][name.removesuffix(".npy")]
        entry["shape"], entry["dtype"] = list(changed.shape), changed.dtype.str
        replace(place / MANIFEST, json.dumps(content).encode())

    return Damage(f"{name}: {kind}", harm)


def _save(path: Path, array: np.ndarray) -> None:
    path.unlink()
    with path.open("wb") as file, np.errstate(all="ignore"):
        np.lib.format.write_array(file, np.ascontiguousarray(array), version=(1, 0))
