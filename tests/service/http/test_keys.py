"""API keys, their limits, and who may call admin."""

import pytest

from service.errors import ApiError
from service.http.key_limits import KeyLimits, usage_bytes
from service.http.keys import Keyring, is_loopback
from service.settings import Settings
from tests.service.running import in_process

KEYS = "shop:shop-secret-key,mobile:mobile-secret-key:1000"
ADMIN = "the-admin-secret"


@pytest.fixture(scope="module")
def app(model):
    with in_process(model.path, api_keys=KEYS, admin_key=ADMIN) as running:
        yield running


def test_a_key_is_needed(app):
    response = app.get("/recommend?user_id=u9")
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "missing_key"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-API-Key": "shop-secret-key"},
        {"Authorization": "Bearer shop-secret-key"},
        {"Authorization": "bearer shop-secret-key"},
    ],
)
def test_a_known_key_passes_wherever_it_is_sent(app, headers):
    assert app.get("/recommend?user_id=u9", headers=headers).status_code == 200
    assert app.post("/recommend", json={"user_id": "u9"}, headers=headers).status_code == 200
    assert app.post("/recommend/batch", json={"requests": [{"user_id": "u9"}]}, headers=headers).status_code == 200
    for url in ("/similar?item_id=i9", "/model", "/budgets"):
        assert app.get(url, headers=headers).status_code == 200


@pytest.mark.parametrize("key", ["", "shop-secret-ke", "shop-secret-key2", "shop", ADMIN])
def test_any_other_key_does_not(app, key):
    for url in ("/recommend?user_id=u9", "/similar?item_id=i9", "/model", "/budgets"):
        response = app.get(url, headers={"X-API-Key": key})
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "unknown_key"


def test_health_metrics_and_docs_need_none(app):
    for url in ("/health/live", "/health/ready", "/metrics", "/openapi.json", "/docs"):
        assert app.get(url).status_code == 200


def test_a_key_has_its_products_per_second(app):
    headers = {"X-API-Key": "mobile-secret-key"}
    statuses = [app.get("/recommend?user_id=u9&budget=500", headers=headers).status_code for _ in range(4)]
    assert statuses[0] == 200
    assert 429 in statuses
    refused = app.get("/recommend?user_id=u9&budget=500", headers=headers)
    assert refused.json()["error"]["code"] == "key_limit"
    assert int(refused.headers["retry-after"]) >= 1
    # Others are not touched.
    assert app.get("/recommend?user_id=u9", headers={"X-API-Key": "shop-secret-key"}).status_code == 200


class TestAdmin:
    def test_with_the_admin_key_only(self, app):
        assert app.post("/admin/reload").status_code == 401
        assert app.post("/admin/reload", headers={"X-API-Key": "shop-secret-key"}).status_code == 403
        assert app.post("/admin/reload", headers={"X-API-Key": ADMIN}).status_code == 200

    @pytest.mark.parametrize("client", ["127.0.0.1", "::1", "127.3.2.1", "::ffff:127.0.0.1"])
    def test_without_keys_from_this_machine(self, model, client):
        with in_process(model.path, client=client) as app:
            assert app.post("/admin/reload").status_code == 200

    @pytest.mark.parametrize("client", ["10.0.0.7", "192.168.1.4", "::ffff:10.0.0.7", "not-an-address"])
    def test_without_keys_from_nowhere_else(self, model, client):
        with in_process(model.path, client=client) as app:
            for url in ("/admin/reload", "/admin/rollback"):
                response = app.post(url)
                assert response.status_code == 403
                assert response.json()["error"]["code"] == "admin_only"

    def test_a_proxy_on_this_machine_is_not_this_machine(self, model):
        with in_process(model.path) as app:
            assert app.post("/admin/reload", headers={"X-Forwarded-For": "10.0.0.7"}).status_code == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Host": "shop.example"},
            {"Host": "127.0.0.1.evil.example"},
            {"Origin": "http://127.0.0.1:8000"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            {"Via": "1.1 proxy"},
            {"Forwarded": "for=10.0.0.7"},
            {"X-Forwarded-Host": "shop.example"},
        ],
    )
    def test_a_page_in_a_browser_on_this_machine_is_not_the_operator(self, model, headers):
        with in_process(model.path) as app:
            for url in ("/admin/reload", "/admin/rollback"):
                response = app.post(url, headers=headers)
                assert response.status_code == 403
                assert response.json()["error"]["code"] == "admin_only"

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:8000", "[::1]:8000", "[::1]"])
    def test_by_any_name_of_this_machine(self, model, host):
        with in_process(model.path) as app:
            assert app.post("/admin/reload", headers={"Host": host}).status_code == 200

    def test_with_keys_but_no_admin_key_not_at_all(self, model):
        with in_process(model.path, api_keys=KEYS) as app:
            assert app.post("/admin/reload", headers={"X-API-Key": "shop-secret-key"}).status_code == 403


@pytest.fixture
def memory(tmp_path):
    with (tmp_path / "usage").open("w+b") as file:
        file.truncate(usage_bytes(4, 1))
        yield file.fileno()


class TestLimits:
    def test_a_burst_then_the_rate(self, memory):
        (limit,) = KeyLimits(memory, [1000]).by_key
        limit.take(250, 10.0)
        with pytest.raises(ApiError):
            limit.take(1, 10.0)
        limit.take(1, 10.1)

    def test_a_large_request_overdraws_once(self, memory):
        (limit,) = KeyLimits(memory, [100]).by_key
        limit.take(1025, 10.0)
        with pytest.raises(ApiError) as refused:
            limit.take(1, 12.0)
        assert refused.value.retry_after == pytest.approx(8.01)
        limit.take(1, 20.1)

    def test_what_was_not_spent_comes_back(self, memory):
        (limit,) = KeyLimits(memory, [400]).by_key
        limit.take(100, 10.0)
        limit.give_back(60)
        limit.take(60, 10.0)
        with pytest.raises(ApiError):
            limit.take(1, 10.0)

    def test_all_workers_together_keep_to_it(self, memory):
        workers = [KeyLimits(memory, [1000], slots=4, slot=slot).by_key[0] for slot in range(4)]
        granted = 0
        for step in range(4000):
            try:
                workers[step % 4].take(7, 10.0 + step / 400)
                granted += 7
            except ApiError:
                pass
        # Ten seconds at 1,000 products, and what was saved up at the beginning.
        assert granted == pytest.approx(10_250, rel=0.01)

    def test_one_worker_may_have_all_of_it(self, memory):
        workers = [KeyLimits(memory, [1000], slots=4, slot=slot).by_key[0] for slot in range(4)]
        granted = 0
        for step in range(4000):
            now = 10.0 + step / 400
            for idle in workers[1:]:
                idle.refill(now)
            try:
                workers[0].take(7, now)
                granted += 7
            except ApiError:
                pass
        assert granted == pytest.approx(10_250, rel=0.01)


def test_a_batch_is_paid_for_as_a_whole(model):
    asks = {"requests": [{"user_id": "u9", "budget": 256}] * 10}
    with in_process(model.path, api_keys="mobile:mobile-secret-key:100000") as app:
        headers = {"X-API-Key": "mobile-secret-key"}
        answers = [app.post("/recommend/batch", json=asks, headers=headers) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 200]
    with in_process(model.path, api_keys="mobile:mobile-secret-key:1") as app:
        assert app.post("/recommend/batch", json=asks, headers=headers).status_code == 200
        refused = app.post("/recommend/batch", json=asks, headers=headers)
        assert refused.status_code == 429
        # 2,560 products at one a second, of which one was there.
        assert 2500 < int(refused.headers["retry-after"]) <= 2561


def test_what_a_failed_batch_was_granted_is_given_back(model):
    with in_process(model.path, api_keys="mobile:mobile-secret-key:1") as app:
        headers = {"X-API-Key": "mobile-secret-key"}
        good = {"vector": [1.0] * 16, "budget": 256}
        bad = {"vector": [1e30] * 16, "budget": 256}
        assert app.post("/recommend/batch", json={"requests": [good, bad]}, headers=headers).status_code == 422
        assert app.post("/recommend/batch", json={"requests": [good]}, headers=headers).status_code == 200


def test_what_a_failed_question_was_granted_is_given_back(model):
    with in_process(model.path, api_keys="mobile:mobile-secret-key:1") as app:
        headers = {"X-API-Key": "mobile-secret-key"}
        for _ in range(3):
            bad = {"vector": [1e30] * 16, "budget": 256}
            assert app.post("/recommend", json=bad, headers=headers).status_code == 422
        assert app.get("/recommend?user_id=u9&budget=16", headers=headers).status_code == 200


def test_the_admin_key_from_a_file(model, tmp_path):
    (tmp_path / "admin").write_text("from-a-file-secret\n")
    with in_process(model.path, admin_key_file=tmp_path / "admin") as app:
        assert app.post("/admin/reload").status_code == 401
        assert app.post("/admin/reload", headers={"X-API-Key": "from-a-file-secret"}).status_code == 200


def test_a_limit_for_keys_that_name_none():
    keys = "shop:shop-secret-key,mobile:mobile-secret-key:7"
    ring = Keyring.from_settings(Settings(api_keys=keys, key_products_per_second=500))
    assert [key.rate for key in ring.keys] == [500, 7]


def test_keys_from_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# the shop\nshop:shop-secret-key\n\n  mobile:mobile-secret-key:500 \n")
    ring = Keyring.from_settings(Settings(api_keys_file=path, workers=5))
    assert [key.name for key in ring.keys] == ["shop", "mobile"]
    assert [key.rate for key in ring.keys] == [0, 500]
    assert ring.identify(b"mobile-secret-key").name == "mobile"


@pytest.mark.parametrize("entry", ["shop:short", "shop:long-enough-key:fast", "shop:long-enough-key:-5"])
def test_bad_entries_are_named_without_the_key(entry):
    with pytest.raises(ValueError, match="shop") as refused:
        Keyring.from_settings(Settings(api_keys=entry))
    assert "long-enough-key" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=str(tmp_path / "none")):
        Settings(api_keys_file=tmp_path / "none")


def test_loopback():
    assert is_loopback("127.0.0.1")
    assert not is_loopback(None)
    assert not is_loopback("8.8.8.8")
    assert not is_loopback("")
