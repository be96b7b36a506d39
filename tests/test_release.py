"""One version everywhere, extras that exist where they are named, and a release that can be made."""

import importlib.machinery
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from service.version import VERSION

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_LOADER = importlib.machinery.SourceFileLoader("set_version", str(ROOT / ".ci" / "set-version"))
set_version = importlib.util.module_from_spec(importlib.util.spec_from_loader("set_version", _LOADER))
_LOADER.exec_module(set_version)


@pytest.mark.parametrize("place", set_version.PLACES)
def test_the_version_is_the_same_everywhere(place):
    found = re.findall(set_version.PLACES[place], (ROOT / place).read_text(), flags=re.MULTILINE)
    assert found
    assert set(found) == {PROJECT["version"]}


def test_the_installed_package_and_the_changelog_have_it_too():
    assert PROJECT["version"] == VERSION
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert newest[1] == VERSION


def test_a_new_version_is_written_everywhere(tmp_path, monkeypatch):
    for place in set_version.PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text((ROOT / place).read_text())
    monkeypatch.setattr(set_version, "ROOT", tmp_path)
    set_version.main("7.8.9rc1")
    for place, pattern in set_version.PLACES.items():
        text = (tmp_path / place).read_text()
        assert set(re.findall(pattern, text, flags=re.MULTILINE)) == {"7.8.9rc1"}
        assert text.replace("7.8.9rc1", PROJECT["version"]) == (ROOT / place).read_text()


def test_what_is_no_version_is_refused():
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "set-version"), "two"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "three numbers" in done.stderr


def test_extras_that_are_advised_exist_and_all_are_documented():
    extras = set(PROJECT["optional-dependencies"])
    texts = [path for folder in ("service", "greedy_core") for path in (ROOT / folder).rglob("*.py")]
    texts += [ROOT / "README.md", *(ROOT / "deploy").glob("*.md")]
    advised = {
        name
        for path in texts
        for names in re.findall(r"'\.\[([\w,]+)\]'", path.read_text())
        for name in names.split(",")
    }
    assert {"formats", "bench", "traces"} <= advised <= extras
    page = (ROOT / "RELEASING.md").read_text()
    assert extras <= set(re.findall(r"`(\w+)`", page[page.index("## Extras") :]))


def test_nothing_is_advised_that_is_not_published():
    for folder in ("service", "greedy_core"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not re.search(r"pip install ['\"]?budgetrec", path.read_text()), path
