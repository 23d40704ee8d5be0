"""Traces and spans that a program makes by hand, as tests of processors do, under the SDK's names.

They report to one processor, in the caller's thread.
"""

from contextvars import Token
from typing import Any, Final, TypeVar

from outlast.loop.values import JsonObject
from outlast.tracing.current import (
    CURRENT,
    NO_ID,
    Current,
    NoSpan,
    Span,
    Trace,
    gen_span_id,
    gen_trace_id,
)
from outlast.tracing.kinds import SpanData
from outlast.tracing.provider import TracingProcessor, get_current_span, get_current_trace
from outlast.tracing.receivers import Inline, Receiver

__all__ = ["NoOpSpan", "NoOpTrace", "ReattachedTrace", "Scope", "SpanImpl", "TraceImpl"]

D = TypeVar("D", bound=SpanData)

NoOpSpan: Final = NoSpan


class Scope:
    """The current trace and span, for programs that set them themselves.

    The `set` methods return what the `reset` methods take.
    """

    get_current_trace: Final = staticmethod(get_current_trace)
    get_current_span: Final = staticmethod(get_current_span)

    @staticmethod
    def set_current_trace(trace: Trace | None) -> "Token[Current | None]":
        """Set the current trace, without a span."""
        return CURRENT.set(None if trace is None else Current(trace, None))

    @staticmethod
    def set_current_span(span: Span[Any] | None) -> "Token[Current | None]":
        """Set the current span in the current trace, or in its own."""
        place = CURRENT.get()
        trace = place.trace if place is not None else getattr(span, "trace", None)
        return CURRENT.set(None if trace is None else Current(trace, span))

    reset_current_trace: Final = staticmethod(CURRENT.reset)
    reset_current_span: Final = staticmethod(CURRENT.reset)


class TraceImpl(Trace):
    """A trace that reports to one processor."""

    def __init__(
        self,
        name: str,
        trace_id: str | None,
        group_id: str | None,
        metadata: JsonObject | None,
        processor: TracingProcessor,
        tracing_api_key: str | None = None,
    ) -> None:
        """Make the trace; the key, which is for OpenAI's exporter, is not kept."""
        del tracing_api_key
        super().__init__(
            name,
            trace_id=trace_id or gen_trace_id(),
            group_id=group_id,
            metadata=metadata,
            receivers=(Inline(Receiver(processor)),),
        )


class ReattachedTrace(Trace):
    """A trace that started elsewhere, and reports neither its start nor its end."""

    def __init__(
        self,
        name: str,
        trace_id: str,
        group_id: str | None,
        metadata: JsonObject | None,
        tracing_api_key: str | None = None,
    ) -> None:
        del tracing_api_key
        super().__init__(
            name, trace_id=trace_id, group_id=group_id, metadata=metadata, receivers=()
        )


class NoOpTrace(Trace):
    """A trace that is not reported."""

    def __init__(self) -> None:
        super().__init__(NO_ID, trace_id=NO_ID, disabled=True)


class SpanImpl(Span[D]):
    """A span that reports to one processor."""

    def __init__(
        self,
        trace_id: str,
        span_id: str | None,
        parent_id: str | None,
        processor: TracingProcessor,
        span_data: D,
        tracing_api_key: str | None = None,
        trace_metadata: JsonObject | None = None,
    ) -> None:
        del tracing_api_key
        super().__init__(
            Trace("", trace_id=trace_id, metadata=trace_metadata),
            span_data,
            span_id=span_id or gen_span_id(),
            parent_id=parent_id,
            receivers=(Inline(Receiver(processor)),),
        )
