"""A row of numbers for each worker, in memory that all workers share.

    slot 0   [ requests_total{...} | ... | request_seconds buckets | sum | ... | gauges ]  "model version"
    slot 1   [ ...                                                                       ]  "..."

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

    def __init__(self, descriptor: int, n_cells: int, *, slots: int, slot: int) -> None:
        self.slots = slots
        self.slot = slot
        self._n_cells = n_cells
        self._row_bytes = row_bytes(n_cells)
        self._map = mmap.mmap(descriptor, self._row_bytes * slots)
        self.mine = self._row(slot)

    def all(self) -> NDArray[np.float64]:
        """Return a copy of all rows, shape (slots, n_cells)."""
        rows = np.empty((self.slots, self._n_cells))
        for slot in range(self.slots):
            rows[slot] = np.frombuffer(self._map, np.float64, self._n_cells, slot * self._row_bytes)
        return rows

    def clear(self, slot: int, cells: list[int]) -> None:
        """Forget these cells and the text of a slot: what a dead worker last measured; its counters stay."""
        row = self._row(slot)
        for cell in cells:
            row[cell] = 0.0
        self._write_text(slot, "")

    def set_text(self, text: str) -> None:
        """Set this slot's text (the model version)."""
        self._write_text(self.slot, text)

    def texts(self) -> list[str]:
        """Return the text of every slot."""
        texts = []
        for slot in range(self.slots):
            end = (slot + 1) * self._row_bytes
            raw = self._map[end - TEXT_BYTES : end].split(b"\0", 1)[0]
            texts.append(raw.decode("utf-8", "ignore"))
        return texts

    def _row(self, slot: int) -> memoryview[float]:
        start = slot * self._row_bytes
        return memoryview(self._map)[start : start + self._n_cells * 8].cast("d")

    def _write_text(self, slot: int, text: str) -> None:
        end = (slot + 1) * self._row_bytes
        raw = text.encode()[: TEXT_BYTES - 1]
        self._map[end - TEXT_BYTES : end] = raw.ljust(TEXT_BYTES, b"\0")


def row_bytes(n_cells: int) -> int:
    """Return how many bytes one row takes."""
    return n_cells * 8 + TEXT_BYTES
