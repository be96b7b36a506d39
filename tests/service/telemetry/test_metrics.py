"""Metrics: valid, complete, shared, cheap to read, and free of anything a caller sent."""

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.settings import Settings
from service.telemetry.families import BUDGET_CLASSES, LAYOUT, SECONDS, Family, Layout, budget_class
from service.telemetry.metrics import Metrics, forget_worker, shared_bytes
from service.telemetry.model_metrics import ModelMetrics
from service.telemetry.recall_monitor import WAITING, RecallMonitor
from service.telemetry.sampling import RateLimit, Sampler
from tests.service.running import in_process, metric, poll

# What dashboards and alerts are built on.
EXPECTED = {
    "budgetrec_request_seconds": "histogram",
    "budgetrec_search_seconds": "histogram",
    "budgetrec_spent_products": "histogram",
    "budgetrec_products_spent": "counter",
    "budgetrec_products_asked": "counter",
    "budgetrec_products_granted": "counter",
    "budgetrec_requests": "counter",
    "budgetrec_degraded": "counter",
    "budgetrec_shed": "counter",
    "budgetrec_failed": "counter",
    "budgetrec_queued_products": "gauge",
    "budgetrec_in_flight": "gauge",
    "budgetrec_cost_law_a_seconds": "gauge",
    "budgetrec_cost_law_b_seconds": "gauge",
    "budgetrec_recall_hits": "counter",
    "budgetrec_recall_expected": "counter",
    "budgetrec_recall_checks": "counter",
    "budgetrec_model_info": "gauge",
    "budgetrec_model_built_timestamp_seconds": "gauge",
    "budgetrec_model_loaded_timestamp_seconds": "gauge",
    "budgetrec_model_load_seconds": "gauge",
    "budgetrec_model_swaps": "counter",
    "budgetrec_unknown_users": "counter",
    "budgetrec_ready": "gauge",
    "budgetrec_workers": "gauge",
}


@pytest.fixture
def memory(tmp_path):
    """Shared memory with room for three workers."""
    with (tmp_path / "metrics").open("w+b") as file:
        file.truncate(shared_bytes(3))
        yield file.fileno()


@pytest.mark.parametrize(
    ("budget", "name"),
    [(1, "1"), (2, "4"), (4, "4"), (5, "16"), (64, "64"), (65, "256"), (65536, "65536"), (65537, "more")],
)
def test_budget_classes_are_powers_of_four(budget, name):
    assert BUDGET_CLASSES[budget_class(budget)] == name


def test_buckets_reach_from_ten_microseconds_to_a_second():
    assert (SECONDS[0], SECONDS[-1]) == (10e-6, 1.0)
    assert list(SECONDS) == sorted(SECONDS)


def test_names_and_kinds(app):
    response = app.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert {name: families[name].type for name in EXPECTED if name in families} == EXPECTED
    names = {family.name for family in LAYOUT.families}
    assert len(names) == len(LAYOUT.families)


def test_a_search_is_counted_everywhere(model):
    with in_process(model.path) as app:
        for _ in range(3):
            app.get("/recommend?user_id=u9&budget=64")
        app.get("/recommend?user_id=u9&budget=9999")
        text = app.get("/metrics").text
    assert metric(text, 'budgetrec_requests_total{route="recommend",status="200"}') == 4
    assert metric(text, 'budgetrec_request_seconds_count{budget_class="64"}') == 3
    assert metric(text, 'budgetrec_search_seconds_count{budget_class="64"}') == 3
    assert metric(text, 'budgetrec_search_seconds_bucket{budget_class="64",le="+Inf"}') == 3
    spent = 3 * 64 + model.n_items - 5
    assert metric(text, "budgetrec_spent_products_count") == 4
    assert metric(text, "budgetrec_spent_products_sum") == pytest.approx(spent, abs=2)
    assert metric(text, "budgetrec_products_spent_total") == metric(text, "budgetrec_spent_products_sum")
    assert metric(text, "budgetrec_products_asked_total") == 3 * 64 + 9999
    assert metric(text, "budgetrec_products_granted_total") == 3 * 64 + 9999
    assert metric(text, 'budgetrec_model_info{version="v1"}') == 1
    assert metric(text, "budgetrec_model_built_timestamp_seconds") == pytest.approx(time.time(), abs=3600)


def test_histograms_are_cumulative(memory):
    metrics = Metrics(memory)
    for seconds in (5e-6, 10e-6, 12e-6, 0.2, 7.0):
        metrics.search(64, 64, 64, seconds, seconds)
    text = metrics.exposition().decode()

    def count(bound):
        return metric(text, f'budgetrec_search_seconds_bucket{{budget_class="64",le="{bound}"}}')

    assert [count(bound) for bound in ("1e-05", "1.5e-05", "0.1", "0.25", "1.0", "+Inf")] == [2, 3, 3, 4, 4, 5]
    assert metric(text, 'budgetrec_search_seconds_sum{budget_class="64"}') == pytest.approx(7.200027)


def test_the_cost_law_is_exported(app):
    app.get("/recommend?user_id=u9&budget=64")
    poll(lambda: app.metric("budgetrec_cost_law_b_seconds"), "the cost law")
    assert app.metric("budgetrec_cost_law_a_seconds") >= 0


def test_a_model_version_with_quotes_is_escaped(memory):
    metrics = Metrics(memory)
    ModelMetrics(metrics).serves('we"ird\\version\n', built=0, loaded=0, seconds=0)
    families = {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}
    assert families["budgetrec_model_info"].samples[0].labels["version"] == 'we"ird\\version\n'


class TestManyWorkers:
    def test_a_scrape_adds_up_all_workers(self, memory):
        workers = [Metrics(memory, slots=3, slot=slot) for slot in range(3)]
        for number, worker in enumerate(workers, 1):
            worker.set("budgetrec_workers", 1)
            worker.set("budgetrec_ready", 1)
            worker.set("budgetrec_cost_law_a_seconds", float(number))
            worker.count("budgetrec_unknown_users_total", by=number)
        for worker in workers:
            text = worker.exposition().decode()
            assert metric(text, "budgetrec_unknown_users_total") == 6
            assert metric(text, "budgetrec_workers") == 3
            assert metric(text, "budgetrec_ready") == 1
            assert metric(text, "budgetrec_cost_law_a_seconds") == 2
        workers[1].set("budgetrec_ready", 0)
        assert metric(workers[0].exposition().decode(), "budgetrec_ready") == 0

    def test_counters_survive_a_restart_and_gauges_do_not(self, memory):
        first = Metrics(memory, slots=2, slot=1)
        first.count("budgetrec_unknown_users_total", by=41)
        first.set("budgetrec_workers", 1)
        ModelMetrics(first).serves("old", built=1, loaded=1, seconds=1)
        watcher = Metrics(memory, slots=2, slot=0)
        forget_worker(watcher.rows, 1)
        text = watcher.exposition().decode()
        assert metric(text, "budgetrec_workers") == 0
        assert metric(text, 'budgetrec_model_info{version="old"}') is None
        second = Metrics(memory, slots=2, slot=1)
        second.count("budgetrec_unknown_users_total")
        assert metric(watcher.exposition().decode(), "budgetrec_unknown_users_total") == 42

    def test_two_versions_during_a_swap(self, memory):
        workers = [Metrics(memory, slots=2, slot=slot) for slot in range(2)]
        for worker, version in zip(workers, ("old", "new"), strict=True):
            ModelMetrics(worker).serves(version, built=0, loaded=0, seconds=0)
        text = workers[0].exposition().decode()
        assert metric(text, 'budgetrec_model_info{version="old"}') == 1
        assert metric(text, 'budgetrec_model_info{version="new"}') == 1


class TestRows:
    def test_every_combination_has_a_cell_of_its_own(self):
        layout = Layout(
            [
                Family("a", "counter", "", (("x", ("1", "2")), ("y", ("p", "q", "r")))),
                Family("h", "histogram", "", (("x", ("1", "2")),), (0.1, 1.0)),
                Family("g", "gauge", ""),
            ]
        )
        assert layout.n_cells == 6 + 2 * 4 + 1
        cells = {layout.at("a", x, y) for x in "12" for y in "pqr"}
        cells |= {layout.at("h", "1"), layout.at("h", "2"), layout.at("g")}
        assert len(cells) == 9
        assert layout.gauges() == [layout.at("g")]

    def test_what_was_not_declared_cannot_be_counted(self):
        with pytest.raises(KeyError):
            LAYOUT.at("budgetrec_requests_total", "recommend", "a user's own label")

    def test_a_long_text_is_cut(self, memory):
        rows = Metrics(memory).rows
        rows.set_text("ü" * 1000)
        assert set(rows.texts()[0]) == {"ü"}


def test_the_recall_monitor(model):
    with in_process(model.path, monitor_share=1.0, monitor_cpu=1.0) as app:
        for user in range(20, 40):
            app.get(f"/recommend?user_id=u{user}&budget=256")
        poll(lambda: app.metric("budgetrec_recall_checks_total") == 20, "all checks")
        hits = app.metric('budgetrec_recall_hits_total{budget_class="256"}')
        expected = app.metric('budgetrec_recall_expected_total{budget_class="256"}')
        assert expected == 200
        true = 0
        for user in range(20, 40):
            query, seen = model.user_vector(user), model.seen_items(user)
            exact = model.index.search(query, budget=model.n_items, exclude=seen)
            found = model.index.search(query, budget=256, exclude=seen, remembered=model.user_remembered(user))
            true += len(set(exact.ids.tolist()) & set(found.ids.tolist()))
        assert hits == true


@pytest.mark.parametrize("cap", [0.01, 0.05, 0.5, 1.0])
def test_the_monitor_rests_to_keep_within_its_cap(cap, memory):
    rest = RecallMonitor(Settings(monitor_cpu=cap), Metrics(memory)).rest(0.02)
    assert 0.02 / (0.02 + rest) == pytest.approx(cap)


def test_what_the_monitor_has_no_room_for_is_counted(model):
    with in_process(model.path, monitor_share=1.0, monitor_cpu=0.001) as app:
        for _ in range(100):
            app.get("/recommend?user_id=u9&budget=16")
        assert app.metric("budgetrec_recall_skipped_total") >= 100 - WAITING - 5


@pytest.mark.parametrize("share", [0.0, 0.01, 0.25, 1.0])
def test_a_sample_is_an_exact_share(share):
    due = Sampler(share).due
    assert sum(due() for _ in range(1000)) == pytest.approx(1000 * share, abs=1)


def test_a_rate_limit_counts_what_it_suppresses():
    limit = RateLimit(2)
    assert [limit.passes(10.0 + step / 10) for step in range(5)] == [True, True, False, False, False]
    assert limit.suppressed == 3
    assert limit.passes(11.1)


def test_some_metrics_alone(app):
    text = app.get("/metrics", params={"name[]": "budgetrec_ready,budgetrec_workers"}).text
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == {
        "budgetrec_ready", "budgetrec_workers",
    }  # fmt: skip
    unknown = app.get("/metrics", params={"name[]": "budgetrec_reedy"})
    assert unknown.status_code == 422
    assert unknown.json()["error"]["message"] == "name[] has 'budgetrec_reedy'."
