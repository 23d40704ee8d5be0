"""Names, checks and calls users' callables, sync or async."""

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from outlast.agents.checks import InvalidType, Rule, check_list
from outlast.agents.errors import UserError
from outlast.agents.threads import run_in_thread


class AwaitableResult:
    """An awaitable that is the result of the callable that returns it: `call` does not await it."""

    __slots__ = ()


def unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable inside any `functools.partial` around it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def implementation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, method or class that runs when a callable is called.

    That is the object with the name, docstring and globals: partials are removed, and an object is
    represented by its `__call__`.
    """
    inner = unwrap_partial(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        return inner
    return type(inner).__call__


def callable_name(function: Callable[..., Any]) -> str:
    """Return a callable's name for messages: its qualified name, or its class's."""
    inner = unwrap_partial(function)
    name = getattr(inner, "__qualname__", None)
    return name if isinstance(name, str) else type(inner).__qualname__


def shown(value: object) -> str:
    """Return a short representation of a user's value for messages."""
    name = getattr(value, "__name__", None)
    if isinstance(name, str):
        return name
    kind, name = type(value).__name__, getattr(value, "name", None)
    if isinstance(name, str):
        return f"{kind} {name!r}"
    inner = getattr(value, "guardrail_function", None)
    return f"{kind} {callable_name(inner)!r}" if callable(inner) else f"{value!r:.100}"


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call of the function returns a coroutine, judged by its definition.

    True for `async def` functions and methods, partials of them, and objects with an async
    `__call__`.
    """
    inner: object = function.__func__ if isinstance(function, MethodType) else function
    if isinstance(inner, FunctionType) and inner.__code__.co_flags & inspect.CO_COROUTINE:
        return True  # as nearly all, and asked for each call
    return inspect.iscoroutinefunction(implementation(function))


def arity_fits(function: Callable[..., Any], count: int) -> bool:
    """Whether a callable accepts this many positional arguments, as far as that is known."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return True
    return _binds(signature, *range(count))


def check_callable(function: object, parameters: Sequence[str], *, what: str) -> None:
    """Refuse a value that cannot be called with these parameters, before it is used."""
    expected = ", ".join(parameters)
    if not callable(function):
        raise InvalidType(
            f"{what} must be callable with ({expected}), not {type(function).__name__}."
        )
    if not arity_fits(function, len(parameters)):
        raise InvalidType(
            f"{what} is called with ({expected}), "
            f"but {callable_name(function)} takes {inspect.signature(function)}."
        )


def called_with(*parameters: str, or_a: type | tuple[type, ...] = ()) -> Rule:
    """Return the rule of a field: a callable with these parameters, or a value of the types `or_a`."""
    return lambda place, value: (
        None if isinstance(value, or_a) else check_callable(value, parameters, what=place)
    )


def list_of(kinds: type | tuple[type, ...], fix: str | Callable[[object], str]) -> Rule:
    """Return the rule of a list of `kinds`; `fix` says what to do with any other entry."""

    def rule(place: str, value: object) -> None:
        for entry in check_list(place, value):
            if not isinstance(entry, kinds):
                advice = fix if isinstance(fix, str) else fix(entry)
                raise UserError(f"{place} holds {shown(entry)}: {advice}.")

    return rule


_MODEL_ARGUMENTS = (
    "system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs",
    "tracing", "previous_response_id", "conversation_id", "prompt",
)  # fmt: skip
"""The SDK's arguments of a model call, in the SDK's order."""


def takes_model_arguments(model: object) -> bool:
    """Whether a model's `get_response` takes the SDK's arguments, and not one record.

    A model that accepts any arguments passes the call on to an inner model. Every inner model
    accepts the SDK's arguments; ours do, too.
    """
    answer = getattr(model, "get_response", None)
    if not inspect.ismethod(answer) or not inspect.isfunction(answer.__func__):
        return _takes_model_arguments(answer)
    function = answer.__func__  # the same for every call and, mostly, every instance
    found = _TAKE_ARGUMENTS.get(function)
    if found is None:
        found = _TAKE_ARGUMENTS[function] = _takes_model_arguments(answer)
    return found


_TAKE_ARGUMENTS: WeakKeyDictionary[FunctionType, bool] = WeakKeyDictionary()
"""The results for functions of methods: reading a signature takes 50 microseconds."""


def _takes_model_arguments(answer: object) -> bool:
    try:
        signature = inspect.signature(answer) if callable(answer) else None
    except (ValueError, TypeError):
        return False
    if signature is None or _MODEL_ARGUMENTS[0] in signature.parameters:
        return signature is not None
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    if kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return True
    return not _binds(signature, "request") and _binds(signature, **dict.fromkeys(_MODEL_ARGUMENTS))


def check_model(place: str, model: object) -> None:
    """Refuse a value that is neither a model's name, a model nor None."""
    if model is None or isinstance(model, str):
        return
    answer = getattr(model, "get_response", None)
    if not callable(answer) or isinstance(model, type):
        raise UserError(
            f"{place} must be a model's name, a model (an object with get_response) or None, "
            f"not {model!r}."
        )
    method = f"{place}: get_response of {type(model).__name__}"
    if not takes_model_arguments(model):
        check_callable(answer, ("request",), what=method)
    elif not _binds(inspect.signature(answer), **dict.fromkeys(_MODEL_ARGUMENTS)):
        raise UserError(
            f"{method} is called with ({', '.join(_MODEL_ARGUMENTS)}), by name, or with one "
            f"ModelRequest, but takes {inspect.signature(answer)}."
        )


def _binds(signature: inspect.Signature, *args: object, **kwargs: object) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a user's callable of any kind and return its result.

    An async callable is awaited here. Any other runs in a thread (see `run_in_thread`, also for
    cancellation), so that it cannot block the event loop; if it returns an awaitable, that is
    awaited here, unless it is an `AwaitableResult`.

    Raises:
        RuntimeError: the callable raised `SystemExit`, which would end the process, or
            `CancelledError` without being cancelled; or it is sync and needs the event loop.
    """
    import asyncio  # imported here because it is slow, and defining tools does not need it

    try:
        if is_async(function):
            return await function(*args, **kwargs)
        result = await _in_thread(function, *args, **kwargs)
        is_awaited = inspect.isawaitable(result) and not isinstance(result, AwaitableResult)
        return await result if is_awaited else result
    except SystemExit as exit_:
        raise RuntimeError(f"{callable_name(function)} raised SystemExit") from exit_
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(f"{callable_name(function)} raised CancelledError") from error


async def _in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    try:
        return await run_in_thread(function, *args, **kwargs)
    except RuntimeError as error:
        if str(error) != _NO_LOOP:
            raise
        raise RuntimeError(
            f"{_NO_LOOP}: {callable_name(function)} is a sync function, which runs in a thread. "
            "Write `async def` to use asyncio in it."
        ) from error


_NO_LOOP = "no running event loop"
"""The message of asyncio's functions outside of the loop's thread."""
