"""The run's context, any object, as JSON, as a callable's copy, and as the program's object."""

import inspect
import typing
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from pydantic import PydanticUserError, ValidationError
from pydantic_core import to_json

from outlast.agents.callables import implementation
from outlast.agents.context.encoding import decode, encode, has_keys
from outlast.agents.context.live import CLASS, LiveValues, ValuePath, live_paths
from outlast.agents.context.record_classes import is_plain_class, is_record_class
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.user_types import output_problems, source_name, type_adapter
from outlast.loop.changes import Change, diff, same
from outlast.loop.values import Json, JsonObject

LARGEST_BYTES = 500_000
"""The size limit of a context, because every callable gets a copy of it."""

_NO_CONTEXTS: Final[dict[str, Callable[[object], bool]]] = {
    "function": inspect.isroutine,
    "class": inspect.isclass,
    "module": inspect.ismodule,
}
"""The objects that are refused as a context; usually, the parentheses of a call are missing."""

_JSON_TYPES = (dict, list, str, int, float, bool, type(None))


def context_class(context: object) -> type[Any] | None:
    """Return the class of a context that its readers need; None for plain JSON."""
    kind = cast("type[Any]", type(context))
    return None if issubclass(kind, _JSON_TYPES) else kind


def read_context(
    value: Json,
    context_type: Any,
    live: Mapping[ValuePath, Any] | None = None,
    *,
    is_own: bool = False,
) -> Any:
    """Return a callable's copy of the context, with the run's live values, by path, in place.

    With `is_own`, the JSON was written of an object of this type, which is restored as it was.
    Other JSON is validated.

    Raises:
        UserError: the value does not match the type, or a live value is not in this process.
    """
    if value is None:
        kind = typing.get_origin(context_type) or context_type  # dict of dict[str, Any]
        return _empty(kind) if isinstance(kind, type) else None
    if is_own or context_type is None or next(live_paths(value), None) is not None:
        return decode(value, context_type, live)
    if is_plain_class(context_type):
        if not isinstance(value, dict):
            raise _misfit(context_type, f"it is {type(value).__name__}")
        return decode(value, context_type, live)
    return _validate(decode(value, None, live), context_type)


def _validate(value: Any, context_type: Any) -> Any:
    try:
        return type_adapter(context_type).validate_python(value)
    except ValidationError as error:
        raise _misfit(context_type, output_problems(error)) from None
    except PydanticUserError as error:
        if error.code == "typed-dict-version":  # pydantic cannot check typing.TypedDict before 3.12
            return value
        raise UserError(
            f"The type {source_name(context_type)} cannot be read from JSON: {error.message} Use a "
            "pydantic model, a dataclass or plain JSON values."
        ) from None


def _misfit(context_type: Any, problem: str) -> UserError:
    return UserError(
        f"The run's context does not fit {source_name(context_type)}: {problem}. Start the run with a "
        "context of that type, or annotate the callable with the type it gets."
    )


def write_context(context: Any, before: Json = None) -> Json:
    """Return a context as JSON, with markers in place of its live values.

    Sets keep the order of `before`, an earlier JSON of the context.

    Raises:
        UserError: a text in the context is not valid Unicode, or the context is too large.
    """
    return _written(context, context_class(context), before)[0]


def write_parts(context: Any) -> tuple[Json, LiveValues]:
    """Return a context as JSON, and its live values; errors are those of `write_context`."""
    return _written(context, context_class(context))


def _written(context: Any, hint: Any, before: Json = None) -> tuple[Json, LiveValues]:
    if context is None:
        return None, {}
    for kind, is_kind in _NO_CONTEXTS.items():
        if is_kind(context):
            raise UserError(
                f"The context is data, such as an object of a dataclass, and not the {kind} "
                f"{context.__name__}.{' Pass what it returns.' if callable(context) else ''}"
            )
    value, live = encode(context, hint, before)
    if (size := len(to_json(value))) > LARGEST_BYTES:
        raise UserError(
            f"The context is {size:,} bytes of JSON; the limit is {LARGEST_BYTES:,}. Keep "
            "large data in a database and its key in the context."
        )
    return value, live


class BorrowedContext:
    """A typed context for callables, which reports their changes afterwards.

    Args:
        value: the context as JSON.
        context_type: its type.
        live: the run's live values in this process; updated when a callable replaces one.
        may_add: whether callables may add live values, as in the process that started the run.
        is_own: the JSON was written of an object of this type.
    """

    def __init__(
        self,
        value: Json,
        context_type: Any,
        live: LiveValues | None = None,
        *,
        may_add: bool = False,
        is_own: bool = False,
    ) -> None:
        self._live: LiveValues = {} if live is None else live
        self._may_add = may_add
        self.context_type = context_type
        self._is_own = is_own
        self.context: Any = read_context(value, context_type, self._live, is_own=is_own)
        self.is_new: bool = value is None  # changes hold the whole context
        self.value: Json = _written(self.context, context_type, value)[0]

    def restore(self, value: Json) -> None:
        """Make the object again, of this JSON, as if it had been lent out like that.

        Raises:
            UserError: the value does not match the type.
        """
        if not same(value, self.value):
            self.context = read_context(value, self.context_type, self._live, is_own=self._is_own)
            self.value = value

    def changes(self, wrapper: RunContextWrapper[Any]) -> tuple[Change, ...]:
        """Return the callables' changes to the context, including a replacement.

        Raises:
            UserError: the changed context cannot be written as JSON.
        """
        if wrapper.context is None and self.value is None:
            return ()
        after, live = _written(wrapper.context, self.context_type, self.value)
        added = [path for path, _ in live_paths(after) if path not in self._live]
        classes = [path for path in live if path[:1] == (CLASS,) and path not in self._live]
        if classes and not self._may_add:
            raise UserError(
                f"A callable has added an object of {classes[0][1]}, a class made in a function, to "
                "the context, and other workers do not have it. Define the class in a module that "
                "they import."
            )
        if added and not self._may_add:
            place = f"context's {'.'.join(added[0])}" if added[0] else "context"
            raise UserError(
                f"The {place}, a {type(live[added[0]]).__name__} that a callable has added, is not "
                "data, and other workers cannot make it. Put data into the context, or start the "
                "run with such an object there."
            )
        self._live.update(live)
        changes = diff(self.value, after)
        # The run has no context yet, so there is no place to change: send the whole context.
        return diff(None, after) if changes and self.is_new else changes


class ProgramContext:
    """The object that a program passed as a run's context, and the sent JSON.

    The run works on JSON. When the program gets the run's result, its object is updated in place
    with the run's changes, so that the program can read it and pass it to the next run.
    """

    def __init__(self, owner: Any) -> None:
        self.owner: Any = owner
        self.live: LiveValues
        self._sent, self.live = write_parts(owner)

    def update(self, value: Json) -> None:
        """Update in place what the run changed; immutable objects, such as a text, stay."""
        if value is None or value == self._sent:  # None: the run has not begun
            return
        sent, self._sent = self._sent, value
        try:
            after = read_context(value, context_class(self.owner), self.live, is_own=True)
        except UserError:  # a callable has replaced the context with an object of another type
            return
        _update(self.owner, after, sent, value)


def _update(owner: Any, after: Any, sent: Json, value: Json) -> bool:
    """Change an object, written as `sent`, to be like `after`, written as `value`, if possible."""
    if sent == value or owner is after:
        return True
    kind = cast("type[Any]", type(owner))
    if type(after) is not kind:
        return False
    if kind is list:
        owner[:] = after
    elif kind in {dict, set} and not (has_keys(sent) and has_keys(value)):
        owner.clear()
        owner.update(after)
    elif kind is dict or is_record_class(kind) or is_plain_class(kind):
        return _update_fields(
            owner, after, cast("JsonObject", sent), cast("JsonObject", value), is_dict=kind is dict
        )
    else:
        return False
    return True


def _update_fields(
    owner: Any, after: Any, sent: JsonObject, value: JsonObject, *, is_dict: bool
) -> bool:
    get: Any = dict[str, Any].get if is_dict else getattr
    put: Any = dict[str, Any].__setitem__ if is_dict else setattr
    remove: Any = dict[str, Any].__delitem__ if is_dict else delattr
    for name in {**sent, **value}:
        if name in sent and name in value and sent[name] == value[name]:
            continue
        new = get(after, name, _ABSENT)
        old = get(owner, name, _ABSENT)
        if new is not _ABSENT and _update(old, new, sent.get(name), value.get(name)):
            continue
        try:
            remove(owner, name) if new is _ABSENT else put(owner, name, new)
        except (AttributeError, TypeError, ValueError, KeyError):  # frozen
            return False
    return True


_ABSENT = object()


def context_type_of(function: Callable[..., Any]) -> Any:
    """Return the type argument of a callable's context parameter, or None.

    For `def instructions(ctx: RunContextWrapper[Customer], agent)` it is `Customer`.
    """
    is_function = isinstance(function, FunctionType)
    if is_function and function in _CONTEXT_TYPES:
        return _CONTEXT_TYPES[function]
    context_type, is_final = _read_context_type(function)
    if is_function and is_final:
        _CONTEXT_TYPES[function] = context_type
    return context_type


_CONTEXT_TYPES: WeakKeyDictionary[FunctionType, Any] = WeakKeyDictionary()
"""The context types of functions: every model call needs that of its agent's instructions."""


def _read_context_type(function: Callable[..., Any]) -> tuple[Any, bool]:
    target = implementation(function)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(target)
    except (TypeError, ValueError, NameError):
        return None, False
    if not parameters:
        return None, True
    annotation = hints.get(parameters[0].name)
    origin = typing.get_origin(annotation) or annotation
    if not (isinstance(origin, type) and issubclass(origin, RunContextWrapper)):
        return None, True
    arguments = typing.get_args(annotation)
    return (arguments[0] if arguments and arguments[0] is not Any else None), True


def _empty(context_type: type) -> Any:
    try:
        return context_type()
    except (TypeError, ValueError):
        return None
