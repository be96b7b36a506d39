"""The recipe: vectors -> index -> calibration -> bundle."""

from __future__ import annotations

from collections.abc import Sized
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from greedy_core.bundle.version_names import check_version_name
from greedy_core.bundle.writing import same_number, write_bundle
from greedy_core.embeddings import UserVectors, as_user_vectors
from greedy_core.exact import ExactIndex
from greedy_core.fit.calibration import calibrate
from greedy_core.fit.trial import HeldOut, hold_out
from greedy_core.index import GreedyIndex
from greedy_core.similar import SimilarItems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from greedy_core.attributes.table import Attributes
    from greedy_core.bundle.opening import Bundle
    from greedy_core.fit.directions import Kind
    from greedy_core.fold_in import FoldIn
    from greedy_core.precision import Precision
    from greedy_core.quality import Quality


def build_bundle(
    path: str | Path,
    *,
    items: npt.ArrayLike,
    users: npt.ArrayLike | None = None,
    item_ids: Iterable[object] | None = None,
    user_ids: Iterable[object] | None = None,
    titles: Iterable[str | None] | None = None,
    seen: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    attributes: Attributes | None = None,
    quality: Quality | None = None,
    directions: Kind = "auto",
    max_budget: int = 4096,
    fold_in: FoldIn | None = None,
    similar: bool = True,
    metadata: Mapping[str, Any] | None = None,
    version: str | None = None,
    calibrated: bool = True,
    threads: int | None = None,
    progress: bool = False,
    precision: Precision = "float32",
) -> Bundle:
    """Index the items, calibrate the index on users that it was not fitted to, and write the bundle.

    Users without a vector (rows of NaN) take no part in either. Without users there is nothing to calibrate on.
    `similar` asks for a second index, of the items at unit length, so that similar items are found by cosine; it takes
    about as long to build and as much space again. `precision` is that of the items' rows: the calibration compares
    with exact search over the items as they were given, so that what rounding costs is in it. What the other arguments
    mean is said at `write_bundle` and `GreedyIndex.build`.
    """
    # Before anything that takes minutes.
    check_version_name(Path(path).name)
    checked = None if users is None else as_user_vectors(users)
    _check_lengths(items, checked, item_ids, user_ids, titles)
    queries = None if checked is None or len(checked.of_known) == 0 else _split(checked, calibrated=calibrated)
    start = perf_counter()
    index = GreedyIndex.build(
        items,
        queries=None if queries is None else UserVectors(queries.fitted, None),
        directions=directions,
        max_budget=max_budget,
        threads=threads,
        progress=progress,
        precision=precision,
    )
    calibration = None
    if queries is not None and calibrated:
        seconds = perf_counter() - start
        measured = calibrate(
            index,
            queries.sample,
            held_out=queries.separate,
            seconds=seconds,
            progress=progress,
            exact=None if precision == "float32" else ExactIndex.build(items),
        )
        calibration = measured.to_dict()
    by_cosine = None
    if similar:
        by_cosine = SimilarItems.build(
            index, directions=directions, calibrated=calibrated, threads=threads, progress=progress
        )
    return write_bundle(
        path,
        index=index,
        item_ids=item_ids,
        user_vectors=checked,
        user_ids=user_ids,
        titles=titles,
        seen=seen,
        attributes=attributes,
        quality=quality,
        calibration=calibration,
        fold_in=fold_in,
        similar=by_cosine,
        metadata=metadata,
        version=version,
        progress=progress,
    )


def _check_lengths(
    items: npt.ArrayLike,
    users: UserVectors | None,
    item_ids: Iterable[object] | None,
    user_ids: Iterable[object] | None,
    titles: Iterable[str | None] | None,
) -> None:
    """Refuse lists of the wrong length before the work; what has no length is counted when it is written."""
    n_items = len(items) if isinstance(items, Sized) else None
    for what, given, of, expected in (
        ("item ids", item_ids, "items", n_items),
        ("titles", titles, "items", n_items),
        ("user ids", user_ids, "user vectors", None if users is None else len(users.vectors)),
    ):
        if isinstance(given, Sized) and expected is not None:
            same_number(what, len(given), of, expected)


def _split(users: UserVectors, *, calibrated: bool) -> HeldOut:
    """Keep some users back where a calibration will need them."""
    known = users.of_known
    return hold_out(known) if calibrated else HeldOut(known, known, separate=False)
