"""The functions of tracing as one object, for programs that ask for the trace provider."""

from datetime import UTC, datetime
from typing import Final

from outlast.loop.values import JsonObject
from outlast.tracing import provider
from outlast.tracing.current import Trace, gen_group_id, gen_span_id, gen_trace_id
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import REGISTRATION, SHUTDOWN_SECONDS


def time_iso() -> str:
    """Return the current time as ISO text, in UTC."""
    return datetime.now(UTC).isoformat()  # noqa: TID251  a time for programs, not for a run


class TraceProvider:
    """The functions of tracing, as methods.

    Every object of this class stands for the same process-wide tracing.
    """

    def register_processor(self, processor: TracingProcessor) -> None:
        """Send all further traces and spans to one more processor."""
        provider.add_trace_processor(processor)

    set_processors: Final = staticmethod(provider.set_trace_processors)
    get_current_trace: Final = staticmethod(provider.get_current_trace)
    get_current_span: Final = staticmethod(provider.get_current_span)
    set_disabled: Final = staticmethod(provider.set_tracing_disabled)
    gen_trace_id: Final = staticmethod(gen_trace_id)
    gen_span_id: Final = staticmethod(gen_span_id)
    gen_group_id: Final = staticmethod(gen_group_id)
    time_iso: Final = staticmethod(time_iso)
    force_flush: Final = staticmethod(provider.flush_traces)

    def create_trace(
        self,
        name: str,
        trace_id: str | None = None,
        group_id: str | None = None,
        metadata: JsonObject | None = None,
        disabled: bool = False,
    ) -> Trace:
        """Return a trace, as `trace` does."""
        return provider.trace(name, trace_id, group_id, metadata, disabled)

    @property
    def lost(self) -> int:
        """How many starts and ends of traces and spans processors have missed.

        A processor misses what does not fit in its queue because it is too slow.
        """
        return REGISTRATION.lost

    def shutdown(self, timeout: float = SHUTDOWN_SECONDS) -> None:
        """Make every processor send all that is left, and drop what is not sent in time."""
        REGISTRATION.shut_down(timeout)


_provider = TraceProvider()


def get_trace_provider() -> TraceProvider:
    """Return the functions of tracing as one object."""
    return _provider
