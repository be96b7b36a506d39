from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from greedy_core.eligible import Eligible
from greedy_core.result import SearchResult

class Variant(IntEnum):
    threshold = ...
    improved_tree = ...
    improved_heap = ...
    original_tree = ...
    sum = ...
    walk = ...

def few_of(n_items: int) -> int: ...
def instruction_sets() -> dict[str, bool]: ...
def instruction_set() -> str: ...
def use_instruction_set(name: str) -> None: ...
def build_lists(
    columns: npt.NDArray[np.float32], depth: int, ids: npt.NDArray[np.int32], values: npt.NDArray[np.float32]
) -> None: ...
def hash_ids(encoded: list[bytes]) -> npt.NDArray[np.uint64]: ...
def decimal_positions(texts: Iterable[str], length: int) -> npt.NDArray[np.int32]: ...
def find_texts(
    text: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    order: npt.NDArray[np.int32],
    words: Iterable[tuple[bytes, bytes]],
    start: int,
    limit: int,
    most_bytes: int,
) -> tuple[list[int], int, int]: ...

class IdLookup:
    def __init__(
        self,
        text: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
        buckets: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int32],
    ) -> None: ...
    def position(self, text: str) -> int | None: ...
    def positions(self, texts: Iterable[str]) -> npt.NDArray[np.int32]: ...
    def first_bad_id(self) -> int: ...

class Kernel:
    def __init__(
        self,
        rows: npt.NDArray[Any] | None,
        n_dims: int,
        list_ids: npt.NDArray[np.int32] | None,
        list_values: npt.NDArray[np.float32] | None,
        axes: npt.NDArray[np.float32] | None,
        max_budget: int,
        reads: int,
        n_items: int = ...,
    ) -> None: ...
    def walk_on(
        self,
        neighbours: npt.NDArray[np.int32],
        entries: npt.NDArray[np.int32],
        codes: npt.NDArray[np.uint8],
        details: npt.NDArray[np.uint8],
        longest: float,
        scanned: int = ...,
        guided: bool = ...,
    ) -> None: ...
    def first_bad_list(self) -> int: ...
    def first_bad_item(self) -> int: ...
    def search(
        self,
        query: npt.ArrayLike,
        top_k: int,
        budget: int,
        exclude: npt.ArrayLike | None,
        variant: Variant,
        few: Variant,
        remembered: npt.NDArray[np.int32] | None,
        eligible: Eligible | None,
        page: int | None,
    ) -> SearchResult: ...
    def products(self, row: npt.NDArray[np.float32], others: npt.ArrayLike) -> npt.NDArray[np.float32]: ...
    def screen(
        self,
        query: npt.ArrayLike,
        budget: int,
        exclude: npt.ArrayLike | None,
        variant: Variant,
        few: Variant,
        ordered: bool,
        remembered: npt.NDArray[np.int32] | None,
        eligible: Eligible | None,
        top_k: int,
    ) -> tuple[npt.NDArray[np.int32], int, int]: ...
    def search_batch(
        self,
        queries: npt.ArrayLike,
        top_k: int,
        budget: Any,
        exclude: Any,
        variant: Variant,
        few: Variant,
        threads: int,
        remembered: Any,
        eligible: Any,
    ) -> list[SearchResult]: ...
