"""A run: every curve on every data set of a plan, through the cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from loadtests.index.baselines import UnsuitableDataError
from loadtests.index.paper import curves, measure
from loadtests.index.paper.results import Result, code_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from loadtests.index.datasets import Dataset
    from loadtests.index.paper.curves import Curve, Searcher
    from loadtests.index.paper.plan import Data, Plan
    from loadtests.index.paper.results import Cache


class Refusal(dict[str, str]):
    """Which curve had to leave out which data, and the sentence it gave."""


def curves_for(plan: Plan, data: Data) -> list[Curve]:
    """Return the curves that the figures showing this data need, without repeats."""
    wanted: list[Curve] = []
    figures = plan.figures_of(data)
    if 3 in figures:
        wanted += curves.VARIANT_CURVES
    if {4, 5, 6} & set(figures):
        wanted += curves.COMPARED
    if 3 in figures or (5 in figures and data == _smallest(plan)):
        wanted += curves.CHECKS
    return wanted


def _smallest(plan: Plan) -> Data:
    return min((data for data in plan.panels[5]), key=lambda data: (data.items, data.kind))


def run(plan: Plan, *, cache: Cache, progress: bool = True) -> tuple[list[Result], Refusal]:
    """Measure what is not in the cache yet; return all results of the plan and who refused what."""
    results: list[Result] = []
    refusals = Refusal()
    sets = list(plan.data())
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), disable=not progress) as bar:
        whole = bar.add_task("data sets", total=len(sets))
        for data in sets:
            wanted = curves_for(plan, data)
            part = bar.add_task(f"  {_label(data)}: vectors and truth", total=len(wanted))
            panel = _Panel(plan, data, cache)
            for curve in wanted:
                bar.update(part, description=f"  {_label(data)}: {curve.name}")
                try:
                    results += panel.results(curve)
                except UnsuitableDataError as refused:
                    refusals[f"{curve.name} on {data.family}"] = str(refused)
                bar.advance(part)
            bar.remove_task(part)
            bar.advance(whole)
    return results, refusals


def _label(data: Data) -> str:
    size = f"{data.items} x " if data.items else ""
    return f"{data.family}, {size}{data.dims}"


class _Panel:
    """One data set during a run; it is loaded only when something is left to measure."""

    def __init__(self, plan: Plan, data: Data, cache: Cache) -> None:
        self.plan, self.spec, self.cache = plan, data, cache
        self._data: Dataset | None = None
        self._truth: Any = None
        self._built: tuple[Any, Any] = (None, None)
        self.key = {"data": data.key, "queries": plan.queries, "seconds": plan.seconds}
        naive = cache.remember({**self.key, "naive": code_digest(ours=True)}, self._measure_naive)
        self.n_items, self.paper_naive, self.our_naive = naive["items"], naive["paper"], naive["ours"]

    @property
    def data(self) -> Dataset:
        """The vectors."""
        if self._data is None:
            loaded = self.spec.load(self.plan.queries, progress=False)
            # A memory-mapped set is read once here and not page by page while something is timed.
            self._data = loaded._replace(items=np.array(loaded.items))
        return self._data

    @property
    def truth(self) -> Any:
        """The true best items of every query."""
        if self._truth is None:
            self._truth = np.array(
                self.cache.remember({**self.key, "truth": True}, lambda: measure.true_top(self.data).tolist())
            )
        return self._truth

    def _measure_naive(self) -> dict[str, Any]:
        paper, ours = measure.naive_seconds(self.data, self.plan.seconds / 2)
        return {"items": len(self.data.items), "paper": paper, "ours": ours}

    def results(self, curve: Curve) -> Iterator[Result]:
        """Yield the points of a curve, building an index only where a point is missing."""
        for build_knobs, settings in curve.settings(self.n_items, self.plan.grid):
            known = {**self.key, "curve": curve.name, "build": build_knobs, "code": code_digest(ours=curve.ours)}
            keys = [{**known, "query": query_knobs} for query_knobs in settings]
            values = [self.cache.get(key) for key in keys]
            if None in values:
                searcher = self._searcher(curve, build_knobs)
                for place, (key, query_knobs) in enumerate(zip(keys, settings, strict=True)):
                    if values[place] is None:
                        measured = measure.measure(
                            searcher, self.data, self.truth, self.plan.seconds, self.our_naive, query_knobs
                        )
                        values[place] = measured._asdict()
                        self.cache.put(key, values[place])
            for query_knobs, value in zip(settings, values, strict=True):
                yield self._result(curve, {**build_knobs, **query_knobs}, value)

    def _searcher(self, curve: Curve, knobs: dict[str, Any]) -> Searcher:
        """Build it, or take the one built last: some curves differ only in how they search."""
        what = (curve.build, knobs)
        if self._built[0] != what:
            self._built = (None, None)  # before the next is built, since both may not fit into memory
            self._built = (what, curve.build(self.data, knobs))
        searcher: Searcher = self._built[1]
        return searcher

    def _result(self, curve: Curve, knobs: dict[str, Any], measured: dict[str, Any]) -> Result:
        return Result(
            figures=" ".join(str(number) for number in self.plan.figures_of(self.spec)),
            data=self.spec.family,
            items=self.n_items,
            dims=self.spec.dims,
            curve=curve.name,
            knobs=json.dumps(knobs, sort_keys=True),
            **measured,
            speedup_over_paper_naive=self.paper_naive / measured["seconds"],
            speedup_over_our_naive=self.our_naive / measured["seconds"],
        )


def results_of(figure: int, results: list[Result]) -> list[Result]:
    """Return what a figure shows."""
    names = {curve.name for curve in (curves.VARIANT_CURVES if figure == 3 else curves.COMPARED)}
    return [r for r in results if str(figure) in r.figures.split() and r.curve in names]


def write(plan: Plan, results: list[Result], refusals: Refusal, out: Path, *, made: str) -> None:
    """Write figures, tables and the summary page; `made` says how and when."""
    from loadtests.index.paper import figures, summary  # noqa: PLC0415 - matplotlib takes a second to import
    from loadtests.index.paper.results import write_csv  # noqa: PLC0415

    out.mkdir(parents=True, exist_ok=True)
    for number in sorted(plan.panels):
        shown = results_of(number, results)
        write_csv(out / f"figure-{number}.csv", shown)
        figures.draw(number, shown, out)
    write_csv(out / "all.csv", results)
    (out / "summary.md").write_text(summary.page(plan, results, refusals, made=made))
