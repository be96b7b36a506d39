"""Files of scenarios: what they may say, and a sentence for each fault."""

import json
import os

import pytest

from greedy_core import (
    Attributes,
    Boost,
    Fallback,
    Filter,
    InvalidRulesError,
    InvalidScenariosError,
    Pin,
    Rules,
    Scenario,
    load_scenarios,
    read_boost,
    read_caps,
    read_fallback,
    read_pin,
    read_scenarios,
)

FULL = """
[home]
description = "The first page"
budget = 512
filter = "@available and price < 20"
at_most = { author = 2, "the shelf" = 3 }
diversity = 0.3
boost = [{ filter = "price < 5", factor = 1.2 }, { filter = "@available", factor = 2 }]
pin = [{ place = 1, item_id = "a:1" }]
fallback = 'popular: price < 3'

[plain]
"""
NAMED = {"available": Filter("in_stock")}
HOME = Scenario(
    "home",
    "The first page",
    512,
    None,
    "@available and price < 20",
    Rules({"author": 2, "the shelf": 3}, 0.3, (Boost("price < 5", 1.2), Boost("@available", 2)), (Pin(1, "a:1"),)),
    Fallback("popular", "price < 3"),
)


def test_toml_and_json_say_the_same(tmp_path):
    (tmp_path / "s.toml").write_text(FULL)
    found = load_scenarios(tmp_path / "s.toml", NAMED)
    assert found == {"home": HOME, "plain": Scenario("plain")}
    recipes = {name: scenario.to_dict() for name, scenario in found.items()}
    for recipe in recipes.values():
        del recipe["name"]
    (tmp_path / "s.json").write_text(json.dumps(recipes))
    assert load_scenarios(tmp_path / "s.json", NAMED) == found


def test_every_fault_has_its_sentence():
    broken = {
        "a b": {},
        "one": {"bugdet": 3, "budget": 0, "filter": "price <", "at_most": {"author": 0}},
        "two": {"budget": 5, "target_recall": 0.5, "diversity": 2, "boost": [{"filter": "in_stock"}], "pin": "x"},
        "three": {"fallback": "nothing", "boost": [{"filter": "@gone", "factor": 1000}], "at_most": ["author"]},
        "four": {"boost": [{"filter": "@gone", "factor": 2}], "description": 5, "target_recall": True},
    }
    with pytest.raises(InvalidScenariosError) as caught:
        read_scenarios(broken)
    said = caught.value.faults
    expected = [
        "'a b' is no name for a scenario",
        "one: 'bugdet' is no part of a scenario; known are description, budget",
        "one: budget takes a whole number from 1",
        "one: at_most allows 0 items of a value of author",
        "one: filter cannot be used: the filter is wrong at character",
        "two: boost takes a list, each entry with filter and factor",
        "two: pin takes a list, each entry with place and item_id",
        "two: diversity is 2; it takes a number from 0",
        "two: it has budget and target_recall; give one of them.",
        "three: at_most takes up to 8 names of attributes",
        "three: boost has the factor 1000",
        "three: fallback is 'nothing'",
        "four: description takes a text",
        "four: target_recall takes a number above 0",
        "four: boost cannot be used: the filter is wrong at character 1 (near '@gone'): there is no filter @gone",
    ]
    for sentence in expected:
        assert [fault for fault in said if sentence in fault], (sentence, said)
    assert len(said) == len(expected)


def test_files_that_cannot_be_read(tmp_path):
    for name, text, sentence in [
        ("s.yaml", "", "is neither .toml nor .json"),
        ("s.toml", "[home", "cannot be read"),
        ("s.json", '{"home": 3}', "scenarios are tables by their names"),
        ("s.json", "\ud800", "cannot be read"),
        ("s.json", json.dumps({f"s{n}": {} for n in range(101)}), "there are 101 scenarios"),
        ("large.toml", "#" * (300 << 10), "more than the 262144 bytes that are allowed"),
    ]:
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(InvalidScenariosError, match=sentence):
            load_scenarios(tmp_path / name)
    with pytest.raises(InvalidScenariosError, match="No such file"):
        load_scenarios(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("part", ['"diversity": ', '"boost": [{"filter": "a", "factor": '])
def test_numbers_that_no_float_can_hold_are_refused(tmp_path, part):
    path = tmp_path / "scenarios.json"
    path.write_text('{"home": {' + part + "1" + "0" * 400 + ("}]" if "[" in part else "") + "}}")
    with pytest.raises(InvalidScenariosError, match=r"diversity|boost"):
        load_scenarios(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "scenarios.json")
    with pytest.raises(InvalidScenariosError, match="is no file"):
        load_scenarios(tmp_path / "scenarios.json")


def test_a_scenario_fits_a_model_or_says_why_not():
    attributes = Attributes.from_columns({"author": ["x"], "price": [1.0], "in_stock": [True]}, 1)
    Scenario("s", filter="@available", rules=Rules({"author": 1})).check(attributes, NAMED)
    for scenario, sentence in [
        (Scenario("s", rules=Rules({"shelf": 1})), "the scenario s does not fit it: at_most cannot be kept"),
        (Scenario("s", filter="shelf = 3"), "there is no attribute 'shelf'"),
        (Scenario("s", rules=Rules(boost=(Boost("author > 3", 2.0),))), "author is a text, and 3 is a number"),
        (Scenario("s", fallback=Fallback("popular", "shelf = 3")), "there is no attribute 'shelf'"),
    ]:
        with pytest.raises(InvalidScenariosError, match=sentence):
            scenario.check(attributes, NAMED)


def test_rules_in_one_line():
    assert read_caps("author:2,a:b:3") == {"author": 2, "a:b": 3}
    assert read_caps("") == {}
    assert read_boost('1.5: category = "a:b"') == Boost('category = "a:b"', 1.5)
    assert read_pin("3:a:b") == Pin(3, "a:b")
    assert read_fallback("popular") == Fallback()
    assert str(read_fallback("popular:in_stock")) == "popular: in_stock"
    assert read_fallback("error") == Fallback("error")
    for read, text in [
        (read_caps, "author"),
        (read_caps, ":2"),
        (read_caps, "author:two"),
        (read_caps, "author:1,author:2"),
        (read_boost, "in_stock"),
        (read_boost, "-1: in_stock"),
        (read_boost, "nan: in_stock"),
        (read_boost, "2:"),
        (read_pin, "a:1"),
        (read_pin, "1:"),
        (read_fallback, "popular:"),
        (read_fallback, "error: x"),
        (read_fallback, ""),
    ]:
        with pytest.raises(InvalidRulesError):
            read(text)
