"""Rules and alerts: valid, each with unit tests for promtool, and about metrics that the service has."""

from __future__ import annotations

import re
import subprocess

import pytest
import yaml

from loadtests.http.fleet import DEPLOY, need_command
from service.telemetry.families import CALL_NAMES, LAYOUT, SECONDS

FOLDER = DEPLOY / "prometheus"
RULES = sorted((FOLDER / "rules").glob("*.yml"))
TESTS = sorted((FOLDER / "tests").glob("*_test.yml"))


def rules():
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def promtool(*arguments):
    command = [need_command("promtool"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=FOLDER)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
def test_configuration_is_valid():
    promtool("check", "config", "prometheus.yml")


@pytest.mark.needs("promtool")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_unit_tests_of_the_rules(path):
    promtool("test", "rules", path)


def test_every_recording_rule_has_a_known_answer():
    asked = " ".join(
        check["expr"]
        for path in TESTS
        for case in yaml.safe_load(path.read_text())["tests"]
        for check in case.get("promql_expr_test", [])
    )
    untested = [rule["record"] for rule in rules() if "record" in rule and rule["record"] not in asked]
    assert not untested


def test_every_alert_is_seen_both_firing_and_silent():
    firing, silent = set(), set()
    for path in TESTS:
        for case in yaml.safe_load(path.read_text())["tests"]:
            for check in case.get("alert_rule_test", []):
                (firing if check["exp_alerts"] else silent).add(check["alertname"])
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert alerts == firing == silent


def test_every_alert_leads_to_its_section_of_the_runbook():
    headings = re.findall(r"^#+ (.+)$", (DEPLOY / "README.md").read_text(), re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for rule in rules():
        if "alert" in rule:
            page, anchor = rule["annotations"]["runbook"].split("#")
            assert page == "deploy/README.md"
            assert anchor == rule["alert"].lower()
            assert anchor in anchors


def test_rules_speak_of_metrics_labels_and_buckets_that_exist():
    exported = {family.name for family in LAYOUT.families} | {"budgetrec_model_info"}
    text = " ".join(rule["expr"] for rule in rules())
    used = {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"\bbudgetrec_\w+", text)}
    assert used - {"budgetrec_products"} <= exported  # the exception is part of a recorded name
    assert {float(bound) for bound in re.findall(r'le="([\d.]+)"', text)} <= set(SECONDS)
    assert {name for names in re.findall(r'route=~"([^"]+)"', text) for name in names.split("|")} <= set(CALL_NAMES)
