"""The recipe: vectors -> index -> calibration -> bundle."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from greedy_core.bundle.version_names import check_version_name
from greedy_core.bundle.writing import write_bundle
from greedy_core.embeddings import UserVectors, as_user_vectors
from greedy_core.fit.calibration import calibrate
from greedy_core.fit.trial import HeldOut, hold_out
from greedy_core.index import GreedyIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from greedy_core.bundle.opening import Bundle
    from greedy_core.fit.directions import Kind


def build_bundle(
    path: str | Path,
    *,
    items: npt.ArrayLike,
    users: npt.ArrayLike | None = None,
    item_ids: Iterable[object] | None = None,
    user_ids: Iterable[object] | None = None,
    titles: Iterable[str | None] | None = None,
    seen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    directions: Kind = "auto",
    max_budget: int = 4096,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    calibrated: bool = True,
    threads: int | None = None,
    progress: bool = False,
) -> Bundle:
    """Index the items, calibrate the index on users that it was not fitted to, and write the bundle.

    Users without a vector (rows of NaN) take no part in either. Without users there is nothing to calibrate on. What
    the other arguments mean is said at `write_bundle` and `GreedyIndex.build`.
    """
    # Before anything that takes minutes.
    check_version_name(Path(path).name)
    checked = None if users is None else as_user_vectors(users)
    queries = None if checked is None or len(checked.of_known) == 0 else _split(checked, calibrated=calibrated)
    start = perf_counter()
    index = GreedyIndex.build(
        items,
        queries=None if queries is None else UserVectors(queries.fitted, None),
        directions=directions,
        max_budget=max_budget,
        threads=threads,
        progress=progress,
    )
    calibration = None
    if queries is not None and calibrated:
        seconds = perf_counter() - start
        measured = calibrate(index, queries.sample, held_out=queries.separate, seconds=seconds, progress=progress)
        calibration = measured.to_dict()
    return write_bundle(
        path,
        index=index,
        item_ids=item_ids,
        user_vectors=checked,
        user_ids=user_ids,
        titles=titles,
        seen=seen,
        calibration=calibration,
        metadata=metadata,
        version=version,
        progress=progress,
    )


def _split(users: UserVectors, *, calibrated: bool) -> HeldOut:
    """Keep some users back where a calibration will need them."""
    known = users.of_known
    return hold_out(known) if calibrated else HeldOut(known, known, separate=False)
