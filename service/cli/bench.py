"""`budgetrec bench`: time a bundle's searches, and compare them with an exact scan."""

import json
from time import perf_counter
from typing import Annotated

import numpy as np
import typer

from greedy_core import Bundle, SearchResult
from service.cli.console import note, say, table
from service.cli.places import Place, open_bundle
from service.cli.queries import Asked, Json, item_vector
from service.settings import DEFAULT_MODELS


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec bench models --budgets 64,256,1024 --queries 500")(bench)


def bench(
    place: Place = DEFAULT_MODELS,
    *,
    budgets: Annotated[str, typer.Option(help="Budgets to try, with commas.")] = "16,64,256,1024,4096",
    queries: Annotated[int, typer.Option(min=1, help="How many users to ask for.")] = 200,
    top_k: Annotated[int, typer.Option(min=1, help="How many items.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Which users are drawn.")] = 0,
    as_json: Json = False,
) -> None:
    """Time a bundle's searches on one thread, and compare them with an exact scan."""
    model = open_bundle(place)
    chosen = _budgets(budgets, model)
    asked = _sample(model, queries, seed)
    top_k = min(top_k, model.n_items)
    exact, exact_us = _timed(model, asked, top_k, model.n_items)
    truth = [set(result.ids.tolist()) for result in exact]
    rows = []
    for budget in chosen:
        results, microseconds = _timed(model, asked, top_k, budget)
        hits = sum(len(best & set(result.ids.tolist())) for best, result in zip(truth, results, strict=True))
        rows.append(
            {
                "budget": budget,
                f"recall@{top_k}": round(hits / (len(truth) * top_k), 4),
                "spent": round(float(np.mean([result.spent for result in results])), 1),
                "median_us": round(float(np.median(microseconds)), 1),
                "p99_us": round(float(np.percentile(microseconds, 99)), 1),
                "times_faster": round(float(np.median(exact_us) / np.median(microseconds)), 1),
            }
        )
    report = {
        "model": model.version,
        "n_items": model.n_items,
        "n_dims": model.n_dims,
        "directions": model.index.directions,
        "queries": len(asked),
        "exact_median_us": round(float(np.median(exact_us)), 1),
        "budgets": rows,
    }
    if as_json:
        say(json.dumps(report))
        return
    recall = f"recall@{top_k}"
    columns = ["budget", recall, "spent", "median_us", "p99_us", "times_faster"]
    heads = [f"{recall} against exact search" if column == recall else column.replace("_", " ") for column in columns]
    table(heads, [[row[name] for name in columns] for row in rows], right=heads)
    say(
        f"{model.version}: {model.n_items} items x {model.n_dims}, {model.index.directions}; {len(asked)} queries, "
        f"one thread; exact scan {report['exact_median_us']} us."
    )


def _budgets(text: str, model: Bundle) -> list[int]:
    try:
        budgets = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of whole numbers with commas", param_hint="--budgets") from None
    if budgets[0] < 1:
        raise typer.BadParameter("a budget is a whole number from 1", param_hint="--budgets")
    reachable = [budget for budget in budgets if budget <= model.index.max_budget or budget >= model.n_items]
    if len(reachable) < len(budgets):
        note(f"Budgets above {model.index.max_budget}, the longest that the model's lists serve, are left out.")
    return reachable


def _sample(model: Bundle, count: int, seed: int) -> list[Asked]:
    """Draw users that have a vector; items, if there are no users."""
    order = np.random.default_rng(seed).permutation(model.n_users).tolist() if model.n_users else []
    found = [
        Asked(vector, model.user_remembered(position), model.seen_items(position))
        for position in order[: 2 * count]
        if (vector := model.user_vector(position)) is not None
    ]
    if found:
        return found[:count]
    note("The bundle has no user vectors: its items are the queries.")
    order = np.random.default_rng(seed).permutation(model.n_items)[:count].tolist()
    return [Asked(item_vector(model, position), None, None) for position in order]


def _timed(model: Bundle, asked: list[Asked], top_k: int, budget: int) -> tuple[list[SearchResult], list[float]]:
    results, microseconds = [], []
    for vector, hint, excluded in asked[:20]:
        model.index.search(vector, top_k, budget, excluded, None, hint)
    for vector, hint, excluded in asked:
        began = perf_counter()
        results.append(model.index.search(vector, top_k, budget, excluded, None, hint))
        microseconds.append((perf_counter() - began) * 1e6)
    return results, microseconds
