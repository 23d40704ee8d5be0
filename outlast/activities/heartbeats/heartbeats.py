"""A thread that sends a process's heartbeats and watches its event loops.

Sent from the event loop, heartbeats would stop with the first `async def` that blocks the loop, and
all work of the worker would be repeated elsewhere.
"""

import asyncio
import inspect
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

from outlast.activities.failure_words import is_users, one_line
from outlast.agents.logs import get_logger

LOOK_SECONDS: Final = 0.25
"""How often the heartbeat thread wakes up, in seconds."""

BLOCKED_SECONDS: Final = 1.0
"""How long one piece of code may block a loop before a warning, in seconds."""

IDLE_SECONDS: Final = 10.0
"""How long the thread stays without attempts, in seconds."""

_NEVER: Final = float("inf")

logger: Final = get_logger(__name__)


@dataclass(eq=False, slots=True)
class Beat:
    """One attempt that runs in this process.

    Attributes:
        loop: the event loop that it runs in.
        send: sends a heartbeat from any thread; None if the attempt needs none.
        interval: seconds between two heartbeats.
        key: identifies the attempt; a second beat with the same key replaces the first.
        on_blocked_loop: called while the loop is blocked.
        thread_id: the id of the loop's thread.
    """

    what: str
    loop: asyncio.AbstractEventLoop
    send: Callable[[], None] | None = None
    interval: float = _NEVER
    key: bytes = b""
    on_blocked_loop: "Callable[[Beat, Heartbeats], None] | None" = None
    task: "asyncio.Task[Any] | None" = field(default_factory=asyncio.current_task)
    thread_id: int = field(default_factory=threading.get_ident)
    last: float = field(default_factory=time.monotonic)

    def note_sent(self) -> None:
        """Record a heartbeat that was sent by other means."""
        self.last = time.monotonic()


class Heartbeats:
    """Sends the heartbeats of a process, and watches its event loops."""

    def __init__(self) -> None:
        self._beats: dict[bytes, Beat] = {}
        self._watches: dict[asyncio.AbstractEventLoop, _Watch] = {}
        self._warned: set[CodeType] = set()
        self._pause = LOOK_SECONDS
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def add(self, beat: Beat) -> None:
        """Send heartbeats for an attempt until it is removed. As cheap as a dict insert."""
        self._beats[beat.key] = beat
        if self._thread is None:
            self._start()
        elif beat.interval < self._pause:
            self._wake.set()

    def remove(self, beat: Beat) -> None:
        """Stop the heartbeats of an attempt."""
        if self._beats.get(beat.key) is beat:
            del self._beats[beat.key]

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="outlast-heartbeats", daemon=True
                )
                self._thread.start()

    def _serve(self) -> None:
        busy_at = checked_at = time.monotonic()
        while True:
            self._wake.wait(self._pause)
            self._wake.clear()
            now = time.monotonic()
            beats = list(self._beats.values())
            # A stopped process or a sleeping machine is no blocked loop.
            stood_still = now - checked_at > self._pause + BLOCKED_SECONDS / 2
            checked_at = now
            self._send_due(beats, now)
            self._watch(beats, now, afresh=stood_still)
            self._pause = min([LOOK_SECONDS, *(beat.interval for beat in beats)])
            if beats:
                busy_at = now
            elif now - busy_at > IDLE_SECONDS and self._is_over():
                return

    def _is_over(self) -> bool:
        with self._starting:
            mine, self._thread = self._thread, None
            if self._beats:  # added while the thread still ran
                self._thread = mine
            return self._thread is None

    def _send_due(self, beats: list[Beat], now: float) -> None:
        for beat in beats:
            if beat.send is None or now - beat.last < beat.interval:
                continue
            if self._beats.get(beat.key) is not beat:  # it has ended in the meantime
                continue
            beat.last = now
            try:
                beat.send()
            except Exception as error:  # noqa: BLE001  the other attempts need their heartbeats
                # The worker may be ending; the attempt itself continues.
                logger.debug("no heartbeat for %s: %r", beat.what, error)

    def _watch(self, beats: list[Beat], now: float, *, afresh: bool) -> None:
        loops = {beat.loop: beat for beat in beats}
        for loop in [loop for loop in self._watches if loop not in loops]:
            del self._watches[loop]
        for loop, beat in loops.items():
            watch = self._watches.get(loop)
            if watch is None or afresh:
                watch = self._watches[loop] = _Watch(loop, beat.thread_id)
            blocker = watch.find_blocker(now)
            if watch.is_blocked(now):
                self._on_blocked_loop(loop, beats)
            if blocker is not None and blocker.code not in self._warned:
                self._warned.add(blocker.code)
                logger.warning("%s", _warning(blocker, beats))

    def _on_blocked_loop(self, loop: asyncio.AbstractEventLoop, beats: list[Beat]) -> None:
        for beat in beats:
            if beat.loop is loop and beat.on_blocked_loop is not None:
                beat.on_blocked_loop(beat, self)


@dataclass(frozen=True, slots=True)
class _Blocker:
    """The user code that blocks a loop.

    Attributes:
        code: the code of its outermost function.
        place: the innermost line of user code.
        seconds: how long it has been seen.
    """

    code: CodeType
    is_async: bool
    task: "asyncio.Task[Any] | None"
    place: str
    seconds: float


class _Watch:
    """Checks whether a loop responds, and inspects its thread while it does not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        self._loop = loop
        self._thread_id = thread_id
        self._has_answered = True
        self._suspect: tuple[int, CodeType, asyncio.Task[Any] | None] | None = None
        self._since = 0.0
        self._probed_at = 0.0

    def find_blocker(self, now: float) -> _Blocker | None:
        """Return the code that blocks the loop, once it has done so for long enough."""
        if self._has_answered:
            self._has_answered, self._suspect, self._probed_at = False, None, now
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._answer)
            return None
        frames = _users_frames(sys._current_frames().get(self._thread_id))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  documented
        if not frames:
            self._suspect = None
            return None
        first, last = frames[0], frames[-1]
        task = asyncio.current_task(self._loop)
        suspect = (id(first), first.f_code, task)
        if suspect != self._suspect:
            # Only code that stays is the cause: many short steps may keep a loop busy, too.
            self._suspect, self._since = suspect, now
            return None
        if now - self._since < BLOCKED_SECONDS - LOOK_SECONDS:
            return None
        return _Blocker(
            code=first.f_code,
            is_async=bool(first.f_code.co_flags & inspect.CO_COROUTINE),
            task=task,
            place=f"{Path(last.f_code.co_filename).name}:{last.f_lineno} in {last.f_code.co_name}",
            seconds=now - self._since + LOOK_SECONDS,
        )

    def is_blocked(self, now: float) -> bool:
        """Whether the event loop has not responded for long."""
        return not self._has_answered and now - self._probed_at >= BLOCKED_SECONDS

    def _answer(self) -> None:
        self._has_answered = True


def _users_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of user code that a loop runs, the outermost first."""
    if frame is None:
        return []
    stack = [one for one, _ in traceback.walk_stack(frame)][::-1]
    steps = [at for at, one in enumerate(stack) if _is_coroutine(one)]
    # Frames further out started the loop, such as a program's last line.
    inside = stack[steps[0] :] if steps else []
    return [one for one in inside if is_users(one.f_code.co_filename)]


def _is_coroutine(frame: FrameType) -> bool:
    return bool(frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))


def _warning(blocker: _Blocker, beats: list[Beat]) -> str:
    where = next((f" {beat.what}" for beat in beats if beat.task is blocker.task), "")
    name = blocker.code.co_qualname.rpartition("<locals>.")[2]
    kind = "async def" if blocker.is_async else "function"
    return one_line(
        f"{kind} {name} blocks the event loop ({blocker.place}), for {blocker.seconds:.1f} s so"
        f" far{where and ', in' + where}: no other run of this process makes progress. Write `def`"
        " instead of `async def`, which runs in a thread, or call the blocking code with"
        " `await asyncio.to_thread(...)`."
    )


heartbeats: Final = Heartbeats()
"""The instance of this process: its workers may share event loops, and one thread watches all."""


def _begin_anew() -> None:
    """Forget the thread of the parent process, which a forked process does not have."""
    heartbeats.__init__()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no forks
    os.register_at_fork(after_in_child=_begin_anew)
