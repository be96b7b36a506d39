"""The OpenAPI document: FastAPI's, with the limits of the settings and the length of the loaded model's vectors."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from service.http.calls import call_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.models.model import Model
    from service.worker import Worker


class Documentation:
    """OpenAPI with the limits of the settings and the length of the loaded model's vectors."""

    def __init__(self, api: FastAPI, worker: Worker) -> None:
        self._generate = api.openapi
        self._api = api
        self._worker = worker
        self._made: tuple[tuple[str, ...], dict[str, Any]] | None = None
        self._lock = Lock()

    def openapi(self) -> dict[str, Any]:
        """Return the document; made anew when the model changes, which takes too long for the event loop."""
        identity = tuple(model.fingerprint for model in self._models())
        with self._lock:
            if self._made is None or self._made[0] != identity:
                self._api.openapi_schema = None
                self._made = (identity, self._complete(self._generate()))
            return self._made[1]

    def _models(self) -> list[Model]:
        models = (answering.model for answering in self._worker.arms.by_name.values())
        return [model for model in models if model is not None]

    def _complete(self, document: dict[str, Any]) -> dict[str, Any]:
        worker, settings = self._worker, self._worker.settings
        paths = document["paths"]
        for path, reader in (
            ("/recommend", worker.questions.recommend_parameters),
            ("/similar", worker.questions.similar_parameters),
            ("/model", worker.questions.model_parameters),
            ("/budgets", worker.questions.model_parameters),
            ("/metrics", worker.questions.metrics_parameters),
            ("/versions", worker.questions.model_parameters),
            ("/attributes", worker.questions.attributes_parameters),
            ("/items", worker.questions.items_parameters),
            ("/users", worker.questions.users_parameters),
        ):
            if path not in paths:
                continue  # switched off with the page
            call = paths[path]["get"]
            call["parameters"] = reader.openapi() + call.get("parameters", [])
        schemas = document["components"]["schemas"]
        fields = schemas["RecommendRequest"]["properties"]
        _limit(fields["top_k"], maximum=settings.max_top_k)
        _limit(fields["offset"], maximum=settings.max_offset)
        _limit(fields["exclude"], maxItems=settings.max_exclude)
        _limit(fields["items"], maxItems=settings.max_items)
        lengths = {model.n_dims for model in self._models()}
        if lengths:
            _limit(fields["vector"], minItems=min(lengths), maxItems=max(lengths))
        _limit(schemas["BatchRequest"]["properties"]["requests"], maxItems=settings.max_batch)
        for path, calls in paths.items():
            for call in calls.values():
                if not _takes_input(call):
                    call["responses"].pop("422", None)
                _secure(path, call, worker)
        document["components"]["securitySchemes"] = {
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "bearer": {"type": "http", "scheme": "bearer"},
        }
        return document


def _takes_input(call: dict[str, Any]) -> bool:
    return bool(call.get("parameters") or call.get("requestBody"))


def _secure(path: str, call: dict[str, Any], worker: Worker) -> None:
    access = call_of(path).access
    if worker.keyring.admin_required if access == "admin" else worker.keyring.required and access == "key":
        call["security"] = [{"key": []}, {"bearer": []}]
    else:
        call["security"] = []


def _limit(field: dict[str, Any], **limits: int) -> None:
    """Set a limit on a field or, where it may be null, on the branch that is not."""
    for branch in field.get("anyOf", [field]):
        if branch.get("type") != "null":
            branch.update(limits)
