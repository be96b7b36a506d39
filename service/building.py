"""From vectors to a bundle: index, calibration, files. What `budgetrec build` and the demo have in common."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core import GreedyIndex, bundle
from greedy_core.calibration import calibrate, hold_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from greedy_core.bundle import Bundle
    from greedy_core.directions import Kind
    from greedy_core.embeddings import Float32Array


def build_bundle(
    path: str | Path,
    *,
    items: Float32Array,
    users: Float32Array | None = None,
    item_ids: Iterable[object] | None = None,
    user_ids: Iterable[object] | None = None,
    titles: Iterable[str | None] | None = None,
    seen: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]] | None = None,
    directions: Kind = "auto",
    max_budget: int = 4096,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    calibrated: bool = True,
    threads: int | None = None,
    progress: bool = False,
) -> Bundle:
    """Index the items, calibrate the index on users that it was not fitted to, and write the bundle.

    Users without a vector (rows of NaN) take no part in either. Without users there is nothing to calibrate on.
    """
    known = None if users is None else users[np.isfinite(users).all(axis=1)]
    fitted = sample = known if known is not None and len(known) else None
    if fitted is not None and calibrated:
        fitted, sample = hold_out(fitted)
    start = perf_counter()
    index = GreedyIndex.build(
        items, queries=fitted, directions=directions, max_budget=max_budget, threads=threads, progress=progress
    )
    calibration = None
    if sample is not None and calibrated:
        measured = calibrate(index, sample, seconds=perf_counter() - start, progress=progress)
        calibration = replace(measured, held_out=sample is not fitted).to_dict()
    return bundle.write(
        path,
        index=index,
        item_ids=item_ids,
        user_vectors=users,
        user_ids=user_ids,
        titles=titles,
        seen=seen,
        calibration=calibration,
        metadata=metadata,
        version=version,
        progress=progress,
    )
