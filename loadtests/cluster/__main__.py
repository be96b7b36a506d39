"""`make cluster`: the service on a real Ray of this machine, against the same model in one process; three minutes.

Prints tables for RESULTS.md, and writes latencies.json for loadtests/fleet.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from greedy_core import build_bundle, build_shards
from loadtests.cluster import batches, faults, overhead
from loadtests.cluster.running import Cluster, OneProcess

LATENCIES = Path(__file__).with_name("latencies.json")


def make_vectors(items: int, users: int, dims: int) -> dict[str, Any]:
    """Return vectors with skewed dimensions and lengths, as a factorisation has them, as arguments of a build."""
    rng = np.random.default_rng(0)
    scale = np.linspace(1.5, 0.1, dims)
    vectors = (rng.standard_normal((items, dims)) * scale).astype(np.float32)
    vectors *= rng.lognormal(0, 0.5, items).astype(np.float32)[:, None]
    asked = (rng.standard_normal((users, dims)) * scale).astype(np.float32)
    return {"items": vectors, "users": asked, "directions": "sparse", "similar": False, "calibrated": False}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=40_000)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--dims", type=int, default=64)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0, help="How long each load goes on.")
    parser.add_argument("--only", choices=("overhead", "faults", "batches"), action="append")
    asked = parser.parse_args()
    wanted = asked.only or ["overhead", "faults", "batches"]
    with tempfile.TemporaryDirectory() as place:
        vectors = make_vectors(asked.items, asked.users, asked.dims)
        print(f"{asked.items:,} items x {asked.dims}, {asked.users:,} users, {asked.shards} shards\n")
        if set(wanted) - {"batches"}:
            bundle = build_shards(Path(place) / "sharded", asked.shards, **vectors)
            began = time.perf_counter()
            with Cluster(bundle.path, ingresses=2) as cluster:
                print(f"Ray and Serve started in {time.perf_counter() - began:.0f} s\n", flush=True)
                if "overhead" in wanted:
                    with OneProcess(bundle.path) as alone:
                        measured = overhead.measure(bundle, cluster, alone)
                    LATENCIES.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
                if "faults" in wanted:
                    faults.measure(cluster, asked.seconds)
        if "batches" in wanted:
            batches.measure(build_bundle(Path(place) / "whole", **vectors), Path(place))


if __name__ == "__main__":
    main()
