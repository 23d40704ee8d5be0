"""Takes attempts for a worker while its event loop is blocked.

The worker's core keeps taking attempts from the server, but a blocked loop cannot begin them: the
server gets no heartbeats and gives up one attempt after the other. So once a loop is blocked, a
thread takes attempts from the core, sends their heartbeats at once, and lets the loop begin them
when it can.
"""

import asyncio
import contextvars
import inspect
import threading
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from temporalio.bridge.proto import ActivityHeartbeat

from outlast.activities.heartbeats.heartbeats import Beat, Heartbeats
from outlast.agents.logs import get_logger
from outlast.contract import names, policies

KEPT_SECONDS: Final = 10.0
"""How long a passed-on attempt may take to begin and send its own heartbeats."""

BEGIN_SECONDS: Final = 1.0
"""How long a cancellation waits for its attempt, which another thread may still hand over."""

BEGIN_LOOK_SECONDS: Final = 0.01  # a cancelled attempt must not run on for long

logger: Final = get_logger(__name__)

# Keyed by what they belong to: the SDK makes the worker and the loop, and neither can carry more.
_relieved: "WeakSet[Any]" = WeakSet()
_contexts: "WeakKeyDictionary[asyncio.AbstractEventLoop, contextvars.Context]" = WeakKeyDictionary()


def begin_attempts_like_this() -> None:
    """Begin attempts that the thread takes in the context of the caller."""
    _contexts[asyncio.get_running_loop()] = contextvars.copy_context()


def start_fallback_poller(worker: Any, blocked: Beat, beats: Heartbeats) -> None:
    """Also take a worker's attempts in a thread. A second call does nothing."""
    if worker in _relieved:
        return
    _relieved.add(worker)
    if not fits_sdk(worker):
        logger.warning(
            "Attempts cannot be taken past a blocked event loop: the worker has an interceptor or a "
            "temporalio that outlast does not know. The server tries them again elsewhere."
        )
        return
    intake = _Intake(worker, blocked, beats)
    threading.Thread(target=intake.run, name="outlast-intake", daemon=True).start()


def fits_sdk(worker: Any) -> bool:
    """Whether the SDK's worker has the private parts that are needed here."""
    try:
        from temporalio.worker import _activity as sdk  # pyright: ignore[reportPrivateUsage]

        core: Any = worker._bridge_worker()  # noqa: SLF001
        parts = (
            core.poll_activity_task,
            core.record_activity_heartbeat,
            worker._handle_start_activity_task,  # noqa: SLF001
            worker._handle_cancel_activity_task,  # noqa: SLF001
            sdk._RunningActivity,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        )
        return all(map(callable, parts)) and isinstance(worker._running_activities, dict)  # noqa: SLF001
    except (AttributeError, ImportError, TypeError):
        return False


class _Intake:
    def __init__(self, worker: Any, blocked: Beat, beats: Heartbeats) -> None:
        self._worker = worker
        self._core: Any = worker._bridge_worker()  # noqa: SLF001
        self._loop = blocked.loop
        self._thread_id = blocked.thread_id
        self._beats = beats
        self._cancel_now = worker._handle_cancel_activity_task  # noqa: SLF001
        worker._handle_cancel_activity_task = self._cancel_begun  # noqa: SLF001

    def run(self) -> None:
        """Take attempts until the worker ends."""
        asyncio.run(self._take_all())

    async def _take_all(self) -> None:
        context = _contexts.get(self._loop) or contextvars.Context()
        while True:
            try:
                task = await self._core.poll_activity_task()
            except Exception as error:  # noqa: BLE001  the worker itself gets the same error
                logger.debug("no more attempts are taken past the event loop: %r", error)
                return
            beat = self._beat_for(task)
            try:
                self._loop.call_soon_threadsafe(self._pass_on, task, beat, context=context)
            except RuntimeError:  # the loop is closed, so no attempt can begin
                return

    def _pass_on(self, task: Any, beat: Beat | None) -> None:
        """Handle a task as the SDK's worker handles those that it takes itself."""
        from temporalio.worker import _activity as sdk  # pyright: ignore[reportPrivateUsage]

        worker, token = self._worker, task.task_token
        if task.HasField("start"):
            running: Any = sdk._RunningActivity()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            start = worker._handle_start_activity_task(token, task.start, running)  # noqa: SLF001
            running.task = self._loop.create_task(start)
            worker._running_activities[token] = running  # noqa: SLF001
        elif task.HasField("cancel"):
            self._cancel_begun(token, task.cancel)
        if beat is not None:
            self._loop.call_later(KEPT_SECONDS, self._beats.remove, beat)

    def _cancel_begun(
        self, token: bytes, cancel: Any, looks: int = round(BEGIN_SECONDS / BEGIN_LOOK_SECONDS)
    ) -> None:
        """Cancel an attempt after its first step.

        A task that is cancelled before that never runs, and the core would wait for the attempt's
        result at shutdown, forever. With two pollers, a cancellation may overtake its attempt.
        """
        if looks and not self._has_begun(token):
            again = (token, cancel, looks - 1)
            self._loop.call_later(BEGIN_LOOK_SECONDS, self._cancel_begun, *again)
        else:
            self._cancel_now(token, cancel)

    def _has_begun(self, token: bytes) -> bool:
        running: Any = self._worker._running_activities.get(token)  # noqa: SLF001
        if running is None or running.task is None:
            return False
        coroutine: Any = running.task.get_coro()  # None of a task that began and ended eagerly
        return coroutine is None or inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED

    def _beat_for(self, task: Any) -> Beat | None:
        start = task.start if task.HasField("start") else None
        if start is None or start.is_local or start.workflow_type != names.WORKFLOW:
            return None
        token: bytes = task.task_token
        timeout = start.heartbeat_timeout.ToTimedelta().total_seconds()
        beat = Beat(
            what=f"{start.activity_type} of {start.workflow_execution.workflow_id}",
            loop=self._loop,
            send=lambda: self._core.record_activity_heartbeat(ActivityHeartbeat(task_token=token)),
            interval=(timeout or policies.HEARTBEAT_MS / 1000) / policies.BEATS_WITHIN_TIMEOUT,
            key=token,
            task=None,
            thread_id=self._thread_id,
            last=0.0,  # it may have waited for a long time
        )
        self._beats.add(beat)
        return beat
