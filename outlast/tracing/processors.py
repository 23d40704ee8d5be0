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
from outlast.tracing.receivers import (
    EXPORTER_SHUTDOWN_SECONDS,
    FLUSH_SECONDS,
    Losses,
    mark_observer_thread,
)

logger = get_logger(__name__)


class TracingExporter(ABC):
    """Base class for exporters, which send traces and spans to a backend."""

    @abstractmethod
    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Send a batch, and return when it is sent.

        Called in a thread of the processor. The batch of an exception is lost; it is logged.
        """


class ConsoleSpanExporter(TracingExporter):
    """Writes each trace and span to standard output as a line of JSON."""

    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Write the traces and spans."""
        for item in items:
            sys.stdout.write(f"{json.dumps(item.export(), default=str)}\n")


class BatchTraceProcessor(TracingProcessor):
    """Exports started traces and finished spans in batches, in a thread of its own.

    Args:
        exporter: sends the batches.
        max_queue_size: the maximum length of the queue; further traces and spans are dropped,
            counted in `lost`, and named in a warning in the log.
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
        self._thread: threading.Thread | None = None
        self._received = 0
        self._exported = 0
        self._flush_up_to = 0
        self._is_over = False
        name = type(exporter).__name__
        self._dropped = Losses(f"{name} is too slow: %d traces and spans were dropped so far")
        self._failed = 0

    @property
    def lost(self) -> int:
        """How many traces and spans were not exported: the queue was full, or the exporter failed."""
        return self._dropped.count + self._failed

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

    def force_flush(self, timeout: float | None = FLUSH_SECONDS) -> None:
        """Export everything in the queue, and return when it is sent.

        Args:
            timeout: how many seconds to wait; None waits without a limit.
        """
        with self._changed:
            end = self._flush_up_to = self._received
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._exported >= end, timeout)
        if not done:
            self._log_late(timeout)

    def shutdown(self, timeout: float | None = EXPORTER_SHUTDOWN_SECONDS) -> None:
        """Export the rest of the queue, and accept no more traces or spans.

        Args:
            timeout: how many seconds to wait; what is not sent by then is lost. None waits without
                a limit.
        """
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._exported >= self._received, timeout)
        if not done:
            self._log_late(timeout)

    def _log_late(self, timeout: float | None) -> None:
        logger.warning(
            "%s did not send %d traces and spans within %g s",
            type(self._exporter).__name__,
            self._received - self._exported,
            timeout,
        )

    def _put(self, item: Trace | Span[Any]) -> None:
        with self._changed:
            if self._is_over:
                return
            fits = len(self._waiting) < self._room
            if fits:
                # A forked process has the queue of its parent, but not the thread.
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(
                        target=self._work, name="outlast-traces", daemon=True
                    )
                    self._thread.start()
                self._waiting.append(item)
                self._received += 1
                if len(self._waiting) in {1, self._enough}:
                    self._changed.notify_all()
        if not fits:
            self._dropped.add()

    def _work(self) -> None:
        mark_observer_thread()
        while self._is_due():
            while batch := self._take():
                try:
                    self._exporter.export(batch)
                except BaseException:  # such as SystemExit, which would end the thread
                    logger.exception("The trace exporter failed; %d entries are lost", len(batch))
                    self._failed += len(batch)
                with self._changed:
                    self._exported += len(batch)
                    self._changed.notify_all()

    def _is_due(self) -> bool:
        """Wait until the queue is due; false after the shutdown, once the queue is empty."""
        with self._changed:
            # With an empty queue, sleep instead of waking up after every delay.
            self._changed.wait_for(lambda: self._is_over or self._waiting)
            self._changed.wait_for(
                lambda: (
                    self._is_over
                    or self._flush_up_to > self._exported
                    or len(self._waiting) >= self._enough
                ),
                timeout=self._delay_seconds,
            )
            return bool(self._waiting)

    def _take(self) -> list[Trace | Span[Any]]:
        with self._changed:
            count = min(self._batch, len(self._waiting))
            return [self._waiting.popleft() for _ in range(count)]
