"""GET /health/live and GET /health/ready: two different questions."""

from __future__ import annotations

from fastapi import APIRouter, Request

from service import errors
from service.http.routes import documented, worker_of
from service.http.schemas import Health

router = APIRouter(tags=["health"])


@router.get("/health/live", summary="Is it alive?", responses=documented(500))
async def live() -> Health:
    """Say that the process answers; true from the first moment."""
    return Health(status="live")


@router.get("/health/ready", summary="Is it ready to answer?", responses=documented(500, 503))
async def ready(request: Request) -> Health:
    """Say that a model is loaded, verified and warmed, and that the service is not shutting down."""
    reason = worker_of(request).not_ready_because()
    if reason is not None:
        raise errors.not_ready(reason)
    return Health(status="ready")
