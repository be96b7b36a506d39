"""The summary page: what agrees with the paper and what does not, made from the results."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

from loadtests.index.paper import claims
from loadtests.index.paper.curves import CHECKS, COMPARED, VARIANT_CURVES
from loadtests.index.paper.figures import TITLES
from loadtests.index.paper.run import results_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from loadtests.index.paper.plan import Plan
    from loadtests.index.paper.results import Result

GOOD_RECALL = 0.9
FEW_PRODUCTS = 1024

PUBLISHED = """\
Reading the code that the paper's authors published (`fast-pred.h` of `exp-gmips-nips17`) shows where its compared
methods differ from their description. Ours follow the description.

- **LSH.** Items are hashed with the rows of the random matrix, queries with its columns (the two indices are swapped),
  so an item and a query do not share hash functions. Ours share them, and a test holds them to it.
- **PCA-tree.** On the way down the query is compared with the root's pivot at every level, although every node was
  split at its own. Ours uses each node's own pivot, and scales the query to the sphere of the items first. The time to
  rotate a query is not counted there; here the projections on the components in use are.
- **Diamond.** The weights of the second dimension are never summed up, so it is always dimension 0, and the scores are
  then not used: every sampled item is ranked. That is the paper's remark that diamond sampling with B samples is
  sampling by |z|. Ours draws the second dimension and can rank the best scored items only; both are on the curve.
- **Greedy.** In the improved variant the budget counts entries read, not candidates. Curves of quality against time
  are not touched by this.

What the first two cost (and what eq. 3 changes), on the data of figure 3 and the smallest set of figure 5:
"""

CAVEATS = """\
- Netflix and Yahoo! Music are not at hand. In their place stand generated interactions of the same numbers of items,
  or any file given by `--interactions`; without ratings, the explicit model is fitted to ones for met pairs and zeros
  for drawn ones.
- The compared methods are stronger here than in the paper: SIMD inner products on padded rows, cells stored in one
  piece, alias tables in place of F+trees. So is Greedy-MIPS. Speed-ups are over the paper's kind of naive search, which
  has none of that; the second column of times is our own, and the honest one.
- A curve joins the settings that no other setting of the method beats in both speed and quality. Numbers at a given
  speed-up are read off it. All settings are in the tables.
- Time is processor time of one thread, as in the paper's code: the median over pieces of the queries. A setting that
  is too slow for its share of the run answers fewer queries than the rest; the column `queries` says how many.
- Inner products count wherever they are spent: candidates, hashes, centres, components. Sampling and sorted lists read
  single entries, which are no inner products but take time.
"""


def page(plan: Plan, results: list[Result], refusals: dict[str, str], *, made: str) -> str:
    """Return the page in Markdown; `made` says how and when the results were."""
    parts = [
        "# The paper's experiments, run again\n",
        f"{made} on {_machine()}. {plan.queries} queries, truth = the exact top 20, {len(results)} settings.\n",
    ]
    if plan.size != "full":
        parts.append(
            f"**This is a {plan.size} run: its data is smaller than the paper's and its knobs are fewer. "
            "The full run is `make paper`.**\n"
        )
    parts += ["## What agrees with the paper, and what does not\n", _claims_table(results)]
    parts += ["## The published code\n", PUBLISHED, _slips_table(results)]
    parts += ["## The naive search\n", _naive_table(results)]
    for number in sorted(plan.panels):
        shown = results_of(number, results)
        parts += [f"## Figure {number}: {TITLES[number].lower()}\n", _images(number)]
        names = [curve.name for curve in (VARIANT_CURVES if number == 3 else COMPARED)]
        parts += [
            "prec@5 at 100 times the speed of the paper's kind of naive search:\n",
            _speed_table(shown, names),
            f"Largest speed-up over *our* naive search with recall@10 of at least {GOOD_RECALL}:\n",
            _recall_table(shown, names),
            f"recall@10 with at most {FEW_PRODUCTS} inner products for a query, whatever the time:\n",
            _products_table(shown, names),
        ]
    if refusals:
        parts.append("## Refused\n")
        parts += [f"- {what}: {why}" for what, why in sorted(refusals.items())]
        parts.append("")
    parts += ["## How to read this\n", CAVEATS]
    return "\n".join(parts)


def _machine() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{os.cpu_count()} cores of {model or platform.processor() or platform.machine()}"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    head = list(head)
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _claims_table(results: list[Result]) -> str:
    rows = [(claim.says, f"**{claim.verdict}**", claim.found) for claim in claims.check(results)]
    if not rows:
        return "Nothing can be said: on data this small no method is ten times faster than a naive search.\n"
    return table(("the paper", "we", "found"), rows)


def _slips_table(results: list[Result]) -> str:
    pairs = [(curve.name.split(",")[0], curve.name) for curve in CHECKS]
    rows = []
    for panel, curves in claims.grouped(results).items():
        for right, checked in pairs:
            if right in curves and checked in curves:
                at = [
                    f"{claims.quality(curves[right], s):.2f} / {claims.quality(curves[checked], s):.2f}"
                    for s in claims.SPEEDUPS
                ]
                rows.append([claims.name_of(panel), checked, *at])
    return table(["data", "changed", *(f"prec@5 at {s}x, ours / changed" for s in claims.SPEEDUPS)], rows)


def _naive_table(results: list[Result]) -> str:
    rows = []
    for panel, curves in claims.grouped(results).items():
        one = next(iter(curves.values()))[0]
        paper, ours = one.speedup_over_paper_naive * one.seconds, one.speedup_over_our_naive * one.seconds
        rows.append((claims.name_of(panel), f"{1e3 * paper:.2f} ms", f"{1e3 * ours:.2f} ms", f"{paper / ours:.1f}"))
    return table(("data", "the paper's kind: double, full sort", "ours: float32, SIMD, bounded", "ratio"), rows)


def _images(number: int) -> str:
    return (
        f"![figure {number}, the paper's axes](figure-{number}.png)\n\n"
        f"[on a logarithmic axis](figure-{number}-wide.png), [recall@10](figure-{number}-recall.png), "
        f"[all numbers](figure-{number}.csv)\n"
    )


def _speed_table(results: list[Result], names: list[str]) -> str:
    rows = []
    for panel, curves in claims.grouped(results).items():
        cells = [f"{claims.quality(curves[name], 100):.2f}" if name in curves else "" for name in names]
        rows.append([claims.name_of(panel), *_bold_best(cells)])
    return table(["data", *names], rows)


def _recall_table(results: list[Result], names: list[str]) -> str:
    rows = []
    for panel, curves in claims.grouped(results).items():
        cells = []
        for name in names:
            fast = [r.speedup_over_our_naive for r in curves.get(name, []) if r.recall_10 >= GOOD_RECALL]
            cells.append(f"{max(fast):.1f}" if fast else "" if name not in curves else "-")
        rows.append([claims.name_of(panel), *_bold_best(cells)])
    return table(["data", *names], rows)


def _products_table(results: list[Result], names: list[str]) -> str:
    rows = []
    for panel, curves in claims.grouped(results).items():
        cells = []
        for name in names:
            cheap = [r.recall_10 for r in curves.get(name, []) if r.products <= FEW_PRODUCTS]
            cells.append(f"{max(cheap):.2f}" if cheap else "" if name not in curves else "-")
        rows.append([claims.name_of(panel), *_bold_best(cells)])
    return table(["data", *names], rows)


def _bold_best(cells: list[str]) -> list[str]:
    numbers = [float(cell) for cell in cells if cell not in ("", "-")]
    if not numbers:
        return cells
    return [f"**{cell}**" if cell not in ("", "-") and float(cell) == max(numbers) else cell for cell in cells]
