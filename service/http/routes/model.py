"""GET /model and GET /budgets."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from service import errors
from service.http.routes import documented, worker_of
from service.http.schemas import Budgets, ModelDescription

router = APIRouter(tags=["model"])


@router.get("/model", response_model=ModelDescription, responses=documented(401, 403, 500, 503))
async def model(request: Request) -> Response:
    """Return version and sizes of the model, how it was built and when it was loaded."""
    worker = worker_of(request)
    loaded = worker.answering.model
    if loaded is None:
        raise errors.not_ready(worker.not_ready_because() or "no model is loaded")
    return Response(orjson.dumps(loaded.describe()), media_type="application/json")


@router.get("/budgets", response_model=Budgets, responses=documented(401, 403, 409, 500, 503))
async def budgets(request: Request) -> Response:
    """Return what each budget buys (calibrated recall@10) and costs (latency by the live cost law)."""
    worker = worker_of(request)
    loaded = worker.answering.model
    if loaded is None:
        raise errors.not_ready(worker.not_ready_because() or "no model is loaded")
    if loaded.calibration is None:
        raise errors.no_calibration()
    law = worker.answering.law

    def priced(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [point | {"latency_us": round(law.seconds(point["budget"]) * 1e6, 1)} for point in points]

    measured = loaded.calibration.to_dict()
    vectors = measured.pop("vectors")
    answer = {
        "model": loaded.version,
        "points": priced(measured.pop("points")),
        "vectors": None if vectors is None else priced(vectors["points"]),
        "cost_law": {"a_us": round(law.a * 1e6, 3), "b_us": round(law.b * 1e6, 6)},
        "calibration": measured,
    }
    return Response(orjson.dumps(answer), media_type="application/json")
