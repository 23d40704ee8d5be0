"""How replies and calls become transcript and context.

Owns: the kinds of items, the state of a freshly planned call, and the taking over of outputs.
Must not know: when it happens; that is `machine.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from outlast.loop.calls import Call, CallStatus, ModelReply, PlannedCall
from outlast.loop.changes import apply
from outlast.loop.commands import RunTool
from outlast.loop.items import Item, ItemKind, call_id_of, output_item
from outlast.loop.state import Ignored, RunState
from outlast.loop.values import Json, JsonObject

KEPT_IGNORED = 20
"""How many notes of ignored things stay visible."""


def admit(state: RunState) -> RunState:
    """Write the waiting messages into the transcript; the next answer is to them, too."""
    arrived = tuple(Item("input", raw) for message in state.inbox for raw in message.content)
    return replace(
        state,
        items=state.items + arrived,
        answering=state.answering + tuple(message.id for message in state.inbox),
        inbox=(),
        failure=None,
    )


def take_in(state: RunState, reply: ModelReply) -> RunState:
    """Write a reply's items, usage and plan into the state."""
    plans = {plan.item: plan for plan in sorted(reply.calls, key=lambda plan: plan.item)}
    items = tuple(
        Item(_kind_of(raw, plans.get(index)), raw, state.agent, state.turns)
        for index, raw in enumerate(reply.items)
    )
    return replace(
        state,
        items=state.items + items,
        usage=state.usage.plus(reply.usage),
        context=apply(state.context, reply.changes),
        model=reply.model or state.model,
        calls=tuple(_planned(plan, reply.items[index]) for index, plan in plans.items()),
    )


def last_message(state: RunState, count: int) -> int | None:
    """Return the index of the last message among the newest `count` items."""
    first = len(state.items) - count
    indices = reversed(range(first, len(state.items)))
    return next((at for at in indices if state.items[at].kind == "message"), None)


def take_over(state: RunState, calls: Sequence[Call]) -> RunState:
    """Write the calls' outputs into the transcript and their changes into the context."""
    context, items = state.context, list(state.items)
    for call in calls:
        kind: ItemKind = "handoff_output" if call.plan.kind == "handoff" else "tool_output"
        items.append(Item(kind, output_item(call.call_id, call.output), state.agent, state.turns))
        context = apply(context, call.changes)
    return replace(state, context=context, items=tuple(items))


def context_before(state: RunState, index: int) -> Json:
    """Return the context as the calls before this one have left it so far."""
    context = state.context
    for call in state.calls[:index]:
        context = apply(context, call.changes)
    return context


def call_of(state: RunState, effect: RunTool) -> int:
    """Return the index of the call that an effect runs."""
    return next(at for at, call in enumerate(state.calls) if call.effect == effect.effect)


def with_call(state: RunState, index: int, call: Call) -> RunState:
    """Return the state with one of its calls replaced."""
    return replace(state, calls=(*state.calls[:index], call, *state.calls[index + 1 :]))


def with_ignored(state: RunState, at_ms: int, what: str, why: str) -> RunState:
    """Return the state with a note of something that did not count."""
    ignored = (*state.ignored, Ignored(at_ms, what, why))[-KEPT_IGNORED:]
    return replace(state, ignored=ignored)


def _planned(plan: PlannedCall, raw: JsonObject) -> Call:
    status: CallStatus = "planned"
    if plan.problem is not None:
        status = "settled"
    elif plan.kind == "handoff":
        status = "held"
    return Call(
        plan=plan,
        call_id=call_id_of(raw),
        name=str(raw.get("name", "")),
        arguments=str(raw.get("arguments", "")),
        status=status,
        output=plan.problem,
    )


def _kind_of(raw: JsonObject, plan: PlannedCall | None) -> ItemKind:
    if plan is not None:
        return "handoff_call" if plan.kind == "handoff" else "tool_call"
    if raw.get("type") == "message":
        return "message"
    return "reasoning" if raw.get("type") == "reasoning" else "other"
