"""Tests with real parts. Where a part is missing they say so at the end, and fail if CI=true."""

from __future__ import annotations

import os
import shutil

import pytest

from loadtests.http.fleet import Fleet, find_command
from loadtests.http.models import make_models

_UNAVAILABLE = "did not run, the command is missing: "
_HELP = "As root on Debian, deploy/install-packages.sh installs nginx and Prometheus; kubectl comes from kubernetes.io."


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*commands): the commands without which a test cannot run")


def pytest_runtest_setup(item):
    wanted = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = sorted({name for name in wanted if find_command(name) is None})
    if not missing:
        return
    reason = _UNAVAILABLE + ", ".join(missing)
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}. CI runs every test. {_HELP}", pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter):
    absent = [report for report in terminalreporter.stats.get("skipped", []) if _UNAVAILABLE in str(report.longrepr)]
    if not absent:
        return
    terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
    for report in absent:
        terminalreporter.line(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
    terminalreporter.line(_HELP)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """Three replicas with models folders of their own, so that a swap can roll; the monitor looks at every request."""
    directory = tmp_path_factory.mktemp("fleet")
    source = make_models(directory / "models")
    folders = [directory / f"models-{i}" for i in range(3)]
    for folder in folders:
        shutil.copytree(source, folder, symlinks=True)
    env = {"BUDGETREC_MONITOR_SHARE": "1", "BUDGETREC_MONITOR_CPU": "0.2"}
    with Fleet(directory, folders, env=env, with_prometheus=True) as fleet:
        yield fleet
