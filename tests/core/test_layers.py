"""Imports point downwards: no module reaches itself again, whether at once, lazily or for its types only."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import greedy_core

ROOT = Path(greedy_core.__file__).parent


def name_of(path: Path) -> str:
    parts = ["greedy_core", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in ROOT.rglob("*.py")}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports the module.
            modules = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= modules or {node.module}
    return found & MODULES.keys()


IMPORTS = {name: imports_of(path) for name, path in MODULES.items()}


def test_there_is_no_circle():
    order = list(TopologicalSorter(IMPORTS).static_order())
    assert order[-1] == "greedy_core"
    assert len(order) == len(MODULES) > 30


def test_what_is_fitted_knows_no_index_and_no_bundle():
    for name, imported in IMPORTS.items():
        if name.startswith("greedy_core.fit"):
            assert not {other for other in imported if other.startswith(("greedy_core.index", "greedy_core.bundle"))}


def test_only_the_package_imports_the_recipe():
    assert {name for name, imported in IMPORTS.items() if "greedy_core.build" in imported} == {"greedy_core"}
