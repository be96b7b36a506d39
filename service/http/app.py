"""The application: FastAPI with all calls, inside the outer layer that the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service import errors
from service.errors import ApiError
from service.http.calls import call_of
from service.http.openapi import Documentation
from service.http.outer import OuterLayer
from service.http.routes import (
    admin,
    batch,
    health,
    lookups,
    metrics,
    model,
    page,
    pages,
    recommend,
    scenarios,
    similar,
)
from service.version import VERSION

if TYPE_CHECKING:
    from fastapi import Request
    from fastapi.telemetry import TelemetryConfig

    from service.worker import Worker

DESCRIPTION = """
Recommendations that spend exactly the inner products a request gives them. Every answer carries its receipt:
what was granted, what was spent, whether the answer is exact.
"""


def create_app(worker: Worker) -> OuterLayer:
    """Return the ASGI application of one worker. The model loads in the background once the lifespan starts."""
    return OuterLayer(worker, create_api(worker))


def create_api(worker: Worker) -> FastAPI:
    """Return what is inside of the outer layer: all calls and their documentation."""
    api = FastAPI(
        title="budgetrec",
        version=VERSION,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        servers=[{"url": "/", "description": "The service that this document came from."}],
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_telemetry(worker),
        generate_unique_id_function=lambda route: str(route.name),
    )
    api.state.worker = worker
    for module in (recommend, batch, similar, model, scenarios, health, metrics, admin, pages):
        api.include_router(module.router)
    if worker.settings.page:
        for module in (lookups, page):
            api.include_router(module.router)
    api.add_exception_handler(HTTPException, _http_error)
    api.add_exception_handler(RequestValidationError, _invalid_body)
    api.add_exception_handler(ApiError, _api_error)
    api.add_exception_handler(Exception, _api_error)
    api.openapi = Documentation(api, worker).openapi  # type: ignore[method-assign]
    return api


def _telemetry(worker: Worker) -> TelemetryConfig:
    """Return what FastAPI traces: the calls that answer questions. Its metrics and logs are ours to make."""
    return {
        "tracing": worker.tracer_provider is not None,
        "tracer_provider": worker.tracer_provider,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "exclude": lambda scope: call_of(scope["path"]).access == "open",
    }


async def _api_error(request: Request, error: Exception) -> Response:
    """Answer with the error; anything that is not an ApiError is our fault and logged by the outer layer."""
    if not isinstance(error, ApiError):
        error = errors.internal()
    worker: Worker = request.app.state.worker
    worker.note_failure(error, request.scope["headers"])
    headers = {name.decode(): value.decode() for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Give the framework's own errors our shape."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    shaped = ApiError(400, "bad_request", "The request cannot be read.", "Send well-formed JSON in UTF-8.")
    if isinstance(error.__cause__, RequestValidationError):
        # A large body, which was validated where it was parsed.
        return await _invalid_body(request, error.__cause__)
    if isinstance(error.__cause__, ApiError):
        shaped = error.__cause__
    elif status == 404:
        shaped = errors.not_found(request.url.path)
    elif status == 405:
        methods = call_of(request.url.path).methods
        shaped = errors.method_not_allowed(request.method, request.url.path, " or ".join(methods))
    response = await _api_error(request, shaped)
    if status == 405:
        response.headers["allow"] = ", ".join(methods)
    return response


async def _invalid_body(request: Request, error: Exception) -> Response:
    """Name the first field that is wrong; never show what was sent, which may be a vector."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": "", "type": ""}
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][1:]).lstrip(".")
    if first["type"] == "json_invalid":
        return await _api_error(
            request,
            ApiError(
                422,
                "invalid_parameter",
                "The body is not valid JSON.",
                "Send a JSON object in UTF-8; it has no NaN, no half of a surrogate pair and no number of thousands "
                "of digits.",
            ),
        )
    if "json" not in request.headers.get("content-type", "json"):
        return await _api_error(
            request,
            ApiError(
                422,
                "invalid_parameter",
                "The body is not sent as JSON.",
                "Send it with Content-Type: application/json.",
            ),
        )
    message = str(first["msg"]).removeprefix("Value error, ")
    shaped = ApiError(
        422,
        "invalid_parameter",
        f"{place or 'The body'} is not valid: {message[:1].lower()}{message[1:]}.",
        "GET /docs shows what each field takes.",
    )
    return await _api_error(request, shaped)
