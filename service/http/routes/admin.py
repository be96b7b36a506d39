"""POST /admin/reload and POST /admin/rollback."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from service.http.bodies import BoundedRoute
from service.http.routes import documented, worker_of
from service.http.schemas import ReloadRequest, SwapOutcome

router = APIRouter(prefix="/admin", tags=["admin"], route_class=BoundedRoute)

ERRORS = documented(400, 401, 403, 404, 409, 413, 422, 500, 503)


@router.post("/reload", response_model=SwapOutcome, responses=ERRORS)
async def reload(request: Request, body: ReloadRequest | None = None) -> Any:
    """Load the current version (or the one named), verify it, warm it up, and swap it in, in every worker.

    A bad bundle, or one whose calibrated recall falls too far behind, is refused with the reason, and the
    running model serves on.
    """
    keeper = worker_of(request).keeper
    if body is None:
        return await keeper.reload()
    return await keeper.reload(body.version, force=body.force)


@router.post("/rollback", response_model=SwapOutcome, responses=ERRORS)
async def rollback(request: Request) -> Any:
    """Return to the model that was served before, in every worker."""
    return await worker_of(request).keeper.rollback()
