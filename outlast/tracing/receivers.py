"""The trace processors of this process, isolated so that none disturbs a run."""

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from outlast.agents.logs import get_logger

logger = get_logger(__name__)

DISABLING_VARIABLES = ("OUTLAST_DISABLE_TRACING", "OPENAI_AGENTS_DISABLE_TRACING")
"""Environment variables that disable tracing with `1` or `true`; the first one set counts."""


MOST_WAITING = 100_000
"""The maximum number of queued reports; further ones are dropped to bound memory."""


class Backlog:
    """A queue of reports from workflows, which must not wait for a processor.

    A background thread delivers the reports. A direct report first delivers the queued ones, so
    processors receive everything in order.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._news: SimpleQueue[None] = SimpleQueue()
        self._lock = threading.RLock()
        self._is_delivering = False
        self._has_dropped = False
        self._thread: threading.Thread | None = None

    def add(self, call: Callable[[], None]) -> None:
        """Queue a report and return immediately; drop it if the queue is full."""
        if len(self._waiting) >= MOST_WAITING:
            if not self._has_dropped:
                logger.warning("Processors of traces are too slow; some spans are dropped")
            self._has_dropped = True
            return
        self._waiting.append(call)
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="outlast-spans", daemon=True)
            self._thread.start()
        self._news.put(None)

    def settle(self) -> None:
        """Deliver all queued reports."""
        with self._lock:
            if self._is_delivering:
                return  # called from a processor that reports a span itself
            self._is_delivering = True
            try:
                while self._waiting:
                    _deliver(self._waiting.popleft())
            finally:
                self._is_delivering = False

    def _work(self) -> None:
        while True:
            self._news.get()
            self.settle()


def _deliver(report: Callable[[], None]) -> None:
    try:
        report()
    except Exception:
        logger.exception("a trace processor failed")


BACKLOG = Backlog()


class Receiver:
    """A registered processor; its exceptions never reach the caller."""

    __slots__ = ("_is_faulty", "processor")

    def __init__(self, processor: object) -> None:
        self.processor = processor
        self._is_faulty = False

    def call(self, method: str, *arguments: object) -> None:
        """Call a method of the processor; log its first exception and ignore later ones."""
        BACKLOG.settle()
        try:
            getattr(self.processor, method)(*arguments)
        except Exception:
            if not self._is_faulty:
                self._is_faulty = True
                name = type(self.processor).__name__
                logger.exception("%s.%s failed; its further errors are not logged", name, method)


Receivers: TypeAlias = tuple[Receiver, ...]


class Registration:
    """The registered processors of this process.

    Attributes:
        active: the processors to call; empty while tracing is disabled.
    """

    def __init__(self) -> None:
        self.active: Receivers = ()
        self._all: Receivers = ()
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

    def add(self, processors: Sequence[object], *, replace: bool = False) -> None:
        """Register processors, in addition to the present ones or instead of them."""
        BACKLOG.settle()
        with self._lock:
            kept = () if replace else self._all
            self._all = (*kept, *(Receiver(processor) for processor in processors))
            self.active = () if self.is_disabled else self._all
            if not self._ends_with_process:
                self._ends_with_process = True
                atexit.register(self.tell_all, "shutdown")

    def remove(self, processor: object) -> None:
        """Unregister a processor; it receives no trace or span that starts later."""
        BACKLOG.settle()
        with self._lock:
            self._all = tuple(one for one in self._all if one.processor is not processor)
            self.active = () if self.is_disabled else self._all

    def disable(self, disabled: bool) -> None:  # noqa: FBT001  the one argument
        """Disable tracing, or enable it again."""
        BACKLOG.settle()
        with self._lock:
            self._is_disabled = disabled
            self.active = () if disabled else self._all

    def tell_all(self, method: str) -> None:
        """Call a method of every registered processor, even while tracing is disabled."""
        BACKLOG.settle()
        for receiver in self._all:
            receiver.call(method)


REGISTRATION = Registration()
