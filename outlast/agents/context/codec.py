"""Conversion of a run's context between JSON and a callable's typed object.

A context may be a pydantic model, a dataclass, a TypedDict, any JSON value, or an object of a plain
class whose attributes are JSON.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from outlast.agents.callables import implementation
from outlast.agents.context.live import (
    MARKER,
    LiveValues,
    Path,
    live_paths,
    restore,
    split,
)
from outlast.agents.context.plain_objects import is_plain_class, read_attributes, write_attributes
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.loop.changes import Change, diff
from outlast.loop.values import Json

LARGEST_BYTES = 500_000
"""The size limit of a context, because every callable gets a copy of it."""


def read_context(value: Json, context_type: Any, live: Mapping[Path, Any] | None = None) -> Any:
    """Return a callable's copy of the context, with the run's live values in place.

    Args:
        value: the context as JSON.
        context_type: its type.
        live: the live values, by path.

    Raises:
        UserError: the value does not match the type, or a live value is not in this process.
    """
    if next(live_paths(value), None) is not None:
        return restore(value, context_type, live or {}, _read_data)
    return _read_data(value, context_type)


def _read_data(value: Json, context_type: Any) -> Any:
    if value is None and context_type is None:
        return None
    from pydantic import PydanticUserError, ValidationError

    plain_type = typing.get_origin(context_type) or context_type  # dict of dict[str, Any]
    if value is None and isinstance(plain_type, type):
        return _empty(plain_type)
    if is_plain_class(plain_type):
        return read_attributes(value, plain_type)
    try:
        return _validated(_adapter(context_type if context_type is not None else Any), value)
    except ValidationError as error:
        raise UserError(
            f"The run's context does not fit {_name(context_type)}: {error.errors()[0]['msg']} "
            f"at {'.'.join(map(str, error.errors()[0]['loc'])) or 'its root'}. Start the run with "
            "a context of that type, or annotate the callable with the type it gets."
        ) from None
    except PydanticUserError as error:
        if error.code == "typed-dict-version":  # pydantic cannot check typing.TypedDict before 3.12
            return _copy(value)
        raise UserError(
            f"The type {_name(context_type)} cannot be a run's context: {error.message} Use a "
            "pydantic model, a dataclass or plain JSON values."
        ) from None


def write_context(context: Any) -> Json:
    """Return a context as JSON, with markers in place of its live values.

    Raises:
        UserError: the context cannot be written as JSON, or is too large.
    """
    return write_parts(context)[0]


def write_parts(context: Any) -> tuple[Json, LiveValues]:
    """Return a context as JSON, and its live values.

    Raises:
        UserError: the context cannot be written as JSON, or is too large.
    """
    if context is None:
        return None, {}
    from pydantic_core import PydanticSerializationError, from_json, to_json

    found: LiveValues = {}
    try:
        data = to_json(write_attributes(context) if is_plain_class(type(context)) else context)
        is_reserved = f'"{MARKER}"'.encode() in data
    except (PydanticSerializationError, ValueError, UserError):
        parts, found = split(context)
        if is_plain_class(type(context)):
            write_attributes(context, besides={path[0] for path in found if path})
        if () in found:
            raise UserError(
                f"The context of type {type(context).__name__} cannot be written as JSON. Use a "
                "dataclass, a pydantic model, a plain class or a dict, and keep connections and "
                "clients in its fields: they stay in this process."
            ) from None
        data = to_json(parts)
        is_reserved = data.count(f'"{MARKER}"'.encode()) != len(found)
    if is_reserved:
        raise UserError(f"The context has a key {MARKER!r}, which outlast uses. Choose another.")
    if len(data) > LARGEST_BYTES:
        raise UserError(
            f"The context is {len(data):,} bytes of JSON; at most {LARGEST_BYTES:,} travel with a "
            "run. Keep large data in a database and its key in the context."
        )
    return from_json(data), found


class BorrowedContext:
    """A typed context for callables, which reports their changes afterwards.

    Args:
        value: the context as JSON.
        context_type: its type.
        live: the run's live values in this process; updated when a callable replaces one.
        may_add: whether callables may add live values, which only the process that started the
            run allows.
    """

    def __init__(
        self,
        value: Json,
        context_type: Any,
        live: LiveValues | None = None,
        *,
        may_add: bool = False,
    ) -> None:
        self._live: LiveValues = {} if live is None else live
        self._may_add = may_add
        self.context = read_context(value, context_type, self._live)
        self._is_new = value is None
        self.value = write_context(self.context)

    def changes(self, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
        """Return the callables' changes to the context, including a replacement.

        Raises:
            UserError: the changed context cannot be written as JSON.
        """
        after, live = write_parts(wrapper.context)
        added = [path for path in live if path not in self._live]
        if added and not self._may_add:
            name = ".".join(added[0])
            raise UserError(
                f"The context's {name}, a {type(live[added[0]]).__name__} that a callable has "
                "added, cannot be written as JSON, and other workers cannot make it. Put data into "
                "the context, or start the run with such an object there."
            )
        self._live.update(live)
        changes = diff(self.value, after)
        # The run has no context yet, so there is no place to change: send the whole context.
        return diff(None, after) if changes and self._is_new else changes


class LentContext:
    """The object that a program passed as a run's context, and the sent JSON.

    The run works on JSON. When the program gets the run's result, its object is updated in place
    with the run's changes, so that the program can read it and pass it to the next run.
    """

    def __init__(self, owner: Any) -> None:
        """Convert the object and keep the JSON.

        Raises:
            UserError: the object cannot be written as JSON, or is too large.
        """
        self.owner: Any = owner
        self._sent, self.live = write_parts(owner)

    def update(self, value: Json) -> None:
        """Update the object in place, setting only attributes that the run changed.

        Immutable objects, such as a text or a frozen dataclass, stay unchanged.
        """
        if value is None or value == self._sent:  # None: the run has not begun
            return
        sent, self._sent = self._sent, value
        if type(self.owner) in {dict, list}:
            _refill(self.owner, read_context(_copy(value), None, self.live))
            return
        try:
            before = read_context(sent, type(self.owner), self.live)
            after = read_context(value, type(self.owner), self.live)
        except UserError:  # a callable has replaced the context with an object of another type
            return
        for name, new in _attributes(after).items():
            # Skip attributes that are not JSON or cannot be set: frozen fields, read-only properties.
            with suppress(UserError, AttributeError, TypeError, ValueError):
                if write_context(new) != write_context(getattr(before, name, None)):
                    setattr(self.owner, name, new)


def context_type_of(function: Callable[..., Any]) -> Any:
    """Return the type argument of a callable's context parameter, or None.

    For `def instructions(ctx: RunContextWrapper[Customer], agent)` it is `Customer`.
    """
    target = implementation(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(target)
    except (TypeError, ValueError, NameError):
        return None
    if not parameters:
        return None
    annotation = hints.get(parameters[0].name)
    origin = typing.get_origin(annotation) or annotation
    if not (isinstance(origin, type) and issubclass(origin, RunContextWrapper)):
        return None
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments and arguments[0] is not Any else None


@cache
def _adapter(context_type: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(context_type)


def _validated(adapter: Any, value: Json) -> Any:
    """Read a value as its type, accepting None for fields like `note: str = None`.

    Python accepts such defaults, so a written object may hold None there. Leaving the field out
    makes pydantic use the default again.

    Raises:
        ValidationError: the value does not match the type.
    """
    from pydantic import ValidationError

    copied = _copy(value)
    try:
        return adapter.validate_python(copied)
    except ValidationError as error:
        problems = error.errors()
        if all(one["input"] is None and _leave_out(copied, one["loc"]) for one in problems):
            with suppress(ValidationError):
                return adapter.validate_python(copied)
        raise


def _leave_out(value: Any, path: tuple[int | str, ...]) -> bool:
    """Remove the dict entry at a path of keys and indexes; return whether it existed."""
    for step in path[:-1]:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return False
    if not path or not isinstance(value, dict) or path[-1] not in value:
        return False
    del value[path[-1]]
    return True


def _refill(owner: Any, value: Json) -> None:
    """Replace the contents of a dict or list; do nothing if the types differ."""
    if type(value) is type(owner):
        owner.clear()
        fill = owner.update if isinstance(value, dict) else owner.extend
        fill(value)


def _attributes(context: object) -> dict[str, Any]:
    if dataclasses.is_dataclass(context):
        return {field.name: getattr(context, field.name) for field in dataclasses.fields(context)}
    return dict(getattr(context, "__dict__", {}))


def _copy(value: Json) -> Json:
    """Copy plain JSON, so that a callable cannot change the run's data."""
    from pydantic_core import from_json, to_json

    return from_json(to_json(value)) if isinstance(value, dict | list) else value


def _empty(context_type: type) -> Any:
    """Return an empty context, or None if the type needs arguments."""
    try:
        return context_type()
    except (TypeError, ValueError):
        return None


def _name(context_type: Any) -> str:
    return getattr(context_type, "__name__", str(context_type))
