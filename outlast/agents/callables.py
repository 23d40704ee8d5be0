"""Calling what users hand over: functions, methods, partials, objects; sync and async alike.

Owns: how a user's callable is named, checked and called. Must not know: what it is for.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from outlast.agents.errors import UserError
from outlast.agents.threads import run_in_thread


def unwrap_partial(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable inside any `functools.partial` around it."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def implementation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, method or class that runs when a callable is called.

    It is what carries the name, docstring and globals: partials are taken off, and an object
    stands for its `__call__`.
    """
    inner = unwrap_partial(function)
    if inspect.isroutine(inner) or inspect.isclass(inner):
        return inner
    return type(inner).__call__


def callable_name(function: Callable[..., Any]) -> str:
    """Return how to name a callable in a message: its qualified name, or its class's."""
    inner = unwrap_partial(function)
    name = getattr(inner, "__qualname__", None)
    return name if isinstance(name, str) else type(inner).__qualname__


def shown(given: object) -> str:
    """Return how to show in a message what a user gave: in few words, however large it is."""
    name = getattr(given, "__name__", None)
    if isinstance(name, str):
        return name
    kind, name = type(given).__name__, getattr(given, "name", None)
    if isinstance(name, str):
        return f"{kind} {name!r}"
    inner = getattr(given, "guardrail_function", None)
    return f"{kind} {callable_name(inner)!r}" if callable(inner) else f"{given!r:.100}"


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling it makes a coroutine, as far as can be seen without calling it.

    True for `async def` functions and methods, partials of them, and objects whose `__call__`
    is one.
    """
    return inspect.iscoroutinefunction(implementation(function))


def arity_fits(function: Callable[..., Any], count: int) -> bool:
    """Say whether a callable can be called with this many positional arguments.

    True also where nothing can be known, as for some functions written in C.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return True
    return _binds(signature, *range(count))


def check_callable(function: object, parameters: Sequence[str], *, what: str) -> None:
    """Refuse what cannot be called with these parameters, when it is given and not when it runs.

    Args:
        function: the callable a user handed over.
        parameters: names of the positional arguments it will be called with, for the message.
        what: names the place it was given, as in "Tool 'refund': needs_approval".

    Raises:
        UserError: it is not callable, or takes other parameters.
    """
    wanted = ", ".join(parameters)
    if not callable(function):
        raise UserError(
            f"{what} must be a callable that takes ({wanted}), not {type(function).__name__}."
        )
    if not arity_fits(function, len(parameters)):
        raise UserError(
            f"{what} is called with ({wanted}), "
            f"but {callable_name(function)} takes {inspect.signature(function)}."
        )


_MODEL_ARGUMENTS = (
    "system_instructions",
    "input",
    "model_settings",
    "tools",
    "output_schema",
    "handoffs",
    "tracing",
    "previous_response_id",
    "conversation_id",
    "prompt",
)
"""What a model is called with that does not take one record, in the SDK's order."""


def takes_model_arguments(model: object) -> bool:
    """Tell whether a model's `get_response` takes a call as arguments, and not as one record.

    One that takes whatever comes passes it on to another model. Only what is called with arguments
    has them for every model that may be inside: ours takes them, too.
    """
    answer = getattr(model, "get_response", None)
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


def check_model(model: object, *, what: str) -> None:
    """Refuse a model whose `get_response` takes neither one record nor the SDK's arguments.

    Args:
        model: an object with `get_response`, or anything else, which is left alone.
        what: names the place it was given, as in "Agent 'Triage': model".

    Raises:
        UserError: it takes other parameters.
    """
    answer = getattr(model, "get_response", None)
    if not callable(answer):
        return
    place = f"{what}: get_response of {type(model).__name__}"
    if not takes_model_arguments(model):
        check_callable(answer, ("request",), what=place)
    elif not _binds(inspect.signature(answer), **dict.fromkeys(_MODEL_ARGUMENTS)):
        raise UserError(
            f"{place} is called with ({', '.join(_MODEL_ARGUMENTS)}), by name, or with one "
            f"ModelRequest, but takes {inspect.signature(answer)}."
        )


def _binds(signature: inspect.Signature, *args: object, **kwargs: object) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


async def call(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a user's callable of any kind and return what it returns.

    An async one is awaited here. Any other runs in a thread (see `run_in_thread`, also for what
    cancelling means), so that it cannot block the event loop; when it returns an awaitable, that
    is awaited here.

    Raises:
        RuntimeError: the callable raised `SystemExit`, which would end the process, or
            `CancelledError`, although nobody cancelled it.
        Exception: whatever else the callable raised.
    """
    import asyncio  # here for the time that it takes: defining tools never needs it

    try:
        if is_async(function):
            return await function(*args, **kwargs)
        result = await run_in_thread(function, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as exit_:
        raise RuntimeError(f"{callable_name(function)} raised SystemExit") from exit_
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError(f"{callable_name(function)} raised CancelledError") from error
