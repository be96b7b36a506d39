"""The TypeScript client: its types are those of the document, and it works in Node and in a browser."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from loadtests.http.fleet import need_command
from tests.service.http.browser import chromium, visit
from tests.service.running import server

FOLDER = Path(__file__).resolve().parents[2] / "clients" / "typescript"
# node stands beside this Python, and npm's commands ask for it by name.
ENVIRONMENT = {**os.environ, "PATH": f"{Path(need_command('node')).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}

if not (FOLDER / "node_modules" / ".bin" / "tsc").exists():
    if os.environ.get("CI") == "true":
        raise FileNotFoundError("clients/typescript has no node_modules; `make test` installs them")
    pytest.skip("clients/typescript has no node_modules; `make test` installs them", allow_module_level=True)


def run(*command):
    done = subprocess.run(
        command, cwd=FOLDER, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The client as JavaScript."""
    folder = tmp_path_factory.mktemp("typescript")
    run("node_modules/.bin/tsc", "-p", "tsconfig.json", "--outDir", str(folder))
    (folder / "package.json").write_text('{"type": "module"}')
    return folder


@pytest.fixture(scope="module")
def running(model, tmp_path_factory):
    with server(
        model.path,
        tmp_path_factory.mktemp("typescript") / "log",
        api_keys="shop:shop-secret-key",
        browse_keys="page:page-public-key:1e9:http://127.0.0.1:1",
    ) as service:
        yield service


def test_the_types_are_those_of_the_document(tmp_path):
    made = tmp_path / "schema.ts"
    run("node_modules/.bin/openapi-typescript", "../openapi.json", "--output", str(made))
    assert made.read_text() == (FOLDER / "src" / "schema.ts").read_text(), "run `make client`"


def test_the_react_example_fits_the_types():
    run("node_modules/.bin/tsc", "-p", "tsconfig.example.json")


@pytest.mark.parametrize("page", ["docs/pages/guide/clients.md", "clients/typescript/README.md"])
def test_code_on_the_pages_fits_the_types(page, tmp_path):
    blocks = re.findall(r"```ts\n(.*?)```", (FOLDER.parents[1] / page).read_text(), flags=re.DOTALL)
    assert blocks
    for number, code in enumerate(blocks):
        (tmp_path / f"block{number}.mts").write_text(f"declare const signal: AbortSignal;\n{code}")
    options = {
        "noEmit": True, "declaration": False, "rootDir": "/", "types": [],
        "paths": {"budgetrec": [str(FOLDER / "src" / "index.ts")]},
    }  # fmt: skip
    settings = {"extends": str(FOLDER / "tsconfig.json"), "compilerOptions": options, "include": ["*.mts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    run("node_modules/.bin/tsc", "-p", str(tmp_path))


def test_in_node_against_the_real_service(built, running):
    said = run("node", "test/service.mjs", str(built / "index.js"), running.address, "shop-secret-key")
    assert "all good" in said


@pytest.mark.needs("chromium")
def test_in_a_browser_against_the_real_service(built, running):
    ask = """async ([address, key]) => {
        const { Client, ApiError } = await import(address + "/client/index.js");
        const client = new Client(address, {key, deadlineMs: 5000});
        const answer = await client.recommend({user_id: "u9", budget: 32, top_k: 2});
        const refused = await client.model().catch((error) => [error instanceof ApiError, error.code]);
        return [answer.spent, answer.items.length, ...refused];
    }"""
    with chromium() as browser, visit(browser, running.address, "/health/live") as visited:
        visited.page.route(
            "**/client/*", lambda route: route.fulfill(path=built / route.request.url.rpartition("/")[2])
        )
        found = visited.page.evaluate(ask, [running.address, "page-public-key"])
        assert found == [32, 2, True, "key_role"]
