"""References: the names of callables and objects in the settings of runs.

A run's settings hold only names, so that they survive the process that defined the objects.

A function or class at the top of a module is named `module:qualname`, which means the same object
in every process that imports the module. Everything else (a closure, a lambda, an instance) belongs
to the run that it was passed to, and its name begins with `run:`. Two runs may use one such name
for two objects, so the name is only looked up among the objects of its own run.
"""

import inspect
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from outlast.agents.callables import unwrap_partial
from outlast.agents.checks import check_name
from outlast.agents.errors import UserError
from outlast.agents.json_values import is_mapping

OWN: Final = "run:"
"""The beginning of the names of objects that belong to one run."""


class ReferenceTable:
    """A table of names and objects. Safe for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, Any] = {}

    def register_as(self, name: str, entry: object) -> None:
        """Register an object under a chosen name."""
        check_name("A reference's name", name)
        if name.startswith(OWN):
            raise UserError(
                f"The name {name!r} begins like those of objects that belong to one run. Choose "
                "another: references={'my_name': my_object}."
            )
        with self._lock:
            existing = self._found.get(name)
            if name in self._found and _identity(existing) != _identity(entry):
                raise UserError(
                    f"The name {name!r} belongs to two objects: {existing!r} and {entry!r}. Give each "
                    "its own name: references={'my_name': my_object}."
                )
            self._found[name] = entry

    def discard(self, name: str) -> None:
        """Remove a name."""
        with self._lock:
            self._found.pop(name, None)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the object with a name, or the default."""
        with self._lock:
            return self._found.get(name, default)

    def __contains__(self, name: object) -> bool:
        with self._lock:
            return name in self._found


_importable = ReferenceTable()
"""The functions and classes at the top of modules that this process has passed to runs."""

_redefined: set[str] = set()
"""Names that a module has given to one function after the other, as a notebook does."""


class RunReferences:
    """The objects that one run's settings name: those that its start brought.

    Within a run, a second object with the same name is `name#2`, a third `name#3`.

    Attributes:
        objects: the objects by name.
        names: the names by the identity of the object.
    """

    def __init__(self) -> None:
        self.objects: dict[str, object] = {}
        self.names: dict[object, str] = {}

    def name(self, entry: object, place: str = "") -> str:
        """Return the name of an object, and keep the object under it.

        `place` tells the definitions of a run apart that name objects.
        """
        existing = self.names.get(_identity(entry))
        if existing is not None:
            return existing
        name = importable_name(entry)
        if name is not None:
            _share(name, entry)
        else:
            name = base = f"{OWN}{place}{base_name(entry)}"
            count = 1
            while name in self.objects:
                count += 1
                name = f"{base}#{count}"
        self.objects[name], self.names[_identity(entry)] = entry, name
        return name

    def update(self, other: "RunReferences") -> None:
        """Take over the objects of another start of the same run."""
        self.objects.update(other.objects)
        self.names = {_identity(entry): name for name, entry in self.objects.items()}

    def complete(self, other: "RunReferences") -> None:
        """Take over the objects whose names mean nothing here yet."""
        for name, entry in other.objects.items():
            if self.objects.setdefault(name, entry) is entry:
                self.names[_identity(entry)] = name

    @property
    def own_names(self) -> list[str]:
        """The names that mean nothing outside of the run, in the program's words."""
        return [name.removeprefix(OWN) for name in self.objects if name.startswith(OWN)]

    def __contains__(self, name: object) -> bool:
        return name in self.objects

    def __getitem__(self, name: str) -> Any:
        return self.objects[name]


def importable_name(entry: object) -> str | None:
    """Return the name under which every process that imports its module has this very object."""
    name = base_name(entry)
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    for step in qualname.split("."):
        found = getattr(found, step, None)
    is_method_of_class = inspect.ismethod(entry) and found == entry
    return name if found is entry or is_method_of_class else None


def _share(name: str, entry: object) -> None:
    if name in _redefined:
        return
    try:
        _importable.register_as(name, entry)
    except UserError:  # the module has given its name to another function since
        _redefined.add(name)
        _importable.discard(name)


def resolve(name: str) -> Any:
    """Return the importable object with a name that a program of this process has passed."""
    if name not in _importable:
        raise unknown_reference(name)
    return _importable.get(name)


def is_registered(name: str) -> bool:
    """Whether a program of this process has passed the importable object with a name."""
    return name in _importable


def unknown_reference(name: object) -> UserError:
    """Return the error for an unknown name."""
    if isinstance(name, str) and name.startswith(OWN):
        return UserError(
            f"The run uses an object that its program passed, {name.removeprefix(OWN)!r}, and this "
            "process does not have it. It is in the process that started the run; if that has "
            "ended, start the run again there, with the same id and input. A worker elsewhere "
            "needs it under a name: references={'my_name': my_object}, and the program passes "
            "'my_name'."
        )
    return UserError(
        f"This worker has no object named {name!r}, which the run refers to. A worker gets it with "
        "references=[my_callable], or under a name of its own with references={'my_name': "
        "my_callable}; a program that hosts its own runs, by passing it to Runner again."
    )


def named_references(
    references: Iterable[object] | Mapping[str, object],
) -> list[tuple[str, object]]:
    """Return the names and objects of `references=`, a list or a dict by name."""
    if is_mapping(references):
        return [(name, _check(entry)) for name, entry in references.items()]
    if isinstance(references, str) or not isinstance(cast("object", references), Iterable):
        raise UserError(
            "references= must be a list of callables and objects, or a dict of them by name, "
            f"not {references!r}."
        )
    return [(_importable_name(_check(entry)), entry) for entry in references]


def _importable_name(entry: object) -> str:
    name = importable_name(entry)
    if name is None:
        raise UserError(
            f"references= lists {entry!r}, which has no name that another process knows: only "
            "functions and classes at the top of a module have one. Name it yourself: "
            "references={'my_name': my_object}, and pass 'my_name' to Runner."
        )
    return name


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
