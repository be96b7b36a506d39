"""What the paper says about its figures, checked against ours.

Every check looks at quality at given speed-ups over the paper's kind of naive search, read off a method's curve.
"""

from __future__ import annotations

from statistics import geometric_mean, mean
from typing import TYPE_CHECKING, NamedTuple

from loadtests.index.paper.curves import GREEDY, OURS, VARIANTS
from loadtests.index.paper.figures import quality_at
from loadtests.index.paper.run import results_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loadtests.index.paper.results import Result

    Panel = tuple[str, int, int]
    Panels = dict[Panel, dict[str, list[Result]]]

RIVALS = ("PCA-MIPS", "LSH-MIPS", "Diamond-MSIPS")
LATER = ("k-means MIPS", "dWedge")
SPEEDUPS = (10, 20, 50, 100, 200)
# Where two methods find nearly everything, the third digit says nothing.
LEVEL = 0.01
AGREES, DIFFERS, PARTLY = "agrees", "does not agree", "agrees in part"


class Claim(NamedTuple):
    """A sentence of the paper, what we found, and the numbers behind it."""

    says: str
    verdict: str
    found: str


def check(results: list[Result]) -> list[Claim]:
    """Return every claim that the results can say something about."""
    real, various_n, various_k = (grouped(results_of(figure, results)) for figure in (4, 5, 6))
    variants = grouped(results_of(3, results))
    everywhere = grouped(results)
    claims: list[Claim | None] = [
        _heap_and_tree(variants),
        _improved_and_original(variants),
        _ahead_on_real(real),
        _at_200(real),
        _gap(various_n, 1, "the gap between Greedy-MIPS and the other methods remains when n increases"),
        _gap(various_k, 2, "the gap becomes smaller when k increases"),
        _still_ahead(various_n | various_k),
        _trees_and_hashes(real | various_n | various_k),
        _reductions(everywhere),
        _later(real, "factorised interactions"),
        _later(various_n | various_k, "synthetic data"),
        _per_product(real | various_n | various_k),
        *(_ours(real | various_n | various_k, name) for name in OURS),
    ]
    return [claim for claim in claims if claim is not None]


def grouped(results: list[Result]) -> Panels:
    """Return the results by data set, in the order of names and sizes, then by curve."""
    panels: Panels = {}
    for result in results:
        panels.setdefault(result.panel, {}).setdefault(result.curve, []).append(result)
    return dict(sorted(panels.items()))


def quality(curve: list[Result] | None, speedup: float, metric: str = "prec_5") -> float:
    """Return the best quality at a speed-up, 0 where the method never gets that fast."""
    return quality_at(curve or [], metric, speedup) or 0.0


def name_of(panel: Panel) -> str:
    """Return a data set's name for a table."""
    return f"{panel[0]} {panel[1]} x {panel[2]}"


def _verdict(wins: int, cases: int) -> str:
    return AGREES if wins >= 0.9 * cases else PARTLY if wins >= 0.5 * cases else DIFFERS


def _time_ratios(variants: Panels, slow: str, fast: str) -> list[float]:
    """Divide the times of one variant by another's, at every budget of every data set."""
    by_setting = {
        (panel, name, r.products): r.seconds
        for panel, curves in variants.items()
        for name, curve in curves.items()
        for r in curve
    }
    return [
        seconds / by_setting[panel, fast, products]
        for (panel, name, products), seconds in by_setting.items()
        if name == slow and (panel, fast, products) in by_setting
    ]


def _heap_and_tree(variants: Panels) -> Claim | None:
    tree, heap, _ = VARIANTS
    ratios = _time_ratios(variants, heap, tree)
    if not ratios:
        return None
    ratio = geometric_mean(ratios)
    return Claim(
        "Figure 3: the difference between a selection tree and a max-heap is small",
        AGREES if 0.75 < ratio < 1.33 else DIFFERS,
        f"the heap takes {ratio:.2f} times the tree's time (geometric mean over {len(ratios)} budgets and data "
        f"sets, {min(ratios):.2f} to {max(ratios):.2f}); their answers are the same",
    )


def _improved_and_original(variants: Panels) -> Claim | None:
    tree, heap, original = VARIANTS
    ratios = _time_ratios(variants, original, tree)
    if not ratios:
        return None
    ratio, other = geometric_mean(ratios), geometric_mean(_time_ratios(variants, heap, tree))
    larger = abs(ratio - 1) > abs(other - 1) and ratio > 1
    return Claim(
        "Figure 3: the difference between the original screening (algorithm 4) and the improved one (algorithm 5) "
        "is more significant",
        AGREES if larger and ratio > 1.1 else DIFFERS,
        f"at the same budget the original takes {ratio:.2f} times the improved one's time (geometric mean, "
        f"{min(ratios):.2f} to {max(ratios):.2f}), ranking included",
    )


def _cases(panels: Panels, rivals: tuple[str, ...]) -> Iterator[tuple[Panel, int, float, float, str]]:
    """Panel, speed-up, quality of Greedy-MIPS, the best rival's quality and name; not where nobody finds a thing."""
    for panel, curves in panels.items():
        for speedup in SPEEDUPS:
            own = quality(curves.get(GREEDY), speedup)
            best, name = max((quality(curves.get(rival), speedup), rival) for rival in rivals)
            if max(own, best) > 0.02:
                yield panel, speedup, own, best, name


def _ahead(panels: Panels, rivals: tuple[str, ...]) -> tuple[int, int, str]:
    """How often Greedy-MIPS is ahead, out of how many cases, and where it is furthest behind."""
    cases = list(_cases(panels, rivals))
    wins = sum(own >= best for _, _, own, best, _ in cases)
    if wins == len(cases):
        return wins, len(cases), ""
    panel, speedup, own, best, name = max(cases, key=lambda case: case[3] - case[2])
    return (
        wins,
        len(cases),
        (f"; furthest behind on {name_of(panel)} at {speedup}x: prec@5 {own:.2f}, {name} {best:.2f}"),
    )


def _ahead_on_real(real: Panels) -> Claim | None:
    wins, cases, worst = _ahead(real, RIVALS)
    if not cases:
        return None
    lead = mean(own - best for _, _, own, best, _ in _cases(real, RIVALS))
    return Claim(
        "Figure 4: given a fixed speed-up, Greedy-MIPS gives much higher quality than PCA-MIPS, LSH-MIPS and "
        "Diamond-MSIPS",
        _verdict(wins, cases),
        f"ahead of all three in {wins} of {cases} cases (data set and speed-up of {', '.join(map(str, SPEEDUPS))}), "
        f"on average by {lead:+.2f} in prec@5 against the best of them{worst}",
    )


def _at_200(real: Panels) -> Claim | None:
    largest = [panel for panel in real if panel[2] == max(p[2] for p in real)]
    if not largest:
        return None
    largest = [panel for panel in largest if panel[1] == max(p[1] for p in largest)]
    if not any(r.speedup_over_paper_naive >= 200 for panel in largest for r in real[panel].get(GREEDY, [])):
        return None  # too small for anyone to be that much faster
    own = {panel: quality(real[panel].get(GREEDY), 200) for panel in largest}
    rivals = {panel: max((quality(real[panel].get(rival), 200), rival) for rival in RIVALS) for panel in largest}
    good, poor = min(own.values()) >= 0.7, max(rivals.values())[0] < 0.1
    lines = "; ".join(
        f"{name_of(panel)}: Greedy-MIPS {own[panel]:.2f}, best other {rivals[panel][0]:.2f} ({rivals[panel][1]})"
        for panel in largest
    )
    return Claim(
        "Figure 4, k = 200, the larger set: at 200x Greedy-MIPS has prec@5 of 70 %, and none of the other three "
        "reaches 10 %",
        AGREES if good and poor else PARTLY if good or poor else DIFFERS,
        f"prec@5 at 200x: {lines}",
    )


def _gap(panels: Panels, axis: int, says: str) -> Claim | None:
    """Compare the lead at the smallest and the largest n (axis 1) or k (axis 2), on normal data as the paper does."""
    normal = {panel: curves for panel, curves in panels.items() if panel[0] == "syn-normal"}
    gaps = {}
    for panel, curves in sorted(normal.items(), key=lambda entry: entry[0][axis]):
        leads = [
            quality(curves.get(GREEDY), s) - max(quality(curves.get(rival), s) for rival in RIVALS) for s in SPEEDUPS
        ]
        gaps[panel[axis]] = mean(leads)
    if len(gaps) < 2 or not any(gaps.values()):
        return None
    first, *_, last = gaps.values()
    if axis == 1:
        verdict = AGREES if last >= 0.5 * first > 0 else DIFFERS
    else:
        verdict = AGREES if 0 < last < first else PARTLY if last < first else DIFFERS
    line = ", ".join(f"{size}: {gap:+.2f}" for size, gap in gaps.items())
    return Claim(
        f"Figure {5 if axis == 1 else 6}: {says}",
        verdict,
        f"lead in prec@5 over the best of the three, mean over the speed-ups, by {'n' if axis == 1 else 'k'}: {line}",
    )


def _still_ahead(synthetic: Panels) -> Claim | None:
    normal = {panel: curves for panel, curves in synthetic.items() if panel[0] == "syn-normal"}
    wins, cases, worst = _ahead(normal, RIVALS)
    if not cases:
        return None
    return Claim(
        "Figures 5 and 6: Greedy-MIPS outperforms the other approaches significantly on normal data",
        _verdict(wins, cases),
        f"ahead in {wins} of {cases} cases{worst}",
    )


def _trees_and_hashes(panels: Panels) -> Claim | None:
    cases = [
        (quality(curves.get("PCA-MIPS"), s), quality(curves.get("LSH-MIPS"), s))
        for curves in panels.values()
        for s in SPEEDUPS
    ]
    cases = [case for case in cases if max(case) > 0.02]
    if not cases:
        return None
    wins = sum(tree >= hashed for tree, hashed in cases)
    return Claim(
        "Section 2.1: the PCA-tree performs better than LSH",
        _verdict(wins, len(cases)),
        f"PCA-MIPS is ahead of LSH-MIPS in {wins} of {len(cases)} cases, mean prec@5 "
        f"{mean(tree for tree, _ in cases):.2f} against {mean(hashed for _, hashed in cases):.2f}",
    )


def _reductions(panels: Panels) -> Claim | None:
    pairs = [
        (quality(curves["LSH-MIPS"], s), quality(curves["LSH-MIPS, eq. 3"], s))
        for curves in panels.values()
        if "LSH-MIPS, eq. 3" in curves and "LSH-MIPS" in curves
        for s in SPEEDUPS
    ]
    if not pairs or not max(max(pair) for pair in pairs):
        return None
    apart = mean(abs(a - b) for a, b in pairs)
    return Claim(
        "Section 2.1: the reductions of eq. 2 and eq. 3 show a similar performance",
        AGREES if apart < 0.1 else DIFFERS,
        f"LSH-MIPS with eq. 2 has mean prec@5 {mean(a for a, _ in pairs):.2f}, with eq. 3 "
        f"{mean(b for _, b in pairs):.2f}; they are {apart:.2f} apart on average",
    )


def _later(panels: Panels, where: str) -> Claim | None:
    wins, cases, worst = _ahead(panels, LATER)
    if not cases:
        return None
    return Claim(
        f"Not in the paper's figures: Greedy-MIPS against k-means MIPS and dWedge, on {where}",
        _standing(wins, cases),
        f"ahead of both in {wins} of {cases} cases{worst}",
    )


def _per_product(panels: Panels) -> Claim | None:
    """Compare at equal numbers of inner products: what a budget buys, before anyone's code is timed."""
    cases = []
    for curves in panels.values():
        for most in (256, 1024, 4096):
            best = {
                name: max((r.prec_5 for r in curves.get(name, []) if r.products <= most), default=0.0)
                for name in (GREEDY, *RIVALS)
            }
            if max(best.values()) > 0.02:
                cases.append((best[GREEDY], max(best[rival] for rival in RIVALS)))
    if not cases:
        return None
    wins = sum(own >= best for own, best in cases)
    return Claim(
        "Section 3: with a budget of inner products, Greedy-MIPS finds more than the three others",
        _verdict(wins, len(cases)),
        f"with at most 256, 1024 or 4096 inner products it is ahead of all three in {wins} of {len(cases)} cases, mean "
        f"prec@5 {mean(own for own, _ in cases):.2f} against {mean(best for _, best in cases):.2f} of the best of them",
    )


def _ours(panels: Panels, name: str) -> Claim | None:
    others = (GREEDY, *RIVALS, *LATER)
    cases = []
    for curves in panels.values():
        for speedup in SPEEDUPS:
            own, greedy = (quality(curves.get(curve), speedup, "recall_10") for curve in (name, GREEDY))
            best, whose = max((quality(curves.get(other), speedup, "recall_10"), other) for other in others)
            if max(own, best) > 0.02:
                cases.append((own, greedy, best, whose))
    if not cases:
        return None
    wins = sum(own >= greedy for own, greedy, _, _ in cases)
    ahead = [whose for own, _, best, whose in cases if best > own + LEVEL]
    by = ", ".join(f"{whose} {ahead.count(whose)}" for whose in others if whose in ahead)
    return Claim(
        f"Not in the paper: our index as `budgetrec build` makes it ({name}) against Greedy-MIPS, strict recall@10",
        _standing(wins, len(cases)),
        f"ahead in {wins} of {len(cases)} cases, mean recall@10 {mean(own for own, *_ in cases):.2f} against "
        f"{mean(greedy for _, greedy, *_ in cases):.2f}; not more than {LEVEL} behind any other method in "
        f"{len(cases) - len(ahead)}" + (f", in the rest behind {by}" if ahead else ""),
    )


def _standing(wins: int, cases: int) -> str:
    return "ahead" if wins >= 0.9 * cases else "mixed" if wins > 0.1 * cases else "behind"
