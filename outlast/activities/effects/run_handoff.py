"""Carries out `RunHandoff`: the callback, the hooks, and the input filter."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from outlast.activities.approvals.gate import GuardedCall, handoff_digest, handoff_ruling
from outlast.activities.attempt import FIRST, Attempt
from outlast.activities.errors import EffectError, of_user_code, worker_lookup
from outlast.activities.invocation import Invocation
from outlast.activities.model.choice import model_label
from outlast.activities.nested_stream import NestedStream
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
from outlast.loop.call_forms import FUNCTION, call_item, output_item
from outlast.loop.calls import HandoffResult
from outlast.loop.effects import RunHandoff
from outlast.loop.items import Item
from outlast.loop.phrases import handed_over
from outlast.loop.start import OWN_AGENTS
from outlast.loop.values import JsonObject
from outlast.loop.view import ViewEdit


async def run_handoff(
    worker: WorkerDeps, request: EffectRequest[RunHandoff], attempt: Attempt = FIRST
) -> HandoffResult:
    """Run a handoff's callback, then the hooks, and then the filter.

    Raises:
        EffectError: user code failed, or the callback's input does not fit.
    """
    effect, items = request.effect, request.items
    with worker_lookup():
        entry = worker.registry.handoff(effect.agent, effect.name, effect.target, effect.variant)
    annotated = context_type_of(entry.on_handoff) if entry.on_handoff is not None else None
    invocation = Invocation.of(worker, effect, annotated)
    stopped = await _stopped(entry, invocation, effect, attempt)
    if stopped is not None:
        return stopped
    async with NestedStream(invocation, effect) as stream:
        result, transfer = await _handed_over(invocation, entry, effect, items)
        await stream.handoff(items, transfer)
    return result


async def _stopped(
    entry: Handoff, invocation: Invocation, effect: RunHandoff, attempt: Attempt
) -> HandoffResult | None:
    """Return the result of a handoff that its policy does not let happen yet; None if it may."""
    call = GuardedCall(
        call_id=effect.call_id,
        arguments=effect.arguments,
        digest_of_tool=partial(handoff_digest, effect.agent, entry, effect.target, effect.variant),
        evidence=effect.evidence,
        execution=attempt.execution,
    )
    raw = call_item(FUNCTION, call_id=effect.call_id, name=effect.name, arguments=effect.arguments)
    required = await handoff_ruling(entry, invocation, raw, call)
    return None if required is None else HandoffResult(required=required)


async def _handed_over(
    invocation: Invocation, entry: Handoff, effect: RunHandoff, items: Sequence[Item]
) -> tuple[HandoffResult, Item]:
    what = f"on_handoff of {effect.name!r} of agent {effect.agent!r}"
    bound_seconds = effect.policy.timeout_seconds
    bound = asyncio.timeout(bound_seconds)
    try:
        async with bound:
            target = await _target(invocation, entry, effect)  # first: hooks and filter get it
            what = f"get_transfer_message of {effect.name!r} of agent {effect.agent!r}"
            transfer = await _transfer(invocation, entry, effect, target)
            what = f"A hook of {effect.name!r} of agent {effect.agent!r}"
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
            what = f"The input filter of {effect.name!r} of agent {effect.agent!r}"
            edit = None
            if effect.input_length is not None:
                edit = await _edit(invocation, entry, effect, [*items, transfer])
    except Exception as error:  # `what` is user code
        if bound.expired():
            message = f"{what} took longer than {bound_seconds:g} s."
            raise EffectError(failures.USER_ERROR, message, retryable=True) from error
        failed = of_user_code(what, error)
        failed.retryable = False  # `on_handoff` may have had its effect
        raise failed from error
    name = invocation.worker.registry.name_of(target)
    result = HandoffResult(
        changes=invocation.changes(),
        target=None if name == effect.target else name,
        target_changes=invocation.worker.registry.changes_of_chosen(name),
        target_own_name="" if name in {target.name, effect.target} else target.name,
        target_model=model_label(target.model),
        required_steps=invocation.required_steps(target),
        edit=edit,
        output=str(transfer.raw["output"]) if entry.has_own_message else None,
    )
    return result, transfer


def filter_of(invocation: Invocation, entry: Handoff) -> Any:
    """Return a handoff's input filter: its own, the run's, or nesting. None shows everything."""
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
    """Whether the provider's server keeps a nested run's conversation, which takes no filter."""
    tool = invocation.tool
    return tool is not None and bool(tool.conversation_id or tool.previous_response_id)


async def _target(invocation: Invocation, entry: Handoff, effect: RunHandoff) -> Agent[Any]:
    chosen: object = await call(entry.on_invoke_handoff, invocation.wrapper, effect.arguments)
    if not isinstance(chosen, Agent):
        raise UserError(
            f"The handoff {effect.name!r} of agent {effect.agent!r} chose {chosen!r}: "
            "on_invoke_handoff must return an Agent."
        )
    return _known(invocation, cast("Agent[Any]", chosen), effect.effect)


def _known(invocation: Invocation, agent: Agent[Any], number: int) -> Agent[Any]:
    """Return an agent that a handoff chose, known to the run: registered, recorded, or in here."""
    worker = invocation.worker
    changed = None if worker.registry.has(agent) else worker.registry.changed(agent, number)
    if changed is None:
        invocation.worker = worker.with_chosen(agent, invocation.run_id, number)
        return agent
    name, changes = changed
    before: JsonObject = invocation.settings.get(OWN_AGENTS) or {}
    recorded = {**before, name: changes}
    invocation.worker = worker.with_recorded_agents({OWN_AGENTS: recorded})
    return invocation.worker.registry.agent(name)


async def _edit(
    invocation: Invocation,
    entry: Handoff,
    effect: RunHandoff,
    items: Sequence[Item],
) -> ViewEdit | None:
    chosen = filter_of(invocation, entry)
    if chosen is None:
        return None
    view = _view(invocation, items, effect)
    result: object = await call(chosen, view.data)
    return edit_of(view, result, handoff=effect.name)


async def _transfer(
    invocation: Invocation, entry: Handoff, effect: RunHandoff, target: Agent[Any]
) -> Item:
    """Return the output of the handoff's call."""
    message: object = handed_over(target.name)
    if entry.has_own_message:
        message = await call(entry.get_transfer_message, target)
    if not isinstance(message, str):
        raise UserError(
            f"get_transfer_message of the handoff {effect.name!r} of agent {effect.agent!r} returned "
            f"{type(message).__name__}. It must return the text for the model."
        )
    name = invocation.worker.registry.name_of(target)
    return Item("handoff_output", output_item(effect.call_id, message), effect.agent, target=name)


def _view(invocation: Invocation, items: Sequence[Item], effect: RunHandoff) -> HandoffView:
    def as_items(some: Sequence[Item]) -> list[Any]:
        return [run_item(item, invocation.worker.registry.agent) for item in some]

    first_new = len(items) - effect.fresh - 1
    history: list[JsonObject] = [item.raw for item in items[: effect.history]]
    return handoff_view(
        history,
        as_items(items[effect.history : first_new]),
        as_items(items[first_new:]),
        invocation.wrapper,
        shows_items=invocation.shows_items,
    )
