"""`budgetrec build --shards`, `shard`, and what the other commands make of a bundle in shards."""

import json

import numpy as np
import pytest

from greedy_core import Bundle, VersionsFolder
from service.cli import run


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(3)
    np.save(tmp_path / "items.npy", rng.standard_normal((300, 8)).astype(np.float32))
    np.save(tmp_path / "users.npy", rng.standard_normal((80, 8)).astype(np.float32))
    return tmp_path


@pytest.fixture
def built(files):
    vectors = ["--items", str(files / "items.npy"), "--users", str(files / "users.npy")]
    arguments = [*vectors, "--directions", "principal", "--max-budget", "64", "--no-similar"]
    assert run(["build", *arguments, "--shards", "3", "--models", str(files / "models"), "--version", "v1"]) == 0
    assert run(["build", *arguments, "--output", str(files / "whole")]) == 0
    return files


def test_a_bundle_in_shards_is_a_version_like_any_other(built, capsys):
    models = built / "models"
    capsys.readouterr()
    assert run(["promote", "v1", "--models", str(models)]) == 0
    assert run(["verify", str(models)]) == 0
    assert "in 3 shards" in capsys.readouterr().out
    assert run(["inspect", str(models), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["versions"][0]["shards"] == "3"
    assert run(["inspect", str(models / "v1"), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert [shard["n_items"] for shard in described["shards"]] == [100, 100, 100]
    assert described["bytes"] == Bundle.open(models / "v1").bytes
    assert run(["inspect", str(models / "v1")]) == 0
    assert "shard-0002" in capsys.readouterr().out


def test_it_is_asked_like_any_other(built, capsys):
    capsys.readouterr()
    answers = []
    for place in (built / "models" / "v1", built / "whole"):
        assert run(["query", str(place), "--user", "5", "--budget", "300", "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0]["items"] == answers[1]["items"]
    assert answers[0]["complete"] is answers[1]["complete"] is True


def test_a_bundle_is_split(built, capsys):
    arguments = ["shard", str(built / "whole"), "--shards", "4", "--models", str(built / "models"), "--version", "v2"]
    assert run([*arguments, "--promote"]) == 0
    assert VersionsFolder(built / "models").current_version() == "v2"
    made = Bundle.open(built / "models" / "v2")
    made.verify()
    assert (len(made.shards), made.version) == (4, "v2")
    assert run(["shard", str(built / "models"), "--shards", "2", "--output", str(built / "again")]) == 1
    assert "has 4 shards already" in capsys.readouterr().err


def test_more_shards_than_items_are_refused(built, capsys):
    assert run(["shard", str(built / "whole"), "--shards", "301", "--output", str(built / "many")]) == 1
    assert "can be dealt to 1 to 300 shards" in capsys.readouterr().err
    assert not (built / "many").exists()
