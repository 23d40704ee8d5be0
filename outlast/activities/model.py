"""Carries out `CallModel`: calls an agent's model, and plans its reply.

In order: start hooks, the agent's tools, instructions and prompt, the input filter, the model call
between its hooks, the plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from outlast.activities.carry_out import FIRST, Attempt
from outlast.activities.errors import EffectError, failure_of, lacking, of_model, of_user_code
from outlast.activities.inner_spans import asking
from outlast.activities.invocation import Invocation
from outlast.activities.model_response import ask
from outlast.activities.nested_stream import NestedStream, nested_events
from outlast.activities.offered_tools import OfferedTools, offered_tools
from outlast.activities.plan import Plan, model_label, plan_reply
from outlast.activities.plan_callbacks import servers_away
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.callables import call
from outlast.agents.config.model_settings import ModelSettings
from outlast.agents.config.run_config import CallModelData, ModelInputData
from outlast.agents.config.session_input import deduplicated, without_unanswered
from outlast.agents.config.settings import MODEL_REF, read_model_settings, read_tool_execution
from outlast.agents.context.codec import context_type_of
from outlast.agents.context.wrapper import show_turn
from outlast.agents.errors import UserError
from outlast.agents.hooks import AgentHookContext, call_hooks
from outlast.agents.items.raw_items import as_input, copies
from outlast.agents.prompt import prompt_of
from outlast.agents.registry import handoffs_of, target_of
from outlast.agents.schemas.agent_output import output_schema_of
from outlast.agents.tools.hosted import function_tools
from outlast.agents.tools.use_behavior import JUDGED
from outlast.agents.usage import plain_usage
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.contract.names import SETTING_STREAM
from outlast.loop.call_forms import FUNCTION, form_of
from outlast.loop.calls import ModelReply
from outlast.loop.checks import INPUT_CHECKS
from outlast.loop.effects import CallModel
from outlast.loop.items import Item
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import (
    Model,
    ModelError,
    ModelProvider,
    ModelRequest,
    ModelResponse,
    OutputSpec,
)
from outlast.ports.model_arguments import CallObjects, ModelTracing, output_spec
from outlast.ports.run_response import RunResponse
from outlast.tracing.provider import get_current_span


async def call_model(
    worker: WorkerDeps,
    request: EffectRequest[CallModel],
    attempt: Attempt = FIRST,
) -> ModelReply:
    """Call the agent's model with the conversation so far.

    User code before the model call may fail and be retried. A failure after the call is part of the
    reply, so that no retry pays twice.

    Args:
        worker: the worker's definitions.
        request: the model call.
        on_event: receives the raw events, if the run streams.
        attempt: the attempt.

    Raises:
        EffectError: user code or the provider failed before there was a reply.
    """
    effect = request.effect
    invocation = _invocation(worker, effect)
    if _has_new_checks(invocation, effect):
        return ModelReply(items=(), required_steps=invocation.required_steps(), unchecked=True)
    async with nested_events(invocation, effect) as stream:
        await stream.turn(effect, request.items, attempt=attempt.number)
        reply = await _answered(invocation, request, stream, attempt)
        await stream.reply(effect, reply)
    return reply


def _has_new_checks(invocation: Invocation, effect: CallModel) -> bool:
    """Whether the agent has kinds of input guardrails that did not run for the question.

    A conversation may be open for days: its required steps may date from before a deploy.
    """
    return effect.turn == 1 and not INPUT_CHECKS.intersection(invocation.required_steps()) <= {
        *effect.required_steps
    }


async def _answered(
    invocation: Invocation,
    request: EffectRequest[CallModel],
    stream: NestedStream,
    attempt: Attempt,
) -> ModelReply:
    """Call the model, and plan its reply."""
    effect = request.effect
    show_turn(invocation.wrapper, _question(request))
    if effect.starts:
        await _start(invocation)
    offer = await offered_tools(invocation, attempt=attempt.number)
    model_request = await _request(invocation, effect, offer, _shown(invocation, request.items))
    model, label = _model_of(invocation)
    calls = invocation.hook_calls(
        "on_llm_start",
        "on_llm_start",
        invocation.wrapper,
        invocation.agent,
        model_request.instructions,
        list(model_request.input),
    )
    await _hooks("on_llm_start", invocation, calls)
    streams = attempt.on_event if invocation.settings.get(SETTING_STREAM) is True else None
    with asking(label, model_request) as answered:
        response = await ask(
            model,
            model_request,
            streams,
            stream,
            of=invocation.agent.name,
            objects=_objects(invocation, offer),
        )
        answered(response)
    reply = await _reply(invocation, request, offer, response, label)
    keeps_usage = model_request.settings.preserve_raw_usage is True
    return replace(reply, raw_usage=response.raw_usage) if keeps_usage else reply


def _question(request: EffectRequest[CallModel]) -> list[JsonObject]:
    """Return the input of the question: the items before those that the run added."""
    items = request.items[: request.effect.history]
    if not request.effect.starts:  # only a starting agent's call has the number
        inputs = (at for at, item in enumerate(items, 1) if item.kind in {"input", "history"})
        items = items[: max(inputs, default=0)]
    return [item.raw for item in items]


def _invocation(worker: WorkerDeps, effect: CallModel) -> Invocation:
    try:
        agent = worker.registry.agent(effect.agent)
        for entry in handoffs_of(agent):
            if not entry.picks_agent:
                target_of(entry)  # fails now, before the model call is paid for
    except UserError as error:
        raise lacking(str(error)) from error
    invocation = Invocation.of(worker, effect, annotated_type(agent))
    invocation.server_managed = effect.conversation_id is not None or effect.chained
    invocation.decided = effect.decided
    return invocation


async def _start(invocation: Invocation) -> None:
    """Call the start hooks, which may still change the agent."""
    if not invocation.hooked("on_agent_start", "on_start"):
        return
    context = AgentHookContext[Any](
        context=invocation.wrapper.context,
        usage=invocation.usage,
        run_id=invocation.run_id,
        turn=invocation.turn,
        turn_input=invocation.wrapper.turn_input,
        tool_input=invocation.wrapper.tool_input,
    )
    calls = invocation.hook_calls("on_agent_start", "on_start", context, invocation.agent)
    await _hooks("on_agent_start", invocation, calls)
    invocation.wrapper.context = context.context


async def _hooks(step: str, invocation: Invocation, calls: list[Any]) -> None:
    try:
        await call_hooks(*calls)
    except Exception as error:
        raise of_user_code(f"{step} of agent {invocation.agent.name!r}", error) from error


async def _request(
    invocation: Invocation, effect: CallModel, offer: OfferedTools, items: list[JsonObject]
) -> ModelRequest:
    """Return the model request, after the run's input filter."""
    if callable(invocation.agent.prompt):
        instructions, prompt = await asyncio.gather(_instructions(invocation), _prompt(invocation))
    else:
        instructions, prompt = await _instructions(invocation), await _prompt(invocation)
    instructions = _with_servers_away(instructions, offer)
    data = await _filtered(invocation, ModelInputData(input=items, instructions=instructions))
    settings = invocation.agent.model_settings.resolve(
        read_model_settings(invocation.settings.get("model_settings"))
    )
    resets = effect.tools_used and invocation.agent.reset_tool_choice
    if settings.tool_choice is not None and (resets or _forces_missing(settings, offer)):
        settings = replace(settings, tool_choice=None)
    return ModelRequest(
        instructions=data.instructions,
        input=deduplicated(data.input),
        tools=offer.specs(),
        hosted_tools=offer.entries(),
        output=_output(invocation.agent),
        settings=settings,
        previous_response_id=effect.previous_response_id,
        conversation_id=effect.conversation_id,
        prompt=prompt,
    )


async def _instructions(invocation: Invocation) -> str | None:
    agent = invocation.agent
    if agent.instructions is None or isinstance(agent.instructions, str):
        return agent.instructions
    what = f"The instructions of agent {agent.name!r}"
    try:
        text: object = await call(agent.instructions, invocation.wrapper, agent)
    except Exception as error:
        raise of_user_code(what, error) from error
    if not isinstance(text, str):
        message = f"{what} returned {type(text).__name__} instead of a string."
        raise EffectError(failures.USER_ERROR, message, retryable=False)
    return text


def _with_servers_away(instructions: str | None, offer: OfferedTools) -> str | None:
    """Add the unavailable servers to the instructions, so that the model does not guess."""
    if not offer.away:
        return instructions
    notice = f"{servers_away(offer.away)} If they are needed, say so instead of guessing."
    return notice if not instructions else f"{instructions}\n\n{notice}"


def _forces_missing(settings: ModelSettings, offer: OfferedTools) -> bool:
    """Whether tool_choice names a tool of an unavailable server, which a provider would refuse."""
    if not offer.away or settings.tool_choice in {"auto", "none"}:
        return False
    if settings.tool_choice == "required":
        return not (offer.specs() or offer.entries())
    return isinstance(settings.tool_choice, str) and settings.tool_choice not in {
        *offer.tools,
        *offer.handoffs,
        *offer.hosted_kinds(),
    }


async def _prompt(invocation: Invocation) -> JsonObject | None:
    try:
        return await prompt_of(invocation.agent.prompt, invocation.wrapper, invocation.agent)
    except Exception as error:
        raise of_user_code(f"The prompt of agent {invocation.agent.name!r}", error) from error


def _output(agent: Agent[Any]) -> OutputSpec | None:
    """Return the output type for the provider."""
    try:
        return output_spec(output_schema_of(agent.output_type))
    except Exception as error:  # a schema may be the user's own class
        raise of_user_code(f"The output type of agent {agent.name!r}", error) from error


def _shown(invocation: Invocation, items: Sequence[Item]) -> list[JsonObject]:
    """Return the items as input, without the ids of reasoning if the run omits them.

    Calls without an output, because a handoff's filter dropped it or the provider sent none, are
    left out: providers refuse them. The caller's own items stay unchanged. User code gets copies:
    its changes affect the request, and not the run.
    """
    omits = invocation.settings.get("reasoning_item_id_policy") == "omit"
    shown = [
        {name: value for name, value in as_input(item.raw).items() if name != "id"}
        if omits and item.kind != "input" and item.raw.get("type") == "reasoning"
        else as_input(item.raw)
        for item in items
    ]
    if not invocation.server_managed:
        own = (item.kind not in {"input", "history"} for item in items)
        shown = without_unanswered(zip(shown, own, strict=True))
    seen = invocation.reference("call_model_input_filter") is not None
    return copies(shown) if seen or invocation.hooked("on_llm_start", "on_llm_start") else shown


async def _filtered(invocation: Invocation, data: ModelInputData) -> ModelInputData:
    chosen = invocation.reference("call_model_input_filter")
    if chosen is None:
        return data
    what = "call_model_input_filter"
    copied = ModelInputData(input=list(data.input), instructions=data.instructions)
    call_data = CallModelData[Any](
        model_data=copied, agent=invocation.agent, context=invocation.wrapper.context
    )
    try:
        changed: object = await call(chosen, call_data)
    except Exception as error:
        raise of_user_code(what, error) from error
    if not isinstance(changed, ModelInputData):
        message = f"{what} returned {type(changed).__name__}: return ModelInputData(...)."
        raise EffectError(failures.USER_ERROR, message, retryable=False)
    _check_filtered(changed.input, changed.instructions, what)
    return changed


def _check_filtered(items: object, instructions: object, what: str) -> None:
    """Refuse input that cannot be sent.

    Raises:
        EffectError: the items or the instructions have the wrong type.
    """
    is_list = isinstance(items, list | tuple)
    if not is_list or not all(isinstance(one, dict) for one in cast("list[object]", items)):
        wrong, fits = cast("object", items), "input= is a list of input items (dicts)"
    elif instructions is not None and not isinstance(instructions, str):
        wrong, fits = instructions, "instructions= is a string or None"
    else:
        return
    message = f"{what} returned ModelInputData with {wrong!r:.80}: {fits}."
    raise EffectError(failures.USER_ERROR, message, retryable=False)


def _model_of(invocation: Invocation) -> tuple[Model, str]:
    """Return the model and its name for people; the run's model outranks the agent's."""
    model: Any = (
        invocation.reference(MODEL_REF)
        or invocation.settings.get("model")
        or invocation.agent.model
    )
    if model is not None and not isinstance(model, str):
        return model, model_label(model)
    provider: ModelProvider = invocation.reference("model_provider") or invocation.worker.models
    try:
        found = cast("object", provider.get_model(model))
    except ModelError as error:
        raise of_model(error) from error
    except Exception as error:
        raise of_user_code(f"The model provider, asked for {model!r},", error) from error
    if not callable(getattr(found, "get_response", None)):
        message = (
            f"The model provider {type(provider).__name__}, asked for {model!r} of agent "
            f"{invocation.agent.name!r}, returned {type(found).__name__}: get_model must return a "
            "model, which is an object with get_response."
        )
        raise EffectError(failures.USER_ERROR, message, retryable=False)
    return cast("Model", found), model_label(model)


def _objects(invocation: Invocation, offer: OfferedTools) -> CallObjects:
    """Return the arguments of models that take them as objects."""
    span = get_current_span()
    if span is None or not span.is_recorded:
        tracing = ModelTracing.DISABLED
    elif invocation.settings.get("trace_include_sensitive_data") is False:
        tracing = ModelTracing.ENABLED_WITHOUT_DATA
    else:
        tracing = ModelTracing.ENABLED
    return CallObjects(
        tools=[*offer.tools.values(), *offer.hosted],
        handoffs=[*offer.handoffs.values()],
        output_schema=output_schema_of(invocation.agent.output_type),
        tracing=tracing,
    )


async def _reply(
    invocation: Invocation,
    request: EffectRequest[CallModel],
    offer: OfferedTools,
    response: ModelResponse,
    label: str,
) -> ModelReply:
    """Return the reply with its plan. The model is paid, so nothing raises from here on."""
    invocation.usage.add(response.usage)  # user code after the call sees its usage
    plan = await plan_reply(response.output, offer, request.items, invocation)
    failure, changes = await _after(invocation, plan, response), ()
    try:
        changes = invocation.changes()
    except EffectError as error:
        failure = failure or Failure(code=error.code, message=error.message)
    return ModelReply(
        items=plan.items,
        usage=plain_usage(response.usage),
        calls=plan.calls,
        final=plan.final,
        value=plan.value,
        failure=failure,
        changes=changes,
        model=label,
        response_id=response.response_id,
        request_id=response.request_id,
        required_steps=invocation.required_steps(),
        judged=plan.ends_with == JUDGED,
        checks=plan.checks,
        parallel=_at_once(invocation, plan),
    )


def _at_once(invocation: Invocation, plan: Plan) -> int | None:
    """Return how many calls may run in parallel; one if several use the same machine.

    A model that writes two patches or commands expects them to run in order.
    """
    forms = [form_of(plan.items[call.item]) for call in plan.calls]
    if any(form != FUNCTION and forms.count(form) > 1 for form in forms):
        return 1
    return read_tool_execution(invocation.settings).max_function_tool_concurrency


async def _after(invocation: Invocation, plan: Plan, response: ModelResponse) -> Failure | None:
    """Call the hooks after the model call, and return why the run cannot go on, if so."""
    if not plan.reuses_call_id:
        seen = RunResponse.of(response)
        calls = invocation.hook_calls(
            "on_llm_end", "on_llm_end", invocation.wrapper, invocation.agent, seen
        )
        try:
            await call_hooks(*calls)
        except Exception as error:  # noqa: BLE001  a hook's error fails the run without a retry
            what = f"on_llm_end of agent {invocation.agent.name!r}"
            return plan.failure or failure_of(what, error)
    return plan.failure


def annotated_type(agent: Agent[Any]) -> Any:
    """Return the context type that the agent's callables are annotated with, if any."""
    entries: list[Callable[..., Any]] = []
    if callable(agent.instructions):
        entries.append(agent.instructions)
    entries.extend(
        entry.is_enabled
        for entry in [*function_tools(agent.tools), *handoffs_of(agent)]
        if callable(entry.is_enabled)
    )
    types = (context_type_of(entry) for entry in entries)
    return next((one for one in types if one is not None), None)
