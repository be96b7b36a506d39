"""GET and POST /recommend: the answer is the library's, and the receipt is right."""

from urllib.parse import quote

import numpy as np
import pytest

from greedy_core import Quality
from tests.service.conftest import CALIBRATION, LONG_ID, N_DIMS, STRANGE_IDS, calibration, quality, write_model
from tests.service.running import in_process

FIELDS = ["user_id", "items", "budget", "spent", "complete", "degraded", "fallback", "model", "search_us"]


def answer_of(model, query, *, budget, top_k=10, exclude=None, hint=None):
    result = model.index.search(query, top_k, budget, exclude, None, hint)
    items = []
    for position, score in zip(result.ids.tolist(), result.scores, strict=True):
        item = {"item_id": model.item_id(position)}
        if model.title(position):
            item["title"] = model.title(position)
        items.append(item | {"score": score})
    return items, result


def same_items(received, expected):
    assert [{k: v for k, v in item.items() if k != "score"} for item in received] == [
        {k: v for k, v in item.items() if k != "score"} for item in expected
    ]
    # Written with the digits that give the same float32 back.
    assert [np.float32(item["score"]) for item in received] == [item["score"] for item in expected]


@pytest.mark.parametrize("budget", [1, 7, 64, 512])
@pytest.mark.parametrize("top_k", [1, 10, 50])
@pytest.mark.parametrize("user", [8, 77, 150])
def test_the_answer_is_the_librarys(app, model, user, budget, top_k):
    response = app.get("/recommend", params={"user_id": f"u{user}", "budget": budget, "top_k": top_k})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert body.pop("short", None) == ("budget" if budget < top_k else None)
    assert list(body) == FIELDS
    query, hint, seen = model.user_vector(user), model.user_remembered(user), model.seen_items(user)
    expected, result = answer_of(model, query, budget=budget, top_k=top_k, exclude=seen, hint=hint)
    same_items(body["items"], expected)
    assert (body["user_id"], body["budget"], body["spent"]) == (f"u{user}", budget, result.spent)
    assert body["complete"] is result.complete is False
    assert body["degraded"] is body["fallback"] is None
    assert body["model"] == "v1"
    assert isinstance(body["search_us"], int)


def test_a_vector_in_place_of_a_user(app, model):
    vector = model.user_vector(20)
    body = app.post("/recommend", json={"vector": vector.tolist(), "budget": 100}).json()
    same_items(body["items"], answer_of(model, vector, budget=100)[0])
    assert body["user_id"] is None


def test_post_is_get(app):
    got = app.get("/recommend", params={"user_id": "u9", "budget": 99, "top_k": 3}).json()
    posted = app.post("/recommend", json={"user_id": "u9", "budget": 99, "top_k": 3}).json()
    assert got | {"search_us": 0} == posted | {"search_us": 0}


def test_defaults(app):
    body = app.get("/recommend?user_id=u9").json()
    assert body["budget"] == 512
    assert len(body["items"]) == 10


def test_more_budget_is_never_worse(app):
    totals = []
    for budget in (16, 64, 256, 512):
        items = app.get("/recommend", params={"user_id": "u9", "budget": budget}).json()["items"]
        totals.append(sum(item["score"] for item in items))
    assert totals == sorted(totals)


def test_enough_budget_is_exact(app, model):
    body = app.get("/recommend", params={"user_id": "u9", "budget": model.n_items}).json()
    assert body["complete"] is True
    assert body["spent"] == model.n_items - len(np.unique(model.seen_items(9)))


@pytest.mark.parametrize("user_id", STRANGE_IDS)
def test_ids_of_any_kind(app, user_id):
    asked = app.get(f"/recommend?user_id={quote(user_id, safe='')}&budget=64").json()
    posted = app.post("/recommend", json={"user_id": user_id, "budget": 64}).json()
    assert asked["user_id"] == posted["user_id"] == user_id
    assert asked["fallback"] is None
    assert asked["items"] == posted["items"] != []


@pytest.mark.parametrize("item_id", STRANGE_IDS)
def test_items_of_any_kind_are_found_excluded_and_returned(app, model, item_id):
    vector = model.index.items[model.item_position(item_id)] * 10
    asked = {"vector": vector.tolist(), "budget": model.n_items, "top_k": 1000}
    assert item_id in [item["item_id"] for item in app.post("/recommend", json=asked).json()["items"]]
    without = app.post("/recommend", json=asked | {"exclude": [item_id]}).json()
    assert item_id not in [item["item_id"] for item in without["items"]]
    similar = app.get(f"/similar?item_id={quote(item_id, safe='')}&budget=64").json()
    assert similar["item_id"] == item_id


class TestExclusions:
    @pytest.mark.parametrize("written", ["i{0},i{1}", "i{0}%2Ci{1}", "i{0}&exclude=i{1}"])
    def test_however_a_client_writes_a_list(self, app, written):
        items = [item["item_id"] for item in app.get("/recommend?user_id=u9&budget=64").json()["items"]]
        first, second = [item.removeprefix("i") for item in items if item.startswith("i")][:2]
        left = app.get(f"/recommend?user_id=u9&budget=64&exclude={written.format(first, second)}").json()["items"]
        assert not {f"i{first}", f"i{second}"} & {item["item_id"] for item in left}

    def test_named_ids_do_not_appear_and_unknown_ones_do_not_matter(self, app):
        first = app.get("/recommend?user_id=u30&budget=128").json()["items"]
        names = [item["item_id"] for item in first[:4]]
        encoded = ",".join(quote(name, safe="") for name in [*names, "nobody-knows-this"])
        body = app.get(f"/recommend?user_id=u30&budget=128&exclude={encoded}").json()
        assert not {item["item_id"] for item in body["items"]} & set(names)
        assert len(body["items"]) == 10

    def test_a_comma_inside_an_id_is_percent_encoded(self, app, model):
        vector = model.index.items[model.item_position("comma,inside")].tolist()
        asked = {"vector": vector, "budget": model.n_items, "top_k": 1, "exclude": ["comma,inside"]}
        assert app.post("/recommend", json=asked).json()["items"][0]["item_id"] != "comma,inside"
        assert app.get("/recommend?user_id=u9&exclude=comma%2Cinside").status_code == 200

    def test_seen_items_are_left_out_unless_asked_for(self, app, model):
        seen = {model.item_id(position) for position in model.seen_items(40).tolist()}
        ask = {"user_id": "u40", "budget": model.n_items, "top_k": 1000}
        default = app.post("/recommend", json=ask).json()
        with_seen = app.post("/recommend", json=ask | {"exclude_seen": False}).json()
        assert not seen & {item["item_id"] for item in default["items"]}
        assert with_seen["spent"] == model.n_items
        assert default["spent"] == model.n_items - len(seen)

    def test_a_hundred_thousand_ids(self, app, model):
        ids = [f"i{n}" for n in range(8, model.n_items - 3)] + [f"none-{n}" for n in range(98_000)]
        body = app.post("/recommend", json={"user_id": "u9", "exclude": ids, "exclude_seen": False, "top_k": 20}).json()
        assert body["complete"] is True
        assert len(body["items"]) == 11
        assert {item["item_id"] for item in body["items"]} == {*STRANGE_IDS, "i1997", "i1998", "i1999"}

    def test_too_many(self, app):
        response = app.post("/recommend", json={"user_id": "u9", "exclude": ["x"] * 100_001})
        assert response.status_code == 422
        assert "exclude" in response.json()["error"]["message"]

    def test_a_model_without_seen_items(self, tmp_path):
        model = write_model(tmp_path / "m", seen=False, titles=False)
        with in_process(model.path) as app:
            body = app.get("/recommend?user_id=u9&exclude_seen=true&budget=64").json()
            expected, _ = answer_of(model, model.user_vector(9), budget=64, hint=model.user_remembered(9))
            same_items(body["items"], expected)
            assert "title" not in body["items"][0]


class TestUnknownUsers:
    def test_popular_items(self, app, model):
        before = app.metric("budgetrec_unknown_users_total")
        body = app.get("/recommend?user_id=stranger&top_k=5").json()
        assert body["fallback"] == "unknown_user"
        assert [item["item_id"] for item in body["items"]] == model.item_ids(model.popular[:5])
        assert {item["score"] for item in body["items"]} == {None}
        assert body["spent"] == 0
        assert app.metric("budgetrec_unknown_users_total") == before + 1

    def test_exclusions_hold_for_popular_items_too(self, app, model):
        top = model.item_ids(model.popular[:2])
        body = app.post("/recommend", json={"user_id": "stranger", "exclude": top, "top_k": 3}).json()
        assert [item["item_id"] for item in body["items"]] == model.item_ids(model.popular[2:5])

    def test_a_user_without_a_vector(self, app, model):
        body = app.get("/recommend?user_id=u199&top_k=5").json()
        assert body["fallback"] == "no_vector"
        seen = {model.item_id(position) for position in model.seen_items(199).tolist()}
        assert len(body["items"]) == 5
        assert not seen & {item["item_id"] for item in body["items"]}

    def test_404_if_the_operator_says_so(self, model):
        with in_process(model.path, unknown_user="not_found") as app:
            response = app.get("/recommend?user_id=stranger")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "unknown_user"
            batch = app.post("/recommend/batch", json={"requests": [{"user_id": "stranger"}, {"user_id": "u9"}]}).json()
            assert batch["results"][0]["error"]["code"] == "unknown_user"
            assert batch["results"][1]["user_id"] == "u9"


class TestBudgets:
    def test_above_the_servers_maximum(self, model):
        with in_process(model.path, max_budget=300) as app:
            body = app.get("/recommend?user_id=u9&budget=5000").json()
            assert body["budget"] == 300
            assert body["degraded"] == {"from": 5000, "reason": "maximum"}
            assert app.metric('budgetrec_degraded_total{reason="maximum"}') == 1

    def test_above_the_lists_and_below_all_items(self, app):
        body = app.get("/recommend?user_id=u9&budget=1500").json()
        assert body["budget"] == 512
        assert body["degraded"] == {"from": 1500, "reason": "maximum"}

    def test_a_target_recall_buys_its_budget(self, app):
        for recall, budget in ((0.5, 16), (0.75, 64), (0.9, 256), (0.1, 16)):
            assert app.get(f"/recommend?user_id=u9&target_recall={recall}").json()["budget"] == budget
        between = app.get("/recommend?user_id=u9&target_recall=0.8").json()["budget"]
        assert 64 < between < 256

    def test_a_vector_from_outside_pays_what_its_own_curve_says(self, tmp_path):
        vectors = calibration(0.8)
        with in_process(write_model(tmp_path / "m", calibration={**CALIBRATION, "vectors": vectors}).path) as app:
            assert app.get("/recommend?user_id=u9&target_recall=0.6").json()["budget"] < 64
            outside = {"vector": [1.0] * N_DIMS, "target_recall": 0.6}
            assert app.post("/recommend", json=outside).json()["budget"] == 64
            curves = app.get("/budgets").json()
        assert [point["recall_at_10"] for point in curves["points"]] == [0.5, 0.75, 0.9, 0.99]
        assert [point["recall_at_10"] for point in curves["vectors"]] == pytest.approx([0.4, 0.6, 0.72, 0.792])
        assert all(point["latency_us"] > 0 for point in curves["vectors"])

    def test_a_recall_no_calibrated_budget_reaches_is_bought_by_all_items(self, app, model):
        assert app.get("/recommend?user_id=u9&target_recall=1").json()["complete"] is True

    def test_the_smallest_budget_counts(self, app):
        assert app.get("/recommend?user_id=u9&target_recall=0.9&budget=100").json()["budget"] == 100
        body = app.get("/recommend?user_id=u9&target_recall=0.75&budget=500").json()
        assert body["budget"] == 64
        assert body["degraded"] is None

    def test_a_deadline_shrinks_the_work_and_never_kills_it(self, app):
        body = app.get("/recommend?user_id=u9&budget=500&deadline_ms=0.5").json()
        assert body["budget"] <= 500
        tight = app.get("/recommend?user_id=u9&budget=500&deadline_ms=0.06")
        assert tight.status_code == 200
        assert tight.json()["budget"] < 500
        assert tight.json()["degraded"] == {"from": 500, "reason": "deadline"}

    @pytest.mark.parametrize(("recall", "budget"), [(0.75, 64), (0.9, 256), (1.0, 512)])
    def test_a_generous_deadline_alone_stops_where_the_curve_is_flat(self, model, recall, budget):
        with in_process(model.path, deadline_recall=recall, max_budget=1000) as app:
            body = app.get("/recommend?user_id=u9", headers={"X-Request-Deadline-Ms": "60000"}).json()
        assert body["budget"] == body["spent"] == budget
        assert body["degraded"] is None

    def test_the_sooner_of_header_and_parameter(self, app):
        response = app.get("/recommend?user_id=u9&deadline_ms=60000", headers={"X-Request-Deadline-Ms": "0.000001"})
        assert response.json()["fallback"] == "deadline"

    def test_a_deadline_that_has_passed_gets_the_popular_items_for_nothing(self, app, model):
        response = app.get("/recommend?user_id=u9&budget=64&deadline_ms=0.000001")
        assert response.status_code == 200
        body = response.json()
        assert (body["fallback"], body["budget"], body["spent"], body["complete"]) == ("deadline", 0, 0, False)
        assert body["degraded"] == {"from": 64, "reason": "deadline"}
        seen = {model.item_id(position) for position in model.seen_items(9).tolist()}
        assert len(body["items"]) == 10
        assert not seen & {item["item_id"] for item in body["items"]}
        assert app.metric('budgetrec_fallbacks_total{reason="deadline"}') >= 1

    def test_a_short_answer_says_why(self, app, tmp_path):
        assert app.get("/recommend?user_id=u9&budget=5").json()["short"] == "budget"
        assert "short" not in app.get("/recommend?user_id=u9&budget=64").json()
        small = write_model(tmp_path / "m", n_items=30)
        with in_process(small.path) as few:
            body = few.get("/recommend?user_id=u9&budget=500&top_k=100&exclude_seen=false").json()
        assert (body["complete"], body["short"], len(body["items"])) == (True, "catalogue", 30)

    @pytest.mark.parametrize("calibration", [None, {"points": [{"budget": 16}]}])
    def test_without_a_calibration_that_can_be_used(self, tmp_path, calibration):
        model = write_model(tmp_path / "m", calibration=calibration)
        with in_process(model.path) as app:
            for url in ("/recommend?user_id=u9&target_recall=0.9", "/budgets"):
                response = app.get(url)
                assert response.status_code == 409
                assert response.json()["error"]["code"] == "no_calibration"
            assert app.get("/recommend?user_id=u9&deadline_ms=1000").status_code == 200


class TestBatch:
    def test_many_at_once_are_the_same_as_one_by_one(self, app):
        asks = [
            {"user_id": "u9", "budget": 64},
            {"user_id": "u10", "budget": 200, "top_k": 3},
            {"vector": [1.0] * N_DIMS, "budget": 17, "exclude": ["i9"]},
            {"user_id": "stranger"},
            {"user_id": LONG_ID, "exclude_seen": False},
        ]
        results = app.post("/recommend/batch", json={"requests": asks}).json()["results"]
        for ask, result in zip(asks, results, strict=True):
            alone = app.post("/recommend", json=ask).json()
            assert result | {"search_us": 0} == alone | {"search_us": 0}

    def test_the_place_of_a_fault_is_named(self, app):
        response = app.post("/recommend/batch", json={"requests": [{"user_id": "u9"}, {"vector": [1.0]}]})
        assert response.status_code == 422
        assert "requests[1].vector" in response.json()["error"]["message"]

    def test_too_many_entries(self, app):
        response = app.post("/recommend/batch", json={"requests": [{"user_id": "u9"}] * 1001})
        assert response.status_code == 422
        assert "at most 1000" in response.json()["error"]["hint"]


def test_long_searches_do_not_block_others(model):
    with in_process(model.path, inline_ms=0) as app:
        inline = app.get("/recommend?user_id=u9&budget=64").json()
        assert inline["budget"] == 64
        assert len(inline["items"]) == 10


def test_budgets_say_what_each_keeps_of_the_quality_on_real_behaviour(tmp_path):
    measured = quality()
    with in_process(write_model(tmp_path / "m", quality=measured).path) as app:
        told = app.get("/budgets").json()["quality"]
        described = app.get("/openapi.json").json()["components"]["schemas"]
    meanings = told.pop("meanings")
    assert Quality.from_dict(told) == measured
    assert told["points"][2] == {"budget": 256, "ndcg_at_10": 0.2 * 0.9, "share": 0.9}
    assert "exact search" in meanings["share"]
    assert "against exact search" in described["BudgetPoint"]["properties"]["recall_at_10"]["description"]


def test_budgets_and_model(app, model):
    budgets = app.get("/budgets").json()
    assert [point["budget"] for point in budgets["points"]] == [16, 64, 256, 1024]
    assert budgets["points"][1]["recall_at_10"] == 0.75
    latencies = [point["latency_us"] for point in budgets["points"]]
    assert latencies == sorted(latencies)
    assert budgets["vectors"] is None
    assert budgets["quality"] is None
    assert budgets["calibration"] == {
        "sample_size": 500,
        "directions": "principal",
        "screening": "threshold",
        "held_out": True,
        "filtered": CALIBRATION["filtered"],
        "rows_recall": 1.0,
    }
    assert set(budgets["cost_law"]) == {"a_us", "b_us"}
    described = app.get("/model").json()
    assert (described["version"], described["n_items"], described["n_users"]) == ("v1", 2000, 200)
    assert (described["n_dims"], described["directions"]) == (N_DIMS, "graph")
    assert described["calibrated"] is described["has_seen"] is True
