"""The documentation site: builds without a warning, leaves nothing out, asks no other host, and its code works."""

import functools
import os
import re
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import typer.main
import yaml
from playwright.sync_api import expect

from greedy_core import Bundle, VersionsFolder
from service import demo as shop
from service.cli import app
from service.http.schemas import Receipt, Recommendation
from service.settings import Settings
from service.telemetry.families import LAYOUT
from tests.service.conftest import write_numbered_model
from tests.service.http.browser import chromium, visit
from tests.service.running import server

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "pages").rglob("*.md"))
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "PYTHONPATH": f"{ROOT}:{ROOT / 'clients' / 'python'}",
    "NO_MKDOCS_2_WARNING": "1",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=DOCS, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_reference_leaves_nothing_out(site):
    def page(name):
        return (site / "reference" / f"{name}.html").read_text()

    assert [name for name in Settings.model_fields if f"BUDGETREC_{name.upper()}<" not in page("settings")] == []
    assert [family.name for family in LAYOUT.families if f"{family.name}<" not in page("metrics")] == []
    commands = {}
    for name, command in typer.main.get_command(app).commands.items():
        parts = getattr(command, "commands", None)
        commands |= {name: command} if parts is None else {f"{name} {part}": inner for part, inner in parts.items()}
    assert "cluster serve" in commands
    assert [name for name in commands if f"budgetrec {name}<" not in page("commands")] == []
    options = [option for command in commands.values() for p in command.params for option in p.opts if "--" in option]
    assert [option for option in options if option != "--help" and option not in page("commands")] == []
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "alerts.yml").read_text())
    names = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    assert [name for name in names if f"{name}<" not in page("alerts")] == []
    for call in ("GET /recommend", "POST /recommend/batch", "GET /similar", "POST /admin/reload"):
        assert f"{call}<" in page("calls")
    answered = {*Receipt.model_fields, *Recommendation.model_fields, "items[].score", "results[].spent"}
    assert [name for name in answered if f">{name}<" not in page("calls")] == []


def test_no_page_asks_another_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]+src="([^"]+)"', text)
        loaded += re.findall(r'<link[^>]+rel="(?:stylesheet|icon|preload|preconnect)"[^>]+href="([^"]+)"', text)
        assert [address for address in loaded if address.startswith(("http", "//"))] == [], page.name


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What `make serve` serves: the pages say what to ask it."""
    folder = tmp_path_factory.mktemp("demo")
    shop.make(folder / "demo")
    with server(folder / "demo", folder / "log", scenarios=shop.SCENARIOS) as running:
        yield running


def blocks(language):
    return [
        pytest.param(code, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, code in enumerate(re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL), 1)
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_python_on_the_pages_works(demo, code, tmp_path):
    code = code.replace("http://127.0.0.1:8000", demo.address)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_on_the_pages_work(demo, code):
    if code.startswith("make serve"):
        assert re.search(r"^serve:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
        return
    done = subprocess.run(
        ["bash", "-euc", code.replace("http://127.0.0.1:8000", demo.address)],
        env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"spent"' in done.stdout


def test_shards_are_made_as_the_guide_says(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "items.npy", rng.normal(size=(400, 8)).astype(np.float32))
    np.save(tmp_path / "users.npy", rng.normal(size=(60, 8)).astype(np.float32))
    (step,) = blocks("sh shards")
    done = subprocess.run(
        ["bash", "-euc", *step.values],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(Bundle.open(VersionsFolder(tmp_path / "sharded").current()).shards) == 4
    assert "shards" in done.stdout


def test_the_cluster_is_started_by_what_is_there():
    (step,) = blocks("sh cluster")
    (code,) = step.values
    named = re.findall(r"deploy/\S+\.yaml", code)
    assert len(named) == 2
    assert [name for name in named if not (ROOT / name).is_file()] == []
    options = typer.main.get_command(app).commands["cluster"].commands["serve"].params
    assert set(re.findall(r"--[a-z-]+", code)) <= {name for each in options for name in each.opts}


def test_the_tutorial_works_from_beginning_to_end(tmp_path):
    text = (DOCS / "pages" / "tutorial.md").read_text()
    steps = re.findall(r"```sh tutorial\n(.*?)```", text, flags=re.DOTALL)
    assert len(steps) == 3
    for step in steps:
        done = subprocess.run(
            ["bash", "-euc", step],
            cwd=tmp_path, env=ENVIRONMENT | {"OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    assert "No. " in done.stdout, "titles come from items.csv"


@pytest.fixture
def pages(tmp_path):
    """A web server of the shop's own, with a folder for its pages."""
    folder = tmp_path / "shop"
    folder.mkdir()
    handler = functools.partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.needs("chromium")
def test_the_row_of_the_tutorial_fills_itself_in_a_browser(tmp_path, pages):
    folder, origin = pages
    text = (DOCS / "pages" / "tutorial.md").read_text()
    (row,) = re.findall(r"```html\n(.*?)```", text, flags=re.DOTALL)
    (key,) = re.findall(r'BUDGETREC_BROWSE_KEYS="(.*)"', text)
    write_numbered_model(tmp_path / "model")
    with (
        server(
            tmp_path / "model", tmp_path / "log", browse_keys=key.replace("https://shop.example", origin)
        ) as service,
        chromium() as browser,
    ):
        page = row.replace("https://recommend.shop.example", service.address)
        assert page != row
        (folder / "index.html").write_text(f'<!doctype html><link rel="icon" href="data:,">{page}')
        with visit(browser, origin, "/") as visited:
            expect(visited.page.locator("#for-you li")).to_have_count(6)
            assert visited.complaints == []


def test_the_receipt_is_explained_field_by_field():
    table = "\n".join(re.findall(r"^\|.*", (DOCS / "pages" / "concepts" / "budget.md").read_text(), flags=re.MULTILINE))
    assert [
        name
        for name in {*Receipt.model_fields, *Recommendation.model_fields} - {"items", "user_id"}
        if f"`{name}`" not in table
    ] == []


def test_every_page_is_in_the_contents():
    contents = (DOCS / "mkdocs.yml").read_text()
    assert [page.name for page in PAGES if page.relative_to(DOCS / "pages").as_posix() not in contents] == []
