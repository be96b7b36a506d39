"""The Python client against the real service, and against one that fails in every way a client has to bear."""

import asyncio
import contextlib
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from budgetrec_client import ApiError, AsyncClient, Client, DeadlineExceeded, Unreachable
from budgetrec_client.attempts import query

from clients import python_types
from tests.service.conftest import LONG_ID, STRANGE_IDS, write_model
from tests.service.running import server

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "clients" / "python"
ADMIN = "the-admin-secret"


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    bundle = write_model(folder / "v1")
    (folder / "scenarios.toml").write_text("[home]\nbudget = 100\nat_most = { category = 1 }\n")
    more = {"scenarios": folder / "scenarios.toml", "api_keys": "shop:shop-secret-key"}
    with server(bundle.path, folder / "log", admin_key=ADMIN, **more) as service:
        yield service


@pytest.fixture
def client(running):
    with Client(running.address, key="shop-secret-key") as client:
        yield client


def without_time(answer):
    return {name: value for name, value in answer.items() if name != "search_us"}


class TestAgainstTheRealService:
    def test_every_read(self, client, running):
        answer = client.recommend(user_id="u9", budget=64, top_k=3)
        assert (answer["spent"], len(answer["items"])) == (64, 3)
        excluded = [item["item_id"] for item in answer["items"]]
        other = client.recommend(user_id="u9", budget=64, top_k=3, exclude=excluded)
        assert not {item["item_id"] for item in other["items"]} & set(excluded)
        assert client.recommend(vector=[1.0] * 16, exclude_seen=False)["user_id"] is None
        assert client.similar(item_id="i9", budget=64, top_k=2, by="cosine", deadline_ms=5000)["item_id"] == "i9"
        met = client.recommend(items=["i9", {"item_id": "i10", "weight": 2.0}], budget=64, top_k=3)
        assert not {item["item_id"] for item in met["items"]} & {"i9", "i10"}
        batch = client.recommend_batch([{"user_id": "u9", "budget": 8}, {"user_id": "u10", "budget": 16}])
        assert [result["spent"] for result in batch["results"]] == [8, 16]
        assert client.budgets()["points"][0]["budget"] == 16
        assert client.model()["version"] == "v1"
        assert client.items(title="title 1999", limit=3)["items"][0]["item_id"] == "i1999"
        assert len(client.users(limit=4)["users"]) == 4
        assert client.attributes(name="category", starts="c3")["attributes"][0]["some"] == ["c3"]
        assert client.versions()["served"] == "v1"

    def test_scenarios_and_rules(self, client, running):
        (listed,) = client.scenarios()["scenarios"]
        assert (listed["name"], listed["at_most"]) == ("home", {"category": 1})
        home = client.recommend(user_id="u9", scenario="home")
        assert (home["scenario"], home["budget"]) == ("home", 100)
        said = {"at_most": {"category": 1}, "boost": [{"filter": "price in [1.5, 2.5]", "factor": 2.0}]}
        ruled = client.recommend(user_id="u9", pin=[{"place": 2, "item_id": "i40"}], offset=0, **said)
        assert ruled["items"][1]["item_id"] == "i40"
        assert set(ruled["rules"]) == {"at_most", "boost", "pin"}
        boosts = ["2: price in [1.5, 2.5]", "1.5: in_stock"]
        similar = client.similar(item_id="i9", boost=boosts, at_most=["category:1"], pin=["1:i40"], diversity=0.2)
        assert similar["items"][0]["item_id"] == "i40"
        assert set(similar["rules"]) == {"at_most", "boost", "pin", "diversity"}

        async def listed_too():
            async with AsyncClient(running.address, key="shop-secret-key") as other:
                return await other.scenarios()

        assert asyncio.run(listed_too()) == client.scenarios()

    @pytest.mark.parametrize("user_id", [each for each in STRANGE_IDS if each != LONG_ID])
    def test_any_id(self, client, user_id):
        assert client.recommend(user_id=user_id)["user_id"] == user_id
        assert client.similar(item_id=user_id)["item_id"] == user_id

    def test_asynchronous_and_synchronous_say_the_same(self, client, running):
        async def all_at_once():
            async with AsyncClient(running.address, key="shop-secret-key") as many:
                answers = [many.recommend(user_id=f"u{user}", budget=32) for user in range(10, 30)]
                found = await asyncio.gather(*answers)
                return found, await many.similar(item_id="i9"), await many.budgets(), await many.model()

        found, similar, budgets, model = asyncio.run(all_at_once())
        assert [without_time(answer) for answer in found] == [
            without_time(client.recommend(user_id=f"u{user}", budget=32)) for user in range(10, 30)
        ]
        assert without_time(similar) == without_time(client.similar(item_id="i9"))
        assert budgets["model"] == model["version"] == "v1"

    def test_errors_have_code_hint_and_request_id(self, client):
        with pytest.raises(ApiError) as refused:
            client.recommend(user_id="u9", budget=0)
        assert (refused.value.status, refused.value.code) == (422, "invalid_parameter")
        assert "budget" in refused.value.hint
        assert refused.value.request_id

    def test_admin(self, running):
        with Client(running.address, key=ADMIN) as operator:
            assert operator.reload()["version"] == "v1"
            with pytest.raises(ApiError) as refused:
                operator.rollback()
        assert refused.value.code == "nothing_to_roll_back"

    def test_a_deadline_shrinks_the_work(self, running):
        with Client(running.address, key="shop-secret-key", deadline_ms=5000) as client:
            assert client.recommend(user_id="u9", budget=64)["spent"] == 64
        with Client(running.address, key="shop-secret-key") as client, pytest.raises(DeadlineExceeded):
            client.recommend(user_id="u9", deadline_ms=0.0001)

    def test_nobody_there(self):
        with Client("http://127.0.0.1:1", retries=1) as client, pytest.raises(Unreachable):
            client.model()


class _Trickle(BaseHTTPRequestHandler):
    """A body of a thousand parts, the next one when the last one was waited for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "1000")
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(1000):
                self.wfile.write(b" ")
                self.server.ended.wait(0.02)

    def log_message(self, *_):
        pass


@pytest.fixture
def trickling():
    with ThreadingHTTPServer(("127.0.0.1", 0), _Trickle) as service:
        service.ended = threading.Event()
        thread = threading.Thread(target=service.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{service.server_port}"
        service.ended.set()
        service.shutdown()
        thread.join()


def test_a_deadline_bounds_a_body_that_trickles_in(trickling):
    with Client(trickling) as client, pytest.raises(DeadlineExceeded):
        client.recommend(user_id="u9", deadline_ms=300)

    async def asked():
        async with AsyncClient(trickling) as other:
            await other.recommend(user_id="u9", deadline_ms=300)

    with pytest.raises(DeadlineExceeded):
        asyncio.run(asked())


class Replies(httpx.MockTransport):
    """A service that gives these replies, one after the other, and notes what it was asked."""

    def __init__(self, *replies):
        self.asked = []
        self._replies = list(replies)
        super().__init__(self._reply)

    def _reply(self, request):
        self.asked.append(request)
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        # Made anew: what was read once cannot be read again.
        return httpx.Response(reply.status_code, content=reply.content, headers=reply.headers)


def shed(status=503, seconds="0"):
    error = {"error": {"code": "overload", "message": "No.", "hint": "Later."}}
    return httpx.Response(status, json=error, headers={"Retry-After": seconds})


GOOD = httpx.Response(200, json={"spent": 1})


class TestAttempts:
    @pytest.mark.parametrize(
        "first", [shed(), shed(429), shed(502), shed(504), httpx.ConnectError("no"), httpx.RemoteProtocolError("gone")]
    )
    def test_reads_are_tried_again(self, first):
        replies = Replies(first, GOOD)
        assert Client("http://service", transport=replies).recommend(user_id="1") == {"spent": 1}
        assert len(replies.asked) == 2
        replies = Replies(first, GOOD)
        found = asyncio.run(AsyncClient("http://service", transport=replies).recommend(vector=[1.0]))
        assert found == {"spent": 1}

    def test_so_often_and_no_more(self):
        replies = Replies(shed(), shed(), shed(), GOOD)
        with pytest.raises(ApiError, match="overload"):
            Client("http://service", transport=replies).model()
        assert len(replies.asked) == 3

    @pytest.mark.parametrize("first", [shed(422), shed(404), shed(500)])
    def test_what_will_not_change_is_not_asked_again(self, first):
        replies = Replies(first, GOOD)
        with pytest.raises(ApiError):
            Client("http://service", transport=replies).recommend(user_id="1")
        assert len(replies.asked) == 1

    def test_writes_are_sent_once(self):
        for call in (Client.reload, Client.rollback):
            replies = Replies(shed(), GOOD)
            with pytest.raises(ApiError):
                call(Client("http://service", transport=replies))
            assert len(replies.asked) == 1

    def test_no_attempt_begins_after_the_deadline(self):
        replies = Replies(shed(seconds="2"), GOOD)
        with pytest.raises(ApiError, match="overload"):
            Client("http://service", transport=replies).recommend(user_id="1", deadline_ms=1000)
        assert len(replies.asked) == 1

    def test_each_attempt_says_what_is_left(self):
        replies = Replies(shed(), GOOD)
        Client("http://service", transport=replies).recommend(user_id="1", deadline_ms=60_000)
        first, second = (float(request.headers["x-request-deadline-ms"]) for request in replies.asked)
        assert second < first <= 48_000
        assert "deadline_ms" not in str(replies.asked[0].url)

    def test_without_a_deadline_none_is_sent(self):
        replies = Replies(GOOD)
        Client("http://service", transport=replies, priority="batch").recommend(user_id="1")
        assert "x-request-deadline-ms" not in replies.asked[0].headers
        assert replies.asked[0].headers["x-priority"] == "batch"

    def test_a_proxy_that_answers_in_its_own_words(self):
        with pytest.raises(ApiError, match="HTTP 418"):
            Client("http://service", transport=Replies(httpx.Response(418, text="teapot"))).model()


def test_query_strings():
    assert query({"user_id": "a&b", "exclude": ["x,y", "z"], "exclude_seen": False}) == (
        "?user_id=a%26b&exclude=x%2Cy,z&exclude_seen=false"
    )
    assert query({}) == ""


def test_the_types_are_those_of_the_document():
    made = subprocess.run(
        [sys.executable, "-m", "clients.python_types"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert made.stdout == (PYTHON / "budgetrec_client" / "types.py").read_text(), "run `make client`"


def test_a_parameter_more_in_the_document_is_one_more_in_the_types():
    document = {
        "paths": {"/similar": {"get": {"parameters": [
            {"name": "by", "in": "query", "required": False, "schema": {"type": "string", "enum": ["cosine", "dot"]}}
        ]}}},
        "components": {"schemas": {}},
    }  # fmt: skip
    assert 'by: NotRequired[Literal["cosine", "dot"]]' in python_types.text(document)


def test_what_the_readme_shows_works(model, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), flags=re.DOTALL)
    assert len(blocks) == 2
    with server(model.path, tmp_path / "log") as service:
        for block in blocks:
            code = block.replace("http://127.0.0.1:8000", service.address)
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=PYTHON, capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, done.stderr
            assert "]" in done.stdout
