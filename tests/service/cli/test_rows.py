"""--rows: the precision of the items' vectors, and what is said of it."""

import json

import numpy as np
import pytest

from greedy_core import PRECISIONS, Bundle

BEWARE = "Beware: rounding the rows"


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(4)
    np.save(tmp_path / "users.npy", rng.standard_normal((90, 8), dtype=np.float32))
    np.save(tmp_path / "items.npy", rng.standard_normal((200, 8), dtype=np.float32))
    # So alike that eight bits do not tell them apart, and eleven do.
    np.save(tmp_path / "alike.npy", 1 + rng.standard_normal((200, 8), dtype=np.float32) / 8)
    return tmp_path


def build(run, items, *options):
    return run("build", "--items", items, "--users", "users.npy", "--directions", "axes", "--output", "model", *options)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_built_and_shown(run, files, precision):
    status, out, err = build(run, "items.npy", "--rows", precision)
    assert status == 0, err
    made = Bundle.open(files / "model")
    made.verify()
    assert made.index.precision == precision
    for said in (out, run("inspect", "model")[1]):
        assert f"200 x 8, {precision}" in said
        assert (f"Rows of {precision}: an exact search over them has a recall@10 of" in said) == (
            precision != "float32"
        )
    assert json.loads(run("inspect", "model", "--json")[1])["precision"] == precision


def test_float32_is_the_default(run, files):
    assert build(run, "items.npy")[0] == 0
    assert Bundle.open(files / "model").index.precision == "float32"


@pytest.mark.parametrize(("precision", "warned"), [("float16", False), ("bfloat16", True)])
def test_a_warning_where_rounding_costs_recall(run, files, precision, warned):
    status, _, err = build(run, "alike.npy", "--rows", precision)
    assert status == 0
    assert (BEWARE in err) == warned
    if warned:
        assert "to bfloat16 costs recall that no budget buys back; take float16 or float32." in err


def test_what_is_no_precision_is_refused_before_anything_is_read(fails):
    words = "'float8' is none of float32, float16, bfloat16"
    assert words in fails(2, "build", "--items", "none.npy", "--output", "m", "--rows", "float8")
    assert words in fails(2, "train", "none.csv", "--models", "m", "--rows", "float8")


def test_training_stores_rows_as_asked(run, tmp_path):
    rng = np.random.default_rng(2)
    pairs = {(user, int(item)) for user in range(80) for item in rng.integers(0, 40, 12)}
    lines = ["user_id,item_id", *(f"{user},{item}" for user, item in sorted(pairs))]
    (tmp_path / "events.csv").write_text("\n".join(lines) + "\n")
    options = ("--models", "models", "--version", "v", "--rows", "float16", "--factors", 8)
    status, out, err = run("train", "events.csv", *options)
    assert status == 0, err
    assert Bundle.open(tmp_path / "models" / "v").index.precision == "float16"
    assert "40 x 8, float16" in out


def test_a_value_that_float16_cannot_hold_is_one_line(fails, files):
    items = np.load(files / "items.npy")
    items[3, 1] = 1e6
    np.save(files / "large.npy", items)
    err = fails(1, "build", "--items", "large.npy", "--output", "m", "--rows", "float16")
    assert "row 3 of items holds 1e+06 in dimension 1, but float16 goes up to 65504; take bfloat16" in err
