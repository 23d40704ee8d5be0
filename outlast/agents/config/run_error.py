"""Failed runs as a program sees them, and handlers that answer instead of failing."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypedDict, cast

from outlast.agents.callables import check_callable
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import MaxTurnsExceeded, ModelBehaviorError, ModelRefusalError, UserError
from outlast.agents.guardrails.guardrail import InputGuardrailResult, OutputGuardrailResult
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.agents.items.run_items import RunItem
from outlast.agents.json_values import is_mapping
from outlast.loop.values import JsonObject


@dataclass
class RunErrorDetails:
    """The run up to its failure; the type of `error.run_data`.

    The results of guardrails include those of a tripwire.
    """

    input: str | list[JsonObject]
    new_items: list[RunItem]
    raw_responses: list[Any]
    last_agent: Any
    context_wrapper: RunContextWrapper[Any]
    input_guardrail_results: list[InputGuardrailResult] = field(
        default_factory=list[InputGuardrailResult]
    )
    output_guardrail_results: list[OutputGuardrailResult] = field(
        default_factory=list[OutputGuardrailResult]
    )
    tool_input_guardrail_results: list[ToolInputGuardrailResult] = field(
        default_factory=list[ToolInputGuardrailResult]
    )
    tool_output_guardrail_results: list[ToolOutputGuardrailResult] = field(
        default_factory=list[ToolOutputGuardrailResult]
    )


@dataclass
class RunErrorData:
    """The run up to its failure, for an error handler.

    Attributes:
        history: the input and the added items, as input items.
        output: the added items, as input items.
    """

    input: str | list[JsonObject]
    new_items: list[RunItem]
    history: list[JsonObject]
    output: list[JsonObject]
    raw_responses: list[Any]
    last_agent: Any


@dataclass
class RunErrorHandlerInput(Generic[TContext]):
    """The argument of an error handler: why the run cannot go on, and the run so far."""

    error: MaxTurnsExceeded | ModelRefusalError | ModelBehaviorError
    context: RunContextWrapper[TContext]
    run_data: RunErrorData


@dataclass
class RunErrorHandlerResult:
    """The answer that an error handler returns in place of the error.

    Attributes:
        final_output: the answer; of the agent's output type, if it has one.
        include_in_history: whether the answer becomes an item of the run and of its session.
    """

    final_output: Any
    include_in_history: bool = True


RunErrorHandler: TypeAlias = Callable[[RunErrorHandlerInput[TContext]], Any | Awaitable[Any]]
"""A function called with (input) that answers instead of failing.

Returns a `RunErrorHandlerResult`, a dict with `final_output`, a bare final output, or None to let
the error stand.
"""


class RunErrorHandlers(TypedDict, Generic[TContext], total=False):
    """The error handlers of a run, by the kind of failure.

    Attributes:
        max_turns: the run reached its limit of model calls.
        model_refusal: the model refused to answer.
        invalid_final_output: the answer does not fit the agent's output type.
    """

    max_turns: RunErrorHandler[TContext]
    model_refusal: RunErrorHandler[TContext]
    invalid_final_output: RunErrorHandler[TContext]


_KINDS = tuple(RunErrorHandlers.__annotations__)
_RESULT_KEYS = {"final_output", "include_in_history"}


def check_error_handlers(handlers: object) -> None:
    """Refuse invalid error handlers of a run. None means no handlers."""
    if handlers is None:
        return
    if not isinstance(handlers, Mapping):
        raise UserError(
            f"error_handlers must be a dict of handlers, not {type(handlers).__name__}. "
            f"Its keys are {', '.join(_KINDS)}."
        )
    for kind, handler in cast("Mapping[object, object]", handlers).items():
        if kind not in _KINDS:
            raise UserError(
                f"error_handlers has no key {kind!r}. Its keys are {', '.join(_KINDS)}."
            )
        if handler is not None:
            check_callable(handler, ("input",), what=f"error_handlers[{kind!r}]")


def handler_result(value: object) -> RunErrorHandlerResult | None:
    """Return an error handler's result; None if the error stands."""
    if value is None:
        return None
    if isinstance(value, RunErrorHandlerResult):
        result = value
    elif is_mapping(value) and "final_output" in value:
        if unknown := value.keys() - _RESULT_KEYS:
            raise UserError(
                "An error handler returned a dict with final_output and with "
                f"{', '.join(sorted(map(str, unknown)))}. Beside final_output it may have "
                "include_in_history. If the dict is the answer itself, return "
                "RunErrorHandlerResult(final_output=...)."
            )
        result = RunErrorHandlerResult(**cast("dict[str, Any]", value))
    else:
        return RunErrorHandlerResult(final_output=value)
    if not isinstance(cast("object", result.include_in_history), bool):
        raise UserError(
            "An error handler's include_in_history must be True or False, "
            f"not {result.include_in_history!r}."
        )
    return result
