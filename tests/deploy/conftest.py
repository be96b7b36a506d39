"""Real fleets for the tests."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest

from loadtests.http.fleet import Fleet
from loadtests.http.models import make_models

# What runs for the tests of this folder. Pytest's scope of a package is that of the whole session where there are none.
_running = ExitStack()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """End what runs with the folder's last test, so that the others have the machine."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _running.close()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """Three replicas with models folders of their own, so that a swap can roll; the monitor looks at every request."""
    directory = tmp_path_factory.mktemp("fleet")
    source = make_models(directory / "models", n_items=5000)
    folders = [directory / f"models-{i}" for i in range(3)]
    for folder in folders:
        shutil.copytree(source, folder, symlinks=True)
    env = {"BUDGETREC_MONITOR_SHARE": "1", "BUDGETREC_MONITOR_CPU": "0.2"}
    return _running.enter_context(Fleet(directory, folders, env=env, with_prometheus=True))
