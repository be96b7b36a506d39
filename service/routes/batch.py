"""POST /recommend/batch."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.admission import BATCH
from service.ask import read_priority
from service.errors import invalid
from service.routes import HEADER_PARAMETERS, service_of
from service.routes.recommend import ERRORS, ask_of
from service.schemas import BatchAnswer, BatchRequest

router = APIRouter(tags=["recommend"])


@router.post(
    "/recommend/batch",
    response_model=BatchAnswer,
    responses=ERRORS,
    openapi_extra={"parameters": HEADER_PARAMETERS},
)
async def recommend_batch(request: Request, body: BatchRequest) -> Response:
    """Answer many questions in one call, each with its own budget.

    The class of the caller is `batch` unless a header says otherwise.
    """
    service = service_of(request)
    headers = request.scope["headers"]
    most = service.settings.max_batch
    if len(body.requests) > most:
        raise invalid("requests", f"has {len(body.requests)} entries", f"at most {most} entries")
    priority = read_priority(headers, BATCH)
    arrival = request.scope["budgetrec.arrival"]
    asks = [
        ask_of(entry, service, headers, f"requests[{position}].", priority, arrival)
        for position, entry in enumerate(body.requests)
    ]
    answers = await service.engine.answer_batch(asks, request.scope["budgetrec.key"])
    return Response(b'{"results":[' + b",".join(answers) + b"]}", media_type="application/json")
