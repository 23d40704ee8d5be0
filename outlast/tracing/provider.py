"""The port to a tracing backend: traces and spans, and the processors that are told of them.

Owns: `TracingProcessor`, and what a program calls: registering one, `trace()`, spans of its own.
Must not know: Temporal, any backend.

A replay reports nothing to anybody, and nothing is recorded until a processor is registered.

OpenTelemetry fits behind `TracingProcessor`: `on_span_end` has everything a finished OpenTelemetry
span needs. The 32 hex digits of a trace id are its 16 bytes, the first 16 digits of a span id are
its 8 bytes; an id that somebody chose is hashed to that length. Both times are in the span,
`group_id`, metadata and `span_data.export()` become attributes, `error` the status. An exporter
needs no other hook here, and it can pass OpenTelemetry's own context on in `on_span_start`.
"""

import json
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.tracing.current import (
    NO_ID,
    PLACE,
    NoSpan,
    Place,
    Span,
    Trace,
    gen_span_id,
    gen_trace_id,
)
from outlast.tracing.kinds import CustomSpanData, SpanData
from outlast.tracing.receivers import REGISTRATION

logger = get_logger(__name__)

D = TypeVar("D", bound=SpanData)


class TracingProcessor(ABC):
    """Base class for objects that receive all traces and spans of a process.

    The methods are called from several threads, often in an event loop: they return at once and
    leave sending to a thread of their own. What they raise is logged once.

    The span of a model call, a tool call or a guardrail begins and ends in one process. The spans
    around them (trace, task, agent, turn, handoff, nested run) may begin in one worker and end in
    another, which is then called for the end only; that span has its beginning in it. Work that is
    repeated is reported again, with the same ids.
    """

    @abstractmethod
    def on_trace_start(self, trace: Trace) -> None:
        """A trace begins."""

    @abstractmethod
    def on_trace_end(self, trace: Trace) -> None:
        """A trace is over."""

    @abstractmethod
    def on_span_start(self, span: Span[Any]) -> None:
        """A span begins; its data is not complete yet."""

    @abstractmethod
    def on_span_end(self, span: Span[Any]) -> None:
        """A span is over and complete."""

    @abstractmethod
    def shutdown(self) -> None:
        """Send what is left: the process ends."""

    @abstractmethod
    def force_flush(self) -> None:
        """Send what there is, now."""


def add_trace_processor(span_processor: TracingProcessor) -> None:
    """Send all further traces and spans to one more processor.

    Raises:
        UserError: it is no processor.
    """
    _check_processor(span_processor)
    REGISTRATION.add([span_processor])


def set_trace_processors(processors: list[TracingProcessor]) -> None:
    """Send all further traces and spans to these processors only.

    Raises:
        UserError: one of them is no processor.
    """
    for processor in processors:
        _check_processor(processor)
    REGISTRATION.add(processors, replace=True)


def set_tracing_disabled(disabled: bool) -> None:  # noqa: FBT001  the name users know
    """Disable tracing in this process and for the runs it starts, or enable it again."""
    REGISTRATION.disable(disabled)


def flush_traces() -> None:
    """Make every processor send its pending traces and spans."""
    REGISTRATION.tell_all("force_flush")


def trace(
    workflow_name: str,
    trace_id: str | None = None,
    group_id: str | None = None,
    metadata: JsonObject | None = None,
    disabled: bool = False,  # noqa: FBT001, FBT002  the name users know
) -> Trace:
    """Open a trace that groups the runs and spans started inside it.

    Use it as a context manager, `with trace("Support"):`, or call `start` and `finish`.

    Args:
        workflow_name: what this work is called.
        trace_id: its id; by default a new one.
        group_id: links several traces, such as those of one chat.
        metadata: whatever else to tell; plain JSON, because it travels with the runs.
        disabled: nobody is told of the trace and of what is in it, the runs included.

    Raises:
        UserError: a name or an id is no text, or the metadata is not plain JSON.
    """
    for what, value in (("workflow_name", workflow_name), ("trace_id", trace_id or "-")):
        if not isinstance(value, str) or not value:  # pyright: ignore[reportUnnecessaryIsInstance]  users
            raise UserError(f"trace({what}=...) must be a text that is not empty, not {value!r}.")
    if group_id is not None and not isinstance(group_id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  users
        raise UserError(f"trace(group_id=...) must be a text, not {group_id!r}.")
    _check_metadata(metadata)
    if PLACE.get() is not None:
        logger.warning(
            "The trace %r is opened inside another one, and is apart from it.", workflow_name
        )
    return Trace(
        workflow_name,
        trace_id=trace_id or gen_trace_id(),
        group_id=group_id,
        metadata=metadata,
        disabled=disabled or REGISTRATION.is_disabled,
    )


def get_current_trace() -> Trace | None:
    """Return the trace the program is in, or None."""
    place = PLACE.get()
    return place.trace if place is not None else None


def get_current_span() -> Span[Any] | None:
    """Return the innermost span the program is in, or None."""
    place = PLACE.get()
    return place.span if place is not None else None


def join_current_trace(settings: JsonObject | None) -> JsonObject | None:
    """Return the settings of a run that is about to start, so that it joins the current trace.

    The current trace's id, name, group and metadata replace the run's own, and the current span
    is the parent of the run's task, which keeps the run's own name. `tracing_disabled` of the run, of the trace or of
    this process wins over all.
    """
    joined = dict(settings or {})
    place = PLACE.get()
    if REGISTRATION.is_disabled or (place is not None and place.trace.disabled):
        joined["tracing_disabled"] = True
    elif place is not None:
        own_name = joined.pop("workflow_name", None) if REGISTRATION.active else None
        told = {
            "trace_id": place.trace.trace_id,
            "workflow_name": place.trace.name,
            "group_id": place.trace.group_id,
            "trace_metadata": place.trace.metadata,
            "trace_joined": bool(REGISTRATION.active) or None,  # or else the workers tell of it
            "trace_parent_id": place.span.span_id if place.span else None,
            "trace_task_name": own_name,
        }
        for key, value in told.items():
            joined.pop(key, None)
            if value is not None:
                joined[key] = value
        if place.span is not None and not place.span.is_recorded:
            joined["tracing_disabled"] = True
    return joined or None


def custom_span(
    name: str,
    data: dict[str, Any] | None = None,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,  # noqa: FBT001, FBT002  the name users know
) -> Span[CustomSpanData]:
    """Open a span for the program's own work, such as a database query.

    In a tool it becomes a child of the tool's span.

    Args:
        name: what the work is called.
        data: whatever else to tell.
        span_id: its id; by default a new one.
        parent: the span or trace around it; by default the current one.
        disabled: nobody is told of it and of what is in it.
    """
    told = CustomSpanData(name, {} if data is None else data)
    return open_span(told, span_id=span_id, parent=parent, disabled=disabled)


def open_span(
    span_data: D,
    *,
    span_id: str | None = None,
    parent: Trace | Span[Any] | None = None,
    disabled: bool = False,
) -> Span[D]:
    """Open a span with any data, one's own kind of `SpanData` too; otherwise as `custom_span`."""
    receivers = REGISTRATION.active
    if not receivers:
        return NoSpan(span_data)
    around = _place_of(parent) if parent is not None else PLACE.get()
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
    )


def _place_of(parent: Trace | Span[Any]) -> Place:
    return Place(parent, None) if isinstance(parent, Trace) else Place(parent.trace, parent)


def _check_processor(processor: object) -> None:
    wanted = sorted(TracingProcessor.__abstractmethods__)
    missing = [name for name in wanted if not callable(getattr(processor, name, None))]
    if isinstance(processor, type) or missing:
        raise UserError(
            f"{processor!r} is no tracing processor: make an instance of a subclass of "
            f"TracingProcessor that has {', '.join(missing or wanted)}."
        )


def _check_metadata(metadata: object) -> None:
    try:
        is_plain = metadata is None or isinstance(metadata, dict)
        json.dumps(metadata, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    if not is_plain:
        raise UserError(
            f"trace(metadata=...) must be a dict of plain JSON, to travel with runs: {metadata!r}."
        )
