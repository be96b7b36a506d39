"""What takes part in the comparison, and our own contestants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import ExactIndex, GreedyIndex
from greedy_core.fit.choice import choose
from greedy_core.fit.trial import hold_out
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Question = tuple[Floats, Floats | None]

TOP_K = 10
# The same index twice: asked for a user whose decomposition it has stored, and for a vector that it has never seen.
KNOWN, VECTOR = "ours, known user", "ours, vector"
OURS = (KNOWN, VECTOR)
AS_BUILT = {family: f"{family}, as built" for family in OURS}
EXACT = "exact scan"
BUDGETS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
# How many list entries screening by sums reads per candidate, beside what the calibration chose.
READS = (1, 2, 4, 8, 16, 32)


def nothing() -> None:
    """Leave everything as it is."""


def identity(given: Any) -> Any:
    """Return what was given."""
    return given


class Setting(NamedTuple):
    """One way to search a built index.

    label    the knobs, to read
    search   one question -> whatever the library answers; this call is what is timed
    ids      that answer -> item positions, best first
    prepare  called before a run of searches, for knobs that are state of the index
    ask      all queries -> the questions, made before the clock starts
    """

    label: str
    search: Callable[[Any], Any]
    ids: Callable[[Any], Any] = identity
    prepare: Callable[[], None] = nothing
    ask: Callable[[Floats], Sequence[Any]] = identity


class Contestant(NamedTuple):
    """A built index with its grid of settings; the best of a family is what counts for it.

    build_seconds  of processor time, on however many cores
    """

    name: str
    family: str
    build_seconds: float
    nbytes: int
    settings: Sequence[Setting]


class Ours:
    """Our index as its calibration made it, with the same lists read to other depths."""

    def __init__(self, items: Floats, users: Floats) -> None:
        """Build on all cores: learned directions, and how far they are read calibrated on users kept back."""
        start = time.process_time()
        fitted, held_out, _ = hold_out(np.ascontiguousarray(users))
        self.index = choose([GreedyIndex.build(items, queries=fitted, directions="learned")], held_out)
        self.build_seconds = time.process_time() - start
        self._decompositions: dict[bytes, Floats] = {}

    def questions(self, family: str, queries: Floats) -> list[Question]:
        """Return the queries, those of known users with their decompositions, which such an index has stored."""
        if family == VECTOR:
            return [(query, None) for query in queries]
        if any(query.tobytes() not in self._decompositions for query in queries):
            decompositions = self.index.decompose(queries)
            self._decompositions |= {
                query.tobytes(): decomposition for query, decomposition in zip(queries, decompositions, strict=True)
            }
        return [(query, self._decompositions[query.tobytes()]) for query in queries]

    def contestants(self) -> list[Contestant]:
        """For each family every depth of reading, for vectors the paper's max rule too, and the index as built."""
        built = self.index.screening
        found = []
        for family, own in ((KNOWN, built.with_decomposition), (VECTOR, built.without_decomposition)):
            ways = [Screening("sum", reads, reads) for reads in READS] + [Screening("threshold")] * (family == VECTOR)
            found += [self._contestant(family, screening) for screening in ways]
            as_built = self._contestant(family, own)
            found.append(as_built._replace(name=AS_BUILT[family], family=AS_BUILT[family]))
        return found

    def setting(self, family: str, screening: Screening, budget: int) -> Setting:
        """Return the setting of one budget."""
        search = self.index.screened_by(screening).search
        asked = family if screening.variant == "sum" else VECTOR
        return Setting(
            label_of(screening, budget),
            lambda question: search(question[0], TOP_K, budget, None, None, question[1]),
            lambda result: result.ids,
            ask=lambda queries: self.questions(asked, queries),
        )

    def _contestant(self, family: str, screening: Screening) -> Contestant:
        settings = [self.setting(family, screening, budget) for budget in BUDGETS if budget < self.index.n_items]
        nbytes = self.index.nbytes + self.index.items.nbytes
        return Contestant(f"{family}, {screening}", family, self.build_seconds, nbytes, settings)


def label_of(screening: Screening, budget: int) -> str:
    """Return the label of a setting."""
    return f"{screening}, budget {budget}"


def searched(label: str) -> tuple[Screening, int]:
    """Return the screening and the budget behind a label."""
    way, budget = label.rsplit(", budget ", 1)
    if way == "threshold":
        return Screening(way), int(budget)
    reads = int(way.split()[2])
    return Screening("sum", reads, reads), int(budget)


def exact_scan(items: Floats) -> Contestant:
    """Every item scored, by the same kernels."""
    start = time.process_time()
    index = ExactIndex.build(items)
    seconds = time.process_time() - start
    setting = Setting("all items", lambda query: index.search(query, TOP_K), lambda result: result.ids)
    return Contestant(EXACT, EXACT, seconds, index.items.nbytes, [setting])
