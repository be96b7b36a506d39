"""`budgetrec query`: ask a bundle without a server."""

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import typer

from greedy_core import (
    AnyIndex,
    AppliedRules,
    Bundle,
    Eligible,
    InvalidQueryError,
    Scenario,
    StorageError,
    apply_rules,
    as_query,
    popular_parts,
    popular_with_rules,
    search_with_rules,
)
from service.cli.budgets import bought
from service.cli.console import note, say, table
from service.cli.places import Place, calibration_of, open_bundle
from service.cli.recipes import AtMost, Boosts, Diversity, Pins, ScenarioFile, ScenarioName, read_recipe
from service.models.default_budget import CALIBRATED_TOP_K, budget_towards
from service.settings import DEFAULT_MODELS, DEFAULT_RECALL

_HOW = {
    "fold_in": "the vector was folded in from the items",
    "mean": "the vector is the mean of the items'",
    "moved": "the vector was moved by the items",
}
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(epilog="Example: budgetrec query models --user 42 --budget 256 --filter 'price < 20' --fields price")(
        query
    )


def query(
    place: Place = DEFAULT_MODELS,
    *,
    user: Annotated[str | None, typer.Option(help="Recommend for this user.")] = None,
    item: Annotated[str | None, typer.Option(help="Find items like this one.")] = None,
    vector: Annotated[str | None, typer.Option(help="Recommend for this vector: numbers with commas, or .npy.")] = None,
    items: Annotated[
        list[str] | None,
        typer.Option(
            help="Recommend for whoever met these items, with commas or one by one; with --user or --vector, move that."
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="Compare --item with others by cosine or inner_product. Default: what it can.")
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            help="Inner products to spend at most. Default: what a recall@10 against exact search of "
            f"{DEFAULT_RECALL} needs for vectors from outside."
        ),
    ] = None,
    top_k: Annotated[int, typer.Option(help="How many items.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="How many places come before the page.")] = 0,
    exclude: Annotated[list[str] | None, typer.Option(help="An item to leave out; any number of times.")] = None,
    exclude_seen: Annotated[bool, typer.Option(help="Leave out what the user has seen.")] = True,
    wanted_items: Annotated[
        str | None, typer.Option("--filter", help="Only these items: 'category = \"jazz\" and price < 20'.")
    ] = None,
    fields: Annotated[str, typer.Option(help="Attributes to show, with commas.")] = "",
    scenario_file: ScenarioFile = None,
    scenario: ScenarioName = None,
    at_most: AtMost = None,
    diversity: Diversity = None,
    boost: Boosts = None,
    pin: Pins = None,
    as_json: Json = False,
) -> None:
    """Ask a bundle for recommendations."""
    _check_subject(user, item, vector, items, by)
    if top_k < 1:
        raise InvalidQueryError(f"top_k must be a whole number from 1, but {top_k} was given.")
    recipe = read_recipe(scenario_file, scenario, at_most, diversity, boost, pin)
    model = open_bundle(place)
    recipe.check(model.attributes)
    wanted_items = recipe.filter if wanted_items is None else wanted_items
    eligible = None if wanted_items is None else model.filter(wanted_items)
    shown = _fields(model, fields)
    budget = _spend(model, recipe, budget, exclude_seen=exclude_seen)
    left_out = [position for text in exclude or [] if (position := model.item_position(text)) is not None]
    answer: dict[str, Any] = {}
    wanted: npt.NDArray[np.float32] | None = None
    hint: npt.NDArray[Any] | None = None
    index = model.index
    fallback = ""
    if user is not None:
        answer["user_id"] = user
        wanted, hint, seen, fallback = _known_user(model, user, exclude_seen=exclude_seen)
        left_out += seen
    elif item is not None:
        answer["item_id"] = item
        position = model.item_position(item)
        if position is None:
            raise InvalidQueryError(f"there is no item {item!r} in {model.path}; check the id.")
        wanted, hint, index, answer["by"] = _similar(model, position, by)
        left_out.append(position)
    elif vector is not None:
        wanted = as_query(_vector(str(vector)), model.n_dims)
    if items is not None:
        known, unknown = _known_items(model, items, required=user is None and vector is None)
        answer |= {"user_id": user, "unknown_items": unknown}
        if len(known):
            wanted, answer["vector"] = model.vector_of_items(known, prior=wanted)
            hint, left_out = None, [*left_out, *known.tolist()]
    excluded = np.array(left_out, dtype=np.int32)
    page = Page(top_k, offset, recipe, eligible, shown)
    if wanted is None:
        answer |= _popular(model, excluded, page) | {"fallback": fallback}
    else:
        granted = _granted(budget, model, page, by_cosine=answer.get("by") == "cosine")
        answer |= _search(model, index, Asked(wanted, hint, excluded), page, granted) | {"fallback": None}
    if as_json:
        say(json.dumps(answer, ensure_ascii=False))
    else:
        _show(model, answer)


class Asked(NamedTuple):
    """A query, what the bundle has worked out for it beforehand, and the positions of what is left out."""

    vector: npt.NDArray[np.float32]
    hint: npt.NDArray[Any] | None
    excluded: npt.NDArray[np.int32] | None


class Page(NamedTuple):
    """What of the ranking is wanted, and how it is made and shown."""

    top_k: int
    offset: int
    recipe: Scenario
    eligible: Eligible | None
    fields: Sequence[str]


def _check_subject(
    user: str | None, item: str | None, vector: str | None, items: list[str] | None, by: str | None
) -> None:
    """Refuse options that do not go together."""
    subjects = sum(given is not None for given in (user, item, vector))
    if subjects > 1 or (subjects == 0 and items is None):
        raise typer.BadParameter("give one of --user, --item and --vector, or --items")
    if item is not None and items is not None:
        raise typer.BadParameter("it goes with --user or --vector, or alone", param_hint="--items")
    if by is not None and (item is None or by not in ("cosine", "inner_product")):
        raise typer.BadParameter("it takes cosine or inner_product, and goes with --item", param_hint="--by")


def _known_user(
    model: Bundle, user: str, *, exclude_seen: bool
) -> tuple[npt.NDArray[np.float32] | None, npt.NDArray[Any] | None, list[int], str]:
    """Return the user's vector, hint and what to leave out, and what to call it if there is no vector."""
    position = model.user_position(user)
    if position is None:
        return None, None, [], "unknown_user"
    if not exclude_seen and model.has_seen:
        return model.user_vector(position), None, [], "no_vector"
    seen = model.seen_items(position).tolist()
    return model.user_vector(position), model.user_remembered(position), seen, "no_vector"


def _known_items(model: Bundle, texts: list[str], *, required: bool) -> tuple[npt.NDArray[np.int32], int]:
    """Return the positions of the items that the model knows, and how many it does not; an id may have commas."""
    ids = [
        part
        for text in texts
        for part in ([text] if model.item_position(text) is not None else text.split(","))
        if part
    ]
    if not ids:
        raise typer.BadParameter("it takes ids of items with commas between them", param_hint="--items")
    met = model.item_positions(ids)
    known = met[met >= 0]
    if required and len(known) == 0:
        raise InvalidQueryError(f"{model.path} has none of the items {', '.join(map(repr, ids))}; check the ids.")
    return known, len(met) - len(known)


def _similar(
    model: Bundle, position: int, by: str | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any] | None, AnyIndex, str]:
    """Return what similar items are looked for with: query, hint, index, and what they are compared by."""
    if model.similar is not None and by != "inner_product":
        found = model.similar.query([position])
        return found.vector, found.remembered, model.similar.index, "cosine"
    if by == "cosine":
        raise InvalidQueryError(
            f"{model.path} has no index of similar items; leave out --by, or build it again without --no-similar."
        )
    return item_vector(model, position), None, model.index, "inner_product"


def item_vector(model: Bundle, position: int) -> npt.NDArray[np.float32]:
    """Return one item's vector; of narrow rows, only this one is widened."""
    vectors, places = model.index.some_items(np.array([position], dtype=np.int32))
    vector: npt.NDArray[np.float32] = vectors[places[0]]
    return vector


def _fields(model: Bundle, text: str) -> list[str]:
    """Return the attributes that are named; raises InvalidAttributesError for others."""
    return [model.attributes[name].name for name in text.split(",") if name]


def _spend(model: Bundle, recipe: Scenario, budget: int | None, *, exclude_seen: bool) -> int | None:
    """Return the budget that was asked for, or that the scenario says; None if nobody said any."""
    if budget is None and recipe.target_recall is not None:
        return bought(model, recipe.target_recall, exclude_seen=exclude_seen)
    return recipe.budget if budget is None else budget


def _granted(budget: int | None, model: Bundle, page: Page, *, by_cosine: bool) -> int:
    """Return the budget, or what a question gets that names none, as from a service."""
    if budget is not None:
        return budget
    top_k, eligible = max(page.offset + page.top_k, CALIBRATED_TOP_K), page.eligible
    if by_cosine and model.similar is not None:
        return budget_towards(DEFAULT_RECALL, model.similar.index, model.similar.calibration, top_k, eligible)
    return budget_towards(DEFAULT_RECALL, model.index, calibration_of(model), top_k, eligible)


def _search(model: Bundle, index: AnyIndex, asked: Asked, page: Page, budget: int) -> dict[str, Any]:
    """Return an answer in the words of the service."""
    eligible, excluded = page.eligible, asked.excluded
    applied = _applied(model, excluded, page, index)
    began = perf_counter()
    done: dict[str, Any] = {}
    if page.recipe.rules or page.offset:
        more = popular_parts(model.popular, excluded, eligible)
        result, collected = search_with_rules(
            index,
            asked.vector,
            applied,
            top_k=page.top_k,
            offset=page.offset,
            budget=budget,
            exclude=excluded,
            remembered=asked.hint,
            eligible=eligible,
            more=more,
        )
        done = {"rules": applied.receipt(collected)} if page.recipe.rules else {}
    else:
        result = index.search(asked.vector, page.top_k, budget, excluded, None, asked.hint, eligible)
    microseconds = round((perf_counter() - began) * 1e6)
    scores = [None if np.isnan(score) else score for score in result.scores.tolist()]
    return {
        "items": _items(model, result.ids.tolist(), scores, page.fields),
        "budget": budget,
        "spent": result.spent,
        "complete": result.complete,
        **({} if eligible is None else {"eligible": result.eligible}),
        **_named(page),
        **done,
        "model": model.version,
        "search_us": microseconds,
    }


def _popular(model: Bundle, excluded: npt.NDArray[np.int32], page: Page) -> dict[str, Any]:
    """Return the popular items, which cost nothing, as an answer."""
    fallback, eligible = page.recipe.fallback, page.eligible
    if fallback is not None and fallback.kind == "error":
        raise InvalidQueryError("there is no vector to search with, and the scenario's fallback is an error.")
    if fallback is not None and fallback.filter is not None:
        standing_in = model.filter(fallback.filter).mask()
        eligible = Eligible.from_mask(standing_in if eligible is None else standing_in & eligible.mask())
    page = page._replace(eligible=eligible)
    applied = _applied(model, excluded, page, model.index)
    collected = popular_with_rules(
        model.popular, applied, top_k=page.top_k, offset=page.offset, excluded=excluded, eligible=eligible
    )
    positions = collected.ids.tolist()
    answer = {
        "items": _items(model, positions, [None] * len(positions), page.fields),
        "budget": 0,
        "spent": 0,
        "complete": False,
        **_named(page),
        **({"rules": applied.receipt(collected)} if page.recipe.rules else {}),
        "model": model.version,
        "search_us": 0,
    }
    if eligible is None:
        return answer
    allowed = eligible.mask()
    allowed[excluded] = False
    return answer | {"eligible": int(np.count_nonzero(allowed))}


def _applied(model: Bundle, excluded: npt.NDArray[np.int32] | None, page: Page, index: AnyIndex) -> AppliedRules:
    return apply_rules(
        page.recipe.rules,
        model.attributes,
        model.item_positions,
        model.filter,
        excluded=excluded,
        eligible=page.eligible,
        products=index.products,
    )


def _named(page: Page) -> dict[str, Any]:
    """Return what an answer says of scenario and place."""
    named = {"scenario": page.recipe.name} if page.recipe.name else {}
    return named | ({"offset": page.offset} if page.offset else {})


def _items(
    model: Bundle, positions: list[int], scores: Sequence[float | None], fields: Sequence[str]
) -> list[dict[str, Any]]:
    items = []
    for position, score in zip(positions, scores, strict=True):
        title = model.title(position)
        named: dict[str, Any] = {"item_id": model.item_id(position)} | ({"title": title} if title is not None else {})
        if fields:
            named["fields"] = model.attributes.values(position, fields)
        items.append({**named, "score": score})
    return items


def _show(model: Bundle, answer: dict[str, Any]) -> None:
    if answer["fallback"]:
        what = "has no vector" if answer["fallback"] == "no_vector" else "is not known"
        note(f"User {answer['user_id']} {what}: these are the popular items.")
    named = list(answer["items"][0].get("fields", {})) if answer["items"] else []
    columns = ["item_id", *(["title"] if model.has_titles else []), *named, "score"]
    rows = [[_cell(item, name) for name in columns] for item in answer["items"]]
    table(columns, rows, right=["score"])
    exact = ", exact" if answer["complete"] else ""
    if "vector" in answer:
        left_out = f"; {answer['unknown_items']:,} of them not known" if answer["unknown_items"] else ""
        say(f"{_HOW[answer['vector']]}{left_out}.")
    if "by" in answer:
        say(f"compared by {answer['by'].replace('_', ' ')}")
    under = f"; {answer['eligible']:,} items are eligible" if "eligible" in answer else ""
    for rule, did in answer.get("rules", {}).items():
        say(f"{rule}: " + ", ".join(f"{what.replace('_', ' ')} {_count(value)}" for what, value in did.items()))
    say(f"spent {answer['spent']} of {answer['budget']} inner products{exact}{under}; model {answer['model']}.")


def _count(value: Any) -> str:
    return (
        ", ".join(f"{each['item_id']} ({each['because']})" for each in value) or "0"
        if isinstance(value, list)
        else str(value)
    )


def _cell(item: dict[str, Any], name: str) -> str:
    value = item["fields"][name] if name in item.get("fields", {}) else item.get(name)
    if name == "score" and value is not None:
        return f"{value:.4f}"
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)


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
