"""A tracing processor for tests that keeps spans in memory."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from outlast.tracing.current import Span, Trace
from outlast.tracing.provider import TracingProcessor, add_trace_processor
from outlast.tracing.receivers import REGISTRATION

PATIENCE_SECONDS = 10.0
"""How long to wait for what was reported before; it takes microseconds on an idle machine."""


class SpanCollector(TracingProcessor):
    """Collects traces and spans; as a context manager, only those of its block.

        with SpanCollector() as collected:
            await run_in_memory(agent, "Where is my order?", model=model)
        assert [span.span_data.name for span in collected.spans("function")] == ["find_order"]

    A trace or span that is reported twice, with the same id, is stored once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traces: dict[str, Trace] = {}
        self._ended_traces: dict[str, Trace] = {}
        self._started: dict[str, Span[Any]] = {}
        self._ended: dict[str, Span[Any]] = {}

    @property
    def traces(self) -> list[Trace]:
        """The started traces, in order of their start."""
        with self._settled():
            return list(self._traces.values())

    @property
    def ended_traces(self) -> list[Trace]:
        """The ended traces, in order of their end."""
        with self._settled():
            return list(self._ended_traces.values())

    @property
    def open_spans(self) -> list[Span[Any]]:
        """The spans that have started but not ended."""
        with self._settled():
            return [span for key, span in self._started.items() if key not in self._ended]

    def spans(self, kind: str | None = None) -> list[Span[Any]]:
        """Return the ended spans of a kind, such as `function`, or all, in order of their start."""
        with self._settled():
            recorded = [self._ended[key] for key in self._started if key in self._ended]
            seen_late = [span for key, span in self._ended.items() if key not in self._started]
        ended = sorted((*recorded, *seen_late), key=_beginning)
        return [span for span in ended if kind is None or span.span_data.type == kind]

    def children(self, parent: Span[Any] | None) -> list[Span[Any]]:
        """Return a span's ended children; for None, the ended spans without an ended parent."""
        spans = self.spans()
        if parent is not None:
            return [span for span in spans if span.parent_id == parent.span_id]
        ids = {span.span_id for span in spans}
        return [span for span in spans if span.parent_id not in ids]

    def tree(self) -> str:
        """Return the ended spans as an indented text, with a line of kind and name for each."""
        lines: list[str] = []

        def write(span: Span[Any], depth: int) -> None:
            lines.append("  " * depth + _label(span))
            for child in self.children(span):
                write(child, depth + 1)

        for root in self.children(None):
            write(root, 0)
        return "\n".join(lines)

    def clear(self) -> None:
        """Remove all traces and spans."""
        with self._settled():
            for kept in (self._traces, self._ended_traces, self._started, self._ended):
                kept.clear()

    @contextmanager
    def _settled(self) -> Generator[None]:
        REGISTRATION.settle(PATIENCE_SECONDS)
        with self._lock:
            yield

    def on_trace_start(self, trace: Trace) -> None:
        """Store a trace."""
        with self._lock:
            self._traces[trace.trace_id] = trace

    def on_trace_end(self, trace: Trace) -> None:
        """Store an ended trace."""
        with self._lock:
            self._ended_traces[trace.trace_id] = trace

    def on_span_start(self, span: Span[Any]) -> None:
        """Store an open span."""
        with self._lock:
            self._started[span.span_id] = span

    def on_span_end(self, span: Span[Any]) -> None:
        """Store an ended span."""
        with self._lock:
            self._ended[span.span_id] = span

    def shutdown(self) -> None:
        """Do nothing: a test may read the spans afterwards."""

    def force_flush(self) -> None:
        """Do nothing: the spans are already stored."""

    def __enter__(self) -> Self:
        add_trace_processor(self)
        return self

    def __exit__(self, *error: object) -> None:
        REGISTRATION.settle(PATIENCE_SECONDS)
        REGISTRATION.remove(self)


def _beginning(span: Span[Any]) -> int:
    """Return the start time of a span, rounded up to a millisecond.

    Workflows have no finer clock; spans of the same millisecond keep the order of their reports.
    """
    began = datetime.fromisoformat(span.started_at or "1970-01-01T00:00:00+00:00")
    return -(-(began - datetime.fromtimestamp(0, tz=UTC)) // timedelta(milliseconds=1))


def _label(span: Span[Any]) -> str:
    data = span.span_data
    if data.type == "handoff":
        label = f"handoff {data.from_agent} -> {data.to_agent}"
    elif data.type == "turn":
        label = f"turn {data.turn} {data.agent_name}"
    else:
        name = getattr(data, "name", None) or getattr(data, "model", None)
        label = f"{data.type} {name}" if name else data.type
    return f"{label} (error: {span.error['message']})" if span.error else label
