"""Keys that may stand in a web page: what they may ask, from where, and how much; in a real browser, too."""

import pytest

from service.http.keys import Keyring
from service.settings import Settings
from tests.service.http.browser import chromium, visit
from tests.service.running import in_process, server

SHOP, WWW, OTHER = "https://shop.example", "https://www.shop.example:8443", "https://other.example"
BROWSE = f"page:page-public-key:2000:{SHOP} {WWW},app:app-public-key:1e9:{OTHER}"
PAGE = {"X-API-Key": "page-public-key"}
SERVER = {"X-API-Key": "shop-secret-key"}


@pytest.fixture(scope="module")
def shop(model):
    settings = {"browse_keys": BROWSE, "api_keys": "shop:shop-secret-key", "admin_key": "the-admin-secret"}
    with in_process(model.path, **settings) as running:
        yield running


@pytest.mark.parametrize("origin", [SHOP, WWW, None])
def test_it_asks_for_recommendations_and_similar_items(shop, origin):
    headers = {"X-API-Key": "app-public-key"} if origin is None else PAGE | {"Origin": origin}
    answers = [
        shop.get("/recommend?user_id=u9&budget=8", headers=headers),
        shop.post("/recommend", json={"user_id": "u9", "budget": 8}, headers=headers),
        shop.get("/similar?item_id=i9&budget=8", headers=headers),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.headers.get("access-control-allow-origin") for answer in answers] == [origin] * 3
    assert all("Origin" in answer.headers["vary"] for answer in answers)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/recommend/batch"),
        ("GET", "/model"),
        ("GET", "/budgets"),
        ("GET", "/items"),
        ("GET", "/users"),
        ("POST", "/admin/reload"),
    ],
)
def test_and_for_nothing_else(shop, method, path):
    answer = shop.request(method, path, headers=PAGE | {"Origin": SHOP})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == ("admin_only" if "admin" in path else "key_role")
    assert "access-control-allow-origin" not in answer.headers
    preflight = shop.request("OPTIONS", path, headers={"Origin": SHOP, "Access-Control-Request-Method": method})
    assert preflight.status_code == 401
    assert "access-control-allow-origin" not in preflight.headers


@pytest.mark.parametrize(
    "origin", [OTHER, "https://evil.example", "null", "http://shop.example", SHOP + ".evil.example"]
)
def test_pages_of_other_origins_cannot_use_it(shop, origin):
    answer = shop.get("/recommend?user_id=u9", headers=PAGE | {"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "key_origin"


def test_a_key_of_a_server_does_not_work_in_a_page(shop):
    answer = shop.get("/recommend?user_id=u9", headers=SERVER | {"Origin": SHOP})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "key_origin")
    assert shop.get("/recommend?user_id=u9", headers=SERVER).status_code == 200


def test_unless_its_origin_may_call_everything(model):
    settings = {"browse_keys": BROWSE, "api_keys": "shop:shop-secret-key", "cors_origins": SHOP}
    with in_process(model.path, **settings) as app:
        for path in ("/recommend?user_id=u9", "/model"):
            answer = app.get(path, headers=SERVER | {"Origin": SHOP})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == SHOP


@pytest.mark.parametrize("path", ["/recommend", "/similar"])
def test_a_preflight_is_answered_to_the_origins_of_all_keys(shop, path):
    asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "x-api-key,x-request-deadline-ms"}
    for origin in (SHOP, WWW, OTHER):
        preflight = shop.request("OPTIONS", path, headers=asks | {"Origin": origin})
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        assert int(preflight.headers["access-control-max-age"]) > 0
    stranger = shop.request("OPTIONS", path, headers=asks | {"Origin": "https://evil.example"})
    assert stranger.status_code == 400
    assert "access-control-allow-origin" not in stranger.headers


def test_a_page_can_read_why_it_was_refused(shop):
    answer = shop.get("/recommend?user_id=u9", headers={"Origin": SHOP})
    assert answer.status_code == 401
    assert answer.headers["access-control-allow-origin"] == SHOP
    assert "X-Error-Code" in answer.headers["access-control-expose-headers"]


def test_it_has_a_limit_of_its_own(model):
    with in_process(
        model.path, browse_keys=f"page:page-public-key:1000:{SHOP}", api_keys="shop:shop-secret-key"
    ) as app:
        statuses = [app.get("/recommend?user_id=u9&budget=500", headers=PAGE).status_code for _ in range(4)]
        assert statuses[0] == 200
        assert 429 in statuses
        assert app.get("/recommend?user_id=u9", headers=SERVER).status_code == 200


def test_browse_keys_alone_close_everything_else(model):
    with in_process(model.path, browse_keys=BROWSE) as app:
        assert app.get("/recommend?user_id=u9").status_code == 401
        assert app.get("/model").status_code == 401


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("page:page-public-key", "needs a limit"),
        ("page:page-public-key:0:https://shop.example", "needs a limit"),
        ("page:page-public-key:nan:https://shop.example", "needs a limit"),
        ("page:page-public-key:100", "names no origin"),
        ("page:page-public-key:100:*", "which is none"),
        ("page:page-public-key:100:shop.example", "which is none"),
        ("page:page-public-key:100:https://shop.example/page", "which is none"),
        ("page:short:100:https://shop.example", "shorter than 8"),
    ],
)
def test_bad_entries_stop_the_start(entry, fault):
    with pytest.raises(ValueError, match=fault) as refused:
        Settings(browse_keys=entry)
    assert "page-public-key" not in str(refused.value)


def test_from_a_file(tmp_path):
    (tmp_path / "keys").write_text(f"# the shop\npage:page-public-key:2000:{SHOP} {WWW}\n")
    (key,) = Keyring.from_settings(Settings(browse_keys_file=tmp_path / "keys")).keys
    assert (key.name, key.rate, key.origins) == ("page", 2000, {SHOP.encode(), WWW.encode()})


@pytest.mark.needs("chromium")
def test_in_a_real_browser(model, tmp_path):
    """A page of one origin asks a service of another one, with preflight; a page that has no leave does not."""
    ask = """async ([address, key]) => {
        try {
            const answer = await fetch(`${address}/recommend?user_id=u9&budget=8`, {headers: {"X-API-Key": key}});
            return [answer.status, (await answer.json()).spent ?? null];
        } catch (error) { return ["hidden", error.name]; }
    }"""
    with server(model.path, tmp_path / "pages") as pages:
        browse = f"page:page-public-key:100000:{pages.address}"
        settings = {"browse_keys": browse, "api_keys": "shop:shop-secret-key"}
        with (
            server(model.path, tmp_path / "api", **settings) as api,
            chromium() as browser,
            visit(browser, pages.address, "/health/live") as visited,
        ):
            # The policy of /docs would forbid it to ask elsewhere; /health/live has none.
            assert visited.page.evaluate(ask, [api.address, "page-public-key"]) == [200, 8]
            assert visited.page.evaluate(ask, [api.address, "shop-secret-key"]) == [403, None]
        with (
            server(model.path, tmp_path / "closed", api_keys="shop:shop-secret-key") as closed,
            chromium() as browser,
            visit(browser, pages.address, "/health/live") as visited,
        ):
            assert visited.page.evaluate(ask, [closed.address, "shop-secret-key"]) == ["hidden", "TypeError"]
