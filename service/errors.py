"""What the service answers when it does not answer: one exception, one JSON shape.

    {"error": {"code": "...", "message": "...", "hint": "..."}}

`code` is for programs and never changes, `message` says what is wrong and what was expected, `hint` what to do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from greedy_core import InvalidRulesError


class ApiError(Exception):
    """An answer other than 200. `reason` labels the metrics and is always one of a fixed set."""

    def __init__(self, status: int, code: str, message: str, hint: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.retry_after = retry_after
        self.priority: str | None = None  # the class of the caller, where that decided

    def body(self) -> bytes:
        """Return the JSON of the error."""
        return orjson.dumps({"error": {"code": self.code, "message": self.message, "hint": self.hint}})

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that belong to it: the code, which a load balancer can read, and `Retry-After`.

        `Retry-After` is in whole seconds, at least one.
        """
        headers = [(b"content-type", b"application/json"), (b"x-error-code", self.code.encode())]
        if self.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(self.retry_after))).encode()))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return headers


# Codes by meaning; the metrics count failures under these names, so the set is closed.
CODES = (
    "bad_request",
    "invalid_parameter",
    "missing_key",
    "unknown_key",
    "key_role",
    "key_origin",
    "admin_only",
    "unknown_user",
    "unknown_item",
    "unknown_model",
    "unknown_scenario",
    "unknown_attribute",
    "not_found",
    "method_not_allowed",
    "no_calibration",
    "swap_refused",
    "nothing_to_roll_back",
    "body_too_large",
    "headers_too_large",
    "key_limit",
    "no_cosine",
    "not_ready",
    "overload",
    "slow_request",
    "connections",
    "internal",
)


def invalid(parameter: str, problem: str, takes: str) -> ApiError:
    """422: names the parameter, what is wrong with it and what it takes."""
    return ApiError(422, "invalid_parameter", f"{parameter} {problem}.", f"{parameter} takes {takes}.")


def invalid_filter(error: Exception, place: str = "") -> ApiError:
    """422: says where the filter is wrong; `place` is that of the question in a batch."""
    return ApiError(
        422,
        "invalid_parameter",
        f"{place}{str(error).removeprefix('the ')}",
        'filter takes conditions on attributes, such as category in ["jazz", "cooking"] and price < 20 and in_stock; '
        "GET /model lists the attributes.",
    )


def invalid_rule(error: InvalidRulesError, place: str = "") -> ApiError:
    """422: names the rule; `place` is that of the question in a batch."""
    return invalid(f"{place}{error.rule}", error.problem, error.takes)


def unknown_scenario(name: str, known: Sequence[str], place: str = "") -> ApiError:
    """404: no scenario of this name is configured."""
    there = f"one of: {', '.join(known[:30])}" if known else "nothing here: BUDGETREC_SCENARIOS names no file"
    return ApiError(
        404, "unknown_scenario", f"{place}scenario: there is no scenario {_short(name)} here.", f"It takes {there}."
    )


def not_ready(state: str) -> ApiError:
    """503 until a model is loaded, verified and warmed, and while draining."""
    return ApiError(
        503,
        "not_ready",
        f"The service is not ready: {state}.",
        "Retry shortly, or wait for GET /health/ready to answer 200.",
        retry_after=1,
    )


def swap_refused(version: str | None, reason: str) -> ApiError:
    """409: the model is not fit to be served."""
    return ApiError(
        409,
        "swap_refused",
        f"The model{f' {version}' if version else ''} was refused: {reason}",
        "The running model serves on. Repair the bundle; a model refused for its recall or NDCG can be forced with "
        '{"force": true}.',
    )


def nothing_to_roll_back() -> ApiError:
    """409: there is no model before this one."""
    return ApiError(
        409,
        "nothing_to_roll_back",
        "No other model was served before this one, so there is none to return to.",
        'Choose a version with POST /admin/reload and {"version": "..."}.',
    )


def unknown_user(user_id: str, *, has_no_vector: bool = False) -> ApiError:
    """404, for operators who prefer it to the popular items, and callers who ask for it."""
    known = f"has no vector for the user {_short(user_id)}" if has_no_vector else f"knows no user {_short(user_id)}"
    return ApiError(
        404,
        "unknown_user",
        f"The model {known}.",
        "Check the id, send the user's vector with POST /recommend, or have the popular items instead: with "
        "fallback=popular, or for all with BUDGETREC_UNKNOWN_USER=popular.",
    )


def unknown_item(item_id: str) -> ApiError:
    """404: an item that the model does not hold."""
    hint = "Check the id against the catalogue."
    if "," in item_id:
        hint = "item_id takes one id; several go into items, separated by commas."
    return ApiError(404, "unknown_item", f"The model knows no item {_short(item_id)}.", hint)


def unknown_items(count: int) -> ApiError:
    """404: nothing is known of any of the items that a vector was to be made of."""
    return ApiError(
        404,
        "unknown_item",
        f"The model knows none of the {count} items." if count > 1 else "The model does not know the item in items.",
        "Check the ids against the catalogue; some unknown ones among known ones do not matter.",
    )


def unknown_attribute(sentence: str) -> ApiError:
    """404: items have no attribute of this name; the sentence names those that there are."""
    return ApiError(404, "unknown_attribute", sentence[0].upper() + sentence[1:], "GET /model lists the attributes.")


def unknown_model(name: str, known: Sequence[str], place: str = "") -> ApiError:
    """404: no model of this name is configured; `place` is that of the question in a batch."""
    hint = f"model takes one of: {', '.join(known)}; without it, {known[0]} answers, or an experiment decides."
    return ApiError(404, "unknown_model", f"{place}model: there is no model {_short(name)} here.", hint)


def model_needed(known: Sequence[str]) -> ApiError:
    """422: one of several models is to be changed, and which is not said."""
    return ApiError(
        422,
        "invalid_parameter",
        f"model is missing: there are {len(known)} models, and only one is changed at a time.",
        f'Send {{"model": "..."}} with one of {", ".join(known)}.',
    )


def no_cosine() -> ApiError:
    """409: the model was built without its index of similar items."""
    return ApiError(
        409,
        "no_cosine",
        "The loaded model has no index of similar items, so it cannot compare them by cosine.",
        "Ask with by=inner_product, or build the model again without --no-similar.",
    )


def no_calibration() -> ApiError:
    """409: the model was built without its curve."""
    return ApiError(
        409,
        "no_calibration",
        "The loaded model has no calibration, so no recall can be turned into a budget.",
        "Name a budget instead, or build the model with calibration (`budgetrec build` makes it unless told not to).",
    )


def overload(wait: float, priority: str) -> ApiError:
    """503: even the smallest budgets would wait too long."""
    error = ApiError(
        503,
        "overload",
        f"The service is overloaded: a request of class {priority} would wait about {wait * 1000:.0f} ms.",
        "Retry after the seconds in Retry-After.",
        retry_after=wait,
    )
    error.priority = priority
    return error


def key_limit(wait: float) -> ApiError:
    """429: the key has spent its inner products for now."""
    return ApiError(
        429,
        "key_limit",
        "This key has used up its inner products per second.",
        "Retry after the seconds in Retry-After, ask for smaller budgets, or have the limit raised.",
        retry_after=wait,
    )


def too_many_values(limit: int) -> ApiError:
    """413: more values than any question of this service has."""
    return ApiError(
        413,
        "body_too_large",
        f"The body has more than {limit} values.",
        "Send fewer excluded ids or smaller batches, or split it into several calls.",
    )


def slow_request(seconds: float) -> ApiError:
    """408: the request did not arrive in time."""
    return ApiError(
        408,
        "slow_request",
        f"The request did not arrive whole within {seconds:g} seconds.",
        "Send it faster, or in smaller parts.",
    )


def too_many_connections(limit: int) -> ApiError:
    """503: no room for another connection."""
    return ApiError(
        503,
        "connections",
        f"This worker has all of its {limit} connections in use.",
        "Retry after the seconds in Retry-After, and keep connections open between requests.",
        retry_after=1,
    )


def malformed() -> ApiError:
    """400: no HTTP."""
    return ApiError(400, "bad_request", "This is not a well-formed HTTP request.", "Send HTTP/1.1.")


def body_too_large(limit: int) -> ApiError:
    """413."""
    return ApiError(
        413, "body_too_large", f"The body is larger than {limit} bytes.", "Send less, or split it into several calls."
    )


def headers_too_large(limit: int) -> ApiError:
    """431: request line and headers together."""
    return ApiError(
        431,
        "headers_too_large",
        f"The request line and headers are larger than {limit} bytes.",
        "Send long lists of excluded ids with POST /recommend.",
    )


def method_not_allowed(method: str, path: str, allowed: str) -> ApiError:
    """405: names what the path takes."""
    return ApiError(405, "method_not_allowed", f"{path} does not take {method}.", f"Use {allowed}.")


def not_found(path: str) -> ApiError:
    """404: no such call."""
    return ApiError(404, "not_found", f"There is no call {_short(path)}.", "GET /docs lists the calls.")


def internal() -> ApiError:
    """500: our fault; the details are in the log under the request id."""
    return ApiError(
        500, "internal", "Something went wrong on our side.", "Report it with the X-Request-ID of this answer."
    )


def _short(text: str, limit: int = 80) -> str:
    """Quote what the caller sent, cut so that an answer does not echo a thousand characters."""
    return repr(text if len(text) <= limit else text[:limit] + "…")
