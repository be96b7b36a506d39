"""GET and POST /recommend."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.bodies import BoundedRoute
from service.http.outer import arrival_of
from service.http.routes import HEADER_PARAMETERS, documented, worker_of
from service.http.schemas import Recommendation, RecommendRequest

router = APIRouter(tags=["recommend"], route_class=BoundedRoute)

ERRORS = documented(400, 401, 403, 404, 409, 413, 422, 429, 500, 503)


@router.get(
    "/recommend",
    summary="Items for a user or a history",
    response_model=Recommendation,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend(request: Request) -> Response:
    """Return the best items for a user that a budget of inner products can find.

    `budget` is a cap. `target_recall` and `deadline_ms` are turned into budgets; the smallest counts. With none of
    them, the server's default is used. A deadline alone buys no more than what a recall@10 of 0.99 against exact
    search needs by the model's curve (the setting `deadline_recall`). One that has passed is answered with the
    popular items.
    """
    worker, scope = worker_of(request), request.scope
    question = worker.questions.recommend(scope["query_string"], scope["headers"], arrival_of(scope))
    return Response(await worker.arms.answer(question, scope["budgetrec.limit"]), media_type="application/json")


@router.post(
    "/recommend",
    summary="Items for a user, a history or a vector",
    response_model=Recommendation,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend_post(request: Request, body: RecommendRequest) -> Response:
    """Return the best items for a user or for a vector of your own."""
    worker, scope = worker_of(request), request.scope
    model = worker.arms.of_subject(body.model, body.user_id).model
    n_dims = None if model is None else model.n_dims
    question = worker.questions.posted(body, scope["headers"], arrival_of(scope), n_dims)
    return Response(await worker.arms.answer(question, scope["budgetrec.limit"]), media_type="application/json")
