"""What `build` and `inspect` say of how an index was chosen, and of the budget of questions that name none."""

import json
import re

import numpy as np
import pytest

from greedy_core import Bundle, Calibration

USUAL = re.compile(
    r"A question that names no budget gets ([\d,]+) products: enough for a recall@10 against exact search of 0.95 for "
)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(6)
    topics = rng.normal(size=(10, 12))
    np.save(tmp_path / "items.npy", (rng.dirichlet([0.2] * 10, 1100) @ topics).astype(np.float32))
    np.save(tmp_path / "users.npy", (rng.dirichlet([0.2] * 10, 700) @ topics).astype(np.float32))
    return tmp_path


def build(ok, *options):
    return ok("build", "--items", "items.npy", "--users", "users.npy", "--output", "model", "--no-similar", *options)


def test_the_ways_that_were_compared(ok, files):
    out = build(ok)
    made = Bundle.open(files / "model")
    compared = made.index.compared
    chosen = compared[0]
    assert (chosen.screening, chosen.directions) == (str(made.index.screening), made.index.directions)
    assert [way.cost for way in compared] == sorted(way.cost for way in compared)
    assert {way.screening for way in compared} >= {"walk", "threshold", "sum of 16 reads"}
    assert {way.directions for way in compared} == {"axes", "principal", "sparse", "graph"}
    for said in (out, ok("inspect", "model")):
        # There is another recall, that of real behaviour: whoever prints one says which.
        assert all("against exact search" in line for line in said.splitlines() if "recall" in line)
        assert "budget for 0.95" in said
        assert f"Of {len(compared)} ways to screen the first was chosen: on vectors that it had not seen" in said
        row = next(line for line in said.splitlines() if line.startswith(f"{chosen.screening}  "))
        budgets = ["scan" if budget is None else f"{budget:,}" for _, budget in chosen.budgets]
        assert row.split()[-5:] == [*budgets, f"{chosen.cost:,.0f}"]
    told = json.loads(ok("inspect", "model", "--json"))["compared"]
    assert told[0]["screening"] == chosen.screening
    assert len(told) == len(compared)


def test_nothing_is_said_where_nothing_was_compared(ok, files):
    out = build(ok, "--directions", "axes")
    assert Bundle.open(files / "model").index.compared == ()
    assert "ways to screen" not in out


def test_the_budget_of_questions_that_name_none(ok, files):
    usual = int(USUAL.search(build(ok, "--directions", "axes")).group(1).replace(",", ""))
    curve = Calibration.from_dict(Bundle.open(files / "model").calibration).for_vectors
    assert usual == max(30, curve.budget_towards(0.95))
    asked = json.loads(ok("query", "model", "--user", "7", "--json"))
    assert (asked["budget"], len(asked["items"])) == (usual, 10)
    assert json.loads(ok("query", "model", "--user", "7", "--budget", "9", "--json"))["budget"] == 9
