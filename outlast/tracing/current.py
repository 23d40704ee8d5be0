"""Traces and spans, and which of them are current."""

import itertools
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar, Token
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from json.encoder import encode_basestring_ascii
from threading import Lock
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar, cast

from outlast.loop.values import Json, JsonObject
from outlast.tracing.kinds import DiscardedData, SpanData, SpanError
from outlast.tracing.origin import Origin
from outlast.tracing.receivers import REGISTRATION, Inline, Receiver, Receivers

D = TypeVar("D", bound=SpanData)

NO_ID = "no-op"
"""The id of traces and spans that are not reported."""


def gen_trace_id() -> str:
    """Return a new trace id."""
    return f"trace_{secrets.token_hex(16)}"


def gen_span_id() -> str:
    """Return a new span id."""
    return f"span_{secrets.token_hex(12)}"


def gen_group_id() -> str:
    """Return a new group id."""
    return f"group_{secrets.token_hex(12)}"


def derived_trace_id(*parts: str | int) -> str:
    """Return the trace id that always belongs to these parts."""
    return f"trace_{_digest(parts)[:32]}"


def derived_span_id(*parts: str | int) -> str:
    """Return the span id that always belongs to these parts."""
    return f"span_{_digest(parts)[:24]}"


class Hides(Protocol):
    """What a run hides from people, as `views.redaction.Redaction`."""

    def of_tool(self, name: str, arguments: str) -> str:
        """Return the arguments of a call of a tool, of whichever agent."""
        ...

    def text(self, text: str) -> str:
        """Return a text without what is hidden."""
        ...

    def json(self, value: Json) -> Json:
        """Return a value without what is hidden."""
        ...


@dataclass(eq=False, repr=False)
class Trace:
    """A trace of one run, or of several that a program groups.

    `group_id` links traces, such as those of one chat. `origin` says which question of which run
    opened the trace; None for a trace that a program opened.
    """

    name: str
    _: KW_ONLY
    trace_id: str
    group_id: str | None = None
    metadata: JsonObject | None = None
    disabled: bool = False
    receivers: Receivers | None = None
    origin: Origin | None = None
    _reports_to: Receivers | None = field(default=None, init=False)
    _is_over: bool = field(default=False, init=False)
    _token: "Token[Current | None] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.disabled:
            self.trace_id = NO_ID

    def start(self, mark_as_current: bool = False) -> None:
        """Start the trace; new spans belong to it if it is marked as current."""
        if mark_as_current and self._token is None:
            self._token = CURRENT.set(Current(self, None))
        if self._reports_to is not None:
            return
        self.restore()
        for receiver in self._reports_to or ():
            if "on_trace_start" not in receiver.unused:
                receiver.call("on_trace_start", self)

    def finish(self, reset_current: bool = False) -> None:
        """End the trace, and restore the previous current trace; later calls do nothing."""
        if reset_current:
            self._token = _left(self._token)
        if self._reports_to is None or self._is_over:
            return
        self._is_over = True
        for receiver in self._reports_to:
            if "on_trace_end" not in receiver.unused:
                receiver.call("on_trace_end", self)

    def restore(self) -> None:
        """Continue a trace that another process started, without reporting its start."""
        if self._reports_to is None:
            present = REGISTRATION.active if self.receivers is None else self.receivers
            self._reports_to = () if self.disabled else present

    def export(self) -> dict[str, Any] | None:
        """Return the trace as an exporter sends it, or None if it is disabled."""
        if self.disabled:
            return None
        return {
            "object": "trace",
            "id": self.trace_id,
            "workflow_name": self.name,
            "group_id": self.group_id,
            "metadata": self.metadata,
        }

    def __enter__(self) -> Self:
        self.start(mark_as_current=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.finish(reset_current=True)
        if CURRENT.get() is None:  # not in a tool of a run
            REGISTRATION.settle()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.finish(reset_current=True)
        if CURRENT.get() is None:
            await REGISTRATION.settled()


@dataclass(slots=True, eq=False, repr=False)
class Span(Generic[D]):
    """A piece of work in a trace, with a start and an end.

    `span_data` is filled in while the work is in progress. The ids of child spans of a `durable` span
    are derived, as its own is. `facts` holds what the SDK's span data has no field for, such as the
    provider of a model; never content. `hides` is what the run hides from people: its values are in
    nothing that processors receive.
    """

    trace: Trace
    span_data: D
    _: KW_ONLY
    span_id: str
    parent_id: str | None = None
    receivers: Receivers = ()
    sensitive: bool = True
    durable: bool = False
    hides: Hides | None = None
    error: SpanError | None = field(default=None, init=False)
    facts: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    started_seconds: float | None = field(default=None, init=False)
    ended_seconds: float | None = field(default=None, init=False)
    _children: Iterator[int] = field(default_factory=itertools.count, init=False)
    _leave: tuple[Callable[[], None], ...] = field(default=(), init=False)
    _token: "Token[Current | None] | None" = field(default=None, init=False)

    @property
    def trace_id(self) -> str:
        """The id of the span's trace."""
        return self.trace.trace_id

    @property
    def started_at(self) -> str | None:
        """When the work started, in ISO 8601 with time zone; None before."""
        return _iso(self.started_seconds)

    @property
    def ended_at(self) -> str | None:
        """When the work ended, in ISO 8601 with time zone; None before."""
        return _iso(self.ended_seconds)

    @property
    def trace_metadata(self) -> JsonObject | None:
        """The metadata of the span's trace."""
        return self.trace.metadata

    @property
    def is_recorded(self) -> bool:
        """Whether the span is reported to a processor."""
        return bool(self.receivers)

    def child_id(self, kind: str) -> str:
        """Return the id of the next child span.

        The id is derived if this span's id is, so repeated work repeats the ids of its child spans.
        Two child spans that are opened concurrently may swap ids.
        """
        if not self.durable:
            return gen_span_id()
        return derived_span_id(self.span_id, kind, next(self._children))

    def start(self, mark_as_current: bool = False, *, at_seconds: float | None = None) -> None:
        """Start the span, once; new spans are its children if it is marked as current."""
        if mark_as_current and self._token is None:
            self._token = CURRENT.set(Current(self.trace, self))
            for one in self.receivers:
                if one.enter_span is not None:
                    with suppress(Exception):  # a processor ends no run
                        self._leave = (*self._leave, one.enter_span(self))
        if self.started_seconds is not None:
            return
        self.started_seconds = time.time() if at_seconds is None else at_seconds
        self._report("on_span_start")

    def finish(self, reset_current: bool = False, *, at_seconds: float | None = None) -> None:
        """End the span, once, and restore the previous current span."""
        if reset_current:
            self.leave()
        if self.started_seconds is None or self.ended_seconds is not None:
            return
        now = time.time() if at_seconds is None else at_seconds
        self.ended_seconds = max(now, self.started_seconds)  # the clock may have been set back
        self._report("on_span_end")

    def leave(self) -> None:
        """Restore the previous current span, without ending this one."""
        leaves, self._leave = self._leave, ()
        for leave in leaves:
            with suppress(Exception):
                leave()
        self._token = _left(self._token)

    def restore(self, *, started_at_seconds: float) -> None:
        """Continue a span that another process started, without reporting its start."""
        self.started_seconds = started_at_seconds

    def set_error(self, error: SpanError) -> None:
        """Set the error of the work."""
        self.error = error

    def export(self) -> dict[str, Any] | None:
        """Return the span as an exporter sends it, or None if it is not reported."""
        if not self.is_recorded:
            return None
        return {
            "object": "trace.span",
            "id": self.span_id,
            "trace_id": self.trace_id,
            "parent_id": self.parent_id,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "span_data": self.span_data.export(),
            "error": self.error,
        }

    def _report(self, method: str) -> None:
        receivers = [one for one in self.receivers if method not in one.unused]
        reported = self
        if not self.sensitive and receivers:
            self.span_data.drop_content()
        if method == "on_span_start" and receivers and not (self.sensitive and self.hides is None):
            # Processors receive it later, when the span may hold content.
            reported = copy(self)
            reported.span_data = copy(self.span_data)
        if self.hides is None or not receivers:
            for receiver in receivers:
                receiver.call(method, reported)
            return
        reported.deliver_concealed(receivers, method)

    def deliver_concealed(self, receivers: "list[Receiver | Inline]", method: str) -> None:
        """Report the span without what the run hides.

        Values are looked for in the threads of the processors, to save the run's time.
        """
        lock = Lock()

        def deliver(receiver: "Receiver | Inline") -> None:
            with lock:
                self.conceal()
            receiver.deliver(method, self)

        for receiver in receivers:
            receiver.report(partial(deliver, receiver))

    def conceal(self) -> None:
        """Remove what the run hides, once."""
        hides, self.hides = self.hides, None
        if hides is None:
            return
        self.span_data.conceal(hides)
        if self.error is not None:
            data = cast("Any", self.error["data"])
            self.error = SpanError(
                message=hides.text(self.error["message"]),
                data=None if data is None else hides.json(data),
            )

    def __enter__(self) -> Self:
        self.start(mark_as_current=True)
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and self.error is None and not isinstance(error, GeneratorExit):
            self.set_error(error_of(error, sensitive=self.sensitive))
        self.finish(reset_current=True)


class NoSpan(Span[D]):
    """A span that is not reported and does nothing."""

    __slots__ = ()

    def __init__(self, span_data: D) -> None:
        super().__init__(NO_TRACE, span_data, span_id=NO_ID, sensitive=False)

    def start(self, mark_as_current: bool = False, *, at_seconds: float | None = None) -> None:
        """Do nothing."""

    def finish(self, reset_current: bool = False, *, at_seconds: float | None = None) -> None:
        """Do nothing."""

    def set_error(self, error: SpanError) -> None:
        """Do nothing."""


class Current(NamedTuple):
    """The current trace, and the current span in it, if any."""

    trace: Trace
    span: Span[Any] | None


CURRENT: ContextVar[Current | None] = ContextVar("outlast_place_in_trace", default=None)

NO_TRACE = Trace("", trace_id=NO_ID, disabled=True)
NO_SPAN: NoSpan[Any] = NoSpan(DiscardedData())
"""The shared span for work that is not traced."""


def error_of(error: BaseException, *, sensitive: bool) -> SpanError:
    """Return the span error of an exception, without its message unless `sensitive` is set."""
    kind = type(error).__name__
    if kind == "CancelledError":  # its message is arbitrary or empty
        return SpanError(message="It was cancelled.", data={"type": kind, "code": "cancelled"})
    code = str(getattr(error, "error_type", ""))  # of the failure of an effect
    message = str(error) or kind if sensitive else code or kind
    return SpanError(message=message, data={"code": code} if code else {"type": kind})


def _left(token: "Token[Current | None] | None") -> None:
    """Restore the previous current trace and span, and return no token."""
    if token is not None:
        # A generator may be closed in another context, where the value was not set.
        with suppress(ValueError):
            CURRENT.reset(token)


def _digest(parts: tuple[str | int, ...]) -> str:
    # The text is that of json.dumps, which takes three times as long.
    texts = [encode_basestring_ascii(one) if isinstance(one, str) else str(one) for one in parts]
    return sha256(f"[{', '.join(texts)}]".encode()).hexdigest()


def _iso(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="microseconds")
