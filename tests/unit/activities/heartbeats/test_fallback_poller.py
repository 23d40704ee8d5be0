"""Attempts that a worker takes while its event loop is blocked."""

import asyncio
import contextvars
import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from temporalio.bridge.proto.activity_task import ActivityTask

from outlast.activities.heartbeats.fallback_poller import (
    begin_attempts_like_this,
    fits_sdk,
    start_fallback_poller,
)
from outlast.activities.heartbeats.heartbeats import Beat, Heartbeats
from outlast.contract import names

WHO = contextvars.ContextVar("who", default="nobody")


class Ended(Exception):
    """The core ends."""


class FakeCore:
    """Hands out its tasks, and then ends."""

    def __init__(self, *tasks: ActivityTask) -> None:
        self.tasks = list(tasks)
        self.threads: list[str] = []
        self.beaten: list[bytes] = []
        self.has_beaten = threading.Event()

    async def poll_activity_task(self) -> ActivityTask:
        self.threads.append(threading.current_thread().name)
        if not self.tasks:
            raise Ended
        return self.tasks.pop(0)

    def record_activity_heartbeat(self, beat: Any) -> None:
        self.beaten.append(beat.task_token)
        self.has_beaten.set()


class FakeWorker:
    def __init__(self, core: object) -> None:
        self._bridge_worker: Any = lambda: core
        self._running_activities: dict[bytes, Any] = {}
        self.begun: list[tuple[bytes, str]] = []
        self.cancelled: list[bytes] = []
        self.all_begun = asyncio.Event()

    async def _handle_start_activity_task(self, token: bytes, task: Any, running: Any) -> None:
        assert self._running_activities[token] is running
        self.begun.append((token, WHO.get()))
        if len(self.begun) == 3:
            self.all_begun.set()

    def _handle_cancel_activity_task(self, token: bytes, _cancel: Any) -> None:
        self.cancelled.append(token)
        if token in self._running_activities:
            self._running_activities[token].task.cancel()

    async def until_cancelled(self, *tokens: bytes) -> None:
        async with asyncio.timeout(10):
            while len(self.cancelled) < len(tokens):  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.01)
        assert set(self.cancelled) == set(tokens)


def start(token: bytes, *, workflow_type: str = names.WORKFLOW, local: bool = False) -> Any:
    task = ActivityTask(task_token=token)
    task.start.workflow_type = workflow_type
    task.start.is_local = local
    task.start.heartbeat_timeout.FromTimedelta(timedelta(seconds=0.04))
    return task


async def test_attempts_are_taken_and_beaten_for_while_the_loop_is_blocked() -> None:
    cancel = ActivityTask(task_token=b"mine")
    cancel.cancel.SetInParent()
    tasks = [start(b"mine"), start(b"other", workflow_type="Theirs"), start(b"l", local=True)]
    core = FakeCore(*tasks, cancel)
    worker, beats = FakeWorker(core), Heartbeats()
    WHO.set("the worker")
    begin_attempts_like_this()
    blocked = Beat("tool:slow of support-42", asyncio.get_running_loop(), key=b"blocker")
    start_fallback_poller(worker, blocked, beats)
    start_fallback_poller(worker, blocked, beats)
    assert core.has_beaten.wait(10), "while this blocks the loop"
    assert worker.begun == []
    await asyncio.wait_for(worker.all_begun.wait(), 10)  # the cancelled one, too
    assert worker.begun == [(token, "the worker") for token in (b"mine", b"other", b"l")]
    await worker.until_cancelled(b"mine")
    assert set(core.beaten) == {b"mine"}
    assert set(core.threads) == {"outlast-intake"}
    own = Beat("tool:mine of support-43", asyncio.get_running_loop(), key=b"mine")
    beats.add(own)
    assert beats._beats == {b"mine": own}, "the attempt has begun, and beats for itself"
    beats.remove(own)


async def test_an_attempt_of_the_workers_own_poller_begins_before_it_is_cancelled() -> None:
    cancel, core = ActivityTask().cancel, FakeCore()
    worker, loop = FakeWorker(core), asyncio.get_running_loop()
    start_fallback_poller(
        worker, Beat("tool:slow of support-42", loop, key=b"blocker"), Heartbeats()
    )

    def begin(token: bytes) -> asyncio.Task[None]:
        """Begin an attempt as the SDK does."""
        running = worker._running_activities[token] = SimpleNamespace(task=None)
        start = worker._handle_start_activity_task(token, None, running)
        running.task = loop.create_task(start)
        return running.task

    registered = begin(b"registered")
    worker._handle_cancel_activity_task(b"registered", cancel)
    worker._handle_cancel_activity_task(b"on its way", cancel)
    worker._handle_cancel_activity_task(b"over", cancel)
    await asyncio.sleep(0)
    await asyncio.gather(registered, begin(b"on its way"))
    assert [token for token, _ in worker.begun] == [b"registered", b"on its way"]
    await worker.until_cancelled(b"registered", b"on its way", b"over")


async def test_an_sdk_that_is_made_otherwise_is_left_alone() -> None:
    class Other:
        pass

    for other in (Other(), FakeWorker(SimpleNamespace())):
        start_fallback_poller(other, Beat("a", asyncio.get_running_loop()), Heartbeats())
        assert not fits_sdk(other)


async def test_a_blocked_loop_is_relieved() -> None:
    relieved: list[Beat] = []
    beats = Heartbeats()
    beat = Beat(
        "a", asyncio.get_running_loop(), on_blocked_loop=lambda one, _: relieved.append(one)
    )
    beats.add(beat)
    await asyncio.sleep(0.3)
    time.sleep(1.8)  # noqa: ASYNC251  this is it
    beats.remove(beat)
    assert relieved[0] is beat
