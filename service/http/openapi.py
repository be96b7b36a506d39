"""The OpenAPI document: FastAPI's, with the limits of the settings and the length of the loaded model's vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.http.calls import call_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.worker import Worker


class Documentation:
    """OpenAPI with the limits of the settings and the length of the loaded model's vectors."""

    def __init__(self, api: FastAPI, worker: Worker) -> None:
        self._generate = api.openapi
        self._api = api
        self._worker = worker
        self._made: tuple[str | None, dict[str, Any]] | None = None

    def openapi(self) -> dict[str, Any]:
        """Return the document; made anew when the model changes."""
        model = self._worker.answering.model
        identity = model.fingerprint if model else None
        if self._made is None or self._made[0] != identity:
            self._api.openapi_schema = None
            self._made = (identity, self._complete(self._generate()))
        return self._made[1]

    def _complete(self, document: dict[str, Any]) -> dict[str, Any]:
        worker, settings = self._worker, self._worker.settings
        model = worker.answering.model
        paths = document["paths"]
        for path, reader in (
            ("/recommend", worker.questions.recommend_parameters),
            ("/similar", worker.questions.similar_parameters),
        ):
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


def _limit(field: dict[str, Any], **limits: int) -> None:
    """Set a limit on a field or, where it may be null, on the branch that is not."""
    for branch in field.get("anyOf", [field]):
        if branch.get("type") != "null":
            branch.update(limits)
