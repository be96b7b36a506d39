"""GET /scenarios."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request, Response

from service.http.routes import documented, worker_of
from service.http.schemas import Scenarios

router = APIRouter(tags=["model"])


@router.get("/scenarios", summary="Recipes to ask by", response_model=Scenarios, responses=documented(401, 403, 500))
async def scenarios(request: Request) -> Response:
    """Return the scenarios that requests can name: recipes of budget, filter, rules and fallback."""
    served = worker_of(request).scenarios.by_name.values()
    answer = {"scenarios": [scenario.to_dict() for scenario in served]}
    return Response(orjson.dumps(answer), media_type="application/json")
