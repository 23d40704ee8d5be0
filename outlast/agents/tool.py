"""Tools: functions that a model may call.

Owns: `FunctionTool` and the decorator `function_tool`. Must not know: where a tool runs; the
activity that runs it takes everything from the `FunctionTool` record.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from outlast.agents.context import RunContextWrapper, ToolContext
from outlast.loop.values import JsonObject

ToolFunction: TypeAlias = Callable[[ToolContext[Any], str], Awaitable[Any]]
ApprovalPredicate: TypeAlias = Callable[
    [RunContextWrapper[Any], JsonObject, str], bool | Awaitable[bool]
]
"""Called with (context, arguments, call id); sync or async; true means that a human decides."""

ToolErrorFunction: TypeAlias = Callable[[RunContextWrapper[Any], Exception], str | Awaitable[str]]
"""Turns a tool's failure into what the model reads."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool that a model may call and a worker runs.

    Attributes:
        name: what the model calls it; also the activity type `tool:<name>`.
        description: what the model is told it does.
        params_json_schema: JSON Schema of the arguments.
        on_invoke_tool: called with (context, arguments as JSON text); returns the result.
        validate: called with the arguments as JSON text; returns None when they fit and a
            sentence for the model when they do not. None: any JSON object is accepted.
        strict_json_schema: whether the schema is held to strictly.
        needs_approval: whether a human decides before each call: yes, no, or a predicate.
        timeout: how long one attempt may take.
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
    timeout: timedelta = timedelta(minutes=2)
    retry: ToolRetry = ToolRetry()
    fast: bool = False
    is_enabled: bool | Callable[[RunContextWrapper[Any], Any], bool | Awaitable[bool]] = True
    failure_error_function: ToolErrorFunction | None = None
    context_type: Any = None
