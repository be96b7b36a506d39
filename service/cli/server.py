"""`budgetrec serve` and `budgetrec demo`."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from greedy_core import Bundle, NotAModelError, VersionsFolder
from service import demo as demo_model
from service.cli.console import note, say
from service.cli.places import Models
from service.experiment import NAME
from service.process.supervisor import serve as serve_until_stopped
from service.settings import DEFAULT_MODELS, PREFIX, Settings

Host = Annotated[str | None, typer.Option(help="Address to listen on.")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 picks a free one.")]
Workers = Annotated[int | None, typer.Option(help="Worker processes; they share one copy of the model.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: BUDGETREC_DEFAULT_BUDGET=128 budgetrec serve --models models --workers 2")(serve)
    app.command(epilog="Example: budgetrec demo --port 8000")(demo)


def serve(
    *,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="A models folder, whose current version is served, or one bundle. Several are named, and the first "
            "is the default: --models main=models/main --models new=models/new."
        ),
    ] = None,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    wait: Annotated[
        bool | None, typer.Option("--wait", help="Start although the models folder is not there yet, and wait for it.")
    ] = None,
    print_settings: Annotated[
        bool, typer.Option("--print-settings", help="Print all settings as JSON, keys masked, and exit.")
    ] = False,
) -> int:
    """Serve recommendations over HTTP until told to stop.

    Everything else is set by environment variables BUDGETREC_... or the TOML file that BUDGETREC_SETTINGS_FILE names;
    --print-settings shows what there is.
    """
    settings = make_settings(models=read_models(models), host=host, port=port, workers=workers, wait=wait)
    if print_settings:
        say(json.dumps(settings.printable(), indent=1))
        return 0
    for name, folder in settings.folders.items():
        if not folder.is_dir() and not settings.wait:
            which = f" for {name}" if len(settings.folders) > 1 else ""
            raise NotAModelError(
                f"there is no models folder {folder}{which}; check the path, make a model with `budgetrec build` or "
                "`budgetrec demo`, or wait for it with --wait."
            )
    return serve_until_stopped(settings)


def read_models(given: list[str] | None) -> Path | dict[str, Path] | None:
    """Return what --models names: a path, or paths by name. A path that begins with `name=` needs ./ before it."""
    if not given:
        return None
    named = [text.partition("=") for text in given]
    if not all(equals and NAME.fullmatch(name) for name, equals, _ in named):
        if len(given) == 1:
            return Path(given[0])
        raise typer.BadParameter("several --models need names: --models main=models/main --models new=models/new")
    if len({name for name, _, _ in named}) < len(named):
        raise typer.BadParameter("--models gives two models the same name; each needs its own")
    return {name: Path(path) for name, _, path in named}


def demo(
    *,
    models: Models = DEFAULT_MODELS,
    host: Host = None,
    port: Port = None,
    workers: Workers = None,
    only_make: Annotated[bool, typer.Option("--only-make", help="Make the model and do not serve it.")] = False,
) -> int:
    """Make a small model with readable titles, unless it is there already, and serve it."""
    place = make_demo(models)
    if only_make:
        return 0
    recipes = None if f"{PREFIX}SCENARIOS" in os.environ else demo_model.SCENARIOS
    settings = make_settings(models=place, host=host, port=port, workers=workers, scenarios=recipes)
    # Written as a URL: what a person wants to click or copy.
    address = f"http://{settings.host}:{settings.port}"
    note(f"Try: curl '{address}/recommend?user_id=42&budget=256', with &scenario=home, or open {address}/ in a browser")
    return serve_until_stopped(settings)


def make_demo(models: Path) -> Path:
    """Return what to serve: the folder if the demo is its current version, else the demo bundle itself."""
    folder, path = VersionsFolder(models), models / demo_model.VERSION
    if path.exists():
        Bundle.open(path)
    else:
        demo_model.make(path)
        loved = ", ".join(f"{user} ({' and '.join(demo_model.tastes(user))})" for user in (1, 2, 42))
        note(f"Made the demo model {path}: 3,200 items in 20 topics, users 1 to 1000, for instance {loved}.")
    if folder.current_version() is None:
        folder.promote(demo_model.VERSION)
    return models if folder.current_version() == demo_model.VERSION else path


def make_settings(**given: Any) -> Settings:
    """Return the settings, with those given on the command line before all others."""
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = "_".join(str(part) for part in first["loc"])
        place = f"--{name} or {PREFIX}{name.upper()}: " if name else ""
        raise typer.BadParameter(f"{place}{first['msg'].removeprefix('Value error, ')}") from None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
