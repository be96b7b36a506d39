"""GET /similar."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.outer import arrival_of
from service.http.routes import HEADER_PARAMETERS, worker_of
from service.http.routes.recommend import ERRORS
from service.http.schemas import SimilarItems

router = APIRouter(tags=["recommend"])


@router.get("/similar", response_model=SimilarItems, responses=ERRORS, openapi_extra={"parameters": HEADER_PARAMETERS})
async def similar(request: Request) -> Response:
    """Return the items with the largest inner products with an item, itself left out."""
    worker, scope = worker_of(request), request.scope
    question = worker.questions.similar(scope["query_string"], scope["headers"], arrival_of(scope))
    return Response(await worker.answering.answer(question, scope["budgetrec.limit"]), media_type="application/json")
