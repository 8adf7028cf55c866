"""OpenTelemetry traces, where a receiver is configured. Where none is, nothing is imported and a span costs nothing."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_tracer: "Tracer | None" = None


@contextmanager
def tracing(otlp_endpoint: str | None, service: str) -> Iterator[None]:
    """Sends the spans of what is done inside, in batches and by a thread of its own; the last ones before it ends."""
    global _tracer
    if otlp_endpoint is None:
        yield
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    exporter = OTLPSpanExporter(f"{otlp_endpoint.rstrip('/')}/v1/traces", timeout=5)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    _tracer = provider.get_tracer("moorage")
    try:
        yield
    finally:
        _tracer = None
        provider.shutdown()


def span(name: str, **attributes: str | int) -> AbstractContextManager[object]:
    """A name says the kind of thing that is done; which one it is done to is an attribute. What is raised inside marks it
    as failed. Never a secret in either."""
    if _tracer is None:
        return nullcontext()
    return _tracer.start_as_current_span(
        name, attributes={f"moorage.{key}": attributes[key] for key in attributes}
    )


def note(**attributes: str | int) -> None:
    """Something that is known only while the current span runs."""
    if _tracer is not None:
        from opentelemetry import trace

        current = trace.get_current_span()
        for key, value in attributes.items():
            current.set_attribute(f"moorage.{key}", value)
