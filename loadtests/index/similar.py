"""Whether similar items are similar: against the exact cosine, and how much of the answers bestsellers take.

    budgetrec train gowalla.npz --models models --promote
    python -m loadtests.index.similar models

Asked for items that a seed draws, each by itself and three at a time, as the service asks: with the budget that a
question gets that names none, and with others. Beside it what an inner product gives, which is why cosine is the
default, and what a search for a user's recommendations takes in the same run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from service.cli.places import calibration_of, open_bundle
from service.models.default_budget import CALIBRATED_TOP_K, budget_towards
from service.settings import DEFAULT_RECALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from greedy_core import Bundle, SimilarItems
    from greedy_core.similar import SimilarQuery

    Floats = NDArray[np.float32]
    Answers = list[NDArray[np.int32]]

TOP, SEED, SEVERAL = CALIBRATED_TOP_K, 14, 3
BUDGETS = (16, 64, 256)
# How many items stand for "the few that come back whatever is asked for".
FEW = 10


class Row(NamedTuple):
    """A line of the table; None where nothing is measured."""

    asked: str
    budget: int | None
    answers: Answers
    overlap: float | None
    microseconds: float | None


def share_of_few(answers: Answers) -> float:
    """Return what share of all places of all answers the ten items take that are returned most."""
    counted = Counter(chain.from_iterable(found.tolist() for found in answers))
    return sum(times for _, times in counted.most_common(FEW)) / max(1, counted.total())


def overlap(answers: Answers, truth: Answers) -> float:
    """Return what share of the exact answers was found."""
    hits = sum(len(np.intersect1d(found, exact)) for found, exact in zip(answers, truth, strict=True))
    return hits / max(1, sum(map(len, truth)))


def exact(vectors: Floats, queries: Floats, left_out: Sequence[NDArray[np.int32]]) -> Answers:
    """Return the largest products of each query with all vectors but those that are left out."""
    answers = []
    for query, out in zip(queries, left_out, strict=True):
        products = vectors @ query
        products[out] = -np.inf
        top = np.argpartition(-products, TOP)[:TOP] if len(products) > TOP else np.arange(len(products))
        top = top[np.argsort(-products[top], kind="stable")]
        answers.append(top[products[top] > -np.inf].astype(np.int32))
    return answers


def at_unit_length(items: Floats) -> Floats:
    lengths = np.sqrt(np.square(items, dtype=np.float64).sum(axis=1, keepdims=True))
    return (items / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def asked(similar: SimilarItems, queries: list[SimilarQuery], budget: int) -> tuple[Answers, float]:
    """Return the answers at a budget, and the microseconds of a search: the median, so that a pause does not count."""
    answers, seconds = [], []
    for query in queries:
        began = perf_counter()
        found = similar.index.search(query.vector, TOP, budget, query.exclude, remembered=query.remembered)
        seconds.append(perf_counter() - began)
        answers.append(found.ids)
    return answers, median(seconds) * 1e6


def compared(bundle: Bundle, n_asked: int) -> list[Row]:
    """Return the rows of the table."""
    similar = bundle.similar
    if similar is None:
        raise SystemExit(f"{bundle.path} has no index of similar items; build it again without --no-similar.")
    rng = np.random.default_rng(SEED)
    raw = np.ascontiguousarray(bundle.index.items)
    unit = at_unit_length(raw)
    drawn = rng.permutation(bundle.n_items)[:n_asked]
    together = [rng.choice(bundle.n_items, min(SEVERAL, bundle.n_items), replace=False) for _ in drawn]
    usual = budget_towards(DEFAULT_RECALL, similar.index, similar.calibration, TOP)
    rows = []
    for name, of_items in (("an item", [[item] for item in drawn.tolist()]), ("three items at random", together)):
        queries = [similar.query(items) for items in of_items]
        # The mean is computed here again, of rows that no index has touched.
        means = np.array([unit[items].mean(axis=0) for items in of_items])
        truth = exact(unit, means, [np.asarray(items) for items in of_items])
        rows.append(Row(f"{name}, exact cosine", None, truth, None, None))
        for budget in sorted({*BUDGETS, usual}):
            if budget < TOP:
                continue
            answers, microseconds = asked(similar, queries, budget)
            what = f"{name}, by cosine" + (" (the default)" if budget == usual else "")
            rows.append(Row(what, budget, answers, overlap(answers, truth), microseconds))
    itself = [np.array([item]) for item in drawn.tolist()]
    rows.append(Row("an item, exact inner product", None, exact(raw, raw[drawn], itself), None, None))
    if bundle.user_vectors is not None:
        rows.append(_recommended(bundle, rng.permutation(bundle.n_users)[:n_asked]))
    return rows


def _recommended(bundle: Bundle, users: NDArray[np.int64]) -> Row:
    """Return what users are recommended with the budget that a question gets: the speed to compare with."""
    budget = budget_towards(DEFAULT_RECALL, bundle.index, calibration_of(bundle), TOP)
    answers, seconds = [], []
    for user in users.tolist():
        vector = bundle.user_vector(user)
        if vector is None:
            continue
        seen, hint = bundle.seen_items(user), bundle.user_remembered(user)
        began = perf_counter()
        found = bundle.index.search(vector, TOP, budget, seen, remembered=hint)
        seconds.append(perf_counter() - began)
        answers.append(found.ids)
    return Row("a user, recommendations", budget, answers, None, median(seconds) * 1e6)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.index.similar",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="a bundle, or a models folder with a current version")
    parser.add_argument("--asked", type=int, default=1000, help="items to ask for (default: %(default)s)")
    options = parser.parse_args(arguments)
    bundle = open_bundle(options.model)
    print(f"{bundle.n_items:,} items x {bundle.n_dims}, model {bundle.version}; {options.asked:,} items asked for")
    print("| asked for | budget | overlap with exact cosine | ten most returned items' share of all answers | us |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for row in compared(bundle, options.asked):
        cells = (
            row.asked,
            "" if row.budget is None else str(row.budget),
            "" if row.overlap is None else f"{row.overlap:.4f}",
            f"{share_of_few(row.answers):.2%}",
            "" if row.microseconds is None else f"{row.microseconds:.1f}",
        )
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
