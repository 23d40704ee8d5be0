"""Guardrails on tools: checks of a call before the tool runs, and of its result."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypedDict, overload

from outlast.agents.context.wrapper import TContext, ToolContext
from outlast.agents.errors import UserError
from outlast.agents.guardrails.guardrail import (
    AnyGuardrail,
    add_kind,
    decorated,
)
from outlast.agents.json_values import is_object


class AllowBehavior(TypedDict):
    """The call, or its result, passes."""

    type: Literal["allow"]


class RejectContentBehavior(TypedDict):
    """The run continues; the model reads a message instead of the tool's result."""

    type: Literal["reject_content"]
    message: str


class RaiseExceptionBehavior(TypedDict):
    """The run ends with the tripwire's error."""

    type: Literal["raise_exception"]


ToolGuardrailBehavior: TypeAlias = AllowBehavior | RejectContentBehavior | RaiseExceptionBehavior


@dataclass
class ToolGuardrailFunctionOutput:
    """The result of a tool guardrail function.

    Make one with `allow`, `reject_content` or `raise_exception`.

    Attributes:
        output_info: details of the check: JSON, a pydantic model or a dataclass.
        behavior: the action that follows.
    """

    output_info: Any
    behavior: ToolGuardrailBehavior = field(default_factory=lambda: AllowBehavior(type="allow"))

    def __post_init__(self) -> None:
        behavior: object = self.behavior
        match behavior:
            case {"type": "allow" | "raise_exception"} | {
                "type": "reject_content",
                "message": str(),
            }:
                return
            case {"type": "reject_content"} if is_object(behavior):
                raise UserError(
                    "ToolGuardrailFunctionOutput.reject_content(message=...) must be a string, "
                    f"not {behavior.get('message')!r}: it is what the model reads."
                )
            case _:
                raise UserError(
                    f"ToolGuardrailFunctionOutput(behavior={behavior!r}) is not a behavior: use "
                    "ToolGuardrailFunctionOutput.allow(), .reject_content(message) or "
                    ".raise_exception()."
                )

    @classmethod
    def allow(cls, output_info: Any = None) -> "ToolGuardrailFunctionOutput":
        """Let the call, or its result, pass; `output_info` holds details of the check."""
        return cls(output_info=output_info, behavior=AllowBehavior(type="allow"))

    @classmethod
    def reject_content(cls, message: str, output_info: Any = None) -> "ToolGuardrailFunctionOutput":
        """Send the model a message instead of the tool's result; the run continues."""
        behavior = RejectContentBehavior(type="reject_content", message=message)
        return cls(output_info=output_info, behavior=behavior)

    @classmethod
    def raise_exception(cls, output_info: Any = None) -> "ToolGuardrailFunctionOutput":
        """End the run with the tripwire's error."""
        return cls(output_info=output_info, behavior=RaiseExceptionBehavior(type="raise_exception"))


@dataclass
class ToolInputGuardrailData:
    """The argument of a tool input guardrail.

    Attributes:
        context: the context of the call, with the tool's name and arguments.
        agent: the agent that made the call.
    """

    context: ToolContext[Any]
    agent: Any


@dataclass
class ToolOutputGuardrailData(ToolInputGuardrailData):
    """The argument of a tool output guardrail.

    Attributes:
        output: the tool's result.
    """

    output: Any


ToolGuardrailVerdict: TypeAlias = (
    ToolGuardrailFunctionOutput | Awaitable[ToolGuardrailFunctionOutput]
)
"""The return type of a tool guardrail function, sync or async."""

ToolInputGuardrailFunction: TypeAlias = Callable[[ToolInputGuardrailData], ToolGuardrailVerdict]
"""Called with (data) before a tool runs; sync or async."""

ToolOutputGuardrailFunction: TypeAlias = Callable[[ToolOutputGuardrailData], ToolGuardrailVerdict]
"""Called with (data) after a tool has run; sync or async."""


class _ToolGuardrail(AnyGuardrail):
    parameters: ClassVar[tuple[str, ...]] = ("data",)
    verdict: ClassVar[type] = ToolGuardrailFunctionOutput
    verdict_form: ClassVar[str] = (
        "ToolGuardrailFunctionOutput.allow(), .reject_content(message) or .raise_exception()"
    )

    async def run(self, data: Any) -> ToolGuardrailFunctionOutput:
        """Check a call or its result.

        Raises:
            UserError: the function did not return a `ToolGuardrailFunctionOutput`.
        """
        return await self._judge(data)


@dataclass
class ToolInputGuardrail(_ToolGuardrail, Generic[TContext]):
    """A check of a tool call before the tool runs.

    Attributes:
        guardrail_function: called with (data); sync or async.
        name: the guardrail's name in messages and traces; default the function's name.
    """

    guardrail_function: ToolInputGuardrailFunction
    name: str | None = None

    kind = "Tool input guardrail"


@dataclass
class ToolOutputGuardrail(_ToolGuardrail, Generic[TContext]):
    """A check of a tool's output.

    Attributes:
        guardrail_function: called with (data); sync or async.
        name: the guardrail's name in messages and traces; default the function's name.
    """

    guardrail_function: ToolOutputGuardrailFunction
    name: str | None = None

    kind = "Tool output guardrail"


add_kind(ToolInputGuardrail)
add_kind(ToolOutputGuardrail)


@dataclass
class ToolInputGuardrailResult:
    """The result of a tool input guardrail in a run."""

    guardrail: ToolInputGuardrail[Any]
    output: ToolGuardrailFunctionOutput


@dataclass
class ToolOutputGuardrailResult:
    """The result of a tool output guardrail in a run."""

    guardrail: ToolOutputGuardrail[Any]
    output: ToolGuardrailFunctionOutput


@overload
def tool_input_guardrail(func: ToolInputGuardrailFunction) -> ToolInputGuardrail[Any]: ...


@overload
def tool_input_guardrail(
    *, name: str | None = None
) -> Callable[[ToolInputGuardrailFunction], ToolInputGuardrail[Any]]: ...


def tool_input_guardrail(func: Any = None, *, name: str | None = None) -> Any:
    """Make a tool input guardrail from a function; use it as a decorator.

    Raises:
        UserError: the function cannot be called with (data).
    """
    return decorated(ToolInputGuardrail, func, name)


@overload
def tool_output_guardrail(func: ToolOutputGuardrailFunction) -> ToolOutputGuardrail[Any]: ...


@overload
def tool_output_guardrail(
    *, name: str | None = None
) -> Callable[[ToolOutputGuardrailFunction], ToolOutputGuardrail[Any]]: ...


def tool_output_guardrail(func: Any = None, *, name: str | None = None) -> Any:
    """Make a tool output guardrail from a function; use it as a decorator.

    Raises:
        UserError: the function cannot be called with (data).
    """
    return decorated(ToolOutputGuardrail, func, name)
