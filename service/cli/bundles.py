"""`budgetrec inspect` and `verify`: what a bundle or a folder of them holds."""

import json
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from greedy_core import Bundle, StorageError, VersionsFolder, is_bundle, read_manifest
from service.cli.build import directions_of, show_attributes
from service.cli.calibration import show_calibration, show_choice
from service.cli.console import bytes_bar, facts, say, size, table
from service.cli.places import Place, bundle_path
from service.cli.quality import show_quality
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
            "shards",
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
    opened = Bundle.open(path)
    with bytes_bar("verifying") as progress:
        opened.verify(progress)
    n_files = sum(len(read_manifest(part.path).files) for part in (opened, *opened.shards))
    parts = f" in {len(opened.shards)} shards" if opened.shards else ""
    say(f"{path} is sound: {n_files} files{parts}, {size(opened.bytes)}, {perf_counter() - began:.2f} s.")


def _describe(path: Path) -> dict[str, Any]:
    opened, manifest = Bundle.open(path), read_manifest(path)
    return {
        "path": str(path),
        "version": opened.version,
        "built_at": opened.built_at,
        "n_items": opened.n_items,
        "n_users": opened.n_users,
        "n_dims": opened.n_dims,
        "precision": opened.index.precision,
        "directions": opened.index.directions,
        "screening": str(opened.index.screening),
        "compared": [way._asdict() for way in opened.index.compared],
        "max_budget": opened.index.max_budget,
        "has_seen": opened.has_seen,
        "has_titles": opened.has_titles,
        "makes_vectors_by": "mean" if opened.fold_in is None else "fold_in",
        "similar_by": "inner_product" if opened.similar is None else "cosine",
        "attributes": opened.attributes.describe(),
        "bytes": opened.bytes,
        "shards": [
            {
                "name": shard.path.name,
                "n_items": shard.n_items,
                "bytes": shard.bytes,
                "mean_length": round(float(shard.index.lengths().mean()), 6),
                "longest": round(float(shard.index.lengths().max()), 6),
            }
            for shard in opened.shards
        ],
        "calibration": opened.calibration,
        "quality": None if opened.quality is None else opened.quality.to_dict(),
        "metadata": opened.metadata,
        "files": {name: {**file._asdict(), "shape": list(file.shape)} for name, file in manifest.files.items()},
    }


def _show(opened: Bundle, described: dict[str, Any]) -> None:
    facts(
        [
            ("bundle", described["path"]),
            ("version", described["version"]),
            ("built at", described["built_at"]),
            ("items", f"{described['n_items']} x {described['n_dims']}, {described['precision']}"),
            ("users", described["n_users"]),
            ("directions", directions_of(opened)),
            ("seen items", "yes" if described["has_seen"] else "no"),
            ("titles", "yes" if described["has_titles"] else "no"),
            ("new users", _NEW_USERS[described["makes_vectors_by"]]),
            ("similar items", f"by {described['similar_by'].replace('_', ' ')}"),
            ("size", size(described["bytes"])),
            ("metadata", json.dumps(described["metadata"], ensure_ascii=False)),
        ]
    )
    if opened.shards:
        _show_shards(described["shards"])
    show_attributes(opened)
    show_choice(opened)
    show_calibration(opened)
    if opened.quality is None:
        say("Not measured on real behaviour; `budgetrec train` does that.")
    else:
        show_quality(opened.quality)
    _show_bytes(described)
    rows = [
        [name, file["dtype"], " x ".join(map(str, file["shape"])), size(file["bytes"])]
        for name, file in described["files"].items()
    ]
    table(["file", "dtype", "shape", "size"], rows, right=["shape", "size"])


def _show_shards(shards: list[dict[str, Any]]) -> None:
    """Print what each shard holds; the items were dealt by length, so the lengths are much the same."""
    heads = ["shard", "items", "mean length", "longest", "size"]
    rows = [
        [
            each["name"],
            f"{each['n_items']:,}",
            f"{each['mean_length']:.4g}",
            f"{each['longest']:.4g}",
            size(each["bytes"]),
        ]
        for each in shards
    ]
    table(heads, rows, right=heads[1:])


_NEW_USERS = {
    "fold_in": "folded in from what they met, as the training would have",
    "mean": "the mean of what they met",
}
# Where the bytes go, by the beginning of an array's name; the first that fits counts.
_PARTS = {
    "index.rows": "item vectors",
    "index.list": "lists and axes",
    "index.axes": "lists and axes",
    "index.graph_codes": "compressed item vectors",
    "index.graph_details": "compressed item vectors",
    "index.graph": "graph",
    "items.ids": "item ids",
    "items.titles": "titles",
    "users.vectors": "user vectors",
    "users.known": "user vectors",
    "users.remembered": "users' best items",
    "users.ids": "user ids",
    "index.shard": "where items lie",
    "index.local": "where items lie",
    "index.positions": "where items lie",
    "index.starts": "where items lie",
    "shards": "shards",
    "seen": "seen items",
    "popular": "popular items",
    "fold_in": "matrices of the fold-in",
    "similar": "index of similar items",
}


def _show_bytes(described: dict[str, Any]) -> None:
    """Print what takes how much, the largest first."""
    sums: dict[str, int] = {}
    if described["shards"]:
        sums["shards"] = sum(shard["bytes"] for shard in described["shards"])
    for name, file in described["files"].items():
        part = next((part for start, part in _PARTS.items() if name.startswith(start)), name.partition(".")[0])
        sums[part] = sums.get(part, 0) + file["bytes"]
    rows = [
        [part, size(total), f"{total / max(described['bytes'], 1):.1%}"]
        for part, total in sorted(sums.items(), key=lambda pair: -pair[1])
    ]
    table(["where the bytes go", "size", "share"], rows, right=["size", "share"])


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
        "shards": str(len(opened.shards) or ""),
        "size": size(opened.bytes),
    }
