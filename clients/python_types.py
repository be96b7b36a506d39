"""Write the Python client's types from clients/openapi.json: `python -m clients.python_types`.

Each schema becomes a TypedDict, and so do the query parameters of each GET call that has any. A parameter that the
service gains is a parameter of the client as soon as this has run.
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).with_name("openapi.json")
_NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_HEAD = '''"""What goes in and what comes out. Made from clients/openapi.json by `make client`; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict
'''


def annotation(schema: dict[str, Any]) -> str:
    """Return the Python type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(annotation(branch) for branch in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return "Literal[" + ", ".join(json.dumps(value) for value in values) + "]"
    if schema.get("type") == "array":
        return f"list[{annotation(schema.get('items', {}))}]"
    if schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        return f"dict[str, {annotation(inner) if isinstance(inner, dict) else 'Any'}]"
    return _NAMES.get(schema.get("type", ""), "Any")


def typed_dict(name: str, fields: dict[str, dict[str, Any]], required: set[str], description: str) -> str:
    """Return the definition of one TypedDict."""
    types = {
        field: annotation(schema) if field in required else f"NotRequired[{annotation(schema)}]"
        for field, schema in fields.items()
    }
    if any(keyword.iskeyword(field) or not field.isidentifier() for field in fields):
        # A field called `from` or `name[]` has to be written as a text; so have the types in it.
        entries = "".join(f"    {json.dumps(field)}: {json.dumps(type_)},\n" for field, type_ in types.items())
        return f'{name} = TypedDict("{name}", {{\n{entries}}})\n'
    lines = [f"class {name}(TypedDict):\n", f'    """{" ".join(description.split())}"""\n\n']
    for field, type_ in types.items():
        said = fields[field].get("description", "")
        lines += [f"    #: {line}\n" for line in textwrap.wrap(" ".join(said.split()), 110)]
        lines.append(f"    {field}: {type_}\n")
    return "".join(lines)


def text(document: dict[str, Any]) -> str:
    """Return the module."""
    parts = [_HEAD]
    for name, schema in sorted(document["components"]["schemas"].items()):
        fields, required = schema.get("properties", {}), set(schema.get("required", ()))
        parts.append(typed_dict(name, fields, required, schema.get("description", name)))
    for path, calls in document["paths"].items():
        parameters = [p for p in calls.get("get", {}).get("parameters", ()) if p["in"] == "query"]
        if parameters:
            name = "".join(part.title() for part in path.strip("/").split("/")) + "Query"
            fields = {p["name"]: p["schema"] | {"description": p.get("description", "")} for p in parameters}
            required = {p["name"] for p in parameters if p["required"]}
            parts.append(typed_dict(name, fields, required, f"The parameters of GET {path}."))
    return "\n\n".join(part.rstrip("\n") + "\n" for part in parts)


if __name__ == "__main__":
    sys.stdout.write(text(json.loads(DOCUMENT.read_text(encoding="utf-8"))))
