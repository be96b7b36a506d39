"""Pages of the site that are not written there: the reference, made from the code, and pages of the repository.

mkdocs calls `on_files` before it builds. Links of a page that stands elsewhere are bent to where they lead on the site,
or to text where the site has no such page.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer.main
import yaml
from mkdocs.structure.files import File
from pydantic.json_schema import GenerateJsonSchema

from clients.openapi import document
from service.cli import app
from service.settings import PREFIX, Settings
from service.telemetry.families import layout_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from click import Command, Parameter
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import core_schema

ROOT = Path(__file__).resolve().parents[1]
# Pages of the repository by their place on the site.
ELSEWHERE = {
    "guide/operations.md": "deploy/README.md",
    "guide/security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
}

# Pictures that other commands draw.
PICTURES = (
    "service/http/static/page/icon.svg",
    "deploy/dashboard.png",
    "loadtests/index/frontier.png",
    "loadtests/index/paper/full/figure-3.png",
    "loadtests/index/paper/full/figure-4.png",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made."""
    made = {f"reference/{name}.md": make() for name, make in REFERENCE.items()}
    made |= {place: _moved(source) for place, source in ELSEWHERE.items()}
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    for picture in PICTURES:
        files.append(File.generated(config, f"pictures/{Path(picture).name}", abs_src_path=str(ROOT / picture)))
    return files


def _moved(source: str) -> str:
    """Return a page of the repository with its links bent."""

    def bend(link: re.Match[str]) -> str:
        mark, text, target = link.groups()
        if target.startswith(("http:", "https:", "#")):
            return link[0]
        if mark:
            return f"![{text}](../pictures/{Path(target).name})"
        path = (ROOT / source).parent.joinpath(target.partition("#")[0]).resolve().relative_to(ROOT).as_posix()
        place = next((place for place, page in ELSEWHERE.items() if page == path), None)
        return f"[{text}](../{place})" if place else f"{text} (`{path}`)"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)]+)\)", bend, (ROOT / source).read_text(encoding="utf-8"))


def _cell(text: object) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


class _SettingsSchema(GenerateJsonSchema):
    """JSON Schema of the settings; what is read from a text by a class of our own is a text."""

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:  # noqa: ARG002
        return {"type": "string"}


def settings() -> str:
    """Return every setting with its default, its bounds and what it does."""
    schema = Settings.model_json_schema(schema_generator=_SettingsSchema)["properties"]
    lines = [
        "# Settings",
        "",
        (
            f"Environment variables `{PREFIX}<NAME>`, or lines of the TOML file that `BUDGETREC_SETTINGS_FILE` names; "
            "the environment wins. `budgetrec serve --print-settings` shows what is in force."
        ),
        "",
        "| variable | default | takes | what it does |",
        "|---|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "" if "key" in name and "per_second" not in name else field.get_default()
        shown = "" if default in (None, "", ()) else f"`{default}`"
        lines.append(f"| `{PREFIX}{name.upper()}` | {shown} | {_takes(schema[name])} | {_cell(field.description)} |")
    return "\n".join(lines) + "\n"


def _takes(schema: dict[str, Any]) -> str:
    """Return what a value may be, in words."""
    branch = next((each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"), schema)
    if "enum" in branch:
        return " or ".join(f"`{value}`" for value in branch["enum"])
    kind = {"integer": "whole number", "boolean": "true or false", "array": "list"}
    named = branch.get("type", "")
    words = kind.get(named, named if named in ("number", "object") else "text")
    low, high = branch.get("minimum"), branch.get("maximum")
    if low is not None and high is not None:
        return f"{words}, {low:g} to {high:g}" if high < 10**6 else f"{words} from {low:g}"
    return words


def metrics() -> str:
    """Return every metric with its labels."""
    lines = ["# Metrics", "", "All workers together, at `GET /metrics` of any of them.", ""]
    lines += ["| metric | kind | labels | what it says |", "|---|---|---|---|"]
    # Those of several models and of scenarios are there where these are.
    for family in layout_of(("main", "new"), ("home",)).families:
        labels = ", ".join(f"`{name}`" for name, _ in family.labels)
        lines.append(f"| `{family.name}` | {family.kind} | {labels} | {_cell(family.help)} |")
    return "\n".join(lines) + "\n"


def alerts() -> str:
    """Return every alert with its expression; what to do about it is in the runbook."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules" / "alerts.yml").read_text(encoding="utf-8"))
    lines = ["# Alerts", "", "What to do about each is in the [runbook](../guide/operations.md).", ""]
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        notes = rule["annotations"]
        lines += [f"## {rule['alert']}", "", f"*{rule['labels']['severity']}* after {rule.get('for', 'no time')}. "]
        lines += [notes["description"], "", "```promql", rule["expr"].strip(), "```", ""]
    return "\n".join(lines)


def calls() -> str:
    """Return every call with its parameters, its body and its errors, from the OpenAPI document."""
    described = document()
    schemas = described["components"]["schemas"]
    lines = ["# Calls", "", "The same as `/docs` and `/redoc` of a running service show, and as `/openapi.json`.", ""]
    for path, methods in described["paths"].items():
        for method, call in methods.items():
            lines += [f"## {method.upper()} {path}", "", call.get("description", ""), ""]
            rows = [
                (p["name"], p["required"], p["schema"], p.get("description", "")) for p in call.get("parameters", ())
            ]
            for media in call.get("requestBody", {}).get("content", {}).values():
                for branch in media["schema"].get("anyOf", [media["schema"]]):
                    body = schemas.get(branch.get("$ref", "").rpartition("/")[2], {})
                    needed = body.get("required", ())
                    rows += [
                        (name, name in needed, field, field.get("description", ""))
                        for name, field in body.get("properties", {}).items()
                    ]
            if rows:
                lines += ["| parameter | takes | |", "|---|---|---|"]
                lines += [
                    f"| `{name}`{' (required)' if required else ''} | {_takes(schema)} | {_cell(said)} |"
                    for name, required, schema, said in rows
                ]
                lines.append("")
            answered = [
                (name, words, said)
                for media in call["responses"].get("200", {}).get("content", {}).values()
                for name, words, said in _fields(media.get("schema", {}), schemas)
            ]
            if answered:
                lines += ["| the answer has | | |", "|---|---|---|"]
                lines += [f"| `{name}` | {words} | {_cell(said)} |" for name, words, said in answered]
                lines.append("")
            lines.append("| status | |\n|---|---|")
            lines += [f"| {status} | {_cell(answer['description'])} |" for status, answer in call["responses"].items()]
            lines.append("")
    return "\n".join(lines)


def _fields(schema: dict[str, Any], schemas: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield the fields of an answer with what is in them: `items[].score`."""
    for name, field in schemas.get(schema.get("$ref", "").rpartition("/")[2], {}).get("properties", {}).items():
        branches = field.get("anyOf", [field])
        may_be_null = {"type": "null"} in branches
        branch = next(each for each in branches if each.get("type") != "null")
        is_list = branch.get("type") == "array"
        inner = branch["items"] if is_list else branch
        words = "list" if is_list else "object" if "$ref" in inner else _takes(branch)
        yield f"{prefix}{name}", words + (" or null" if may_be_null else ""), field.get("description", "")
        for each in inner.get("anyOf", [inner]):
            yield from _fields(each, schemas, f"{prefix}{name}{'[].' if is_list else '.'}")


def commands() -> str:
    """Return every command with its options, from the command line's own help."""
    group = typer.main.get_command(app)
    lines = ["# Commands", "", "`budgetrec COMMAND --help` says the same.", ""]
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        parts = getattr(command, "commands", {"": command})
        for part, inner in parts.items():
            lines += [f"## budgetrec {name} {part}".rstrip(), "", *_help(inner), ""]
    return "\n".join(lines)


def _help(command: Command) -> list[str]:
    said = re.sub(r"\[/?[a-z ]+\]", "", (command.help or "").replace("\b", ""))
    lines = [said, ""]
    options = [parameter for parameter in command.params if parameter.name != "help"]
    if options:
        lines += ["| option | |", "|---|---|", *(_option(option) for option in options)]
    if command.epilog:
        lines += ["", "```sh", re.sub(r"^\s*Example:\s*", "", command.epilog.replace("\b", "")).strip(), "```"]
    return lines


def _option(parameter: Parameter) -> str:
    name = ", ".join(parameter.opts) if parameter.param_type_name == "option" else str(parameter.name).upper()
    return f"| `{name}` | {_cell(getattr(parameter, 'help', None) or '')} |"


REFERENCE = {"calls": calls, "settings": settings, "metrics": metrics, "alerts": alerts, "commands": commands}
