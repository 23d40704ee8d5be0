"""Records messages, replies and outputs in the transcript, and changes in the context."""

import json
from collections.abc import Sequence
from dataclasses import replace

from outlast.loop.call_forms import (
    FORM_OF_OUTPUT,
    FUNCTION,
    arguments_of,
    form_of,
    lost_text,
    name_of,
    output_item,
)
from outlast.loop.calls import NO_APPROVAL, Call, CallStatus, ModelReply, PlannedCall
from outlast.loop.changes import apply
from outlast.loop.effects import OffloadItems, RunAgent, RunTool
from outlast.loop.items import Item, ItemKind, Message, call_id_of, message_of_person, with_authors
from outlast.loop.phrases import no_screenshot
from outlast.loop.revision import revised
from outlast.loop.state import Ignored, LoopState, Response, turn_start
from outlast.loop.stored import OFFLOAD_ABOVE, Offload, weight, with_references
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import (
    ViewEdit,
    edited,
    places_in_transcript,
    size,
    transcript_indices,
    without,
)

KEPT_IGNORED = 20
"""How many ignored signals, updates and decisions stay visible."""


def record_messages(state: LoopState, *, all_of_them: bool = True) -> LoopState:
    """Record the waiting messages in the transcript; the next answer covers them, too.

    Args:
        state: the state.
        all_of_them: whether those count that wait for the present answer.
    """
    taken = tuple(one for one in state.inbox if all_of_them or one.mode != "queue")
    arrived = tuple(Item("input", raw) for message in taken for raw in message.content)
    answering = state.question.answering
    streams = bool(answering) and state.question.streams
    return revised(
        state,
        items=state.items + arrived,
        answering=answering + tuple(message.id for message in taken),
        streams=streams or any(message.stream for message in taken),
        authors=with_authors(
            state.question.authors, (name for message in taken for name in message.authors)
        ),
        inbox=tuple(one for one in state.inbox if one not in taken),
        failure=None,
    )


def record_prepared_input(
    state: LoopState, content: Sequence[JsonObject], old: Sequence[int]
) -> LoopState:
    """Begin the transcript with the input that the worker prepared from the first message.

    The message stays in the inbox without items, so that it gets an answer.
    """
    saved = frozenset(old)
    items = tuple(
        Item("history" if at in saved else "input", raw) for at, raw in enumerate(content)
    )
    first, *others = state.inbox
    begun = Message(first.id, (), first.at_ms, authors=first.authors)
    return revised(state, inbox=(begun, *others), items=items)


def begin_question(state: LoopState, at_ms: int) -> LoopState:
    """Reset the parts of the previous question: guardrail results, view, spending, model."""
    state = with_first_model(state)
    length = len(state.items)
    return revised(
        state,
        replies_from=length,
        view=replace(state.view, history=size(state.view, length)),
        guardrails=(),
        tool_users=(),
        starts=True,
        responses_from=len(state.responses),
        tokens_before=state.usage.total_tokens,
        began_ms=at_ms,
        pauses_ms=state.pauses.until(at_ms),
    )


def with_first_model(state: LoopState) -> LoopState:
    """Begin again with the first of the active agent's models."""
    tried = state.question.tried
    if not tried:
        return state
    return revised(state, model=tried[0].model, model_at=0, tried=())


def record_reply(state: LoopState, reply: ModelReply) -> LoopState:
    """Record a reply's items, usage, ids and plan in the state."""
    plans = {plan.item: plan for plan in sorted(reply.calls, key=lambda plan: plan.item)}
    items = tuple(
        Item(_kind_of(raw, plans.get(index)), raw, state.agent, state.turns)
        for index, raw in enumerate(reply.items)
    )
    response = Response(
        turn=state.turns,
        question=len(state.answers),
        agent=state.agent,
        model=reply.model or state.model,
        usage=reply.usage,
        response_id=reply.response_id,
        request_id=reply.request_id,
        raw_usage=reply.raw_usage,
    )
    state = revised(
        state,
        items=state.items + items,
        usage=state.usage.plus(reply.usage),
        context=apply(state.context, reply.changes),
        model=reply.model or state.model,
        calls=tuple(_planned(plan, reply.items[index]) for index, plan in plans.items()),
        responses=(*state.responses, response),
        required_steps=reply.required_steps,
        guardrails=(*state.question.guardrails, *reply.checks),
        judged=reply.judged,
        parallel=reply.parallel,
        answer_terms=reply.answer_terms,
        answer_reason=reply.answer_reason,
    )
    if (
        any(item.kind == "tool_call" for item in items)
        and state.agent not in state.question.tool_users
    ):
        state = revised(state, tool_users=(*state.question.tool_users, state.agent))
    if state.server.thread is None:
        return state
    follows = reply.response_id if state.server.thread.chained else None
    thread = replace(
        state.server.thread,
        previous_response_id=follows or state.server.thread.previous_response_id,
    )
    return revised(state, thread=thread, on_server=len(state.items))


def last_message(state: LoopState, count: int) -> int | None:
    """Return the index of the last message among the newest `count` items."""
    first = len(state.items) - count
    indices = reversed(range(first, len(state.items)))
    return next((at for at in indices if state.items[at].kind == "message"), None)


def record_outputs(
    state: LoopState,
    calls: Sequence[Call],
    *,
    changed: Sequence[Call] | None = None,
    target: str = "",
) -> LoopState:
    """Record the calls' outputs in the transcript and their changes in the context.

    A note after the outputs has the text of an output whose item cannot hold it.

    Args:
        state: the state.
        calls: the calls that have outputs.
        changed: the calls whose changes are recorded, if more than those.
        target: the agent that took over, if the call is a handoff whose output does not name it.
    """
    items = list(state.items)
    notes: list[Item] = []
    for call in calls:
        kind: ItemKind = "handoff_output" if call.plan.kind == "handoff" else "tool_output"
        raw = output_item(call.call_id, call.output, call.form)
        if call.plan.program:
            raw = _for_program(raw, call.plan)
        items.append(Item(kind, raw, state.agent, state.turns, call.custom_data, target))
        if (text := lost_text(call.output, call.form)) is not None:
            said = no_screenshot(call.call_id, text, ran=call.effect is not None)
            note: JsonObject = {"role": "developer", "content": said}
            notes.append(Item("note", note, state.agent, state.turns))
    context = _with_changes(state.context, calls if changed is None else changed)
    return revised(state, context=context, items=(*items, *notes))


def _for_program(raw: JsonObject, plan: PlannedCall) -> JsonObject:
    """Return an output for the program that made the call.

    Where the program expects an object, a text of ours, such as a rejection, becomes one.
    """
    caller: JsonObject = {"caller": {"type": "program", "caller_id": plan.program}}
    output: Json = raw.get("output")
    if plan.gives_object and isinstance(output, str) and not output.startswith("{"):
        return {**raw, "output": json.dumps({"error": output}, ensure_ascii=False), **caller}
    return {**raw, **caller}


def context_before(state: LoopState, index: int) -> Json:
    """Return the context with the changes of the calls before this one."""
    return _with_changes(state.context, state.calls[:index])


def _with_changes(context: Json, calls: Sequence[Call]) -> Json:
    """Return a context with the changes of calls, in the order of the calls.

    The changes of calls that shared an object in a worker come in the order of that worker.
    """
    hosts = {call.host for call in calls if call.host}
    shared = {
        host: iter(sorted((one for one in calls if one.host == host), key=lambda one: one.order))
        for host in hosts
    }
    for call in calls:
        context = apply(context, (next(shared[call.host]) if call.host else call).changes)
    return context


def change_view(state: LoopState, edit: ViewEdit) -> LoopState:
    """Show the model a filter's version of the transcript from now on."""
    length = len(state.items)
    added = [Item(_kind_of(raw, None), raw, state.agent, state.turns) for raw in edit.added]
    order = _arranged(state, edit)
    newest = length - 1
    before = [at for at in order[: order.index(newest)] if at < 0] if newest in order else []
    after = [-1 - at for at in range(len(added)) if -1 - at not in before]
    # The transcript only grows, but the newest output is as new as what stands before it.
    tail = [*before, newest, *after]
    items = [state.items[at] if at >= 0 else added[-1 - at] for at in tail]
    indices = {at: newest + place for place, at in enumerate(tail)}
    hidden = places_in_transcript(state.view, length, edit.dropped)
    arranged = tuple(indices.get(at, at) for at in order)
    view = edited(state.view, length, edit, indices[newest])
    return revised(
        state,
        items=(*state.items[:newest], *items),
        view=replace(view, rest=length + len(added)),
        hidden=(*state.hidden, *(indices.get(at, at) for at in hidden)),
        arranged=(*state.arranged, arranged) if arranged else state.arranged,
    )


def _arranged(state: LoopState, edit: ViewEdit) -> list[int]:
    """Return the order of an edit with indices of the transcript; added items are below 0."""
    if not edit.arranged:
        return []
    indices = transcript_indices(state.view, len(state.items))
    indices |= {at: at for at in range(-len(edit.added), 0)}
    return [indices[at] for at in dict.fromkeys(edit.arranged) if at in indices]


def replace_answer(state: LoopState, item: int | None, answer: Json) -> tuple[LoopState, int]:
    """Replace an answer that nobody has seen by a person's; return the index of its item."""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    index = len(state.items) if item is None else item
    said = Item("message", message_of_person(text), state.agent, state.turns)
    storage = state.storage
    if storage.stores and storage.offloaded <= index < len(state.items):  # it was weighed before
        heavier = weight((said,)) - weight((state.items[index],))
        state = revised(state, inline=storage.inline + heavier)
    return _rewritten(state, index, (said,)), index


def drop_gate(state: LoopState) -> LoopState:
    """Drop the gate; an answer that waits becomes a draft, which users never see.

    The session does not get the draft, nor the reasoning before it, which providers refuse without
    the text that follows.
    """
    gate = state.gate
    if gate is None:
        return state
    state = revised(state, gate=None)
    if gate.item is None:
        return state
    first = gate.item
    while first > 0 and state.items[first - 1].kind == "reasoning":
        first -= 1
    draft = replace(state.items[gate.item], kind="draft")
    state = _rewritten(state, gate.item, (draft,))
    return revised(state, hidden=(*state.hidden, *range(first, gate.item + 1)))


def _rewritten(state: LoopState, start: int, newer: Sequence[Item]) -> LoopState:
    """Replace items from an index on.

    An offload that reads them is dropped, and begins anew: its references are to the texts before,
    and one of the same size would bring the old text back.
    """
    pending = tuple(
        one for one in state.pending if not (isinstance(one, OffloadItems) and one.stop > start)
    )
    items = (*state.items[:start], *newer, *state.items[start + len(newer) :])
    return revised(state, items=items, pending=pending)


def hide_from(state: LoopState, start: int) -> LoopState:
    """Hide the transcript from the model, from an index on."""
    length = len(state.items)
    view = without(state.view, start, length)
    return revised(state, view=view, on_server=min(state.server.on_server, size(view, length)))


def withhold_turn(state: LoopState, placeholder: str) -> LoopState:
    """Replace the newest turn's texts and outputs by a placeholder, and hide the turn.

    The calls stay, so that each still has its output.
    """
    start = turn_start(state)
    withheld = tuple(
        _withheld(item, placeholder) if item.turn == state.turns else item
        for item in state.items[start:]
    )
    return hide_from(_rewritten(state, start, withheld), start)


def _withheld(item: Item, placeholder: str) -> Item:
    raw = item.raw
    kept = {name: raw[name] for name in ("type", "id", "role", "status") if name in raw}
    match item.kind:
        case "message":
            part: JsonObject = {"type": "output_text", "text": placeholder, "annotations": []}
            return replace(item, raw={**kept, "content": [part]})
        case "tool_output":
            form = FORM_OF_OUTPUT.get(str(raw.get("type")), FUNCTION)
            caller = {name: raw[name] for name in ("caller",) if name in raw}
            output = {**output_item(call_id_of(raw), placeholder, form), **caller}
            return replace(item, raw=output, custom_data=None)
        case "note":
            return replace(item, raw={**kept, "content": placeholder})
        case "reasoning":
            return replace(item, raw={**kept, "summary": []})
        case "other":
            return replace(item, raw=kept)
        case _:
            return item


def with_inline_size(state: LoopState, before: int) -> LoopState:
    """Count the characters in the items from an index on that could move to the blob store."""
    if not state.storage.stores or len(state.items) == before:
        return state
    return revised(state, inline=state.storage.inline + weight(state.items[before:]))


def storing(state: LoopState) -> LoopState:
    """Record that workers have a blob store."""
    if state.storage.stores:
        return state
    return revised(state, stores=True, inline=weight(state.items[state.storage.offloaded :]))


def needs_offload(state: LoopState) -> bool:
    """Whether enough content in the newest items should move to the blob store."""
    storage = state.storage
    return storage.stores and storage.inline > OFFLOAD_ABOVE and state.phase != "closing"


def take_offload(state: LoopState, effect: OffloadItems, offload: Offload) -> LoopState:
    """Put references into items in place of content in the blob store."""
    items = with_references(state.items, offload)
    inline = weight(items[effect.stop :])
    return revised(state, items=items, offloaded=effect.stop, inline=inline)


def call_of(state: LoopState, effect: RunTool | RunAgent) -> int:
    """Return the index of an effect's call."""
    return next(at for at, call in enumerate(state.calls) if call.effect == effect.effect)


def with_call(state: LoopState, index: int, call: Call) -> LoopState:
    """Return the state with one of its calls replaced."""
    return revised(state, calls=(*state.calls[:index], call, *state.calls[index + 1 :]))


def with_ignored(state: LoopState, at_ms: int, what: str, why: str) -> LoopState:
    """Return the state with a note of an ignored signal, update or decision."""
    ignored = (*state.ignored, Ignored(at_ms, what, why))[-KEPT_IGNORED:]
    return revised(state, ignored=ignored)


def _planned(plan: PlannedCall, raw: JsonObject) -> Call:
    status: CallStatus = "planned"
    if plan.problem is not None:
        status = "settled"
    elif plan.kind == "handoff":
        status = "held"
    return Call(
        plan=plan,
        call_id=call_id_of(raw),
        name=name_of(raw),
        arguments=(plan.approval or NO_APPROVAL).arguments or arguments_of(raw),
        form=form_of(raw),
        status=status,
        output=plan.problem,
    )


def _kind_of(raw: JsonObject, plan: PlannedCall | None) -> ItemKind:
    if plan is not None:
        return "handoff_call" if plan.kind == "handoff" else "tool_call"
    if raw.get("type") == "message":
        return "message"
    return "reasoning" if raw.get("type") == "reasoning" else "other"
