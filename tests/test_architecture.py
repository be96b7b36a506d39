"""The map is true: what the pages name exists, and imports point downwards."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# The rooms of the service from the ground up; a module may import from its own room and from those below.
LAYERS = [
    {"errors", "logs", "version"},
    {"http.keys", "experiment"},
    {"settings"},
    {"telemetry"},
    {"models"},
    {"answering"},
    {"http"},
    {"shared_memory"},
    {"worker"},
    {"front"},
    {"process"},
    {"demo"},
    {"cluster"},
    {"cli"},
]
# Used by those above and below: the limit of a key is part of a question's way, and knows of nothing but itself.
EVERYWHERE = {"http.key_limits"}


def modules(package):
    return sorted((ROOT / package).rglob("*.py"))


def name_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path):
    """What a module imports when it runs; what only the type checker sees does not count."""
    tree = ast.parse(path.read_text())
    unseen = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def layer_of(name):
    inner = name.removeprefix("service.")
    best = max(
        (
            (len(room), number)
            for number, rooms in enumerate(LAYERS)
            for room in rooms
            if inner == room or inner.startswith(room + ".")
        ),
        default=None,
    )
    return None if best is None else best[1]


@pytest.mark.parametrize("path", modules("service"), ids=name_of)
def test_the_service_imports_downwards_only(path):
    mine = layer_of(name_of(path))
    for imported in imports_of(path):
        if not imported.startswith("service.") or any(imported.startswith(f"service.{each}") for each in EVERYWHERE):
            continue
        theirs = layer_of(imported)
        assert theirs is None or mine is None or theirs <= mine, f"{name_of(path)} imports {imported} from above"


@pytest.mark.parametrize("path", modules("service"), ids=name_of)
def test_the_service_knows_the_library_by_its_public_names(path):
    for imported in imports_of(path):
        if imported.startswith("greedy_core"):
            assert imported.count(".") <= 1, f"{name_of(path)} imports {imported}"
        if name_of(path) != "service.cli.console":
            assert imported.partition(".")[0] != "rich", f"{name_of(path)} imports {imported}"


@pytest.mark.parametrize("path", modules("greedy_core"), ids=name_of)
def test_the_library_knows_nothing_of_the_service(path):
    assert not [imported for imported in imports_of(path) if imported.partition(".")[0] in {"service", "fastapi"}]


PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md"]


@pytest.mark.parametrize("page", PAGES)
def test_files_that_a_page_names_exist(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:greedy_core|service|deploy|loadtests|tests|docs|\.ci)/[\w./-]*)`", text))
    named |= set(re.findall(r"\]\(((?!https?:|#)[^)#]+)\)", text))
    # What a command writes is named too, and is not there before.
    named = {name for name in named if "/out/" not in name}
    missing = [
        name for name in named if not (ROOT / name).exists() and not (ROOT / page).parent.joinpath(name).exists()
    ]
    assert not missing


def test_functions_that_the_walk_through_names_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(r"`((?:greedy_core|service)/[\w/]+\.(?:py|pyx|h)):(\w+)(?:\.(\w+))?`", text)
    assert len(named) > 25
    for file, name, method in named:
        source = (ROOT / file).read_text()
        assert re.search(rf"\b(?:def|class|cdef class|struct|inline [\w:<>&* ]+?) {name}\b", source), (file, name)
        if method:
            assert re.search(rf"\bdef {method}\b", source), (file, name, method)


def test_every_module_has_its_place_on_the_map():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.parent for package in ("service", "greedy_core") for path in modules(package)}
    for room in rooms:
        assert f"{room.relative_to(ROOT)}/" in text, f"{room} is not on the map"


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda path: path.name)
def test_a_clean_clone_has_what_the_scripts_compile(script):
    # .gitignore leaves out what is generated; in the tree where a file was written nobody would miss it.
    for name in re.findall(r"(?:tests|greedy_core|loadtests)/[\w/]+\.(?:cpp|h|py|pyx)\b", script.read_text()):
        generated = name.startswith("greedy_core/_")
        assert generated or (ROOT / name).is_file(), name
