"""GET /similar."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.routes import HEADER_PARAMETERS, service_of
from service.routes.recommend import ERRORS
from service.schemas import SimilarItems

router = APIRouter(tags=["recommend"])


@router.get("/similar", response_model=SimilarItems, responses=ERRORS, openapi_extra={"parameters": HEADER_PARAMETERS})
async def similar(request: Request) -> Response:
    """Return the items with the largest inner products with an item, itself left out."""
    service = service_of(request)
    headers = request.scope["headers"]
    ask = service.ask_similar(request.scope["query_string"], headers, request.scope["budgetrec.arrival"])
    return Response(await service.engine.answer(ask, request.scope["budgetrec.key"]), media_type="application/json")
