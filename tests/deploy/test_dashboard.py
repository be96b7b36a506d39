"""The dashboard: every query of every panel, run against a real Prometheus that scraped real replicas under load."""

from __future__ import annotations

import json
import math

import httpx
import pytest
import yaml

from loadtests.http import open_loop
from loadtests.http.dashboard import DASHBOARD, panels
from loadtests.http.fleet import DEPLOY
from loadtests.http.processes import poll

PANELS = panels()
QUERIES = [
    pytest.param(panel, query, id=f"{panel.title}-{i}") for panel in PANELS for i, query in enumerate(panel.queries)
]


@pytest.fixture(scope="module")
def watched(fleet):
    """A Prometheus that has seen some seconds of every kind of request."""
    measured = open_loop.run(fleet.url, open_loop.timetable(rate=150, seconds=6))
    assert measured.failed == 0
    with httpx.Client(base_url=fleet.url) as client:
        client.get("/recommend", params={"user_id": "1", "budget": "0"})
        client.get("/recommend", params={"user_id": "1", "budget": "1000000000"})
        client.post("/recommend/batch", json={"requests": [{"user_id": "1"}]})
    rules = "budgetrec:recall_at_budget:ratio30m"
    poll(lambda: bool(fleet.prometheus.query(rules)), seconds=20, what="the recording rules to have results")
    return fleet.prometheus


def numbers(series):
    for each in series:
        yield from (float(value) for _, value in each.get("values", [each.get("value")]))


@pytest.mark.needs("budgetrec", "nginx", "prometheus")
@pytest.mark.parametrize(("panel", "query"), QUERIES)
def test_no_panel_is_empty(watched, panel, query):
    def shows_something():
        found = watched.query(query.expression) if query.instant else watched.query_range(query.expression, seconds=60)
        return any(math.isfinite(number) for number in numbers(found))

    # Rules build on rules, and each is evaluated only now and then.
    poll(shows_something, seconds=30, what=f"the panel {panel.title} to show {query.expression}")


@pytest.mark.needs("budgetrec", "nginx", "prometheus")
@pytest.mark.parametrize(
    "title",
    [
        "Requests per second",
        "Inner products per second",
        "p99 of a request",
        "Recall",
        "Search, median by budget class",
    ],
)
def test_numbers_that_cannot_be_zero_under_load(watched, title):
    for panel in (panel for panel in PANELS if panel.title == title):
        assert max(numbers(watched.query_range(panel.queries[0].expression, seconds=20))) > 0


def test_every_question_of_an_operator_has_a_panel():
    text = " ".join(f"{panel.title} {query.expression}" for panel in PANELS for query in panel.queries)
    for topic in (
        "budgetrec_cost_law_a_seconds",
        "budgetrec_cost_law_b_seconds",
        "budgetrec:recall_at_budget",
        "budgetrec_products_asked_total",
        "budgetrec_products_granted_total",
        "budgetrec_shed_total",
        "budgetrec_degraded_total",
        "budgetrec:replicas:by_version",
        "budgetrec_request_seconds_bucket",
    ):
        assert topic in text


def test_layout_has_no_overlaps_and_ids_are_unique():
    board = json.loads(DASHBOARD.read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    cells = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & mine
        cells |= mine


def test_every_panel_explains_itself():
    board = json.loads(DASHBOARD.read_text())
    assert all(panel["description"] for panel in board["panels"] if panel["type"] != "row")


def test_provisioning_leads_to_the_data_source_and_the_dashboard():
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    variables = {each["name"]: each for each in json.loads(DASHBOARD.read_text())["templating"]["list"]}
    assert variables["datasource"]["current"]["value"] == source["uid"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "budgetrec.yaml").read_text())["providers"]
    compose = yaml.safe_load((DEPLOY.parent / "docker-compose.yml").read_text())
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in compose["services"]["grafana"]["volumes"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in compose["services"]
