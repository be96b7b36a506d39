"""Tables for sizing: `python -m loadtests.fleet [--latencies FILE] [--seed N]`; about a minute."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from loadtests.fleet.simulation import Fleet, Latencies, Outcome, simulate
from loadtests.fleet.sizing import Sizing

MEASURED = Path(__file__).resolve().parents[1] / "cluster" / "latencies.json"
SHARDS = (10, 30, 100, 300, 1000)
BILLION = 1_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latencies", type=Path, default=MEASURED, help="What `make cluster` wrote.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=1000)
    asked = parser.parse_args()
    latencies = Latencies.read(asked.latencies)

    def run(fleet: Fleet) -> Outcome:
        return simulate(fleet, latencies, requests=asked.requests, seed=asked.seed)

    print("## p99 by shards and replicas, without and with hedging (ms)\n")
    print("| shards | 1 replica | 2 replicas | 2, hedged at 20 ms | questions for each shard |")
    print("|---:|---:|---:|---:|---:|")
    for shards in SHARDS:
        plain = [run(Fleet(shards, replicas=replicas, hedge=0)) for replicas in (1, 2)]
        hedged = run(Fleet(shards))
        print(f"| {shards} | {plain[0].p99:.1f} | {plain[1].p99:.1f} | {hedged.p99:.1f} | {hedged.questions:.3f} |")
    print("\n## What a deadline leaves out, 2 replicas, hedged at 20 ms\n")
    print("| shards | deadline (ms) | p99 (ms) | whole answers | shards that answered |")
    print("|---:|---:|---:|---:|---:|")
    for shards in SHARDS:
        for deadline in (10.0, 25.0, 50.0):
            found = run(Fleet(shards, deadline=deadline, hedge=min(20.0, deadline / 2)))
            print(f"| {shards} | {deadline:g} | {found.p99:.1f} | {found.whole:.1%} | {found.answered:.2%} |")
    print("\n## Lost shards, deadline 50 ms\n")
    print("| shards | lost | p99 (ms) | shards that answered |")
    print("|---:|---:|---:|---:|")
    for shards, lost in ((10, 1), (100, 1), (100, 5), (1000, 10)):
        found = run(Fleet(shards, lost=lost, deadline=50.0))
        print(f"| {shards} | {lost} | {found.p99:.1f} | {found.answered:.2%} |")
    print(f"\n## {BILLION:,} items of 128 dimensions, 2 replicas, 100 requests a second\n")
    print(
        "| shards | items of each | memory of each (GiB) | in all (GiB) | core seconds for a million requests | cost |"
    )
    print("|---:|---:|---:|---:|---:|---:|")
    for shards in SHARDS:
        sizing = Sizing.of(BILLION, shards, latencies)
        print(
            f"| {shards} | {BILLION // shards:,} | {sizing.shard_gib:.1f} | {sizing.total_gib:,.0f} | "
            f"{sizing.core_seconds_per_million:,.0f} | {sizing.cost_per_million:.2f} |"
        )
    stored = json.loads(asked.latencies.read_text(encoding="utf-8"))
    if "checked" in stored:
        point = stored["checked"]
        found = run(Fleet(point["shards"], 1, point["budget"], point["rate"], slow=0.0, hedge=0.0, deadline=1000.0))
        print("\n## Against the real run of `make cluster`\n")
        print("| | p50 (ms) | p99 (ms) |")
        print("|---|---:|---:|")
        what = f"measured, {point['shards']} shards, budget {point['budget']}"
        print(f"| {what} | {point['p50_ms']:.2f} | {point['p99_ms']:.2f} |")
        print(f"| simulated | {found.p50:.2f} | {found.p99:.2f} |")


if __name__ == "__main__":
    main()
