"""GET and POST /recommend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from fastapi import APIRouter, Request, Response

from service.ask import Ask, read_priority, tightest_deadline
from service.errors import invalid
from service.routes import HEADER_PARAMETERS, documented, service_of
from service.schemas import Recommendation, RecommendRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.service import Service

router = APIRouter(tags=["recommend"])

ERRORS = documented(400, 401, 403, 404, 409, 413, 422, 429, 500, 503)


@router.get(
    "/recommend",
    response_model=Recommendation,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend(request: Request) -> Response:
    """Return the best items for a user that a budget of inner products can find.

    `budget` is a cap. `target_recall` and `deadline_ms` are turned into budgets; the smallest wins. With none
    of them, the server's default is used. The server's shell answers this call without coming here; the route
    is the same thing for other hosts.
    """
    service = service_of(request)
    headers = request.scope["headers"]
    ask = service.ask_recommend(request.scope["query_string"], headers, request.scope["budgetrec.arrival"])
    return Response(await service.engine.answer(ask, request.scope["budgetrec.key"]), media_type="application/json")


@router.post(
    "/recommend",
    response_model=Recommendation,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend_post(request: Request, body: RecommendRequest) -> Response:
    """Return the best items for a user or for a vector of your own."""
    service = service_of(request)
    headers = request.scope["headers"]
    ask = ask_of(body, service, headers, "", read_priority(headers), request.scope["budgetrec.arrival"])
    return Response(await service.engine.answer(ask, request.scope["budgetrec.key"]), media_type="application/json")


def ask_of(
    body: RecommendRequest,
    service: Service,
    headers: Sequence[tuple[bytes, bytes]],
    place: str,
    priority: int,
    arrival: float,
) -> Ask:
    """Turn a body into a question, after checking what depends on settings and model.

    `place` says where in a batch it stands.
    """
    settings = service.settings
    top_k = settings.default_top_k if body.top_k is None else body.top_k
    if top_k > settings.max_top_k:
        raise invalid(f"{place}top_k", f"is {top_k}", f"a whole number from 1 to {settings.max_top_k}")
    if len(body.exclude) > settings.max_exclude:
        raise invalid(f"{place}exclude", f"has {len(body.exclude)} ids", f"at most {settings.max_exclude} item ids")
    vector = None
    if body.vector is not None:
        model = service.engine.model
        if model is not None and len(body.vector) != model.n_dims:
            raise invalid(
                f"{place}vector",
                f"has {len(body.vector)} numbers",
                f"{model.n_dims}, as many as the model has dimensions",
            )
        with np.errstate(over="ignore"):
            vector = np.array(body.vector, dtype=np.float32)
        if not np.isfinite(vector).all():
            raise invalid(f"{place}vector", "has a number that float32 cannot hold", "finite numbers up to 1e15")
    return Ask(
        user_id=body.user_id,
        vector=vector,
        budget=body.budget,
        top_k=top_k,
        deadline=tightest_deadline(headers, body.deadline_ms),
        target_recall=body.target_recall,
        exclude=[item if isinstance(item, str) else str(item) for item in body.exclude],
        exclude_seen=body.exclude_seen,
        priority=priority,
        arrival=arrival,
    )
