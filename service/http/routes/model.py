"""GET /model, GET /models and GET /budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from greedy_core import QUALITY_MEANINGS
from service import errors
from service.http.routes import documented, worker_of
from service.http.schemas import Budgets, ModelDescription, ServedModels

if TYPE_CHECKING:
    from service.answering.answering import Answering
    from service.models.model import Model
    from service.worker import Worker

router = APIRouter(tags=["model"])


def _asked(request: Request) -> tuple[Answering, Model]:
    """Return the model that a request is about, with what answers for it."""
    worker = worker_of(request)
    return model_named(worker, worker.questions.model_parameters.read(request.scope["query_string"]).get("model"))


def model_named(worker: Worker, name: str | None) -> tuple[Answering, Model]:
    """Return a model, with what answers for it; 404 for an unknown name, 503 while none is loaded."""
    answering = worker.arms.named(name)
    if answering.model is None:
        raise errors.not_ready(worker.not_ready_because() or "no model is loaded")
    return answering, answering.model


@router.get(
    "/model",
    summary="The model that answers",
    response_model=ModelDescription,
    responses=documented(401, 403, 404, 422, 500, 503),
)
async def model(request: Request) -> Response:
    """Return version and sizes of the model, how it was built and when it was loaded."""
    _, loaded = _asked(request)
    return Response(orjson.dumps(loaded.describe()), media_type="application/json")


@router.get(
    "/models", summary="All models and the experiment", response_model=ServedModels, responses=documented(401, 403, 500)
)
async def models(request: Request) -> Response:
    """Return all models that this service answers with, and how an experiment deals users out to them."""
    worker = worker_of(request)
    experiment = worker.arms.experiment
    served = [
        {
            "name": name,
            "version": None if answering.model is None else answering.model.version,
            "is_default": answering is worker.arms.default,
            "share": None if experiment is None else experiment.share(name),
            "waits_for": worker.keepers[name].not_ready_because(),
        }
        for name, answering in worker.arms.by_name.items()
    ]
    answer = {"experiment": None if experiment is None else experiment.name, "models": served}
    return Response(orjson.dumps(answer), media_type="application/json")


@router.get(
    "/budgets",
    summary="What each budget buys and costs",
    response_model=Budgets,
    responses=documented(401, 403, 404, 409, 422, 500, 503),
)
async def budgets(request: Request) -> Response:
    """Return what each budget buys and costs.

    It buys recall@10 against exact search, as calibrated, and a share of the NDCG@10 on real behaviour, where the
    model was trained with `budgetrec train`. It costs latency, by the live cost law.
    """
    answering, loaded = _asked(request)
    if loaded.calibration is None:
        raise errors.no_calibration()
    law = answering.law

    def priced(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [point | {"latency_us": round(law.seconds(point["budget"]) * 1e6, 1)} for point in points]

    measured = loaded.calibration.to_dict()
    vectors = measured.pop("vectors")
    similar = loaded.similar_calibration
    answer = {
        "model": loaded.version,
        "points": priced(measured.pop("points")),
        "vectors": None if vectors is None else priced(vectors["points"]),
        "similar": None if similar is None else priced(similar.to_dict()["points"]),
        "cost_law": {"a_us": round(law.a * 1e6, 3), "b_us": round(law.b * 1e6, 6)},
        "calibration": measured,
        "quality": None if loaded.quality is None else loaded.quality.to_dict() | {"meanings": QUALITY_MEANINGS},
    }
    return Response(orjson.dumps(answer), media_type="application/json")
