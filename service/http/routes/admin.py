"""POST /admin/reload and POST /admin/rollback."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from service.http.bodies import BoundedRoute
from service.http.routes import documented, worker_of
from service.http.schemas import ReloadRequest, RollbackRequest, SwapOutcome

router = APIRouter(prefix="/admin", tags=["admin"], route_class=BoundedRoute)

ERRORS = documented(400, 401, 403, 404, 409, 413, 422, 500, 503)


@router.post(
    "/reload",
    summary="Swap a version in",
    response_model=SwapOutcome,
    response_model_exclude_unset=True,
    responses=ERRORS,
)
async def reload(request: Request, body: ReloadRequest | None = None) -> Any:
    """Load the current version (or the one named), verify it, warm it up, and swap it in, in every worker.

    A bad bundle, or one whose calibrated recall against exact search (or NDCG@10, if that is set) falls too far
    behind, is refused with the reason, and the running model serves on. Where there are several models, `model` says
    which; the others serve on undisturbed.
    """
    if body is None:
        return await worker_of(request).keeper_of(None).reload()
    return await worker_of(request).keeper_of(body.model).reload(body.version, force=body.force)


@router.post(
    "/rollback",
    summary="Return to the version before",
    response_model=SwapOutcome,
    response_model_exclude_unset=True,
    responses=ERRORS,
)
async def rollback(request: Request, body: RollbackRequest | None = None) -> Any:
    """Return to the model that was served before, in every worker."""
    return await worker_of(request).keeper_of(None if body is None else body.model).rollback()
