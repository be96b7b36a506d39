"""A night's recommendations by Ray Data: parts are given out to workers, each of which has the model open.

The model is mapped by every worker and lies in memory once for each node. Parts are parquet files beside the one that
is written, in a folder that all nodes must see; what is there is not written again, so a run that was killed goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ray

from service.cluster.starting import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from greedy_core import Parts


class PartsWriter:
    """A worker of the pool: writes the parts whose numbers it is given."""

    def __init__(self, parts: Parts) -> None:
        self._write = parts.writer()

    def __call__(self, batch: Mapping[str, npt.NDArray[np.int64]]) -> dict[str, Any]:
        """Write the parts of a batch, and return their numbers."""
        return {"number": [self._write(number) for number in batch["number"].tolist()]}


def parts_on_ray(workers: int | None = None) -> Callable[[Parts], Iterator[int]]:
    """Return what writes parts on Ray, for `write_recommendations`; without a number, with a worker for each core."""

    def write(parts: Parts) -> Iterator[int]:
        connect()
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        n_workers = min(workers or cores, len(parts.missing))
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        numbers = ray.data.from_items(
            [{"number": number} for number in parts.missing], override_num_blocks=len(parts.missing)
        )
        done = numbers.map_batches(
            PartsWriter,
            fn_constructor_args=(parts,),
            batch_size=1,
            num_cpus=1,
            concurrency=n_workers,
        )
        for row in done.iter_rows():
            yield int(row["number"])

    return write
