"""GET /similar."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.outer import arrival_of
from service.http.routes import HEADER_PARAMETERS, worker_of
from service.http.routes.recommend import ERRORS
from service.http.schemas import SimilarItems

router = APIRouter(tags=["recommend"])


@router.get(
    "/similar",
    summary="Items like an item",
    response_model=SimilarItems,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def similar(request: Request) -> Response:
    """Return the items most similar to an item, or to several together, these left out.

    By cosine, in an index of its own with its own curve for `target_recall`; `by=inner_product` compares by inner
    product, which favours long vectors: popular items, mostly.
    """
    worker, scope = worker_of(request), request.scope
    question = worker.questions.similar(scope["query_string"], scope["headers"], arrival_of(scope))
    return Response(await worker.arms.answer(question, scope["budgetrec.limit"]), media_type="application/json")
