"""Live values of a context: objects that are not data, such as a database pool.

The state of a run holds data only, with a marker such as `{"$live": "Pool"}` in place of each live
value. The object stays in its process and is put back at its path when a callable gets the context.
"""

import dataclasses
import typing
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Final, TypeAlias, cast

from outlast.agents.context.plain_objects import is_plain_class
from outlast.agents.errors import UserError
from outlast.loop.values import Json, JsonObject

MARKER: Final = "$live"
"""The only key of a marker, with the name of the live value's type."""

DEEPEST: Final = 30
"""The depth limit: a container nested deeper is one live value as a whole."""

KEPT_RUNS: Final = 1_000
"""The live values of this many runs are kept; the oldest are dropped first."""

Path: TypeAlias = tuple[str, ...]
"""The fields and keys that lead to a live value."""

LiveValues: TypeAlias = dict[Path, Any]


def split(context: Any) -> tuple[Any, LiveValues]:
    """Return a context with markers in place of its live values, and the live values.

    A field of a dataclass or pydantic model, an attribute of a plain class or the value of a dict
    is live if it cannot be written as JSON and is not such a container itself.

    Raises:
        UserError: a text or a number cannot be written as JSON.
    """
    found: LiveValues = {}
    return _split(context, (), found), found


def live_paths(value: Json) -> Iterator[tuple[Path, str]]:
    """Yield the path and the type name of each marker in a context's JSON."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        if _is_marker(fields):
            yield (), str(fields[MARKER])
            return
        for name, inner in fields.items():
            if isinstance(inner, dict):
                for path, kind in live_paths(inner):
                    yield (name, *path), kind


def without_live(value: Json) -> Json:
    """Return a context's JSON without its markers."""
    if not isinstance(value, dict):
        return value
    return {
        name: without_live(inner)
        for name, inner in cast("JsonObject", value).items()
        if not _is_marker(inner)
    }


def restore(
    value: Json,
    hint: Any,
    live: Mapping[Path, Any],
    read_data: "typing.Callable[[Json, Any], Any]",
    path: Path = (),
) -> Any:
    """Return a context with its live values in place.

    Args:
        value: the JSON of the context, or of a part of it.
        hint: the type of the value.
        live: the live values, by path.
        read_data: converts JSON without live values to a type.
        path: the place of the value in the context.

    Raises:
        UserError: a live value is not in this process. The message names the value.
    """
    if _is_marker(value):
        if path not in live:
            raise UserError(absent([(path, str(cast("JsonObject", value)[MARKER]))]))
        return live[path]
    if next(live_paths(value), None) is None:
        return read_data(value, hint)
    kind = _container(hint)
    hints = _hints(kind)
    values = {
        name: restore(inner, hints.get(name, Any), live, read_data, (*path, name))
        for name, inner in cast("JsonObject", value).items()
    }
    return values if kind is None else _made(kind, values)


def absent(missing: list[tuple[Path, str]]) -> str:
    """Return the error message for live values that this process does not have."""
    names = ", ".join(f"{'.'.join(path)} ({kind})" for path, kind in missing)
    field = missing[0][0][0]
    return (
        f"The context's {names} cannot travel with the run, and this process does not have it. "
        f"Tell workers how to make it: AgentWorker(..., context={{{field!r}: make_it}}), or "
        "context=make_context, called with the data of the context."
    )


class LiveContexts:
    """The live values of a process's runs, by run id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, LiveValues] = OrderedDict()

    def keep(self, run_id: str, values: LiveValues) -> LiveValues:
        """Keep the live values of a run, replacing earlier ones."""
        self._runs.pop(run_id, None)
        self._runs[run_id] = values
        while len(self._runs) > KEPT_RUNS:
            self._runs.popitem(last=False)
        return values

    def of_run(self, run_id: str) -> LiveValues | None:
        """Return the live values of a run or of its nearest outer run, or None."""
        within = run_id
        while within:
            if within in self._runs:
                return self._runs[within]
            within = within.rpartition("/")[0]
        return None


LIVE_CONTEXTS: Final = LiveContexts()
"""The live values of runs that this process started or its workers served."""


def _split(value: Any, path: Path, found: LiveValues) -> Any:
    if _is_data(value):
        return value
    parts = _parts(value, path) if len(path) < DEEPEST else None
    if isinstance(value, str | bytes | int | float):
        place = f"The context's {'.'.join(path)}" if path else "The context"
        raise UserError(f"{place}, {value!r:.60}, cannot be written as JSON.")
    if parts is None:
        found[path] = value
        return {MARKER: type(value).__name__}
    return {name: _split(inner, (*path, name), found) for name, inner in parts.items()}


def _is_data(value: Any) -> bool:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        to_json(value)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return False
    return True


def _parts(value: Any, path: Path) -> dict[str, Any] | None:
    """Return the named values of a container; None for any other value."""
    if isinstance(value, type):
        return None
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        return entries if all(type(name) is str for name in entries) else None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    kind = cast("type[Any]", type(value))
    fields: dict[str, Any] | None = getattr(kind, "model_fields", None)
    if fields is not None:
        extra: dict[str, Any] = getattr(value, "model_extra", None) or {}
        return {name: getattr(value, name) for name in [*fields, *extra]}
    if path or not is_plain_class(kind):
        return None
    return {**vars(value)} or None


def _is_marker(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    fields = cast("JsonObject", value)
    return len(fields) == 1 and isinstance(fields.get(MARKER), str)


def _container(hint: Any) -> type[Any] | None:
    """Return the class with named values that a type hint refers to; None for a dict."""
    if typing.get_origin(hint) in {typing.Union, UnionType}:
        kinds = (_container(one) for one in typing.get_args(hint))
        return next((kind for kind in kinds if kind is not None), None)
    kind: Any = typing.get_origin(hint) or hint
    if not isinstance(kind, type) or typing.is_typeddict(kind):
        return None
    named = cast("type[Any]", kind)
    has_fields = dataclasses.is_dataclass(named) or hasattr(named, "model_fields")
    return named if has_fields or is_plain_class(named) else None


def _hints(kind: type[Any] | None) -> dict[str, Any]:
    if kind is None:
        return {}
    try:
        return typing.get_type_hints(kind)
    except (NameError, TypeError):  # an annotation for type checkers only
        return {}


def _made(kind: type[Any], values: dict[str, Any]) -> Any:
    """Return an object with these values, without calling its `__init__`."""
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**values)
    made: Any = object.__new__(kind)
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.name in values:
                object.__setattr__(made, field.name, values[field.name])
            elif field.default is not dataclasses.MISSING:
                object.__setattr__(made, field.name, field.default)
            elif field.default_factory is not dataclasses.MISSING:
                object.__setattr__(made, field.name, field.default_factory())
    else:
        made.__dict__.update(values)
    return made
