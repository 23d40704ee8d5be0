"""Makes OpenTelemetry's spans of the spans of runs."""

import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from outlast.agents.logs import get_logger
from outlast.otel.attributes import Described, Describer, error_type
from outlast.otel.conventions import ERROR_MESSAGE, WRITTEN
from outlast.otel.identity import caller_numbers, span_number, trace_number
from outlast.pricing import Pricing
from outlast.tracing.current import Span

logger: Final = get_logger(__name__)

Redact: TypeAlias = Callable[[str, AttributeValue], AttributeValue | None]
"""Changes what somebody wrote: gets an attribute's name and value, and returns what is sent."""

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
        redact: Redact | None = None,
    ) -> None:
        if include_content is None:
            include_content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"
        self.resource: Resource = _named(resource or Resource.create())
        self._describer = Describer(
            include_content=include_content, pricing=pricing or Pricing.load()
        )
        self._scope = InstrumentationScope("outlast", version("outlast"))
        self._redact = redact

    def describe(self, span: Span[Any]) -> Described:
        """Return the description of an ended span."""
        return self._describer.describe(span)

    def convert(self, span: Span[Any], described: Described) -> ReadableSpan:
        """Return an ended span as OpenTelemetry's."""
        parent_id, attributes = span.parent_id, described.attributes
        if self._redact is not None:
            attributes = redacted(attributes, self._redact)
        return ReadableSpan(
            name=described.name,
            context=context_of(span),
            parent=_context(trace_number(span.trace_id), span_number(parent_id))
            if parent_id
            else None,
            resource=self.resource,
            attributes=attributes,
            links=_links(span),
            kind=described.kind,
            status=self._status(span),
            start_time=_nanoseconds(span.started_seconds or 0.0),
            end_time=_nanoseconds(span.ended_seconds or 0.0),
            instrumentation_scope=self._scope,
        )

    def _status(self, span: Span[Any]) -> Status:
        kind = error_type(span)
        if not kind:
            return _NO_STATUS
        if span.error is None or not self._describer.include_content:
            return Status(StatusCode.ERROR, kind)
        text: object = span.error["message"]
        if self._redact is not None:
            found = redacted({ERROR_MESSAGE: str(text)}, self._redact)
            text = found.get(ERROR_MESSAGE, kind)
        return Status(StatusCode.ERROR, str(text))


def redacted(attributes: Mapping[str, AttributeValue], redact: Redact) -> dict[str, AttributeValue]:
    """Return attributes as a program's function changes them; without those that it fails at."""
    found: dict[str, AttributeValue] = {}
    for name, value in attributes.items():
        if name in WRITTEN or name == ERROR_MESSAGE:
            try:
                changed = redact(name, value)
            except Exception:
                logger.exception("redact= failed at %s, which is left out of the span", name)
                continue
            if changed is not None:
                found[name] = changed
        else:
            found[name] = value
    return found


def span_seconds(span: Span[Any]) -> float:
    """Return how long an ended span took."""
    return (span.ended_seconds or 0.0) - (span.started_seconds or 0.0)


def context_of(span: Span[Any], *, is_sampled: bool = True) -> SpanContext:
    """Return OpenTelemetry's ids of a span."""
    flags = _SAMPLED if is_sampled else _NOT_SAMPLED
    return _context(trace_number(span.trace_id), span_number(span.span_id), flags)


_NO_STATUS: Final = Status(StatusCode.UNSET)
_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED: Final = TraceFlags(TraceFlags.DEFAULT)


def _context(trace_id: int, span_id: int, flags: TraceFlags = _SAMPLED) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=flags)


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
