"""`budgetrec build`: from files to a bundle."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from greedy_core import (
    DIRECTION_KINDS,
    ID_COLUMNS,
    PRECISIONS,
    Attributes,
    Bundle,
    Calibration,
    Precision,
    ShardOrder,
    StorageError,
    VersionsFolder,
    build_bundle,
    build_one_by_one,
    build_shards,
    check_version_name,
    load_attributes,
    load_embeddings,
    load_seen,
    load_texts,
)
from service.cli.calibration import show_calibration, show_choice
from service.cli.console import facts, note, say, size, table
from service.cli.ray import check_ray

_EXAMPLE = (
    "Example: budgetrec build --items items.npy --users users.npy --item-ids ids.txt --seen seen.npz --models models "
    "--promote"
)


OnRay = Annotated[
    bool, typer.Option("--ray", help="Build the shards as Ray tasks, here or on the cluster that RAY_ADDRESS names.")
]
Rows = Annotated[
    str,
    typer.Option(help=f"Store the items' vectors in {', '.join(PRECISIONS)}: 16 bits take half the memory."),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog=_EXAMPLE)(build)


def build(
    *,
    items: Annotated[
        str, typer.Option(help="Item vectors: FILE or FILE:KEY; .npy, .npz, .parquet, .safetensors, .pt, .csv; .gz.")
    ],
    users: Annotated[str | None, typer.Option(help="User vectors, in the same formats.")] = None,
    item_ids: Annotated[
        str | None,
        typer.Option(help="One id per item: .txt, .json, .npy, .parquet:COLUMN, .csv:COLUMN. Default: positions."),
    ] = None,
    user_ids: Annotated[str | None, typer.Option(help="One id per user, in the same formats.")] = None,
    titles: Annotated[
        str | None,
        typer.Option(help="One title per item, in the same formats; may be empty. Default: the attribute title."),
    ] = None,
    seen: Annotated[
        Path | None, typer.Option(help=".npz with user and item: pairs of ids of what was seen, or a SciPy CSR matrix.")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(help="What else is known of items, by item_id: .parquet, .csv, .jsonl, or FILE:ID_COLUMN."),
    ] = None,
    directions: Annotated[
        str, typer.Option(help=f"Along what items are sorted: {', '.join(DIRECTION_KINDS)}.")
    ] = "auto",
    max_budget: Annotated[int, typer.Option(min=1, help="The largest budget that the lists serve.")] = 4096,
    rows: Rows = "float32",
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
    similar: Annotated[
        bool,
        typer.Option(
            "--similar/--no-similar", help="Index the items a second time, so that similar ones are by cosine."
        ),
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw recall and time against the budget: FILE.png.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to build with. Default: all cores.")] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Split the index into so many shards, to be served by a cluster.")
    ] = None,
    ray: OnRay = False,
) -> None:
    """Build a model bundle from vectors, and show what each budget buys."""
    if directions == "learned":
        note("--directions learned is now what auto finds by itself.")
        directions = "auto"
    if directions not in DIRECTION_KINDS:
        raise typer.BadParameter(f"{directions!r} is none of {', '.join(DIRECTION_KINDS)}", param_hint="--directions")
    precision = checked_rows(rows)
    if ray and shards is None:
        raise typer.BadParameter("it builds shards; say how many with --shards", param_hint="--ray")
    path = target(output, models, version, promote=promote)
    draw = None if plot is None else _drawer(plot, measured=calibrate and users is not None)
    notes = parse_metadata(metadata or [])
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
    known = None if attributes is None else read_attributes(attributes, len(item_vectors), names)
    build_it = build_bundle if shards is None else partial(build_shards, n_shards=shards, build=shard_builder(ray=ray))
    made = build_it(
        path,
        items=item_vectors,
        users=user_vectors,
        item_ids=names,
        user_ids=user_names,
        titles=load_texts(titles) if titles else titles_among(known),
        seen=None if history is None else (history.starts, history.items),
        attributes=known,
        directions=directions,
        max_budget=max_budget,
        similar=similar,
        metadata=notes,
        version=version,
        calibrated=calibrate,
        threads=threads,
        progress=True,
        precision=precision,
    )
    summarise(made, perf_counter() - began)
    if draw is not None:
        draw(made)
    if models is not None and promote:
        VersionsFolder(models).promote(path.name)
        say(f"{path.name} is now the current version in {models}.")


def shard_builder(*, ray: bool) -> Callable[[Iterable[ShardOrder]], None]:
    """Return what builds shards: one after the other here, or by Ray."""
    if not ray:
        return build_one_by_one
    check_ray("--ray")
    from service.cluster.building import build_on_ray  # noqa: PLC0415 - an optional extra

    return build_on_ray


def read_attributes(
    source: str, n_items: int, item_ids: Sequence[object] | None, id_columns: Sequence[str] = ID_COLUMNS
) -> Attributes:
    """Read the attributes, and say what of the table is not among them."""
    loaded = load_attributes(source, n_items, item_ids, id_columns=id_columns)
    if loaded.n_unknown:
        rows = "1 row" if loaded.n_unknown == 1 else f"{loaded.n_unknown:,} rows"
        note(f"{rows} of {source} left out: the model has no such items.")
    if loaded.n_absent:
        note(f"{loaded.n_absent:,} of {n_items:,} items have no row in {source}; their attributes are missing.")
    for name, why in loaded.left_out.items():
        note(f"the column {name} of {source} is no attribute: {why}.")
    return loaded.attributes


def checked_rows(rows: str) -> Precision:
    """Return the precision that --rows names."""
    found = next((precision for precision in PRECISIONS if precision == rows), None)
    if found is None:
        raise typer.BadParameter(f"{rows!r} is none of {', '.join(PRECISIONS)}", param_hint="--rows")
    return found


def titles_among(attributes: Attributes | None, names: Sequence[str] = ("title",)) -> list[str | None] | None:
    """Return the first attribute of these names that is a text, None if there is none."""
    if attributes is None:
        return None
    name = next((name for name in names if name in attributes and attributes[name].kind == "text"), None)
    if name is None:
        return None
    titles = attributes[name]
    return [None if (title := titles.value(position)) is None else str(title) for position in range(attributes.n_items)]


def show_attributes(made: Bundle) -> None:
    """Print the attributes of the items, if there are any."""
    if not len(made.attributes):
        return
    heads = ["attribute", "type", "values", "missing"]
    rows = [
        [each["name"], each["type"], f"{each['values']:,}", f"{each['missing']:.1%}"]
        for each in made.attributes.describe()
    ]
    table(heads, rows, right=heads[2:])


def _drawer(path: Path, *, measured: bool) -> Callable[[Bundle], None]:
    """Return what draws a bundle's calibration to `path`, and refuse at once what would fail after the work is done."""
    try:
        from service.cli.plots import FORMATS, draw_calibration  # noqa: PLC0415 - an optional extra
    except ModuleNotFoundError:
        raise StorageError(
            "--plot needs matplotlib, which is not installed; in a checkout of budgetrec, run: pip install '.[bench]'."
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


def target(output: Path | None, models: Path | None, version: str | None, *, promote: bool) -> Path:
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


def parse_metadata(pairs: list[str]) -> dict[str, Any]:
    """Return what KEY=VALUE pairs say; a value that is JSON is read as such."""
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


def summarise(made: Bundle, seconds: float) -> None:
    """Print what was made, and what each budget buys."""
    facts(
        [
            ("bundle", made.path),
            ("version", made.version),
            ("items", f"{made.n_items} x {made.n_dims}, {made.index.precision}"),
            ("users", made.n_users),
            ("directions", directions_of(made)),
            *([("shards", len(made.shards))] if made.shards else []),
            ("size", size(made.bytes)),
            ("built in", f"{seconds:.1f} s"),
        ]
    )
    show_attributes(made)
    show_choice(made)
    show_calibration(made)
