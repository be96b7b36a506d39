"""A row of numbers for each worker, in memory that all workers share.

    slot 0   [ requests_total{...} | ... | request_seconds buckets | sum | ... | gauges ]  "model version" ...
    slot 1   [ ...                                                                       ]  "..." ...

Each row has exactly one writing process, so an increment is a plain store: no lock, no system call, about 50 ns, and
nothing is lost when the process is killed. prometheus_client's multiprocess mode has a file for each process id, which
pile up as workers are replaced, and costs a microsecond for each count; therefore these rows. A slot belongs to
the position of a worker, not to its process id: a restarted worker goes on counting where its predecessor stopped.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_BYTES = 512


class Rows:
    """The rows of all slots; `mine` is the row that this process writes."""

    def __init__(self, descriptor: int, n_cells: int, *, slots: int, slot: int, n_texts: int = 1) -> None:
        self.slots = slots
        self.slot = slot
        self._n_cells = n_cells
        self._n_texts = n_texts
        self._row_bytes = row_bytes(n_cells, n_texts)
        self._map = mmap.mmap(descriptor, self._row_bytes * slots)
        self.mine = self._row(slot)

    def all(self) -> NDArray[np.float64]:
        """Return a copy of all rows, shape (slots, n_cells)."""
        rows = np.empty((self.slots, self._n_cells))
        for slot in range(self.slots):
            rows[slot] = np.frombuffer(self._map, np.float64, self._n_cells, slot * self._row_bytes)
        return rows

    def clear(self, slot: int, cells: list[int]) -> None:
        """Forget these cells and the texts of a slot: what a dead worker last measured; its counters stay."""
        row = self._row(slot)
        for cell in cells:
            row[cell] = 0.0
        for which in range(self._n_texts):
            self._write_text(slot, which, "")

    def set_text(self, text: str, which: int = 0) -> None:
        """Set one of this slot's texts (the version of a model)."""
        self._write_text(self.slot, which, text)

    def texts(self, which: int = 0) -> list[str]:
        """Return one of the texts of every slot."""
        texts = []
        for slot in range(self.slots):
            start = self._text_start(slot, which)
            raw = self._map[start : start + TEXT_BYTES].split(b"\0", 1)[0]
            texts.append(raw.decode("utf-8", "ignore"))
        return texts

    def _row(self, slot: int) -> memoryview[float]:
        start = slot * self._row_bytes
        return memoryview(self._map)[start : start + self._n_cells * 8].cast("d")

    def _write_text(self, slot: int, which: int, text: str) -> None:
        start = self._text_start(slot, which)
        raw = text.encode()[: TEXT_BYTES - 1]
        self._map[start : start + TEXT_BYTES] = raw.ljust(TEXT_BYTES, b"\0")

    def _text_start(self, slot: int, which: int) -> int:
        return slot * self._row_bytes + self._n_cells * 8 + which * TEXT_BYTES


def row_bytes(n_cells: int, n_texts: int = 1) -> int:
    """Return how many bytes one row takes."""
    return n_cells * 8 + n_texts * TEXT_BYTES
