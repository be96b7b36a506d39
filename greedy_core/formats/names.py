"""The named parts of a file: an array of .npz, a tensor of .safetensors, a column of .parquet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from greedy_core.errors import InvalidEmbeddingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WITH_KEY = re.compile(
    r"(?P<path>.+\.(?:npz|parquet|safetensors|pt|pth|csv|tsv|jsonl|ndjson)(?:\.gz)?):(?P<key>[^/]+)", re.IGNORECASE
)


class Source(NamedTuple):
    """FILE or FILE:KEY."""

    path: Path
    key: str | None


def parse_source(text: str | Path) -> Source:
    """Split FILE:KEY; a file whose name really has a colon is taken as it is."""
    match = _WITH_KEY.fullmatch(str(text))
    if match is None or Path(text).exists():
        return Source(Path(text), None)
    return Source(Path(match["path"]), match["key"])


def choose_name(path: Path, noun: str, names: Sequence[str], key: str | None) -> str:
    """Return the one name that is meant, or say which there are."""
    if key is None and len(names) == 1:
        return names[0]
    if key is not None and key in names:
        return key
    there = listed(names)
    if key is None:
        raise InvalidEmbeddingsError(f"{path} must have exactly one {noun} unless one is named; it has: {there}.")
    raise InvalidEmbeddingsError(f"{path} has no {noun} called {key}; it has: {there}.")


def listed(names: Sequence[str]) -> str:
    """Return names for a sentence; in quotes where one has a comma or spaces, so that it is seen where each ends."""
    plain = all(re.fullmatch(r"[^\s,'\"]+", name) for name in names)
    return ", ".join(names if plain else map(repr, names)) or "none"


def missing_extra(what: object, module: str, extra: str = "formats") -> str:
    """Return the sentence that says how to get an optional library."""
    return f"{what} needs {module}, which is not installed; in a checkout of budgetrec, run: pip install '.[{extra}]'."
