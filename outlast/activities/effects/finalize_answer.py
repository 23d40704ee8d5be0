"""Carries out `FinalizeAnswer`: everything between a candidate and the answer.

In order: a rule judges the tools' outputs, or a handler turns a failure into an answer; the end
hooks run, then the output guardrails; in a nested run, `custom_output_extractor` makes the tool's
output.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import (
    EffectError,
    failure_of,
    is_retryable,
    lacking,
    of_user_code,
    user_code,
    worker_lookup,
)
from outlast.activities.guardrails.parallel import run_guardrails
from outlast.activities.guardrails.tool_checks import ToolCheck, check_result
from outlast.activities.guardrails.tripwires import (
    guardrail_result_of,
    tripwire,
    withheld,
    without_payload,
)
from outlast.activities.invocation import Invocation
from outlast.activities.nested_stream import NestedStream
from outlast.activities.parent_call import ParentCall
from outlast.activities.planning.mcp_listing import listed_tool
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.agent_tools.nested_result import AgentToolInvocation, AgentToolResult
from outlast.agents.callables import call
from outlast.agents.config.run_error import RunErrorData, RunErrorHandlerInput, handler_result
from outlast.agents.errors import (
    AgentsException,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    ModelBehaviorError,
    ModelRefusalError,
    OutputGuardrailTripwireTriggered,
    UserError,
)
from outlast.agents.hooks import call_hooks
from outlast.agents.items.forms import run_item
from outlast.agents.items.raw_items import copies
from outlast.agents.items.tool_output import decode_output
from outlast.agents.schemas.agent_output import (
    model_text_of,
    output_schema_of,
    read_output,
    write_output,
)
from outlast.agents.tools.use_behavior import FunctionToolResult, ToolsToFinalOutputFunction, judge
from outlast.contract import failures, policies
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import FUNCTION, output_item
from outlast.loop.checks import (
    ENDS_CALLER,
    Candidate,
    FinalizedAnswer,
    GuardrailRecord,
    ToolOutcome,
)
from outlast.loop.effects import FinalizeAnswer
from outlast.loop.items import Item, last_words
from outlast.loop.phrases import as_text
from outlast.loop.values import Failure, Json, JsonObject
from outlast.tracing.effect_spans import leave_turn

_HANDLED: dict[str, tuple[str, type[AgentsException]]] = {
    failures.MAX_TURNS_EXCEEDED: ("max_turns", MaxTurnsExceeded),
    failures.MODEL_REFUSAL: ("model_refusal", ModelRefusalError),
    failures.INVALID_OUTPUT: ("invalid_final_output", ModelBehaviorError),
}
"""By the code of a failure: the key of its handler, and the error that the handler gets."""

_BEFORE_THE_MODEL = failures.MAX_TURNS_EXCEEDED
"""The failure of a nested run that no further model call follows, to stream the outputs."""


@dataclass(kw_only=True)
class _Output:
    """A candidate in progress: its JSON, its value for user code, and its origin."""

    json: Json
    value: Any
    replaced: bool = False
    message: JsonObject | None = None


async def finalize_answer(
    worker: WorkerDeps, request: EffectRequest[FinalizeAnswer], attempt: Attempt = FIRST
) -> FinalizedAnswer:
    """Finalize an answer.

    Raises:
        EffectError: user code failed.
    """
    invocation = Invocation.of(worker, request.effect)
    is_last = attempt.number >= policies.CHECK.attempts
    async with NestedStream(invocation, request.effect) as stream:
        return await _finalize(invocation, request, stream, is_last=is_last)


async def _finalize(
    invocation: Invocation,
    request: EffectRequest[FinalizeAnswer],
    stream: NestedStream,
    *,
    is_last: bool,
) -> FinalizedAnswer:
    candidate, parent_call = request.effect.candidate, invocation.parent_call
    if candidate.failure is not None:
        if candidate.failure.code == _BEFORE_THE_MODEL:
            await stream.outputs(request.items)
        if parent_call is not None:
            return await _failed_tool(invocation, parent_call, candidate.failure)
    output = await _output(invocation, candidate, request)
    if output is None:
        failed = candidate.failure
        declined = failed is not None and failed.details != failures.EMPTY_ANSWER
        return FinalizedAnswer(final=False, declined=declined, changes=invocation.changes())
    records, failure = await _end_and_check(invocation, output, request, stream)
    blocked = next((record.name for record in records if record.tripped), None)
    placeholder = None if blocked is None else withheld(invocation, blocked)
    if placeholder is not None and candidate.tool_made:
        records = without_payload(records, placeholder)
        failure = tripwire(invocation, records)
    if failure is None and parent_call is not None:
        tool = parent_call.tool
        if tool.custom_output_extractor is not None:
            nested = _nested_result(invocation, parent_call, output.value, request)
            try:
                text = str(await call(tool.custom_output_extractor, nested))
            except Exception as error:  # user code
                if tool.failure_error_function and (is_last or not is_retryable(error)):
                    read = await _failure_output(invocation, parent_call, error)
                    return replace(read, results=(*records, *read.results))
                what = f"custom_output_extractor of the tool {tool.name!r}"
                raise of_user_code(what, error) from error
            output = replace(output, json=text, replaced=True)
        silent = not records and output.json in (None, "")
        result = last_words(request.items) if silent else output.json
        ended = await end_call(invocation, parent_call, as_text(result))
        records, failure = [*records, *ended.records], ended.failure
        if ended.message is not None:
            output = replace(output, json=ended.message, replaced=True)
    elif (
        failure is not None and parent_call is not None and parent_call.tool.failure_error_function
    ):
        read = await _failed_tool(invocation, parent_call, failure)
        return replace(read, results=(*records, *read.results))
    return FinalizedAnswer(
        output=output.json if output.replaced else None,
        replaced=output.replaced,
        message=output.message if blocked is None else None,
        results=tuple(records),
        failure=failure,
        withheld=placeholder,
        changes=invocation.changes(),
    )


async def _end_and_check(
    invocation: Invocation,
    output: _Output,
    request: EffectRequest[FinalizeAnswer],
    stream: NestedStream,
) -> tuple[list[GuardrailRecord], Failure | None]:
    candidate, has_guardrails = request.effect.candidate, bool(invocation.output_guardrails())
    if candidate.tool_made and not has_guardrails:
        await stream.outputs(request.items)
    await invocation.call_agent_hooks(
        "on_agent_end",
        "on_end",
        output.value,
        turn_input=lambda: copies(item.raw for item in _parts(request)[0]),
    )
    leave_turn()
    records, failure = await _check(invocation, output)
    if has_guardrails and failure is None:
        stream_answer = stream.outputs if candidate.tool_made else stream.checked_answer
        await stream_answer(request.items)
    if failure is None:
        await invocation.call_run_hook("on_run_end", output.value)
    return records, failure


async def _output(
    invocation: Invocation, candidate: Candidate, request: EffectRequest[FinalizeAnswer]
) -> _Output | None:
    if candidate.outcomes:
        return await _apply_tool_use_behavior(invocation, candidate)
    if candidate.failure is not None:
        return await _call_error_handler(invocation, candidate.failure, request)
    return _Output(json=candidate.output, value=_value(invocation, candidate))


async def _apply_tool_use_behavior(invocation: Invocation, candidate: Candidate) -> _Output | None:
    every = [await _tool_result(invocation, outcome) for outcome in candidate.outcomes]
    results = [result for result in every if result.tool.form == FUNCTION]
    if not results:
        return None
    rule = cast("ToolsToFinalOutputFunction", invocation.agent.tool_use_behavior)
    owner = f"Agent {invocation.agent.name!r}"
    with user_code(f"tool_use_behavior of agent {invocation.agent.name!r}"):
        verdict = await judge(rule, invocation.wrapper, results, owner=owner)
        if not verdict.is_final_output:
            return None
        written, value = invocation.tool_answer(verdict.final_output)
        return _Output(json=written, value=value, replaced=True)


async def _tool_result(invocation: Invocation, outcome: ToolOutcome) -> FunctionToolResult:
    try:
        tool = invocation.worker.registry.tool(invocation.agent_name, outcome.name)
    except UserError as error:
        tool, _ = await listed_tool(invocation, outcome.name)
        if tool is None:
            raise lacking(str(error)) from error
    raw = output_item(outcome.call_id, outcome.output, tool.form)
    item = run_item(Item("tool_output", raw, invocation.agent_name), _finder(invocation))
    value = outcome.output if outcome.value is None else outcome.value
    typed = decode_output(value, tool.result_type)
    return FunctionToolResult(tool=tool, output=typed, run_item=item)


async def _call_error_handler(
    invocation: Invocation, failure: Failure, request: EffectRequest[FinalizeAnswer]
) -> _Output | None:
    if failure.code not in _HANDLED:
        return None
    kind, _ = _HANDLED[failure.code]
    name = invocation.error_handler(kind)
    if name is None:
        return None
    what = f"The error handler for {kind}"
    handler_input = RunErrorHandlerInput[Any](
        error=cast("Any", _error_of(failure)),
        context=invocation.wrapper,
        run_data=_run_data(invocation, request),
    )
    answer = await _call(what, invocation.named(name), handler_input)
    try:
        result = handler_result(answer)
        if result is None:
            return None
        schema = output_schema_of(invocation.agent.output_type)
        written = write_output(schema, result.final_output)
        value = read_output(schema, written)
    except Exception as error:  # a schema may be the user's own class
        raise EffectError(
            failures.USER_ERROR, f"{what} returned no valid answer: {error}", retryable=False
        ) from error
    message = _message(model_text_of(schema, written)) if result.include_in_history else None
    return _Output(json=written, value=value, replaced=True, message=message)


async def _failed_tool(
    invocation: Invocation, parent_call: ParentCall, failure: Failure
) -> FinalizedAnswer:
    """Turn the failure of a nested run into the output for the parent's model.

    Neither error handlers nor output guardrails run: the tool's failure function decides.
    """
    if parent_call.tool.failure_error_function is None:
        return FinalizedAnswer(final=False, declined=True, changes=invocation.changes())
    error = _error_of(failure)
    if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
        error.guardrail_result = guardrail_result_of(invocation, failure)
    return await _failure_output(invocation, parent_call, error)


async def _failure_output(
    invocation: Invocation, parent_call: ParentCall, error: Exception
) -> FinalizedAnswer:
    function = parent_call.tool.failure_error_function
    what = f"failure_error_function of the tool {parent_call.tool.name!r}"
    text = str(await _call(what, function, parent_call.context(invocation.wrapper), error))
    ended = await end_call(invocation, parent_call, text)
    return FinalizedAnswer(
        output=text if ended.message is None else ended.message,
        replaced=True,
        results=ended.records,
        failure=ended.failure,
        changes=invocation.changes(),
    )


def _error_of(failure: Failure) -> AgentsException:
    if failure.code == failures.MODEL_REFUSAL:
        return ModelRefusalError(failure.message, refusal=failure.message)
    if failure.code in _HANDLED:
        return _HANDLED[failure.code][1](failure.message)
    kinds: list[type[AgentsException]] = [AgentsException]
    for kind in kinds:  # base classes come before their subclasses
        kinds.extend(kind.__subclasses__())
    return next(
        (error_class for error_class in kinds if error_class.code == failure.code), kinds[0]
    )(failure.message)


async def _check(
    invocation: Invocation, output: _Output
) -> tuple[list[GuardrailRecord], Failure | None]:
    """Run all output guardrails in parallel. A tripwire outranks an error."""
    checks = [
        (guardrail, partial(guardrail.run, invocation.wrapper, invocation.agent, output.value))
        for guardrail in invocation.output_guardrails()
    ]
    name = invocation.agent_name
    records, error = await run_guardrails(
        checks, stage="output", agent=name, output=output.json, stop_at_error=False
    )
    failure = failure_of(f"An output guardrail of agent {name!r}", error) if error else None
    return records, tripwire(invocation, records) or failure


def _value(invocation: Invocation, candidate: Candidate) -> Any:
    schema = output_schema_of(invocation.agent.output_type)
    if schema is None or candidate.tool_made:
        return candidate.output
    with worker_lookup():
        return read_output(schema, candidate.output)


def _run_data(invocation: Invocation, request: EffectRequest[FinalizeAnswer]) -> RunErrorData:
    history, own = _parts(request)
    return RunErrorData(
        input=invocation.as_input(history),
        new_items=[run_item(item, _finder(invocation)) for item in own],
        history=copies(item.raw for item in request.items),
        output=copies(item.raw for item in own),
        raw_responses=[],
        last_agent=invocation.agent,
    )


def _nested_result(
    invocation: Invocation, call: ParentCall, value: Any, request: EffectRequest[FinalizeAnswer]
) -> AgentToolResult:
    history, own = _parts(request)
    return AgentToolResult(
        input=invocation.as_input(history),
        new_items=[run_item(item, _finder(invocation)) for item in own],
        final_output=value,
        last_agent=invocation.agent,
        context_wrapper=invocation.wrapper,
        agent_tool_invocation=AgentToolInvocation(call.tool.name, call.call_id, call.arguments),
    )


def _parts(request: EffectRequest[FinalizeAnswer]) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    return request.items[: request.effect.history], request.items[request.effect.history :]


def _finder(invocation: Invocation) -> Callable[[str], Agent[Any]]:
    def find(name: str) -> Agent[Any]:
        with worker_lookup():
            return invocation.worker.registry.agent(name)

    return find


def _message(text: str) -> JsonObject:
    content: list[JsonObject] = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "status": "completed", "content": content}


async def _call(what: str, function: Any, *arguments: Any) -> Any:
    with user_code(what):
        return await call(function, *arguments)


async def end_call(invocation: Invocation, parent_call: ParentCall, result: str) -> ToolCheck:
    """Run the output guardrails of a tool call, and the parent's `on_tool_end` hooks.

    Raises:
        EffectError: a hook failed.
    """
    try:
        checked = await check_result(
            parent_call.tool, parent_call.context(invocation.wrapper), result
        )
    except Exception as error:  # noqa: BLE001  a guardrail that raises ends the run
        what = f"A guardrail of the tool {parent_call.tool.name!r}"
        checked = ToolCheck(failure=failure_of(what, error))
    if checked.failure is not None:
        details = {**(checked.failure.details or {}), ENDS_CALLER: True}
        return replace(checked, failure=replace(checked.failure, details=details))
    read = result if checked.message is None else checked.message
    with user_code(f"on_tool_end of agent {parent_call.agent.name!r}"):
        await call_hooks(*parent_call.hook_calls("on_tool_end", invocation.wrapper, read))
    return checked
