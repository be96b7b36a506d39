"""The application: FastAPI with all calls and their documentation, inside the shell that the server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service import errors
from service.errors import ApiError
from service.routes import admin, batch, health, metrics, model, recommend, similar
from service.service import Service
from service.shell import Shell

if TYPE_CHECKING:
    from pathlib import Path

    from fastapi import Request

    from service.settings import Settings

DESCRIPTION = """
Recommendations that spend exactly the inner products a request gives them. Every answer carries its receipt:
what was granted, what was spent, whether the answer is exact.
"""


def create_app(settings: Settings, *, slot: int = 0, run_dir: Path | None = None) -> Shell:
    """Return the ASGI application of one worker. The model loads in the background once the lifespan starts."""
    service = Service(settings, slot=slot, run_dir=run_dir)
    api = FastAPI(title="budgetrec", version="0.1.0", description=DESCRIPTION, redoc_url=None, redirect_slashes=False)
    api.state.service = service
    for module in (recommend, batch, similar, model, health, metrics, admin):
        api.include_router(module.router)
    api.add_exception_handler(HTTPException, _http_error)
    api.add_exception_handler(RequestValidationError, _invalid_body)
    api.add_exception_handler(ApiError, _api_error)
    api.add_exception_handler(Exception, _api_error)
    document = _Documentation(api, service)
    api.openapi = document.openapi  # type: ignore[method-assign]
    return Shell(service, api)


async def _api_error(request: Request, error: Exception) -> Response:
    """Answer with the error; anything that is not an ApiError is our fault and logged by the shell."""
    if not isinstance(error, ApiError):
        error = errors.internal()
    service: Service = request.app.state.service
    service.failed(error, request.scope["headers"])
    headers = {name.decode(): value.decode() for name, value in error.headers()}
    return Response(error.body(), error.status, headers)


async def _http_error(request: Request, error: Exception) -> Response:
    """Give the framework's own errors our shape."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    shaped = ApiError(400, "bad_request", "The request cannot be read.", "Send well-formed JSON in UTF-8.")
    if isinstance(error.__cause__, ApiError):
        shaped = error.__cause__
    elif status == 404:
        shaped = errors.not_found(request.url.path)
    elif status == 405:
        allowed = (getattr(error, "headers", None) or {}).get("Allow", "GET or POST")
        shaped = errors.method_not_allowed(request.method, request.url.path, allowed)
    response = await _api_error(request, shaped)
    if status == 405:
        response.headers["allow"] = allowed
    return response


async def _invalid_body(request: Request, error: Exception) -> Response:
    """Name the first field that is wrong; never show what was sent, which may be a vector."""
    first = error.errors()[0] if isinstance(error, RequestValidationError) else {"loc": (), "msg": "", "type": ""}
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"][1:]).lstrip(".")
    if first["type"] == "json_invalid":
        return await _api_error(
            request, ApiError(422, "invalid_parameter", "The body is not valid JSON.", "Send a JSON object in UTF-8.")
        )
    message = str(first["msg"]).removeprefix("Value error, ")
    shaped = ApiError(
        422,
        "invalid_parameter",
        f"{place or 'The body'} is not valid: {message[:1].lower()}{message[1:]}.",
        "GET /docs shows what each field takes.",
    )
    return await _api_error(request, shaped)


class _Documentation:
    """OpenAPI with the limits of the settings and the length of the loaded model's vectors."""

    def __init__(self, api: FastAPI, service: Service) -> None:
        self._generate = api.openapi
        self._api = api
        self._service = service
        self._made: tuple[str | None, dict[str, Any]] | None = None

    def openapi(self) -> dict[str, Any]:
        """Return the document; made anew when the model changes."""
        model = self._service.engine.model
        identity = model.identity if model else None
        if self._made is None or self._made[0] != identity:
            self._api.openapi_schema = None
            self._made = (identity, self._complete(self._generate()))
        return self._made[1]

    def _complete(self, document: dict[str, Any]) -> dict[str, Any]:
        service, settings = self._service, self._service.settings
        model = service.engine.model
        paths = document["paths"]
        for path, reader in (("/recommend", service.recommend_query), ("/similar", service.similar_query)):
            call = paths[path]["get"]
            call["parameters"] = reader.openapi() + call.get("parameters", [])
        schemas = document["components"]["schemas"]
        fields = schemas["RecommendRequest"]["properties"]
        _limit(fields["top_k"], maximum=settings.max_top_k)
        _limit(fields["exclude"], maxItems=settings.max_exclude)
        if model is not None:
            _limit(fields["vector"], minItems=model.n_dims, maxItems=model.n_dims)
        _limit(schemas["BatchRequest"]["properties"]["requests"], maxItems=settings.max_batch)
        for path, calls in paths.items():
            for call in calls.values():
                if not _takes_input(call):
                    call["responses"].pop("422", None)
                _secure(path, call, service)
        document["components"]["securitySchemes"] = {
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
        }
        return document


def _takes_input(call: dict[str, Any]) -> bool:
    return bool(call.get("parameters") or call.get("requestBody"))


# What is answered to anybody, keys or not.
_OPEN = ("/health", "/metrics")


def _secure(path: str, call: dict[str, Any], service: Service) -> None:
    admin = path.startswith("/admin")
    if service.keyring.admin_required if admin else service.keyring.required and not path.startswith(_OPEN):
        call["security"] = [{"key": []}, {"bearer": []}]


def _limit(field: dict[str, Any], **limits: int) -> None:
    """Set a limit on a field or, where it may be null, on the branch that is not."""
    for branch in field.get("anyOf", [field]):
        if branch.get("type") != "null":
            branch.update(limits)
