"""POST /recommend/batch."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.errors import invalid
from service.http.bodies import BoundedRoute
from service.http.outer import arrival_of
from service.http.routes import HEADER_PARAMETERS, worker_of
from service.http.routes.recommend import ERRORS
from service.http.schemas import BatchAnswer, BatchRequest

router = APIRouter(tags=["recommend"], route_class=BoundedRoute)


@router.post(
    "/recommend/batch",
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
    most = worker.settings.max_batch
    if len(body.requests) > most:
        raise invalid("requests", f"has {len(body.requests)} entries", f"at most {most} entries")
    model = worker.answering.model
    n_dims = None if model is None else model.n_dims
    questions = worker.questions.batch(body.requests, scope["headers"], arrival_of(scope), n_dims)
    wanted, most = sum(question.top_k for question in questions), worker.settings.max_batch_items
    if wanted > most:
        raise invalid("requests", f"ask for {wanted} items together", f"a sum of top_k of at most {most}")
    answers = await worker.answering.answer_batch(questions, scope["budgetrec.limit"])
    return Response(b'{"results":[' + b",".join(answers) + b"]}", media_type="application/json")
