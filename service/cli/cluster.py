"""`budgetrec cluster serve`: the service on Ray."""

import math
import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.console import note
from service.cli.ray import check_ray

_cluster = typer.Typer(no_args_is_help=True, help="The service on many machines, by Ray.")


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(_cluster, name="cluster")
    _cluster.command(epilog="Example: budgetrec cluster serve --models sharded --replicas 2")(serve)


def serve(
    *,
    models: Annotated[Path, typer.Option(help="A models folder whose current version has shards, or one such bundle.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    replicas: Annotated[int, typer.Option(min=1, help="Replicas of each shard.")] = 1,
    ingresses: Annotated[int, typer.Option(min=1, help="Replicas of the ingress.")] = 1,
    cpus: Annotated[
        float, typer.Option(min=0, help="Cores that Ray sets aside for each replica; less than 1 shares them.")
    ] = 1.0,
    shard_ms: Annotated[float, typer.Option(min=1, help="A request waits for its shards this long at most.")] = 1000.0,
    hedge_ms: Annotated[
        float, typer.Option(min=0, help="A shard that is late by this is asked a second time; 0: never.")
    ] = 50.0,
) -> int:
    """Serve a model in shards on Ray, here or on the cluster that RAY_ADDRESS names, until told to stop.

    For clusters that run on: `serve run service.cluster:app models=/models`, or the files in deploy/ray.
    """
    check_ray("budgetrec cluster")
    from ray import serve as ray_serve  # noqa: PLC0415 - an optional extra

    from service.cluster.application import ClusterArguments, app, cores_wanted  # noqa: PLC0415
    from service.cluster.starting import connect, cores_there, start_serve  # noqa: PLC0415

    arguments = ClusterArguments(
        models=models.resolve(),
        replicas=replicas,
        ingresses=ingresses,
        shard_cpus=cpus,
        ingress_cpus=cpus,
        shard_ms=shard_ms,
        hedge_ms=hedge_ms,
    )
    try:
        application = app(arguments)
    except ValueError as reason:
        raise typer.BadParameter(str(reason)) from None
    connect()
    wanted, there = cores_wanted(arguments), cores_there()
    if wanted > there:
        lacking = f"shards and ingresses want {wanted:g} cores, {cpus:g} for each replica, and Ray has {there:g}"
        if "RAY_ADDRESS" not in os.environ:
            raise typer.BadParameter(
                f"{lacking}: share them with --cpus {math.floor(100 * there * cpus / wanted) / 100:g}.",
                param_hint="--cpus",
            )
        note(f"{lacking}: it waits until there are more.")
    stopped = threading.Event()
    is_ready = False

    def stop(*_: Any) -> None:
        stopped.set()
        if not is_ready:
            # Serve waits for its replicas, and would not look at an event.
            raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        start_serve(host, port)
        note("Starting the shards and the ingress.")
        ray_serve.run(application, name="budgetrec")
        is_ready = True
        note(f"Serving on http://{host}:{port}; stop with Ctrl-C.")
        stopped.wait()
    finally:
        ray_serve.shutdown()
    return 0
