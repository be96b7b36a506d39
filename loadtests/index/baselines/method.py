"""What every compared method looks like from outside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, NDArray

# Rows are padded with zeros to whole cache lines, as the search core's are.
LANE_BLOCK = 16


class UnsuitableDataError(ValueError):
    """The data is not of the kind that the method is for."""


class Answer(NamedTuple):
    """The best items found for one query, best first, and what they cost."""

    ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    candidates: int
    products: int


class Answers(NamedTuple):
    """The same for a batch, one row per query; places that nothing was found for hold id -1.

    `candidates` counts the items that were ranked exactly, `products` all inner products of full length:
    those and the ones that the screening needed for hashes, centres or components.
    """

    ids: NDArray[np.int32]
    scores: NDArray[np.float32]
    candidates: NDArray[np.int64]
    products: NDArray[np.int64]


class Method(ABC):
    """A searcher over fixed items. Made by `build`; queries run one at a time in one thread."""

    name: ClassVar[str]

    def __init__(self, n_items: int, n_dims: int) -> None:
        self.n_items = n_items
        self.n_dims = n_dims

    def query(self, w: ArrayLike, top_k: int, **knobs: int) -> Answer:
        """Answer one query vector of length n_dims."""
        answers = self.query_batch(np.asarray(w, dtype=np.float32)[None, :], top_k, **knobs)
        found = int(np.count_nonzero(answers.ids[0] >= 0))
        return Answer(
            answers.ids[0, :found],
            answers.scores[0, :found],
            int(answers.candidates[0]),
            int(answers.products[0]),
        )

    def query_batch(self, queries: ArrayLike, top_k: int, **knobs: int) -> Answers:
        """Answer queries of shape (n_queries, n_dims), one after the other."""
        rows = np.asarray(queries, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_dims:
            raise ValueError(f"Queries have shape {rows.shape}; expected (n_queries, {self.n_dims}).")
        if not np.isfinite(rows).all():
            raise ValueError("Queries hold NaN or infinite values; expected finite numbers.")
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}; expected at least 1.")
        return self._search(rows, int(top_k), **knobs)

    @abstractmethod
    def _search(self, queries: NDArray[np.float32], top_k: int, **knobs: int) -> Answers:
        """Answer validated queries."""


def validated(items: ArrayLike) -> NDArray[np.float32]:
    """Items as a float32 matrix, or a sentence that says what is wrong with them."""
    matrix = np.asarray(items, dtype=np.float32)
    if matrix.ndim != 2 or min(matrix.shape) < 1:
        raise ValueError(f"Items have shape {matrix.shape}; expected (n_items, n_dims), both at least 1.")
    if not np.isfinite(matrix).all():
        raise ValueError("Items hold NaN or infinite values; expected finite numbers.")
    return matrix


def in_range(name: str, value: int, low: int, high: int | None = None) -> int:
    """Return the knob's value if it is allowed."""
    if int(value) != value or value < low or (high is not None and value > high):
        upper = "" if high is None else f" to {high}"
        raise ValueError(f"{name} is {value}; expected a whole number from {low}{upper}.")
    return int(value)


def padded(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows copied to cache-line boundaries, each followed by zeros up to a whole number of lines."""
    n_rows, n_dims = vectors.shape
    stride = -(-n_dims // LANE_BLOCK) * LANE_BLOCK
    room = np.zeros(n_rows * stride + LANE_BLOCK, dtype=np.float32)
    skip = (-room.ctypes.data % (4 * LANE_BLOCK)) // 4
    rows = room[skip : skip + n_rows * stride].reshape(n_rows, stride)
    rows[:, :n_dims] = vectors
    return rows


def columns(items: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield every column as a contiguous array; sixteen are copied at once, as many as a cache line holds."""
    for begin in range(0, items.shape[1], LANE_BLOCK):
        block = np.ascontiguousarray(items[:, begin : begin + LANE_BLOCK].T)
        for offset, column in enumerate(block):
            yield begin + offset, column
