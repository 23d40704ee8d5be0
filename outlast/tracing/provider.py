"""The public tracing API: processors, `trace()` and custom spans.

A replay reports nothing, and no span is recorded until a processor is registered.

An OpenTelemetry exporter needs no other hook than `TracingProcessor`: `on_span_end` receives all
data of a finished OpenTelemetry span. The 32 hex digits of a trace id are its 16 bytes, and the
first 16 digits of a span id are its 8 bytes; hash a custom id to that length. The span has both
times; `group_id`, metadata and `span_data.export()` become attributes, and `error` becomes the
status.
"""

import json
import sys
from abc import ABC, abstractmethod
from typing import Any, Final, TypeVar

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.contract.names import SETTING_CALLER
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
from outlast.tracing.kinds import CustomSpanData, SpanData
from outlast.tracing.receivers import HANDOVER_SECONDS, REGISTRATION

logger: Final = get_logger(__name__)

D = TypeVar("D", bound=SpanData)


class TracingProcessor(ABC):
    """Base class for objects that receive all traces and spans of a process.

    Each processor has a thread of its own, in which its methods are called one after another,
    behind a queue: it slows no run down, and nothing that it raises ends one. What does not fit in
    the queue is dropped, counted (`get_trace_provider().lost`) and logged. Of exceptions, only the
    first is logged. Traces and spans that a processor opens itself are not reported.

    The end of `Runner.run`, of a stream and of a `with trace(...)` block waits for processors, at
    most a quarter of a second, so that programs can read what they have received. Call
    `flush_traces` to wait longer.

    The span of a model call, a tool call or a guardrail starts and ends in one process. The spans
    around them (trace, task, agent, turn, handoff, nested run) may start in one worker and end in
    another. The second worker's processor is then called for the end only; the span includes its
    start time. Repeated work is reported again, with the same ids.

    Attributes:
        handover_seconds: how long calls may wait in the queue, so that the thread wakes up for
            several of them; an end that waits for processors does not wait for this time.
    """

    handover_seconds: float = HANDOVER_SECONDS

    @abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """Handle the start of a trace."""

    @abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """Handle the end of a trace."""

    @abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """Handle the start of a span; its data is incomplete, and may be filled in meanwhile."""

    @abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """Handle the end of a span; its data is complete."""

    @abstractmethod
    def shutdown(self) -> None:
        """Send all pending traces and spans; the end of a process waits 5 seconds for it."""

    @abstractmethod
    def force_flush(self) -> None:
        """Send all pending traces and spans now."""


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Send all further traces and spans to one more processor.

    Raises:
        UserError: the argument is not a processor.
    """
    _check_processor(span_processor)
    REGISTRATION.add([span_processor])


def set_trace_processors(processors: list[TracingProcessor]) -> None:
    """Send all further traces and spans to these processors only.

    Raises:
        UserError: one of them is not a processor.
    """
    for processor in processors:
        _check_processor(processor)
    REGISTRATION.add(processors, replace=True)


def set_tracing_disabled(disabled: bool) -> None:
    """Disable tracing in this process and for the runs it starts, or enable it again."""
    REGISTRATION.disable(disabled)


def flush_traces() -> None:
    """Make every processor send its pending traces and spans.

    It waits at most 30 seconds. A processor that takes longer is named in a warning in the log.
    """
    REGISTRATION.flush()


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: JsonObject | None = None,
    disabled: bool = False,
) -> Trace:
    """Open a trace that groups the runs and spans started inside it.

    Use it as a context manager, `with trace("Support"):`, or call `start` and `finish`.

    Args:
        workflow_name: the name of the trace.
        trace_id: the id of the trace; default: a new id.
        group_id: links several traces, such as those of one chat.
        metadata: further data about the trace; plain JSON, because it is sent with the runs.
        disabled: report neither the trace nor its spans and runs.

    Raises:
        UserError: a name or an id is not a string, or the metadata is not plain JSON.
    """
    for what, value in (("workflow_name", workflow_name), ("trace_id", trace_id or "-")):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]  users
            raise UserError(f"trace({what}=...) must be a non-empty string, not {value!r}.")
    if group_id is not None and not isinstance(group_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  users
        raise UserError(f"trace(group_id=...) must be a string, not {group_id!r}.")
    _check_metadata(metadata)
    if CURRENT.get() is not None:
        logger.warning(
            "The trace %r is opened inside another trace, and is separate from it.", workflow_name
        )
    return Trace(
        workflow_name,
        trace_id=trace_id or gen_trace_id(),
        group_id=group_id,
        metadata=metadata,
        disabled=disabled or REGISTRATION.is_disabled,
    )


def get_current_trace() -> Trace | None:
    """Return the current trace, or None."""
    place = CURRENT.get()
    return place.trace if place is not None else None


def get_current_span() -> Span[Any] | None:
    """Return the current span, the innermost open one, or None."""
    place = CURRENT.get()
    return place.span if place is not None else None


def join_current_trace(settings: JsonObject | None) -> JsonObject | None:
    """Return a new run's settings, changed so that it joins the current trace.

    The current trace's id, name, group and metadata replace the run's own. The current span becomes
    the parent of the run's task span, which keeps the run's own name. If the run, the trace or this
    process disables tracing, the run is not traced. The run also gets the current span of
    OpenTelemetry, if the program has one: the trace of its first question has a link to it.
    """
    joined = dict(settings or {})
    place = CURRENT.get()
    if caller := opentelemetry_caller():
        joined[SETTING_CALLER] = caller
    if REGISTRATION.is_disabled or (place is not None and place.trace.disabled):
        joined["tracing_disabled"] = True
    elif place is not None:
        own_name = joined.pop("workflow_name", None) if REGISTRATION.active else None
        settings_of_trace = {
            "trace_id": place.trace.trace_id,
            "workflow_name": place.trace.name,
            "group_id": place.trace.group_id,
            "trace_metadata": place.trace.metadata,
            "trace_joined": bool(REGISTRATION.active) or None,  # else the workers report the trace
            "trace_parent_id": place.span.span_id if place.span else None,
            "trace_task_name": own_name,
        }
        for key, value in settings_of_trace.items():
            joined.pop(key, None)
            if value is not None:
                joined[key] = value
        if place.span is not None and not place.span.is_recorded:
            joined["tracing_disabled"] = True
    return joined or None


def opentelemetry_caller() -> str:
    """Return the current OpenTelemetry span as a `traceparent`; empty if there is none.

    A program without OpenTelemetry has not imported its API, and does not import it here.
    """
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return ""
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def custom_span(
    name: str,
    data: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[CustomSpanData]:
    """Open a span for the program's own work, such as a database query.

    In a tool, the span becomes a child of the tool's span. With `disabled`, neither the span nor its
    children are reported.
    """
    return open_span(CustomSpanData(name, data or {}), span_id, parent, disabled)


def open_span(
    span_data: D,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[D]:
    """Open a span with any `SpanData`, also a custom subclass; otherwise like `custom_span`."""
    receivers = REGISTRATION.active
    if not receivers:
        return NoSpan(span_data)
    around = _place_of(parent) if parent is not None else CURRENT.get()
    if around is None:
        logger.warning(
            "The span %r is lost: there is no trace around it. Open one with trace().",
            span_data.type,
        )
        return NoSpan(span_data)
    above = around.span
    if disabled or around.trace.disabled or (above is not None and not above.is_recorded):
        return Span(around.trace, span_data, span_id=NO_ID)
    made = above.child_id(span_data.type) if above is not None else gen_span_id()
    return Span(
        around.trace,
        span_data,
        span_id=span_id or made,
        parent_id=above.span_id if above is not None else None,
        receivers=receivers,
        sensitive=above.sensitive if above is not None else True,
        durable=above is not None and above.durable and span_id is None,
        hides=above.hides if above is not None else None,
    )


def _place_of(parent: Trace | Span[Any]) -> Current:
    return Current(parent, None) if isinstance(parent, Trace) else Current(parent.trace, parent)


def _check_processor(processor: object) -> None:
    wanted = sorted(TracingProcessor.__abstractmethods__)
    missing = [name for name in wanted if not callable(getattr(processor, name, None))]
    if isinstance(processor, type) or missing:
        raise UserError(
            f"{processor!r} is no tracing processor: use an instance of a subclass of "
            f"TracingProcessor that has {', '.join(missing or wanted)}."
        )


def _check_metadata(metadata: object) -> None:
    try:
        is_plain = metadata is None or isinstance(metadata, dict)
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    if not is_plain:
        raise UserError(f"trace(metadata=...) must be a dict of plain JSON: {metadata!r}.")
