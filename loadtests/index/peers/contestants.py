"""What takes part in the comparison, and our own contestants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from greedy_core import ExactIndex, GreedyIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

TOP_K = 10
OURS = "ours"
AS_BUILT = "ours, as built"
EXACT = "exact scan"
BUDGETS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
# How many list entries screening by sums reads per candidate, beside what the index was built with.
READS = (2, 4, 8, 16, 32)


def nothing() -> None:
    """Leave everything as it is."""


def identity(answer: Any) -> Any:
    """Return what was given."""
    return answer


class Setting(NamedTuple):
    """One way to search a built index.

    label    the knobs, to read
    search   one query -> whatever the library answers; this call is what is timed
    ids      that answer -> item positions, best first
    prepare  called before a run of searches, for knobs that are state of the index
    """

    label: str
    search: Callable[[Floats], Any]
    ids: Callable[[Any], Any] = identity
    prepare: Callable[[], None] = nothing


class Contestant(NamedTuple):
    """A built index with its grid of settings; the best of a family is what counts for it.

    build_seconds  of processor time, on however many cores
    """

    name: str
    family: str
    build_seconds: float
    nbytes: int
    settings: Sequence[Setting]


class Ours(NamedTuple):
    """Our index as it was built, with the same lists read to other depths."""

    index: GreedyIndex
    by_reads: dict[int, GreedyIndex]
    reads: int
    build_seconds: float

    @classmethod
    def build(cls, items: Floats, users: Floats) -> Ours:
        """Build on all cores, sparse axes fitted to the users."""
        start = time.process_time()
        index = GreedyIndex.build(items, queries=users, directions="sparse")
        seconds = time.process_time() - start
        arrays, info = index.to_arrays()
        others = {reads: GreedyIndex.from_arrays(arrays, {**info, "reads": reads}) for reads in READS}
        return cls(index, {**others, info["reads"]: index}, info["reads"], seconds)

    def searched(self, label: str) -> tuple[GreedyIndex, int, str]:
        """Return the index, budget and variant behind a setting's label."""
        variant, *knobs = label.split()
        values = dict(knob.split("=") for knob in knobs)
        return self.by_reads[int(values.get("reads", self.reads))], int(values["budget"]), variant

    def contestants(self) -> list[Contestant]:
        """One for the sum rule at each reading depth, one for the paper's max rule, and the index untuned by itself."""
        ways = [("sum", reads) for reads in sorted(self.by_reads)] + [("threshold", self.reads)]
        tuned = [self._contestant(variant, reads) for variant, reads in ways]
        return [*tuned, self._contestant("sum", self.reads)._replace(name=AS_BUILT, family=AS_BUILT)]

    def _contestant(self, variant: str, reads: int) -> Contestant:
        rule, knobs = ("max rule", "") if variant == "threshold" else (f"sum rule, {reads} reads", f" reads={reads}")
        labels = [f"{variant}{knobs} budget={budget}" for budget in BUDGETS if budget < self.index.n_items]
        nbytes = self.index.nbytes + self.index.items.nbytes
        return Contestant(
            f"{OURS}, {rule}", OURS, self.build_seconds, nbytes, [self._setting(label) for label in labels]
        )

    def _setting(self, label: str) -> Setting:
        index, budget, variant = self.searched(label)
        search = index.search
        return Setting(label, lambda query: search(query, TOP_K, budget, None, variant), lambda result: result.ids)


def exact_scan(items: Floats) -> Contestant:
    """Every item scored, by the same kernels."""
    start = time.process_time()
    index = ExactIndex.build(items)
    seconds = time.process_time() - start
    setting = Setting("all items", lambda query: index.search(query, TOP_K), lambda result: result.ids)
    return Contestant(EXACT, EXACT, seconds, index.items.nbytes, [setting])
