"""A processor that exports traces and spans in batches, and the exporters.

Nothing is sent anywhere unless a program adds a processor.
"""

import json
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from datetime import timedelta
from functools import cache
from typing import Any, Final, cast

from outlast.agents.durations import as_duration
from outlast.agents.errors import UserError
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.tracing.current import Span, Trace
from outlast.tracing.provider import TracingProcessor
from outlast.tracing.receivers import (
    EXPORTER_SHUTDOWN_SECONDS,
    FLUSH_SECONDS,
    Losses,
    mark_observer_thread,
)

logger: Final = get_logger(__name__)


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


OPENAI_ENDPOINT: Final = "https://api.openai.com/v1/traces/ingest"
LARGEST_FIELD_BYTES: Final = 100_000
"""The limit of a span's input or output at OpenAI."""


class BackendSpanExporter(TracingExporter):
    """Sends traces and spans to OpenAI, or to a server that takes the same requests.

    A program sends its traces there by adding a processor with it: `default_processor()` for
    OpenAI. A request that fails for a reason that may pass is repeated; what cannot be sent is lost,
    with a line in the log.

    Args:
        api_key: the key; default that of `OPENAI_API_KEY`.
        organization: the id of the organization; default that of `OPENAI_ORG_ID`.
        project: the id of the project; default that of `OPENAI_PROJECT_ID`.
        endpoint: the URL of the server.
        max_retries: the total number of attempts.
        base_delay: the seconds before the second attempt; each further wait is twice as long.
        max_delay: the longest wait in seconds.
    """

    def __init__(
        self,
        api_key: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        endpoint: str = OPENAI_ENDPOINT,
        max_retries: int = 3,
        base_delay: float = 1.0,
        max_delay: float = 30.0,
    ) -> None:
        import httpx2  # slow to import, and only exporters to a server need it

        self.endpoint = endpoint
        self.max_retries = max_retries
        self.base_delay = base_delay
        self.max_delay = max_delay
        self._api_key = api_key
        self._organization = organization
        self._project = project
        self._broken = httpx2.RequestError
        self._client = httpx2.Client(timeout=httpx2.Timeout(60, connect=5))

    @property
    def api_key(self) -> str | None:
        """The key; None if there is none."""
        from outlast.agents.secrets import secret

        return self._api_key or secret("OPENAI_API_KEY") or None

    @property
    def organization(self) -> str | None:
        """The id of the organization, if any."""
        return self._organization or os.environ.get("OPENAI_ORG_ID")

    @property
    def project(self) -> str | None:
        """The id of the project, if any."""
        return self._project or os.environ.get("OPENAI_PROJECT_ID")

    def set_api_key(self, api_key: str) -> None:
        """Use another key from now on."""
        self._api_key = api_key

    def export(self, items: list[Trace | Span[Any]]) -> None:
        """Send a batch."""
        if not items:
            return
        if not self.api_key:
            logger.warning("OPENAI_API_KEY is not set, skipping trace export")
            return
        exported = [one for item in items if (one := item.export()) is not None]
        if self.endpoint.rstrip("/") == OPENAI_ENDPOINT:
            exported = [_accepted(one) for one in exported]
        payload = json.loads(json.dumps({"data": exported}, default=str))
        for attempt in range(1, self.max_retries + 1):
            if self._is_settled(payload, len(items)):
                return
            if attempt < self.max_retries:
                delay = min(self.base_delay * 2 ** (attempt - 1), self.max_delay)
                time.sleep(delay * random.uniform(1, 1.1))  # noqa: S311  only spreads requests
        logger.error("%d traces and spans are lost: no attempt to send them succeeded", len(items))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _is_settled(self, payload: JsonObject, count: int) -> bool:
        """Send a batch once; return whether there is no use in sending it again."""
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "Content-Type": "application/json",
            "OpenAI-Beta": "traces=v1",
        }
        named = {"OpenAI-Organization": self.organization, "OpenAI-Project": self.project}
        headers |= {name: value for name, value in named.items() if value}
        try:
            response = self._client.post(url=self.endpoint, headers=headers, json=payload)
        except self._broken as error:
            logger.warning("traces could not be sent: %s", type(error).__name__)
            return False
        status = response.status_code
        if status < 300:
            return True
        if 400 <= status < 500:
            logger.error("%d traces and spans are lost: the server answered %d", count, status)
            logger.debug("the server answered %.300r", response.text)  # it may quote a span
            return True
        logger.warning("traces could not be sent: the server answered %d", status)
        return False


def _accepted(item: JsonObject) -> JsonObject:
    """Return a trace or span as OpenAI accepts it: with small fields, and usage of models only."""
    data: JsonObject | None = item.get("span_data")
    if data is None:
        return item
    data = {**data, **{name: _small(data[name]) for name in ("input", "output") if name in data}}
    usage = data.pop("usage", None)
    if data.get("type") == "generation" and isinstance(usage, dict):
        counts = dict(cast("JsonObject", usage))
        known = {name: counts.pop(name, None) for name in ("input_tokens", "output_tokens")}
        if all(type(count) in {int, float} for count in known.values()):
            details: JsonObject = {**(counts.pop("details", None) or {}), **counts}
            data["usage"] = {**known, "details": details} if details else known
    return {**item, "span_data": data}


def _small(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text.encode(errors="replace")) <= LARGEST_FIELD_BYTES:
        return value
    end = "... [truncated]"
    cut = text.encode(errors="replace")[: LARGEST_FIELD_BYTES // 2].decode(errors="ignore")
    return cut + end if isinstance(value, str) else {"truncated": True, "preview": cut + end}


@cache
def default_exporter() -> BackendSpanExporter:
    """Return the exporter to OpenAI, the same each time; it has no processor by itself."""
    return BackendSpanExporter()


@cache
def default_processor() -> "BatchTraceProcessor":
    """Return the processor of `default_exporter()`, the same each time.

    Nothing is sent until the program adds it: `add_trace_processor(default_processor())`.
    """
    return BatchTraceProcessor(default_exporter())


_logged: list[str] = []
"""The functions whose first call was logged."""


def set_tracing_export_api_key(api_key: str) -> None:
    """Set the key of the exporter to OpenAI.

    Traces go there only if the program adds `default_processor()`; the first call logs that.
    """
    default_exporter().set_api_key(api_key)
    if not _logged:
        _logged.append("set_tracing_export_api_key")
        logger.warning(
            "set_tracing_export_api_key alone sends no trace to OpenAI. Traces go to the "
            "processors of add_trace_processor: add default_processor() to send them."
        )


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
        """Export everything in the queue, and return when it is sent."""
        self._send_all(timeout)

    def shutdown(self, timeout: float | None = EXPORTER_SHUTDOWN_SECONDS) -> None:
        """Export the rest of the queue, and accept no more traces or spans."""
        with self._changed:
            self._is_over = True
        self._send_all(timeout)

    def _send_all(self, timeout: float | None) -> None:
        with self._changed:
            end = self._flush_up_to = self._received
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._exported >= end, timeout)
        if not done:
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
            while batch := self._next_batch():
                try:
                    self._exporter.export(batch)
                except BaseException:  # such as SystemExit, which would end the thread
                    logger.exception("The trace exporter failed; %d entries are lost", len(batch))
                    self._failed += len(batch)
                with self._changed:
                    self._exported += len(batch)
                    self._changed.notify_all()

    def _is_due(self) -> bool:
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

    def _next_batch(self) -> list[Trace | Span[Any]]:
        with self._changed:
            count = min(self._batch, len(self._waiting))
            return [self._waiting.popleft() for _ in range(count)]
