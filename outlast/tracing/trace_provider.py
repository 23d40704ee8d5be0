"""The functions of tracing as one object, for programs that ask for the trace provider."""

from datetime import UTC, datetime
from typing import Any

from outlast.loop.values import JsonObject
from outlast.tracing import provider
from outlast.tracing.current import Span, Trace, gen_group_id, gen_span_id, gen_trace_id
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import REGISTRATION, SHUTDOWN_SECONDS


class TraceProvider:
    """The functions of tracing, as methods.

    Every object of this class stands for the same process-wide tracing.
    """

    def register_processor(self, processor: TracingProcessor) -> None:
        """Send all further traces and spans to one more processor."""
        provider.add_trace_processor(processor)

    def set_processors(self, processors: list[TracingProcessor]) -> None:
        """Send all further traces and spans to these processors only."""
        provider.set_trace_processors(processors)

    def get_current_trace(self) -> Trace | None:
        """Return the trace that is open here."""
        return provider.get_current_trace()

    def get_current_span(self) -> Span[Any] | None:
        """Return the span that is open here."""
        return provider.get_current_span()

    def set_disabled(self, disabled: bool) -> None:  # noqa: FBT001  the SDK's
        """Disable tracing in this process, or enable it again."""
        provider.set_tracing_disabled(disabled)

    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: JsonObject | None = None,
        disabled: bool = False,  # noqa: FBT001, FBT002  the SDK's
    ) -> Trace:
        """Return a trace, as `trace` does."""
        return provider.trace(name, trace_id, group_id, metadata, disabled)

    def time_iso(self) -> str:
        """Return the current time as ISO text."""
        return time_iso()

    def gen_trace_id(self) -> str:
        """Return a new id for a trace."""
        return gen_trace_id()

    def gen_span_id(self) -> str:
        """Return a new id for a span."""
        return gen_span_id()

    def gen_group_id(self) -> str:
        """Return a new id for a group of traces."""
        return gen_group_id()

    @property
    def lost(self) -> int:
        """How many starts and ends of traces and spans processors have missed.

        A processor misses what does not fit in its queue because it is too slow.
        """
        return REGISTRATION.lost

    def force_flush(self) -> None:
        """Make every processor send its pending traces and spans; wait at most 30 seconds."""
        provider.flush_traces()

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """Make every processor send all that is left, before the process ends.

        Args:
            timeout: how many seconds to wait; what is not sent by then is dropped.
        """
        REGISTRATION.shut_down(timeout)


_provider = TraceProvider()


def get_trace_provider() -> TraceProvider:
    """Return the functions of tracing as one object."""
    return _provider


def time_iso() -> str:
    """Return the current time as ISO text, in UTC."""
    return datetime.now(UTC).isoformat()  # noqa: TID251  a time for programs, not for a run
