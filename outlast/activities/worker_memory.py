"""What a worker remembers between effects; losing it costs time, and never a result.

One `WorkerMemory` belongs to each worker and is handed down in `WorkerDeps`.
"""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from operator import is_
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, ref

from outlast.agents.items.raw_items import ItemKey
from outlast.edges.newest import keep_newest
from outlast.loop.calls import ToolResult
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.ports.notifier import Notifier

T = TypeVar("T")


# --- Items of conversations ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Entry(Generic[T]):
    """A result about items; the last of them is referenced weakly."""

    before: Sequence[Item]
    last: ref[Item]
    result: T


class PrefixCache(Generic[T]):
    """Maps the first items of each conversation to a result about them.

    Items never change, and between two model calls a conversation only grows, so a turn examines
    only its new items. An entry is dropped when the last of its items is freed, which the run's
    workflow, or the run in memory, holds. So the cache keeps no conversation alive.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry[T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: str, items: Sequence[Item]) -> tuple[int, T] | None:
        """Return the number of first items with a result, and the result; None if there is none.

        Only the same objects count, not equal ones.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        at = len(entry.before)
        last = entry.last()
        is_prefix = last is not None and at < len(items) and items[at] is last
        if not is_prefix or not all(map(is_, entry.before, items)):
            return None
        return at + 1, entry.result

    def keep(self, key: str, items: Sequence[Item], result: T) -> None:
        """Keep a result about all of these items."""
        if items:
            last = ref(items[-1], partial(self._drop, key))
            self._entries[key] = _Entry(items[:-1], last, result)

    def _drop(self, key: str, last: ref[Item]) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.last is last:
            del self._entries[key]


@dataclass(frozen=True, slots=True)
class SentInput:
    """The input of the first items of a conversation.

    Attributes:
        input: the items as they were sent.
        keys: the keys of calls and outputs; a later item with one of them changes the input.
    """

    input: Sequence[JsonObject] = ()
    keys: frozenset[ItemKey] = frozenset()


# --- Calls ---------------------------------------------------------------------------------------


MOST_JUDGED: Final = 10_000
"""How many calls a worker remembers; others are judged again."""

JudgedCall: TypeAlias = tuple[str, str, str, str, str]
"""An execution in the server's words, the agent, the tool, the call's id and its arguments."""


class JudgedCalls:
    """The calls for which nobody needs to be asked, so that users' predicates are not called again.

    A call is judged where the reply is planned, and again where it takes effect. A worker believes
    what it has found out itself, and nothing that a run says.
    """

    def __init__(self) -> None:
        self._free: OrderedDict[JudgedCall, None] = OrderedDict()

    def keep(self, call: JudgedCall) -> None:
        """Remember that nobody needs to be asked about a call."""
        keep_newest(self._free, call, None, MOST_JUDGED)

    def is_free(self, call: JudgedCall) -> bool:
        """Whether this worker has found that nobody needs to be asked about a call."""
        return call in self._free


SHORT: Final = timedelta(milliseconds=100)
"""The longest call that counts as short."""

SHORT_OUTPUT: Final = 20_000
"""The longest output of a short call, in characters."""

SHORT_CALLS: Final = 3
"""How many short calls in a row make a tool short."""

LONGEST_BRIEF: Final = timedelta(seconds=1)
"""How long a call of a short tool may take before it is repeated as an activity."""


class ToolTimes:
    """Counts the short calls of tools in a row.

    A tool that only reads, and whose calls are short, needs no activity of its own: a local activity
    saves most of a call's history and time. The plan of each reply records the choice, so it is
    the same in every replay.
    """

    def __init__(self) -> None:
        self._short_calls: dict[str, int] = {}

    def record(self, name: str, seconds: float, result: ToolResult | None) -> None:
        """Record a call; a long, failed or large one ends the row of short calls."""
        is_short = (
            seconds <= SHORT.total_seconds()
            and result is not None
            and isinstance(result.output, str)
            and len(result.output) <= SHORT_OUTPUT
            and not result.changes
        )
        self._short_calls[name] = self._short_calls.get(name, 0) + 1 if is_short else 0

    def is_short(self, name: str) -> bool:
        """Whether the latest calls of a tool were short."""
        return self._short_calls.get(name, 0) >= SHORT_CALLS


LATE_SECONDS: Final = 2.0
"""From which duration on a result is kept; its workflow task may be lost."""

MOST_LATE: Final = 100
"""How many results a process keeps; each has at most 300 kB."""

LATE_KEPT_SECONDS: Final = 600.0
"""How long a result is kept."""

LocalCall: TypeAlias = tuple[str, str, str]
"""The run id of a workflow, and the id and the type of its activity."""


class LateResults:
    """Results of local activities that a workflow task may have lost. Thread-safe.

    A local activity runs inside a workflow task, which the server gives up after ten seconds. A
    call that blocks the event loop for longer has its result when the server no longer waits: the
    next task asks for the same call, which would block the loop again, and so on. So the next
    attempt of the same call gets the result that came late.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[LocalCall, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: LocalCall) -> bytes | None:
        """Return the late result of an earlier attempt as JSON text; it stays for the next attempt."""
        with self._lock:
            kept_at, result = self._kept.get(key, (0.0, None))
            return result if time.monotonic() - kept_at <= LATE_KEPT_SECONDS else None

    def keep(self, key: LocalCall, result: bytes, seconds: float) -> None:
        """Keep the result of a call that took so many seconds, if that is late."""
        if seconds < LATE_SECONDS:
            return
        now = time.monotonic()
        with self._lock:
            self._kept[key] = (now, result)
            self._kept.move_to_end(key)
            while (
                len(self._kept) > MOST_LATE
                or now - next(iter(self._kept.values()))[0] > LATE_KEPT_SECONDS
            ):
                self._kept.popitem(last=False)


# --- Notifications -------------------------------------------------------------------------------


MOST_DELIVERIES: Final = 1_000
"""How many deliveries of a notifier a worker knows."""


class Deliveries:
    """The deliveries of a worker, so that none is made twice at the same time or in a row.

    The end of a run stops the activity that delivers its notices, and a workflow that outlives the
    run delivers them again. If one worker makes both, the second waits for the first.
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[Notifier, dict[str, asyncio.Task[None]]] = WeakKeyDictionary()

    async def once(
        self, notifier: Notifier, message_id: str, deliver: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Deliver a message, or wait for its delivery; a failed one is made again.

        Raises:
            Exception: the delivery failed.
        """
        made = self._made.setdefault(notifier, {})
        task = made.get(message_id)
        here = asyncio.get_running_loop()
        if task is not None and (task.get_loop() is not here or _has_failed(task)):
            task = None
        if task is None:
            task = made[message_id] = asyncio.ensure_future(deliver())
            while len(made) > MOST_DELIVERIES:
                del made[next(iter(made))]
        await asyncio.shield(task)


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


@dataclass(eq=False)
class WorkerMemory:
    """What one worker remembers.

    Attributes:
        plain: the first items of conversations that have no content in the blob store.
        sent: the input of earlier turns, as the provider got it.
    """

    plain: PrefixCache[None] = field(default_factory=PrefixCache[None])
    sent: PrefixCache[SentInput] = field(default_factory=PrefixCache[SentInput])
    judged: JudgedCalls = field(default_factory=JudgedCalls)
    tool_times: ToolTimes = field(default_factory=ToolTimes)
    late_results: LateResults = field(default_factory=LateResults)
    deliveries: Deliveries = field(default_factory=Deliveries)
