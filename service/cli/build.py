"""`budgetrec build`: from files to a bundle."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from greedy_core import (
    DIRECTION_KINDS,
    Bundle,
    Calibration,
    CalibrationError,
    StorageError,
    VersionsFolder,
    build_bundle,
    check_version_name,
    load_embeddings,
    load_seen,
    load_texts,
    read_manifest,
)
from service.cli.console import facts, note, say, size, table, watched

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
    directions: Annotated[
        str, typer.Option(help=f"Along what items are sorted: {', '.join(DIRECTION_KINDS)}.")
    ] = "auto",
    max_budget: Annotated[int, typer.Option(min=1, help="The largest budget that the lists serve.")] = 4096,
    output: Annotated[Path | None, typer.Option(help="Write the bundle to this new directory.")] = None,
    models: Annotated[Path | None, typer.Option(help="Write the bundle as a version in this models folder.")] = None,
    version: Annotated[str | None, typer.Option(help="Name of the version. Default: the time, in UTC.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to keep with the model, any number of times; VALUE may be JSON.")
    ] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Make it the current version of the folder.")] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate/--no-calibrate", help="Measure on some users what each budget buys.")
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw recall and time against the budget: FILE.png.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to build with. Default: all cores.")] = None,
) -> None:
    """Build a model bundle from vectors, and show what each budget buys."""
    if directions == "learned":
        note("--directions learned is now what auto finds by itself.")
        directions = "auto"
    if directions not in DIRECTION_KINDS:
        raise typer.BadParameter(f"{directions!r} is none of {', '.join(DIRECTION_KINDS)}", param_hint="--directions")
    path = _target(output, models, version, promote=promote)
    draw = None if plot is None else _drawer(plot, measured=calibrate and users is not None)
    notes = _metadata(metadata or [])
    began = perf_counter()
    item_vectors, ids_beside_items = load_embeddings(items)
    user_vectors, ids_beside_users = load_embeddings(users) if users else (None, None)
    names = load_texts(item_ids) if item_ids else ids_beside_items
    user_names = load_texts(user_ids) if user_ids else ids_beside_users
    history = None
    if seen is not None:
        n_users = len(user_vectors) if user_vectors is not None else len(user_names or ())
        history = load_seen(seen, n_users, len(item_vectors), user_names, names)
        if history.n_unknown:
            note(f"{history.n_unknown} pairs in {seen} name users or items that the model does not have; left out.")
    made = build_bundle(
        path,
        items=item_vectors,
        users=user_vectors,
        item_ids=names,
        user_ids=user_names,
        titles=load_texts(titles) if titles else None,
        seen=None if history is None else (history.starts, history.items),
        directions=directions,
        max_budget=max_budget,
        metadata=notes,
        version=version,
        calibrated=calibrate,
        threads=threads,
        progress=watched(),
    )
    _summarise(made, perf_counter() - began)
    if draw is not None:
        draw(made)
    if models is not None and promote:
        VersionsFolder(models).promote(path.name)
        say(f"{path.name} is now the current version in {models}.")


def show_calibration(made: Bundle) -> None:
    """Print what each budget buys and how sure that is, or say that nobody measured it."""
    if not made.calibration:
        say("This bundle has no calibration: `target_recall` and /budgets will not be answered.")
        return
    try:
        calibration = Calibration.from_dict(made.calibration)
    except CalibrationError as reason:
        say(f"The calibration of this bundle cannot be used and counts as none: {reason}")
        return
    _show_curve(calibration)
    say(_sample(calibration))
    if calibration.vectors is not None:
        say("A vector from outside, about which nothing was worked out beforehand:")
        _show_curve(calibration.vectors)
        say(f"screening by {calibration.vectors.screening}")


def _show_curve(calibration: Calibration) -> None:
    heads = ["budget", "recall@10", "prec@5", "us per search", "best screening"]
    rows = [
        [
            f"{point.budget:,}",
            f"{point.recall_at_10:.4f} ± {point.standard_error:.4f}",
            f"{point.prec_at_5:.3f}",
            f"{point.seconds * 1e6:.1f}",
            point.best,
        ]
        for point in calibration.points
    ]
    table(heads, rows, right=heads[:-1])


def _sample(calibration: Calibration) -> str:
    """Say whom the curve was measured on."""
    n = f"{calibration.sample_size:,}"
    who = f"{n} held-out users" if calibration.held_out else f"{n} users, too few to hold any out"
    return f"measured on {who}, screening by {calibration.screening}; ± is one standard error"


def _drawer(path: Path, *, measured: bool) -> Callable[[Bundle], None]:
    """Return what draws a bundle's calibration to `path`, and refuse at once what would fail after the work is done."""
    try:
        from service.cli.plots import FORMATS, draw_calibration  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(
            "--plot needs matplotlib, which is not installed; run: pip install 'budgetrec[bench]'."
        ) from None
    if path.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{path} is none of {', '.join(FORMATS)}", param_hint="--plot")
    if not measured:
        raise typer.BadParameter("it draws the calibration, which needs --users and --calibrate", param_hint="--plot")
    if not path.parent.is_dir():
        raise StorageError(f"{path.parent} is no directory to draw {path.name} in; make it, or name another one.")

    def draw(made: Bundle) -> None:
        if made.calibration:
            calibration = Calibration.from_dict(made.calibration)
            title = f"{made.version}: {made.n_items:,} items x {made.n_dims}, {calibration.directions} directions"
            draw_calibration(calibration, path, title=title)
            say(f"drawn: {path}")

    return draw


def _target(output: Path | None, models: Path | None, version: str | None, *, promote: bool) -> Path:
    """Return where the bundle goes, and refuse at once what would fail after the work is done."""
    if (output is None) == (models is None):
        raise typer.BadParameter("give either --output DIRECTORY or --models FOLDER")
    if output is not None and promote:
        raise typer.BadParameter("--promote needs --models, the folder whose current version changes")
    if version is not None:
        try:
            check_version_name(version)
        except StorageError as reason:
            raise typer.BadParameter(str(reason), param_hint="--version") from None
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


def directions_of(made: Bundle) -> str:
    """Return along what the items are sorted, how candidates are screened, and for which budgets."""
    index = made.index
    return f"{index.directions}, screening by {index.screening}, for budgets up to {index.max_budget:,}"


def _summarise(made: Bundle, seconds: float) -> None:
    facts(
        [
            ("bundle", made.path),
            ("version", made.version),
            ("items", f"{made.n_items} x {made.n_dims}"),
            ("users", made.n_users),
            ("directions", directions_of(made)),
            ("size", size(read_manifest(made.path).bytes)),
            ("built in", f"{seconds:.1f} s"),
        ]
    )
    show_calibration(made)
