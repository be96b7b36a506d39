"""Numbers that many processes write and any of them can read: one shared file, one row of doubles per worker slot.

    slot 0   [ requests_total{...} | ... | request_seconds buckets | sum | ... | gauges ]  "model version"
    slot 1   [ ...                                                                       ]  "..."

Each row has exactly one writing process, so an increment is a plain store into a memory map: no lock, no system
call, about 50 ns, and nothing is lost when the process is killed. The slot belongs to the position of a worker,
not to its process id; a restarted worker goes on counting where its predecessor stopped, and no files of dead
workers pile up. A reader sums the rows.
"""

from __future__ import annotations

import mmap
import os
from itertools import product
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

Kind = Literal["counter", "gauge", "histogram"]
Merge = Literal["sum", "max", "min", "mean"]

TEXT_BYTES = 512


class Family(NamedTuple):
    """A metric with all its label values known in advance, so that no label can ever come from a caller."""

    name: str
    kind: Kind
    help: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bounds: tuple[float, ...] = ()
    merge: Merge = "sum"

    @property
    def width(self) -> int:
        """Cells per label combination: a histogram has its buckets, +Inf and the sum."""
        return len(self.bounds) + 2 if self.kind == "histogram" else 1

    def combinations(self) -> list[tuple[str, ...]]:
        """All label values, in the order of their cells."""
        return list(product(*(values for _, values in self.labels)))


class Layout:
    """Where each family's cells lie in a row."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = tuple(families)
        self._first: dict[str, int] = {}
        self._position: dict[str, dict[tuple[str, ...], int]] = {}
        size = 0
        for family in self.families:
            self._first[family.name] = size
            combinations = family.combinations()
            self._position[family.name] = {labels: size + i * family.width for i, labels in enumerate(combinations)}
            size += family.width * len(combinations)
        self.n_cells = size
        self.row_bytes = size * 8 + TEXT_BYTES

    def at(self, name: str, *labels: str) -> int:
        """First cell of one label combination; a KeyError if it was not declared."""
        return self._position[name][labels]

    def gauges(self) -> list[int]:
        """Cells of all gauges: what must not outlive the process that set them."""
        return [
            cell for family in self.families if family.kind == "gauge" for cell in self._position[family.name].values()
        ]


class Cells:
    """The rows of all slots; `mine` is the row this process writes."""

    def __init__(self, layout: Layout, *, slots: int, slot: int, path: Path | None = None) -> None:
        self.layout = layout
        self.slots = slots
        self.slot = slot
        size = layout.row_bytes * slots
        if path is None:
            self._map = mmap.mmap(-1, size)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size < size:
                    os.ftruncate(descriptor, size)
                self._map = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        start = slot * layout.row_bytes
        self.mine = memoryview(self._map)[start : start + layout.n_cells * 8].cast("d")

    def rows(self) -> NDArray[np.float64]:
        """Return a copy of all rows, shape (slots, n_cells)."""
        rows = np.empty((self.slots, self.layout.n_cells))
        for slot in range(self.slots):
            start = slot * self.layout.row_bytes
            rows[slot] = np.frombuffer(self._map, np.float64, self.layout.n_cells, start)
        return rows

    def clear_gauges(self, slot: int) -> None:
        """Forget what a dead worker last measured; its counters stay."""
        view = memoryview(self._map)[slot * self.layout.row_bytes :][: self.layout.n_cells * 8].cast("d")
        for cell in self.layout.gauges():
            view[cell] = 0.0
        self._write_text(slot, "")

    def set_text(self, text: str) -> None:
        """Set this slot's text (the model version)."""
        self._write_text(self.slot, text)

    def texts(self) -> list[str]:
        """Return the text of every slot."""
        texts = []
        for slot in range(self.slots):
            end = (slot + 1) * self.layout.row_bytes
            raw = self._map[end - TEXT_BYTES : end].split(b"\0", 1)[0]
            texts.append(raw.decode("utf-8", "ignore"))
        return texts

    def _write_text(self, slot: int, text: str) -> None:
        end = (slot + 1) * self.layout.row_bytes
        raw = text.encode()[: TEXT_BYTES - 1]
        self._map[end - TEXT_BYTES : end] = raw.ljust(TEXT_BYTES, b"\0")
