"""What is run: the panels of the paper's figures, in three sizes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadtests.index import datasets

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = ("full", "quick", "tiny")
KINDS = ("normal", "uniform", "topics", "interactions")
# How interactions are factorised, and to how many dimensions.
Models = tuple[tuple[str, tuple[int, ...]], ...]
TITLES = {"als": "implicit ALS", "explicit": "weighted-lambda MF"}


@dataclass(frozen=True)
class Data:
    """A data set by its recipe. `kind` is one of KINDS; `items` is 0 where a file decides."""

    kind: str
    items: int
    dims: int
    method: str = "als"
    file: str | None = None

    @property
    def family(self) -> str:
        """The row of a figure that it belongs to: everything but its size and dimensions."""
        if self.kind in ("normal", "uniform"):
            return f"syn-{self.kind}"
        source = Path(self.file).stem if self.file else f"topics-{self.items}"
        return f"{source}, {TITLES[self.method]}"

    @property
    def key(self) -> dict[str, object]:
        """Return what a cached result must have been measured on; a file counts by its content."""
        content = hashlib.blake2b(Path(self.file).read_bytes(), digest_size=8).hexdigest() if self.file else None
        recipe = (self.kind, self.items, self.dims, self.method, content, datasets.METHODS[self.method])
        return dict(zip(("kind", "items", "dims", "method", "file", "recipe"), recipe, strict=True))

    def load(self, queries: int, *, progress: bool) -> datasets.Dataset:
        """Make it, or read it from the cache."""
        name = {"normal": "gaussian"}.get(self.kind, self.kind)
        return datasets.load(
            name,
            items=max(self.items, 1),
            dims=self.dims,
            interactions=self.file,
            method=self.method,
            queries=queries,
            progress=progress,
        )


@dataclass(frozen=True)
class Plan:
    """A whole run. `seconds` caps the time that one setting may take; `grid` thins out the knobs (1 = all)."""

    size: str
    queries: int
    seconds: float
    grid: int
    panels: dict[int, list[Data]] = field(default_factory=dict)

    def data(self) -> Iterator[Data]:
        """Every data set once, in the order of the figures."""
        yield from dict.fromkeys(data for number in sorted(self.panels) for data in self.panels[number])

    def figures_of(self, data: Data) -> list[int]:
        """Return the figures that show it."""
        return [number for number, sets in self.panels.items() if data in sets]

    def only(self, *, figures: list[int] | None, kinds: list[str] | None) -> Plan:
        """Return the plan with only those figures and kinds of data."""
        kept = {
            number: [data for data in sets if kinds is None or data.kind in kinds]
            for number, sets in self.panels.items()
            if figures is None or number in figures
        }
        return replace(self, panels={number: sets for number, sets in kept.items() if sets})


@dataclass(frozen=True)
class _Scale:
    """The numbers in which the sizes of run differ."""

    queries: int
    seconds: float
    grid: int
    various_n: tuple[int, ...]
    dims_at_various_n: int
    various_k: tuple[int, ...]
    items_at_various_k: int
    # Models fitted to interactions, and how many items generated ones have.
    models: Models
    generated: tuple[int, ...]


_SCALES = {
    # Netflix has 17,770 items and Yahoo! Music 624,961: the generated sets are given these sizes.
    "full": _Scale(
        2_000, 1.0, 1, tuple(2**p for p in (17, 18, 19, 20)), 128, (4, 32, 128, 1024), 2**18,
        (("als", (50, 100, 200)), ("explicit", (50, 100, 200))), (17_770, 624_961),
    ),
    "quick": _Scale(
        500, 0.3, 2, tuple(2**p for p in (13, 14, 15, 16)), 128, (4, 32, 128, 256), 2**14,
        (("als", (50, 100, 200)), ("explicit", (50,))), (17_770,),
    ),
    "tiny": _Scale(20, 0.05, 4, (256, 512), 16, (4, 8), 256, (("als", (8,)), ("explicit", (8,))), (400,)),
}  # fmt: skip


def make(size: str, *, interactions: list[Path] | None = None) -> Plan:
    """Return the plan of that size; files of interactions take the place of the generated ones."""
    scale = _SCALES[size]
    real, middle = [], []
    for source in _sources(scale, interactions):
        for method, all_dims in scale.models:
            family = [Data(dims=dims, method=method, **source) for dims in all_dims]
            real += family
            middle.append(family[len(family) // 2])
    panels = {
        3: middle,
        4: real,
        5: [Data(kind, n, scale.dims_at_various_n) for kind in KINDS[:2] for n in scale.various_n],
        6: [Data(kind, scale.items_at_various_k, k) for kind in KINDS[:2] for k in scale.various_k],
    }
    return Plan(size, scale.queries, scale.seconds, scale.grid, panels)


def _sources(scale: _Scale, interactions: list[Path] | None) -> list[dict[str, Any]]:
    if interactions:
        return [{"kind": "interactions", "items": 0, "file": str(path)} for path in interactions]
    return [{"kind": "topics", "items": items} for items in scale.generated]
