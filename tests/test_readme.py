"""The README is true: every command in it is executed, in order, in an empty folder."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from greedy_core import Bundle, VersionsFolder
from tests.service.conftest import write_numbered_model

ROOT = Path(__file__).resolve().parents[1]
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


def shell(index):
    return [code for language, code in BLOCKS if language == "sh"][index]


def run(code, folder, **variables):
    command = ["bash", "-euo", "pipefail", "-c", code]
    done = subprocess.run(
        command, cwd=folder, env={**ENVIRONMENT, **variables}, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_every_block_is_known_here():
    assert [language for language, _ in BLOCKS] == [
        "sh",
        "sh",
        "json",
        "sh",
        "sh",
        "sh",
        "sh",
        "sh",
        "python",
        "sh",
        "sh",
    ]


def test_the_two_commands_come_first():
    lines = [line.split("#")[0].strip() for line in shell(0).splitlines()]
    assert lines == ["make serve", "make test"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """`make serve` as the README has it, on a free port, its models in a folder of the test's own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("models")
    variables = {**ENVIRONMENT, "BUDGETREC_PORT": str(port), "BUDGETREC_MODELS": str(folder), "MAKEFLAGS": ""}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            ["make", "serve"], cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        with httpx.Client(transport=httpx.HTTPTransport(retries=100)) as client:
            for _ in range(600):
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    ready = client.get(f"http://127.0.0.1:{port}/health/ready", timeout=1).status_code == 200
                except httpx.HTTPError:
                    ready = False
                if ready:
                    break
        assert ready, (folder / "log").read_text()
        yield port
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def test_the_first_curl_works_as_printed(served, tmp_path):
    command = shell(1)
    assert "127.0.0.1:8000" in command
    answer = json.loads(run(command.replace(":8000", f":{served}"), tmp_path))
    example = json.loads(next(code for language, code in BLOCKS if language == "json"))
    assert list(answer) == list(example)
    assert list(answer["items"][0]) == list(example["items"][0])
    assert len(answer["items"]) == 3
    assert {item["item_id"].split("-")[0] for item in answer["items"]} <= {"jazz", "cooking"}
    assert answer["spent"] <= answer["budget"] == 256


def test_filters_work_as_printed(served, tmp_path):
    answer = json.loads(run(shell(5).replace(":8000", f":{served}"), tmp_path))
    assert all(item["fields"]["price"] < 20 for item in answer["items"])
    assert {item["item_id"].split("-")[0] for item in answer["items"]} == {"jazz"}


def test_scenarios_and_rules_work_as_printed(served, tmp_path):
    home, ruled = map(
        json.loads, run(shell(6).replace(":8000", f":{served}").replace("\n", "; echo\n"), tmp_path).split("\n")[:2]
    )
    assert (home["scenario"], len(home["items"])) == ("home", 10)
    assert set(home["rules"]) == {"boost", "at_most", "diversity"}
    assert home["spent"] <= home["budget"] == 1024
    assert (ruled["offset"], set(ruled["rules"])) == (10, {"boost", "at_most", "diversity", "pin"})


def test_the_extra_for_training_is_there():
    name = re.fullmatch(r"pip install '\.\[(\w+)\]'\n", shell(2))[1]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(library.startswith("implicit") for library in extras[name])


def test_from_a_csv_to_a_promoted_model_to_a_first_answer_in_four_commands(tmp_path):
    tutorial = shell(3)
    assert len(re.findall(r"^(?:python|budgetrec) ", tutorial, flags=re.MULTILINE)) == 4
    output = run(tutorial, tmp_path)
    for words in ("On real behaviour", "share kept", "recall@10 against exact search", "is now the current version"):
        assert words in output
    # User 7 loves gardens.
    answer = output[output.index("item_id ") :]
    assert answer.count("gardens-") == 3
    quality = Bundle.open(next((tmp_path / "my-models").glob("2*"))).quality
    assert quality.exact.ndcg_at_10 > 1.5 * quality.popular.ndcg_at_10
    assert (tmp_path / "recs.parquet").stat().st_size > 0


def test_your_own_vectors(tmp_path):
    output = run(shell(4), tmp_path)
    assert "recall" in output
    assert (tmp_path / "my-model" / "model.json").exists()


def test_the_settings_are_printed(tmp_path):
    assert "default_budget" in run(shell(7), tmp_path)


def test_the_library_example(tmp_path):
    code = next(code for language, code in BLOCKS if language == "python")
    (tmp_path / "example.py").write_text(code)
    assert "256 False" in run("python example.py", tmp_path)


def test_a_bundle_is_split_as_the_readme_says(tmp_path):
    """What the block goes on with runs on Ray: tests/cluster does that, with the same commands."""
    write_numbered_model(tmp_path / "models" / "v1")
    VersionsFolder(tmp_path / "models").promote("v1")
    split, serve, recommend = shell(-1).splitlines()
    run(split, tmp_path)
    sharded = VersionsFolder(tmp_path / "sharded").current()
    assert len(Bundle.open(sharded).shards) == 4
    assert serve.startswith("budgetrec cluster serve --models sharded ")
    assert recommend.endswith(" --ray")
