"""Attributes and filters on the command line: build, inspect, query."""

import json

import numpy as np
import pytest

from greedy_core import Bundle
from service import cli

ITEMS = np.random.default_rng(0).standard_normal((60, 8), dtype=np.float32)
USERS = np.random.default_rng(1).standard_normal((9, 8), dtype=np.float32)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in a directory with vectors and a table; return status, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    np.save("items.npy", ITEMS)
    np.save("users.npy", USERS)
    rows = [
        {
            "item_id": j,
            "price": j / 2 if j % 5 else None,
            "kind": f"k{j % 3}",
            "tags": ["a"] if j % 2 else [],
            "in_stock": j % 4 > 0,
        }
        for j in range(50)
    ]
    rows += [{"item_id": "nobody", "price": 1, "box": {"w": 1}}]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))

    def run(*arguments):
        status = cli.run([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def built(run):
    arguments = ("--items", "items.npy", "--users", "users.npy", "--no-calibrate", "--attributes", "items.jsonl")
    status, out, err = run("build", *arguments, "--output", "model")
    assert status == 0, err
    return out, err


def test_build_says_what_it_took_and_what_not(built):
    out, err = built
    assert "1 row of items.jsonl left out: the model has no such items." in err
    assert "10 of 60 items have no row in items.jsonl; their attributes are missing." in err
    assert "the column box of items.jsonl is no attribute: it holds objects." in err
    lines = [line.split() for line in out.splitlines()]
    assert ["price", "number", "40", "33.3%"] in lines
    assert ["kind", "text", "3", "16.7%"] in lines
    assert ["in_stock", "flag", "2", "16.7%"] in lines


def test_the_attribute_title_is_the_title(run, tmp_path):
    (tmp_path / "titled.jsonl").write_text('{"id": 0, "title": "One"}\n{"id": 2, "title": ""}\n{"id": 3}')
    assert run("build", "--items", "items.npy", "--attributes", "titled.jsonl", "--output", "titled")[0] == 0
    opened = Bundle.open("titled")
    assert [opened.title(position) for position in range(4)] == ["One", None, None, None]
    (tmp_path / "titles.json").write_text(json.dumps(["Another"] * 60))
    arguments = ("--attributes", "titled.jsonl", "--titles", "titles.json", "--output", "other")
    assert run("build", "--items", "items.npy", *arguments)[0] == 0
    assert Bundle.open("other").title(0) == "Another"
    assert Bundle.open("other").attributes["title"].value(0) == "One"


def test_inspect_lists_them(run, built):
    out = run("inspect", "model")[1]
    assert ["tags", "list", "1", "16.7%"] in [line.split() for line in out.splitlines()]
    described = json.loads(run("inspect", "model", "--json")[1])["attributes"]
    assert described[0] == {"name": "price", "type": "number", "values": 40, "missing": 0.333333}
    assert run("verify", "model")[0] == 0


@pytest.mark.parametrize("who", [("--user", "3"), ("--item", "3"), ("--vector", ",".join(["1"] * 8))])
def test_query_under_a_filter(run, built, who):
    asked = ("--filter", 'price < 10 and kind = "k1"', "--fields", "price,kind,tags", "--json")
    status, out, err = run("query", "model", *who, *asked)
    assert status == 0, err
    answer = json.loads(out)
    wanted = {str(j) for j in range(20) if j % 5 and j % 3 == 1} - ({"3"} if who[0] == "--item" else set())
    assert {item["item_id"] for item in answer["items"]} <= wanted
    assert answer["eligible"] == len(wanted)
    assert len(answer["items"]) == min(10, len(wanted))
    assert answer["complete"] is True
    assert all(list(item["fields"]) == ["price", "kind", "tags"] for item in answer["items"])


def test_a_table_with_fields(run, built):
    out = run("query", "model", "--user", "3", "--filter", "price < 10", "--fields", "price,tags")[1]
    assert out.splitlines()[0].split() == ["item_id", "price", "tags", "score"]
    assert "16 items are eligible" in out


def test_popular_items_under_a_filter(run, built):
    answer = json.loads(run("query", "model", "--user", "stranger", "--filter", "price = 2", "--json")[1])
    assert [item["item_id"] for item in answer["items"]] == ["4"]
    assert (answer["eligible"], answer["fallback"]) == (1, "unknown_user")


def test_a_bad_filter_is_shown_with_a_mark(run, built):
    status, out, err = run("query", "model", "--user", "3", "--filter", "in_stock and prise < 10")
    assert (status, out) == (1, "")
    first, shown, mark = err.splitlines()
    assert "there is no attribute 'prise' (did you mean price?)" in first
    assert shown == "  in_stock and prise < 10"
    assert mark == "  " + " " * len("in_stock and ") + "^"


def test_the_mark_of_a_long_filter_and_of_several_lines(run, built):
    lines = run("query", "model", "--user", "3", "--filter", "in_stock\nand prise < 10")[2].splitlines()
    assert lines[-2:] == ["  and prise < 10", "      ^"]
    long = " or ".join(["in_stock"] * 20) + " or prise = 1"
    lines = run("query", "model", "--user", "3", "--filter", long)[2].splitlines()
    assert lines[-2][lines[-1].index("^") :] == "prise = 1"
    assert len(lines[-2]) < 130


def test_an_unknown_field_is_one_line(run, built):
    status, _, err = run("query", "model", "--user", "3", "--fields", "colour")
    assert status == 1
    assert "there is no attribute 'colour'; there are: price, kind, tags, in_stock." in err


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("none.jsonl", "none.jsonl does not exist"),
        ("items.npy", "is no format for attributes"),
        ("items.jsonl:sku", "has no column sku"),
    ],
)
def test_bad_tables_are_one_line(run, source, sentence):
    status, _, err = run("build", "--items", "items.npy", "--attributes", source, "--output", "model")
    assert status == 1
    assert sentence in err
    assert len(err.splitlines()) == 1
