"""Tools: functions that a model may call.

Owns: `FunctionTool` and the decorator `function_tool`. Must not know: where a tool runs; the
activity that runs it takes everything from the `FunctionTool` record.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import Any, TypeAlias, TypedDict, Unpack, get_args, overload

from outlast.agents.callables import (
    call,
    callable_name,
    check_callable,
    implementation,
    unwrap_partial,
)
from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.agents.docstrings import DocstringStyle
from outlast.agents.errors import ToolTimeoutError, UserError
from outlast.agents.strict_schema import strict_schema
from outlast.loop.values import JsonObject

ToolFunction: TypeAlias = Callable[[ToolContext[Any], str], Awaitable[Any]]
ApprovalPredicate: TypeAlias = Callable[
    [RunContextWrapper[Any], JsonObject, str], bool | Awaitable[bool]
]
"""Called with (context, arguments, call id); sync or async; true means that a human decides."""

EnabledPredicate: TypeAlias = Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]]
"""Called with (context, agent) before every model call; sync or async."""

ToolErrorFunction: TypeAlias = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]
"""Turns a tool's failure into what the model reads; called with (context, error)."""

DEFAULT_TIMEOUT = timedelta(minutes=2)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UserError(f"A tool's name must be 1 to 64 letters, digits, '_' or '-', not {name!r}.")


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _is_positive(duration: object) -> bool:
    return isinstance(duration, timedelta) and duration > timedelta(0)


def default_tool_error(context: RunContextWrapper[Any], error: Exception) -> str:
    """Tell the model that a tool failed, and nothing of why.

    What an exception says may be internal, secret, or text that a stranger wrote, so it goes to
    the operator and not to the model. Write a `failure_error_function` to tell the model more.
    """
    tool = f"The tool {context.tool_name}" if isinstance(context, ToolContext) else "The tool"
    if isinstance(error, ToolTimeoutError):
        return f"{tool} did not finish in time and gave no result. It may have had an effect."
    return f"{tool} failed and gave no result. It may have had an effect."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRetry:
    """How often and how soon a failed tool call is tried again.

    Attributes:
        attempts: how many tries in all, the first included.
        initial_interval: the wait before the second try.
        backoff: each further wait is this many times the one before.
        maximum_interval: no wait is longer than this.
    """

    attempts: int = 3
    initial_interval: timedelta = timedelta(seconds=1)
    backoff: float = 2.0
    maximum_interval: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UserError: one of them makes no sense.
        """
        if not _is_whole(self.attempts) or self.attempts < 1:
            raise UserError(
                f"ToolRetry(attempts=...) must be a whole number from 1, not {self.attempts!r}; "
                "1 means that a failed call is not tried again."
            )
        if not _is_positive(self.initial_interval):
            raise UserError(
                "ToolRetry(initial_interval=...) must be a positive timedelta, "
                f"not {self.initial_interval!r}."
            )
        if self.maximum_interval < self.initial_interval:
            raise UserError(
                "ToolRetry(maximum_interval=...) must not be less than initial_interval "
                f"({self.initial_interval}), but is {self.maximum_interval}."
            )
        if not self.backoff >= 1:  # not `< 1`: that lets NaN pass
            raise UserError(f"ToolRetry(backoff=...) must be at least 1, not {self.backoff!r}.")


DEFAULT_RETRY = ToolRetry()


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool that a model may call and a worker runs.

    `function_tool` makes one of a plain function. Making one by hand is for tools whose schema
    is only known at run time.

    Attributes:
        name: what the model calls it; also the activity type `tool:<name>`.
        description: what the model is told it does.
        params_json_schema: JSON Schema of the arguments; made strict if `strict_json_schema`.
        on_invoke_tool: called with (context, arguments as JSON text); returns the result.
        validate: called with the arguments as JSON text; returns None when they fit and a
            sentence for the model when they do not. None: any JSON object is accepted.
        strict_json_schema: whether the schema is held to strictly.
        needs_approval: whether a human decides before each call: yes, no, or a predicate.
        timeout: how long one attempt may take. A sync function's thread cannot be stopped: it
            goes on after the time-out, though its result is dropped.
        retry: how failed attempts are retried.
        fast: runs as a local activity: for idempotent work well under a second, no approval.
        is_enabled: whether the agent offers it at the moment: yes, no, or a predicate that is
            called with (context, agent).
        failure_error_function: turns the failure of the last attempt into what the model reads;
            None lets the failure end the run.
        context_type: the type that `ctx.context` has for this tool, where it is known.
    """

    name: str
    description: str
    params_json_schema: JsonObject
    on_invoke_tool: ToolFunction
    validate: Callable[[str], str | None] | None = None
    strict_json_schema: bool = True
    needs_approval: bool | ApprovalPredicate = False
    timeout: timedelta = DEFAULT_TIMEOUT
    retry: ToolRetry = DEFAULT_RETRY
    fast: bool = False
    is_enabled: bool | EnabledPredicate = True
    failure_error_function: ToolErrorFunction | None = default_tool_error
    context_type: Any = None

    def __post_init__(self) -> None:
        """Check the fields and make the schema strict, so that a mistake is found where it is made.

        Raises:
            UserError: a field does not fit. The message names the tool and the field.
        """
        _check_name(self.name)
        owner = f"Tool {self.name!r}"
        if not _is_positive(self.timeout):
            raise UserError(f"{owner}: timeout must be a positive timedelta, not {self.timeout!r}.")
        if self.fast and self.needs_approval is not False:
            raise UserError(
                f"{owner}: fast=True does not go with needs_approval. A fast tool runs inside the "
                "workflow's own step, which cannot wait for a person. Leave one of them out."
            )
        check_callable(
            self.on_invoke_tool, ("context", "arguments"), what=f"{owner}: on_invoke_tool"
        )
        if not isinstance(self.needs_approval, bool):
            parameters = ("context", "arguments", "call_id")
            check_callable(self.needs_approval, parameters, what=f"{owner}: needs_approval")
        if not isinstance(self.is_enabled, bool):
            check_callable(self.is_enabled, ("context", "agent"), what=f"{owner}: is_enabled")
        if self.failure_error_function is not None:
            what = f"{owner}: failure_error_function"
            check_callable(self.failure_error_function, ("context", "error"), what=what)
        if self.strict_json_schema:
            schema = strict_schema(self.params_json_schema, owner=owner)
            object.__setattr__(self, "params_json_schema", schema)


class ToolOptions(TypedDict, total=False):
    """The options of `function_tool`; all may be left out.

    Attributes:
        name_override: what the model calls the tool; default the function's name.
        description_override: what the model is told; default the docstring.
        docstring_style: `google`, `numpy` or `sphinx`; default `auto`, which finds out.
        use_docstring_info: whether the docstring is read at all; default true.
        strict_mode: whether the provider holds the model to the schema; default true. A strict
            schema knows no dicts with free keys and no values of any type.
        needs_approval: whether a human decides before each call, or a predicate that is called
            with (context, arguments, call id); default false.
        timeout: how long one attempt may take; a number is seconds. Default 2 minutes.
        retry: how failed attempts are retried; a number is how many attempts in all, 1 for no
            retry. Default `ToolRetry()`.
        fast: for idempotent work well under a second: no activity of its own, no approval;
            default false.
        is_enabled: whether the tool is offered, or a predicate that is called with (context,
            agent); default true.
        failure_error_function: called with (context, error) when the last attempt failed, for
            what the model reads instead of a result; None lets the failure end the run. Default
            `default_tool_error`.
    """

    name_override: str | None
    description_override: str | None
    docstring_style: DocstringStyle | None
    use_docstring_info: bool
    strict_mode: bool
    needs_approval: bool | ApprovalPredicate
    timeout: timedelta | float
    retry: ToolRetry | int
    fast: bool
    is_enabled: bool | EnabledPredicate
    failure_error_function: ToolErrorFunction | None


@overload
def function_tool(
    function: Callable[..., Any], /, **options: Unpack[ToolOptions]
) -> FunctionTool: ...


@overload
def function_tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def function_tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a function: `@function_tool`, or `@function_tool(timeout=30)`.

    The function may be sync or async, a bound method, a partial or a callable object. A sync one
    runs in a thread. A first parameter annotated `RunContextWrapper` or `ToolContext` takes the
    context; every other parameter is the model's to give, described by its annotation, by
    `Annotated[..., "text"]` or `Field(description=...)`, or by the docstring. Parameters that a
    partial fills are hidden from the model.

    The function runs at least once per call: an attempt whose worker died is repeated. Give
    `ToolContext.idempotency_key` to whatever has side effects.

    Args:
        function: the function, where the decorator is used without options.
        **options: see `ToolOptions`.

    Raises:
        UserError: the function or an option does not fit. The message names the tool and the fix.
    """
    if function is not None:
        return _make_tool(function, _caller(), options)

    def decorate(function: Callable[..., Any]) -> FunctionTool:
        return _make_tool(function, _caller(), options)

    return decorate


def _make_tool(
    function: Callable[..., Any], frame: FrameType | None, options: ToolOptions
) -> FunctionTool:
    # Imported here for the time that pydantic takes; a program without tools never needs it.
    from outlast.agents.function_schema import function_schema

    name = _tool_name(function, options.get("name_override"))
    owner = f"Tool {name!r}"
    if unknown := sorted(options.keys() - ToolOptions.__annotations__.keys()):
        raise UserError(
            f"{owner}: function_tool has no option {', '.join(unknown)}. "
            f"Its options are {', '.join(ToolOptions.__annotations__)}."
        )
    style = options.get("docstring_style") or "auto"
    if style not in get_args(DocstringStyle):
        styles = ", ".join(get_args(DocstringStyle))
        raise UserError(f"{owner}: docstring_style must be one of {styles}, not {style!r}.")
    strict = options.get("strict_mode", True)
    schema = function_schema(
        function,
        name=name,
        docstring_style=style,
        use_docstring_info=options.get("use_docstring_info", True),
        strict=strict,
        frame=frame,
    )

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        positional, named = schema.arguments(context, arguments)
        return await call(function, *positional, **named)

    description = options.get("description_override")
    return FunctionTool(
        name=name,
        description=schema.description if description is None else description,
        params_json_schema=schema.params_json_schema,
        on_invoke_tool=invoke,
        validate=schema.check,
        strict_json_schema=strict,
        needs_approval=options.get("needs_approval", False),
        timeout=_duration(options.get("timeout", DEFAULT_TIMEOUT), owner),
        retry=_retry(options.get("retry", DEFAULT_RETRY), owner),
        fast=options.get("fast", False),
        is_enabled=options.get("is_enabled", True),
        failure_error_function=options.get("failure_error_function", default_tool_error),
        context_type=schema.signature.context_type,
    )


def _tool_name(function: object, override: str | None) -> str:
    if not callable(function) or inspect.isclass(function):
        raise UserError(f"function_tool makes tools of functions, not of {function!r}.")
    target = implementation(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise UserError(
            f"{callable_name(function)} is a generator. A tool gives one result: return a list."
        )
    inner = unwrap_partial(function)
    name = override if override is not None else getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise UserError(
            "A lambda has no name that a model could call. "
            "Use a def, or give function_tool(name_override=...)."
        )
    _check_name(name)
    return name


def _duration(timeout: object, owner: str) -> timedelta:
    """Return the time-out as a duration; a number is seconds."""
    if isinstance(timeout, timedelta):
        return timeout
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        try:
            return timedelta(seconds=timeout)
        except (ValueError, OverflowError):  # NaN, infinity
            pass
    raise UserError(f"{owner}: timeout must be a timedelta or seconds, not {timeout!r}.")


def _retry(retry: ToolRetry | int, owner: str) -> ToolRetry:
    """Return the retry policy; a number is how many attempts in all."""
    if isinstance(retry, ToolRetry):
        return retry
    try:
        return ToolRetry(attempts=retry)
    except UserError as error:
        raise UserError(f"{owner}: retry={retry!r}: {error.message}") from error


def _caller() -> FrameType | None:
    """Return the frame that called the function that calls this one."""
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    return frame
