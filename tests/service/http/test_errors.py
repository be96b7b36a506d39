"""All that a caller can do wrong: a clear 4xx in one shape, and the next request is served as if nothing happened."""

import json

import pytest

from tests.service.conftest import N_DIMS
from tests.service.running import in_process

VECTOR = [0.5] * N_DIMS


def is_error(response, status, code, *words):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body = response.json()
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "hint"]
    assert body["error"]["code"] == code
    text = body["error"]["message"] + " " + body["error"]["hint"]
    for word in words:
        assert word in text
    return text


@pytest.fixture(autouse=True)
def next_request_is_served(app):
    yield
    assert app.get("/recommend?user_id=u9&budget=8").status_code == 200


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("", "user_id"),
        ("user_id=", "user_id"),
        ("budget=64", "user_id"),
        ("user_id=u9&budget=0", "budget"),
        ("user_id=u9&budget=-1", "budget"),
        ("user_id=u9&budget=1e30", "budget"),
        ("user_id=u9&budget=1000000000001", "budget"),
        ("user_id=u9&budget=9" + "9" * 400, "budget"),
        ("user_id=u9&budget=%D9%A3", "budget"),
        ("user_id=u9&budget=1.5", "budget"),
        ("user_id=u9&budget=+5", "budget"),
        ("user_id=u9&budget=", "budget"),
        ("user_id=u9&budget=nan", "budget"),
        ("user_id=u9&top_k=0", "top_k"),
        ("user_id=u9&top_k=1001", "top_k"),
        ("user_id=u9&top_k=ten", "top_k"),
        ("user_id=u9&deadline_ms=0", "deadline_ms"),
        ("user_id=u9&deadline_ms=-3", "deadline_ms"),
        ("user_id=u9&deadline_ms=nan", "deadline_ms"),
        ("user_id=u9&deadline_ms=inf", "deadline_ms"),
        ("user_id=u9&deadline_ms=1e999", "deadline_ms"),
        ("user_id=u9&target_recall=0", "target_recall"),
        ("user_id=u9&target_recall=1.01", "target_recall"),
        ("user_id=u9&exclude_seen=maybe", "exclude_seen"),
        ("user_id=u9&user_id=u10", "user_id"),
        ("user_id=u9&budget=1&budget=2", "budget"),
        ("user_id=u9&bugdet=64", "bugdet"),
        ("user_id=%FF%FE", "user_id"),
        ("%FF=1&user_id=u9", "query string"),
    ],
)
def test_bad_parameters(app, query, name):
    is_error(app.get(f"/recommend?{query}"), 422, "invalid_parameter", name)


@pytest.mark.parametrize("header", ["0", "-1", "soon", "nan", ""])
def test_bad_deadline_header(app, header):
    response = app.get("/recommend?user_id=u9", headers={"X-Request-Deadline-Ms": header})
    is_error(response, 422, "invalid_parameter", "X-Request-Deadline-Ms")


def test_bad_priority(app):
    response = app.get("/recommend?user_id=u9", headers={"X-Priority": "urgent"})
    is_error(response, 422, "invalid_parameter", "X-Priority", "interactive or batch")


@pytest.mark.parametrize("query", ["", "item_id=", "item_id=i9&top_k=0", "item_id=i9&user_id=9", "item_id=a&item_id=a"])
def test_bad_similar(app, query):
    is_error(app.get(f"/similar?{query}"), 422, "invalid_parameter")


def test_unknown_item(app):
    is_error(app.get("/similar?item_id=nothing"), 404, "unknown_item", "nothing")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({}, "exactly one"),
        ({"user_id": "u9", "vector": VECTOR}, "exactly one"),
        ({"user_id": ""}, "user_id"),
        ({"user_id": True}, "user_id"),
        ({"user_id": ["u9"]}, "user_id"),
        ({"vector": []}, "vector"),
        ({"vector": VECTOR[1:]}, "vector"),
        ({"vector": [*VECTOR, 1.0]}, "vector"),
        ({"vector": [*VECTOR[1:], "1"]}, "vector"),
        ({"vector": [*VECTOR[1:], None]}, "vector"),
        ({"vector": [*VECTOR[1:], 1e300]}, "vector"),
        ({"vector": [*VECTOR[1:], 1e20]}, "vector"),
        ({"user_id": "u9", "budget": 0}, "budget"),
        ({"user_id": "u9", "budget": -1}, "budget"),
        ({"user_id": "u9", "budget": 1e30}, "budget"),
        ({"user_id": "u9", "budget": 10**30}, "budget"),
        ({"user_id": "u9", "budget": "64"}, "budget"),
        ({"user_id": "u9", "budget": True}, "budget"),
        ({"user_id": "u9", "budget": 1.5}, "budget"),
        ({"user_id": "u9", "top_k": 0}, "top_k"),
        ({"user_id": "u9", "top_k": 1001}, "top_k"),
        ({"user_id": "u9", "deadline_ms": 0}, "deadline_ms"),
        ({"user_id": "u9", "target_recall": 2}, "target_recall"),
        ({"user_id": "u9", "exclude": "i9"}, "exclude"),
        ({"user_id": "u9", "exclude_seen": "yes"}, "exclude_seen"),
        ({"user_id": "u9", "bugdet": 64}, "bugdet"),
        ([], "body"),
    ],
)
def test_bad_bodies(app, body, name):
    is_error(app.post("/recommend", json=body), 422, "invalid_parameter", name)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none(app, number):
    content = '{"vector": [' + ", ".join(["1.0"] * (N_DIMS - 1) + [number]) + "]}"
    response = app.post("/recommend", content=content, headers={"content-type": "application/json"})
    is_error(response, 422, "invalid_parameter", "not valid JSON")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"not json", b'{"user_id": "\xff\xfe"}', b"\x00", b"[" * 100_000, b'{"budget": %b}' % (b"1" * 10_000)],
)
def test_bodies_that_are_no_json(app, content):
    response = app.post("/recommend", content=content, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert response.json()["error"]["code"] in ("bad_request", "invalid_parameter")


def test_a_lone_surrogate_is_no_text(app):
    response = app.post("/recommend", content=b'{"user_id": "\\ud800"}', headers={"content-type": "application/json"})
    is_error(response, 422, "invalid_parameter", "not valid JSON")


def test_a_vector_is_never_shown_in_an_error(app):
    secret = 0.123456789
    text = is_error(app.post("/recommend", json={"vector": [secret] * 3}), 422, "invalid_parameter", "vector")
    assert str(secret) not in text


def test_another_content_type(app):
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = app.post("/recommend", content=b"user_id=u9", headers=form)
    is_error(response, 422, "invalid_parameter")


def test_bodies_that_are_too_large(model):
    with in_process(model.path, body_limit=2000) as app:
        said = app.post("/recommend", json={"user_id": "u9", "exclude": ["x" * 50] * 100})
        is_error(said, 413, "body_too_large", "2000 bytes")

        async def unsaid():
            for _ in range(100):
                yield b" " * 1000

        response = app.post("/recommend", content=unsaid(), headers={"content-type": "application/json"})
        is_error(response, 413, "body_too_large", "2000 bytes")
        assert app.metric('budgetrec_failed_total{reason="body_too_large"}') == 2


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/recommend"), ("GET", "/admin/reload"), ("POST", "/similar"), ("PUT", "/metrics")]
)
def test_methods_that_are_not_taken(app, method, path):
    response = app.request(method, path)
    is_error(response, 405, "method_not_allowed", path, method)
    assert response.headers["allow"]


@pytest.mark.parametrize("path", ["/nothing", "/recommend/", "/recommend/batch/1", "/health", "/admin"])
def test_paths_that_do_not_exist(app, path):
    is_error(app.get(path), 404, "not_found")


def test_our_own_faults_are_500_and_logged(app, monkeypatch):
    def broken(*_):
        raise RuntimeError("the secret of the implementation")

    monkeypatch.setattr(app.worker.answering, "prepare", broken)
    for response in (app.get("/recommend?user_id=u9"), app.post("/recommend", json={"user_id": "u9"})):
        assert "secret" not in is_error(response, 500, "internal", "X-Request-ID")
    monkeypatch.undo()


def test_before_a_model_is_loaded(tmp_path):
    with in_process(tmp_path / "none", wait=False) as app:
        assert app.get("/health/live").json() == {"status": "live"}
        for url in ("/recommend?user_id=u9", "/similar?item_id=i1", "/model", "/budgets", "/health/ready"):
            response = app.get(url)
            is_error(response, 503, "not_ready")
            assert int(response.headers["retry-after"]) >= 1
        assert app.get("/metrics").status_code == 200


class TestRequestIds:
    def test_the_callers_id_comes_back(self, app):
        response = app.get("/recommend?user_id=u9", headers={"X-Request-ID": "abc-123"})
        assert response.headers["x-request-id"] == "abc-123"

    @pytest.mark.parametrize("bad", ["", "a b", "x" * 200, "<script>"])
    def test_an_unsafe_one_is_replaced(self, app, bad):
        response = app.get("/recommend?user_id=u9", headers={"X-Request-ID": bad})
        assert response.headers["x-request-id"] not in ("", bad)

    def test_made_ones_are_all_different(self, app):
        ids = {app.get("/health/live").headers["x-request-id"] for _ in range(10)}
        assert len(ids) == 10


class TestCors:
    def test_off_by_default(self, app):
        response = app.get("/recommend?user_id=u9", headers={"Origin": "https://shop.example"})
        assert "access-control-allow-origin" not in response.headers

    def test_a_configured_origin(self, model):
        with in_process(model.path, cors_origins="https://shop.example, https://other.example") as app:
            origin = {"Origin": "https://shop.example"}
            response = app.get("/recommend?user_id=u9", headers=origin)
            assert response.headers["access-control-allow-origin"] == "https://shop.example"
            assert response.headers["vary"] == "Origin"
            preflight = app.request("OPTIONS", "/recommend", headers=origin | {"Access-Control-Request-Method": "GET"})
            assert preflight.status_code == 200
            assert "X-API-Key" in preflight.headers["access-control-allow-headers"]
            stranger = app.get("/recommend?user_id=u9", headers={"Origin": "https://evil.example"})
            assert "access-control-allow-origin" not in stranger.headers
            assert stranger.headers["vary"] == app.get("/recommend?user_id=u9").headers["vary"] == "Origin"
            failed = app.get("/recommend", headers=origin)
            assert failed.status_code == 422
            assert failed.headers["access-control-allow-origin"] == "https://shop.example"

    def test_any_origin(self, model):
        with in_process(model.path, cors_origins="*") as app:
            response = app.get("/recommend?user_id=u9", headers={"Origin": "https://shop.example"})
            assert response.headers["access-control-allow-origin"] == "*"


def test_errors_are_counted_by_code_and_never_by_what_was_sent(app):
    before = app.metric('budgetrec_failed_total{reason="unknown_item"}')
    app.get("/similar?item_id=ghost")
    text = app.get("/metrics").text
    assert app.metric('budgetrec_failed_total{reason="unknown_item"}') == before + 1
    assert "ghost" not in text


def test_large_json_is_one_json_document(app):
    body = app.get("/recommend?user_id=u9&top_k=1000&budget=2000").content
    assert len(json.loads(body)["items"]) == 1000


def test_a_method_that_a_call_does_not_take_is_told_all_that_it_does(app):
    response = app.request("DELETE", "/recommend")
    assert (response.status_code, response.headers["allow"]) == (405, "GET, POST")
    assert "GET or POST" in response.json()["error"]["hint"]


def test_a_body_that_is_not_sent_as_json_is_told_so(app):
    response = app.post("/recommend", content=b'{"user_id": "u9"}', headers={"content-type": "text/plain"})
    is_error(response, 422, "invalid_parameter", "Content-Type: application/json")
