"""A realtime session's part of a model call: the agent's settings, and the plan of a reply.

A realtime line calls no model: the session answers by itself. So the two halves of the model
activity run at different times here, before the session starts and after each of its responses.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from outlast.activities.effects.call_model import (
    instructions_of,
    invocation_of,
    planned_reply,
    stored_prompt_of,
)
from outlast.activities.errors import lacking
from outlast.activities.invocation import Invocation
from outlast.activities.planning.offered_tools import OfferedTools, offered_tools
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.errors import UserError
from outlast.agents.usage import plain_usage
from outlast.loop.calls import ModelReply
from outlast.loop.checks import RequiredStep
from outlast.loop.effects import CallModel
from outlast.loop.items import Item
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelResponse

ALREADY_SPOKEN: Final[frozenset[RequiredStep]] = frozenset({"finalize_answer", "check_output"})
"""The steps that would hold back an answer. The caller has heard it already."""


@dataclass(frozen=True)
class LiveAgent:
    """The active agent, as a realtime session needs it."""

    invocation: Invocation
    offer: OfferedTools
    instructions: str | None
    prompt: JsonObject | None


async def live_agent(worker: WorkerDeps, effect: CallModel) -> LiveAgent:
    """Return the active agent with its instructions, tools and handoffs for this context.

    `effect` is the model call that the session stands for.

    Raises:
        EffectError: this process lacks the agent, or user code failed.
    """
    invocation = await _invocation(worker, effect)
    return LiveAgent(
        invocation,
        await offered_tools(invocation),
        await instructions_of(invocation),
        await stored_prompt_of(invocation),
    )


async def live_reply(
    worker: WorkerDeps,
    effect: CallModel,
    history: Sequence[Item],
    response: ModelResponse,
    *,
    model: str,
) -> ModelReply:
    """Return the reply of a realtime session, with the plan of its calls.

    Output guardrails have checked the transcript while the model spoke, and no hook may hold the
    answer back, so the loop takes it as it is. `effect` is the model call that the reply answers,
    and `history` are the items before it.

    Raises:
        EffectError: this process lacks the agent, or user code failed before the plan.
    """
    invocation = await _invocation(worker, effect)
    offer = await offered_tools(invocation)
    usage = plain_usage(response.usage)
    reply = await planned_reply(invocation, history, offer, response, model, usage=usage)
    steps = tuple(step for step in reply.required_steps if step not in ALREADY_SPOKEN)
    return replace(reply, required_steps=steps)


async def _invocation(worker: WorkerDeps, effect: CallModel) -> Invocation:
    try:
        live = await worker.with_live_values(effect.context)
    except UserError as error:
        raise lacking(str(error)) from error
    invocation = invocation_of(live, effect)
    invocation.is_live = True
    return invocation
