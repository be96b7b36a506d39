"""GET /metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from service.http.routes import documented, worker_of
from service.telemetry.exposition import CONTENT_TYPE, OPENMETRICS, OPENMETRICS_TYPE

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=Response,
    responses=documented(422, 500)
    | {200: {"content": {kind: {"schema": {"type": "string"}} for kind in ("text/plain", OPENMETRICS)}}},
)
async def metrics(request: Request) -> Response:
    """Return the numbers of all workers in Prometheus' text format.

    Whoever accepts OpenMetrics gets that, with traced requests as exemplars on the latency histograms. `name[]` asks
    for some metrics only, as Prometheus' own clients let one do.
    """
    worker = worker_of(request)
    names = worker.questions.metrics_parameters.read(request.scope["query_string"]).get("name[]", ())
    openmetrics = OPENMETRICS in request.headers.get("accept", "")
    content_type = OPENMETRICS_TYPE if openmetrics else CONTENT_TYPE
    body = worker.metrics.exposition(openmetrics=openmetrics, names=names)
    return Response(body, headers={"content-type": content_type})
