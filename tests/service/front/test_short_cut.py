"""The short cut gives the bytes that FastAPI gives, and speaks HTTP like any other server."""

import re
from urllib.parse import quote

import pytest

from tests.service.conftest import N_DIMS, STRANGE_IDS, write_model
from tests.service.raw import RawConnection
from tests.service.running import in_process, poll, server


@pytest.fixture(scope="module")
def lane(model, tmp_path_factory):
    log = tmp_path_factory.mktemp("lane") / "log"
    with server(model.path, log, keep_alive_seconds=2, header_limit=16384) as running:
        yield running


def same(first, second):
    """Compare answers but for what the clock decides."""
    return re.sub(rb'"search_us":\d+', b"", first) == re.sub(rb'"search_us":\d+', b"", second)


QUERIES = [
    "user_id=u9",
    "user_id=u9&budget=64",
    "user_id=u9&budget=64&top_k=10",
    "user_id=u9&top_k=3",
    "top_k=3&budget=64&user_id=u9",
    "user_id=u9&budget=64&exclude_seen=false",
    "user_id=u9&budget=64&exclude=i10,i11,comma%2Cinside",
    "user_id=u9&target_recall=0.75",
    "user_id=u9&deadline_ms=10000&budget=77",
    "user_id=u9&budget=100000",
    "user_id=u9&budget=1500",
    "user_id=stranger&budget=64",
    "user_id=u9&filter=price+%3C+20",
    "user_id=u9&budget=64&filter=category%3D%22c1%22+and+in_stock&fields=price,title,tags",
    "user_id=u9&budget=9&filter=price%3D3.5&top_k=20",
    "user_id=u9&target_recall=0.9&filter=in_stock",
    "user_id=u9&filter=price%3C0",
    "user_id=stranger&filter=price+%3C+20&fields=price",
    "user_id=u9&fields=price,category,published",
    "user_id=u199&budget=64",
    *(f"user_id={quote(user_id, safe='')}&budget=64" for user_id in STRANGE_IDS),
    "items=i10",
    "items=i10,i11,comma%2Cinside&budget=64",
    "items=i10%2Ci11&budget=64",
    "items=i10&items=i11",
    "user_id=u9&items=i10,nothing&budget=64",
    "user_id=stranger&items=i10&target_recall=0.75",
    "user_id=u9&items=nothing",
    "items=" + ",".join(f"i{n}" for n in range(100, 1000)),
    # and what is wrong
    "items=",
    "items=nothing",
    "items=i10&budget=0",
    "user_id=",
    "user_id=u9&budget=0",
    "user_id=u9&budget=007",
    "user_id=u9&budget=64&budget=64",
    "user_id=u9&top_k=1001",
    "user_id=u9&bugdet=3",
    "user_id=u9&filter=",
    "user_id=u9&filter=prise+%3C+20",
    "user_id=u9&filter=price+%3C",
    "user_id=u9&filter=in_stock&filter=in_stock",
    "user_id=u9&fields=prise",
    "user_id=%FF",
    "",
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_same_bytes_as_asgi(lane, app, query):
    fast, slow = lane.get(f"/recommend?{query}"), app.get(f"/recommend?{query}")
    assert fast.status_code == slow.status_code
    assert same(fast.content, slow.content)
    assert fast.headers["content-type"] == slow.headers["content-type"]
    assert fast.headers["x-request-id"]


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Request-ID": "mine"},
        {"X-Priority": "batch"},
        {"X-Priority": "nobody"},
        {"X-Request-Deadline-Ms": "5000"},
        {"X-Request-Deadline-Ms": "no"},
        {"Origin": "https://shop.example"},
        {"Connection": "keep-alive", "Accept": "*/*", "User-Agent": "test"},
    ],
)
def test_headers_mean_the_same(lane, app, headers):
    fast = lane.get("/recommend?user_id=u9&budget=64", headers=headers)
    slow = app.get("/recommend?user_id=u9&budget=64", headers=headers)
    assert fast.status_code == slow.status_code
    assert same(fast.content, slow.content)
    if "X-Request-ID" in headers:
        assert fast.headers["x-request-id"] == "mine"


QUESTION = b"GET /recommend?user_id=u9&budget=64 HTTP/1.1\r\n"


class TestPlainHeads:
    """Requests that are read without the parser, and those that only look like it."""

    @pytest.mark.parametrize(
        "headers",
        [
            b"Host: x",
            b"host:x",
            b"Host: x\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\nCookie: a=b; c=d",
            b"X-Any: \xc3\xbc\xff",
        ],
    )
    def test_the_same_bytes(self, lane, app, headers):
        with RawConnection(lane.port) as raw:
            for _ in range(3):
                raw.send(QUESTION + headers + b"\r\n\r\n")
                status, names, body = raw.answer()
                assert status == 200
                assert names["x-request-id"]
                assert same(body, app.get("/recommend?user_id=u9&budget=64").content)

    def test_between_other_requests(self, lane):
        with RawConnection(lane.port) as raw:
            for _ in range(3):
                raw.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
                assert raw.answer()[2] == b'{"status":"live"}'
                raw.send(QUESTION + b"Host: x\r\n\r\n")
                assert b'"user_id":"u9"' in raw.answer()[2]
                raw.send(QUESTION + b"Host: x\r\nX-Request-ID: mine\r\n\r\n")
                assert raw.answer()[1]["x-request-id"] == "mine"

    @pytest.mark.parametrize("name", [b"X-Priority", b"x-priority", b"X-PRIORITY"])
    def test_headers_that_matter_are_never_overlooked(self, lane, name):
        with RawConnection(lane.port) as raw:
            raw.send(QUESTION + b"Host: x\r\n" + name + b": nobody\r\n\r\n")
            assert raw.answer()[0] == 422

    def test_a_body_is_never_taken_for_a_request(self, lane):
        with RawConnection(lane.port) as raw:
            inner = QUESTION + b"Host: x\r\n\r\n"
            raw.send(b"POST /recommend HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(inner))
            poll(lambda: lane.get("/health/live").status_code == 200, "a turn of the loop")
            raw.send(inner)
            assert raw.answer()[0] == 422
            raw.send(inner)
            assert raw.answer()[0] == 200

    @pytest.mark.parametrize(
        "bad", [b"No Name: x", b"Folded: x\r\n y", b"Zero: \x00", b": empty", b"nothing", b"Host : x", b"X: a\rb"]
    )
    def test_headers_that_are_none_are_refused(self, lane, bad):
        with RawConnection(lane.port) as raw:
            raw.send(QUESTION + b"Host: x\r\n" + bad + b"\r\n\r\n")
            status, headers, body = raw.answer()
            assert (status, headers["connection"]) == (400, "close")
            assert b'"code":"bad_request"' in body
        assert lane.get("/health/live").status_code == 200


def test_a_pipeline_is_answered_in_order(lane):
    with RawConnection(lane.port) as raw:
        asked = []
        for number, user in enumerate(range(10, 30)):
            path = f"/recommend?user_id=u{user}&budget=16" if number % 3 else f"/similar?item_id=i{user}&budget=16"
            asked.append(f"u{user}" if number % 3 else f"i{user}")
            raw.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for name in asked:
            status, _, body = raw.answer()
            assert status == 200
            assert f'_id":"{name}"'.encode() in body[:30]


def test_a_request_in_many_pieces(lane):
    with RawConnection(lane.port) as raw:
        for byte in b"GET /recommend?user_id=u9&budget=16 HTTP/1.1\r\nHost: x\r\n\r\n":
            raw.send(bytes([byte]))
        assert raw.answer()[0] == 200


def test_connection_close_is_honoured(lane):
    with RawConnection(lane.port) as raw:
        raw.send(b"GET /recommend?user_id=u9&budget=16 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        status, headers, _ = raw.answer()
        assert status == 200
        assert headers["connection"] == "close"
        assert raw.at_end()


@pytest.mark.parametrize("extra", [b"", b"Connection: keep-alive\r\n"])
def test_http_1_0(lane, extra):
    with RawConnection(lane.port) as raw:
        raw.send(b"GET /recommend?user_id=u9&budget=16 HTTP/1.0\r\n" + extra + b"\r\n")
        assert raw.answer()[0] == 200
        assert raw.at_end()


def test_a_get_with_a_body(lane):
    with RawConnection(lane.port) as raw:
        for _ in range(2):
            raw.send(b"GET /recommend?user_id=u9&budget=16 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            assert raw.answer()[0] == 200


def test_what_is_no_http(lane):
    with RawConnection(lane.port) as raw:
        raw.send(b"hello\r\n\r\n")
        status, headers, body = raw.answer()
        assert status == 400
        assert headers["content-type"] == "application/json"
        assert b'"code":"bad_request"' in body
        assert raw.at_end()


def test_a_header_without_end_is_cut_off(lane):
    with RawConnection(lane.port) as raw:
        raw.send(b"GET /recommend?user_id=u9 HTTP/1.1\r\nX-Long: ")
        cut = False
        for _ in range(200):
            try:
                raw.send(b"y" * 1000)
            except (BrokenPipeError, ConnectionResetError):
                cut = True
                break
        assert cut or raw.answer()[0] == 431


def test_idle_connections_are_closed(lane):
    with RawConnection(lane.port) as raw, RawConnection(lane.port) as silent:
        raw.send(b"GET /recommend?user_id=u9&budget=16 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert raw.answer()[0] == 200
        assert raw.at_end()
        assert silent.at_end()


def test_a_caller_that_leaves_without_reading(lane):
    for _ in range(20):
        with RawConnection(lane.port) as raw:
            raw.send(b"GET /recommend?user_id=u9&budget=64 HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
    poll(lambda: lane.metric("budgetrec_connections") <= 2, "the callers to be gone")
    poll(lambda: lane.metric("budgetrec_in_flight") == 0, "the line to be empty")
    assert lane.metric("budgetrec_queued_products") == 0
    assert lane.get("/recommend?user_id=u9").status_code == 200
    assert not lane.logged("request failed")


def test_a_catalogue_smaller_than_the_budget(tmp_path):
    model = write_model(tmp_path / "m", n_items=100)
    with server(model.path, tmp_path / "log") as small, in_process(model.path) as app:
        for query in ("user_id=u9&budget=500", "user_id=u9&budget=500&top_k=200", "user_id=u9&budget=20"):
            assert same(small.get(f"/recommend?{query}").content, app.get(f"/recommend?{query}").content)
        assert small.get("/recommend?user_id=u9&budget=500").json()["complete"] is True


def test_keys_are_checked_in_the_lane(model, tmp_path):
    with server(model.path, tmp_path / "log", api_keys="shop:shop-secret-key:2000", log_sample=1) as keyed:
        url = "/recommend?user_id=u9&budget=500"
        assert keyed.get(url).status_code == 401
        assert keyed.get(url, headers={"X-API-Key": "wrong-secret-key"}).status_code == 403
        statuses = {keyed.get(url, headers={"X-API-Key": "shop-secret-key"}).status_code for _ in range(8)}
        assert statuses == {200, 429}
        key = {"X-API-Key": "shop-secret-key"}
        keyed.post("/recommend", json={"vector": [0.1234567] * N_DIMS, "budget": 1}, headers=key)
        text = keyed.log.read_text()
        assert "0.1234567" not in text
        assert "u9" not in text
        assert "shop-secret-key" not in text
        assert "wrong-secret-key" not in text
        assert '"route": "recommend"' in text
