"""`budgetrec promote`, `rollback` and `prune`: which version of a models folder is served, and which are kept."""

from typing import Annotated

import typer

from greedy_core import Bundle, VersionsFolder
from service.cli.console import bytes_bar, say
from service.cli.places import Models
from service.settings import DEFAULT_MODELS


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec promote 2026-11-16T08-00 --models models")(promote)
    app.command(epilog="Example: budgetrec rollback --models models")(rollback)
    app.command(epilog="Example: budgetrec prune --models models --keep 3")(prune)


def promote(
    version: Annotated[str, typer.Argument(help="The version to serve.")],
    *,
    models: Models = DEFAULT_MODELS,
    check: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare all checksums before.")] = True,
) -> None:
    """Make a version current; services that watch the folder switch to it."""
    folder = VersionsFolder(models)
    before = folder.current_version()
    if check and version in folder.versions():
        with bytes_bar("verifying") as progress:
            Bundle.open(models / version).verify(progress)
    folder.promote(version)
    after = f"before: {before}" if before != version else "as before"
    say(f"{version} is the current version in {models} ({after}).")


def rollback(*, models: Models = DEFAULT_MODELS) -> None:
    """Return to the version that was current before; once more, to the one before that."""
    folder = VersionsFolder(models)
    before = folder.current_version()
    version = folder.rollback()
    say(f"{version} is the current version in {models} (before: {before}).")


def prune(
    *,
    models: Models = DEFAULT_MODELS,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions stay.")] = 3,
) -> None:
    """Remove old versions; the current one and the one that a rollback returns to always stay."""
    removed = VersionsFolder(models).prune(keep)
    say(f"removed from {models}: {', '.join(removed)}." if removed else f"nothing to remove from {models}.")
