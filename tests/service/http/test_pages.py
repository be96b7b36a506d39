"""The pages for people: whole without internet, in a real browser, and cached as they should be."""

import gzip
import re
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from service.http import pages
from tests.service.http.browser import chromium, visit
from tests.service.running import server

STATIC = Path(pages.__file__).with_name("static")
LIBRARIES = re.findall(
    r"^\| (\S+) \| \S+ \S+ \| \[\S+\]\((\S+)\) \| (\w{64}) \|$", (STATIC / "README.md").read_text(), re.MULTILINE
)


@pytest.fixture(scope="module")
def running(model, tmp_path_factory):
    with server(model.path, tmp_path_factory.mktemp("pages") / "log") as service:
        yield service


def test_libraries_are_what_was_published_and_have_their_licence():
    assert {name for name, _, _ in LIBRARIES} == {path.relative_to(STATIC).as_posix() for path in STATIC.rglob("*.gz")}
    for name, licence, digest in LIBRARIES:
        assert sha256(gzip.decompress((STATIC / name).read_bytes())).hexdigest() == digest
        assert (STATIC / licence).stat().st_size > 500


@pytest.mark.needs("chromium")
def test_both_pages_work_without_internet(running):
    own = urlsplit(running.address).netloc
    with chromium() as browser:
        with visit(browser, running.address, "/docs") as docs:
            docs.page.locator(
                "#operations-recommend-recommend_recommend_get, [id^=operations-recommend]"
            ).first.wait_for()
            docs.page.get_by_text("/recommend", exact=True).first.click()
            # Somebody to ask for stands there already.
            docs.page.get_by_role("button", name="Execute").first.click()
            docs.page.get_by_text('"unknown_user"').first.wait_for()
            docs.page.get_by_placeholder("user_id").first.fill("u9")
            docs.page.get_by_role("button", name="Execute").first.click()
            docs.page.get_by_text('"user_id": "u9"').first.wait_for()
            assert docs.hosts <= {own, "none"}
            assert docs.complaints == []
        with visit(browser, running.address, "/redoc") as redoc:
            redoc.page.get_by_role("heading", name="budgetrec").first.wait_for()
            redoc.page.get_by_text("target_recall").first.wait_for()
            assert redoc.hosts <= {own, "none"}
            assert redoc.complaints == []


@pytest.mark.needs("chromium")
def test_docs_are_dark_where_the_page_was_made_dark_or_the_machine_is(running):
    def ground(page):
        page.locator("[id^=operations-recommend]").first.wait_for()
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    with chromium() as browser:
        with visit(browser, running.address, "/docs", color_scheme="light") as docs:
            light = ground(docs.page)
        with visit(browser, running.address, "/docs", color_scheme="dark") as docs:
            assert ground(docs.page) != light
            docs.page.evaluate("localStorage.setItem('budgetrec.theme', 'light')")
            docs.page.reload()
            assert ground(docs.page) == light


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_a_page_names_only_files_of_this_service(app, path):
    page = app.get(path)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert "//" not in page.text
    named = re.findall(r'(?:src|href)="(?!data:)([^"]+)"', page.text)
    assert named
    for name in named:
        assert app.get(f"/{name}").status_code == 200


def test_files_are_sent_packed_and_not_twice(app):
    name = "/static/swagger-ui/swagger-ui-bundle.js"
    packed = app.get(name, headers={"Accept-Encoding": "br, gzip;q=0.8"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert "max-age" in packed.headers["cache-control"]
    assert int(packed.headers["content-length"]) < 500_000
    for refused in ("identity", "gzip;q=0", ""):
        plain = app.get(name, headers={"Accept-Encoding": refused})
        assert "content-encoding" not in plain.headers
        assert plain.content == packed.content
    again = app.get(name, headers={"If-None-Match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == packed.headers["etag"]


@pytest.mark.parametrize("name", ["README.md", "../pages.py", "swagger-ui/LICENSE", "nothing.js", "docs.html", ""])
def test_nothing_else_is_served(app, name):
    answer = app.get(f"/static/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"
