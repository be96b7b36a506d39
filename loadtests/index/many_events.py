"""What a large table of interactions takes before the first round of training: seconds and memory of each stage.

    python -m loadtests.index.many_events --events 100000000

Writes a parquet file of made-up events (text and whole numbers for ids, weights, times; users and items by power laws)
unless it is there, and reads, filters, splits and trains one round of it as `budgetrec train` does. The peak is that of
the process so far, pages of the mapped file among them.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from greedy_core import Interactions, ModelSettings, load_events
from greedy_core.training.models import factorise
from greedy_core.training.split import split

if TYPE_CHECKING:
    from collections.abc import Iterator

_BATCH = 2_000_000
_SECONDS_OF_A_YEAR = 365 * 24 * 60 * 60
_KB = 1 if sys.platform == "darwin" else 1024
_FACTORS = 8


def write_events(path: Path, n_events: int, n_users: int, n_items: int) -> None:
    """Write the table, batch by batch."""
    rng = np.random.default_rng(0)
    names = pa.array([f"user-{number:08d}" for number in range(n_users)])
    schema = pa.schema(
        [("who", pa.string()), ("what", pa.int64()), ("when", pa.timestamp("s")), ("much", pa.float64())]
    )
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, n_events, _BATCH):
            n = min(_BATCH, n_events - start)
            users, items = (
                (n_users * rng.random(n) ** 1.7).astype(np.int64),
                (n_items * rng.random(n) ** 2.5).astype(int),
            )
            times = np.datetime64("2026-01-01", "s") + rng.integers(0, _SECONDS_OF_A_YEAR, n)
            weights = rng.integers(1, 5, n).astype(np.float64)
            file.write_table(pa.table([names.take(pa.array(users)), items, times, weights], schema=schema))


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Print what a stage took."""
    began = perf_counter()
    yield
    seconds = perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KB / 1e9
    print(f"| {what} | {seconds:.1f} | {peak:.2f} |", flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000_000)
    parser.add_argument("--users", type=int, default=2_000_000)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--file", type=Path, help="keep the table here, or use the one that is there")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = asked.file or Path(folder) / "events.parquet"
        if not path.exists():
            write_events(path, asked.events, asked.users, asked.items)
        measure(path)


def measure(path: Path) -> None:
    print("| stage | seconds | peak so far, GB |")
    print("| --- | ---: | ---: |")
    with stage("reading, ids numbered"):
        events = load_events(path, user="who", item="what", weight="much", time="when")
    count = len(events)
    with stage("what counts, and who has met what"):
        met = Interactions.of(events, min_user=3, min_item=3)
    del events
    with stage("holding out the last tenth"):
        parts = split(met, seed=0)
    with stage(f"a round of ALS with {_FACTORS} factors"):
        factorise(parts.training, ModelSettings("als", _FACTORS, iterations=1))
    print(f"{count:,} events of {met.n_users:,} users and {met.n_items:,} items in {path.stat().st_size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
