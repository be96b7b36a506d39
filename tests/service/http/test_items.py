"""items= on /recommend: a vector for somebody who is not in the model, and a known one moved by what just happened."""

import numpy as np
import pytest

from tests.service.conftest import N_DIMS, STRANGE_IDS, write_model
from tests.service.http.test_recommend import answer_of, same_items
from tests.service.running import in_process

FIELDS = [
    "user_id", "vector", "unknown_items", "items", "budget", "spent", "complete", "degraded", "fallback", "model",
    "search_us",
]  # fmt: skip


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A model that was not trained by ALS."""
    return write_model(tmp_path_factory.mktemp("plain") / "v1", fold_in=None, similar=False)


def positions(*numbers):
    return np.array(numbers, dtype=np.int32)


class TestNewUser:
    @pytest.mark.parametrize("budget", [20, 64, 512])
    def test_the_answer_is_the_librarys(self, app, model, budget):
        body = app.get(f"/recommend?items=i100,i50,i7&budget={budget}&top_k=7").json()
        met = positions(100, 50)
        vector = model.vector_of_items(met).vector
        expected, result = answer_of(model, vector, budget=budget, top_k=7, exclude=met)
        same_items(body["items"], expected)
        # i7 has another id.
        assert (body["user_id"], body["vector"], body["unknown_items"]) == (None, "fold_in", 1)
        assert (body["budget"], body["spent"]) == (budget, result.spent)
        # A walk that nobody helps may end before it has met seven.
        assert body.pop("short", None) == ("budget" if len(expected) < 7 else None)
        assert list(body) == FIELDS

    def test_posted_with_weights(self, app, model):
        items = [{"item_id": "i100", "weight": 3}, "i50", {"item_id": "i60"}]
        body = app.post("/recommend", json={"items": items, "budget": 64}).json()
        met = positions(100, 50, 60)
        vector = model.vector_of_items(met, [3, 1, 1]).vector
        same_items(body["items"], answer_of(model, vector, budget=64, exclude=met)[0])
        assert body["vector"] == "fold_in"

    def test_get_is_post(self, app):
        got = app.get("/recommend?items=i100,i50&budget=64").json()
        posted = app.post("/recommend", json={"items": ["i50", "i100"], "budget": 64}).json()
        assert got | {"search_us": 0} == posted | {"search_us": 0}

    def test_numbers_are_ids(self, app):
        body = app.post("/recommend", json={"items": [100, "i100"]}).json()
        assert body["unknown_items"] == 1

    def test_the_mean_where_the_model_cannot_fold_in(self, plain):
        with in_process(plain.path) as app:
            body = app.get("/recommend?items=i100,i50&budget=64").json()
            assert app.get("/model").json()["makes_vectors_by"] == "mean"
        vector = plain.mean_of_items([100, 50])
        same_items(body["items"], answer_of(plain, vector, budget=64, exclude=positions(100, 50))[0])
        assert body["vector"] == "mean"

    def test_what_was_met_is_not_recommended_back(self, app, model):
        met = [f"i{n}" for n in range(100, 160)]
        body = app.post("/recommend", json={"items": met, "budget": model.n_items, "top_k": 1000}).json()
        assert body["complete"] is True
        assert body["spent"] == model.n_items - 60
        assert not {item["item_id"] for item in body["items"]} & set(met)

    def test_exclude_goes_with_it(self, app):
        first = app.get("/recommend?items=i100&budget=64&top_k=1").json()["items"][0]["item_id"]
        body = app.get("/recommend", params={"items": "i100", "budget": 64, "exclude": first}).json()
        assert first not in [item["item_id"] for item in body["items"]]

    @pytest.mark.parametrize("written", ["i100,i50", "i100%2Ci50", "i100&items=i50", "i50,,i100"])
    def test_however_a_client_writes_a_list(self, app, written):
        body = app.get(f"/recommend?items={written}&budget=64").json()
        assert body["unknown_items"] == 0
        assert body["items"] == app.get("/recommend?items=i100,i50&budget=64").json()["items"]

    def test_a_comma_in_an_id(self, app, model):
        body = app.get("/recommend?items=comma%2Cinside&budget=64").json()
        assert body["unknown_items"] == 0
        met = positions(STRANGE_IDS.index("comma,inside"))
        same_items(body["items"], answer_of(model, model.vector_of_items(met).vector, budget=64, exclude=met)[0])

    def test_target_recall_is_that_of_a_vector(self, app):
        assert app.get("/recommend?items=i100&target_recall=0.75").json()["budget"] == 64

    def test_the_same_bytes_again(self, app):
        asked = {"items": [{"item_id": f"i{n}", "weight": 1 + n % 5} for n in range(20, 90)], "budget": 64}
        first, second = (app.post("/recommend", json=asked).json() for _ in range(2))
        assert first | {"search_us": 0} == second | {"search_us": 0}

    @pytest.mark.parametrize("most", [0, 10**9])
    def test_in_a_thread_as_on_the_loop(self, app, model, monkeypatch, most):
        monkeypatch.setattr("service.answering.answering.MANY_MULTIPLICATIONS", most)
        met = [f"i{n}" for n in range(900, 1900)]
        body = app.post("/recommend", json={"items": met, "budget": 64}).json()
        vector = model.vector_of_items(range(900, 1900)).vector
        expected, _ = answer_of(model, vector, budget=64, exclude=np.arange(900, 1900, dtype=np.int32))
        same_items(body["items"], expected)

    def test_a_deadline_that_has_passed_gives_popular_items_that_were_not_met(self, app, model):
        best = [model.item_id(position) for position in model.popular[:3].tolist()]
        body = app.post("/recommend", json={"items": best, "deadline_ms": 1e-9}).json()
        assert (body["fallback"], body["vector"]) == ("deadline", "fold_in")
        assert not {item["item_id"] for item in body["items"]} & set(best)


class TestKnownUser:
    def test_the_vector_moves(self, app, model):
        body = app.get("/recommend?user_id=u9&items=i100,i50&budget=64").json()
        met = positions(50, 100)
        vector = model.vector_of_items(met, prior=model.user_vector(9)).vector
        exclude = np.concatenate([met, model.seen_items(9)])
        same_items(body["items"], answer_of(model, vector, budget=64, exclude=exclude)[0])
        assert (body["user_id"], body["vector"], body["fallback"]) == ("u9", "moved", None)

    def test_a_vector_moves_too(self, app, model):
        given = model.user_vector(9)
        body = app.post("/recommend", json={"vector": given.tolist(), "items": ["i100"], "budget": 64}).json()
        vector = model.vector_of_items([100], prior=given).vector
        same_items(body["items"], answer_of(model, vector, budget=64, exclude=positions(100))[0])
        assert body["vector"] == "moved"

    def test_items_that_nobody_knows_change_nothing(self, app):
        usual = app.get("/recommend?user_id=u9&budget=64").json()
        body = app.get("/recommend?user_id=u9&items=nothing,never&budget=64").json()
        assert (body["vector"], body["unknown_items"]) == ("stored", 2)
        assert body["items"] == usual["items"]
        given = app.post("/recommend", json={"vector": [1.0] * N_DIMS, "items": ["nothing"]}).json()
        assert (given["vector"], given["unknown_items"]) == ("given", 1)

    @pytest.mark.parametrize("user_id", ["stranger", "u199"])
    def test_whoever_has_no_vector_gets_one(self, app, user_id):
        body = app.get(f"/recommend?user_id={user_id}&items=i100&budget=64").json()
        assert (body["user_id"], body["vector"], body["fallback"]) == (user_id, "fold_in", None)

    def test_nothing_known_at_all(self, app):
        body = app.get("/recommend?user_id=stranger&items=nothing").json()
        assert (body["fallback"], body["vector"], body["unknown_items"]) == ("unknown_user", None, 1)

    def test_where_an_unknown_user_is_an_error(self, model):
        with in_process(model.path, unknown_user="not_found") as app:
            assert app.get("/recommend?user_id=stranger&items=i100").status_code == 200
            refused = app.get("/recommend?user_id=stranger&items=nothing")
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_user")


class TestBatch:
    def test_each_as_alone(self, app):
        requests = [
            {"items": ["i100", "i50"], "budget": 64},
            {"user_id": "u9", "items": [{"item_id": "i100", "weight": 2}], "budget": 32},
            {"user_id": "u9", "budget": 64},
            {"user_id": "stranger", "items": ["nothing"]},
        ]
        together = app.post("/recommend/batch", json={"requests": requests}).json()["results"]
        alone = [app.post("/recommend", json=request).json() for request in requests]
        assert [one | {"search_us": 0} for one in together] == [one | {"search_us": 0} for one in alone]

    def test_unknown_items_are_an_error_in_their_place(self, app):
        requests = [{"items": ["nothing"]}, {"items": ["i100"]}]
        first, second = app.post("/recommend/batch", json={"requests": requests}).json()["results"]
        assert first["error"]["code"] == "unknown_item"
        assert second["vector"] == "fold_in"


class TestRefusals:
    @pytest.mark.parametrize(
        ("items", "said"), [(["nothing"], "the item in items"), (["no", "thing"], "none of the 2")]
    )
    def test_only_unknown_items(self, app, items, said):
        for response in (
            app.post("/recommend", json={"items": items}),
            app.get("/recommend", params={"items": ",".join(items)}),
        ):
            assert response.status_code == 404
            error = response.json()["error"]
            assert error["code"] == "unknown_item"
            assert said in error["message"]

    @pytest.mark.parametrize(
        ("weight", "said"),
        [
            ("0", "items[1].weight is not valid: input should be greater than 0."),
            ("-1", "items[1].weight is not valid: input should be greater than 0."),
            ("1e7", "items[1].weight is not valid: input should be less than or equal to 1000000."),
            ('"2"', "items[1].weight is not valid"),
            ("true", "items[1].weight is not valid"),
            ("null", "items[1].weight is not valid"),
            ("1e400", "The body is not valid JSON."),
            ("NaN", "The body is not valid JSON."),
            ("Infinity", "The body is not valid JSON."),
        ],
    )
    def test_weights_that_make_no_sense(self, app, weight, said):
        body = f'{{"items": ["i100", {{"item_id": "i50", "weight": {weight}}}]}}'
        response = app.post("/recommend", content=body, headers={"content-type": "application/json"})
        assert response.status_code == 422
        assert response.json()["error"]["message"].startswith(said)

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"items": []}, "items"),
            ({"items": "i100"}, "items"),
            ({"items": [""]}, "items[0].item_id"),
            ({"items": [{"weight": 1}]}, "items[0].item_id"),
            ({"items": [{"item_id": "i1", "wieght": 1}]}, "wieght"),
            ({"items": [None]}, "items[0].item_id"),
            ({"items": ["i1"] * 1001}, "has 1001 items"),
            ({"user_id": "u9", "vector": [1.0] * N_DIMS, "items": ["i1"]}, "exactly one of user_id and vector"),
            ({}, "exactly one of user_id and vector, or items"),
        ],
    )
    def test_bodies(self, app, body, said):
        response = app.post("/recommend", json=body)
        assert response.status_code == 422
        assert said in response.json()["error"]["message"]

    @pytest.mark.parametrize(
        "query", ["items=", "items=,", "items=%FF", "items=" + ",".join(["i1"] * 1001), "budget=5"]
    )
    def test_query_strings(self, app, query):
        response = app.get(f"/recommend?{query}")
        assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid_parameter")

    def test_the_bound_is_a_setting(self, model):
        with in_process(model.path, max_items=2) as app:
            assert app.get("/recommend?items=i10,i11").status_code == 200
            assert app.get("/recommend?items=i10,i11,i12").json()["error"]["hint"] == "items takes 1 to 2 item ids."
            assert app.post("/recommend", json={"items": ["i10", "i11", "i12"]}).status_code == 422


def test_todays_answers_keep_their_bytes(app):
    for body in (
        app.get("/recommend?user_id=u9").json(),
        app.post("/recommend", json={"vector": [1.0] * N_DIMS}).json(),
    ):
        assert not {"vector", "unknown_items"} & set(body)
