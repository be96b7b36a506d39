"""Bundles with one thing wrong: every file cut, flipped, swapped or lost, and values that no build would write.

    for mutation in mutations(bundle, seed=1):
        target = mutation.make(bundle, folder / "mutant")
        assert judge(target, answers(bundle)) in mutation.allowed

A mutation that is `signed` has its checksums computed again, so that only the meaning of what is stored can give it
away. Some of these are models that somebody could have built (another title, another user's vector): such a mutation is
`plausible`, and may answer differently, but never crash, hang or answer nonsense.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from greedy_core import MANIFEST_NAME, Bundle, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from greedy_core import SimilarItems

Verdict = Literal["refused", "same", "different"]

# Arrays whose values are the maker's own choice: another value is another model, not a damaged one.
_FREE = frozenset({"users.vectors", "users.known", "seen.items", "seen.starts", "popular"})
_FREE_PARTS = ("items.titles.", "attributes.")
# The fit is compared with the rows within a tolerance; a flipped bit may be within it.
_WITHIN_TOLERANCE = frozenset(
    {
        "index.rows",
        "index.list_values",
        "index.axes",
        "users.remembered",
        "similar.rows",
        "similar.list_values",
        "similar.axes",
        "similar.remembered",
        "fold_in.gram",
        "fold_in.inverse",
    }
)
_WRONG_FLOATS = (np.nan, np.inf, -np.inf, 1e30, 2e15)
_WRONG_INTEGERS = (-1, -(2**31), 2**31 - 1)
_WRONG_INFO = (None, "", "text", -1, 0, 2**40, 1.5, [], {}, True)
_N_FLIPS = 3


@dataclass(frozen=True)
class Mutation:
    """One thing that is done to a copy of a bundle."""

    name: str
    change: Callable[[Path], None]
    plausible: bool = False

    @property
    def allowed(self) -> set[Verdict]:
        """What may become of it."""
        return {"refused", "same", "different"} if self.plausible else {"refused", "same"}

    def make(self, bundle: Path, target: Path) -> Path:
        """Write the mutant to a new directory."""
        shutil.copytree(bundle, target)
        self.change(target)
        return target


def mutations(bundle: Path, seed: int) -> Iterator[Mutation]:
    """Yield all mutations of a bundle; the seed chooses places and values."""
    rng = np.random.default_rng(seed)
    names = sorted(_manifest(bundle)["files"])
    for file in [MANIFEST_NAME, *(f"{name}.npy" for name in names)]:
        yield from _of_file(bundle, file, rng)
    for name in names:
        yield from _of_array(bundle, name, rng)
    for one, other in rng.choice(len(names), size=(len(names), 2)):
        if one != other:
            pair = names[one], names[other]
            yield Mutation(f"{pair[0]} and {pair[1]} exchanged", partial(_exchange_files, pair=pair))
            yield Mutation(f"{pair[0]} and {pair[1]} exchanged, signed", partial(_exchange_entries, pair=pair))
    yield from _of_info(bundle, rng)


def answers(bundle: Path) -> bytes:
    """Verify a bundle and ask it everything; the same answers have the same digest. Raises StorageError."""
    opened = Bundle.open(bundle)
    opened.verify()
    index = opened.index
    said: list[Any] = [opened.n_items, opened.n_dims, opened.n_users, opened.popular.tolist()]
    ids = opened.item_ids(range(opened.n_items))
    said += [ids, opened.item_positions(ids).tolist(), [opened.title(j) for j in range(opened.n_items)]]
    for user in range(opened.n_users):
        name, vector, seen = opened.user_id(user), opened.user_vector(user), opened.seen_items(user)
        said.append([name, opened.user_position(name), seen.tolist()])
        if vector is None:
            said.append(None)
            continue
        for budget in (1, 7, min(index.max_budget, opened.n_items)):
            for remembered in (None, opened.user_remembered(user)):
                found = index.search(vector, 10, budget, seen, None, remembered)
                nonsense = (
                    found.spent > budget
                    or not np.isfinite(found.scores).all()
                    or not ((found.ids >= 0) & (found.ids < opened.n_items)).all()
                    or np.isin(found.ids, seen).any()
                )
                if nonsense:
                    raise AssertionError(f"{bundle} answers nonsense: {found}")
                said.append([found.ids.tolist(), found.scores.tolist(), found.spent, found.complete])
    said += [opened.vector_of_items([item]).vector.tolist() for item in range(min(3, opened.n_items))]
    said.append(None if opened.similar is None else _neighbours(opened.similar, opened.n_items))
    for each in opened.attributes.describe():
        attribute = opened.attributes[each["name"]]
        said.append([each, [attribute.value(item) for item in range(opened.n_items)]])
    return hashlib.sha256(repr(said).encode()).digest()


def _neighbours(similar: SimilarItems, n_items: int) -> list[Any]:
    """Return what each item, and some together, find."""
    found = []
    for items in [*([item] for item in range(n_items)), [0, 1, n_items - 1]]:
        query, remembered, exclude = similar.query(items)
        result = similar.index.search(query, 5, 7, exclude, None, remembered)
        found.append([result.ids.tolist(), result.scores.tolist(), result.spent])
    return found


def judge(mutant: Path, expected: bytes) -> Verdict:
    """Tell what became of a mutant. Anything but a refusal or an answer is raised."""
    try:
        return "same" if answers(mutant) == expected else "different"
    except StorageError:
        return "refused"


# ---- files -------------------------------------------------------------------------------------------------------


def _of_file(bundle: Path, file: str, rng: np.random.Generator) -> Iterator[Mutation]:
    size = (bundle / file).stat().st_size
    for length in (0, 1, int(rng.integers(size)), size - 1):
        yield Mutation(f"{file} cut to {length} bytes", partial(_cut, file=file, length=length))
    yield Mutation(f"{file} with a byte too many", partial(_append, file=file))
    yield Mutation(f"{file} removed", lambda path: (path / file).unlink())
    for kind, replace in _REPLACEMENTS.items():
        yield Mutation(f"{file} replaced by {kind}", partial(_replace, file=file, by=replace))
    for at in rng.integers(size, size=_N_FLIPS):
        mask = 1 << int(rng.integers(8))
        yield Mutation(f"{file} with byte {at} flipped by {mask}", partial(_flip, file=file, at=int(at), mask=mask))


def _cut(path: Path, file: str, length: int) -> None:
    with (path / file).open("r+b") as opened:
        opened.truncate(length)


def _append(path: Path, file: str) -> None:
    with (path / file).open("ab") as opened:
        opened.write(b"\0")


def _flip(path: Path, file: str, at: int, mask: int) -> None:
    content = bytearray((path / file).read_bytes())
    content[at] ^= mask
    (path / file).write_bytes(content)


def _replace(path: Path, file: str, by: Callable[[Path], None]) -> None:
    (path / file).unlink()
    by(path / file)


_REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "a directory": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda place: place.symlink_to("/dev/zero"),
    "a loop of links": lambda place: place.symlink_to(place.name),
}


def _exchange_files(path: Path, pair: tuple[str, str]) -> None:
    one, other = (path / f"{name}.npy" for name in pair)
    one.rename(path / "exchanged")
    other.rename(one)
    (path / "exchanged").rename(other)


# ---- arrays, with the checksums computed again -------------------------------------------------------------------


def _of_array(bundle: Path, name: str, rng: np.random.Generator) -> Iterator[Mutation]:
    array = np.load(bundle / f"{name}.npy")
    free = name in _FREE or name.startswith(_FREE_PARTS)
    yield Mutation(f"{name} dropped, signed", partial(_edit_entries, edit=lambda files: files.pop(name)))
    yield Mutation(
        f"{name} under another name, signed",
        partial(_rename_array, name=name, new=f"{name}.other"),
    )
    if array.size == 0:
        return
    for at in rng.integers(array.nbytes, size=_N_FLIPS):
        mask = 1 << int(rng.integers(8))
        yield Mutation(
            f"{name} with byte {at} of its data flipped by {mask}, signed",
            partial(_store, name=name, change=partial(_flipped, at=int(at), mask=mask)),
            plausible=free or name in _WITHIN_TOLERANCE,
        )
    wrong: tuple[float, ...] = ()
    if array.dtype.kind == "f":
        wrong = _WRONG_FLOATS
    elif array.dtype.kind == "i":
        wrong = tuple(value for value in _WRONG_INTEGERS if np.can_cast(np.min_scalar_type(value), array.dtype))
    elif name.endswith(".text"):
        wrong = (0xFF,)
    for value in wrong:
        at = int(rng.integers(array.size))
        yield Mutation(
            f"{name}[{at}] = {value}, signed",
            partial(_store, name=name, change=partial(_put, at=at, value=value)),
            # A price may be as large as it likes.
            plausible=name.startswith("attributes.") and abs(value) < np.inf,
        )
    if array.ndim == 2:
        row = int(rng.integers(len(array)))
        value = {"f": np.nan, "u": 255}.get(array.dtype.kind, -1)
        yield Mutation(
            f"row {row} of {name} = {value}, signed",
            partial(_store, name=name, change=partial(_put, at=(row, slice(None)), value=value)),
        )
    if array.dtype.kind == "f":
        yield Mutation(
            f"{name} with all signs turned, signed", partial(_store, name=name, change=np.negative), plausible=free
        )
    for what, change in (("a row too few", lambda values: values[:-1]), ("a row twice", _last_twice)):
        yield Mutation(f"{name} with {what}, signed", partial(_store, name=name, change=change), plausible=free)
    yield Mutation(f"{name} backwards, signed", partial(_store, name=name, change=_backwards), plausible=free)
    yield Mutation(
        f"{name} of another dtype, signed",
        partial(_store, name=name, change=lambda values: values.astype(np.float64)),
    )


def _flipped(array: np.ndarray, at: int, mask: int) -> np.ndarray:
    content = bytearray(array.tobytes())
    content[at] ^= mask
    return np.frombuffer(bytes(content), dtype=array.dtype).reshape(array.shape)


def _put(array: np.ndarray, at: Any, value: float) -> np.ndarray:
    (array if isinstance(at, tuple) else array.reshape(-1))[at] = value
    return array


def _last_twice(array: np.ndarray) -> np.ndarray:
    return np.concatenate([array, array[-1:]])


def _backwards(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array[::-1])


def _store(path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Change an array, and sign the bundle again."""
    array = change(np.load(path / f"{name}.npy"))
    np.save(path / f"{name}.npy", array)

    def edit(files: dict[str, Any]) -> None:
        content = (path / f"{name}.npy").read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        files[name] = {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": len(content), "checksum": digest}

    _edit_entries(path, edit)


def _rename_array(path: Path, name: str, new: str) -> None:
    (path / f"{name}.npy").rename(path / f"{new}.npy")
    _edit_entries(path, lambda files: files.update({new: files.pop(name)}))


def _exchange_entries(path: Path, pair: tuple[str, str]) -> None:
    _exchange_files(path, pair)
    one, other = pair
    _edit_entries(path, lambda files: files.update({one: files[other], other: files[one]}))


# ---- the manifest ------------------------------------------------------------------------------------------------


def _of_info(bundle: Path, rng: np.random.Generator) -> Iterator[Mutation]:
    info = _manifest(bundle)["info"]
    places = [(key,) for key in info] + [("index", key) for key in info["index"]]
    # How much is read for a candidate, and what things are called, is the maker's choice.
    free = {"reads", "variant", "version", "built_at", "metadata", "calibration", "directions"}
    for place in places:
        plausible = place[-1] in free
        yield Mutation(f"info {place} removed, signed", partial(_edit_info, place=place), plausible=plausible)
        for value in rng.choice(np.array(_WRONG_INFO, dtype=object), size=4, replace=False):
            yield Mutation(
                f"info {place} = {value!r}, signed",
                partial(_edit_info, place=place, value=[value]),
                plausible=plausible,
            )


def _manifest(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / MANIFEST_NAME).read_bytes())
    return content


def _edit_entries(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    content = _manifest(path)
    edit(content["files"])
    _sign(path, content)


def _edit_info(path: Path, place: tuple[str, ...], value: list[Any] | None = None) -> None:
    content = _manifest(path)
    within = content["info"]
    for key in place[:-1]:
        within = within[key]
    if value is None:
        del within[place[-1]]
    else:
        within[place[-1]] = value[0]
    _sign(path, content)


def _sign(path: Path, content: dict[str, Any]) -> None:
    """Write a manifest with the checksum that belongs to it."""
    covered = {key: value for key, value in content.items() if key != "checksum"}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    content["checksum"] = hashlib.sha256(text.encode()).hexdigest()
    (path / MANIFEST_NAME).write_text(json.dumps(content, indent=1))
