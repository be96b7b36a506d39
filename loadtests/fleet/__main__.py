"""Tables for sizing: `python -m loadtests.fleet [--latencies FILE] [--seed N] [--write]`; about a minute and a half.

`--write` puts them into the runbook, deploy/README.md, between two marks.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from loadtests.fleet.simulation import Fleet, Latencies, Outcome, simulate
from loadtests.fleet.sizing import PRICE_OF_CORE_HOUR, Sizing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT = Path(__file__).resolve().parents[2]
MEASURED = _ROOT / "loadtests" / "cluster" / "latencies.json"
RUNBOOK = _ROOT / "deploy" / "README.md"
BEGIN, END = "<!-- fleet: make fleet ARGS=--write -->", "<!-- end of fleet -->"
SHARDS = (10, 30, 100, 300, 1000)
DEADLINES = (50.0, 100.0, 200.0)
LOST = ((10, 1), (30, 1), (30, 3), (1000, 10))
BILLION = 1_000_000_000


class Tables:
    """The rows of every table, as Markdown, each worked out when it is asked for."""

    def __init__(self, latencies: Latencies, *, requests: int = 1000, seed: int = 0) -> None:
        self._latencies = latencies
        self._requests = requests
        self._seed = seed

    def _run(self, fleet: Fleet) -> Outcome:
        return simulate(fleet, self._latencies, requests=self._requests, seed=self._seed)

    def tails(self, numbers: Iterable[int] = SHARDS) -> Iterator[str]:
        """Yield p99 by shards and replicas, without and with hedging."""
        for shards in numbers:
            plain = [self._run(Fleet(shards, replicas=replicas, hedge=0)) for replicas in (1, 2)]
            hedged = self._run(Fleet(shards))
            p99 = " | ".join(f"{found.p99:.1f}" for found in (*plain, hedged))
            yield f"| {shards:,} | {p99} | {hedged.questions:.3f} |"

    def deadlines(self, numbers: Iterable[int] = SHARDS) -> Iterator[str]:
        """Yield what deadlines leave out."""
        for shards in numbers:
            for deadline in DEADLINES:
                found = self._run(Fleet(shards, deadline=deadline, hedge=20.0))
                yield f"| {shards:,} | {deadline:g} | {found.p99:.1f} | {found.whole:.1%} | {found.answered:.2%} |"

    def lost(self, fleets: Iterable[tuple[int, int]] = LOST) -> Iterator[str]:
        """Yield what lost shards cost."""
        for shards, lost in fleets:
            found = self._run(Fleet(shards, lost=lost, deadline=100.0))
            yield f"| {shards:,} | {lost} | {found.p99:.1f} | {found.answered:.2%} |"

    def sizes(self) -> Iterator[str]:
        """Yield memory and cost of a billion items."""
        for shards in SHARDS:
            sizing = Sizing.of(BILLION, shards, self._latencies)
            yield (
                f"| {shards:,} | {BILLION // shards:,} | {sizing.shard_gib:.1f} | {sizing.total_gib:,.0f} | "
                f"{sizing.mapped_gib:.1f} and {sizing.map_gib:.0f} | {sizing.core_seconds_per_million:,.0f} | "
                f"{sizing.cost_per_million:.2f} |"
            )

    def checked(self, point: dict[str, float]) -> Iterator[str]:
        """Yield the point that was measured on a real cluster, and what is simulated there."""
        found = self._run(
            Fleet(
                int(point["shards"]),
                1,
                int(point["budget"]),
                point["rate"],
                slow=0.0,
                hedge=0.0,
                deadline=1000.0,
            )
        )
        what = f"measured, {point['shards']} shards, budget {point['budget']}"
        yield f"| {what} | {point['p50_ms']:.2f} | {point['p99_ms']:.2f} |"
        yield f"| simulated | {found.p50:.2f} | {found.p99:.2f} |"


def _table(title: str, head: str, rows: Iterable[str]) -> str:
    """Return a table with its title, shown row by row while it is worked out."""
    lines = [f"{title}:", "", head, f"|{'---:|' * (head.count('|') - 1)}"]
    print("\n".join(lines), flush=True)
    for row in rows:
        print(row, flush=True)
        lines.append(row)
    print()
    return "\n".join(lines)


def write(tables: Iterable[str], runbook: Path = RUNBOOK) -> None:
    """Put the tables in the place of those that the runbook has."""
    text = runbook.read_text(encoding="utf-8")
    new = "\n\n".join((BEGIN, *tables, END))
    written, places = re.subn(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: new, text, flags=re.DOTALL)
    if places != 1:
        raise ValueError(f"{runbook} has {places} places for the tables, and should have one: {BEGIN} ... {END}")
    runbook.write_text(written, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latencies", type=Path, default=MEASURED, help="What `make cluster` wrote.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="Put the tables into the runbook.")
    asked = parser.parse_args()
    tables = Tables(Latencies.read(asked.latencies), requests=asked.requests, seed=asked.seed)
    made = [
        _table(
            f"{BILLION:,} items of 128 dimensions, 2 replicas, budget 1,024; the cost is that of cores at "
            f"{PRICE_OF_CORE_HOUR} an hour, in the same money",
            "| shards | items of each | memory of each (GiB) | in all (GiB) | walks: each, and the map (GiB) "
            "| core seconds for a million requests | cost of these |",
            tables.sizes(),
        ),
        _table(
            "p99 by shards and replicas, without and with hedging (ms), 100 requests a second, at most 250 ms",
            "| shards | 1 replica | 2 replicas | 2, hedged at 20 ms | questions for each shard |",
            tables.tails(),
        ),
        _table(
            "What a deadline leaves out, 2 replicas, hedged at 20 ms",
            "| shards | deadline (ms) | p99 (ms) | whole answers | shards that answered |",
            tables.deadlines(),
        ),
        _table("Lost shards, deadline 100 ms", "| shards | lost | p99 (ms) | shards that answered |", tables.lost()),
    ]
    stored = json.loads(asked.latencies.read_text(encoding="utf-8"))
    if "checked" in stored:
        title = "One point against the real run of `make cluster`, whose ingress has a tail that is not simulated"
        made.append(_table(title, "| | p50 (ms) | p99 (ms) |", tables.checked(stored["checked"])))
    if asked.write:
        write(made)


if __name__ == "__main__":
    main()
