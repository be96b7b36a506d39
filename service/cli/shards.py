"""`budgetrec shard`: from a bundle to one whose index lies in shards."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from greedy_core import VersionsFolder, shard_bundle
from service.cli.build import OnRay, shard_builder, summarise, target
from service.cli.console import say
from service.cli.places import Place, open_bundle


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec shard models --shards 4 --models sharded --promote")(shard)


def shard(
    place: Place,
    *,
    shards: Annotated[int, typer.Option(min=1, help="How many shards.")],
    output: Annotated[Path | None, typer.Option(help="Write the bundle to this new directory.")] = None,
    models: Annotated[Path | None, typer.Option(help="Write the bundle as a version in this models folder.")] = None,
    version: Annotated[str | None, typer.Option(help="Name of the version. Default: the time, in UTC.")] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Make it the current version of the folder.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to build with. Default: all cores.")] = None,
    ray: OnRay = False,
) -> None:
    """Split a bundle into shards for a cluster; what was learned is kept, and what a budget buys is measured anew."""
    path = target(output, models, version, promote=promote)
    build = shard_builder(ray=ray)
    whole = open_bundle(place)
    began = perf_counter()
    made = shard_bundle(whole, path, shards, version=path.name, threads=threads, progress=True, build=build)
    summarise(made, perf_counter() - began)
    if models is not None and promote:
        VersionsFolder(models).promote(path.name)
        say(f"{path.name} is now the current version in {models}.")
