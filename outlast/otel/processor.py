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
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    get_current_span,
    set_span_in_context,
)

from outlast.edges.newest import keep_newest
from outlast.otel.converter import Redact, SpanConverter, context_of, span_seconds
from outlast.otel.metrics import Metrics
from outlast.otel.readers import metric_readers
from outlast.otel.sampling import Sampling
from outlast.pricing import Pricing
from outlast.tracing.current import Span, Trace
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import unused

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
        redact: changes what people, models, tools and programs wrote before it is sent. It gets the
            name and the value of an attribute, such as `gen_ai.input.messages`, `user.id` or
            `error.message`, and returns the value to send; None sends none. What it fails at is
            left out. It runs in the processor's thread.
        sampler: chooses the traces that are sent, by their ids, so that all workers choose the same
            ones; default: as `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` say, else all.
            Metrics count all of them.
    """

    handover_seconds: float = 0.5

    def __init__(
        self,
        *,
        exporter: SpanExporter | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        include_content: bool | None = None,
        resource: Resource | None = None,
        pricing: Pricing | None = None,
        redact: Redact | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        self._converter = SpanConverter(
            include_content=include_content, resource=resource, pricing=pricing, redact=redact
        )
        self._sampling = Sampling(sampler)
        self._own_meters: SdkMeterProvider | None = None
        readers = metric_readers() if meter_provider is None and exporter is None else []
        if readers:
            self._own_meters = SdkMeterProvider(readers, resource=self._converter.resource)
        meters = meter_provider or self._own_meters or metrics.get_meter_provider()
        self._metrics = Metrics(meters.get_meter("outlast", version("outlast")))
        self._batches = BatchSpanProcessor(
            exporter or OTLPSpanExporter(),
            schedule_delay_millis=None if DELAY_VARIABLE in os.environ else DELAY_MILLISECONDS,
        )
        self._sent: OrderedDict[str, None] = OrderedDict()

    def on_span_end(self, span: Span[Any]) -> None:
        """Export an ended span, and count it."""
        if self._was_sent(span):
            return
        described = self._converter.describe(span)
        self._metrics.record(span, described, span_seconds(span))
        if self._sampling.is_sampled(span):
            self._batches.on_end(self._converter.convert(span, described))

    def enter_span(self, span: Span[Any]) -> Callable[[], None]:
        """Make a span OpenTelemetry's current one, so that spans of tools and libraries are inside it."""
        made = _CurrentSpan(span, self._sampling)
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
        keep_newest(self._sent, span.span_id, None, MOST_REMEMBERED)
        return False

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


class _CurrentSpan(NonRecordingSpan):
    """Stands for a span of a run; its ids are converted only if OpenTelemetry asks for them."""

    def __init__(self, span: Span[Any], sampling: Sampling) -> None:
        self._span = span
        self._sampling = sampling

    def get_span_context(self) -> SpanContext:
        """Return OpenTelemetry's ids of the span."""
        return context_of(self._span, is_sampled=self._sampling.is_sampled(self._span))

    def __repr__(self) -> str:
        return f"NonRecordingSpan({self.get_span_context()!r})"
