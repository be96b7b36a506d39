"""`budgetrec recommend`: recommendations for many users into a file."""

from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

from greedy_core import (
    Bundle,
    GreedyIndex,
    InvalidQueryError,
    Order,
    Parts,
    Scenario,
    StorageError,
    load_texts,
    write_recommendations,
)
from service.cli.budgets import bought, reachable
from service.cli.console import note, say, size, users_bar
from service.cli.places import Place, open_bundle
from service.cli.ray import check_ray
from service.cli.recipes import ScenarioFile, ScenarioName, read_recipe

_DEFAULT_RECALL = 0.98


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec recommend models --all-users --output recs.parquet")(recommend)


def recommend(
    place: Place,
    *,
    output: Annotated[Path, typer.Option(help="The .parquet file to write: user_id, rank, item_id, score.")],
    all_users: Annotated[bool, typer.Option("--all-users", help="Recommend to all users of the model.")] = False,
    users: Annotated[
        str | None, typer.Option(help="Recommend to these: one id per line (.txt), .json, .npy or .parquet:COLUMN.")
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, help="How many items for each user.")] = 10,
    budget: Annotated[int | None, typer.Option(min=1, help="Inner products for each user, at most.")] = None,
    target_recall: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help=f"The recall@10 against exact search to buy instead. Default: {_DEFAULT_RECALL}."
        ),
    ] = None,
    exclude_seen: Annotated[bool, typer.Option(help="Leave out what a user has seen.")] = True,
    scenario_file: ScenarioFile = None,
    scenario: ScenarioName = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file, at the end, if it is there.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads to work with. Default: all cores.")] = None,
    ray: Annotated[
        bool, typer.Option("--ray", help="Work with Ray, here or on the cluster that RAY_ADDRESS names; same file.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: processes to work with. Default: all cores.")
    ] = None,
) -> None:
    """Write recommendations for all users of a model, or for some, to a parquet file.

    What was killed is finished by the same command: parts that are done are kept beside the file until it is complete.
    """
    if all_users == (users is not None):
        raise typer.BadParameter("give either --all-users or --users FILE")
    if budget is not None and target_recall is not None:
        raise typer.BadParameter("give either --budget or --target-recall")
    if budget is not None and budget < top_k:
        raise typer.BadParameter(f"a budget of {budget} finds no {top_k} items; raise --budget or lower --top-k")
    if output.suffix.lower() != ".parquet":
        raise typer.BadParameter(f"{output} does not end in .parquet", param_hint="--output")
    if output.exists() and not overwrite:
        raise StorageError(f"{output} already exists; give another name, or --overwrite to replace it.")
    if workers is not None and not ray:
        raise typer.BadParameter(
            "it says how many processes Ray works with; give --ray, or --threads", param_hint="--workers"
        )
    elsewhere = _on_ray(workers) if ray else None
    recipe = read_recipe(scenario_file, scenario)
    model = open_bundle(place)
    spend = reachable(model, max(top_k, _spend(model, recipe, budget, target_recall, exclude_seen=exclude_seen)))
    order = Order(None if users is None else _positions(model, users), top_k, spend, exclude_seen, recipe)
    began = perf_counter()
    with users_bar() as progress:
        written = write_recommendations(model, output, order, threads=threads, progress=progress, elsewhere=elsewhere)
    seconds = perf_counter() - began
    if written.n_resumed:
        note(f"{written.n_resumed:,} users had been done before.")
    n_new = written.n_users - written.n_resumed
    rate = f", {n_new / max(seconds, 1e-9):,.0f} users per second" if n_new else ""
    say(
        f"{output}: {written.n_rows:,} rows for {written.n_users:,} users, {size(output.stat().st_size)}; budget "
        f"{spend:,} for each; {seconds:.1f} s{rate}; model {model.version}."
    )


def _on_ray(workers: int | None) -> Callable[[Parts], Iterable[int]]:
    check_ray("--ray")
    from service.cluster.recommending import parts_on_ray  # noqa: PLC0415 - an optional extra

    return parts_on_ray(workers)


def _spend(model: Bundle, scenario: Scenario, budget: int | None, recall: float | None, *, exclude_seen: bool) -> int:
    """Return the budget for each user: what was asked for, what the scenario says, or what a good recall costs."""
    if budget is None and recall is None:
        budget, recall = scenario.budget, scenario.target_recall
    if budget is not None:
        return budget
    found = bought(
        model, _DEFAULT_RECALL if recall is None else recall, exclude_seen=exclude_seen, required=recall is not None
    )
    if found is None:
        note(f"The model has no calibration: the budget is {GreedyIndex.default_budget}.")
    return GreedyIndex.default_budget if found is None else found


def _positions(model: Bundle, source: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    asked = [model.user_position(text) for text in load_texts(source) if text]
    known = [position for position in asked if position is not None]
    if len(known) < len(asked):
        note(f"{len(asked) - len(known):,} of {len(asked):,} users in {source} are not in the model; left out.")
    if not known:
        raise InvalidQueryError(f"no user in {source} is in {model.path}; give ids of its users.")
    return np.array(known, dtype=np.int64)
