"""The run's context between its two forms: JSON in the run, a typed object in a callable.

Owns: reading, writing, and finding out what a callable changed. Pydantic does the work, so a
context may be a pydantic model, a dataclass, a TypedDict or any JSON value.
"""

import inspect
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

from outlast.agents.callables import implementation
from outlast.agents.context import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.loop.changes import Change, diff
from outlast.loop.values import Json

LARGEST_BYTES = 500_000
"""A context is copied to every callable; one larger than this belongs into a database."""


def read_context(value: Json, context_type: Any) -> Any:
    """Return the context as a callable sees it: its own copy.

    Raises:
        UserError: the value does not fit the type.
    """
    from pydantic import PydanticUserError, ValidationError

    plain_type = typing.get_origin(context_type) or context_type  # dict of dict[str, Any]
    if value is None and isinstance(plain_type, type):
        return _empty(plain_type)
    try:
        return _adapter(context_type if context_type is not None else Any).validate_python(
            _copy(value)
        )
    except ValidationError as error:
        raise UserError(
            f"The run's context does not fit {_name(context_type)}: {error.errors()[0]['msg']} "
            f"at {'.'.join(map(str, error.errors()[0]['loc'])) or 'its root'}. Start the run with "
            "a context of that type, or annotate the callable with the type it gets."
        ) from None
    except PydanticUserError as error:
        raise UserError(
            f"The type {_name(context_type)} cannot be a run's context: {error.message} Use a "
            "pydantic model, a dataclass or plain JSON values."
        ) from None


def write_context(context: Any) -> Json:
    """Return a context as JSON.

    Raises:
        UserError: it cannot be written as JSON, or is too large.
    """
    from pydantic_core import PydanticSerializationError, from_json, to_json

    try:
        data = to_json(context)
    except (PydanticSerializationError, ValueError) as error:
        raise UserError(
            f"The context of type {type(context).__name__} cannot be written as JSON: {error}. "
            "Use a pydantic model, a dataclass or plain JSON values, and keep connections and "
            "clients out of it."
        ) from None
    if len(data) > LARGEST_BYTES:
        raise UserError(
            f"The context is {len(data):,} bytes of JSON; at most {LARGEST_BYTES:,} travel with a "
            "run. Keep large data in a database and its key in the context."
        )
    return from_json(data)


class BorrowedContext:
    """A context lent to callables: typed while they have it, a list of changes afterwards."""

    def __init__(self, value: Json, context_type: Any) -> None:
        self.context = read_context(value, context_type)
        self._is_new = value is None
        self.value = write_context(self.context)

    def changes(self, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
        """Return what the callables have changed in the context, or put in its place.

        Raises:
            UserError: what they left cannot be written as JSON.
        """
        after = write_context(wrapper.context)
        changes = diff(self.value, after)
        # The run has no context yet, so a change of the empty one has no place there: send it all.
        return diff(None, after) if changes and self._is_new else changes


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


def _copy(value: Json) -> Json:
    """Copy plain JSON, so that a callable cannot change the run's own."""
    from pydantic_core import from_json, to_json

    return from_json(to_json(value)) if isinstance(value, dict | list) else value


def _empty(context_type: type) -> Any:
    """Return the context of a run that was started without one: an empty one, where that works."""
    try:
        return context_type()
    except (TypeError, ValueError):
        return None


def _name(context_type: Any) -> str:
    return getattr(context_type, "__name__", str(context_type))
