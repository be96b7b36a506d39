"""The paper's experiments, tiny: shapes, sanity and the cache; never times."""

import csv
import json
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from loadtests.index import datasets
from loadtests.index.paper import claims, curves, figures, measure, plan, run, summary
from loadtests.index.paper.__main__ import main
from loadtests.index.paper.results import Cache, Result


@pytest.fixture(scope="module")
def tiny():
    """Synthetic data only: nothing is factorised here."""
    return plan.make("tiny").only(figures=[5], kinds=None)


@pytest.fixture(scope="module")
def measured(tiny, tmp_path_factory):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    return (*run.run(tiny, cache=cache, progress=False), cache)


def point(curve="Greedy-MIPS", speedup=100.0, prec_5=0.5, recall_10=0.4, data="syn-normal", items=256, dims=16, **rest):
    values = {
        "figures": "4 5 6", "knobs": "{}", "prec_10": prec_5, "seconds": 1.0 / speedup, "products": 64.0, "queries": 20,
        "speedup_over_paper_naive": speedup, "speedup_over_our_naive": speedup / 8,
    }  # fmt: skip
    return Result(
        curve=curve, prec_5=prec_5, recall_10=recall_10, data=data, items=items, dims=dims, **{**values, **rest}
    )


# ---- plans ---------------------------------------------------------------------------------------------------


def test_the_full_plan_has_the_papers_sizes():
    full = plan.make("full")
    assert full.queries == 2_000
    normal = [data for data in full.panels[5] if data.kind == "normal"]
    assert [(data.items, data.dims) for data in normal] == [(2**p, 128) for p in (17, 18, 19, 20)]
    normal = [data for data in full.panels[6] if data.kind == "normal"]
    assert [(data.items, data.dims) for data in normal] == [(2**18, 2**p) for p in (2, 5, 7, 10)]
    assert {data.kind for data in full.panels[5] + full.panels[6]} == {"normal", "uniform"}
    for items in (17_770, 624_961):
        models = {(data.method, data.dims) for data in full.panels[4] if data.items == items}
        assert models == {(method, dims) for method in ("als", "explicit") for dims in (50, 100, 200)}
    assert set(full.panels[3]) <= set(full.panels[4])


def test_a_set_shown_twice_is_measured_once():
    full = plan.make("full")
    both = [data for data in full.data() if len(full.figures_of(data)) == 2 and 5 in full.figures_of(data)]
    assert [(data.kind, data.items, data.dims) for data in both] == [(k, 2**18, 128) for k in ("normal", "uniform")]
    assert len(list(full.data())) == len(set(full.data()))


def test_files_of_interactions_take_the_place_of_generated_ones(tmp_path):
    files = [tmp_path / "a.npz", tmp_path / "b.npz"]
    made = plan.make("quick", interactions=files)
    assert {data.file for data in made.panels[4]} == {str(path) for path in files}
    assert {data.kind for data in made.panels[4]} == {"interactions"}
    full = plan.make("full", interactions=files[:1])
    assert {(data.method, data.dims) for data in full.panels[4]} == {
        (method, dims) for method in ("als", "explicit") for dims in (50, 100, 200)
    }


@pytest.mark.parametrize("n_items", [256, 17_770, 2**17, 2**20])
@pytest.mark.parametrize("grid", [1, 2, 4])
def test_every_curve_has_settings_for_every_size(n_items, grid):
    for curve in curves.COMPARED + curves.VARIANT_CURVES + curves.CHECKS:
        pairs = list(curve.settings(n_items, grid))
        assert pairs
        assert all(settings for _, settings in pairs)
        described = [json.dumps([build, query], sort_keys=True) for build, settings in pairs for query in settings]
        assert len(described) == len(set(described))


# ---- measuring -----------------------------------------------------------------------------------------------


def test_quality_is_the_papers_precision_and_the_strict_recall():
    truth = np.arange(20)[None, :]
    perfect = np.arange(10)[None, :]
    assert measure.quality(perfect, truth) == (1.0, 1.0, 1.0)
    second_ten = np.arange(10, 20)[None, :]
    assert measure.quality(second_ten, truth) == (1.0, 1.0, 0.0)
    half = np.array([[0, 1, 2, 3, 4, 100, 101, 102, 103, 104]])
    assert measure.quality(half, truth) == (1.0, 0.5, 0.5)
    assert measure.quality(np.full((1, 10), -1), truth) == (0.0, 0.0, 0.0)


def test_the_truth_is_exact():
    data = datasets.load("gaussian", items=300, dims=12, queries=7)
    expected = np.argsort(-(data.queries @ data.items.T), axis=1)[:, : measure.TRUE_TOP]
    np.testing.assert_array_equal(measure.true_top(data), expected)


def test_results_are_sane(measured, tiny):
    results, refusals, _ = measured
    assert {r.panel for r in results} == {(data.family, data.items, data.dims) for data in tiny.data()}
    for result in results:
        assert 0 <= result.recall_10 <= result.prec_10 <= 1
        assert 0 <= result.prec_5 <= 1
        assert result.seconds > 0
        assert result.products >= 0
        assert result.queries <= tiny.queries
        assert result.speedup_over_paper_naive > 0
        assert result.speedup_over_our_naive > 0
    names = {curve.name for curve in curves.COMPARED}
    assert names <= {r.curve for r in results if r.data == "syn-uniform"}
    assert names - {r.curve for r in results if r.data == "syn-normal"} == {"Sample-MIPS"}
    assert list(refusals) == ["Sample-MIPS on syn-normal"]
    assert "must not be negative" in refusals["Sample-MIPS on syn-normal"]


def test_more_work_gives_more_quality(measured):
    results, _, _ = measured
    for panel in {r.panel for r in results}:
        for name in ("Greedy-MIPS", *curves.OURS, "k-means MIPS"):
            curve = sorted((r for r in results if r.panel == panel and r.curve == name), key=lambda r: r.products)
            recalls = [r.recall_10 for r in curve]
            assert recalls == sorted(recalls), name


def test_the_variants_of_greedy_find_the_same(tmp_path):
    data = datasets.load("gaussian", items=500, dims=16, queries=20)
    found = set()
    for curve in curves.VARIANT_CURVES:
        ((build_knobs, settings),) = curve.settings(500, 4)
        searcher = curve.build(data, build_knobs)
        found.add(searcher.read(searcher.run(searcher.ask(data.queries), 10, **settings[0]), 10).ids.tobytes())
    assert len(found) == 1


# ---- the cache -----------------------------------------------------------------------------------------------


def test_a_second_run_measures_nothing(measured, tiny, monkeypatch):
    results, refusals, cache = measured

    def forbidden(*_):
        raise AssertionError("measured again")

    monkeypatch.setattr(measure, "measure", forbidden)
    monkeypatch.setattr(measure, "naive_seconds", forbidden)
    assert run.run(tiny, cache=cache, progress=False) == (results, refusals)


def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    small = plan.make("tiny").only(figures=[6], kinds=["uniform"])
    cache = Cache(tmp_path)
    real = measure.measure
    calls = []

    def stops(*arguments):
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(measure, "measure", stops)
    with pytest.raises(KeyboardInterrupt):
        run.run(small, cache=cache, progress=False)
    monkeypatch.setattr(measure, "measure", lambda *arguments: (calls.append(arguments), real(*arguments))[1])
    results, _ = run.run(small, cache=cache, progress=False)
    assert len(calls) == len(results)


def test_a_file_that_was_cut_short_counts_as_absent(tmp_path):
    cache = Cache(tmp_path)
    cache.put({"a": 1}, [1, 2])
    assert cache.get({"a": 1}) == [1, 2]
    assert cache.get({"a": 2}) is None
    cache.path({"a": 1}).write_text('{"value": [1,')
    assert cache.get({"a": 1}) is None


# ---- figures, claims, the page -------------------------------------------------------------------------------


def test_the_frontier_drops_settings_that_others_beat():
    points = [point(speedup=s, prec_5=q) for s, q in [(100, 0.2), (50, 0.6), (60, 0.1), (10, 0.5), (5, 0.9)]]
    assert figures.frontier(points, "prec_5", "speedup_over_paper_naive") == [(100, 0.2), (50, 0.6), (5, 0.9)]
    assert [figures.quality_at(points, "prec_5", s) for s in (1, 5, 50)] == pytest.approx([0.9, 0.9, 0.6])
    assert figures.quality_at(points, "prec_5", 250**0.5) == pytest.approx(0.75)
    assert figures.quality_at(points, "prec_5", 101) is None


def verdicts(results):
    return {claim.says: claim.verdict for claim in claims.check(results)}


def claim_about(text, results):
    return next(verdict for says, verdict in verdicts(results).items() if text in says)


def at_all_speeds(curve, quality, **rest):
    return [point(curve, speedup=s, prec_5=quality, recall_10=quality, **rest) for s in claims.SPEEDUPS]


def test_claims_follow_the_results_whichever_way_they_go():
    good = at_all_speeds("Greedy-MIPS", 0.8, dims=200) + at_all_speeds("PCA-MIPS", 0.05, dims=200)
    assert claim_about("given a fixed speed-up", good) == claims.AGREES
    assert claim_about("at 200x Greedy-MIPS has prec@5 of 70 %", good) == claims.AGREES
    bad = at_all_speeds("Greedy-MIPS", 0.3, dims=200) + at_all_speeds("LSH-MIPS", 0.6, dims=200)
    assert claim_about("given a fixed speed-up", bad) == claims.DIFFERS
    assert claim_about("at 200x Greedy-MIPS has prec@5 of 70 %", bad) == claims.DIFFERS
    assert claim_about("the PCA-tree performs better than LSH", bad) == claims.DIFFERS


def test_the_gap_is_followed_over_n_and_k():
    def lead(by_size, axis):
        results = []
        for size, gap in by_size.items():
            results += at_all_speeds("Greedy-MIPS", 0.1 + gap, **{axis: size})
            results += at_all_speeds("PCA-MIPS", 0.1, **{axis: size})
        return results

    assert claim_about("remains when n increases", lead({256: 0.5, 512: 0.5}, "items")) == claims.AGREES
    assert claim_about("remains when n increases", lead({256: 0.5, 512: 0.1}, "items")) == claims.DIFFERS
    assert claim_about("smaller when k increases", lead({4: 0.5, 32: 0.1}, "dims")) == claims.AGREES
    assert claim_about("smaller when k increases", lead({4: 0.1, 32: 0.5}, "dims")) == claims.DIFFERS


def test_variants_are_compared_at_equal_budgets():
    tree, heap, original = curves.VARIANTS
    results = [
        point(name, figures="3", products=budget, seconds=seconds * budget)
        for budget in (64.0, 256.0)
        for name, seconds in ((tree, 1.0), (heap, 1.1), (original, 2.0))
    ]
    assert claim_about("selection tree and a max-heap is small", results) == claims.AGREES
    assert claim_about("original screening", results) == claims.AGREES
    assert "takes 2.00 times" in next(c.found for c in claims.check(results) if "original screening" in c.says)


def test_our_own_curves_are_told_from_each_other_and_from_everyone_else():
    known, vector = curves.OURS
    others = at_all_speeds("Greedy-MIPS", 0.5) + at_all_speeds("k-means MIPS", 0.8)
    results = others + at_all_speeds(known, 0.9) + at_all_speeds(vector, 0.6)
    assert claim_about(known, results) == claim_about(vector, results) == "ahead"
    found = {name: next(c.found for c in claims.check(results) if name in c.says) for name in curves.OURS}
    assert "not more than 0.01 behind any other method in 5" in found[known]
    assert "in the rest" not in found[known]
    assert "not more than 0.01 behind any other method in 0, in the rest behind k-means MIPS 5" in found[vector]
    assert claim_about(vector, others + at_all_speeds(vector, 0.4)) == "behind"


def test_nothing_is_claimed_where_nothing_is_fast_enough():
    slow = [point(speedup=2.0, products=1e6)]
    assert claims.check(slow) == []
    made = plan.make("tiny")
    assert "Nothing can be said" in summary.page(made, slow, {}, made="x")


def test_the_command_writes_figures_tables_and_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("loadtests.index.paper.__main__.Cache", lambda: Cache(tmp_path / "cache"))
    monkeypatch.setattr(datasets, "CACHE", tmp_path / "datasets")
    out = tmp_path / "out"
    assert main(["--tiny", "--figures", "3", "4", "--no-progress", "--out", str(out)]) == 0
    assert "summary.md" in capsys.readouterr().out
    for number in (3, 4):
        for form in ("", "-wide", "-recall"):
            assert (out / f"figure-{number}{form}.png").read_bytes().startswith(b"\x89PNG")
            assert ET.parse(out / f"figure-{number}{form}.svg").getroot().tag.endswith("svg")
        with (out / f"figure-{number}.csv").open() as file:
            rows = list(csv.DictReader(file))
        shown = {curve.name for curve in (curves.VARIANT_CURVES if number == 3 else curves.COMPARED)}
        assert {row["curve"] for row in rows} == shown - {"Sample-MIPS"}
        assert {row["data"] for row in rows} == {"topics-400, implicit ALS", "topics-400, weighted-lambda MF"}
        assert all(0 <= float(row["recall_10"]) <= 1 for row in rows)
    page = (out / "summary.md").read_text()
    assert "This is a tiny run" in page
    assert "PCA-MIPS, root pivot at every level" in page
    assert "Sample-MIPS on topics-400, implicit ALS: Items hold negative values" in page
    assert "earlier runs" not in page
    assert main(["--tiny", "--figures", "3", "4", "--no-progress", "--out", str(out)]) == 0
    assert "a part of it kept from earlier runs" in (out / "summary.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--interactions", "absent.npz"], "There is no file absent.npz"),
        (["--figures", "5", "--data", "topics"], "No figure shows that data"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(arguments, says, capsys):
    assert main(["--tiny", *arguments]) == 2
    assert says in capsys.readouterr().err
