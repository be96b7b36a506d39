"""The calls, one module each; `documented` is what they share for OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.http.schemas import ErrorAnswer

if TYPE_CHECKING:
    from fastapi import Request

    from service.worker import Worker

_ERRORS = {
    400: "The body cannot be read.",
    401: "A key is needed.",
    403: "This key will not do.",
    404: "Unknown user, item or version.",
    409: "The model cannot do this.",
    413: "The body is too large.",
    422: "A parameter is wrong; the message names it.",
    429: "The key has used up its inner products per second.",
    500: "Our fault.",
    503: "Not ready, or overloaded.",
}
_RETRY = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer", "minimum": 1}}}

HEADER_PARAMETERS: list[dict[str, Any]] = [
    {
        "name": "X-Request-Deadline-Ms",
        "in": "header",
        "required": False,
        "description": "As deadline_ms; the sooner of the two counts.",
        "schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 600000, "examples": [5]},
    },
    {
        "name": "X-Priority",
        "in": "header",
        "required": False,
        "description": "Class of the caller: under overload, batch shrinks and is refused first.",
        "schema": {"type": "string", "enum": ["interactive", "batch"], "examples": ["interactive"]},
    },
]


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors a call can answer with, for OpenAPI."""
    return {
        status: {"model": ErrorAnswer, "description": _ERRORS[status]}
        | ({"headers": _RETRY} if status in (429, 503) else {})
        for status in statuses
    }


def worker_of(request: Request) -> Worker:
    """Return the worker that serves a request."""
    worker: Worker = request.app.state.worker
    return worker
