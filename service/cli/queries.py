"""`budgetrec query` and `budgetrec bench`: ask a bundle without a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import typer

from greedy_core import Bundle, InvalidQueryError, SearchResult, StorageError, as_query
from service.cli.console import note, say, table
from service.cli.places import Place, open_bundle
from service.settings import DEFAULT_MODELS

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec query models --user 42 --budget 256")(query)
    app.command(epilog="Example: budgetrec bench models --budgets 64,256,1024 --queries 500")(bench)


def query(
    place: Place = DEFAULT_MODELS,
    *,
    user: Annotated[str | None, typer.Option(help="Recommend for this user.")] = None,
    item: Annotated[str | None, typer.Option(help="Find items like this one.")] = None,
    vector: Annotated[str | None, typer.Option(help="Recommend for this vector: numbers with commas, or .npy.")] = None,
    budget: Annotated[int, typer.Option(help="Inner products to spend at most.")] = 256,
    top_k: Annotated[int, typer.Option(help="How many items.")] = 10,
    exclude: Annotated[list[str] | None, typer.Option(help="An item to leave out; any number of times.")] = None,
    exclude_seen: Annotated[bool, typer.Option(help="Leave out what the user has seen.")] = True,
    as_json: Json = False,
) -> None:
    """Ask a bundle for recommendations."""
    if sum(given is not None for given in (user, item, vector)) != 1:
        raise typer.BadParameter("give one of --user, --item and --vector")
    if top_k < 1:
        raise InvalidQueryError(f"top_k must be a whole number from 1, but {top_k} was given.")
    model = open_bundle(place)
    left_out = [position for text in exclude or [] if (position := model.item_position(text)) is not None]
    answer: dict[str, Any] = {}
    wanted: npt.NDArray[np.float32] | None = None
    hint: npt.NDArray[Any] | None = None
    fallback = "unknown_user"
    if user is not None:
        answer["user_id"] = user
        position = model.user_position(user)
        if position is not None:
            fallback = "no_vector"
            wanted, hint = model.user_vector(position), model.user_remembered(position)
            left_out += model.seen_items(position).tolist() if exclude_seen else []
    elif item is not None:
        answer["item_id"] = item
        position = model.item_position(item)
        if position is None:
            raise InvalidQueryError(f"there is no item {item!r} in {model.path}; check the id.")
        wanted = model.index.items[position]
        left_out.append(position)
    else:
        wanted = as_query(_vector(str(vector)), model.n_dims)
    if wanted is None:
        answer |= _popular(model, top_k, left_out) | {"fallback": fallback}
    else:
        answer |= _search(model, Asked(wanted, hint), top_k, budget, left_out) | {"fallback": None}
    if as_json:
        say(json.dumps(answer, ensure_ascii=False))
    else:
        _show(model, answer)


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
    columns = ["budget", f"recall@{top_k}", "spent", "median_us", "p99_us", "times_faster"]
    heads = [column.replace("_", " ") for column in columns]
    table(heads, [[row[name] for name in columns] for row in rows], right=heads)
    say(
        f"{model.version}: {model.n_items} items x {model.n_dims}, {model.index.directions}; {len(asked)} queries, "
        f"one thread; exact scan {report['exact_median_us']} us."
    )


class Asked(NamedTuple):
    """A query, and what the bundle has worked out for it beforehand."""

    vector: npt.NDArray[np.float32]
    hint: npt.NDArray[Any] | None


def _search(model: Bundle, asked: Asked, top_k: int, budget: int, left_out: list[int]) -> dict[str, Any]:
    """Return an answer in the words of the service."""
    excluded = np.array(left_out, dtype=np.int32)
    began = perf_counter()
    result = model.index.search(asked.vector, top_k, budget, excluded, None, asked.hint)
    microseconds = round((perf_counter() - began) * 1e6)
    return {
        "items": _items(model, result.ids.tolist(), result.scores.tolist()),
        "budget": budget,
        "spent": result.spent,
        "complete": result.complete,
        "model": model.version,
        "search_us": microseconds,
    }


def _popular(model: Bundle, top_k: int, left_out: list[int]) -> dict[str, Any]:
    """Return the popular items, which cost nothing, as an answer."""
    hidden = set(left_out)
    positions = [position for position in model.popular.tolist() if position not in hidden][:top_k]
    items = _items(model, positions, [None] * len(positions))
    return {"items": items, "budget": 0, "spent": 0, "complete": False, "model": model.version, "search_us": 0}


def _items(model: Bundle, positions: list[int], scores: Sequence[float | None]) -> list[dict[str, Any]]:
    items = []
    for position, score in zip(positions, scores, strict=True):
        title = model.title(position)
        named = {"item_id": model.item_id(position)} | ({"title": title} if title is not None else {})
        items.append({**named, "score": score})
    return items


def _show(model: Bundle, answer: dict[str, Any]) -> None:
    if answer["fallback"]:
        what = "has no vector" if answer["fallback"] == "no_vector" else "is not known"
        note(f"User {answer['user_id']} {what}: these are the popular items.")
    columns = ["item_id", *(["title"] if model.has_titles else []), "score"]
    rows = [
        [
            f"{item['score']:.4f}" if name == "score" and item[name] is not None else item.get(name) or ""
            for name in columns
        ]
        for item in answer["items"]
    ]
    table(columns, rows, right=["score"])
    exact = ", exact" if answer["complete"] else ""
    say(f"spent {answer['spent']} of {answer['budget']} inner products{exact}; model {answer['model']}.")


def _vector(text: str) -> npt.NDArray[Any]:
    if text.endswith(".npy"):
        try:
            array: npt.NDArray[Any] = np.load(Path(text), allow_pickle=False)
        except (OSError, ValueError, EOFError) as reason:
            raise StorageError(f"{text} cannot be read as .npy: {reason}.") from None
        return array
    try:
        return np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of numbers with commas", param_hint="--vector") from None


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
        Asked(vector, model.user_remembered(position))
        for position in order[: 2 * count]
        if (vector := model.user_vector(position)) is not None
    ]
    if found:
        return found[:count]
    note("The bundle has no user vectors: its items are the queries.")
    order = np.random.default_rng(seed).permutation(model.n_items)[:count].tolist()
    return [Asked(model.index.items[position], None) for position in order]


def _timed(model: Bundle, asked: list[Asked], top_k: int, budget: int) -> tuple[list[SearchResult], list[float]]:
    results, microseconds = [], []
    for vector, hint in asked[:20]:
        model.index.search(vector, top_k, budget, None, None, hint)
    for vector, hint in asked:
        began = perf_counter()
        results.append(model.index.search(vector, top_k, budget, None, None, hint))
        microseconds.append((perf_counter() - began) * 1e6)
    return results, microseconds
