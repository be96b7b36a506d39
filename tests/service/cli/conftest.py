"""Commands, run as a shell would run them."""

import os

import numpy as np
import pytest

from greedy_core import GreedyIndex, VersionsFolder, write_bundle
from service import cli

ITEMS = np.random.default_rng(0).standard_normal((60, 8), dtype=np.float32)
USERS = np.random.default_rng(1).standard_normal((9, 8), dtype=np.float32)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command inside an empty directory; return status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("BUDGETREC_")]:
        monkeypatch.delenv(name)

    def run(*arguments):
        status = cli.run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def ok(run):
    """Run a command that works; return what it printed."""

    def ok(*arguments):
        status, out, err = run(*arguments)
        assert status == 0, err
        return out

    return ok


@pytest.fixture
def fails(run):
    """Run a command that fails; return its one line."""

    def fails(status, *arguments):
        got, out, err = run(*arguments)
        assert got == status, (out, err)
        assert err.startswith("budgetrec: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        return err

    return fails


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "items.npy", ITEMS)
    np.save(tmp_path / "users.npy", USERS)
    return tmp_path


@pytest.fixture
def models(tmp_path):
    index = GreedyIndex.build(ITEMS, max_budget=20)
    for version in ("v1", "v2"):
        write_bundle(tmp_path / "models" / version, index=index, user_vectors=USERS)
    return VersionsFolder(tmp_path / "models")
