"""Measured settings, kept so that a run can be stopped and taken up again."""

from __future__ import annotations

import csv
import functools
import hashlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadtests.index.baselines import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "paper"


@dataclass(frozen=True)
class Result:
    """One point of one curve. Speed-ups follow from its seconds and from those of the naive searches."""

    figures: str
    data: str
    items: int
    dims: int
    curve: str
    knobs: str
    prec_5: float
    prec_10: float
    recall_10: float
    seconds: float
    products: float
    queries: int
    speedup_over_paper_naive: float
    speedup_over_our_naive: float

    @property
    def panel(self) -> tuple[str, int, int]:
        """The data set that it was measured on."""
        return self.data, self.items, self.dims


@functools.cache
def code_digest(*, ours: bool) -> str:
    """Name the code behind our index or behind the compared methods: a result of other code is measured again."""
    core = ROOT / "greedy_core"
    if ours:
        names = ("index", "kernel_index", "exact", "screening")
        paths = [*(core / "native").glob("*"), core / "_kernel.pyx", *(core / f"{name}.py" for name in names)]
        paths += (core / "fit").glob("*.py")
    else:
        paths = [*build.sources(), *build.HERE.glob("*.py")]
    seen = hashlib.blake2b(digest_size=8)
    for path in sorted([*paths, Path(__file__).with_name("measure.py")]):
        seen.update(path.read_bytes())
    return seen.hexdigest()


class Cache:
    """JSON values under names made from a description of what they depend on; `stored` counts the new ones."""

    def __init__(self, folder: Path = CACHE) -> None:
        self.folder = folder
        self.stored = 0

    def path(self, key: dict[str, Any]) -> Path:
        """Return the file for a description."""
        text = json.dumps(key, sort_keys=True)
        return self.folder / f"{hashlib.blake2b(text.encode(), digest_size=12).hexdigest()}.json"

    def get(self, key: dict[str, Any]) -> Any | None:
        """Return the stored value, or None. A file that was cut short counts as absent."""
        try:
            return json.loads(self.path(key).read_text())["value"]
        except (FileNotFoundError, json.JSONDecodeError, KeyError):
            return None

    def put(self, key: dict[str, Any], value: Any) -> None:
        """Store a value under its description, whole or not at all."""
        path = self.path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(json.dumps({"key": key, "value": value}))
        unfinished.replace(path)
        self.stored += 1

    def remember(self, key: dict[str, Any], make: Callable[[], Any]) -> Any:
        """Return the stored value, made and stored first if there is none."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value


def write_csv(path: Path, results: Iterable[Result]) -> None:
    """Write one line for each result, numbers with as many digits as they deserve."""
    rows = [asdict(result) for result in results]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(Result.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()}
            )
