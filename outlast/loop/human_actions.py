"""Everything that people can do in a run, a row each: who may, what it does, and what is told of it.

The loop, the signals and updates of the workflow, clients and the audit read the rows.
`CONTRIBUTING.md` shows how to add an action.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from outlast.loop import case_acts, effect_results, people
from outlast.loop.actions import (
    Action,
    CaseAction,
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import Decision
from outlast.loop.events import PersonActed
from outlast.loop.problems import (
    aside_problem,
    case_problem,
    claim_problem,
    decision_problem,
    gave_up_already,
    hold_problem,
    release_problem,
    say_problem,
)
from outlast.loop.state import LoopState
from outlast.loop.transcript import with_ignored
from outlast.loop.values import JsonObject
from outlast.loop.votes import is_repeated

A = TypeVar("A", bound=Action)


@dataclass(frozen=True, kw_only=True)
class HumanAction(Generic[A]):
    """One thing that a person can do in a run.

    Attributes:
        name: the name of its update and of its signal, which recorded histories hold.
        record: its payload.
        usage: what the Temporal UI says where people send the signal.
        about: a request for a decision, or the conversation; refused with a code of its own.
        problem: why the person may not do it now, or None. Updates are refused with it.
        apply: returns the state after an action without a problem.
        repeats: whether the run has taken the same action before; it then has no effect.
        attempt: names an action that had no effect, for the run's ignored actions.
        receipt: what the sender of an update gets, from the state after it.
        told_as: the event in the audit; None if the audit tells of the changed request.
        note: what the audit says about it, beside who did it.
        text: what the user was told.
    """

    name: str
    record: type[A]
    usage: str
    about: Literal["request", "conversation"]
    problem: Callable[[LoopState, PersonActed[A]], str | None]
    apply: Callable[[LoopState, PersonActed[A]], LoopState]
    repeats: Callable[[LoopState, A], bool] = lambda state, action: False
    attempt: Callable[[A], str]
    receipt: Callable[[LoopState, A], JsonObject]
    told_as: Literal["held", "said", "released", "set_aside", "case"] | None = None
    note: Callable[[PersonActed[A]], str] = lambda event: ""
    text: Callable[[A], str] = lambda action: ""


def _decision_receipt(state: LoopState, decision: Decision) -> JsonObject:
    request = next(one for one in state.approvals if one.id == decision.request_id)
    return {
        "request_id": request.id,
        "status": request.status,
        "by": request.settled_by,
        "votes": len(request.standing_votes),
        "votes_needed": request.terms.quorum,
        **({"is_queued": True} if is_queued(state, request.id) else {}),
    }


def is_queued(state: LoopState, request_id: str) -> bool:
    """Whether a call that people have approved waits for calls before it."""
    return any(one.status == "planned" for one in state.calls if one.request_id == request_id)


def _claim_receipt(state: LoopState, action: ClaimAction) -> JsonObject:
    request = next(one for one in state.approvals if one.id == action.request_id)
    return {
        "request_id": request.id,
        "status": request.status,
        "claimed_by": request.claim.by if request.claim else None,
        "until_ms": request.claim.until_ms if request.claim else None,
    }


def _takeover_receipt(state: LoopState, _action: Action) -> JsonObject:
    return {
        "status": state.status,
        "held_by": state.hold.by if state.hold else None,
        "agent": state.agent,
        "is_judged": bool(state.unsaid),
    }


def _hold_note(event: PersonActed[HoldAction]) -> str:
    if event.action.to:
        return f"handed over to {event.action.to}"
    return "by force" if event.action.force else ""


def _aside_receipt(state: LoopState, action: SetAsideAction) -> JsonObject:
    parts: list[int | None] = [one.part for one in state.aside if one.item == action.item]
    return {"item": action.item, "set_aside": bool(parts), "parts": parts}


def _aside_note(event: PersonActed[SetAsideAction]) -> str:
    action = event.action
    what = f"item {action.item}" + ("" if action.part is None else f", part {action.part}")
    back = f"{what} taken back" if action.back else what
    return f"{back}: {action.reason}" if action.reason else back


def _case_receipt(state: LoopState, _action: CaseAction) -> JsonObject:
    case = state.case
    return {
        "status": state.status,
        "team": case.team,
        "to": case.to,
        "resolved_ms": case.resolved_ms,
        "snoozed_until_ms": case.snoozed_until_ms,
        "tags": list(case.tags),
        "links": list(case.links),
    }


def _case_note(event: PersonActed[CaseAction]) -> str:
    action = event.action
    match action.do:
        case "assign":
            whom = " of ".join(one for one in (action.to, action.team) if one)
            return f"assigned to {whom or 'nobody'}"
        case "comment":
            return f"comment {action.comment_id}"
        case "resolve":
            return "resolved"
        case "reopen":
            return "reopened"
        case "snooze":
            return "snoozed"
        case "recount":
            return "times counted anew"
        case _:
            words = [*action.add, *(f"not {one}" for one in action.remove)]
            return f"{action.do} {', '.join(words)}"


HUMAN_ACTIONS: Final[tuple[HumanAction[Any], ...]] = (
    HumanAction[Decision](
        name="decide",
        record=Decision,
        usage='Decide an approval: {"request_id": "a1", "type": "approve", "edit", "reject" or '
        '"respond", "message": "...", "by": "..."}',
        about="request",
        problem=decision_problem,
        apply=effect_results.take_decision,
        repeats=lambda state, decision: is_repeated(state.approvals, decision),
        attempt=lambda one: f"decision {one.type:.20} for {one.request_id:.80}",
        receipt=_decision_receipt,
    ),
    HumanAction[ClaimAction](
        name="claim",
        record=ClaimAction,
        usage='Keep an approval to yourself: {"request_id": "a1", "by": "...", "minutes": 30}',
        about="request",
        problem=claim_problem,
        apply=people.claim_request,
        attempt=lambda one: f"claim of {one.request_id:.80}",
        receipt=_claim_receipt,
    ),
    HumanAction[HoldAction](
        name="hold",
        record=HoldAction,
        usage='Take the conversation over: {"by": "...", "mode": "immediate" or "after_turn"}',
        about="conversation",
        problem=hold_problem,
        apply=people.hold_conversation,
        repeats=gave_up_already,
        attempt=lambda _: "hold",
        receipt=_takeover_receipt,
        told_as="held",
        note=_hold_note,
    ),
    HumanAction[SayAction](
        name="say",
        record=SayAction,
        usage='Answer the user while you hold the conversation: {"by": "...", "text": "..."}',
        about="conversation",
        problem=say_problem,
        apply=people.say_to_user,
        attempt=lambda _: "say",
        receipt=_takeover_receipt,
        told_as="said",
        note=lambda event: f"message {people.message_id_of(event)}",
        text=lambda one: one.text,
    ),
    HumanAction[ReleaseAction](
        name="release",
        record=ReleaseAction,
        usage='Give the conversation back: {"by": "...", "note": "...", "to": "an agent"}',
        about="conversation",
        problem=release_problem,
        apply=people.release_conversation,
        repeats=gave_up_already,
        attempt=lambda _: "release",
        receipt=_takeover_receipt,
        told_as="released",
        note=lambda event: event.action.note,
    ),
    HumanAction[SetAsideAction](
        name="set_aside",
        record=SetAsideAction,
        usage='Leave an item out of what the model reads: {"item": 3, "by": "...", "reason": "..."}; '
        'let it read the item again: {"item": 3, "back": true}',
        about="conversation",
        problem=aside_problem,
        apply=people.set_aside,
        attempt=lambda one: f"set aside item {one.item}",
        receipt=_aside_receipt,
        told_as="set_aside",
        note=_aside_note,
    ),
    HumanAction[CaseAction](
        name="case",
        record=CaseAction,
        usage='Assign, comment, resolve, reopen, snooze, tag or link a conversation: {"do": "assign", '
        '"to": "...", "by": "..."}',
        about="conversation",
        problem=case_problem,
        apply=case_acts.act_on_case,
        attempt=lambda one: one.do,
        receipt=_case_receipt,
        told_as="case",
        note=_case_note,
        text=lambda one: one.text,
    ),
)

ACTION_NAMED: Final = {one.name: one for one in HUMAN_ACTIONS}
_BY_RECORD: Final = {one.record: one for one in HUMAN_ACTIONS}


def row_of(action: Action) -> HumanAction[Any]:
    """Return the row of an action."""
    return _BY_RECORD[type(action)]


def problem_of(state: LoopState, event: PersonActed[Action]) -> str | None:
    """Return why an action has no effect, or None; a repetition is no problem."""
    row = row_of(event.action)
    return None if row.repeats(state, event.action) else row.problem(state, event)


def take(state: LoopState, event: PersonActed[Action]) -> LoopState:
    """Apply an action once, or note why it has no effect."""
    row = row_of(event.action)
    if row.repeats(state, event.action):
        return state
    problem = row.problem(state, event)
    if problem is not None:
        what = f"{row.attempt(event.action)}{people.by_whom(event.person)}"
        return with_ignored(state, event.at_ms, what, problem)
    return row.apply(state, event)
