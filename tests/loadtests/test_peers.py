"""The comparison with other libraries: arithmetic with known answers, tiny data, nobody's times."""

import json

import numpy as np
import pytest

from greedy_core import ExactIndex
from loadtests.index import datasets, measure
from loadtests.index.peers import __main__ as command
from loadtests.index.peers import filters, libraries, race, report
from loadtests.index.peers.contestants import (
    AS_BUILT,
    EXACT,
    KNOWN,
    OURS,
    VECTOR,
    Contestant,
    Ours,
    Setting,
    exact_scan,
    searched,
)
from loadtests.index.peers.frontier import Point, envelope, promising, seconds_at, verdicts


def points(family, *pairs):
    return [Point(family, family, f"setting {n}", recall, us / 1e6) for n, (recall, us) in enumerate(pairs)]


@pytest.fixture(scope="module")
def tiny():
    return datasets.load("gaussian", items=600, dims=8, queries=40)


@pytest.fixture(scope="module")
def ours(tiny):
    return Ours(tiny.items, tiny.users)


# ---- the frontier ------------------------------------------------------------------------------------------------


def test_the_envelope_holds_what_nothing_beats():
    measured = points("a", (0.9, 20), (0.5, 10), (0.8, 30), (0.9, 25), (0.99, 40), (0.4, 10))
    assert [(p.recall, round(p.seconds * 1e6)) for p in envelope(measured)] == [(0.5, 10), (0.9, 20), (0.99, 40)]


def test_between_two_settings_lies_a_line():
    measured = points("a", (0.8, 10), (1.0, 30))
    assert seconds_at(measured, 0.9) == pytest.approx(20e-6)
    assert seconds_at(measured, 1.0) == pytest.approx(30e-6)


def test_below_the_first_setting_its_whole_time_counts():
    assert seconds_at(points("a", (0.8, 10), (1.0, 30)), 0.5) == pytest.approx(10e-6)


def test_a_line_may_pass_below_a_setting():
    assert seconds_at(points("a", (0.8, 10), (0.9, 28), (1.0, 30)), 0.9) == pytest.approx(20e-6)


def test_a_level_that_is_never_reached_has_no_time():
    assert seconds_at(points("a", (0.8, 10), (0.94, 30)), 0.95) is None
    assert seconds_at([], 0.5) is None


def test_the_verdict_divides_our_time_by_the_best_peers():
    measured = [
        *points(KNOWN, (0.9, 10), (0.96, 20)),
        *points("slow", (0.99, 100)),
        *points("fast", (0.9, 25)),
        *points("not a peer", (0.99, 1)),
        *points(EXACT, (1.0, 1000)),
    ]
    low, middle, high = verdicts(measured, KNOWN, EXACT, aside=["not a peer"], levels=(0.9, 0.96, 0.99))
    assert (low.peer, low.ratio, low.times_exact) == ("fast", pytest.approx(0.4), pytest.approx(100))
    # What "fast" cannot reach is the turn of "slow"; families are not mixed into one.
    assert (middle.peer, middle.ratio) == ("slow", pytest.approx(0.2))
    assert (high.ours, high.ratio, high.times_exact) == (None, None, None)
    assert high.peer == "slow"


def test_without_peers_there_is_no_ratio():
    (verdict,) = verdicts([*points(KNOWN, (1.0, 10)), *points(EXACT, (1.0, 50))], KNOWN, EXACT, levels=(0.9,))
    assert (verdict.peer, verdict.peers, verdict.ratio) == (None, None, None)
    assert verdict.times_exact == pytest.approx(5)


def test_only_what_is_clearly_beaten_is_not_measured_again():
    near, worse_but_hardly_slower, beaten, slow = (0.899, 12), (0.8, 11), (0.8, 14), (0.9, 18)
    measured = points("a", (0.9, 10), near, worse_but_hardly_slower, beaten, slow, (0.99, 40))
    kept = [(p.recall, round(p.seconds * 1e6)) for p in promising(measured)]
    assert kept == [(0.9, 10), near, worse_but_hardly_slower, (0.99, 40)]


# ---- contestants -------------------------------------------------------------------------------------------------


def test_the_exact_scan_finds_everything(tiny):
    truth = measure.true_top(tiny.items, tiny.queries)
    assert race.recall(exact_scan(tiny.items).settings[0], tiny.queries, truth) == 1.0


def test_our_labels_say_what_is_searched(ours, tiny):
    names = [contestant.name for contestant in ours.contestants()]
    assert len(set(names)) == len(names)
    assert {*AS_BUILT.values()} <= {*names}
    for contestant in ours.contestants():
        for setting in contestant.settings:
            screening, budget = searched(setting.label)
            query, remembered = question = setting.ask(tiny.queries)[0]
            assert (remembered is not None) == (contestant.family in (KNOWN, AS_BUILT[KNOWN]))
            result = setting.search(question)
            assert result.spent <= budget
            alone = ours.index.screened_by(screening).search(query, budget=budget, remembered=remembered)
            assert np.array_equal(result.ids, alone.ids)


def test_the_race_measures_every_family(ours, tiny):
    truth = measure.true_top(tiny.items, tiny.queries)
    poor = Contestant("poor", "poor", 0.0, 0, [Setting("always the same", lambda _: np.arange(10))])
    prepared = []
    state = Contestant(
        "state", "state", 0.0, 0, [Setting("x", lambda _: np.arange(10), prepare=lambda: prepared.append(1))]
    )
    contestants = [*ours.contestants(), poor, state]
    measured = race.race(contestants, tiny.queries, truth, rounds=1, exact_seconds=float("inf"))
    assert {point.family for point in measured} == {*OURS, *AS_BUILT.values(), "poor", "state"}
    assert max(point.recall for point in measured if point.family == VECTOR) > 0.9
    assert all(point.seconds > 0 for point in measured)
    assert prepared


class Absent(libraries.HnswlibIp):
    """A library that nobody has."""

    family, module = "absent", "a_library_that_nobody_has"


class Slow(Absent):
    """A library whose build never ends in time."""

    family, module, package = "slow", "json", "numpy"

    def build(self, items, deadline):
        self.grow(len(items), deadline - 1e9, lambda *_: None)


class Counting(Slow):
    """A library that can be built, kept and found again."""

    family = "counting"
    builds = 0

    def build(self, items, deadline):
        type(self).builds += 1

    def save(self, folder):
        (folder / "graph").write_bytes(b"12345")

    def load(self, folder, n_dims):
        assert (folder / "graph").read_bytes() == b"12345"
        assert n_dims == 8

    def settings(self):
        return [Setting("none", lambda _: np.arange(10))]


def test_what_was_built_is_kept(tiny, tmp_path):
    entered = [libraries.enter(Counting(M=4), tiny.items, "tiny", limit=10, cache=tmp_path) for _ in range(2)]
    assert Counting.builds == 1
    assert entered[0].name == "counting M=4"
    assert [one.nbytes for one in entered] == [5, 5]
    libraries.enter(Counting(M=4), tiny.items + 1, "tiny", limit=10, cache=tmp_path)
    assert Counting.builds == 2


def test_every_peer_of_the_issue_is_in_the_line_up():
    named = {peer.name for peer in libraries.lineup(10_000)}
    assert len(named) == len(libraries.lineup(10_000))
    assert {peer.family for peer in libraries.lineup(10_000, quick=True)} == set(libraries.FAMILIES)
    assert {"hnswlib ip M=48", "hnswlib L2 M=16", "ScaNN leaves=100 soar=True"} <= named


# ---- the whole command -------------------------------------------------------------------------------------------


@pytest.fixture
def run(tiny, monkeypatch):
    monkeypatch.setattr(command, "lineup", lambda *_, **__: [Absent(M=16), Absent(M=32), Slow(M=16)])
    return command.compare(tiny, queries=40, rounds=1, quick=True, limit=1, families=["absent", "slow"])


def test_who_is_missing_is_named(run):
    assert list(run["missing"]) == ["absent"]
    assert "a_library_that_nobody_has" in run["missing"]["absent"]
    assert list(run["given_up"]) == ["slow M=16"]
    text = "\n".join(report.remarks(run))
    assert "Missing: absent" in text
    assert "Given up: slow M=16 (0 of 600 items" in text
    assert "Not run: ScaNN" in text


def test_a_run_ends_in_tables_a_plot_and_results(run, tmp_path):
    run |= {"command": "the command", "date": "today", "machine": "this one"}
    run = json.loads(json.dumps(run))
    (tmp_path / "peers-tiny.json").write_text(json.dumps(run))
    page = tmp_path / "RESULTS.md"
    page.write_text(f"above\n{report.BEGIN}\nwhat was here\n{report.END}\nbelow\n")
    for _ in range(2):
        assert report.write_results(tmp_path, page) == 1
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "what was here" not in text
    assert text.count("### gaussian-600x8") == 1
    assert "none gets there" in text
    report.plot(run, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_a_file_that_is_not_there_is_one_sentence(capsys):
    assert command.main(["--interactions", "nowhere.npz"]) == 2
    assert capsys.readouterr().err == "There is no file nowhere.npz; expected a .npz with arrays user and item.\n"


# ---- filters -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", filters.KINDS)
def test_a_filter_leaves_its_share(tiny, kind):
    drawn = filters.draw(tiny.items, kind, 0.1, 3)
    assert drawn.mask.sum() == 60
    assert (drawn.mask == filters.draw(tiny.items, kind, 0.1, 3).mask).all()
    assert (drawn.mask != filters.draw(tiny.items, kind, 0.1, 4).mask).any()


def test_under_filters_ours_and_the_exact_scan_find_what_is_eligible(tiny, ours, tmp_path, monkeypatch):
    # Six items are scanned in no time, and a hiccup of the machine is ten times that: no budget is left out for it.
    monkeypatch.setattr(filters, "passed", lambda _setting, queries: [0.0 for _ in queries])
    index = ours.index
    rows = filters.compare(index, ExactIndex.build(tiny.items), [], tiny.queries[:8], rounds=1)
    assert [row["eligible"] for row in rows] == [600, *(2 * [300, 60, 18, 6, 1])]
    for row in rows:
        # 256 products are for all that is eligible, or for nearly all.
        assert row["recall_at_256"] > 0.9
        assert row["most_recall"][EXACT] == 1.0
        assert row["most_recall"][VECTOR] >= 0.95
        assert row["seconds"][EXACT] > 0
    run = {"data": "tiny", "rows": rows, "command": "c", "date": "d", "machine": "m", "queries": 8, "rounds": 1}
    run |= {"screening": "walk", "peers": []}
    (tmp_path / "filters-tiny.json").write_text(json.dumps(run))
    page = tmp_path / "RESULTS.md"
    page.write_text(f"before\n{report.FILTERS_BEGIN}\nold\n{report.FILTERS_END}\nafter\n")
    assert report.write_results(tmp_path, page) == 1
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| independent | 10.0% | 60 |" in text


def test_a_peer_is_asked_under_the_filter(tiny):
    """Whatever library is installed returns eligible items only."""
    mask = filters.draw(tiny.items, "independent", 0.3, 1).mask
    for peer in (libraries.HnswlibIp(M=8), libraries.FaissHnsw(M=8), libraries.FaissIvfFlat(lists=4)):
        try:
            peer.build(np.array(tiny.items), float("inf"))
        except ImportError:
            continue
        for setting in filters.peer_settings(peer, mask):
            setting.prepare()
            ids = np.asarray(setting.ids(setting.search(tiny.queries[0])))
            assert mask[ids[ids >= 0]].all()
