"""Query strings, read strictly: every parameter known, given once, well-formed UTF-8 and within its bounds.

Frameworks forgive (`budget=1&budget=2`, broken UTF-8, `bugdet=64`) and then answer a question nobody asked. The
table of parameters is also what OpenAPI shows, so that documentation and behaviour cannot part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from greedy_core import (
    BOOSTS_TAKE,
    CAPS_TAKE,
    DIVERSITY_TAKES,
    FALLBACK_TAKES,
    MOST_BOOSTS,
    MOST_CAPS,
    MOST_PINS,
    PINS_TAKE,
    read_boost,
    read_caps,
    read_fallback,
)
from service.answering.question import BY
from service.errors import invalid
from service.http.readers import (
    choice,
    choices,
    decode,
    id_list,
    items_asked,
    name_list,
    number,
    pins,
    rule,
    switch,
    text,
    whole,
)
from service.telemetry.families import layout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.settings import Settings

# Larger numbers are typing errors.
LARGEST_BUDGET = 10**12
LONGEST_DEADLINE_MS = 600_000.0
LONGEST_FILTER = 16_384
LONGEST_TITLE = 200
MOST_LOOKED_UP = 100
FIRST_LOOKED_UP = 20
MOST_FIELDS = 100
LONGEST_FIELD = 100
MOST_REPEATED = 64


class Parameter(NamedTuple):
    """A parameter of a GET call: how it is read, and how OpenAPI describes it."""

    name: str
    takes: str
    read: Callable[[bytes], Any]
    schema: dict[str, Any]
    example: Any
    required: bool = False
    is_repeated: bool = False
    # Whom or what a call asks for: Swagger UI begins with the example, so that the call can be tried as it stands.
    is_subject: bool = False

    @property
    def is_list(self) -> bool:
        """Whether it has several values: separated by commas or, where they may have commas, given several times."""
        return bool(self.schema.get("type") == "array")

    def openapi(self) -> dict[str, Any]:
        """Return the parameter as an OpenAPI object."""
        spec: dict[str, Any] = {
            "name": self.name,
            "in": "query",
            "required": self.required,
            "description": self.takes[0].upper() + self.takes[1:] + ".",
            # In the schema, where Swagger UI shows it; beside it Swagger UI would fill every field and send all.
            "schema": self.schema | {"examples": [self.example]},
        }
        if self.is_subject:
            spec["example"] = self.example
        if self.is_list:
            spec |= {"style": "form", "explode": self.is_repeated}
        return spec


class QueryReader:
    """Reads the query string of one call."""

    def __init__(self, parameters: Iterable[Parameter]) -> None:
        self.parameters = {parameter.name: parameter for parameter in parameters}
        self._required = [p for p in self.parameters.values() if p.required]

    def read(self, raw: bytes) -> dict[str, Any]:
        """Return the values by name; 422 names the first parameter that is wrong."""
        given: dict[str, bytes] = {}
        repeated: dict[str, list[bytes]] = {}
        for part in raw.split(b"&"):
            if not part:
                continue
            encoded, _, value = part.partition(b"=")
            name = decode(encoded, "the query string")
            parameter = self.parameters.get(name)
            if parameter is None:
                raise invalid(name[:80] or "An empty name", "is not a parameter of this call", self._names())
            if parameter.is_repeated:
                repeated.setdefault(name, []).append(value)
                continue
            if name in given and not parameter.is_list:
                raise invalid(name, "is given more than once", f"{parameter.takes}, once")
            given[name] = given[name] + b"," + value if name in given else value
        values = {name: self.parameters[name].read(value) for name, value in given.items()}
        for name, parts in repeated.items():
            if len(parts) > MOST_REPEATED:
                raise invalid(name, f"is given {len(parts)} times", self.parameters[name].takes)
            # An empty value is none: it says that nothing of a scenario's is wanted.
            values[name] = [self.parameters[name].read(part) for part in parts if part]
        for parameter in self._required:
            if parameter.name not in values:
                raise invalid(parameter.name, "is missing", parameter.takes)
        return values

    def openapi(self) -> list[dict[str, Any]]:
        """Return all parameters as OpenAPI objects."""
        return [parameter.openapi() for parameter in self.parameters.values()]

    def _names(self) -> str:
        return "no such name; known are " + ", ".join(self.parameters)


def parameters(settings: Settings) -> dict[str, Parameter]:
    """Return all query parameters of the service by name."""
    budget_takes = "the most inner products the search may spend, a whole number from 1"
    if settings.default_budget is None:
        budget_takes += f" (left out: what a recall@10 of {settings.default_recall:g} needs)"
    top_takes = f"how many items to return, a whole number from 1 to {settings.max_top_k}"
    deadline_takes = f"milliseconds the answer may take, a number above 0 and up to {LONGEST_DEADLINE_MS:.0f}"
    recall_takes = "the recall@10 against exact search to buy, a number above 0 and up to 1"
    exclude_takes = f"up to {settings.max_exclude} item ids separated by commas (a comma in an id is written %2C)"
    seen_takes = "true or false: leave out what the user has seen (true when the model knows it)"
    user_takes = "the id of a user, a non-empty text"
    items_takes = (
        f"1 to {settings.max_items} ids of items that somebody met, separated by commas: the vector is made of them, "
        "or the user's moved by them"
    )
    item_takes = "the id of an item, a non-empty text"
    filter_takes = (
        f"conditions on attributes, a text of up to {LONGEST_FILTER} characters: only items for which they are true "
        "come back"
    )
    fields_takes = f"names of up to {MOST_FIELDS} attributes separated by commas, to be shown with each item"
    several_takes = f"1 to {settings.max_items} ids of items separated by commas, in place of item_id"
    title_takes = f"words of a title, or an id, a text of up to {LONGEST_TITLE} characters; popular items without it"
    layout = layout_of(tuple(settings.folders), tuple(settings.first_scenarios))
    families = [family.name for family in layout.families]
    name_takes = f"the name of an attribute, a text of up to {LONGEST_FIELD} characters; all of them without it"
    starts_takes = f"how the values of texts begin, a text of up to {LONGEST_TITLE} characters"
    families_takes = "names of metrics separated by commas, to be shown alone"
    limit_takes = f"how many to return, a whole number from 1 to {MOST_LOOKED_UP}"
    by_takes = "cosine or inner_product (cosine when the model can: by inner product long vectors win everywhere)"
    caps_take = f"{CAPS_TAKE}, separated by commas: author:2,category:3"
    boost_takes = f"a filter with a factor on the score, 1.5: in_stock; to be repeated for {BOOSTS_TAKE}"
    pin_takes = f"{PINS_TAKE}, separated by commas: 1:jazz-0007,3:chess-0003 (a comma in an id is written %2C)"
    fallback_takes = f"what stands in where there is nothing to search with: {FALLBACK_TAKES}"
    offset_takes = f"how many places come before the page, a whole number from 0 to {settings.max_offset}"
    scenario_takes = "the name of a scenario, as GET /scenarios lists them: what the request itself says counts more"
    names = list(settings.folders)
    model_takes = (
        f"the name of the model that is to answer, one of: {', '.join(names)} (the first when left out, or what an "
        "experiment says of the user)"
    )
    table = (
        Parameter("model", model_takes, text("model", model_takes), {"type": "string", "minLength": 1}, names[0]),
        Parameter(
            "user_id",
            user_takes,
            text("user_id", user_takes),
            {"type": "string", "minLength": 1},
            "42",
            is_subject=True,
        ),
        Parameter(
            "items",
            items_takes,
            items_asked("items", settings.max_items),
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": settings.max_items},
            ["jazz-0007", "chess-0003"],
        ),
        Parameter(
            "item_id",
            item_takes,
            text("item_id", item_takes),
            {"type": "string", "minLength": 1},
            "jazz-0007",
            is_subject=True,
        ),
        Parameter("by", by_takes, choice("by", by_takes, BY), {"type": "string", "enum": list(BY)}, "cosine"),
        Parameter(
            "budget",
            budget_takes,
            whole("budget", budget_takes, 1, LARGEST_BUDGET),
            {"type": "integer", "minimum": 1, "maximum": LARGEST_BUDGET}
            | ({} if settings.default_budget is None else {"default": settings.default_budget}),
            256,
        ),
        Parameter(
            "top_k",
            top_takes,
            whole("top_k", top_takes, 1, settings.max_top_k),
            {"type": "integer", "minimum": 1, "maximum": settings.max_top_k, "default": settings.default_top_k},
            10,
        ),
        Parameter(
            "deadline_ms",
            deadline_takes,
            number("deadline_ms", deadline_takes, LONGEST_DEADLINE_MS),
            {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST_DEADLINE_MS},
            5,
        ),
        Parameter(
            "target_recall",
            recall_takes,
            number("target_recall", recall_takes, 1.0),
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            0.9,
        ),
        Parameter(
            "exclude",
            exclude_takes,
            id_list("exclude", settings.max_exclude),
            {"type": "array", "items": {"type": "string"}, "maxItems": settings.max_exclude},
            ["jazz-0007", "chess-0003"],
        ),
        Parameter(
            "filter",
            filter_takes,
            text("filter", filter_takes),
            {"type": "string", "minLength": 1, "maxLength": LONGEST_FILTER},
            'category in ["jazz", "cooking"] and price < 20',
        ),
        Parameter(
            "fields",
            fields_takes,
            name_list("fields", MOST_FIELDS, LONGEST_FIELD),
            {"type": "array", "items": {"type": "string", "maxLength": LONGEST_FIELD}, "maxItems": MOST_FIELDS},
            ["category", "price"],
        ),
        Parameter(
            "scenario",
            scenario_takes,
            text("scenario", scenario_takes),
            {"type": "string", "minLength": 1, "maxLength": 64},
            "home",
        ),
        Parameter(
            "at_most",
            caps_take,
            rule("at_most", read_caps),
            {"type": "array", "items": {"type": "string"}, "maxItems": MOST_CAPS},
            ["category:2"],
        ),
        Parameter(
            "diversity",
            f"how much likeness to the items above counts against the score, {DIVERSITY_TAKES}",
            number("diversity", DIVERSITY_TAKES, 1.0, zero=True),
            {"type": "number", "minimum": 0, "maximum": 1},
            0.3,
        ),
        Parameter(
            "boost",
            boost_takes,
            rule("boost", read_boost),
            {"type": "array", "items": {"type": "string", "maxLength": LONGEST_FILTER}, "maxItems": MOST_BOOSTS},
            ["1.5: in_stock"],
            is_repeated=True,
        ),
        Parameter(
            "pin",
            pin_takes,
            pins,
            {"type": "array", "items": {"type": "string"}, "maxItems": MOST_PINS},
            ["1:jazz-0007"],
        ),
        Parameter(
            "fallback",
            fallback_takes,
            rule("fallback", read_fallback),
            {"type": "string", "minLength": 1, "maxLength": LONGEST_FILTER},
            "popular: in_stock",
        ),
        Parameter(
            "offset",
            offset_takes,
            whole("offset", offset_takes, 0, settings.max_offset),
            {"type": "integer", "minimum": 0, "maximum": settings.max_offset},
            10,
        ),
        Parameter(
            "name[]",
            families_takes,
            choices("name[]", families_takes, families),
            {"type": "array", "items": {"type": "string", "enum": families}},
            ["budgetrec_request_seconds"],
        ),
        Parameter(
            "title",
            title_takes,
            text("title", title_takes, LONGEST_TITLE),
            {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE},
            "piano",
        ),
        Parameter(
            "name",
            name_takes,
            text("name", name_takes, LONGEST_FIELD),
            {"type": "string", "minLength": 1, "maxLength": LONGEST_FIELD},
            "category",
        ),
        Parameter(
            "starts",
            starts_takes,
            text("starts", starts_takes, LONGEST_TITLE),
            {"type": "string", "minLength": 1, "maxLength": LONGEST_TITLE},
            "ja",
        ),
        Parameter(
            "limit",
            limit_takes,
            whole("limit", limit_takes, 1, MOST_LOOKED_UP),
            {"type": "integer", "minimum": 1, "maximum": MOST_LOOKED_UP, "default": FIRST_LOOKED_UP},
            5,
        ),
        Parameter("exclude_seen", seen_takes, switch("exclude_seen", seen_takes), {"type": "boolean"}, True),
    )
    named = {parameter.name: parameter for parameter in table}
    # The same name with another meaning: of what a vector is made, and what is to be similar.
    named["similar_items"] = named["items"]._replace(takes=several_takes)
    return named
