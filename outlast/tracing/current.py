"""Traces and spans, and which of them is the current one.

Owns: their ids, their life and their exported form. Must not know: runs, who opens a span, what a
processor does with it.
"""

import itertools
import json
import secrets
import time
from contextlib import suppress
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from hashlib import sha256
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

from outlast.loop.values import JsonObject
from outlast.tracing.kinds import DiscardedData, SpanData, SpanError
from outlast.tracing.receivers import REGISTRATION, Receivers

D = TypeVar("D", bound=SpanData)

NO_ID = "no-op"
"""The id of traces and spans that nobody is told of."""


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


class Trace:
    """A trace of one run, or of several that a program groups.

    Attributes:
        trace_id: its id.
        name: what the program calls this work; the workflow's name.
        group_id: links traces, such as those of one chat.
        metadata: whatever else the program tells about it.
        disabled: nobody is told of it and of what is in it.
    """

    def __init__(
        self,
        name: str,
        *,
        trace_id: str,
        group_id: str | None = None,
        metadata: JsonObject | None = None,
        disabled: bool = False,
    ) -> None:
        self.name = name
        self.trace_id = NO_ID if disabled else trace_id
        self.group_id = group_id
        self.metadata = metadata
        self.disabled = disabled
        self._receivers: Receivers | None = None
        self._is_over = False
        self._token: Token[Place | None] | None = None

    def start(self, mark_as_current: bool = False) -> None:  # noqa: FBT001, FBT002  users' name
        """Begin. What the program does next is in this trace if it is the current one."""
        if mark_as_current and self._token is None:
            self._token = PLACE.set(Place(self, None))
        if self._receivers is not None:
            return
        self._receivers = () if self.disabled else REGISTRATION.active
        for receiver in self._receivers:
            receiver.tell("on_trace_start", self)

    def finish(self, reset_current: bool = False) -> None:  # noqa: FBT001, FBT002  users' name
        """End, once; the trace around it is the current one again."""
        if reset_current:
            self._token = _left(self._token)
        if self._receivers is None or self._is_over:
            return
        self._is_over = True
        for receiver in self._receivers:
            receiver.tell("on_trace_end", self)

    def restore(self) -> None:
        """Take up a trace that began elsewhere, without telling anybody."""
        if self._receivers is None:
            self._receivers = () if self.disabled else REGISTRATION.active

    def export(self) -> dict[str, Any] | None:
        """Return the trace as an exporter sends it; None for a disabled one."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish(reset_current=True)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.finish(reset_current=True)


class Span(Generic[D]):
    """A piece of work in a trace, with a start and an end.

    Attributes:
        trace: the trace it belongs to.
        span_id: its id.
        parent_id: the span around it; None directly under the trace.
        span_data: what it tells; filled in while the work goes on.
        error: why the work failed, if it did.
        started_at: when it began, in ISO 8601 with time zone; None before.
        ended_at: when it ended.
        sensitive: whether inputs and outputs may be told.
        durable: whether its id is derived, so that the ids of the spans in it are, too.
    """

    __slots__ = (
        "_children",
        "_receivers",
        "_token",
        "durable",
        "ended_at",
        "error",
        "parent_id",
        "sensitive",
        "span_data",
        "span_id",
        "started_at",
        "trace",
    )

    def __init__(
        self,
        trace: Trace,
        span_data: D,
        *,
        span_id: str,
        parent_id: str | None = None,
        receivers: Receivers = (),
        sensitive: bool = True,
        durable: bool = False,
    ) -> None:
        self.trace = trace
        self.span_id = span_id
        self.parent_id = parent_id
        self.span_data = span_data
        self.error: SpanError | None = None
        self.started_at: str | None = None
        self.ended_at: str | None = None
        self.sensitive = sensitive
        self.durable = durable
        self._receivers = receivers
        self._children = itertools.count()
        self._token: Token[Place | None] | None = None

    @property
    def trace_id(self) -> str:
        """The id of its trace."""
        return self.trace.trace_id

    @property
    def trace_metadata(self) -> JsonObject | None:
        """What the program tells about its trace."""
        return self.trace.metadata

    @property
    def is_recorded(self) -> bool:
        """Whether anybody is told of it."""
        return bool(self._receivers)

    def child_id(self, kind: str) -> str:
        """Return the id of the next span in this one.

        Derived where this one's is: work that is repeated under the same id repeats the ids in
        it. Two spans that are opened concurrently may change places.
        """
        if not self.durable:
            return gen_span_id()
        return derived_span_id(self.span_id, kind, next(self._children))

    def start(
        self,
        mark_as_current: bool = False,  # noqa: FBT001, FBT002  the name users know
        *,
        at_seconds: float | None = None,
    ) -> None:
        """Begin, once. What is opened next is in this span if it is the current one."""
        if mark_as_current and self._token is None:
            self._token = PLACE.set(Place(self.trace, self))
        if self.started_at is not None:
            return
        self.started_at = _iso(time.time() if at_seconds is None else at_seconds)
        self._tell("on_span_start")

    def finish(
        self,
        reset_current: bool = False,  # noqa: FBT001, FBT002  the name users know
        *,
        at_seconds: float | None = None,
    ) -> None:
        """End, once; the span around it is the current one again."""
        if reset_current:
            self._token = _left(self._token)
        if self.started_at is None or self.ended_at is not None:
            return
        now = _iso(time.time() if at_seconds is None else at_seconds)
        self.ended_at = max(now, self.started_at)  # a clock that was put back
        self._tell("on_span_end")

    def restore(self, *, started_at_seconds: float) -> None:
        """Take up a span that began elsewhere, without telling anybody."""
        self.started_at = _iso(started_at_seconds)

    def set_error(self, error: SpanError) -> None:
        """Say why the work failed."""
        self.error = error

    def export(self) -> dict[str, Any] | None:
        """Return the span as an exporter sends it; None if nobody is to be told."""
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

    def _tell(self, method: str) -> None:
        if not self.sensitive and self._receivers:
            self.span_data.drop_content()
        for receiver in self._receivers:
            receiver.tell(method, self)

    def __enter__(self) -> Self:
        self.start(mark_as_current=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None and self.error is None and not isinstance(error, GeneratorExit):
            self.set_error(error_of(error, sensitive=self.sensitive))
        self.finish(reset_current=True)


class NoSpan(Span[D]):
    """A span that nobody is told of: it costs nothing and does nothing."""

    __slots__ = ()

    def __init__(self, span_data: D) -> None:
        self.trace = NO_TRACE
        self.span_id = NO_ID
        self.parent_id = None
        self.span_data = span_data
        self.error = None
        self.started_at = None
        self.ended_at = None
        self.sensitive = False
        self.durable = False
        self._receivers = ()

    def start(
        self,
        mark_as_current: bool = False,  # noqa: FBT001, FBT002  the name users know
        *,
        at_seconds: float | None = None,
    ) -> None:
        """Do nothing."""

    def finish(
        self,
        reset_current: bool = False,  # noqa: FBT001, FBT002  the name users know
        *,
        at_seconds: float | None = None,
    ) -> None:
        """Do nothing."""

    def set_error(self, error: SpanError) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        pass


class Place(NamedTuple):
    """Where the program is: in a trace, and perhaps in a span of it."""

    trace: Trace
    span: Span[Any] | None


PLACE: ContextVar[Place | None] = ContextVar("outlast_place_in_trace", default=None)

NO_TRACE = Trace("", trace_id=NO_ID, disabled=True)
NO_SPAN: NoSpan[Any] = NoSpan(DiscardedData())
"""The span of all who did not ask for one: shared, so that it costs nothing."""


def error_of(error: BaseException, *, sensitive: bool) -> SpanError:
    """Describe an exception; without its words where they may hold inputs or outputs."""
    kind = type(error).__name__
    if kind == "CancelledError":  # whoever cancels says so in words of its own, or in none
        return SpanError(message="It was cancelled.", data={"type": kind})
    return SpanError(message=str(error) or kind if sensitive else kind, data={"type": kind})


def _left(token: "Token[Place | None] | None") -> None:
    """Go back to where the program was before; there is no token any more."""
    if token is not None:
        # A generator may be closed in another context; what was set is not seen there.
        with suppress(ValueError):
            PLACE.reset(token)


def _digest(parts: tuple[str | int, ...]) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="microseconds")
