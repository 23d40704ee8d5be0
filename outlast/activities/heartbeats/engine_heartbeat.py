"""Sends Temporal heartbeats from any thread, and detects late attempts.

The SDK sends heartbeats only from the event loop. The worker's core accepts them from any thread,
but has no public API for it. With an SDK that lacks that API, heartbeats go through the loop.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, Final

from temporalio import activity
from temporalio.api.workflowservice.v1 import RecordActivityTaskHeartbeatRequest
from temporalio.bridge.proto import ActivityHeartbeat
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.heartbeats.fallback_poller import start_fallback_poller
from outlast.activities.heartbeats.heartbeats import Beat, Heartbeats
from outlast.agents.logs import get_logger
from outlast.contract import policies

ASKING = timedelta(seconds=5)
"""How long the server may take to confirm that it waits for an attempt."""

logger: Final = get_logger(__name__)


def heartbeat_timeout(info: activity.Info) -> timedelta:
    """Return how long the server waits for a heartbeat of an attempt."""
    return info.heartbeat_timeout or timedelta(milliseconds=policies.HEARTBEAT_MS)


def sender(details: Callable[[], Any] | None = None) -> Callable[[], None]:
    """Return a function that any thread may call to heartbeat the running activity.

    `details` are encoded here if no codec is needed.
    """
    return _sender(_activity_worker(), details)


def sender_and_poller() -> tuple[Callable[[], None], Callable[[Beat, Heartbeats], None] | None]:
    """Return `sender()`, and what takes attempts past a blocked loop; None if unsupported."""
    worker = _activity_worker()
    poller = None if worker is None else partial(start_fallback_poller, worker)
    return _sender(worker, None), poller


def _sender(worker: Any, details: Callable[[], Any] | None) -> Callable[[], None]:
    record = _recorder(worker)
    if record is None:
        return through_the_loop(details)
    token = activity.info().task_token
    if details is None or _encodes(worker):
        return lambda: record(ActivityHeartbeat(task_token=token))
    converter = activity.payload_converter()

    def send() -> None:
        beat = ActivityHeartbeat(task_token=token)
        beat.details.extend(converter.to_payloads([details()]))
        record(beat)

    return send


def _activity_worker() -> Any:
    outbound: Any = getattr(activity._Context.current().heartbeat, "__self__", None)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    while outbound is not None and not hasattr(outbound, "_worker"):
        outbound = getattr(outbound, "next", None)  # skip the program's own interceptors
    return getattr(outbound, "_worker", None)


def _recorder(worker: Any) -> Callable[[ActivityHeartbeat], Any] | None:
    try:
        record: Any = worker._bridge_worker().record_activity_heartbeat  # noqa: SLF001
    except (AttributeError, TypeError):
        return None
    return record if callable(record) else None


def _encodes(worker: Any) -> bool:
    converter: Any = getattr(worker, "_data_converter", None)
    return getattr(converter, "payload_codec", "unknown") is not None


def through_the_loop(details: Callable[[], Any] | None) -> Callable[[], None]:
    """Return a function that heartbeats by the SDK, which encodes the details for payload codecs."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()

    def beat() -> None:
        activity.heartbeat(*([] if details is None else [details()]))

    def send() -> None:
        loop.call_soon_threadsafe(beat, context=context)

    return send


# --- Attempts that began too late -----------------------------------------------------------------


class Clocks:
    """A worker's estimate of how far this machine's clock is ahead of the server's."""

    def __init__(self) -> None:
        self._ahead = timedelta()
        self._late_and_wanted: list[timedelta] = []

    def age_of(self, info: activity.Info) -> timedelta:
        """Return the attempt's age since the server sent it, corrected for the clocks."""
        if info.started_time.year < _NO_TIME:
            return timedelta()
        difference = timedelta(seconds=time.time() - info.started_time.timestamp())
        if not info.is_local:
            self._ahead = min(self._ahead, difference)  # no attempt is taken before it is scheduled
        return difference - (timedelta() if info.is_local else self._ahead)

    def record_accepted(self, age: timedelta) -> None:
        """Record a late attempt that the server accepts; several mean wrong clocks."""
        self._late_and_wanted.append(age)
        if len(self._late_and_wanted) == _ENOUGH:
            self._ahead += min(self._late_and_wanted)
            self._late_and_wanted.clear()

    def record_in_time(self) -> None:
        """Learn from an attempt that began at once."""
        self._late_and_wanted.clear()


_NO_TIME = 2000
"""A year before any attempt."""

_ENOUGH = 5
"""After this many attempts in a row that seem late but are wanted, the clocks must differ."""


async def began_in_time(info: activity.Info, clocks: Clocks) -> bool:
    """Whether the server still waits for an attempt that begins now.

    A worker takes an attempt before its event loop begins it. If the loop is blocked in between,
    the server gets no heartbeat and gives the attempt up; the next attempt then runs elsewhere, and
    this one must not begin. The clocks only decide when to ask the server, whose answer counts.
    """
    age = clocks.age_of(info)
    if info.is_local:  # the worker's core uses the same clock
        return info.start_to_close_timeout is None or age < info.start_to_close_timeout
    if age <= heartbeat_timeout(info) / 2:
        clocks.record_in_time()
        return True
    client = activity.client()
    request = RecordActivityTaskHeartbeatRequest(
        namespace=info.namespace, task_token=info.task_token, identity=client.identity
    )
    try:
        await client.workflow_service.record_activity_task_heartbeat(request, timeout=ASKING)
    except RPCError as error:
        logger.info("an attempt of %s began too late: %s", info.activity_type, error)
        return error.status != RPCStatusCode.NOT_FOUND and age < heartbeat_timeout(info)
    clocks.record_accepted(age)
    return True
