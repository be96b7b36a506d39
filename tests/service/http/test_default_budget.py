"""What a question gets that names neither budget nor recall nor deadline, by the curve of tests/service/conftest.py."""

import pytest

from tests.service.conftest import N_DIMS, write_model
from tests.service.running import in_process


def granted(app, **params):
    body = app.get("/recommend", params={"user_id": "u9"} | params).json()
    assert body["degraded"] is None
    assert body["spent"] <= body["budget"]
    return body["budget"]


@pytest.mark.parametrize(("recall", "budget"), [(0.75, 64), (0.8, 102), (0.9, 256)])
def test_the_smallest_with_a_recall(model, recall, budget):
    with in_process(model.path, default_recall=recall) as app:
        assert granted(app) == budget
        assert app.post("/recommend", json={"vector": [1.0] * N_DIMS}).json()["budget"] == budget
        batch = app.post("/recommend/batch", json={"requests": [{"user_id": "u9"}]}).json()
        assert batch["results"][0]["budget"] == budget


def test_longer_answers_need_more(model):
    with in_process(model.path, default_recall=0.75) as app:
        assert [granted(app, top_k=top_k) for top_k in (1, 10, 11, 20)] == [64, 64, 71, 128]
    with in_process(model.path, default_recall=0.01) as app:
        # The smallest of the curve is 16, and a walk ranks a third of what it spends.
        assert granted(app) == 30
        assert len(app.get("/recommend?user_id=u9").json()["items"]) == 10
        assert len(app.post("/recommend", json={"vector": [1.0] * N_DIMS}).json()["items"]) == 10


def test_a_number(model):
    with in_process(model.path, default_budget=77) as app:
        assert granted(app) == granted(app, top_k=20) == granted(app, filter="in_stock") == 77


def test_what_no_curve_reaches_is_the_most_that_can_be_spent(model):
    # 0.95 is between 256 and 1,024 by the curve, and the lists of the model serve 512.
    with in_process(model.path) as app:
        assert granted(app) == 512
    with in_process(model.path, default_recall=0.9, max_budget=100) as app:
        assert granted(app) == 100


def test_without_a_calibration(tmp_path):
    write_model(tmp_path / "plain", calibration=None)
    with in_process(tmp_path / "plain") as app:
        assert granted(app) == 256


def test_under_a_filter_its_share_of_the_items_counts(model):
    with in_process(model.path, default_recall=0.75) as app:
        assert granted(app, filter="in_stock") == 182
        few = app.get("/recommend", params={"user_id": "u9", "filter": "price = 3.5"}).json()
        assert (few["budget"], few["complete"]) == (43, True)


def test_similar_items_have_a_curve_of_their_own(app, model):
    curve = model.similar.calibration.for_vectors
    expected = max(30, curve.budget_towards(0.95))
    assert app.get("/similar?item_id=i100").json()["budget"] == expected
    assert app.get("/similar?item_id=i100&by=inner_product").json()["budget"] == 512


def test_the_documentation_says_it(app, model):
    def budget_of(running):
        listed = running.get("/openapi.json").json()["paths"]["/recommend"]["get"]["parameters"]
        return next(each for each in listed if each["name"] == "budget")

    assert "recall@10 of 0.95" in budget_of(app)["description"]
    assert "default" not in budget_of(app)["schema"]
    with in_process(model.path, default_budget=77) as numbered:
        assert budget_of(numbered)["schema"]["default"] == 77
