"""Answering `CallModel` and `PrepareRun`: ask an agent's model, and plan its reply.

Owns: what is asked of the model: instructions, offered tools and handoffs, settings. Knows no
Temporal and no provider.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from outlast.activities.errors import EffectError, of_model, of_user_code
from outlast.activities.plan import Offer, model_label, plan_reply
from outlast.activities.worker_knowledge import WorkerKnowledge
from outlast.agents.agent import Agent
from outlast.agents.callables import call
from outlast.agents.context import RunContextWrapper
from outlast.agents.context_codec import context_type_of
from outlast.agents.errors import UserError
from outlast.agents.handoff import NO_INPUT, Handoff
from outlast.agents.registry import handoffs_of, target_of
from outlast.agents.settings import read_model_settings
from outlast.agents.tool import FunctionTool
from outlast.contract import failures
from outlast.contract.records import ModelRequestRecord
from outlast.loop.calls import Briefing, ModelReply
from outlast.loop.commands import PrepareRun
from outlast.loop.values import Failure, JsonObject
from outlast.ports.model import Model, ModelError, ModelRequest, ModelResponse, ToolSpec

logger = logging.getLogger(__name__)


async def prepare_run(worker: WorkerKnowledge, request: PrepareRun) -> Briefing:
    """Look the starting agent up, before anything is paid for.

    Raises:
        EffectError: the worker does not know the agent, or the context does not fit.
    """
    settings = request.settings or {}
    try:
        agent = worker.registry.agent(request.agent)
        borrowed = worker.borrow(request.context, request.context_type, _annotated_type(agent))
    except UserError as error:
        raise EffectError(failures.USER_ERROR, str(error), retryable=False) from error
    return Briefing(
        model=model_label(settings.get("model") or agent.model),
        context=borrowed.value if request.context is None else None,
    )


async def call_model(worker: WorkerKnowledge, request: ModelRequestRecord) -> ModelReply:
    """Ask the agent's model about the conversation so far.

    User code that runs before the model is asked may fail and be retried. What fails after it is
    part of the reply, so that no retry pays twice.

    Raises:
        EffectError: user code or the provider failed before there was a reply.
    """
    asked = request.call
    settings = asked.settings or {}
    try:
        agent = worker.registry.agent(asked.agent)
        for entry in handoffs_of(agent):
            target_of(entry)  # found out now, and not when the model is paid
        borrowed = worker.borrow(asked.context, asked.context_type, _annotated_type(agent))
    except UserError as error:
        raise EffectError(failures.USER_ERROR, str(error), retryable=True) from error
    wrapper = RunContextWrapper[Any](
        context=borrowed.context, usage=asked.usage, run_id=asked.run_id, turn=asked.turn
    )
    instructions = await _instructions(agent, wrapper)
    offer = await _offer(agent, wrapper, settings)
    model_name = settings.get("model") or agent.model
    response = await _ask(
        _model(worker, model_name),
        ModelRequest(
            instructions=instructions,
            input=[item.raw for item in request.items],
            tools=_specs(offer),
            settings=agent.model_settings.resolve(
                read_model_settings(settings.get("model_settings"))
            ),
        ),
    )
    plan = await plan_reply(response.output, offer, request.items, wrapper)
    failure, changes = plan.failure, ()
    try:
        changes = borrowed.changes(wrapper)
    except UserError as error:
        failure = failure or Failure(code=failures.USER_ERROR, message=str(error))
    return ModelReply(
        items=plan.items,
        usage=response.usage,
        calls=plan.calls,
        final=plan.final,
        failure=failure,
        changes=changes,
        model=model_label(model_name),
        response_id=response.response_id,
    )


async def _instructions(agent: Agent[Any], wrapper: RunContextWrapper[Any]) -> str | None:
    if agent.instructions is None or isinstance(agent.instructions, str):
        return agent.instructions
    what = f"The instructions of agent {agent.name!r}"
    try:
        text: object = await call(agent.instructions, wrapper, agent)
    except Exception as error:
        raise of_user_code(what, error) from error
    if not isinstance(text, str):
        message = f"{what} returned {type(text).__name__} instead of a string."
        raise EffectError(failures.USER_ERROR, message, retryable=False)
    return text


async def _offer(agent: Agent[Any], wrapper: RunContextWrapper[Any], settings: JsonObject) -> Offer:
    """Return what is enabled now. A handoff beats a tool of its name; a later one an earlier."""
    tools, handoffs = await asyncio.gather(
        _enabled(agent, wrapper, {tool.name: tool for tool in agent.tools}),
        _enabled(agent, wrapper, {entry.tool_name: entry for entry in handoffs_of(agent)}),
    )
    for name in tools.keys() & handoffs.keys():
        logger.warning("agent %r: the handoff %r hides a tool of that name", agent.name, name)
    return Offer(
        tools={name: tool for name, tool in tools.items() if name not in handoffs},
        handoffs=handoffs,
        unknown_is_fatal=settings.get("tool_not_found_behavior") == "raise",
    )


async def _enabled(
    agent: Agent[Any], wrapper: RunContextWrapper[Any], entries: Mapping[str, Any]
) -> dict[str, Any]:
    async def is_enabled(name: str, entry: FunctionTool | Handoff) -> bool:
        if isinstance(entry.is_enabled, bool):
            return entry.is_enabled
        try:
            return bool(await call(entry.is_enabled, wrapper, agent))
        except Exception as error:
            raise of_user_code(f"is_enabled of {name!r} of agent {agent.name!r}", error) from error

    answers = await asyncio.gather(*(is_enabled(name, one) for name, one in entries.items()))
    return {name: one for (name, one), yes in zip(entries.items(), answers, strict=True) if yes}


def _specs(offer: Offer) -> list[ToolSpec]:
    tools = [
        ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=tool.params_json_schema,
            strict=tool.strict_json_schema,
        )
        for tool in offer.tools.values()
    ]
    handoffs = [
        ToolSpec(
            name=entry.tool_name,
            description=entry.tool_description,
            parameters=entry.input_json_schema or NO_INPUT,
        )
        for entry in offer.handoffs.values()
    ]
    return [*tools, *handoffs]


def _model(worker: WorkerKnowledge, model: Any) -> Model:
    if model is None or isinstance(model, str):
        try:
            return worker.models.get_model(model)
        except ModelError as error:
            raise of_model(error) from error
        except Exception as error:
            raise of_user_code(f"The model provider, asked for {model!r},", error) from error
    return model


async def _ask(model: Model, request: ModelRequest) -> ModelResponse:
    try:
        return await model.get_response(request)
    except ModelError as error:
        raise of_model(error) from error
    except Exception as error:
        raise of_user_code(f"The model {type(model).__name__}", error) from error


def _annotated_type(agent: Agent[Any]) -> Any:
    """The context type that the agent's own callables are annotated with, if any is."""
    entries: list[Callable[..., Any]] = []
    if callable(agent.instructions):
        entries.append(agent.instructions)
    entries.extend(
        entry.is_enabled
        for entry in [*agent.tools, *handoffs_of(agent)]
        if callable(entry.is_enabled)
    )
    types = (context_type_of(entry) for entry in entries)
    tools = (tool.context_type for tool in agent.tools)
    return next((one for one in (*types, *tools) if one is not None), None)
