"""Scenarios and rules over HTTP: one ranking, whichever way it is asked for, and a receipt of what was done."""

import os
import re
import signal

import numpy as np
import pytest

from greedy_core import Boost, Pin, Rules, apply_rules, popular_parts, search_with_rules
from tests.service.conftest import write_model
from tests.service.http.test_recommend import same_items
from tests.service.running import in_process, poll, server

SCENARIOS = """
[plain]
description = "Nothing at all"

[home]
description = "The first page"
budget = 300
filter = "in_stock"
at_most = { category = 2 }
diversity = 0.3
boost = [{ filter = "price < 10", factor = 1.5 }]
pin = [{ place = 2, item_id = "i100" }, { place = 3, item_id = "gone" }]

[sure]
target_recall = 0.75
fallback = "error"

[corner]
fallback = 'popular: category = "c1"'
"""
HOME = Rules({"category": 2}, 0.3, (Boost("price < 10", 1.5),), (Pin(2, "i100"), Pin(3, "gone")))


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenarios") / "scenarios.toml"
    path.write_text(SCENARIOS)
    return path


@pytest.fixture(scope="module")
def app(model, scenarios):
    with in_process(model.path, scenarios=scenarios) as running:
        yield running


@pytest.fixture(scope="module", params=[True, False], ids=["short cut", "asgi"])
def running(request, model, scenarios, tmp_path_factory):
    log = tmp_path_factory.mktemp("scenarios-log") / "log"
    with server(model.path, log, lane=request.param, scenarios=scenarios) as service:
        yield service


def timeless(answer):
    return re.sub(rb'"search_us":\d+', b"", answer.content)


def page(model, user, rules, *, budget, text=None, top_k=10, offset=0):
    """What the library says."""
    eligible = None if text is None else model.filter(text)
    seen = model.seen_items(user)
    applied = apply_rules(
        rules,
        model.attributes,
        model.item_positions,
        model.filter,
        excluded=seen,
        eligible=eligible,
        products=model.index.products,
    )
    found = search_with_rules(
        model.index,
        model.user_vector(user),
        applied,
        top_k=top_k,
        offset=offset,
        budget=budget,
        exclude=seen,
        remembered=model.user_remembered(user),
        eligible=eligible,
        more=popular_parts(model.popular, seen, eligible),
    )
    items = []
    for position, score in zip(found.result.ids.tolist(), found.result.scores.tolist(), strict=True):
        title = model.title(position)
        named = {"item_id": model.item_id(position)} | ({"title": title} if title else {})
        items.append(named | {"score": None if np.isnan(score) else score})
    return items, found.result, applied.receipt(found.collected)


def same(body, items, result, receipt):
    assert [item["item_id"] for item in body["items"]] == [item["item_id"] for item in items]
    same_items(
        [item for item in body["items"] if item["score"] is not None], [i for i in items if i["score"] is not None]
    )
    assert (body["spent"], body["complete"]) == (result.spent, result.complete)
    assert body["spent"] <= body["budget"]
    assert body["rules"] == receipt


def test_every_way_to_ask_is_the_library(running, model):
    expected = page(model, 77, HOME, budget=300, text="in_stock")
    got = running.get("/recommend", params={"user_id": "u77", "scenario": "home"})
    same(got.json(), *expected)
    assert got.json()["scenario"] == "home"
    assert got.json()["rules"]["pin"] == {"placed": 1, "left_out": [{"item_id": "gone", "because": "unknown"}]}
    posted = running.post("/recommend", json={"user_id": "u77", "scenario": "home"})
    assert timeless(posted) == timeless(got)
    batch = running.post(
        "/recommend/batch", json={"requests": [{"user_id": "u77", "scenario": "home"}, {"user_id": "u9"}]}
    )
    first, second = batch.json()["results"]
    same(first, *expected)
    assert "scenario" not in second
    # The same said in the request itself, as a query string and as JSON.
    query = (
        "user_id=u77&budget=300&filter=in_stock&at_most=category:2&diversity=0.3&boost=1.5:price<10&pin=2:i100,3:gone"
    )
    same(running.get(f"/recommend?{query}").json(), *expected)
    said = {
        "user_id": "u77",
        "budget": 300,
        "filter": "in_stock",
        "at_most": {"category": 2},
        "diversity": 0.3,
        "boost": [{"filter": "price < 10", "factor": 1.5}],
        "pin": [{"place": 2, "item_id": "i100"}, {"place": 3, "item_id": "gone"}],
    }
    same(running.post("/recommend", json=said).json(), *expected)


def test_a_scenario_without_rules_gives_the_same_bytes_as_none(running):
    for query in ("user_id=u77&budget=64", "user_id=u5&filter=in_stock&top_k=3", "user_id=nobody", "items=i9,i10"):
        plain = timeless(running.get(f"/recommend?{query}"))
        named = timeless(running.get(f"/recommend?{query}&scenario=plain"))
        assert named.replace(b'"scenario":"plain",', b"") == plain
        assert b'"scenario":"plain"' in named


def test_what_the_request_says_counts_more(app, model):
    got = app.get("/recommend?user_id=u77&scenario=home&budget=64&at_most=&diversity=0&boost=&pin=&filter=price<20")
    expected = model.index.search(
        model.user_vector(77), 10, 64, model.seen_items(77), None, model.user_remembered(77), model.filter("price<20")
    )
    assert [item["item_id"] for item in got.json()["items"]] == model.item_ids(expected.ids)
    assert got.json()["budget"] == 64
    assert "rules" not in got.json()
    # A recall is turned into a budget by the curve, as if the request had named it.
    assert app.get("/recommend?user_id=u77&scenario=sure").json()["budget"] == 64
    assert app.get("/recommend?user_id=u77&scenario=sure&budget=32").json()["budget"] == 32
    only_caps = app.get("/recommend?user_id=u77&scenario=home&at_most=category:1").json()
    assert only_caps["rules"]["diversity"]["places"] > 0
    expected = page(model, 77, Rules({"category": 1}, 0.3, HOME.boost, HOME.pin), budget=300, text="in_stock")
    same(only_caps, *expected)


@pytest.mark.parametrize("rules", ["", "&at_most=category:2", "&scenario=home", "&diversity=0.5&filter=price<30"])
def test_pages_put_together_are_one_long_answer(app, rules):
    for user in ("u77", "nobody"):
        asked = f"/recommend?user_id={user}&budget=300{rules}"
        whole = app.get(f"{asked}&top_k=20&offset=0").json()["items"]
        pages = [app.get(f"{asked}&top_k=5&offset={at}").json() for at in range(0, 20, 5)]
        assert [page["offset"] for page in pages] == [0, 5, 10, 15]
        assert [item for page in pages for item in page["items"]] == whole


def test_fallbacks(app, model):
    corner = app.get("/recommend?user_id=nobody&scenario=corner&top_k=4").json()
    allowed = model.filter('category = "c1"')
    assert [item["item_id"] for item in corner["items"]] == model.item_ids(
        [j for j in model.popular.tolist() if j in allowed][:4]
    )
    assert (corner["fallback"], corner["eligible"], corner["scenario"]) == ("unknown_user", allowed.count, "corner")
    both = app.get("/recommend?user_id=nobody&fallback=popular:price<10&filter=in_stock&at_most=category:1").json()
    eligible = model.filter("in_stock and price < 10")
    assert both["eligible"] == eligible.count
    assert len(both["items"]) > 5
    assert all(model.item_position(item["item_id"]) in eligible for item in both["items"])
    for user, said in (("nobody", "knows no user 'nobody'"), ("u199", "has no vector for the user 'u199'")):
        refused = app.get(f"/recommend?user_id={user}&scenario=sure")
        assert refused.status_code == 404
        assert said in refused.json()["error"]["message"]
    # What stands in leaves out what the user has seen, and is short where the rules leave no more.
    short = app.get("/recommend?user_id=u199&at_most=category:1&filter=category is not missing&top_k=9").json()
    assert (short["fallback"], short["short"], len(short["items"])) == ("no_vector", "rules", 5)
    seen = {model.item_id(j) for j in model.seen_items(199).tolist()}
    assert not seen & {item["item_id"] for item in short["items"]}


def test_similar_items_have_rules_too(app, model):
    got = app.get(
        "/similar?item_id=i50&at_most=category:1&pin=1:i50,2:i60&top_k=8&filter=category is not missing"
    ).json()
    assert got["items"][1]["item_id"] == "i60"
    assert got["rules"]["pin"]["left_out"] == [{"item_id": "i50", "because": "excluded"}]
    categories = [model.attributes["category"].value(model.item_position(item["item_id"])) for item in got["items"]]
    assert len(set(categories)) == len(categories) == 5
    assert got["short"] == "rules"
    assert app.get("/similar?item_id=i50&fallback=error").status_code == 422


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("scenario=nowhere", 404, "there is no scenario 'nowhere' here"),
        (
            "at_most=categroy:2",
            422,
            "at_most cannot be kept: there is no attribute 'categroy' (did you mean category?)",
        ),
        ("at_most=category", 422, "at_most has 'category'"),
        ("at_most=category:0", 422, "at_most allows 0 items"),
        ("diversity=1.5", 422, "diversity is '1.5'"),
        ("diversity=-1", 422, "diversity is '-1'"),
        ("boost=price<10", 422, "boost is 'price<10'"),
        ("boost=1e9:in_stock", 422, "boost is '1e9:in_stock'"),
        ("boost=2:in_stok", 422, "boost: filter is wrong at character 1"),
        ("&".join(["boost=2:in_stock"] * 9), 422, "boost has 9 entries"),
        ("pin=i7", 422, "pin has 'i7'"),
        ("pin=1%3Ai7%2C1%3Ai8", 422, "pin names the place 1 twice"),
        ("pin=1:i7,1:i8", 422, "pin names the place 1 twice"),
        ("fallback=nothing", 422, "fallback is 'nothing'"),
        ("fallback=popular:in_stok", 422, "fallback: filter is wrong at character 1"),
        ("offset=-1", 422, "offset is '-1'"),
        ("offset=1001", 422, "offset is '1001'"),
    ],
)
def test_faults_have_a_sentence(running, query, status, said):
    for answer in (running.get(f"/recommend?user_id=u1&{query}"), running.get(f"/recommend?user_id=nobody&{query}")):
        assert answer.status_code == status
        assert said in answer.json()["error"]["message"]


def test_faults_of_bodies_name_their_place(app):
    for entry, said in [
        ({"at_most": {"categroy": 1}}, "requests[1].at_most cannot be kept"),
        ({"pin": [{"place": 1, "item_id": "a"}, {"place": 1, "item_id": "b"}]}, "requests[1].pin names the place 1"),
        ({"boost": [{"filter": "in_stok", "factor": 2}]}, "requests[1].boost: filter is wrong at character 1"),
        ({"offset": 5000}, "requests[1].offset is 5000"),
        ({"scenario": "nowhere"}, "requests[1].scenario: there is no scenario"),
        ({"fallback": "never"}, "requests[1].fallback is 'never'"),
        ({"boost": [{"filter": "in_stock", "factor": 1e9}]}, "requests[1].boost[0].factor is not valid"),
    ]:
        answer = app.post("/recommend/batch", json={"requests": [{"user_id": "u1"}, {"user_id": "u2", **entry}]})
        assert answer.status_code in (404, 422)
        assert said in answer.json()["error"]["message"]


def test_scenarios_are_listed_and_counted(app):
    listed = app.get("/scenarios").json()["scenarios"]
    assert [scenario["name"] for scenario in listed] == ["plain", "home", "sure", "corner"]
    assert listed[0] == {"name": "plain", "description": "Nothing at all"}
    assert listed[1] == {
        "name": "home",
        "description": "The first page",
        "budget": 300,
        "filter": "in_stock",
        "at_most": {"category": 2},
        "diversity": 0.3,
        "boost": [{"filter": "price < 10", "factor": 1.5}],
        "pin": [{"place": 2, "item_id": "i100"}, {"place": 3, "item_id": "gone"}],
    }
    before = {name: app.metric(name) for name in COUNTED}
    app.get("/recommend?user_id=u8&scenario=home")
    app.get("/recommend?user_id=u8&budget=300&pin=1:i9")
    after = {name: app.metric(name) for name in COUNTED}
    assert [after[name] - before[name] for name in COUNTED] == [1, 2, 1]


COUNTED = (
    'budgetrec_scenario_answers_total{scenario="home"}',
    'budgetrec_rules_changed_total{rule="pin"}',
    'budgetrec_rules_changed_total{rule="at_most"}',
)


def test_long_pages_leave_the_loop_and_are_the_same(app, model):
    # Past the hundredth place a page is made in a thread.
    expected = page(model, 77, Rules({"price": 3}), budget=500, top_k=150)
    same(app.get("/recommend?user_id=u77&budget=500&top_k=150&at_most=price:3").json(), *expected)


def test_sighup_reads_the_file_again_in_all_workers(folder, tmp_path):
    path = tmp_path / "scenarios.toml"
    path.write_text("[home]\nat_most = { category = 1 }\n[old]\n")
    with server(folder.path, tmp_path / "log", workers=2, scenarios=path) as service:

        def names():
            return {tuple(s["name"] for s in service.fresh("/scenarios").json()["scenarios"]) for _ in range(12)}

        assert names() == {("home", "old")}
        path.write_text("[home]\nat_most = { category = 2 }\n[new]\n")
        service.signal(signal.SIGHUP)
        poll(lambda: names() == {("home", "new")}, "all workers to follow")
        assert service.get("/recommend?user_id=u8&scenario=new").status_code == 200
        assert service.metric('budgetrec_scenario_answers_total{scenario="(new)"}') == 1
        for broken, said in [
            ("[home]\nat_most = 3\n", "the scenario home: at_most takes"),
            ("[home]\nat_most = { categroy = 3 }\n", "the scenario home does not fit it: at_most cannot be kept"),
            ("[home", "cannot be read"),
        ]:
            path.write_text(broken)
            n_refused = len(service.logged("scenarios refused"))
            service.signal(signal.SIGHUP)
            poll(lambda n=n_refused: len(service.logged("scenarios refused")) > n, "the file to be refused")
            assert said in service.logged("scenarios refused")[-1]["reason"]
            assert names() == {("home", "new")}
        # A worker that is started now does not read the broken file either.
        first = service.workers()
        os.kill(first[0], signal.SIGKILL)
        poll(lambda: len(set(service.workers()) - set(first)) == 1, "another worker")
        service.wait_ready()
        assert names() == {("home", "new")}


def test_a_model_that_does_not_fit_is_refused(folder, tmp_path):
    path = tmp_path / "scenarios.toml"
    path.write_text("[home]\nat_most = { category = 1 }\n")
    write_model(folder.path / "bare", seed=9, attributes=False)
    with in_process(folder.path, scenarios=path, admin_key="a-secret-of-the-test") as app:
        refused = app.post("/admin/reload", json={"version": "bare"}, headers={"X-API-Key": "a-secret-of-the-test"})
        assert refused.status_code == 409
        assert "the scenario home does not fit it" in refused.json()["error"]["message"]
        assert app.get("/recommend?user_id=u8&scenario=home").status_code == 200
