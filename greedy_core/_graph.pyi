from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

def code_stride(n_dims: int) -> int: ...
def encode_rows(
    vectors: npt.NDArray[np.float32],
    mean: npt.NDArray[np.float32],
    out: npt.NDArray[np.uint8],
    details: npt.NDArray[np.uint8],
) -> float: ...
def nearest_in_group(
    products: npt.NDArray[np.float32],
    squares: npt.NDArray[np.float32],
    members: npt.NDArray[np.int32],
    out: npt.NDArray[np.int32],
) -> None: ...

class Reversed:
    def __init__(self, rows: npt.NDArray[np.int32], n_ids: int) -> None: ...
    def together(self, start: int, most_rows: int, out: npt.NDArray[np.int32]) -> None: ...

def prune(
    vectors: npt.NDArray[np.float32],
    squares: npt.NDArray[np.float32],
    start: int,
    candidates: Sequence[npt.NDArray[np.int32]],
    reverse: Reversed | None,
    out: npt.NDArray[np.int32],
) -> None: ...
