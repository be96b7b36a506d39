"""Vectors from files: .npy, .npz, .parquet, .safetensors, torch's .pt, and tables of text."""

from __future__ import annotations

import gzip
import pickle
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from greedy_core.embeddings import as_embeddings
from greedy_core.errors import GreedyCoreError, InvalidEmbeddingsError, StorageError, first_line
from greedy_core.formats.names import choose_name, missing_extra, parse_source

if TYPE_CHECKING:
    from greedy_core.embeddings import Float32Array


class Embeddings(NamedTuple):
    """What a file held: the vectors, and the ids beside them if there were any."""

    vectors: Float32Array
    ids: list[str] | None


def load_embeddings(path: str | Path, key: str | None = None, *, id_column: str | None = None) -> Embeddings:
    """Read vectors from .npy, .npz, .parquet, .safetensors, .pt, .csv or .tsv, packed by gzip or not, and check them.

    `key` names the array (.npz, .safetensors, .pt) or the list column (.parquet); it may be left out where there
    is only one, or be given as FILE:KEY. A table holds a list column (.parquet only), or one numeric column per
    dimension; `id_column`, or else a column called id, item_id or user_id, gives the ids. A .csv whose first line is
    numbers has no names. A float32 .npy file is memory-mapped, not read. A .pt file holds a tensor, or names with
    tensors: nothing else in it is loaded.
    Tables and safetensors need the extra `formats`, .pt the extra `towers`. Raises StorageError for a file that cannot
    be read, InvalidEmbeddingsError for what is in it.
    """
    source, named = parse_source(path)
    path, key = source, named if key is None else key
    readers = {
        ".npy": _read_npy,
        ".npz": _read_npz,
        ".parquet": _read_parquet,
        ".safetensors": _read_safetensors,
        ".pt": _read_torch,
        ".pth": _read_torch,
        ".csv": _read_csv,
        ".tsv": _read_csv,
    }
    reader = readers.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if reader is not _read_csv and path.suffix.lower() == ".gz":
        reader = _unpacked if reader is not None else None
    if reader is None:
        raise StorageError(f"{path} is no format that can be read; give one of {', '.join(readers)}.")
    if not path.is_file():
        raise StorageError(f"{path} does not exist or is not a file; check the path.")
    return reader(path, key, id_column)


def _read_npy(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    _refuse_names(path, key=key, id_column=id_column)
    try:
        # Memory-mapped, so that a float64 file of any size is converted without being read twice.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as reason:
        raise StorageError(f"{path} cannot be read as .npy: {first_line(reason)}.") from None
    return Embeddings(as_embeddings(array, name=str(path)), None)


def _read_npz(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    _refuse_names(path, id_column=id_column)
    try:
        # Opened here because numpy leaves the file open when the archive is damaged.
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise StorageError(f"{path} is not a .npz archive; rename it to what it is.")
            with archive:
                array = archive[choose_name(path, "array", archive.files, key)]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(f"{path} cannot be read as .npz: {first_line(reason)}.") from None
    return Embeddings(as_embeddings(array, name=str(path)), None)


def _read_safetensors(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    _refuse_names(path, id_column=id_column)
    try:
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "safetensors")) from None
    try:
        with safe_open(path, framework="np") as tensors:
            array = tensors.get_tensor(choose_name(path, "tensor", list(tensors.keys()), key))
    except (SafetensorError, OSError, TypeError, AttributeError) as reason:
        if isinstance(reason, GreedyCoreError):
            raise
        raise StorageError(
            f"{path} cannot be read as .safetensors: {first_line(reason)}; save the tensor as float32."
        ) from None
    return Embeddings(as_embeddings(array, name=str(path)), None)


def _read_parquet(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    try:
        from greedy_core.formats import parquet  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow")) from None
    return Embeddings(*parquet.read_vectors(path, key, id_column))


def _read_csv(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    _refuse_names(path, key=key)
    try:
        from greedy_core.formats import parquet  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "pyarrow")) from None
    return Embeddings(*parquet.read_separated(path, id_column))


def _read_torch(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    _refuse_names(path, id_column=id_column)
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(missing_extra(path, "torch", "towers")) from None
    try:
        # Tensors only: a pickle that runs code is refused.
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        # What torch says here advises to load it all the same, and so to run what is in it.
        raise StorageError(
            f"{path} is damaged or holds more than tensors, which could run code and is never loaded; save the tensor "
            "itself, or a state_dict."
        ) from None
    except (RuntimeError, OSError, ValueError, EOFError, TypeError, AttributeError, LookupError) as reason:
        raise StorageError(
            f"{path} cannot be read as .pt: {first_line(reason)}; save the tensor itself, or a state_dict."
        ) from None
    tensors = loaded if isinstance(loaded, dict) else {"tensor": loaded}
    matrices = {
        str(name): value
        for name, value in tensors.items()
        if isinstance(value, torch.Tensor) and value.ndim == 2 and value.layout == torch.strided
    }
    chosen = matrices[choose_name(path, "matrix", list(matrices), key)]
    return Embeddings(as_embeddings(chosen.detach().to(torch.float32).numpy(), name=str(path)), None)


def _unpacked(path: Path, key: str | None, id_column: str | None) -> Embeddings:
    """Unpack a .gz file beside nobody's way, and read what was in it."""
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder) / path.name[: -len(".gz")]
        try:
            with gzip.open(path) as packed, inner.open("wb") as file:
                shutil.copyfileobj(packed, file)
        except (OSError, EOFError, zlib.error) as reason:
            raise StorageError(f"{path} cannot be unpacked: {first_line(reason)}.") from None
        try:
            vectors, ids = load_embeddings(inner, key, id_column=id_column)
        except GreedyCoreError as reason:
            raise type(reason)(str(reason).replace(str(inner), str(path))) from None
        # A mapped file goes with the folder.
        return Embeddings(np.array(vectors), ids)


def _refuse_names(path: Path, **names: str | None) -> None:
    for option, value in names.items():
        if value is not None:
            raise InvalidEmbeddingsError(
                f"{path} has no named parts, so {option}={value!r} means nothing; leave it out."
            )
