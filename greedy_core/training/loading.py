"""Events from files. Ids become numbers on the way."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from greedy_core.errors import GreedyCoreError, InvalidEventsError, StorageError, first_line
from greedy_core.formats.names import missing_extra
from greedy_core.training.columns import TABLES, Wanted
from greedy_core.training.events import Events, usable_numbers, usable_times, usable_weights

if TYPE_CHECKING:
    import numpy.typing as npt

    from greedy_core.training.columns import Columns


def load_events(
    path: str | Path,
    *,
    user: str | None = None,
    item: str | None = None,
    weight: str | None = None,
    rating: str | None = None,
    time: str | None = None,
    progress: bool = False,
) -> Events:
    """Read events from .parquet (or a folder of them), .csv, .csv.gz, .tsv or .npz; columns are given by their names.

    Tables are read in batches: the events take up to 20 bytes each, at the peak about twice that, and the ids. Raises
    StorageError for a file that cannot be read, InvalidEventsError for what is in it, with the row.
    """
    path = Path(path)
    if not path.exists():
        raise StorageError(f"{path} does not exist; check the path.")
    wanted = Wanted(user, item, weight, rating, time)
    name = path.name.lower()
    if name.endswith(".npz"):
        return _read_npz(path, wanted)
    if not path.is_dir() and not name.endswith(TABLES):
        raise StorageError(f"{path} is no format for events; give one of {', '.join(TABLES)}, .npz.")
    try:
        from greedy_core.training import tables  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow", "train")) from None
    return tables.read_events(path, wanted, progress=progress)


def _read_npz(path: Path, wanted: Wanted) -> Events:
    try:
        # Opened here because numpy leaves the file open when the archive is damaged.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            if {"indptr", "indices"} <= set(archive.files):
                raise InvalidEventsError(
                    f"{path} is a sparse matrix; save its pairs as arrays called user and item, with a row for each."
                )
            columns = wanted.among(path, archive.files)
            notes = wanted.notes(path, archive.files)
            arrays = {name: archive[name] for name in columns.names}
    except (ValueError, OSError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .npz: {first_line(reason)}.") from None
    _check_lengths(path, columns, arrays)
    users, user_ids = _encoded(path, columns.user, arrays)
    items, item_ids = _encoded(path, columns.item, arrays)
    return Events(
        str(path),
        users,
        items,
        user_ids,
        item_ids,
        None
        if columns.weight is None
        else usable_weights(path, columns.weight, _numeric(path, columns.weight, arrays), 0),
        None
        if columns.rating is None
        else usable_numbers(path, columns.rating, _numeric(path, columns.rating, arrays), 0),
        None if columns.time is None else _times(path, columns.time, arrays[columns.time]),
        notes,
    )


def _check_lengths(path: Path, columns: Columns, arrays: dict[str, npt.NDArray[Any]]) -> None:
    shape = arrays[columns.user].shape
    for name, array in arrays.items():
        if array.ndim != 1 or array.shape != shape:
            raise InvalidEventsError(
                f"the arrays of {path} must be lists of one length, but {columns.user} has shape {shape} and {name} "
                f"{array.shape}."
            )


def _encoded(path: Path, name: str, arrays: dict[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int32], list[str]]:
    if arrays[name].dtype.kind not in "iuU":
        raise InvalidEventsError(
            f"{name} of {path} is {arrays[name].dtype}, but an id is text or a whole number; convert it."
        )
    distinct, codes = np.unique(arrays[name], return_inverse=True)
    ids = [str(value) for value in distinct.tolist()]
    if "" in ids:
        row = int(np.argmax(arrays[name] == ""))
        raise InvalidEventsError(f"row {row} of {path} has no id in {name}; every row needs one.")
    return codes.astype(np.int32), ids


def _numeric(path: Path, name: str, arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    if arrays[name].dtype.kind not in "iuf":
        raise InvalidEventsError(f"{name} of {path} is {arrays[name].dtype}, but numbers were expected; convert it.")
    return arrays[name]


def _as_wide(path: Path, name: str, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return times in another type. Raises InvalidEventsError for one that would turn into another time."""
    wide = values.astype(dtype)
    if dtype.kind != "M":
        wrong = (wide < 0) != (values < 0)
    elif np.can_cast(dtype, values.dtype, "safe") and dtype != values.dtype:
        # Nanoseconds are cut down, and that is meant.
        return wide
    else:
        wrong = (wide.astype(values.dtype) != values) & ~np.isnat(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidEventsError(f"{name} of {path} has {values[row]} in row {row}, which is no time; correct it.")
    return wide


def _times(path: Path, name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind == "M":
        values = _as_wide(path, name, values, np.dtype("datetime64[us]"))
    elif values.dtype.kind in "iu":
        values = _as_wide(path, name, values, np.dtype(np.int64))
    elif values.dtype.kind != "f":
        raise InvalidEventsError(f"{name} of {path} is {values.dtype}, but a time is a number or a date; convert it.")
    else:
        values = values.astype(np.float64)
    return usable_times(path, name, values, 0)
