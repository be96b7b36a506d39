import numpy as np
import numpy.typing as npt

def fold_in(
    items: npt.NDArray[np.float32],
    gram: npt.NDArray[np.float64],
    inverse: npt.NDArray[np.float64],
    ids: npt.NDArray[np.int32],
    certain: npt.NDArray[np.float64],
    prior: npt.NDArray[np.float32] | None,
) -> npt.NDArray[np.float32] | None: ...
def weighted_mean(
    items: npt.NDArray[np.float32], ids: npt.NDArray[np.int32], weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]: ...
