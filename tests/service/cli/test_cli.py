"""The command line: every command, every kind of input, and errors of one line."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from greedy_core import VersionsFolder
from service import cli, demo

COMMANDS = (
    "train",
    "recommend",
    "build",
    "inspect",
    "verify",
    "promote",
    "rollback",
    "serve",
    "demo",
    "query",
    "bench",
)


class TestHelp:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_help_with_an_example(self, ok, command):
        out = ok(command, "--help")
        assert "Example:" in out
        assert f"budgetrec {command}" in out

    def test_without_a_command_it_lists_them(self, ok):
        out = ok()
        assert out == ok("--help")
        for command in COMMANDS:
            assert f" {command} " in out

    def test_version(self, ok):
        assert ok("--version").startswith("budgetrec ")

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["nonsense"], "No such command 'nonsense'; see budgetrec --help."),
            (["build"], "--items"),
            (["build", "--items", "x.npy", "--nonsense"], "--nonsense"),
            (["build", "--items", "x.npy"], "either --output DIRECTORY or --models FOLDER"),
            (["build", "--items", "x.npy", "--output", "a", "--models", "b"], "either --output"),
            (["build", "--items", "x.npy", "--output", "a", "--promote"], "--promote needs --models"),
            (["build", "--items", "x.npy", "--output", "a", "--max-budget", "0"], "--max-budget"),
            (["build", "--items", "x.npy", "--output", "a", "--max-budget", "many"], "--max-budget"),
            (["build", "--items", "x.npy", "--output", "a", "--directions", "up"], "'up' is none of axes"),
            (["build", "--items", "x.npy", "--models", "a", "--version", "../b"], "no name of a version"),
            (["build", "--items", "x.npy", "--models", "a", "--version", "current"], "no name of a version"),
            (["build", "--items", "x.npy", "--output", "a", "--metadata", "owner"], "'owner' is not KEY=VALUE"),
            (["build", "--items", "x.npy", "--users", "y.npy", "--output", "a", "--plot", "b.xls"], "none of .png"),
            (["build", "--items", "x.npy", "--output", "a", "--plot", "b.png"], "needs --users"),
            (
                ["build", "--items", "x.npy", "--users", "y.npy", "--output", "a", "--plot", "b.png", "--no-calibrate"],
                "needs --users and --calibrate",
            ),
            (["query"], "one of --user, --item and --vector"),
            (["query", "--user", "1", "--item", "2"], "one of --user"),
            (["promote"], "Missing argument"),
            (["bench", "--queries", "0"], "--queries"),
            (["serve", "--port", "99999"], "--port or BUDGETREC_PORT"),
            (["serve", "--workers", "0"], "--workers or BUDGETREC_WORKERS"),
        ],
    )
    def test_a_command_that_makes_no_sense_is_status_2_and_one_line(self, fails, arguments, words):
        line = fails(2, *arguments)
        assert words in line
        assert "--help" in line


class TestServe:
    def test_print_settings(self, ok, monkeypatch):
        monkeypatch.setenv("BUDGETREC_DEFAULT_BUDGET", "128")
        monkeypatch.setenv("BUDGETREC_ADMIN_KEY", "secret")
        out = ok("serve", "--print-settings", "--port", "8123", "--models", "elsewhere")
        settings = json.loads(out)
        assert (settings["port"], settings["models"], settings["default_budget"]) == (8123, "elsewhere", 128)
        assert "secret" not in out

    def test_a_bad_environment_is_one_line(self, fails, monkeypatch):
        monkeypatch.setenv("BUDGETREC_DEFAULT_BUDGET", "many")
        assert "BUDGETREC_DEFAULT_BUDGET" in fails(2, "serve", "--print-settings")

    def test_a_port_in_use_is_one_line(self, fails, tmp_path):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            assert f"cannot listen on 127.0.0.1:{port}" in fails(1, "serve", "--port", port, "--models", tmp_path)


class TestDemo:
    def test_it_is_made_once_and_becomes_current_in_an_empty_folder(self, run, tmp_path):
        status, _, err = run("demo", "--only-make")
        assert status == 0
        assert "42 (jazz and cooking)" in err
        made = (tmp_path / "models" / "demo" / "model.json").stat()
        assert VersionsFolder(tmp_path / "models").current_version() == "demo"
        status, _, err = run("demo", "--only-make")
        assert (status, err) == (0, "")
        assert (tmp_path / "models" / "demo" / "model.json").stat() == made

    def test_it_leaves_another_current_version_alone(self, ok, models):
        models.promote("v1")
        ok("demo", "--only-make")
        assert models.current_version() == "v1"

    def test_a_damaged_demo_is_one_line(self, fails, tmp_path):
        (tmp_path / "models" / "demo").mkdir(parents=True)
        assert "holds no model.json" in fails(1, "demo", "--only-make")

    def test_it_serves_until_it_is_told_to_stop(self, tmp_path):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BUDGETREC_")}
        command = [sys.executable, "-c", "from service.cli import main; main()", "demo", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--models", str(tmp_path / "models")],
            env={**environment, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        try:
            answer = _get_when_ready(f"http://127.0.0.1:{port}", process)
            assert answer["model"] == "demo"
            assert len(answer["items"]) == 10
            assert {item["item_id"].split("-")[0] for item in answer["items"]} == set(demo.tastes(42))
        finally:
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        assert process.returncode == 0
        assert f"http://127.0.0.1:{port}/recommend?user_id=42" in err.decode()


def _get_when_ready(address, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{address}/health/ready", timeout=5).status_code == 200:
                return httpx.get(f"{address}/recommend", params={"user_id": 42, "budget": 256}).json()
        except httpx.TransportError:
            continue
    raise AssertionError(f"the demo was never ready (exit status {process.poll()})")
