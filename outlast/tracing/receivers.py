"""The trace processors of this process, isolated so that none disturbs a run.

Whoever reports to a processor only adds to its queue, which its thread empties from time to time:
waking the thread for each span would take more CPU than the span itself. The ends of runs and of a program's traces
wait for its thread for a moment, so that scripts and tests can read what it has received; one that
needs longer is not waited for again until it has caught up.
"""

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent import futures
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakSet

from outlast.agents.logs import get_logger

logger: Final = get_logger(__name__)

DISABLING_VARIABLES = ("OUTLAST_DISABLE_TRACING", "OPENAI_AGENTS_DISABLE_TRACING")
"""Environment variables that disable tracing with `1` or `true`; the first one set counts."""

MOST_WAITING: Final = 8192
"""The maximum number of reports in a processor's queue; further ones are lost."""

HANDOVER_SECONDS: Final = 0.05
"""How long reports may stay in a queue until its thread wakes up, unless somebody waits for it.

A processor with an attribute `handover_seconds` has its own time.
"""

MANY_WAITING: Final = MOST_WAITING // 8
"""How many reports wake it at once."""

SETTLE_SECONDS: Final = 0.25
"""How long the end of a run or of a program's trace waits for processors."""

FLUSH_SECONDS: Final = 30.0
"""How long `flush_traces` waits for processors."""

WORKER_END_SECONDS: Final = 5.0
"""How long a worker that stops waits for its processors to send their traces."""

SHUTDOWN_SECONDS: Final = 5.0
"""How long the end of a process waits for its processors."""

EXPORTER_SHUTDOWN_SECONDS: Final = 4.0
"""How long a processor waits for its exporter then, so that its log can say what is lost."""

Report: TypeAlias = Callable[[], None]

EnterSpan: TypeAlias = Callable[[Any], Callable[[], None]]
"""What a processor may have: called in the thread of the work, with the span that is now current.

It returns what is called when the span is no longer current. Neither may raise or take time.
"""

METHODS: Final = ("on_trace_start", "on_trace_end", "on_span_start", "on_span_end")
"""The methods of processors that runs call."""

F = TypeVar("F", bound=Callable[..., object])

_here = threading.local()


def unused(method: F) -> F:
    """Mark a method of a processor that does nothing, so that it is never called."""
    cast("Any", method).is_unused = True
    return method


def _unused_methods(processor: object) -> frozenset[str]:
    kind = type(processor)
    return frozenset(one for one in METHODS if hasattr(getattr(kind, one, None), "is_unused"))


def mark_observer_thread() -> None:
    """Mark the calling thread as one of processors or exporters; traces opened there are lost.

    Otherwise a processor that opens a trace for each one it receives would never end.
    """
    _here.observes = True


def _is_observer_thread() -> bool:
    return getattr(_here, "observes", False)


class Losses:
    """Counts what is lost; logs the first loss, the tenth and so on, with a `%d` for the number."""

    def __init__(self, message: str) -> None:
        self.count: int = 0
        self._message = message
        self._next_logged = 1
        self._lock = threading.Lock()

    def add(self, number: int = 1) -> None:
        """Count lost objects."""
        with self._lock:
            self.count += number
            count, is_logged = self.count, self.count >= self._next_logged
            while self._next_logged <= count:
                self._next_logged *= 10
        if is_logged:
            logger.warning(self._message, count)


class _Question:
    """A report with a future, which is done once the report is made."""

    def __init__(self, report: Report | None) -> None:
        self.future: futures.Future[None] = futures.Future()
        self.future.set_running_or_notify_cancel()  # nobody can cancel it any more
        self._report = report

    def __call__(self) -> None:
        if self._report is not None:
            self._report()
        self.future.set_result(None)


class Receiver:
    """A processor with its queue and its thread; nothing it does reaches the callers.

    One that was waited for in vain is late until it has caught up.
    """

    def __init__(self, processor: object) -> None:
        self.processor = processor
        self.unused: frozenset[str] = _unused_methods(processor)
        self.enter_span: EnterSpan | None = getattr(processor, "enter_span", None)
        self._handover = float(getattr(processor, "handover_seconds", HANDOVER_SECONDS))
        self.is_late: bool = False
        self.lost: Losses = Losses(f"{self.name} is too slow: %d of its calls were dropped so far")
        self._failures = 0
        self._waiting: deque[Report] = deque()
        self._changed = threading.Condition()
        self._current: Report | None = None
        self._is_retired = False
        self._is_idle = False
        self._is_urgent = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the processor's class."""
        return type(self.processor).__name__

    def call(self, method: str, *arguments: object) -> None:
        """Queue a call of a method of the processor."""
        self.report(partial(self.deliver, method, *arguments))

    def report(self, report: Report) -> None:
        """Queue a function that calls `deliver`; drop it if the queue is full."""
        if _is_observer_thread():
            return
        with self._changed:
            fits = len(self._waiting) < MOST_WAITING and self._has_thread()
            if fits:
                self._waiting.append(report)
                if self._is_idle:
                    self._is_idle = False
                    self._changed.notify()
                elif len(self._waiting) == MANY_WAITING:
                    self._hurry()
        if not fits:
            self.lost.add()

    def deliver(self, method: str, *arguments: object) -> None:
        """Call a method of the processor in this thread; log its first exception only."""
        try:
            getattr(self.processor, method)(*arguments)
        except BaseException:  # such as SystemExit, which would end the thread
            self._failures += 1
            if self._failures == 1:
                logger.exception(
                    "%s.%s failed; its further errors are not logged", self.name, method
                )

    def ask(self, method: str | None = None) -> "futures.Future[None]":
        """Queue a call and return its future; without a method, of nothing."""
        question = _Question(partial(self.deliver, method) if method is not None else None)
        with self._changed:
            is_idle = method is None and not self._waiting and self._current is None
            if is_idle or not self._has_thread():
                question.future.set_result(None)
            else:
                self._waiting.append(question)
                self._hurry()
        return question.future

    def start(self) -> None:
        """Start the thread: at the end of the process, none can be started."""
        with self._changed:
            self._has_thread()

    def retire(self) -> None:
        """End the thread once the queue is empty; a later report starts another one."""
        with self._changed:
            self._is_retired = True
            self._changed.notify()

    def forget(self) -> None:
        """Forget the queue and the thread, in a forked process, which has neither."""
        self._changed = threading.Condition()
        self._waiting = deque()
        self._thread = self._current = None
        self.is_late = self._is_idle = self._is_urgent = False

    def _hurry(self) -> None:
        self._is_urgent = True
        self._changed.notify()

    def _has_thread(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="outlast-spans", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the interpreter is ending
                return False
            self._thread = thread
        return True

    def _work(self) -> None:
        mark_observer_thread()
        while (report := self._next()) is not None:
            try:
                report()
            except Exception:  # an observer; the thread serves later reports
                logger.exception("A stage of a run could not be reported to %s", self.name)

    def _next(self) -> Report | None:
        with self._changed:
            self._current = None
            if not self._waiting:
                self.is_late = self._is_urgent = False
                self._is_idle = True
                self._changed.wait_for(lambda: self._waiting or self._is_retired)
                self._is_idle = False
                self._changed.wait_for(lambda: self._is_urgent or self._is_retired, self._handover)
            if not self._waiting:
                self._thread = None
                return None
            self._current = self._waiting.popleft()
            return self._current

    def mark_late(self) -> None:
        """Mark it as late, unless it has caught up by now."""
        with self._changed:
            self.is_late = bool(self._waiting) or self._current is not None

    def lose_waiting(self) -> int:
        """Drop all queued reports, and return their number, with the one in progress."""
        with self._changed:
            dropped = [*self._waiting, self._current]
            self._waiting.clear()
        return sum(not isinstance(one, _Question) for one in dropped if one is not None)


class Inline:
    """Stands for a receiver in its own thread: calls the processor at once."""

    __slots__ = ("_receiver", "enter_span", "unused")

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.unused: frozenset[str] = receiver.unused
        self.enter_span: EnterSpan | None = receiver.enter_span

    def call(self, method: str, *arguments: object) -> None:
        """Call a method of the processor."""
        self._receiver.deliver(method, *arguments)

    deliver = call

    def report(self, report: Report) -> None:
        """Call a function that calls `deliver`."""
        report()


Receivers: TypeAlias = tuple[Receiver | Inline, ...]

Asked: TypeAlias = "dict[futures.Future[None], Receiver]"


class Registration:
    """The registered processors of this process."""

    def __init__(self) -> None:
        self.active: tuple[Receiver, ...] = ()
        self._all: tuple[Receiver, ...] = ()
        self._ever: WeakSet[Receiver] = WeakSet()
        self._is_disabled: bool | None = None
        self._lock = threading.Lock()
        self._ends_with_process = False

    @property
    def is_disabled(self) -> bool:
        """Whether tracing is disabled: by the program's last call, or else the environment."""
        if self._is_disabled is not None:
            return self._is_disabled
        value = next((os.environ[name] for name in DISABLING_VARIABLES if name in os.environ), "")
        return value.strip().lower() in {"1", "true"}

    @property
    def lost(self) -> int:
        """How many calls of the registered processors were dropped."""
        return sum(receiver.lost.count for receiver in self._all)

    def add(self, processors: Sequence[object], *, replace: bool = False) -> None:
        """Register processors, in addition to the present ones or instead of them."""
        new = [Receiver(processor) for processor in processors]
        for receiver in new:
            receiver.start()
        with self._lock:
            kept = () if replace else self._all
            self._set((*kept, *new))
            self._ever.update(new)
            if not self._ends_with_process:
                self._ends_with_process = True
                atexit.register(self.shut_down)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=self._after_fork)

    def remove(self, processor: object) -> None:
        """Unregister a processor; it receives no trace or span that starts later."""
        with self._lock:
            self._set(tuple(one for one in self._all if one.processor is not processor))

    def disable(self, disabled: bool) -> None:
        """Disable tracing, or enable it again."""
        with self._lock:
            self._is_disabled = disabled
            self.active = () if disabled else self._all

    def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until processors have received everything reported so far; skip late ones."""
        if asked := self._unsettled():
            self._wait(asked, seconds)

    async def settled(self) -> None:
        """Wait like `settle`, without blocking the event loop."""
        if asked := self._unsettled():
            await self._until(asked, SETTLE_SECONDS)

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Make every processor send its traces, also while tracing is disabled; whether all have."""
        return self._log_late("force_flush", self._wait(self._ask("force_flush"), seconds), seconds)

    async def flushed(self, seconds: float) -> None:
        """Flush the processors that are not late, without blocking the event loop."""
        asked = {future: one for future, one in self._ask("force_flush").items() if not one.is_late}
        self._log_late("force_flush", await self._until(asked, seconds), seconds)

    def shut_down(self, seconds: float = SHUTDOWN_SECONDS) -> bool:
        """Shut every processor down after what was reported so far; drop what takes too long."""
        late = self._wait(self._ask("shutdown"), seconds)
        for receiver in late:
            logger.warning(
                "%s is not done %g s after its shutdown began; %d of its calls are dropped",
                receiver.name,
                seconds,
                receiver.lose_waiting(),
            )
        return not late

    def _set(self, receivers: tuple[Receiver, ...]) -> None:
        for receiver in self._all:
            if receiver not in receivers:
                receiver.retire()
        self._all = receivers
        self.active = () if self.is_disabled else receivers

    def _ask(self, method: str) -> Asked:
        return {receiver.ask(method): receiver for receiver in self._all}

    def _unsettled(self) -> Asked:
        if not self._ever or _is_observer_thread():
            return {}
        with self._lock:
            receivers = [receiver for receiver in self._ever if not receiver.is_late]
        asked = {receiver.ask(): receiver for receiver in receivers}
        return {future: one for future, one in asked.items() if not future.done()}

    def _wait(self, asked: Asked, seconds: float) -> list[Receiver]:
        if _is_observer_thread():
            return []  # a processor would wait for itself
        futures.wait(asked, seconds)
        return _late(asked)

    async def _until(self, asked: Asked, seconds: float) -> list[Receiver]:
        if asked:
            await asyncio.wait([asyncio.wrap_future(one) for one in asked], timeout=seconds)
        return _late(asked)

    def _log_late(self, method: str, late: list[Receiver], seconds: float) -> bool:
        for receiver in late:
            logger.warning("%s.%s is not done after %g s", receiver.name, method, seconds)
        return not late

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        for receiver in self._ever:
            receiver.forget()


def _late(asked: Asked) -> list[Receiver]:
    late = [receiver for future, receiver in asked.items() if not future.done()]
    for receiver in late:
        receiver.mark_late()
    return late


REGISTRATION = Registration()
