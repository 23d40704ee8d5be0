"""Failed runs as a program sees them: what was done up to the failure, and answering it.

Owns: the record of a failed run, and what users hand over as `error_handlers`. Must not know:
when a handler is called, or what follows from its result.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypedDict, cast

from outlast.agents.callables import check_callable
from outlast.agents.context.wrapper import RunContextWrapper, TContext
from outlast.agents.errors import (
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    UserError,
)
from outlast.agents.guardrails.guardrail import InputGuardrailResult, OutputGuardrailResult
from outlast.agents.guardrails.tool_guardrails import (
    ToolInputGuardrailResult,
    ToolOutputGuardrailResult,
)
from outlast.loop.values import JsonObject


@dataclass
class RunErrorDetails:
    """The run up to its failure, as `error.run_data` holds it.

    Attributes:
        input: what the run was asked.
        new_items: what the run has added to it.
        raw_responses: what the models answered.
        last_agent: the agent that was at work.
        context_wrapper: the run's context and usage.
        input_guardrail_results: what input guardrails found; of a tripwire too.
        output_guardrail_results: what output guardrails found; of a tripwire too.
        tool_input_guardrail_results: what tool input guardrails found.
        tool_output_guardrail_results: what tool output guardrails found.
    """

    input: str | list[JsonObject]
    new_items: list[Any]
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
        input: what the run was asked.
        new_items: what the run has added to it.
        history: the input and what was added, as items.
        output: what was added, as items.
        raw_responses: what the models answered.
        last_agent: the agent that was at work.
    """

    input: str | list[JsonObject]
    new_items: list[Any]
    history: list[JsonObject]
    output: list[JsonObject]
    raw_responses: list[Any]
    last_agent: Any


@dataclass
class RunErrorHandlerInput(Generic[TContext]):
    """The argument of an error handler.

    Attributes:
        error: why the run cannot go on.
        context: the run's context.
        run_data: the run so far.
    """

    error: MaxTurnsExceeded | ModelRefusalError | ModelBehaviorError
    context: RunContextWrapper[TContext]
    run_data: RunErrorData


@dataclass
class RunErrorHandlerResult:
    """The answer that an error handler returns in place of the error.

    Attributes:
        final_output: the answer; of the agent's output type, where it has one.
        include_in_history: whether the answer becomes an item of the run and of its session.
    """

    final_output: Any
    include_in_history: bool = True


RunErrorHandler: TypeAlias = Callable[[RunErrorHandlerInput[TContext]], Any | Awaitable[Any]]
"""A function that answers instead of failing; sync or async.

Called with (input); returns a `RunErrorHandlerResult`, a dict with `final_output`, a bare final
output, or None to let the error stand.
"""


class RunErrorHandlers(TypedDict, Generic[TContext], total=False):
    """The error handlers of a run, by the kind of failure.

    Attributes:
        max_turns: the run took as many model calls as it may.
        model_refusal: the model refused to answer.
        invalid_final_output: the answer does not fit the agent's output type.
    """

    max_turns: RunErrorHandler[TContext]
    model_refusal: RunErrorHandler[TContext]
    invalid_final_output: RunErrorHandler[TContext]


_KINDS = tuple(RunErrorHandlers.__annotations__)
_RESULT_KEYS = {"final_output", "include_in_history"}


def check_error_handlers(handlers: object) -> None:
    """Refuse what cannot be the error handlers of a run. None is no handlers.

    Raises:
        UserError: it is no dict, has an unknown key, or a handler cannot be called with (input).
    """
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
    """Return what an error handler has decided; None means that the error stands.

    Args:
        value: what the handler returned. A dict without `final_output` is a final output itself.

    Raises:
        UserError: a dict with `final_output` has keys that mean nothing, or values that do not fit.
    """
    if value is None:
        return None
    if isinstance(value, RunErrorHandlerResult):
        result = value
    elif isinstance(value, Mapping) and "final_output" in value:
        fields = cast("Mapping[str, Any]", value)
        if unknown := fields.keys() - _RESULT_KEYS:
            raise UserError(
                "An error handler returned a dict with final_output and with "
                f"{', '.join(sorted(map(str, unknown)))}. Beside final_output it may have "
                "include_in_history. If the dict is the answer itself, return "
                "RunErrorHandlerResult(final_output=...)."
            )
        result = RunErrorHandlerResult(**fields)
    else:
        return RunErrorHandlerResult(final_output=value)
    if not isinstance(cast("object", result.include_in_history), bool):
        raise UserError(
            "An error handler's include_in_history must be True or False, "
            f"not {result.include_in_history!r}."
        )
    return result
