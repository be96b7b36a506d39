"""`budgetrec train`: from a table of interactions to a bundle."""

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from greedy_core import (
    ID_COLUMNS,
    MODEL_KINDS,
    Attributes,
    Interactions,
    InvalidAttributesError,
    InvalidEventsError,
    ModelSettings,
    Quality,
    Trained,
    VersionsFolder,
    build_bundle,
    load_events,
    train,
)
from service.cli.build import Rows, checked_rows, parse_metadata, read_attributes, summarise, target, titles_among
from service.cli.console import note, say, table
from service.cli.quality import show_quality

_EXAMPLE = (
    "Example: budgetrec train events.parquet --user user_id --item item_id --time at --items items.parquet --models "
    "models --promote"
)


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("train", epilog=_EXAMPLE)(train_model)


def train_model(
    events: Annotated[
        Path, typer.Argument(help="Who met what: .parquet (or a folder of them), .csv, .csv.gz, .tsv or .npz.")
    ],
    *,
    user: Annotated[
        str | None, typer.Option(help="Column of the users' ids. Default: user_id, or a usual name.")
    ] = None,
    item: Annotated[
        str | None, typer.Option(help="Column of the items' ids. Default: item_id, or a usual name.")
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column of weights above 0, added up for a pair. Default: a pair counts 1.")
    ] = None,
    rating: Annotated[
        str | None, typer.Option(help="Column of grades: low ones count as seen, not as liked; see --min-rating.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of times: numbers or dates. The last tenth is held out.")
    ] = None,
    min_rating: Annotated[
        float | None, typer.Option(help="The lowest rating that counts as liked. Default: above the middle.")
    ] = None,
    min_user: Annotated[int, typer.Option(min=1, help="Leave out users with fewer items.")] = 1,
    min_item: Annotated[int, typer.Option(min=1, help="Leave out items with fewer users.")] = 1,
    items: Annotated[
        Path | None,
        typer.Option(help="A table of items, their titles and attributes: .parquet, .csv, .jsonl; text also with .gz."),
    ] = None,
    item_id: Annotated[str | None, typer.Option(help="Column of the ids in --items. Default: as --item.")] = None,
    title: Annotated[str | None, typer.Option(help="Column of the titles in --items. Default: title or name.")] = None,
    model: Annotated[
        str,
        typer.Option(help="als: least squares, a good start; bpr: ranks pairs; lmf: logistic matrix factorisation."),
    ] = "als",
    factors: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Dimensions of the vectors. Default: 8 to 128, by the size of the table."),
    ] = None,
    regularization: Annotated[
        float | None, typer.Option(min=0, help="Larger: vectors fit the data less closely.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0, help="als: how much more an interaction counts than none.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0, help="bpr and lmf: the size of a step.")] = None,
    iterations: Annotated[int | None, typer.Option(min=1, help="Rounds of training.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the start of the training, and who is held out.")] = 0,
    tune: Annotated[
        bool, typer.Option("--tune", help="Try a small grid of settings, and take the best by held-out NDCG@10.")
    ] = False,
    quality: Annotated[
        bool, typer.Option("--quality/--no-quality", help="Measure on held-out interactions; doubles the time.")
    ] = True,
    max_budget: Annotated[int, typer.Option(min=1, help="The largest budget that the lists serve.")] = 4096,
    rows: Rows = "float32",
    output: Annotated[Path | None, typer.Option(help="Write the bundle to this new directory.")] = None,
    models: Annotated[Path | None, typer.Option(help="Write the bundle as a version in this models folder.")] = None,
    version: Annotated[str | None, typer.Option(help="Name of the version. Default: the time, in UTC.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to keep with the model, any number of times; VALUE may be JSON.")
    ] = None,
    promote: Annotated[bool, typer.Option("--promote", help="Make it the current version of the folder.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to work with. Default: all cores.")] = None,
) -> None:
    """Train a model on a table of interactions, measure it on real behaviour, and build a bundle.

    Users are held out of nothing but the measurement: the model in the bundle is trained on everything. What users have
    met goes along as seen.
    """
    # Before anything that takes minutes.
    path = target(output, models, version, promote=promote)
    notes = parse_metadata(metadata or [])
    if model not in MODEL_KINDS:
        raise typer.BadParameter(f"{model!r} is none of {', '.join(MODEL_KINDS)}", param_hint="--model")
    try:
        settings = ModelSettings(model, factors, regularization, alpha, learning_rate, iterations, seed)
    except InvalidEventsError as reason:
        raise typer.BadParameter(str(reason)) from None
    if max_budget >= 1 << 31:
        raise typer.BadParameter(f"{max_budget} is more than any catalogue has", param_hint="--max-budget")
    precision = checked_rows(rows)
    if min_rating is not None and rating is None:
        raise typer.BadParameter("--min-rating needs --rating, the column of the grades")
    began = perf_counter()
    read = load_events(events, user=user, item=item, weight=weight, rating=rating, time=time, progress=True)
    met = Interactions.of(read, min_user=min_user, min_item=min_item, min_rating=min_rating)
    note(f"{len(read):,} events of {met.n_users:,} users and {met.n_items:,} items.")
    for sentence in met.notes:
        note(sentence)
    # Columns of 100 million events are not kept while the model is trained.
    n_events = len(read)
    del read
    attributes = None if items is None else _attributes(items, met, item_id, item)
    titles = titles_among(attributes, ("title", "name") if title is None else (title,))
    if title is not None and titles is None:
        raise InvalidAttributesError(f"{items or '--items'} has no column of texts called {title}; check --title.")
    trained = train(met, settings, tuned=tune, measured=quality, max_budget=max_budget, threads=threads, progress=True)
    _show_tried(trained)
    how = {"trained": {**trained.settings.to_dict(), "events": n_events, "source": events.name}}
    made = build_bundle(
        path,
        items=trained.vectors.items,
        users=trained.vectors.users,
        item_ids=met.item_ids,
        user_ids=met.user_ids,
        titles=titles,
        attributes=attributes,
        seen=met.seen,
        quality=trained.quality,
        fold_in=trained.fold_in,
        max_budget=max_budget,
        metadata=how | notes,
        version=version,
        threads=threads,
        progress=True,
        precision=precision,
    )
    summarise(made, perf_counter() - began)
    if made.quality is not None:
        show_quality(made.quality)
    if made.quality is not None and made.quality.exact.ndcg_at_10 < made.quality.popular.ndcg_at_10:
        _warn_of(made.quality, None if models is None or not promote else f"{path.name} --models {models}")
    if models is not None and promote:
        VersionsFolder(models).promote(path.name)
        say(f"{path.name} is now the current version in {models}.")


def _attributes(table: Path, met: Interactions, item_id: str | None, item: str | None) -> Attributes:
    """Read what is known of the items, by the column named, else by that of the events, else by a usual one."""
    columns = (item_id,) if item_id is not None else (*([item] if item else []), *ID_COLUMNS)
    try:
        return read_attributes(str(table), met.n_items, met.item_ids, columns)
    except InvalidAttributesError as reason:
        raise InvalidAttributesError(str(reason).replace("FILE:COLUMN", "--item-id")) from None


def _warn_of(quality: Quality, not_promoted: str | None) -> None:
    """Say that the popular items are the better model; such a one is not made current by itself."""
    sentence = (
        f"the model foretells less than the popular items do (NDCG@10 {quality.exact.ndcg_at_10:.4f} against "
        f"{quality.popular.ndcg_at_10:.4f}); try --tune, other --factors or another --model."
    )
    if not_promoted is None:
        note(f"Beware: {sentence}")
        return
    raise InvalidEventsError(
        f"not made current: {sentence} To serve it all the same: budgetrec promote {not_promoted}."
    )


def _show_tried(trained: Trained) -> None:
    if not trained.tried:
        return
    names = [
        name
        for name in ("factors", "alpha", "learning_rate", "regularization")
        if getattr(trained.settings, name) is not None
    ]
    heads = [*(name.replace("_", " ") for name in names), "NDCG@10"]
    rows = [[*(f"{getattr(one.settings, name):g}" for name in names), f"{one.ndcg_at_10:.4f}"] for one in trained.tried]
    table(heads, rows, right=heads)
    say("NDCG@10 of each setting on held-out interactions; the first is taken, and measured on other users below.")
