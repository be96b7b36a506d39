"""Choice: which of several indexes, and which way of screening, serves a sample of queries best."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from greedy_core.fit.trial import COMPARED, LEAST_COST, Sample, budgets_for, screenings, try_out
from greedy_core.screening import Screening

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from greedy_core.embeddings import Float32Array
    from greedy_core.fit.trial import IndexT, Trial

# At larger budgets all configurations are good.
_COMPARED_BUDGETS = 512
# For vectors so flat that nothing less says enough about them.
_DEEPEST = Screening("sum", 256, 256)


def choose(indexes: Sequence[IndexT], queries: Float32Array) -> IndexT:
    """Return the index, of these and their other screenings, that serves these queries best.

    The cheapest reading that surely reaches a recall@10 of 0.90 at a budget of 64 and of 0.98 at 256 wins, the higher
    recall deciding between equals. Where none does, the highest recall for the time taken wins: to read ever more for
    the same budget costs more than a larger budget would. The queries are decomposed. How much is read for those that
    are not is chosen afterwards and in the same way, for 0.85 and 0.97.

    What would read more entries for 256 candidates than there are items is out of question: scoring them all is faster.
    """
    sample = Sample.of(indexes[0], queries[:COMPARED])
    most = max(indexes[0].n_items // 256, LEAST_COST)
    ways = [way for way in [*screenings(), _DEEPEST] if way.cost <= most]
    best = _cheapest(indexes, ways, sample, {64: 0.90, 256: 0.98}, known=True).index
    if not best.n_centres:
        return best
    if not best.uses_decompositions:
        return best.without_centres()  # nothing would ever read their lists
    by_sums = [way for way in ways if way.variant == "sum"]
    without_decomposition = _cheapest([best], by_sums, sample, {64: 0.85, 256: 0.97}, known=False)
    return best.screened_by(replace(best.screening, reads=without_decomposition.screening.reads))


def _cheapest(
    indexes: Sequence[IndexT],
    ways: Sequence[Screening],
    sample: Sample,
    goals: Mapping[int, float],
    *,
    known: bool,
) -> Trial[IndexT]:
    """Return the trial that reads least of those that reach all goals, the best for its time if none does.

    What reads more than a trial that reaches them is not tried at all.
    """
    budgets = [budget for budget in budgets_for(indexes[0]) if budget <= _COMPARED_BUDGETS] or budgets_for(indexes[0])[
        :1
    ]
    places = [(i, goals[budget]) for i, budget in enumerate(budgets) if budget in goals]
    trials: list[Trial[IndexT]] = []
    for _, equals in groupby(sorted(ways, key=lambda way: way.cost), key=lambda way: way.cost):
        tried = [try_out(index.screened_by(way), sample, budgets, known=known) for way in equals for index in indexes]
        good = [trial for trial in tried if all(trial.surely(i) >= goal for i, goal in places)]
        if good:
            return max(good, key=lambda trial: trial.mean)
        trials += tried
    return max(trials, key=lambda trial: trial.in_time(budgets))
