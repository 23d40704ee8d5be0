"""Exports the spans of runs to OpenTelemetry, and counts its metrics.

A span is exported once it has ended, by the process in which it ended. Ids are derived, so spans
that several processes export make up one trace.
"""

import os
from collections import OrderedDict
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, Final

from opentelemetry import metrics
from opentelemetry.context import attach, detach
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from outlast.otel.attributes import Describer, error_type
from outlast.otel.identity import caller_numbers, span_number, trace_number
from outlast.otel.metrics import Metrics
from outlast.pricing import Pricing
from outlast.tracing.current import Span, Trace
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import unused

CONTENT_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""OpenTelemetry's environment variable that asks for the content of messages."""

METRICS_VARIABLE: Final = "OTEL_METRICS_EXPORTER"
"""OpenTelemetry's environment variable that is `none` where the backend takes no metrics."""

DELAY_VARIABLE: Final = "OTEL_BSP_SCHEDULE_DELAY"
DELAY_MILLISECONDS: Final = 1_000.0
"""How long spans wait for others to be sent with, after they waited for `handover_seconds`.

What a killed process has not sent is lost.
"""

MOST_REMEMBERED: Final = 10_000
"""How many spans of stages are remembered, so that a repeated workflow task or a reset repeats no span."""


class OpenTelemetryProcessor(TracingProcessor):
    """Sends spans and metrics of runs to an OpenTelemetry collector.

        add_trace_processor(OpenTelemetryProcessor())

    Without arguments, they go to the collector that OpenTelemetry's environment variables name, such
    as `OTEL_EXPORTER_OTLP_ENDPOINT`, over HTTP. Every worker needs one.

    Args:
        exporter: sends spans; default: OTLP over HTTP. With an exporter, metrics only go to
            `meter_provider`.
        meter_provider: takes metrics; default: a provider that sends them over OTLP, or, with an
            exporter, the global provider.
        include_content: whether spans contain messages, arguments and results of tools, and texts of
            errors; default: if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true`.
        resource: describes the process; default: from `OTEL_SERVICE_NAME` and
            `OTEL_RESOURCE_ATTRIBUTES`.
        pricing: the prices of models; default: `Pricing.load()`, on first use.
    """

    handover_seconds = 0.5

    def __init__(
        self,
        *,
        exporter: SpanExporter | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        include_content: bool | None = None,
        resource: Resource | None = None,
        pricing: Pricing | None = None,
    ) -> None:
        self._resource = _named(resource or Resource.create())
        if include_content is None:
            include_content = os.environ.get(CONTENT_VARIABLE, "").strip().lower() == "true"
        self._describer = Describer(
            include_content=include_content, pricing=pricing or Pricing.load()
        )
        self._own_meters: SdkMeterProvider | None = None
        sends_metrics = os.environ.get(METRICS_VARIABLE, "").strip().lower() != "none"
        if meter_provider is None and exporter is None and sends_metrics:
            reader = PeriodicExportingMetricReader(OTLPMetricExporter())
            self._own_meters = SdkMeterProvider([reader], resource=self._resource)
        meters = meter_provider or self._own_meters or metrics.get_meter_provider()
        release = version("outlast")
        self._metrics = Metrics(meters.get_meter("outlast", release))
        self._scope = InstrumentationScope("outlast", release)
        self._batches = BatchSpanProcessor(
            exporter or OTLPSpanExporter(),
            schedule_delay_millis=None if DELAY_VARIABLE in os.environ else DELAY_MILLISECONDS,
        )
        self._sent: OrderedDict[str, None] = OrderedDict()

    def on_span_end(self, span: Span[Any]) -> None:
        """Export an ended span, and count it."""
        if self._was_sent(span):
            return
        began, ended = span.started_seconds or 0.0, span.ended_seconds or 0.0
        described = self._describer.describe(span)
        self._metrics.record(span, described, ended - began)
        trace_id = trace_number(span.trace_id)
        parent_id = span.parent_id
        self._batches.on_end(
            ReadableSpan(
                name=described.name,
                context=_context(trace_id, span_number(span.span_id)),
                parent=_context(trace_id, span_number(parent_id)) if parent_id else None,
                resource=self._resource,
                attributes=described.attributes,
                links=_links(span),
                kind=described.kind,
                status=self._status(span),
                start_time=_nanoseconds(began),
                end_time=_nanoseconds(ended),
                instrumentation_scope=self._scope,
            )
        )

    def enter_span(self, span: Span[Any]) -> Callable[[], None]:
        """Make a span OpenTelemetry's current one, so that spans of tools and libraries are inside it."""
        made = NonRecordingSpan(_context(trace_number(span.trace_id), span_number(span.span_id)))
        token = attach(set_span_in_context(made))

        def leave() -> None:
            if get_current_span() is made:  # a generator may be closed in another context
                detach(token)

        return leave

    def _was_sent(self, span: Span[Any]) -> bool:
        """Whether a span of a stage was sent before.

        A workflow task may have been repeated, or the run reset: it is the same stage again.
        """
        if "stage" not in span.facts:
            return False
        if span.span_id in self._sent:
            return True
        self._sent[span.span_id] = None
        if len(self._sent) > MOST_REMEMBERED:
            self._sent.popitem(last=False)
        return False

    def _status(self, span: Span[Any]) -> Status:
        kind = error_type(span)
        if not kind:
            return _NO_STATUS
        has_text = span.error is not None and self._describer.include_content
        return Status(StatusCode.ERROR, span.error["message"] if has_text and span.error else kind)

    def force_flush(self) -> None:
        """Send all spans and metrics now."""
        self._batches.force_flush()
        if self._own_meters is not None:
            self._own_meters.force_flush()

    def shutdown(self) -> None:
        """Send all spans and metrics, and stop."""
        self._batches.shutdown()
        if self._own_meters is not None:
            self._own_meters.shutdown()

    @unused
    def on_trace_start(self, trace: Trace) -> None:
        """Do nothing: OpenTelemetry has no record of a trace besides its spans."""

    @unused
    def on_trace_end(self, trace: Trace) -> None:
        """Do nothing."""

    @unused
    def on_span_start(self, span: Span[Any]) -> None:
        """Do nothing: a span is exported once it has ended."""


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
