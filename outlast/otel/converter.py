"""Makes OpenTelemetry's spans of the spans of runs."""

import os
from importlib.metadata import version
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from outlast.otel.attributes import Described, Describer, error_type
from outlast.otel.identity import caller_numbers, span_number, trace_number
from outlast.pricing import Pricing
from outlast.tracing.current import Span

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's environment variable that asks for the content of messages."""


class SpanConverter:
    """Converts ended spans; the arguments are those of `OpenTelemetryProcessor`.

    Attributes:
        resource: describes the process.
    """

    def __init__(
        self,
        *,
        include_content: bool | None = None,
        resource: Resource | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        if include_content is None:
            include_content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"
        self.resource: Resource = _named(resource or Resource.create())
        self._describer = Describer(
            include_content=include_content, pricing=pricing or Pricing.load()
        )
        self._scope = InstrumentationScope("outlast", version("outlast"))

    def convert(self, span: Span[Any]) -> tuple[ReadableSpan, Described]:
        """Return an ended span as OpenTelemetry's, and its description."""
        described = self._describer.describe(span)
        parent_id = span.parent_id
        readable = ReadableSpan(
            name=described.name,
            context=context_of(span),
            parent=_context(trace_number(span.trace_id), span_number(parent_id))
            if parent_id
            else None,
            resource=self.resource,
            attributes=described.attributes,
            links=_links(span),
            kind=described.kind,
            status=self._status(span),
            start_time=_nanoseconds(span.started_seconds or 0.0),
            end_time=_nanoseconds(span.ended_seconds or 0.0),
            instrumentation_scope=self._scope,
        )
        return readable, described

    def _status(self, span: Span[Any]) -> Status:
        kind = error_type(span)
        if not kind:
            return _NO_STATUS
        has_text = span.error is not None and self._describer.include_content
        return Status(StatusCode.ERROR, span.error["message"] if has_text and span.error else kind)


def span_seconds(span: Span[Any]) -> float:
    """Return how long an ended span took."""
    return (span.ended_seconds or 0.0) - (span.started_seconds or 0.0)


def context_of(span: Span[Any]) -> SpanContext:
    """Return OpenTelemetry's ids of a span."""
    return _context(trace_number(span.trace_id), span_number(span.span_id))


_NO_STATUS: Final = Status(StatusCode.UNSET)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _links(span: Span[Any]) -> list[Link]:
    """Return the link from a question to the span of the program that asked it."""
    origin = span.trace.origin
    if span.facts.get("stage") != "question" or origin is None:
        return []
    of_run = "" if origin.question else origin.caller
    numbers = caller_numbers(str(span.facts.get("caller") or of_run))
    if numbers is None:
        return []
    trace_id, span_id, flags = numbers
    if span.parent_id is not None and span_id == span_number(span.parent_id):
        return []  # a tool started the run, and the run is in its trace
    return [Link(SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags)))]


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1_000


def _named(resource: Resource) -> Resource:
    """Return a resource with a name for the service, if nobody has named it."""
    name = str(resource.attributes.get("service.name", ""))
    if name and not name.startswith("unknown_service"):
        return resource
    return resource.merge(Resource({"service.name": "outlast"}))
