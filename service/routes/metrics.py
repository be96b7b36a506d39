"""GET /metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.metrics import CONTENT_TYPE
from service.routes import documented, service_of

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses=documented(500) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Return the numbers of all workers in Prometheus' text format."""
    return Response(service_of(request).metrics.exposition(), headers={"content-type": CONTENT_TYPE.decode()})
