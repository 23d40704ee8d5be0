"""A processor that exports traces and spans in batches, on a background thread."""

import json
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from datetime import timedelta
from typing import Any

from outlast.agents.durations import as_duration
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.tracing.current import Span, Trace
from outlast.tracing.provider import TracingProcessor

logger = get_logger(__name__)


class TracingExporter(ABC):
    """Base class for exporters, which send traces and spans to a backend."""

    @abstractmethod
    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Send a batch, and return when it is sent. Exceptions are logged."""


class ConsoleSpanExporter(TracingExporter):
    """Writes each trace and span to standard output as a line of JSON."""

    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Write the traces and spans."""
        for item in items:
            sys.stdout.write(f"{json.dumps(item.export(), default=str)}\n")


class BatchTraceProcessor(TracingProcessor):
    """Exports started traces and finished spans in batches.

    Args:
        exporter: sends the batches.
        max_queue_size: the maximum length of the queue; further traces and spans are dropped, with
            a warning in the log.
        max_batch_size: the maximum size of a batch.
        schedule_delay: the maximum time in the queue; a number counts seconds, and 0 sends
            immediately.
        export_trigger_ratio: the share of the queue that, once full, triggers an export before the
            delay is over.

    Raises:
        UserError: a size is less than 1, or the delay less than 0.
    """

    def __init__(
        self,
        exporter: TracingExporter,
        max_queue_size: int = 8192,
        max_batch_size: int = 128,
        schedule_delay: timedelta | float = 5.0,
        export_trigger_ratio: float = 0.7,
    ) -> None:
        delay = as_duration(schedule_delay)
        sizes = {"max_queue_size": max_queue_size, "max_batch_size": max_batch_size}
        for name, size in sizes.items():
            if type(size) is not int or size < 1:
                raise UserError(
                    f"BatchTraceProcessor({name}=...) must be at least 1, not {size!r}."
                )
        if not isinstance(delay, timedelta) or delay < timedelta(0):
            raise UserError(
                "BatchTraceProcessor(schedule_delay=...) must be a timedelta or a number of seconds, "
                f"at least 0, not {schedule_delay!r}."
            )
        self._exporter = exporter
        self._room = max_queue_size
        self._batch = max_batch_size
        self._delay_seconds = min(delay.total_seconds(), threading.TIMEOUT_MAX)
        self._enough = max(1, int(max_queue_size * export_trigger_ratio))
        self._waiting: deque[Trace | Span[Any]] = deque()
        self._changed = threading.Condition()
        self._exporting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_over = False
        self._has_dropped = False

    def on_trace_start(self, trace: Trace) -> None:
        """Queue the trace."""
        self._put(trace)

    def on_trace_end(self, trace: Trace) -> None:
        """Do nothing: a trace is exported when it starts."""

    def on_span_start(self, span: Span[Any]) -> None:
        """Do nothing: a span is exported when it ends."""

    def on_span_end(self, span: Span[Any]) -> None:
        """Queue the span."""
        self._put(span)

    def force_flush(self) -> None:
        """Export everything in the queue, and return when it is sent."""
        with self._exporting:
            while batch := self._take():
                try:
                    self._exporter.export(batch)
                except Exception:
                    logger.exception("The trace exporter failed; %d entries are lost", len(batch))

    def shutdown(self, timeout: float | None = None) -> None:
        """Export the rest of the queue, and accept no more traces or spans.

        Args:
            timeout: how many seconds to wait for a batch that is being sent; None waits without a
                limit.
        """
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout)
            if self._thread.is_alive():
                return
        self.force_flush()

    def _put(self, item: Trace | Span[Any]) -> None:
        with self._changed:
            if self._is_over:
                return
            if len(self._waiting) >= self._room:
                if not self._has_dropped:
                    logger.warning("Traces arrive faster than they are exported; some are dropped")
                self._has_dropped = True
                return
            self._waiting.append(item)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="outlast-traces", daemon=True
                )
                self._thread.start()
            if len(self._waiting) in {1, self._enough}:
                self._changed.notify_all()

    def _take(self) -> list[Trace | Span[Any]]:
        with self._changed:
            count = min(self._batch, len(self._waiting))
            return [self._waiting.popleft() for _ in range(count)]

    def _work(self) -> None:
        while not self._is_over:
            with self._changed:
                # With an empty queue, sleep instead of waking up after every delay.
                self._changed.wait_for(lambda: self._is_over or self._waiting)
                self._changed.wait_for(
                    lambda: self._is_over or len(self._waiting) >= self._enough,
                    timeout=self._delay_seconds,
                )
            self.force_flush()
