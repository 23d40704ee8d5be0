"""Answering `RunHandoff`: a handoff's callback, its hooks, and what the next agent sees.

Owns: the order of these, and the request of a filter. Knows no Temporal.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from outlast.activities.carry_out import FIRST, Attempt
from outlast.activities.errors import EffectError, lacking, of_user_code
from outlast.activities.invocation import Invocation
from outlast.activities.nested_stream import telling
from outlast.activities.plan import model_label
from outlast.activities.worker_deps import WorkerDeps
from outlast.agents.agent import Agent
from outlast.agents.callables import call
from outlast.agents.context.codec import context_type_of
from outlast.agents.errors import UserError
from outlast.agents.handoffs.edit import HandoffView, edit_of, handoff_view
from outlast.agents.handoffs.handoff import Handoff
from outlast.agents.handoffs.history import nest_handoff_history
from outlast.agents.hooks import HookCall, call_hooks
from outlast.agents.items.forms import run_item
from outlast.contract import failures
from outlast.contract.effects import EffectRequest
from outlast.loop.call_forms import output_item
from outlast.loop.calls import HandoffResult
from outlast.loop.effects import RunHandoff
from outlast.loop.items import Item
from outlast.loop.phrases import handed_over
from outlast.loop.values import JsonObject
from outlast.loop.view import ViewEdit


async def run_handoff(
    worker: WorkerDeps, request: EffectRequest[RunHandoff], attempt: Attempt = FIRST
) -> HandoffResult:
    """Run what a handoff has to run: callback, hooks, and then the filter.

    Raises:
        EffectError: user code failed, or the model's input does not fit.
    """
    del attempt
    asked, items = request.effect, request.items
    try:
        entry = worker.registry.handoff(asked.agent, asked.name, asked.target)
    except UserError as error:
        raise lacking(str(error)) from error
    annotated = context_type_of(entry.on_handoff) if entry.on_handoff is not None else None
    invocation = Invocation.of(worker, asked, annotated)
    async with telling(invocation, asked) as told:
        result, target = await _handed_over(invocation, entry, asked, items)
        await told.handoff(asked, items, target.name)
    return result


async def _handed_over(
    invocation: Invocation, entry: Handoff, asked: RunHandoff, items: Sequence[Item]
) -> tuple[HandoffResult, Agent[Any]]:
    """Run what there is to run, and return what it came to, and who takes over."""
    what = f"on_handoff of {asked.name!r} of agent {asked.agent!r}"
    bound_seconds = asked.policy.timeout_ms / 1000
    bound = asyncio.timeout(bound_seconds)
    try:
        async with bound:
            target = await _target(invocation, entry, asked)
            what = f"A hook of {asked.name!r} of agent {asked.agent!r}"
            await call_hooks(
                HookCall(
                    invocation.run_hooks, "on_handoff", invocation.wrapper, invocation.agent, target
                ),
                HookCall(
                    invocation.agent.hooks,
                    "on_handoff",
                    invocation.wrapper,
                    target,
                    invocation.agent,
                ),
            )
            what = f"The input filter of {asked.name!r} of agent {asked.agent!r}"
            edit = None
            if asked.input_length is not None:
                edit = await _edit(invocation, entry, asked, items, target)
    except Exception as error:
        if bound.expired():
            message = f"{what} took longer than {bound_seconds:g} s."
            raise EffectError(failures.USER_ERROR, message, retryable=True) from error
        raise of_user_code(what, error) from error
    result = HandoffResult(
        changes=invocation.changes(),
        target=target.name if target.name != asked.target else None,
        target_model=model_label(target.model),
        required_steps=invocation.required_steps(target),
        edit=edit,
    )
    return result, target


def filter_of(invocation: Invocation, entry: Handoff) -> Any:
    """Return what changes the next agent's view: the handoff's filter, the run's, or nesting.

    None where the next agent sees everything.
    """
    if entry.input_filter is not None:
        return entry.input_filter
    of_run = invocation.reference("handoff_input_filter")
    if of_run is not None:
        return of_run
    nests = entry.nest_handoff_history
    if nests is None:
        nests = invocation.settings.get("nest_handoff_history") is True
    if not nests or _has_conversation(invocation):
        return None
    wrappers = invocation.settings.get("conversation_history_wrappers")
    return partial(
        nest_handoff_history,
        history_mapper=invocation.reference("handoff_history_mapper"),
        wrappers=tuple(wrappers) if wrappers else None,
    )


def _has_conversation(invocation: Invocation) -> bool:
    """Whether a nested run's conversation is kept by the provider's server.

    Its handoffs may be here without a filter. Others are not: their plans have seen to it.
    """
    tool = invocation.tool
    return tool is not None and bool(tool.conversation_id or tool.previous_response_id)


async def _target(invocation: Invocation, entry: Handoff, asked: RunHandoff) -> Agent[Any]:
    chosen: object = await call(entry.on_invoke_handoff, invocation.wrapper, asked.arguments)
    if not isinstance(chosen, Agent):
        raise UserError(
            f"The handoff {asked.name!r} of agent {asked.agent!r} chose {chosen!r}: "
            "on_invoke_handoff has to return an Agent."
        )
    return invocation.worker.registry.agent(chosen.name)


async def _edit(
    invocation: Invocation,
    entry: Handoff,
    asked: RunHandoff,
    items: Sequence[Item],
    target: Agent[Any],
) -> ViewEdit | None:
    """Ask the filter, and return what it did as an edit of the view."""
    chosen = filter_of(invocation, entry)
    if chosen is None:
        return None
    transfer = output_item(asked.call_id, handed_over(target.name))
    everything = [*items, Item("handoff_output", transfer, asked.agent)]
    view = _view(invocation, everything, asked)
    result: object = await call(chosen, view.data)
    return edit_of(view, result, handoff=asked.name)


def _view(invocation: Invocation, items: Sequence[Item], asked: RunHandoff) -> HandoffView:
    def agent_of(name: str) -> Any:
        return invocation.worker.registry.agent(name)

    def as_items(some: Sequence[Item]) -> list[Any]:
        return [run_item(item, agent_of) for item in some]

    first_new = len(items) - asked.fresh - 1
    history: list[JsonObject] = [item.raw for item in items[: asked.history]]
    return handoff_view(
        history,
        as_items(items[asked.history : first_new]),
        as_items(items[first_new:]),
        invocation.wrapper,
        shows_items=invocation.shows_items,
    )
