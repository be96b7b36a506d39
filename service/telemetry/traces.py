"""Traces: where spans go, and which requests have any. Only a service with `traces` set imports OpenTelemetry's SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from service.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

    from service.settings import Settings

_QUERY = "url.query"


class _NoQueries(SpanProcessor):
    """Takes query strings out of the spans: they hold the ids of users."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """Hide the query string of a request's span."""
        if span.attributes and _QUERY in span.attributes:
            span.set_attribute(_QUERY, "hidden")


def make_provider(settings: Settings) -> TracerProvider:
    """Return what makes the spans of one worker and sends them, in a thread, to the collector that settings name.

    A caller's `traceparent` decides whether its request is traced; of the others, a share is.
    """
    resource = Resource.create({SERVICE_NAME: "budgetrec", SERVICE_VERSION: VERSION})
    sampler = ParentBased(TraceIdRatioBased(settings.traces_share))
    provider = TracerProvider(sampler=sampler, resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(_NoQueries())
    exporter = OTLPSpanExporter(endpoint=f"{str(settings.traces).rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
