"""The objects that programs bring for their runs, by execution.

A start may bring what is no data: agents, live values of the context, hooks, sessions, providers of
models. They belong to the execution that the start began, and to the runs that are nested in it. A
workflow id says nothing about that: it may be used again, and by another server.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Generator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from outlast.agents.agent import Agent
from outlast.agents.context.live import LiveValues
from outlast.agents.references import RunReferences
from outlast.agents.registry import Registry

MOST_KEPT: Final = 10_000
"""How many runs that nobody awaits keep their objects; beyond it, the oldest wait for a start."""

ENDED_SECONDS: Final = 60.0
"""How long objects outlive their run: the server may not have taken its end."""


class RunKey(NamedTuple):
    """The execution that objects belong to: the first one of a chain, in a namespace."""

    namespace: str
    chain_id: str


@dataclass(eq=False, kw_only=True)
class RunObjects:
    """What one start brought.

    Attributes:
        references: the objects that the run's settings name.
        live: the values of the context that are no data; None if the call brought no context.
        context_type: the class of the context; None for plain JSON.
        definitions: the agents, if the program hosts the run.
        caller: the context variables of the program, if it hosts the run.
        chosen: the agents that handoffs have made, by workflow id and by the names that the run has
            for them: a nested run has its own.
    """

    references: RunReferences = field(default_factory=RunReferences)
    live: LiveValues | None = None
    context_type: type[Any] | None = None
    definitions: Registry | None = None
    caller: Context | None = None
    chosen: dict[str, dict[str, Agent[Any]]] = field(
        default_factory=dict[str, dict[str, Agent[Any]]]
    )
    _views: "WeakKeyDictionary[Registry, dict[str, Registry]]" = field(
        default_factory=WeakKeyDictionary[Registry, dict[str, Registry]], repr=False
    )

    @property
    def is_empty(self) -> bool:
        """Whether the call brought nothing."""
        return self.definitions is None and self.live is None and not self.references.objects

    def view_of(self, registry: Registry, run_id: str) -> Registry:
        """Return a worker's definitions as a run sees them: with its own objects."""
        views = self._views.setdefault(registry, {})
        view = views.get(run_id)
        if view is None:
            chosen = self.chosen.setdefault(run_id, {})
            view = views[run_id] = registry.for_run(self.references, chosen)
            view.add_context_type(self.context_type)
        view.adopt_chosen()
        return view

    def renew(self, newer: "RunObjects") -> None:
        """Take over what another start of the same run brought."""
        self.references.update(newer.references)
        if newer.live is not None:
            self.live, self.context_type = newer.live, newer.context_type
        self.definitions = newer.definitions or self.definitions
        self.caller = newer.caller or self.caller
        self._views.clear()

    def complete(self, other: "RunObjects") -> None:
        """Take over what is missing here, and replace nothing."""
        if self.definitions is None:
            self.definitions, self.caller = other.definitions, other.caller
        self.references.complete(other.references)
        if other.live is not None:
            self.context_type = self.context_type or other.context_type
            self.live = other.live if self.live is None else self.live
            for path, value in other.live.items():
                self.live.setdefault(path, value)
        self._views.clear()


@dataclass(eq=False)
class _Kept:
    objects: RunObjects
    ended_at: float | None = None


class RunObjectTable:
    """The objects of the runs of a process. Safe for any number of threads and event loops."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._kept: OrderedDict[RunKey, _Kept] = OrderedDict()
        self._awaited: Counter[RunKey] = Counter()
        self._ended: OrderedDict[RunKey, None] = OrderedDict()
        self._starting: dict[tuple[str, str], list[Future[None]]] = {}

    @contextmanager
    def starting(self, namespace: str, run_id: str) -> Generator[None]:
        """Announce a start whose execution is not known yet.

        The effects of executions with this id whose objects are not known wait for its end, and so
        do those of runs that are nested in them.
        """
        place, done = (namespace, run_id), Future[None]()
        with self._lock:
            self._starting.setdefault(place, []).append(done)
        try:
            yield
        finally:
            with self._lock:
                self._starting[place].remove(done)
                if not self._starting[place]:
                    del self._starting[place]
            done.set_result(None)

    def bring(self, key: RunKey, objects: RunObjects, *, resumes: bool = False) -> RunObjects:
        """Keep the objects of a start for its execution, and return those that it now has.

        An execution that has objects keeps them while a caller waits for it, and gets what it lacks.
        A caller who `resumes` the run with its state replaces them in any case.
        """
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                kept = self._kept[key] = _Kept(objects)
                if objects.live is None:
                    objects.live = {}  # the run's callables may add some
            elif resumes or not self._awaited[key]:
                kept.objects.renew(objects)
                kept.ended_at = None
            else:
                kept.objects.complete(objects)
            self._forget()
            return kept.objects

    def fill(self, key: RunKey, objects: RunObjects) -> RunObjects:
        """Return the objects of an execution; these fill what it lacks, and replace nothing."""
        with self._lock:
            kept = self._kept.setdefault(key, _Kept(objects))
            kept.objects.complete(objects)
            self._forget()
            return kept.objects

    async def find(self, key: RunKey, run_id: str) -> RunObjects | None:
        """Return the objects of an execution, or None; wait for starts that may have begun it."""
        while True:
            with self._lock:
                kept = self._kept.get(key)
                pending = [
                    one
                    for (namespace, starts), futures in self._starting.items()
                    if namespace == key.namespace and f"{run_id}/".startswith(f"{starts}/")
                    for one in futures
                ]
                if kept is not None:
                    kept.ended_at = None  # it goes on
                    return kept.objects
            if not pending:
                return None
            waiting = [asyncio.wrap_future(one) for one in pending]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)

    def get(self, key: RunKey) -> RunObjects | None:
        """Return the objects of an execution, or None."""
        with self._lock:
            kept = self._kept.get(key)
            return None if kept is None else kept.objects

    def attend(self, key: RunKey) -> None:
        """Keep the objects of an execution while a caller waits for it."""
        with self._lock:
            self._awaited[key] += 1

    def leave(self, key: RunKey, *, ended: bool = False) -> None:
        """End a caller's wait. An execution that has `ended` needs its objects no more."""
        with self._lock:
            self._awaited[key] -= 1
            if self._awaited[key] <= 0:
                del self._awaited[key]
            if ended:
                self._kept.pop(key, None)
            elif key in self._kept:
                self._kept.move_to_end(key)
                self._forget()

    def has_ended(self, key: RunKey) -> None:
        """Note that an execution's workflow has ended, which the server may not have taken."""
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                kept.ended_at = time.monotonic()
                self._ended[key] = None

    @property
    def is_empty(self) -> bool:
        """Whether no run of this process has or gets objects."""
        return not self._kept and not self._starting

    def _forget(self) -> None:
        """Drop the objects of runs that have ended, and of the oldest that nobody awaits."""
        now = time.monotonic()
        for key in list(self._ended):
            kept = self._kept.get(key)
            if kept is not None and kept.ended_at is not None:
                if now - kept.ended_at < ENDED_SECONDS:
                    break
                if not self._awaited[key]:
                    del self._kept[key]
            del self._ended[key]
        excess = len(self._kept) - len(self._awaited) - MOST_KEPT
        if excess > 0:
            oldest = (key for key in self._kept if key not in self._awaited)
            for key in [key for key, _ in zip(oldest, range(excess), strict=False)]:
                del self._kept[key]


RUN_OBJECTS: Final = RunObjectTable()
"""The objects of the runs that this process started."""
