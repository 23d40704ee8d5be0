"""References: the names under which callables and objects travel.

Owns: how such a name is made, and the table of this process. A run's settings hold names only, so
that they survive the process that defined what they stand for. Must not know: what is named.

A name is `module:qualname`. What a function makes each time it is called (a lambda, a closure)
has its line added, because several of one name are likely; an object stands under its class. A
second thing of the same name is `name#2`, a third `name#3`, in the order in which they come.
"""

import inspect
import threading
from collections.abc import Iterable, Mapping
from typing import Any, cast

from outlast.agents.callables import unwrap_partial
from outlast.agents.checks import check_name
from outlast.agents.errors import UserError


class ReferenceTable:
    """Names and what they stand for. Safe for any number of threads.

    It keeps what it holds alive: a name stays good for as long as the table. So define what a
    run refers to once, and not anew for every run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._names: dict[object, str] = {}

    def name_for(self, entry: object) -> str:
        """Return the name that a thing has here, or would be given next."""
        with self._lock:
            return self._name_for(entry)

    def register(self, entry: object) -> str:
        """Enter a thing under its name, unless it is there, and return the name."""
        with self._lock:
            name = self._name_for(entry)
            self._found[name] = entry
            self._names.setdefault(_identity(entry), name)
            return name

    def register_as(self, name: str, entry: object) -> None:
        """Enter a thing under a name that was chosen for it.

        Raises:
            UserError: the name is no name, or stands for something else.
        """
        check_name("A reference's name", name)
        with self._lock:
            known = self._found.get(name)
            if name in self._found and _identity(known) != _identity(entry):
                raise UserError(
                    f"The name {name!r} stands for two things: {known!r} and {entry!r}. Give each "
                    "a name of its own: references={'my_name': my_object}."
                )
            self._found[name] = entry
            self._names.setdefault(_identity(entry), name)

    def renew(self, name: str, entry: object) -> None:
        """Enter a thing under a name, in the place of what the name stood for."""
        with self._lock:
            self._found[name] = entry

    def get(self, name: str, default: Any = None) -> Any:
        """Return what a name stands for, or the default."""
        with self._lock:
            return self._found.get(name, default)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._found

    @property
    def names(self) -> list[str]:
        """All names, sorted."""
        with self._lock:
            return sorted(self._found)

    def _name_for(self, entry: object) -> str:
        known = self._names.get(_identity(entry))
        if known is not None:
            return known
        name = base = base_name(entry)
        count = 1
        while name in self._found:
            count += 1
            name = f"{base}#{count}"
        return name


_process = ReferenceTable()


def reference_of(entry: object) -> str:
    """Return the name under which a thing travels from this process.

    It is the name that the process table has for it, or would give it: `register` makes sure
    that it resolves.
    """
    return _process.name_for(entry)


def register(entry: object) -> str:
    """Enter a thing into the table of this process and return its name."""
    return _process.register(entry)


def register_session(session: Any) -> tuple[str, str]:
    """Enter a session into the table of this process: the newest object of its id is the session.

    Returns:
        The name of this session, and that of its kind: a worker elsewhere may know how to make one.
    """
    kind = base_name(session)
    name = f"{kind}/{session.session_id}"
    _process.renew(name, session)
    return name, kind


def resolve(name: str) -> Any:
    """Return what a name stands for in this process.

    Raises:
        UserError: nothing here has this name.
    """
    if name not in _process:
        raise unknown_reference(name)
    return _process.get(name)


def is_registered(name: str) -> bool:
    """Say whether a name stands for something in this process."""
    return name in _process


def unknown_reference(name: object) -> UserError:
    """Return the error for a name that stands for nothing."""
    return UserError(
        f"This worker knows nothing named {name!r}, which the run refers to. Register it where the "
        "worker is made: AgentWorker(references=[my_callable]), or under a name of its own: "
        "AgentWorker(references={'my_name': my_callable})."
    )


def named_references(given: Iterable[object] | Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the names and things of `references=`: a list of things, or a dict by name.

    Raises:
        UserError: it is neither, or holds a name without a thing, or the same name twice.
    """
    if isinstance(given, Mapping):
        named = cast("Mapping[str, object]", given)
        return [(name, _checked(entry)) for name, entry in named.items()]
    if isinstance(given, str) or not isinstance(cast("object", given), Iterable):
        raise UserError(
            "references= is a list of callables and objects, or a dict of them by name, "
            f"not {given!r}."
        )
    named = [(base_name(_checked(entry)), entry) for entry in given]
    for position, (name, entry) in enumerate(named):
        for other_name, other in named[:position]:
            if name == other_name and _identity(entry) != _identity(other):
                raise UserError(
                    f"Two references are named {name!r}. Name them yourself: "
                    "references={'my_name': my_object}."
                )
    return named


def _checked(entry: object) -> object:
    if entry is None or isinstance(entry, str | bytes | int | float):
        raise UserError(
            f"references= holds {entry!r}: give the callable or object itself, or a dict of them "
            "by name."
        )
    return entry


def base_name(entry: object) -> str:
    """Return the name of a thing, as if there were no other of that name."""
    inner: Any = unwrap_partial(cast("Any", entry))
    # A guardrail is known by what it checks: all of them have the same class.
    inner = unwrap_partial(getattr(inner, "guardrail_function", inner))
    has_name = isinstance(getattr(inner, "__qualname__", None), str)
    named: Any = inner if has_name else cast("Any", type(inner))
    module = getattr(named, "__module__", None) or type(inner).__module__
    name = f"{module}:{named.__qualname__}"
    return f"{name}:{line}" if (line := _line_of(named)) is not None else name


def _line_of(function: Any) -> int | None:
    """Return the line of a function that is made anew by whatever surrounds it, else None."""
    if "<" not in function.__qualname__:  # neither `<lambda>` nor `<locals>`
        return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    return getattr(code, "co_firstlineno", None)


def _identity(entry: object) -> object:
    """Return what tells one thing from another. A bound method is made anew at each look."""
    if inspect.ismethod(entry):
        return ("method", id(entry.__self__), id(entry.__func__))
    return id(entry)
