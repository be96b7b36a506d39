"""What takes part in the comparison, and our own contestants."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from greedy_core import ExactIndex, GreedyIndex
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ints = NDArray[np.int32]
    Question = tuple[Floats, Ints | None]

TOP_K = 10
# The same index twice: asked for a user whose best items it has stored, and for a vector that it has never seen.
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
    """Our index as its calibration made it, and with its other ways of screening."""

    def __init__(self, items: Floats, users: Floats) -> None:
        """Build on all cores, as `budgetrec build` does."""
        start = time.process_time()
        self.index = GreedyIndex.build(items, queries=np.ascontiguousarray(users), directions="auto")
        self.build_seconds = time.process_time() - start
        self._remembered: dict[bytes, Ints] = {}

    def questions(self, family: str, queries: Floats) -> list[Question]:
        """Return the queries, those of known users with what they remember, which a bundle has stored."""
        if family in (VECTOR, AS_BUILT[VECTOR]):
            return [(query, None) for query in queries]
        if any(query.tobytes() not in self._remembered for query in queries):
            remembered = self.index.remember(queries)
            self._remembered |= {query.tobytes(): ids for query, ids in zip(queries, remembered, strict=True)}
        return [(query, self._remembered[query.tobytes()]) for query in queries]

    def contestants(self) -> list[Contestant]:
        """For vectors every way of screening that the index has, and both families as built."""
        ways = [Screening("threshold"), *(Screening("sum", reads) for reads in READS)]
        ways += [Screening("walk")] * self.index.has_graph
        found = [self._contestant(VECTOR, screening) for screening in ways]
        found.append(self._contestant(KNOWN, self.index.screening))
        for family in OURS:
            as_built = self._contestant(family, self.index.screening)
            found.append(as_built._replace(name=AS_BUILT[family], family=AS_BUILT[family]))
        return found

    def setting(self, family: str, screening: Screening, budget: int) -> Setting:
        """Return the setting of one budget."""
        search = self.index.screened_by(screening).search
        return Setting(
            label_of(screening, budget),
            lambda question: search(question[0], TOP_K, budget, None, None, question[1]),
            lambda result: result.ids,
            ask=lambda queries: self.questions(family, queries),
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
    if way in ("threshold", "walk"):
        return Screening(way), int(budget)
    return Screening("sum", int(way.split()[2])), int(budget)


def exact_scan(items: Floats) -> Contestant:
    """Every item scored, by the same kernels."""
    start = time.process_time()
    index = ExactIndex.build(items)
    seconds = time.process_time() - start
    setting = Setting("all items", lambda query: index.search(query, TOP_K), lambda result: result.ids)
    return Contestant(EXACT, EXACT, seconds, index.items.nbytes, [setting])
