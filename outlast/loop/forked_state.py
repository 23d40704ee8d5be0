"""The first state of a fork: that of its source after an event, cut off from everything outside.

A fork shares nothing with its source. Nested runs that were under way begin again under their own
ids, nothing is saved in the source's session, the provider's server keeps no conversation, nobody is
notified, and what the source began outside is the source's to end, as are its team and its tags.
"""

from dataclasses import fields, replace
from typing import Any

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.calls import Call
from outlast.loop.case import NO_CASE
from outlast.loop.effect_factory import lent_to
from outlast.loop.effects import CallModel, Effect, RunAgent, RunTool
from outlast.loop.events import RunForked
from outlast.loop.fork import forked_call
from outlast.loop.revision import revised_call
from outlast.loop.state import Lent, LoopState, Saving, Server
from outlast.loop.transcript import with_first_model
from outlast.loop.votes import paused, resumed


def cannot_fork(state: LoopState) -> str | None:
    """Return why no run can be forked from a state; None if one can."""
    if state.phase in {"new", "preparing"}:
        return "The run has not begun to work there. Choose a later event."
    if state.phase in {"closing", "closed"}:
        return "The run has ended there. Choose an earlier event."
    if state.start.parent is not None:
        return f"The run is nested in {state.start.parent.run_id}. Fork that run."
    return None


def forked(state: LoopState, event: RunForked) -> LoopState:
    """Return the state of a fork, from that of its source.

    It begins with the first of the agent's models, which may be others than the source's.
    """
    state = with_first_model(state)
    later_ms = max(event.at_ms - state.at_ms, 0)
    arguments = dict(event.fork.arguments)
    calls = tuple(_call(one, arguments, later_ms) for one in state.calls)
    by_effect = {one.effect: one for one in calls if one.effect is not None}
    pauses = state.pauses
    if pauses.since_ms is None:
        pauses = replace(pauses, total_ms=pauses.total_ms + later_ms)
    return replace(
        state,
        run_id=event.run_id,
        fork=event.fork,
        start=replace(state.start, settings=event.settings, session=False, chain_id=event.chain_id),
        pending=tuple(
            _effect(one, state, event, by_effect.get(one.effect))
            for one in state.pending
            if not one.of_source
        ),
        calls=calls,
        approvals=tuple(_later(one, state.at_ms, event.at_ms) for one in state.approvals),
        pauses=pauses,
        blocked=(),
        nested=(),
        lent=tuple(_lent(one, state, event) for one in state.lent),
        case=NO_CASE,
        saving=Saving(),
        server=Server(),
        notifies=False,
        notifies_later=False,
        notifies_mentions=False,
        undelivered=(),
        line_token="",
    )


def _effect(effect: Effect, state: LoopState, event: RunForked, call: Call | None) -> Effect:
    """Return an effect that the fork carries out anew, for itself; each kind has some of the fields."""
    newer: dict[str, Any] = {
        "run_id": event.run_id,
        "settings": event.settings,
        "chain_id": event.chain_id,
        "model_at": 0,
        "tried": (),
    }
    match effect:
        case CallModel():
            newer |= {
                "on_server": 0,
                "conversation_id": None,
                "previous_response_id": None,
                "chained": False,
                "line": "",
                "begun": None,
            }
        case RunTool() | RunAgent() if call is not None:
            newer |= {
                "arguments": call.arguments,
                "evidence": call.evidence,
                "forked": forked_call(event.fork, call.name, call.arguments),
                "fork": event.fork,
            }
            if isinstance(effect, RunAgent):
                newer["nested_id"] = _own_id(effect.nested_id, state, event)
        case _:
            pass
    known = {one.name for one in fields(effect)}
    return replace(effect, **{name: value for name, value in newer.items() if name in known})


def _call(call: Call, arguments: dict[str, str], later_ms: int) -> Call:
    if call.parked is not None:
        parked = call.parked
        due_ms = None if parked.due_ms is None else parked.due_ms + later_ms
        parked = replace(parked, since_ms=parked.since_ms + later_ms, due_ms=due_ms)
        call = revised_call(call, parked=parked)
    if call.status != "running" or call.call_id not in arguments:
        return call
    return revised_call(call, arguments=arguments[call.call_id], edited=True, evidence=None)


def _later(request: ApprovalRequest, from_ms: int, to_ms: int) -> ApprovalRequest:
    """Return a request whose times are as far away as they were; a pause goes on."""
    if request.paused_at_ms is not None:
        return request
    return resumed(paused(request, from_ms), to_ms)


def _lent(lent: Lent, state: LoopState, event: RunForked) -> Lent:
    """Return what a nested run of the fork may spend, which begins with its first share again."""
    own = (one for one in state.pending if isinstance(one, RunAgent))
    begun = next((one for one in own if one.nested_id == lent.nested_id), None)
    shares = lent.shares if begun is None else lent_to(begun, lent.question).shares
    return replace(
        lent,
        nested_id=_own_id(lent.nested_id, state, event),
        shares=shares,
        spent=(),
        wants=(),
    )


def _own_id(nested_id: str, state: LoopState, event: RunForked) -> str:
    return event.run_id + nested_id.removeprefix(state.run_id)
