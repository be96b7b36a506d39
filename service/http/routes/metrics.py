"""GET /metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.routes import documented, worker_of
from service.telemetry.exposition import CONTENT_TYPE

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses=documented(500) | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Return the numbers of all workers in Prometheus' text format."""
    return Response(worker_of(request).metrics.exposition(), headers={"content-type": CONTENT_TYPE})
