"""What all tests share. Where a real part is missing, its tests say so at the end, and fail if CI=true."""

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

# A deadline would be an assertion about wall-clock time.
settings.register_profile("budgetrec", deadline=None)
settings.load_profile("budgetrec")

_UNAVAILABLE = "did not run, missing: "
_HELP = (
    "As root on Debian, deploy/install-packages.sh installs nginx, Prometheus and Chromium; kubectl comes from "
    "kubernetes.io; Python packages are in the extras of pyproject.toml."
)


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*commands): the commands without which a test cannot run")
    config.addinivalue_line("markers", "needs_packages(*names): the Python packages without which a test cannot run")


def pytest_runtest_setup(item):
    missing = _missing_commands(item) + _missing_packages(item)
    if not missing:
        return
    reason = _UNAVAILABLE + ", ".join(missing)
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}. CI runs every test. {_HELP}", pytrace=False)
    pytest.skip(reason)


def _missing_commands(item):
    wanted = _wanted(item, "needs")
    if not wanted:
        return []
    # The core's tests run without the rest of the project, too.
    from loadtests.http.fleet import find_command  # noqa: PLC0415

    return [name for name in wanted if find_command(name) is None]


def _missing_packages(item):
    return [name for name in _wanted(item, "needs_packages") if find_spec(name) is None]


def _wanted(item, marker):
    return sorted({name for mark in item.iter_markers(marker) for name in mark.args})


def pytest_terminal_summary(terminalreporter):
    absent = [report for report in terminalreporter.stats.get("skipped", []) if _UNAVAILABLE in str(report.longrepr)]
    if not absent:
        return
    terminalreporter.section("NOT RUN", sep="!", red=True, bold=True)
    for report in absent:
        terminalreporter.line(f"{report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
    terminalreporter.line(_HELP)
