"""The measuring: the whole grid roughly, then the promising settings side by side."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track as rich_track

from loadtests.index import measure
from loadtests.index.peers.frontier import Point, promising

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from loadtests.index.peers.contestants import Contestant, Setting

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int32]

# A recall that nobody asks for: such settings are not measured twice.
USELESS_RECALL = 0.6
# How long one setting may keep the others waiting in a round.
PASS_SECONDS = 0.3
# Below this a search is so short that noise matters and a few more cost nothing.
QUICK = 50e-6


def track(sequence: Sequence[Any], what: str) -> Iterable[Any]:
    """Go through it with a bar, where there is a terminal to draw one."""
    console = Console(stderr=True)
    return rich_track(sequence, what, transient=True, console=console, disable=not console.is_terminal)


class Entry(NamedTuple):
    """A setting with the contestant it belongs to."""

    contestant: Contestant
    setting: Setting

    def point(self, recall: float, seconds: float) -> Point:
        """Return what was measured."""
        return Point(self.contestant.family, self.contestant.name, self.setting.label, recall, seconds)


def passed(setting: Setting, queries: Floats) -> Floats:
    """Return the processor seconds of each query, one after the other.

    Not the wall's: on a busy machine a search that is longer than a time slice is always interrupted, a short one
    seldom, and we would win by being short. All threads of the process count, so none can be hidden.
    """
    setting.prepare()
    search, clock = setting.search, time.process_time
    seconds = []
    for question in setting.ask(queries):
        start = clock()
        search(question)
        seconds.append(clock() - start)
    return np.array(seconds)


def enough(seconds: float, n_queries: int) -> int:
    """Return how many of the queries a setting is timed on: all, unless it is so slow that the rest would wait."""
    return min(n_queries, max(50, int(PASS_SECONDS / seconds)))


def side_by_side(
    settings: Sequence[Setting], queries: Floats, rounds: int, counts: Sequence[int] | None = None
) -> list[float]:
    """Return the mean over the queries, or the first `counts` of them, of each query's best of `rounds`.

    Settings take turns in every round. A best per query, not per round: others use these cores as well, and a slow
    contestant would hardly ever have a round to itself.
    """
    counts = counts or [len(queries)] * len(settings)
    best = [np.full(count, np.inf) for count in counts]
    gc.collect()
    gc.disable()
    try:
        for setting in settings:
            passed(setting, queries[:20])  # to warm up
        for _ in range(rounds):
            for number, setting in enumerate(settings):
                np.minimum(best[number], passed(setting, queries[: counts[number]]), out=best[number])
    finally:
        gc.enable()
    return [float(seconds.mean()) for seconds in best]


def recall(setting: Setting, queries: Floats, truth: Ints) -> float:
    """Return the setting's mean recall@10."""
    setting.prepare()
    return measure.recall_at_10(
        [np.asarray(setting.ids(setting.search(question))) for question in setting.ask(queries)], truth
    )


def race(
    contestants: Sequence[Contestant], queries: Floats, truth: Ints, *, rounds: int, exact_seconds: float
) -> list[Point]:
    """Return the points of every family's envelope and those near it, measured well.

    First the whole grid roughly, on a fifth of the queries; what is slower than an exact scan or far from its family's
    envelope is dropped. Then the rest, in `rounds` rounds.
    """
    fifth = max(20, len(queries) // 5)
    rough: dict[str, list[tuple[Point, Entry]]] = {}
    entries = [Entry(contestant, setting) for contestant in contestants for setting in contestant.settings]
    for entry in track(entries, "the whole grid"):
        seconds = float(np.median(passed(entry.setting, queries[:10])))
        if seconds < exact_seconds:
            few = slice(0, enough(seconds, fifth))
            passes = [passed(entry.setting, queries[few]) for _ in range(2 if seconds > QUICK else 4)]
            timed = float(np.minimum.reduce(passes).mean())
            point = entry.point(recall(entry.setting, queries[few], truth[few]), timed)
            rough.setdefault(entry.contestant.family, []).append((point, entry))
    kept = []
    for measured in rough.values():
        useful = [point for point, _ in measured if point.recall >= USELESS_RECALL]
        wanted = set(promising(useful))
        # A family that never gets anywhere is shown where it ends.
        wanted |= {max((point for point, _ in measured), key=lambda point: point.recall)}
        kept += [(entry, point.seconds) for point, entry in measured if point in wanted]
    counts = [enough(seconds, len(queries)) for _, seconds in kept]
    times = side_by_side([entry.setting for entry, _ in kept], queries, rounds, counts)
    # Of the slow, recall is known from fewer queries too; but from enough for two digits.
    counts = [min(len(queries), max(200, count)) for count in counts]
    return [
        entry.point(recall(entry.setting, queries[:count], truth[:count]), seconds)
        for (entry, _), seconds, count in zip(track(kept, "recall"), times, counts, strict=True)
    ]
