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
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from greedy_core import Bundle, Calibration, GreedyIndex, VersionsFolder, write_bundle
from greedy_core.fit.directions import FIXED_KINDS
from service import cli, demo
from service.cli import plots
from tests.service.conftest import CALIBRATION

ITEMS = np.random.default_rng(0).standard_normal((60, 8), dtype=np.float32)
USERS = np.random.default_rng(1).standard_normal((9, 8), dtype=np.float32)
COMMANDS = ("build", "inspect", "verify", "promote", "rollback", "serve", "demo", "query", "bench")


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


class TestBuild:
    def test_from_npy_into_a_directory(self, ok, files):
        out = ok("build", "--items", "items.npy", "--users", "users.npy", "--output", "bundle", "--max-budget", 16)
        made = Bundle.open(files / "bundle")
        made.verify()
        assert (made.n_items, made.n_users, made.version) == (60, 9, "bundle")
        assert made.index.directions in FIXED_KINDS
        assert made.index.max_budget == 16
        np.testing.assert_array_equal(made.user_vector(3), USERS[3])
        assert "60 x 8" in out
        assert f"{made.index.directions}, screening by {made.index.screening}, for budgets up to 16" in out

    @pytest.mark.parametrize("directions", FIXED_KINDS)
    def test_along_chosen_directions(self, ok, files, directions):
        ok("build", "--items", "items.npy", "--users", "users.npy", "--directions", directions, "--output", "bundle")
        assert Bundle.open(files / "bundle").index.directions == directions

    def test_into_a_models_folder_and_promoted(self, ok, files):
        ok("build", "--items", "items.npy", "--models", "models", "--version", "v1", "--promote")
        assert VersionsFolder(files / "models").current_version() == "v1"
        ok("build", "--items", "items.npy", "--models", "models", "--version", "v2")
        assert VersionsFolder(files / "models").current_version() == "v1"
        assert Bundle.open(files / "models" / "v2").version == "v2"

    def test_the_version_is_the_time_by_default(self, ok, files):
        ok("build", "--items", "items.npy", "--models", "models")
        ok("build", "--items", "items.npy", "--models", "models")
        first, second = VersionsFolder(files / "models").versions()
        assert time.strptime(first[:16], "%Y-%m-%dT%H-%M")
        assert first != second

    @pytest.mark.parametrize("source", ["model.npz:items", "items.parquet", "model.safetensors:items", "items64.npy"])
    def test_every_format_gives_the_same_model(self, ok, files, source):
        np.savez(files / "model.npz", items=ITEMS, users=USERS)
        np.save(files / "items64.npy", ITEMS.astype(">f8"))
        pq.write_table(pa.table({"vector": ITEMS.tolist()}), files / "items.parquet")
        save_file({"items": ITEMS, "users": USERS}, files / "model.safetensors")
        ok("build", "--items", source, "--output", "bundle")
        np.testing.assert_array_equal(Bundle.open(files / "bundle").index.items, ITEMS)

    @pytest.mark.parametrize("suffix", ["txt", "json", "npy", "parquet"])
    def test_ids_and_titles_from_every_format(self, ok, files, suffix):
        ids = [f"ïtem/{number}" for number in range(60)]
        titles = [f"Title {number}" if number % 2 else "" for number in range(60)]
        for name, texts in (("ids", ids), ("titles", titles)):
            match suffix:
                case "txt":
                    (files / f"{name}.txt").write_text("\n".join(texts) + "\n")
                case "json":
                    (files / f"{name}.json").write_text(json.dumps([text or None for text in texts]))
                case "npy":
                    np.save(files / f"{name}.npy", np.array(texts))
                case "parquet":
                    pq.write_table(pa.table({"text": texts, "other": texts}), files / f"{name}.parquet")
        column = ":text" if suffix == "parquet" else ""
        ids_file, titles_file = f"ids.{suffix}{column}", f"titles.{suffix}{column}"
        ok("build", "--items", "items.npy", "--item-ids", ids_file, "--titles", titles_file, "--output", "bundle")
        made = Bundle.open(files / "bundle")
        assert made.item_ids(range(60)) == ids
        assert [made.title(position) or "" for position in range(60)] == titles

    def test_ids_beside_the_vectors_in_parquet(self, ok, files):
        pq.write_table(pa.table({"item_id": range(100, 160), "v": ITEMS.tolist()}), files / "items.parquet")
        ok("build", "--items", "items.parquet", "--output", "bundle")
        assert Bundle.open(files / "bundle").item_position("159") == 59

    def test_seen_by_position(self, ok, files):
        np.savez(files / "seen.npz", user=[3, 0, 3, 3, 8], item=[7, 1, 7, 2, 59])
        ok("build", "--items", "items.npy", "--users", "users.npy", "--seen", "seen.npz", "--output", "bundle")
        made = Bundle.open(files / "bundle")
        assert made.seen_items(3).tolist() == [2, 7]
        assert made.seen_items(0).tolist() == [1]
        assert made.seen_items(1).tolist() == []
        assert made.seen_items(8).tolist() == [59]

    def test_seen_by_id_leaves_out_who_is_unknown_and_says_so(self, run, files):
        (files / "users.txt").write_text("\n".join(f"u{number}" for number in range(9)))
        np.save(files / "ids.npy", np.arange(60) * 10)
        np.savez(files / "seen.npz", user=["u3", "u0", "stranger"], item=[590, 55, 10])
        parts = ["--items", "items.npy", "--item-ids", "ids.npy", "--users", "users.npy", "--user-ids", "users.txt"]
        status, _, err = run("build", *parts, "--seen", "seen.npz", "--output", "bundle")
        assert status == 0
        assert "2 pairs in seen.npz name users or items that the model does not have" in err
        made = Bundle.open(files / "bundle")
        assert made.seen_items(3).tolist() == [59]
        assert made.seen_items(0).tolist() == []

    def test_seen_as_csr(self, ok, files):
        starts = [0, 2, 2, 2, 2, 2, 2, 2, 2, 3]
        np.savez(files / "seen.npz", indptr=starts, indices=[4, 5, 6], shape=[9, 60], format=np.array(b"csr"))
        ok("build", "--items", "items.npy", "--users", "users.npy", "--seen", "seen.npz", "--output", "bundle")
        assert Bundle.open(files / "bundle").seen_items(0).tolist() == [4, 5]

    def test_metadata(self, ok, files):
        pairs = ["owner=ranking team", "epochs=7", 'data={"days": 30}', "odd=NaN", "equation=a=b"]
        ok("build", "--items", "items.npy", "--output", "bundle", *(f"--metadata={pair}" for pair in pairs))
        expected = {"owner": "ranking team", "epochs": 7, "data": {"days": 30}, "odd": "NaN", "equation": "a=b"}
        assert Bundle.open(files / "bundle").metadata == expected

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--items", "nothing.npy"], "nothing.npy does not exist"),
            (["--items", "items.npy", "--users", "users.npy", "--plot", "nowhere/a.png"], "nowhere is no directory"),
            (["--items", "items.csv"], "give one of .npy"),
            (["--items", "bad.npy"], "bad.npy cannot be read as .npy"),
            (["--items", "nan.npy"], "row 2 of nan.npy holds nan"),
            (["--items", "pair.npz"], "it has: a, b"),
            (["--items", "pair.npz:c"], "no array called c; it has: a, b"),
            (["--items", "items.npy", "--users", "narrow.npy"], "dimensions"),
            (["--items", "items.npy", "--item-ids", "nothing.txt"], "nothing.txt does not exist"),
            (["--items", "items.npy", "--item-ids", "two.txt"], "2 item ids for 60 items"),
            (["--items", "items.npy", "--item-ids", "items.npy"], "expected a list of texts"),
            (["--items", "items.npy", "--item-ids", "bad.json"], "bad.json cannot be read"),
            (["--items", "items.npy", "--titles", "bad.npy"], "bad.npy cannot be read"),
            (["--items", "items.npy", "--titles", "titles.xml"], "no format for ids or titles"),
            (["--items", "items.npy", "--users", "users.npy", "--seen", "items.npy"], "cannot be read as .npz"),
            (["--items", "items.npy", "--users", "users.npy", "--seen", "bad.npy"], "cannot be read as .npz"),
            (["--items", "items.npy", "--users", "users.npy", "--seen", "pair.npz"], "arrays user and item"),
            (["--items", "items.npy", "--users", "users.npy", "--seen", "odd.npz"], "same length"),
            (["--items", "items.npy", "--users", "users.npy", "--seen", "strangers.npz"], "no pair in strangers.npz"),
        ],
    )
    def test_bad_files_are_status_1_and_one_line(self, fails, files, arguments, words):
        (files / "bad.npy").write_bytes(b"junk")
        (files / "bad.json").write_text("{")
        (files / "titles.xml").write_text("<a/>")
        (files / "two.txt").write_text("a\nb\n")
        broken = ITEMS.copy()
        broken[2, 1] = np.nan
        np.save(files / "nan.npy", broken)
        np.save(files / "narrow.npy", USERS[:, :4])
        np.savez(files / "pair.npz", a=ITEMS, b=ITEMS)
        np.savez(files / "odd.npz", user=[1, 2], item=[1])
        np.savez(files / "strangers.npz", user=[100], item=[1])
        assert words in fails(1, "build", *arguments, "--output", "bundle")
        assert not (files / "bundle").exists()

    def test_what_exists_is_not_overwritten_and_nothing_is_read_before(self, fails, files):
        (files / "bundle").mkdir()
        assert "already exists" in fails(1, "build", "--items", "nothing.npy", "--output", "bundle")


class TestCalibration:
    """What each budget buys, at the end of a build."""

    @pytest.fixture
    def built(self, ok, files):
        """Build with so many users that some are held out; return what was printed, and the calibration."""
        users = np.random.default_rng(2).standard_normal((1000, 8), dtype=np.float32)
        np.save(files / "users.npy", users)
        out = ok("build", "--items", "items.npy", "--users", "users.npy", "--output", "bundle")
        return out, Calibration.from_dict(Bundle.open(files / "bundle").calibration)

    def test_the_table(self, ok, built):
        out, calibration = built
        for printed in (out, ok("inspect", "bundle")):
            lines = [line.split() for line in printed.splitlines()]
            head = lines.index(["budget", "recall@10", "prec@5", "us", "per", "search", "best", "screening"])
            rows = lines[head + 1 : head + 1 + len(calibration.points)]
            assert [int(row[0]) for row in rows] == [8, 16, 32]
            for row, point in zip(rows, calibration.points, strict=True):
                recall, sign, error, precision, microseconds, *best = row[1:]
                assert float(recall) == pytest.approx(point.recall_at_10, abs=1e-4)
                assert (sign, float(error)) == ("±", pytest.approx(point.standard_error, abs=1e-4))
                assert float(precision) == pytest.approx(point.prec_at_5, abs=1e-3)
                assert float(microseconds) == pytest.approx(point.seconds * 1e6, abs=0.1)
                assert " ".join(best) == point.best

    def test_it_says_on_whom_it_was_measured(self, built):
        out, calibration = built
        assert calibration.held_out
        assert calibration.sample_size <= 100
        assert f"measured on {calibration.sample_size} held-out users" in out

    def test_it_says_so_where_users_are_too_few_to_hold_any_out(self, ok, files):
        out = ok("build", "--items", "items.npy", "--users", "users.npy", "--output", "bundle")
        assert "measured on 9 users, too few to hold any out" in out
        assert not Bundle.open(files / "bundle").calibration["held_out"]

    @pytest.mark.parametrize("arguments", [(), ("--users", "users.npy", "--no-calibrate")])
    def test_a_build_without(self, ok, files, arguments):
        assert "has no calibration" in ok("build", "--items", "items.npy", *arguments, "--output", "bundle")
        assert Bundle.open(files / "bundle").calibration is None

    def test_one_that_cannot_be_used_counts_as_none(self, ok, tmp_path):
        points = [{"budget": 16, "recall_at_10": 0.75}]
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS), calibration={"points": points})
        assert "cannot be used and counts as none" in ok("inspect", "m")

    @pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.SVG", b"<?xml"), ("p.pdf", b"%PDF")])
    def test_the_plot(self, ok, files, name, magic):
        parts = ["--items", "items.npy", "--users", "users.npy", "--version", "v $1$"]
        assert f"drawn: {name}" in ok("build", *parts, "--models", "models", "--plot", name)
        assert (files / name).read_bytes().startswith(magic)

    def test_a_plot_without_matplotlib_is_one_line_before_anything_is_read(self, fails, monkeypatch):
        monkeypatch.delitem(sys.modules, "service.cli.plots", raising=False)
        for module in ("matplotlib", "matplotlib.axes", "matplotlib.figure", "matplotlib.ticker"):
            monkeypatch.setitem(sys.modules, module, None)
        parts = ["--items", "nothing.npy", "--users", "nothing.npy", "--output", "bundle"]
        line = fails(1, "build", *parts, "--plot", "p.png")
        assert "--plot needs matplotlib" in line
        assert "pip install '.[bench]'" in line


def test_the_picture_shows_the_curve_and_its_band(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plots.Figure, "savefig", lambda figure, path: drawn.append(figure))
    calibration = Calibration.from_dict(CALIBRATION)
    plots.draw_calibration(calibration, tmp_path / "p.png", title="v1")
    above, below = drawn[0].axes
    (recalls,), (times,) = above.lines, below.lines
    np.testing.assert_allclose(recalls.get_xydata(), [(p.budget, p.recall_at_10) for p in calibration.points])
    np.testing.assert_allclose(times.get_xydata(), [(p.budget, p.seconds * 1e6) for p in calibration.points])
    (band,) = above.collections
    low, high = band.get_paths()[0].get_extents().intervaly
    np.testing.assert_allclose((low, high), (0.5 - 1.96 * 0.01, 1.0))
    assert above.get_ylim()[0] < low
    assert "500 held-out users" in above.get_legend().get_title().get_text()


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


class TestQuery:
    @pytest.fixture
    def model(self, models):
        models.promote("v1")
        return Bundle.open(models.path / "v1")

    def test_a_user(self, ok, model):
        answer = json.loads(ok("query", "--user", 3, "--budget", 12, "--top-k", 4, "--json"))
        expected = model.index.search(USERS[3], top_k=4, budget=12)
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in expected.ids]
        assert [item["score"] for item in answer["items"]] == expected.scores.tolist()
        assert (answer["user_id"], answer["budget"], answer["spent"]) == ("3", 12, 12)
        assert (answer["complete"], answer["fallback"], answer["model"]) == (False, None, "v1")

    def test_a_table(self, ok, model):
        out = ok("query", "--user", 3, "--budget", 60)
        assert len(out.splitlines()) == 12
        assert "spent 60 of 60 inner products, exact" in out

    def test_an_item_does_not_find_itself(self, ok, model):
        answer = json.loads(ok("query", "--item", 5, "--budget", 60, "--top-k", 60, "--json"))
        assert len(answer["items"]) == 59
        assert "5" not in {item["item_id"] for item in answer["items"]}

    def test_a_vector(self, ok, files, model):
        np.save(files / "vector.npy", USERS[2])
        numbers = ",".join(map(repr, USERS[2].tolist()))
        from_file = json.loads(ok("query", "--vector", "vector.npy", "--budget", 60, "--json"))
        from_text = json.loads(ok("query", f"--vector={numbers}", "--budget", 60, "--json"))
        of_user = json.loads(ok("query", "--user", 2, "--budget", 60, "--json"))
        assert from_file["items"] == from_text["items"] == of_user["items"]

    def test_exclusions(self, ok, model):
        best = json.loads(ok("query", "--user", 1, "--budget", 60, "--json"))["items"]
        hidden = [f"--exclude={item['item_id']}" for item in best[:3]]
        rest = json.loads(ok("query", "--user", 1, "--budget", 57, "--json", "--exclude=unknown", *hidden))
        assert rest["items"][:7] == best[3:]
        assert rest["complete"]

    def test_an_unknown_user_gets_popular_items(self, run, model):
        status, out, _ = run("query", "--user", "nobody", "--json", "--top-k", 3)
        answer = json.loads(out)
        assert status == 0
        assert answer["fallback"] == "unknown_user"
        assert [item["item_id"] for item in answer["items"]] == [str(position) for position in model.popular[:3]]

    def test_a_user_without_a_vector_gets_popular_items_too(self, run, tmp_path):
        vectors = np.vstack([USERS[:1], np.full((1, 8), np.nan)])
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS), user_vectors=vectors)
        status, out, err = run("query", "m", "--user", "1", "--top-k", 2)
        assert status == 0
        assert len(out.splitlines()) == 4
        assert "User 1 has no vector" in err

    @pytest.mark.parametrize(
        ("status", "arguments", "words"),
        [
            (1, ["--user", "1", "--budget", "0"], "budget"),
            (1, ["--user", "1", "--budget", "-5"], "budget"),
            (1, ["--user", "1", "--budget", "40"], "20"),
            (1, ["--user", "1", "--top-k", "0"], "top_k"),
            (1, ["--item", "nothing"], "no item 'nothing'"),
            (1, ["--vector", "1,2"], "length 2"),
            (1, ["--vector", "nan,1,1,1,1,1,1,1"], "nan"),
            (1, ["--vector", "nothing.npy"], "cannot be read"),
            (2, ["--vector", "a,b"], "no list of numbers"),
            (2, ["--user", "1", "--budget", "many"], "--budget"),
        ],
    )
    def test_bad_questions(self, fails, model, status, arguments, words):
        assert words in fails(status, "query", *arguments)


class TestBench:
    def test_table_and_json(self, ok, models):
        models.promote("v1")
        answer = json.loads(ok("bench", "--budgets", "4,16,60", "--queries", 5, "--json"))
        assert [row["budget"] for row in answer["budgets"]] == [4, 16, 60]
        assert answer["budgets"][-1]["recall@10"] == 1.0
        assert all(row["spent"] <= row["budget"] for row in answer["budgets"])
        assert "recall@10" in ok("bench", "--budgets", "4,16,60", "--queries", 5)

    def test_budgets_out_of_reach_are_left_out(self, run, models):
        status, out, err = run("bench", "models/v1", "--budgets", "4,40", "--json")
        assert status == 0
        assert [row["budget"] for row in json.loads(out)["budgets"]] == [4]
        assert "Budgets above 20" in err

    def test_a_bundle_without_users(self, run, tmp_path):
        write_bundle(tmp_path / "m", index=GreedyIndex.build(ITEMS))
        status, out, err = run("bench", "m", "--budgets", "4", "--json")
        assert status == 0
        assert json.loads(out)["queries"] == 60
        assert "no user vectors" in err

    @pytest.mark.parametrize("budgets", ["", "a", "0", "4,-1"])
    def test_bad_budgets(self, fails, models, budgets):
        assert "--budgets" in fails(2, "bench", "models/v1", "--budgets", budgets)


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
