"""GET /similar: by cosine in an index of its own, by inner product on request."""

import numpy as np
import pytest

from greedy_core import Bundle
from tests.core.bundle.test_bundle import GOLDEN
from tests.service.conftest import write_model
from tests.service.running import in_process

FIELDS = ["item_id", "by", "items", "budget", "spent", "complete", "degraded", "fallback", "model", "search_us"]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """A model without an index of similar items."""
    return write_model(tmp_path_factory.mktemp("without") / "v1", similar=False)


def of_library(model, positions, **options):
    query = model.similar.query(positions)
    exclude = np.concatenate([query.exclude, np.array(options.pop("exclude", []), dtype=np.int32)])
    found = model.similar.index.search(query.vector, exclude=exclude, remembered=query.remembered, **options)
    return [[model.item_id(position) for position in found.ids.tolist()], found.scores.tolist(), found.spent]


def received(body):
    return [[item["item_id"] for item in body["items"]], [np.float32(i["score"]) for i in body["items"]], body["spent"]]


@pytest.mark.parametrize("budget", [5, 64, 256, 512])
def test_the_answer_is_the_librarys(app, model, budget):
    body = app.get(f"/similar?item_id=i100&budget={budget}&top_k=5").json()
    assert received(body) == of_library(model, [100], budget=budget, top_k=5)
    assert (body["item_id"], body["by"]) == ("i100", "cosine")
    assert list(body) == FIELDS
    assert body["spent"] <= budget


def test_it_is_the_cosine(app, model):
    body = app.get(f"/similar?item_id=i100&budget={model.n_items}").json()
    items = model.index.items.astype(np.float64)
    cosines = items @ items[100] / np.linalg.norm(items, axis=1) / np.linalg.norm(items[100])
    cosines[100] = -2
    best = np.argsort(-cosines)[:10]
    assert [item["item_id"] for item in body["items"]] == [model.item_id(position) for position in best.tolist()]
    np.testing.assert_allclose([item["score"] for item in body["items"]], cosines[best], atol=1e-5)
    assert (body["complete"], body["spent"]) == (True, model.n_items - 1)


def test_the_default_budget_finds_them(app, model):
    shares = []
    for item in range(100, 200):
        found = {each["item_id"] for each in app.get(f"/similar?item_id=i{item}").json()["items"]}
        true = of_library(model, [item], budget=model.n_items)[0]
        shares.append(len(found & set(true)) / 10)
    assert np.mean(shares) >= 0.95


def test_inner_product_on_request(app, model):
    body = app.get("/similar?item_id=i100&budget=200&top_k=5&by=inner_product").json()
    found = model.index.search(model.index.items[100], 5, 200, np.array([100], dtype=np.int32))
    assert [item["item_id"] for item in body["items"]] == [model.item_id(position) for position in found.ids.tolist()]
    assert [np.float32(item["score"]) for item in body["items"]] == found.scores.tolist()
    assert body["by"] == "inner_product"


def test_several(app, model):
    body = app.get("/similar?items=i100,i50,nothing&budget=64").json()
    assert received(body) == of_library(model, [100, 50], budget=64)
    assert (body["item_id"], body["unknown_items"]) == (None, 1)
    by_product = app.get("/similar?items=i100,i50&budget=64&by=inner_product").json()
    found = model.index.search(model.mean_of_items([100, 50]), 10, 64, np.array([50, 100], dtype=np.int32))
    assert [np.float32(item["score"]) for item in by_product["items"]] == found.scores.tolist()


def test_exclusions(app, model):
    best = of_library(model, [100], budget=64)[0][:3]
    body = app.get("/similar", params={"item_id": "i100", "budget": 64, "exclude": ",".join(best)}).json()
    named = [model.item_position(item) for item in best]
    assert received(body) == of_library(model, [100], budget=64, exclude=named)


@pytest.mark.parametrize(("asked", "recall"), [("item_id=i100", 0.9), ("item_id=i100", 0.99), ("items=i100,i50", 0.9)])
def test_target_recall_is_read_from_its_own_curve(app, model, asked, recall):
    curve = model.similar.calibration
    curve = curve if asked.startswith("item_id") else curve.for_vectors
    body = app.get(f"/similar?{asked}&target_recall={recall}").json()
    assert body["budget"] == curve.budget_for_recall(recall)


def test_target_recall_by_inner_product_is_that_of_a_vector(app):
    assert app.get("/similar?item_id=i100&by=inner_product&target_recall=0.75").json()["budget"] == 64


def test_a_deadline(app):
    assert app.get("/similar?item_id=i100&deadline_ms=5000&budget=64").json()["budget"] == 64


def test_more_budget_is_never_worse(app):
    bodies = [app.get(f"/similar?item_id=i100&budget={budget}").json() for budget in (8, 16, 64, 256, 512)]
    totals = [sum(item["score"] for item in body["items"]) for body in bodies]
    assert totals == sorted(totals)


class TestWithoutItsIndex:
    def test_answers_by_inner_product_and_says_so(self, without):
        with in_process(without.path) as app:
            body = app.get("/similar?item_id=i100&budget=64").json()
            assert body["by"] == "inner_product"
            assert app.get("/model").json()["similar_by"] == "inner_product"
            refused = app.get("/similar?item_id=i100&by=cosine")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_cosine")
            assert "--no-similar" in refused.json()["error"]["hint"]

    def test_a_bundle_of_the_first_release(self):
        bundle = Bundle.open(GOLDEN)
        with in_process(GOLDEN) as app:
            body = app.get("/similar", params={"item_id": bundle.item_id(0), "budget": 3}).json()
            assert body["by"] == "inner_product"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "item_id is missing"),
        ("item_id=i100&items=i50", "item_id comes with items"),
        ("item_id=i100&by=euclid", "by is 'euclid'"),
        ("item_id=i100&by=", "by is ''"),
        ("item_id=i100&target_recall=2", "target_recall"),
        ("items=", "items is empty"),
    ],
)
def test_refusals(app, query, said):
    response = app.get(f"/similar?{query}")
    assert response.status_code == 422
    assert said in response.json()["error"]["message"]


@pytest.mark.parametrize("query", ["item_id=nothing", "items=nothing,never"])
def test_unknown_items(app, query):
    response = app.get(f"/similar?{query}")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "unknown_item")
