"""From vectors to a bundle: index, calibration, files. What `budgetrec build` and the demo have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from greedy_core import GreedyIndex, bundle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import numpy as np
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
    directions: Kind = "principal",
    max_budget: int = 4096,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    calibrated: bool = True,
    threads: int | None = None,
    progress: bool = False,
) -> Bundle:
    """Index the items, calibrate the index on the users if that is possible, and write the bundle."""
    index = GreedyIndex.build(
        items, queries=users, directions=directions, max_budget=max_budget, threads=threads, progress=progress
    )
    return bundle.write(
        path,
        index=index,
        item_ids=item_ids,
        user_vectors=users,
        user_ids=user_ids,
        titles=titles,
        seen=seen,
        calibration=calibrate(index, users) if calibrated else None,
        metadata=metadata,
        version=version,
    )


def calibrate(index: GreedyIndex, users: Float32Array | None) -> dict[str, Any] | None:  # noqa: ARG001
    """Return the curve budget -> recall, latency of an index, or None: this release does not measure one yet."""
    return None
