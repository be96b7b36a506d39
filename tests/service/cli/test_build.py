"""budgetrec build: every kind of input, the calibration, and errors of one line."""

import json
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save_file

from greedy_core import Bundle, Calibration, GreedyIndex, VersionsFolder, write_bundle
from greedy_core.fit.directions import FIXED_KINDS
from service.cli import plots
from tests.service.cli.conftest import ITEMS, USERS
from tests.service.conftest import CALIBRATION


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
            (["--items", "titles.xml"], "give one of .npy"),
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
            head = lines.index(
                [
                    "budget",
                    "recall@10",
                    "against",
                    "exact",
                    "search",
                    "prec@5",
                    "us",
                    "per",
                    "search",
                    "best",
                    "screening",
                ]
            )
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
    assert above.get_ylabel() == "recall@10 against exact search"
    assert "500 held-out users" in above.get_legend().get_title().get_text()
