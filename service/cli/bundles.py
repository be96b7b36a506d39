"""`budgetrec inspect` and `verify`: what a bundle or a folder of them holds."""

import json
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from greedy_core import Bundle, StorageError, VersionsFolder, is_bundle, read_manifest
from service.cli.build import directions_of, show_calibration
from service.cli.console import bytes_bar, facts, say, size, table
from service.cli.places import Place, bundle_path
from service.settings import DEFAULT_MODELS


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec inspect models/2026-11-16T08-00")(inspect)
    app.command(epilog="Example: budgetrec verify models")(verify)


def inspect(
    place: Annotated[Path, typer.Argument(help="A bundle, or a models folder.")] = DEFAULT_MODELS,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a bundle holds, or which versions a folder holds."""
    if is_bundle(place) or not place.is_dir():
        described = _describe(place)
        if as_json:
            say(json.dumps(described, indent=1, ensure_ascii=False))
        else:
            _show(Bundle.open(place), described)
        return
    folder = VersionsFolder(place)
    versions = [_summary(folder, version) for version in folder.versions()]
    if as_json:
        answer = {"current": folder.current_version(), "previous": folder.previous_version(), "versions": versions}
        say(json.dumps(answer, indent=1, ensure_ascii=False))
    elif versions:
        columns = [
            "version",
            "pointer",
            "items",
            "users",
            "dims",
            "directions",
            "screening",
            "built",
            "size",
            "trouble",
        ]
        table(columns, [[row.get(column, "") for column in columns] for row in versions], right=columns[2:5])
    else:
        say(f"{place} holds no version; make one with `budgetrec build` or `budgetrec demo`.")


def verify(place: Place = DEFAULT_MODELS) -> None:
    """Read every file of a bundle and compare checksums."""
    path = bundle_path(place)
    began = perf_counter()
    with bytes_bar("verifying") as progress:
        Bundle.open(path).verify(progress)
    manifest = read_manifest(path)
    say(f"{path} is sound: {len(manifest.files)} files, {size(manifest.bytes)}, {perf_counter() - began:.2f} s.")


def _describe(path: Path) -> dict[str, Any]:
    opened, manifest = Bundle.open(path), read_manifest(path)
    return {
        "path": str(path),
        "version": opened.version,
        "built_at": opened.built_at,
        "n_items": opened.n_items,
        "n_users": opened.n_users,
        "n_dims": opened.n_dims,
        "directions": opened.index.directions,
        "screening": str(opened.index.screening),
        "max_budget": opened.index.max_budget,
        "has_seen": opened.has_seen,
        "has_titles": opened.has_titles,
        "bytes": manifest.bytes,
        "calibration": opened.calibration,
        "metadata": opened.metadata,
        "files": {name: {**file._asdict(), "shape": list(file.shape)} for name, file in manifest.files.items()},
    }


def _show(opened: Bundle, described: dict[str, Any]) -> None:
    facts(
        [
            ("bundle", described["path"]),
            ("version", described["version"]),
            ("built at", described["built_at"]),
            ("items", f"{described['n_items']} x {described['n_dims']}"),
            ("users", described["n_users"]),
            ("directions", directions_of(opened)),
            ("seen items", "yes" if described["has_seen"] else "no"),
            ("titles", "yes" if described["has_titles"] else "no"),
            ("size", size(described["bytes"])),
            ("metadata", json.dumps(described["metadata"], ensure_ascii=False)),
        ]
    )
    show_calibration(opened)
    rows = [
        [name, file["dtype"], " x ".join(map(str, file["shape"])), size(file["bytes"])]
        for name, file in described["files"].items()
    ]
    table(["file", "dtype", "shape", "size"], rows, right=["shape", "size"])


def _summary(folder: VersionsFolder, version: str) -> dict[str, Any]:
    pointers = {folder.previous_version(): "previous", folder.current_version(): "current"}
    summary: dict[str, Any] = {"version": version, "pointer": pointers.get(version, "")}
    try:
        opened = Bundle.open(folder.path / version)
    except StorageError as reason:
        return {**summary, "trouble": str(reason)}
    return {
        **summary,
        "items": opened.n_items,
        "users": opened.n_users,
        "dims": opened.n_dims,
        "directions": opened.index.directions,
        "screening": str(opened.index.screening),
        "built": opened.built_at,
        "size": size(read_manifest(opened.path).bytes),
    }
