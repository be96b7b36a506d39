"""`budgetrec build`: from files to a bundle."""

import json
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from greedy_core.bundle import Bundle
from greedy_core.directions import KINDS
from greedy_core.errors import StorageError
from greedy_core.storage import read_manifest
from greedy_core.versions import VersionsFolder
from service.building import build_bundle
from service.cli.console import facts, note, say, size, table, watched
from service.cli.inputs import read_seen, read_texts, read_vectors

_EXAMPLE = (
    "Example: budgetrec build --items items.npy --users users.npy --item-ids ids.txt --seen seen.npz --models models "
    "--promote"
)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog=_EXAMPLE)(build)


def build(
    *,
    items: Annotated[str, typer.Option(help="Item vectors: FILE or FILE:KEY; .npy, .npz, .parquet, .safetensors.")],
    users: Annotated[str | None, typer.Option(help="User vectors, in the same formats.")] = None,
    item_ids: Annotated[
        str | None, typer.Option(help="One id per item: .txt, .json, .npy or .parquet:COLUMN. Default: positions.")
    ] = None,
    user_ids: Annotated[str | None, typer.Option(help="One id per user, in the same formats.")] = None,
    titles: Annotated[str | None, typer.Option(help="One title per item, in the same formats; may be empty.")] = None,
    seen: Annotated[
        Path | None, typer.Option(help=".npz with user and item: pairs of ids of what was seen, or a SciPy CSR matrix.")
    ] = None,
    directions: Annotated[str, typer.Option(help=f"Along what items are sorted: {', '.join(KINDS)}.")] = "auto",
    max_budget: Annotated[int, typer.Option(min=1, help="The largest budget that the lists serve.")] = 4096,
    output: Annotated[Path | None, typer.Option(help="Write the bundle to this new directory.")] = None,
    models: Annotated[Path | None, typer.Option(help="Write the bundle as a version in this models folder.")] = None,
    version: Annotated[str | None, typer.Option(help="Name of the version. Default: the time, in UTC.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to keep with the model, any number of times; VALUE may be JSON.")
    ] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Make it the current version of the folder.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to build with. Default: all cores.")] = None,
) -> None:
    """Build a model bundle from vectors."""
    if directions not in KINDS:
        raise typer.BadParameter(f"{directions!r} is none of {', '.join(KINDS)}", param_hint="--directions")
    path = _target(output, models, version, promote=promote)
    notes = _metadata(metadata or [])
    began = perf_counter()
    item_vectors, ids_beside_items = read_vectors(items)
    user_vectors, ids_beside_users = read_vectors(users) if users else (None, None)
    names = read_texts(item_ids) if item_ids else ids_beside_items
    user_names = read_texts(user_ids) if user_ids else ids_beside_users
    history = None
    if seen is not None:
        n_users = len(user_vectors) if user_vectors is not None else len(user_names or ())
        history = read_seen(seen, n_users, len(item_vectors), user_names, names)
        if history.n_unknown:
            note(f"{history.n_unknown} pairs in {seen} name users or items that the model does not have; left out.")
    made = build_bundle(
        path,
        items=item_vectors,
        users=user_vectors,
        item_ids=names,
        user_ids=user_names,
        titles=read_texts(titles) if titles else None,
        seen=None if history is None else (history.starts, history.items),
        directions=directions,
        max_budget=max_budget,
        metadata=notes,
        version=version,
        threads=threads,
        progress=watched(),
    )
    _summarise(made, perf_counter() - began)
    if models is not None and promote:
        VersionsFolder(models).promote(path.name)
        say(f"{path.name} is now the current version in {models}.")


def show_calibration(made: Bundle) -> None:
    """Print what each budget buys, or say that nobody measured it."""
    points = (made.calibration or {}).get("points", ())
    if not points:
        say("This bundle has no calibration: `target_recall` and /budgets will not be answered.")
        return
    columns = [name for name in points[0] if all(name in point for point in points)]
    rows = [[_cell(point[name]) for name in columns] for point in points]
    heads = [name.replace("_at_", "@").replace("_", " ") for name in columns]
    table(heads, rows, right=heads)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _target(output: Path | None, models: Path | None, version: str | None, *, promote: bool) -> Path:
    """Return where the bundle goes, and refuse at once what would fail after the work is done."""
    if (output is None) == (models is None):
        raise typer.BadParameter("give either --output DIRECTORY or --models FOLDER")
    if output is not None and promote:
        raise typer.BadParameter("--promote needs --models, the folder whose current version changes")
    if version is not None and (not version or version.startswith(".") or "/" in version):
        raise typer.BadParameter(f"{version!r} is no name for a version", param_hint="--version")
    if models is not None:
        path = models / (version or _version_now(models))
    else:
        assert output is not None  # noqa: S101 - one of the two was given
        path = output
    if path.exists() or path.is_symlink():
        raise StorageError(f"{path} already exists and models are never overwritten; choose another name.")
    return path


def _version_now(models: Path) -> str:
    now = datetime.now(UTC)
    name = now.strftime("%Y-%m-%dT%H-%M")
    return name if not (models / name).exists() else now.strftime("%Y-%m-%dT%H-%M-%S")


def _metadata(pairs: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--metadata")
        try:
            found[name] = json.loads(value, parse_constant=lambda constant: constant)
        except ValueError:
            found[name] = value
    return found


def _summarise(made: Bundle, seconds: float) -> None:
    show_calibration(made)
    facts(
        [
            ("bundle", made.path),
            ("version", made.version),
            ("items", f"{made.n_items} x {made.n_dims}"),
            ("users", made.n_users),
            ("directions", f"{made.index.directions}, for budgets up to {made.index.max_budget}"),
            ("size", size(read_manifest(made.path).bytes)),
            ("built in", f"{seconds:.1f} s"),
        ]
    )
