"""The command line.

    python -m loadtests.index.peers --data topics --items 650000 --dims 128
    python -m loadtests.index.peers --interactions ratings.npz --dims 64 128 200 --quick
    python -m loadtests.index.peers --interactions ratings.npz --dims 64 --method towers-cosine bpr
    python -m loadtests.index.peers --interactions ratings.npz --dims 128 --filters
    python -m loadtests.index.peers --results            # all runs so far into RESULTS.md

Prints tables and writes loadtests/index/out/peers-*.{json,png}.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console

from greedy_core import ExactIndex
from loadtests.index import datasets, measure
from loadtests.index.peers import filters, report
from loadtests.index.peers.contestants import AS_BUILT, OURS, Contestant, Ours, Setting, exact_scan, searched
from loadtests.index.peers.libraries import FAMILIES, TooSlowError, enter, lineup
from loadtests.index.peers.race import Entry, race, recall, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadtests.index.datasets import Dataset
    from loadtests.index.peers.frontier import Point

OUT = Path(__file__).resolve().parents[1] / "out"
RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"
BATCH = 20
console = Console(width=130)


class Field(NamedTuple):
    """The peers that take part, and the names of those that do not, with the reason."""

    contestants: list[Contestant]
    missing: dict[str, str]
    given_up: dict[str, str]


def gather(items: Any, data: str, *, quick: bool, limit: float, families: Sequence[str]) -> Field:
    """Build the peers, or take them from the cache."""
    field = Field([], {}, {})
    for peer in lineup(len(items), quick=quick):
        if peer.family not in families or peer.family in field.missing:
            continue
        try:
            field.contestants.append(enter(peer, items, data, limit=limit))
        except ImportError as error:
            field.missing[peer.family] = str(error)
            console.print(f"{peer.family} is missing: {error}")
        except TooSlowError as error:
            field.given_up[peer.name] = f"{error}: {limit:.0f} s"
            console.print(f"{peer.name} is given up: {error}")
        else:
            console.print(f"{peer.name}: {field.contestants[-1].build_seconds:.0f} CPU s to build", highlight=False)
    return field


def compare(
    data: Dataset, *, queries: int, rounds: int, quick: bool, limit: float, families: Sequence[str]
) -> dict[str, Any]:
    """Build everybody, race them, and return the run as JSON holds it."""
    items = np.array(data.items)  # a copy: a mapped file is read-only, and not every library takes that
    asked = np.ascontiguousarray(data.queries[:queries])
    truth = measure.true_top(items, asked)
    ours = Ours(items, data.users)
    exact = exact_scan(items)
    field = gather(items, data.name, quick=quick, limit=limit, families=families)
    contestants = [*ours.contestants(), *field.contestants]
    measure.one_thread()  # again: libraries that came after the first call
    few = asked[: max(4, len(asked) // 20)]
    (exact_seconds,) = side_by_side(exact.settings, few, rounds)
    points = race(contestants, asked, truth, rounds=rounds, exact_seconds=exact_seconds)
    exact_seconds = min(exact_seconds, *side_by_side(exact.settings, few, rounds))
    points.append(Entry(exact, exact.settings[0]).point(1.0, exact_seconds))
    return {
        "data": data.name,
        "queries": len(asked),
        "rounds": rounds,
        "clock": "processor time",
        "exact_seconds": exact_seconds,
        "points": [point._asdict() for point in points],
        "builds": [_built(contestant) for contestant in [*contestants, exact]],
        "missing": field.missing,
        "given_up": field.given_up,
        "left_out": [family for family in FAMILIES if family not in families],
        "screening": str(ours.index.screening),
        "recall_at_budget": _recall_at_budget(ours, asked, truth),
        "breakdown": {family: breakdown(ours, family, points, asked, rounds) for family in OURS},
    }


def compare_filters(data: Dataset, *, queries: int, rounds: int, limit: float) -> dict[str, Any]:
    """Build ours and one of each peer that can filter, and return the run as JSON holds it."""
    items = np.array(data.items)
    ours = Ours(items, data.users)
    peers = {}
    for peer in lineup(len(items), quick=True):
        # Of each family the last, which has the most edges or partitions.
        if peer.family in filters.FAMILIES:
            peers[peer.family] = peer
    for peer in peers.values():
        enter(peer, items, data.name, limit=limit)
        console.print(f"{peer.name} is there", highlight=False)
    measure.one_thread()
    asked = np.ascontiguousarray(data.queries[:queries])
    rows = filters.compare(ours.index, ExactIndex.build(items), list(peers.values()), asked, rounds=rounds)
    return {
        "data": data.name,
        "queries": len(asked),
        "rounds": rounds,
        "screening": str(ours.index.screening),
        "peers": [peer.name for peer in peers.values()],
        "rows": rows,
    }


def _built(contestant: Contestant) -> dict[str, Any]:
    name, family, seconds, nbytes, settings = contestant
    return {"name": name, "family": family, "seconds": seconds, "bytes": nbytes, "settings": len(settings)}


def _recall_at_budget(ours: Ours, queries: Any, truth: Any) -> dict[str, dict[str, float]]:
    contestants = {contestant.family: contestant for contestant in ours.contestants()}
    return {
        family: {
            setting.label.rsplit(" ", 1)[1]: recall(setting, queries, truth)
            for setting in contestants[AS_BUILT[family]].settings
            if setting.label.endswith((" 64", " 256", " 1024"))
        }
        for family in OURS
    }


def breakdown(
    ours: Ours, family: str, points: Sequence[Point], queries: Any, rounds: int, level: float = 0.95
) -> dict[str, Any] | None:
    """Return where our time goes at a recall level: screening, ranking, and the call from Python."""
    there = [point for point in points if point.family == family and point.recall >= level]
    if not there:
        return None
    point = min(there, key=lambda point: point.seconds)
    screening, budget = searched(point.setting)
    index = ours.index.screened_by(screening)
    search = ours.setting(family, screening, budget)
    screen = search._replace(search=lambda asked: index.screen(asked[0], budget, None, None, False, asked[1]))
    whole, screened = side_by_side([search, screen], queries, 2 * rounds)
    # Batches are short, so that some are never interrupted.
    starts = range(0, len(queries) - BATCH + 1, BATCH)
    parts = [list(zip(*ours.questions(family, queries[start : start + BATCH]), strict=True)) for start in starts]
    together = Setting(
        "batch", lambda part: index.search_batch(part[0], 10, budget, remembered=part[1]), ask=lambda _: parts
    )
    (batch,) = side_by_side([together], queries[: len(parts)], 2 * rounds)
    return {
        "setting": point.setting,
        "recall": point.recall,
        "search_us": whole * 1e6,
        "screen_us": screened * 1e6,
        "batch_us": batch / BATCH * 1e6,
    }


def machine() -> str:
    """Return the processor and how many cores there are."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m loadtests.index.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument(
        "--data", default="topics", choices=[name for name in datasets.NAMES if name != "interactions"]
    )
    options.add_argument("--items", type=int, default=650_000, help="items of a generated set (default: %(default)s)")
    options.add_argument("--dims", type=int, nargs="+", default=[128], help="dimensions (default: 128)")
    options.add_argument("--interactions", type=Path, nargs="+", metavar="FILE.npz", help="factorise these instead")
    options.add_argument("--alpha", type=float, default=1.0, help="confidence in ALS (default: %(default)s)")
    options.add_argument(
        "--method", nargs="+", default=["als"], choices=[*datasets.METHODS], help="kinds of models (default: als)"
    )
    options.add_argument("--quick", action="store_true", help="fewer builds of each peer")
    options.add_argument(
        "--peers", nargs="+", default=[*FAMILIES], choices=[*FAMILIES], metavar="NAME", help="only these"
    )
    options.add_argument("--queries", type=int, default=500)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--limit", type=float, default=300, help="seconds for one build (default: %(default)s)")
    options.add_argument("--filters", action="store_true", help="compare under filters, by the share they leave")
    options.add_argument("--build", action="store_true", help="only build the peers and keep them for a later run")
    options.add_argument("--results", action="store_true", help="only put the tables of all runs into RESULTS.md")
    return options


def sign(run: dict[str, Any], options: argparse.Namespace, path: Path | None, dims: int, method: str) -> None:
    """Note in a run how, when and where it was made."""
    source = f"--interactions {path.name}" if path else f"--data {options.data} --items {options.items}"
    flags = [f"--method {method}"] * (method != "als") + [f"--alpha {options.alpha:g}"] * (options.alpha != 1)
    flags += ["--quick"] * options.quick + ["--filters"] * options.filters
    run["command"] = " ".join(["python -m loadtests.index.peers", source, f"--dims {dims}", *flags])
    run["date"], run["machine"] = time.strftime("%Y-%m-%d %H:%M"), machine()


def main(arguments: list[str] | None = None) -> int:
    """Run, show, write."""
    options = parser().parse_args(arguments)
    if options.results:
        console.print(f"{report.write_results(OUT, RESULTS)} runs are in {RESULTS.name}.")
        return 0
    for path in options.interactions or []:
        if not path.is_file():
            print(f"There is no file {path}; expected a .npz with arrays user and item.", file=sys.stderr)
            return 2
    measure.one_thread()
    OUT.mkdir(exist_ok=True)
    for path in options.interactions or [None]:
        for dims, method in product(options.dims, options.method):
            data = datasets.load(
                options.data, items=options.items, dims=dims, interactions=path, alpha=options.alpha, method=method
            )
            if options.build:
                items = np.array(data.items)
                gather(items, data.name, quick=options.quick, limit=options.limit, families=options.peers)
                continue
            if options.filters:
                run = compare_filters(data, queries=options.queries, rounds=options.rounds, limit=options.limit)
                sign(run, options, path, dims, method)
                report.show_filters(run, console)
                (OUT / f"filters-{data.name}.json").write_text(json.dumps(run, indent=1))
                continue
            run = compare(
                data,
                queries=options.queries,
                rounds=options.rounds,
                quick=options.quick,
                limit=options.limit,
                families=options.peers,
            )
            sign(run, options, path, dims, method)
            report.show(run, console)
            stem = f"peers-{data.name}"
            (OUT / f"{stem}.json").write_text(json.dumps(run, indent=1))
            report.plot(run, OUT / f"{stem}.png")
            console.print(f"wrote {OUT / stem}.json and .png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
