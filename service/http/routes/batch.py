"""POST /recommend/batch."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.errors import invalid
from service.http.bodies import BoundedRoute
from service.http.outer import arrival_of
from service.http.routes import HEADER_PARAMETERS, worker_of
from service.http.routes.recommend import ERRORS
from service.http.schemas import BatchAnswer, BatchRequest, RecommendRequest

router = APIRouter(tags=["recommend"], route_class=BoundedRoute)


@router.post(
    "/recommend/batch",
    summary="Many questions in one call",
    response_model=BatchAnswer,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend_batch(request: Request, body: BatchRequest) -> Response:
    """Answer many questions in one call, each with its own budget.

    The class of the caller is `batch` unless a header says otherwise. A key with a limit pays for the whole batch at
    once.
    """
    worker, scope = worker_of(request), request.scope

    def n_dims(entry: RecommendRequest, place: str) -> int | None:
        model = worker.arms.of_subject(entry.model, entry.user_id, place).model
        return None if model is None else model.n_dims

    questions = await worker.questions.batch(body.requests, scope["headers"], arrival_of(scope), n_dims)
    wanted, most = sum(question.top_k for question in questions), worker.settings.max_batch_items
    if wanted > most:
        raise invalid("requests", f"ask for {wanted} items together", f"a sum of top_k of at most {most}")
    answers = await worker.arms.answer_batch(questions, scope["budgetrec.limit"])
    return Response(b'{"results":[' + b",".join(answers) + b"]}", media_type="application/json")
