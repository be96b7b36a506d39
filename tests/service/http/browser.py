"""A real Chromium that notes every request to another host and every complaint of a page."""

import contextlib
from urllib.parse import urlsplit

from playwright.sync_api import sync_playwright

from loadtests.http.fleet import need_command


class Visit:
    """One page and what it did: hosts that it wanted something from, and what its console complained about."""

    def __init__(self, page):
        self.page = page
        self.hosts = set()
        self.complaints = []
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc or "none"))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._note)

    def _note(self, message):
        if message.type == "error":
            self.complaints.append(message.text)


@contextlib.contextmanager
def chromium():
    """Start a browser; names other than this machine's lead nowhere, so that no test ever leaves it."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=need_command("chromium"),
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def visit(browser, address, path, **options):
    """Open a page of the service at `address` in a context of its own."""
    context = browser.new_context(base_url=address, **options)
    context.set_default_timeout(20_000)
    try:
        visited = Visit(context.new_page())
        visited.page.goto(path)
        yield visited
    finally:
        context.close()
