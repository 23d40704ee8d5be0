"""Calls that wait for something outside of the run: a webhook, a reply by mail, the end of a job.

A tool begins something and says what it waits for (`ToolResult.wait`). Its call is parked: no effect
is pending, so no worker is needed until a value is delivered or the wait ends in time. Then the call
runs again: its tool reads what arrived, or the worker takes it as what the tool returned.

A value may be delivered before the call waits for it, when the outside is faster than the record of
the wait. The call keeps it until then.

A tool may also look for itself, again and again: its call runs again `every` so often while nothing
is delivered. And it may clean up: if its call is dropped, it runs once more to end what it began.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, cast

from outlast.loop import effect_factory, schemas
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.calls import Arrival, Call, OutsideWait, Parked, ToolResult
from outlast.loop.canonical import LONGEST_NAME
from outlast.loop.effects import RunTool
from outlast.loop.events import ValueDelivered
from outlast.loop.revision import revised, revised_call
from outlast.loop.state import LoopState, Receipt
from outlast.loop.transcript import call_of, with_call, with_ignored
from outlast.loop.values import Json, JsonObject, is_reference, placeholder

MOST_ARRIVALS: Final = 100
"""How many values a call keeps."""

LARGEST_ARRIVALS: Final = 500_000
"""How many characters the values of a call have together, as JSON: the run carries them for days."""

RECEIPTS_KEPT: Final = 200
"""How many waits a run remembers after their end, to answer deliveries that come late or again.

It remembers all of the present turn, whose calls could take a value twice otherwise.
"""

_IS_OVER: Final = frozenset({"settled", "recorded"})
"""The statuses of a call that takes no values any more."""


def park(
    state: LoopState, effect: RunTool, result: ToolResult, wait: OutsideWait, at_ms: int
) -> LoopState:
    """Let a call wait; a value that has arrived before ends the wait at once.

    Args:
        state: the state.
        effect: the effect of the call.
        result: its result; a tool that does not run again has context changes in it.
        wait: what the call waits for.
        at_ms: the time, in milliseconds since the epoch.
    """
    index = call_of(state, effect)
    call = revised_call(
        state.calls[index],
        effect=None,
        done=wait.done,
        done_proof=wait.done_proof,
        changes=result.changes,
        host=result.host,
        order=result.order,
    )
    call = _waiting(revised_call(call, output_of=wait.name if wait.is_output else ""), wait, at_ms)
    early = next((one for one in call.arrived if one.name == wait.name), None)
    problem = None
    if early is not None:
        problem = result.unproven or _unsigned(call, early) or _misfit(call, wait.name, early.value)
    if early is not None and problem is not None:
        call = revised_call(call, arrived=tuple(one for one in call.arrived if one is not early))
        if early.waited_from_ms is not None:  # what does not count gives the wait no more time
            call = _waiting(call, wait, at_ms, since_ms=early.waited_from_ms)
        kept = tuple(one for one in state.receipts if not _is_of(one, state, call, wait.name))
        what = f"delivery {early.delivery_id:.80}"
        state = with_ignored(revised(state, receipts=kept), at_ms, what, problem)
    state = _go_on(with_call(state, index, call), index)
    if first_due(state, at_ms) == index:  # its time passed while the tool looked for itself
        state = wake(state, index, at_ms)
    return woken(state, at_ms) if state.inbox else state


def _waiting(call: Call, wait: OutsideWait, at_ms: int, since_ms: int | None = None) -> Call:
    """Return a call that waits; the time of a tool that looks for itself began with its first wait."""
    before = call.looking
    if since_ms is None:
        since_ms = (
            before.since_ms if before is not None and before.wait.name == wait.name else at_ms
        )
    ends = () if wait.timeout_ms is None else (since_ms + wait.timeout_ms,)
    looks = () if wait.every_ms is None else (at_ms + wait.every_ms,)
    due_ms = min((*ends, *looks), default=None)
    parked = Parked(wait=wait, since_ms=since_ms, due_ms=due_ms)
    return revised_call(call, status="parked", parked=parked, looking=None)


# --- What arrives ----------------------------------------------------------------------------------


def value_delivered(state: LoopState, event: ValueDelivered) -> LoopState:
    """Take a value for a call, once."""
    if is_repeated(state, event):
        return state
    problem = delivery_problem(state, event)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"delivery {event.delivery_id:.80}", problem)
    arrival = Arrival(
        name=event.name,
        at_ms=event.at_ms,
        value=event.value,
        delivery_id=event.delivery_id,
        source=event.source,
        proof=event.proof,
    )
    return _arrived(state, _place_of(state, event), arrival, verified=event.verified)


def is_repeated(state: LoopState, event: ValueDelivered) -> bool:
    """Whether the same delivery has come before."""
    known = receipt_for(state, event)
    return known is not None and known.delivery_id == event.delivery_id


def receipt_for(state: LoopState, event: ValueDelivered) -> Receipt | None:
    """Return what came of the wait that a delivery is for; None while it goes on."""
    return next((one for one in state.receipts if one.place == event.place), None)


def delivery_problem(state: LoopState, event: ValueDelivered) -> str | None:
    """Return why a value has no effect, or None if it has one."""
    known = receipt_for(state, event)
    if known is not None:
        if known.timed_out:
            return f"This comes too late: the wait for {event.name!r} ended without a value."
        return f"Another delivery came first: {event.name!r} has its value already."
    index = _place_of(state, event)
    if index < 0:
        return f"No call waits for {event.name!r}: the call has ended, or was never made."
    call = state.calls[index]
    unsigned = None if event.verified else _unsigned(call, event)
    return _too_large(call, event) or unsigned or _misfit(call, event.name, event.value)


def is_checked_now(state: LoopState, event: ValueDelivered) -> bool:
    """Whether another delivery holds the place of this one, and a worker checks its proof now."""
    known, index = receipt_for(state, event), _place_of(state, event)
    return (
        known is not None
        and known.verified is None
        and known.delivery_id != event.delivery_id
        and index >= 0
        and state.calls[index].parked is None
    )


def _place_of(state: LoopState, event: ValueDelivered) -> int:
    """Return the index of the call that a delivery is for; -1 if there is none.

    Some models repeat the ids of their calls, so the turn counts, too.
    """
    if (event.question, event.turn) != (len(state.answers), state.question.turn):
        return -1
    for index, call in enumerate(state.calls):
        is_it = (call.call_id, call.plan.kind) == (event.call_id, "tool")
        if is_it and call.status not in _IS_OVER:
            return index
    return -1


def _too_large(call: Call, event: ValueDelivered) -> str | None:
    """Return why a call cannot keep a value."""
    if len(call.arrived) >= MOST_ARRIVALS:
        return f"The call has {MOST_ARRIVALS} values already, and keeps no more."
    if max(map(len, (event.name, event.delivery_id, event.source))) > LONGEST_NAME:
        return f"The name, the delivery id and the source have at most {LONGEST_NAME} characters."
    size = sum(len(json.dumps(one)) for one in (event.value, *(a.value for a in call.arrived)))
    if size > LARGEST_ARRIVALS:
        return (
            f"The values of the call would have {size:,} characters as JSON, of at most "
            f"{LARGEST_ARRIVALS:,}. Deliver an id, and keep the data elsewhere."
        )
    return None


def _unsigned(call: Call, given: ValueDelivered | Arrival) -> str | None:
    """Return why a value without proof does not count; None while nobody knows."""
    parked = call.outside
    if parked is None or parked.wait.name != given.name or not parked.wait.signed:
        return None
    if given.proof is not None:
        return None
    return (
        f"The wait for {given.name!r} takes signed deliveries only: deliver it with a client that has "
        "an identity key."
    )


def _misfit(call: Call, name: str, value: Json) -> str | None:
    """Return why a value is not what a call waits for; None while nobody knows."""
    parked = call.outside
    if parked is None or parked.wait.name != name or parked.wait.schema is None:
        return None
    problem = schemas.problem_of(_with_words(value), parked.wait.schema)
    return None if problem is None else f"The value for {name!r} does not fit: {problem}"


def _with_words(value: Json) -> Json:
    """Return a value with a text for each text in the blob store: it is a text for a schema, too."""
    if isinstance(value, list):
        return [_with_words(one) for one in cast("list[Json]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("JsonObject", value)
    if is_reference(fields):
        return placeholder(fields)
    return {key: _with_words(one) for key, one in fields.items()}


def _arrived(
    state: LoopState,
    index: int,
    arrival: Arrival,
    *,
    timed_out: bool = False,
    verified: bool | None = False,
) -> LoopState:
    call = state.calls[index]
    parked = call.outside
    if parked is not None and parked.wait.signed and parked.wait.name == arrival.name:
        arrival = replace(arrival, waited_from_ms=parked.since_ms)
    receipt = Receipt(
        question=len(state.answers),
        turn=state.question.turn,
        call_id=call.call_id,
        tool=call.name,
        name=arrival.name,
        delivery_id=arrival.delivery_id,
        source=arrival.source,
        at_ms=arrival.at_ms,
        timed_out=timed_out,
        verified=verified,
    )
    state = revised(state, receipts=(*_receipts_kept(state), receipt))
    call = revised_call(call, arrived=(*call.arrived, arrival))
    return _go_on(with_call(state, index, call), index)


def _receipts_kept(state: LoopState) -> tuple[Receipt, ...]:
    """Return the receipts without the oldest of earlier turns, where there are too many."""
    if len(state.receipts) < RECEIPTS_KEPT:
        return state.receipts
    turn = len(state.answers), state.question.turn
    is_old = (state.receipts[0].question, state.receipts[0].turn) != turn
    return state.receipts[1:] if is_old else state.receipts


def _go_on(state: LoopState, index: int) -> LoopState:
    """End the wait of a call if its value is there; people need not be asked any more."""
    call = state.calls[index]
    parked = call.parked
    if parked is None or all(one.name != parked.wait.name for one in call.arrived):
        return state
    if parked.request_id is not None:
        approvals = tuple(
            replace(one, status="superseded")
            if (one.id, one.status) == (parked.request_id, "pending")
            else one
            for one in state.approvals
        )
        state = revised(state, approvals=approvals)
    return with_call(state, index, revised_call(call, status="planned", parked=None))


# --- When nothing arrives --------------------------------------------------------------------------


def woken(state: LoopState, at_ms: int) -> LoopState:
    """End the waits that do not outlast a message of the user."""
    for index, call in enumerate(state.calls):
        if call.status == "parked" and call.parked is not None and call.parked.wait.until_message:
            state = give_up(state, index, at_ms)
    return state


def first_due(state: LoopState, at_ms: int) -> int | None:
    """Return the index of a call whose wait is due by now; None if there is none."""
    for index, call in enumerate(state.calls):
        due_ms = None if call.parked is None else call.parked.due_ms
        if due_ms is not None and due_ms <= at_ms:
            return index
    return None


def wake(state: LoopState, index: int, at_ms: int) -> LoopState:
    """Let the tool of a call look for itself, or end its wait."""
    parked = state.calls[index].parked
    assert parked is not None  # noqa: S101  the caller's case
    ends_ms = parked.ends_ms
    if parked.wait.every_ms is None or (ends_ms is not None and ends_ms <= at_ms):
        return give_up(state, index, at_ms)
    call = revised_call(state.calls[index], status="planned", parked=None, looking=parked)
    return with_call(state, index, call)


def give_up(state: LoopState, index: int, at_ms: int) -> LoopState:
    """End a wait for which nothing came in time, as the tool has chosen."""
    parked = state.calls[index].parked
    assert parked is not None  # noqa: S101  the caller's case
    wait = parked.wait
    if wait.on_timeout == "ask":
        request = effect_factory.value_request(state, state.calls[index], wait, at_ms)
        parked = replace(parked, due_ms=None, request_id=request.id)
        call = revised_call(state.calls[index], status="waiting", parked=parked)
        return with_call(revised(state, approvals=(*state.approvals, request)), index, call)
    is_default = wait.on_timeout == "value"
    arrival = Arrival(
        name=wait.name,
        at_ms=at_ms,
        value=wait.value,
        timed_out=not is_default,
        is_default=is_default,
    )
    return _arrived(state, index, arrival, timed_out=True)


def value_of_person(state: LoopState, index: int, request: ApprovalRequest) -> LoopState:
    """Take what a person said who was asked for the value of a wait.

    They give it, or let the call wait as long again, or end the wait without a value.
    """
    call, decision = state.calls[index], request.decision
    assert call.parked is not None  # noqa: S101  the caller's case
    assert decision is not None  # noqa: S101  these requests do not expire
    wait, by = call.parked.wait, decision.by or ""
    at_ms = request.decided_at_ms or call.parked.since_ms
    if request.status == "approved":
        return with_call(state, index, _waiting(call, wait, at_ms))
    if request.status == "responded":
        given = Arrival(name=wait.name, at_ms=at_ms, value=decision.response, source=by)
        return _arrived(state, index, given)
    none = Arrival(name=wait.name, at_ms=at_ms, source=by, timed_out=True)
    return _arrived(state, index, none, timed_out=True)


# --- When the call is dropped -----------------------------------------------------------------------


def cleaned_up(state: LoopState, calls: Iterable[Call]) -> LoopState:
    """Let the tools of dropped calls end what they began outside of the run."""
    for call in calls:
        parked = call.outside
        if call.status not in _IS_OVER and parked is not None and parked.wait.cleanup:
            state = effect_factory.issue(state, effect_factory.cleanup(state, call))
    return state


def _is_of(receipt: Receipt, state: LoopState, call: Call, name: str) -> bool:
    return receipt.place == (len(state.answers), state.question.turn, call.call_id, name)
