"""`budgetrec recommend`: options, refusals, and the budget that a recall buys."""

import pyarrow.parquet as pq
import pytest

from tests.service.conftest import N_USERS, write_model


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m")
    return tmp_path


def test_all_users(run, bundle):
    status, out, err = run("recommend", "m", "--all-users", "--output", "recs.parquet", "--top-k", 4)
    assert status == 0, err
    table = pq.read_table("recs.parquet")
    assert table.column_names == ["user_id", "rank", "item_id", "score"]
    assert len(table) == 4 * N_USERS
    # The made-up curve has a recall of 0.9 at 256 and 0.99 at 1,024: 0.98 costs more than the lists serve.
    assert "lowered to 512" in err
    assert f"{N_USERS} of {N_USERS} users" in err
    assert "users per second; model m." in out


@pytest.mark.parametrize(
    ("options", "budget"),
    [(("--budget", 64), "64"), (("--target-recall", 0.75), "64"), (("--target-recall", 1), "2,000")],
)
def test_what_is_spent(run, bundle, options, budget):
    status, out, err = run("recommend", "m", "--all-users", "--output", "recs.parquet", *options)
    assert status == 0, err
    assert f"budget {budget} for each" in out


def test_some_users_and_unknown_ones(run, bundle):
    (bundle / "who.txt").write_text("u20\nnobody\nu9\n")
    status, _, err = run("recommend", "m", "--users", "who.txt", "--output", "some.parquet", "--budget", 32)
    assert status == 0, err
    assert "1 of 3 users in who.txt are not in the model; left out." in err
    assert pq.read_table("some.parquet")["user_id"].unique().to_pylist() == ["u20", "u9"]
    (bundle / "who.txt").write_text("nobody\n")
    line = run("recommend", "m", "--users", "who.txt", "--output", "none.parquet", "--budget", 32)[2]
    assert "no user in who.txt is in m" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--output", "x.parquet"), "give either --all-users or --users FILE"),
        (("--all-users", "--users", "w.txt", "--output", "x.parquet"), "give either --all-users or --users FILE"),
        (("--all-users", "--output", "x.csv"), "x.csv does not end in .parquet"),
        (
            ("--all-users", "--output", "x.parquet", "--budget", 9, "--target-recall", 0.9),
            "either --budget or --target",
        ),
        (("--all-users", "--output", "x.parquet", "--budget", 5), "a budget of 5 finds no 10 items"),
    ],
)
def test_questions_that_make_no_sense(fails, bundle, options, words):
    assert words in fails(2, "recommend", "m", *options)


def test_a_file_is_replaced_only_when_asked(ok, fails, bundle):
    (bundle / "x.parquet").write_text("mine")
    assert "already exists" in fails(1, "recommend", "m", "--all-users", "--output", "x.parquet")
    ok("recommend", "m", "--all-users", "--output", "x.parquet", "--overwrite")
    assert len(pq.read_table("x.parquet")) == 10 * N_USERS


def test_without_a_calibration(run, bundle):
    write_model(bundle / "plain", calibration=None)
    status, out, err = run("recommend", "plain", "--all-users", "--output", "x.parquet")
    assert status == 0, err
    assert "budget 256 for each" in out
    status, _, err = run("recommend", "plain", "--all-users", "--output", "y.parquet", "--target-recall", 0.9)
    assert status == 1
    assert "no calibration to turn a recall into a budget; give --budget" in err
