"""References: the names of callables and objects in the settings of runs.

A run's settings hold only names, so that they survive the process that defined the objects.

A name is `module:qualname`. The name of a function that is created at each call (a lambda, a
closure) ends with its line number, because several may share a name; an object has the name of its
class. A second object with the same name is `name#2`, a third `name#3`, in order of registration.
"""

import inspect
import threading
from collections.abc import Iterable, Mapping
from typing import Any, cast

from outlast.agents.callables import unwrap_partial
from outlast.agents.checks import check_name
from outlast.agents.errors import UserError


class ReferenceTable:
    """A table of names and objects. Safe for any number of threads.

    The table keeps its objects alive, so that a name stays valid. Therefore, define the objects of
    runs once, and not again for every run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}
        self._names: dict[object, str] = {}

    def register(self, entry: object) -> str:
        """Register an object under its own name, unless it is registered; return the name."""
        with self._lock:
            name = self._name_for(entry)
            self._found[name] = entry
            self._names.setdefault(_identity(entry), name)
            return name

    def register_as(self, name: str, entry: object) -> None:
        """Register an object under a chosen name."""
        check_name("A reference's name", name)
        with self._lock:
            existing = self._found.get(name)
            if name in self._found and _identity(existing) != _identity(entry):
                raise UserError(
                    f"The name {name!r} belongs to two objects: {existing!r} and {entry!r}. Give each "
                    "its own name: references={'my_name': my_object}."
                )
            self._found[name] = entry
            self._names.setdefault(_identity(entry), name)

    def renew(self, name: str, entry: object) -> None:
        """Register an object under a name, replacing the earlier object."""
        with self._lock:
            self._found[name] = entry

    def get(self, name: str, default: Any = None) -> Any:
        """Return the object with a name, or the default."""
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
        existing = self._names.get(_identity(entry))
        if existing is not None:
            return existing
        name = base = base_name(entry)
        count = 1
        while name in self._found:
            count += 1
            name = f"{base}#{count}"
        return name


_process = ReferenceTable()


def register(entry: object) -> str:
    """Register an object in this process and return its name."""
    return _process.register(entry)


def register_session(session: Any) -> tuple[str, str]:
    """Register a session in this process, replacing an earlier one with its id.

    Returns the name of this session, and that of its class, for which a worker may have a factory.
    """
    kind = base_name(session)
    name = f"{kind}/{session.session_id}"
    _process.renew(name, session)
    return name, kind


def resolve(name: str) -> Any:
    """Return the object with a name in this process."""
    if name not in _process:
        raise unknown_reference(name)
    return _process.get(name)


def is_registered(name: str) -> bool:
    """Whether an object in this process has a name."""
    return name in _process


def unknown_reference(name: object) -> UserError:
    """Return the error for an unknown name."""
    return UserError(
        f"This worker has no object named {name!r}, which the run refers to. A worker gets it with "
        "references=[my_callable], or under a name of its own with references={'my_name': "
        "my_callable}; a program that hosts its own runs, by passing it to Runner again."
    )


def named_references(
    references: Iterable[object] | Mapping[str, object],
) -> list[tuple[str, object]]:
    """Return the names and objects of `references=`, a list or a dict by name."""
    if isinstance(references, Mapping):
        named = cast("Mapping[str, object]", references)
        return [(name, _check(entry)) for name, entry in named.items()]
    if isinstance(references, str) or not isinstance(cast("object", references), Iterable):
        raise UserError(
            "references= must be a list of callables and objects, or a dict of them by name, "
            f"not {references!r}."
        )
    named = [(base_name(_check(entry)), entry) for entry in references]
    for position, (name, entry) in enumerate(named):
        for other_name, other in named[:position]:
            if name == other_name and _identity(entry) != _identity(other):
                raise UserError(
                    f"Two references are named {name!r}. Name them yourself: "
                    "references={'my_name': my_object}."
                )
    return named


def _check(entry: object) -> object:
    if entry is None or isinstance(entry, str | bytes | int | float):
        raise UserError(
            f"references= holds {entry!r}: pass the callable or object itself, or a dict of them "
            "by name."
        )
    return entry


def base_name(entry: object) -> str:
    """Return the name of an object without a number."""
    inner: Any = unwrap_partial(cast("Any", entry))
    # A guardrail is named for its function: all guardrails have the same class.
    inner = unwrap_partial(getattr(inner, "guardrail_function", inner))
    has_name = isinstance(getattr(inner, "__qualname__", None), str)
    named: Any = inner if has_name else cast("Any", type(inner))
    module = getattr(named, "__module__", None) or type(inner).__module__
    name = f"{module}:{named.__qualname__}"
    return f"{name}:{line}" if (line := _line_of(named)) is not None else name


def _line_of(function: Any) -> int | None:
    if "<" not in function.__qualname__:  # neither `<lambda>` nor `<locals>`
        return None
    code = getattr(inspect.unwrap(function), "__code__", None)
    return getattr(code, "co_firstlineno", None)


def _identity(entry: object) -> object:
    if inspect.ismethod(entry):  # created again at each access
        return ("method", id(entry.__self__), id(entry.__func__))
    return id(entry)
