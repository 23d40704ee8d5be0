"""Traces and spans that programs make by hand, under the SDK's names."""

from importlib import import_module
from typing import Any

from outlast.tracing import AgentSpanData, Span, Trace, TracingProcessor
from outlast.tracing.scope import (
    NoOpSpan,
    NoOpTrace,
    ReattachedTrace,
    Scope,
    SpanImpl,
    TraceImpl,
)


class Notes(TracingProcessor):
    def __init__(self) -> None:
        self.told: list[str] = []

    def on_trace_start(self, trace: Trace) -> None:
        self.told.append(f"start {trace.trace_id}")

    def on_trace_end(self, trace: Trace) -> None:
        self.told.append(f"end {trace.trace_id}")

    def on_span_start(self, span: Span[Any]) -> None:
        self.told.append(f"start {span.span_id}")

    def on_span_end(self, span: Span[Any]) -> None:
        self.told.append(f"end {span.span_id}")

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def test_the_sdks_modules_have_the_names() -> None:
    assert import_module("outlast.tracing.traces").TraceImpl is TraceImpl
    assert import_module("outlast.tracing.traces").Trace is Trace
    assert import_module("outlast.tracing.spans").SpanImpl is SpanImpl


def test_a_trace_and_a_span_report_to_their_processor_at_once() -> None:
    notes = Notes()
    with TraceImpl("work", "t", "g", {"k": "v"}, notes) as trace:
        assert Scope.get_current_trace() is trace
        assert notes.told == ["start t"]
        with SpanImpl("t", "s", None, notes, AgentSpanData("A")) as span:
            assert Scope.get_current_span() is span
    assert notes.told == ["start t", "start s", "end s", "end t"]
    assert Scope.get_current_trace() is None
    exported, work = span.export(), trace.export()
    assert exported is not None
    assert work is not None
    assert (exported["trace_id"], work["group_id"]) == ("t", "g")


def test_neither_a_trace_from_elsewhere_nor_an_empty_one_reports() -> None:
    with ReattachedTrace("work", "t", None, None) as trace:
        assert Scope.get_current_trace() is trace
    with NoOpTrace() as nothing, NoOpSpan(AgentSpanData("A")) as span:
        assert nothing.export() is None
        assert span.export() is None


def test_a_program_sets_the_scope_itself() -> None:
    notes = Notes()
    trace = TraceImpl("work", None, None, None, notes)
    span = SpanImpl(trace.trace_id, None, None, notes, AgentSpanData("A"))
    token = Scope.set_current_span(span)  # in its own trace, as there is no other
    assert Scope.get_current_trace() is span.trace
    Scope.reset_current_span(token)

    outer = Scope.set_current_trace(trace)
    inner = Scope.set_current_span(span)
    assert (Scope.get_current_trace(), Scope.get_current_span()) == (trace, span)
    assert Scope.set_current_span(None)
    assert Scope.get_current_trace() is trace
    Scope.reset_current_span(inner)
    Scope.reset_current_trace(outer)
    assert Scope.get_current_trace() is None
    assert Scope.set_current_span(None)
