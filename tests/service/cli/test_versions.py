"""Versions in a folder: promote, roll back, inspect, verify, prune."""

import json

import pytest

from greedy_core import GreedyIndex, write_bundle
from tests.service.cli.conftest import ITEMS
from tests.service.conftest import CALIBRATION


class TestVersions:
    def test_inspect_a_folder(self, ok, models):
        models.promote("v1")
        models.promote("v2")
        out = ok("inspect", "models")
        rows = {line.split()[0]: line.split() for line in out.splitlines()[1:]}
        assert rows["v1"][1] == "previous"
        assert rows["v2"][1:7] == ["current", "60", "9", "8", "axes", "threshold"]
        answer = json.loads(ok("inspect", "--json"))
        assert (answer["current"], answer["previous"]) == ("v2", "v1")
        assert [version["version"] for version in answer["versions"]] == ["v1", "v2"]

    def test_inspect_names_the_trouble_of_a_version(self, ok, models):
        (models.path / "v1" / "popular.npy").unlink()
        assert "popular.npy is missing" in ok("inspect")

    def test_inspect_an_empty_folder(self, ok, tmp_path):
        (tmp_path / "models").mkdir()
        assert "budgetrec build" in ok("inspect")

    def test_inspect_a_bundle(self, ok, models):
        out = ok("inspect", models.path / "v1")
        assert "60 x 8" in out
        assert "axes, screening by threshold, for budgets up to 20" in out
        assert "index.rows" in out
        assert "no calibration" in out
        answer = json.loads(ok("inspect", models.path / "v1", "--json"))
        assert (answer["version"], answer["directions"], answer["screening"]) == ("v1", "axes", "threshold")
        assert answer["files"]["users.vectors"]["shape"] == [9, 8]

    def test_inspect_prints_a_calibration(self, ok, tmp_path):
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS), calibration=CALIBRATION)
        out = ok("inspect", "m")
        assert ["1,024", "0.9900", "±", "0.0100", "0.990", "204.8", "threshold"] in [
            line.split() for line in out.splitlines()
        ]
        assert "measured on 500 held-out users, screening by threshold" in out

    def test_verify(self, ok, fails, models):
        models.promote("v1")
        assert "is sound" in ok("verify")
        assert "is sound" in ok("verify", "models/v2")
        rows = models.path / "v1" / "index.rows.npy"
        content = bytearray(rows.read_bytes())
        content[-1] ^= 1
        rows.write_bytes(content)
        assert "index.rows.npy was altered" in fails(1, "verify")

    def test_promote_and_rollback(self, ok, models):
        assert "v1 is the current version" in ok("promote", "v1")
        assert "before: v1" in ok("promote", "v2")
        assert "as before" in ok("promote", "v2")
        assert "v1 is the current version" in ok("rollback")
        assert models.current_version() == "v1"

    def test_promote_compares_checksums_unless_told_not_to(self, ok, fails, models):
        titles = models.path / "v1" / "popular.npy"
        content = bytearray(titles.read_bytes())
        content[-4:], content[-8:-4] = content[-8:-4], content[-4:]
        titles.write_bytes(content)
        assert "popular.npy was altered" in fails(1, "promote", "v1")
        assert models.current_version() is None
        ok("promote", "v1", "--no-verify")
        assert models.current_version() == "v1"

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["promote", "v3"], "no version v3; choose one of: v1, v2"),
            (["promote", "../v1"], "no name of a version"),
            (["rollback"], "no previous version"),
            (["verify", "nowhere"], "nowhere does not exist"),
            (["inspect", "nowhere"], "nowhere does not exist"),
            (["query", "nowhere", "--user", "1"], "nowhere does not exist"),
            (["query", "--user", "1"], "no current version; run: budgetrec promote VERSION --models models"),
            (["verify"], "no current version"),
        ],
    )
    def test_what_cannot_be_done_is_status_1_and_one_line(self, fails, models, arguments, words):
        assert words in fails(1, *arguments)
