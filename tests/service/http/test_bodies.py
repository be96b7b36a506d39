"""JSON bodies are counted before they are parsed, and the first fault ends the validation."""

import asyncio
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from service.errors import ApiError
from service.http.bodies import count_values, most_values, parse, read
from service.http.schemas import BatchRequest, RecommendRequest
from service.settings import Settings
from tests.service.running import in_process

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet=st.sampled_from('a"\\,[]{}: é')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def n_values(value):
    if isinstance(value, list):
        return 1 + sum(map(n_values, value))
    if isinstance(value, dict):
        return 1 + sum(map(n_values, value.values()))
    return 1


@given(JSON)
def test_no_value_is_overlooked_and_nothing_in_a_string_counts(value):
    text = json.dumps(value, ensure_ascii=False).encode()
    containers = json.dumps(value).count  # for the bound below only
    counted = count_values(text)
    # Every value is a container or stands in one, behind a comma unless it is the first there.
    assert n_values(value) <= 2 * counted + 1
    outside = "".join(json.dumps(value, ensure_ascii=False).replace("\\\\", "").replace('\\"', "").split('"')[::2])
    assert counted == sum(outside.count(sign) for sign in ",[{")
    assert containers(",") >= outside.count(",")


def test_a_string_over_the_edge_of_a_chunk():
    body = b'["' + b"," * 200_000 + b'","' + b"[" * 100_000 + b'"]'
    assert count_values(body) == 2
    assert parse(body, 10, 1000) == ["," * 200_000, "[" * 100_000]


@pytest.mark.parametrize(
    "body",
    [
        b'{"requests":[' + b",".join([b"{}"] * 300_000) + b"]}",
        b'{"exclude":[' + b",".join([b"1"] * 300_000) + b"]}",
        b'{"exclude":[' + b",".join([b'""'] * 300_000) + b"]}",
        b"[" * 300_000 + b"]" * 300_000,
        b"[" + b",".join([b"[[[]]]"] * 100_000) + b"]",
    ],
)
def test_more_values_than_any_question_has_are_refused_unparsed(body):
    with pytest.raises(ApiError) as refused:
        parse(body, most_values(Settings(), 128), 1000)
    assert refused.value.status == 413


def test_what_the_limits_allow_is_not_refused():
    settings = Settings()
    ids = {"user_id": "u", "exclude": [f"item,{n}" for n in range(settings.max_exclude)]}
    assert parse(json.dumps(ids).encode(), most_values(settings, 128), 1000) == ids
    vectors = {"requests": [{"vector": [0.5] * 128, "budget": 64, "top_k": 10}] * settings.max_batch}
    assert parse(json.dumps(vectors).encode(), most_values(settings, 128), 1000) == vectors


def test_a_batch_of_too_many_entries_is_refused_before_they_are_validated():
    # Few enough values, for a model of many dimensions, that counting them lets it through.
    body = b'{"requests":[' + b",".join([b"{}"] * 60_000) + b"]}"
    with pytest.raises(ApiError, match=r"requests has 60000 entries"):
        parse(body, most_values(Settings(), 128), 1000)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (BatchRequest, {"requests": [{}] * 1000}),
        (RecommendRequest, {"user_id": "u", "exclude": [{}] * 1000}),
        (RecommendRequest, {"vector": ["x"] * 1000}),
        (RecommendRequest, {"vector": [True] * 1000}),
    ],
)
def test_the_first_fault_ends_the_validation(schema, body):
    with pytest.raises(ValidationError) as refused:
        schema.model_validate(body)
    assert refused.value.error_count() <= 2


def test_over_http_the_place_is_named(app):
    response = app.post("/recommend/batch", json={"requests": [{"user_id": "u9"}, {}]})
    assert response.status_code == 422
    assert "requests[1]" in response.json()["error"]["message"]
    response = app.post(
        "/recommend", content=b"[" + b"1," * 200_000 + b"1]", headers={"content-type": "application/json"}
    )
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"


def test_a_batch_may_not_ask_for_too_many_items(app):
    asks = [{"user_id": "u9", "top_k": 1000}] * 101
    response = app.post("/recommend/batch", json={"requests": asks})
    assert response.status_code == 422
    assert "101000 items" in response.json()["error"]["message"]


class TestLargeBodies:
    """Those above 64 KiB are validated where they are parsed, in a thread."""

    @pytest.fixture
    def read_by(self, monkeypatch):
        """Of each body that was read: whether there was an event loop in that thread."""
        loops = []

        def noted(*arguments):
            loops.append(asyncio._get_running_loop() is not None)
            return read(*arguments)

        monkeypatch.setattr("service.http.bodies.read", noted)
        return loops

    def test_off_the_event_loop(self, app, read_by):
        asks = [{"items": [f"i{n}" for n in range(at, at + 40)], "budget": 16} for at in range(8, 808)]
        large = app.post("/recommend/batch", json={"requests": asks}).json()["results"]
        assert read_by == [False]
        small = app.post("/recommend/batch", json={"requests": asks[:9]}).json()["results"]
        assert len(read_by) == 1
        assert [each | {"search_us": 0} for each in large[:9]] == [each | {"search_us": 0} for each in small]

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"user_id": "u9", "budget": 0}, "requests[900].budget"),
            ({"items": [{"item_id": "i9", "wait": 2}]}, "requests[900].items[0]"),
            ({"user_id": "u9", "at_most": {"category": 0}}, "requests[900].at_most"),
        ],
    )
    def test_what_is_wrong_is_named_as_in_small_ones(self, app, read_by, wrong, says):
        asks = [{"user_id": "u9", "exclude": [f"i{n:060}"]} for n in range(900)]
        large = app.post("/recommend/batch", json={"requests": [*asks, wrong]})
        assert len(read_by) == 1
        assert large.status_code == 422
        assert says in large.json()["error"]["message"]
        small = app.post("/recommend/batch", json={"requests": [wrong]})
        assert small.status_code == 422
        named = small.json()["error"]["message"].replace("requests[0]", "requests[900]")
        assert large.json()["error"]["message"] == named


def test_the_event_loop_waits_only_a_moment_for_the_threads_that_read_bodies(model):
    before = sys.getswitchinterval()
    with in_process(model.path):
        assert sys.getswitchinterval() <= 0.001
    assert sys.getswitchinterval() == before


def test_the_most_items_of_a_batch_and_the_furthest_page_are_settings(model):
    with in_process(model.path, max_batch_items=20, max_offset=5) as app:
        asks = [{"user_id": "u9", "top_k": 7}] * 3
        refused = app.post("/recommend/batch", json={"requests": asks})
        assert refused.status_code == 422
        assert "at most 20" in refused.json()["error"]["hint"]
        assert len(app.post("/recommend/batch", json={"requests": asks[:2]}).json()["results"]) == 2
        assert app.get("/recommend?user_id=u9&offset=5").status_code == 200
        assert "from 0 to 5" in app.get("/recommend?user_id=u9&offset=6").json()["error"]["hint"]
