"""Rules and scenarios on the command line: query and recommend."""

import json

import pyarrow.parquet as pq
import pytest

from tests.service.conftest import write_model

SCENARIOS = """
[home]
budget = 200
filter = "in_stock"
at_most = { category = 2 }
pin = [{ place = 1, item_id = "i40" }]
fallback = 'popular: category = "c2"'

[strict]
target_recall = 0.75
fallback = "error"
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("rules") / "m")


@pytest.fixture
def file(tmp_path):
    (tmp_path / "scenarios.toml").write_text(SCENARIOS)
    return tmp_path / "scenarios.toml"


def asked(ok, bundle, *options):
    return json.loads(ok("query", bundle.path, "--json", *options))


def categories(bundle, answer):
    column = bundle.attributes["category"]
    return [column.value(bundle.item_position(item["item_id"])) for item in answer["items"]]


def test_a_scenario_and_options_that_count_more(ok, bundle, file):
    named = ("--scenario-file", file, "--scenario", "home", "--user", "u77")
    answer = asked(ok, bundle, *named)
    assert (answer["scenario"], answer["budget"], answer["items"][0]["item_id"]) == ("home", 200, "i40")
    found = [value for value in categories(bundle, answer) if value]
    assert max(found.count(value) for value in found) <= 2
    answer = asked(
        ok, bundle, *named, "--at-most", "category:1", "--budget", "64", "--pin", "3:i41", "--diversity", "0.2"
    )
    assert answer["spent"] <= answer["budget"] == 64
    assert answer["items"][2]["item_id"] == "i41"
    found = [value for value in categories(bundle, answer) if value]
    assert len(set(found)) == len(found)
    assert set(answer["rules"]) == {"at_most", "diversity", "pin"}
    strict = asked(ok, bundle, "--scenario-file", file, "--scenario", "strict", "--user", "u77")
    assert strict["budget"] == 64


def test_pages_and_boosts(ok, bundle):
    whole = asked(ok, bundle, "--user", "u77", "--boost", "2: price < 10", "--top-k", "10")
    pages = [
        asked(ok, bundle, "--user", "u77", "--boost", "2: price < 10", "--top-k", "5", "--offset", offset)
        for offset in (0, 5)
    ]
    assert [item for page in pages for item in page["items"]] == whole["items"]
    said = ok("query", bundle.path, "--user", "u77", "--boost", "2: price < 10", "--pin", "1:gone")
    assert "boost: items" in said
    assert "pin: placed 0, left out gone (unknown)" in said


def test_somebody_unknown(ok, fails, bundle, file):
    answer = asked(ok, bundle, "--scenario-file", file, "--scenario", "home", "--user", "nobody", "--top-k", "3")
    assert answer["items"][0]["item_id"] != "i40"
    assert answer["rules"]["pin"]["left_out"] == [{"item_id": "i40", "because": "filter"}]
    assert set(categories(bundle, answer)) == {"c2"}
    assert len(answer["items"]) == 2
    said = fails(1, "query", bundle.path, "--scenario-file", file, "--scenario", "strict", "--user", "nobody")
    assert "the scenario's fallback is an error" in said


def test_faults_have_one_line(fails, bundle, file, tmp_path):
    query = ("query", bundle.path, "--user", "u77")
    assert "go together" in fails(2, *query, "--scenario", "home")
    assert "has no scenario 'nope'; it has: home, strict" in fails(
        1, *query, "--scenario-file", file, "--scenario", "nope"
    )
    assert "at_most has 'category'" in fails(1, *query, "--at-most", "category")
    assert "there is no attribute 'shelf'" in fails(1, *query, "--at-most", "shelf:1")
    (tmp_path / "broken.toml").write_text("[home]\nbudget = 0\n")
    said = fails(1, *query, "--scenario-file", tmp_path / "broken.toml", "--scenario", "home")
    assert "the scenario home: budget takes a whole number from 1" in said


def test_a_night_with_a_scenario(ok, bundle, file, tmp_path):
    (tmp_path / "some.txt").write_text("u77\nu78\nu199\n")
    output = tmp_path / "recs.parquet"
    options = ("--scenario-file", file, "--scenario", "home")
    said = ok("recommend", bundle.path, "--users", tmp_path / "some.txt", "--output", output, "--top-k", "6", *options)
    assert "budget 200 for each" in said
    rows = pq.read_table(output).to_pylist()
    for user in ("u77", "u78"):
        single = asked(ok, bundle, *options, "--user", user, "--top-k", "6")
        mine = [row for row in rows if row["user_id"] == user]
        assert [row["item_id"] for row in mine] == [item["item_id"] for item in single["items"]]
        assert [row["rank"] for row in mine] == list(range(1, 7))
    popular = [row for row in rows if row["user_id"] == "u199"]
    assert len(popular) == 2
    assert all(row["score"] is None for row in popular)
    strict = ("--scenario-file", file, "--scenario", "strict", "--overwrite")
    ok("recommend", bundle.path, "--users", tmp_path / "some.txt", "--output", output, "--top-k", "6", *strict)
    assert {row["user_id"] for row in pq.read_table(output).to_pylist()} == {"u77", "u78"}
