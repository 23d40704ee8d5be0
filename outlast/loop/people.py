"""What people do in a run: they decide, claim requests, take the conversation over, and speak."""

import json
from dataclasses import replace
from typing import Final

from outlast.loop import case_acts, effect_factory, ledger, outside, phrases, spending, votes
from outlast.loop.actions import (
    ClaimAction,
    HoldAction,
    ReleaseAction,
    SayAction,
    SetAsideAction,
)
from outlast.loop.approvals import ApprovalRequest, ApprovalStatus, Decision, Person, Remembered
from outlast.loop.aside import SOMEBODY, Aside
from outlast.loop.calls import Call, CallStatus
from outlast.loop.canonical import digest
from outlast.loop.endings import (
    answer,
    fail_question,
    next_question,
    reject_answer,
    stop_thinking,
    with_answer,
)
from outlast.loop.events import PersonActed
from outlast.loop.items import Item, message_of_person, with_authors
from outlast.loop.problems import digest_of_given_up, sender_of
from outlast.loop.revision import revised, revised_call
from outlast.loop.state import Answer, Gate, GivenUp, Hold, Lent, LoopState, Words, line_call
from outlast.loop.transcript import replace_answer, with_call, with_ignored
from outlast.loop.values import Failure, JsonObject

# --- Requests, votes, claims -----------------------------------------------------------------------


def take_decision(state: LoopState, event: PersonActed[Decision]) -> LoopState:
    """Count a decision for every waiting request that it covers."""
    decision, sender = event.action, sender_of(state, event)
    decided = next(one for one in state.approvals if one.id == decision.request_id)
    covered = {decided.id}
    if decision.remember:
        is_exact = decision.remember_scope == "tool_with_args"
        kept = Remembered(
            agent=decided.agent,
            name=decided.name,
            decision=decision,
            args_digest=decided.args_digest if is_exact else None,
            question=state.root_question if decision.remember_until == "run" else None,
            verified=sender.verified,
        )
        state = revised(state, remembered=(*state.remembered, kept))
        covered |= {one.id for one in state.approvals if covers(kept, one, sender)}
    for request in state.approvals:
        if request.id in covered:
            newer = votes.voted(request, decision, sender, _arguments_of(state, request))
            state = with_request(state, newer)
            state = settle_call(state, newer)
    return revised(state, starts=True)


def covers(kept: Remembered, request: ApprovalRequest, sender: votes.Sender) -> bool:
    """Whether a remembered decision also decides another waiting request."""
    same = (request.agent, request.name) == (kept.agent, kept.name)
    if not same or kept.args_digest not in {None, request.args_digest}:
        return False
    made = kept.decision.seen
    if made is not None and (made.tool, made.policy) != (request.seen.tool, request.seen.policy):
        return False  # the tool or the policy has changed since
    decision = replace(kept.decision, request_id=request.id, args_digest=None, seen=None)
    return votes.refusal((request,), decision, sender) is None


def remembered(state: LoopState, call: Call) -> Remembered | None:
    """Return the newest decision for this call of a tool by this agent.

    One for exactly these arguments comes before one for all calls.
    """
    fitting = [
        one
        for one in reversed(state.remembered)
        if (one.agent, one.name) == (state.agent, call.name)
        and one.question in {None, state.root_question}
        and (one.args_digest is None or one.args_digest == digest(call.arguments))
    ]
    return next((one for one in fitting if one.args_digest is not None), next(iter(fitting), None))


def _arguments_of(state: LoopState, request: ApprovalRequest) -> str:
    """Return all arguments under review, also those that reviewers do not see."""
    if request.kind == "budget":
        return request.arguments
    if state.gate is not None:
        return effect_factory.answer_arguments(state.gate.output)
    return next(one.arguments for one in state.calls if one.request_id == request.id)


def claim_request(state: LoopState, event: PersonActed[ClaimAction]) -> LoopState:
    """Note who works on a request, and until when."""
    action = event.action
    request = next(one for one in state.approvals if one.id == action.request_id)
    by = action.to or event.person.subject
    return with_request(state, votes.claimed(request, by, action.minutes, event.at_ms))


def with_request(state: LoopState, request: ApprovalRequest) -> LoopState:
    """Return the state with one of its requests replaced."""
    approvals = tuple(request if one.id == request.id else one for one in state.approvals)
    return revised(state, approvals=approvals)


# --- What a settled request does -------------------------------------------------------------------

_WHY_NOT: Final[dict[ApprovalStatus, str]] = {
    "expired": phrases.ANSWER_EXPIRED,
    "superseded": phrases.ANSWER_SUPERSEDED,
}
"""What the model reads about an answer that nobody approved."""


def ask_people(state: LoopState, index: int, request: ApprovalRequest) -> LoopState:
    """Let a call wait for its approval."""
    call = state.calls[index]
    state = revised(state, approvals=(*state.approvals, request))
    return with_call(state, index, revised_call(call, status="waiting", approval=request.id))


def settle_call(state: LoopState, request: ApprovalRequest) -> LoopState:
    """Let the call of a settled request run, or give it its output."""
    found = (at for at, one in enumerate(state.calls) if one.request_id == request.id)
    index = next(found, None)
    if request.status == "pending" or index is None:
        return state
    call = state.calls[index]
    if call.parked is not None:
        return outside.value_of_person(state, index, request)
    if request.status in {"approved", "edited"}:
        authors = state.question.authors
        call = revised_call(
            call, evidence=effect_factory.evidence_of(request, call.arguments, authors)
        )
        if request.edited is not None:
            call = revised_call(call, arguments=request.edited, edited=True)
        status: CallStatus = "held" if call.plan.kind == "handoff" else "planned"
        return with_call(state, index, revised_call(call, status=status))
    if request.status == "expired":
        return with_call(state, index, revised_call(call, status="settled", output=phrases.EXPIRED))
    assert request.decision is not None  # noqa: S101  only a decision rejects or responds
    if request.status == "responded":
        output = phrases.as_text(request.decision.response)
        return with_call(state, index, revised_call(call, status="settled", output=output))
    return with_call(state, index, rejected(call, request.decision))


def rejected(call: Call, decision: Decision) -> Call:
    """Return a call that a person rejected; the model reads why."""
    output = decision.message or call.plan.rejection or phrases.REJECTED
    return revised_call(call, status="settled", output=output)


def settle_gate(state: LoopState, gate: Gate) -> LoopState:
    """Give the answer that a person approved, or let the model answer anew; extend a budget."""
    request = next(one for one in state.approvals if one.id == gate.request_id)
    if gate.budget is not None:
        phase = "acting" if state.phase == "acting" else "turned"
        state = revised(state, gate=None, phase=phase)
        return _settle_budget(state, gate.budget, request)
    if request.status not in {"approved", "edited", "responded"}:
        why = request.decision.message if request.decision else _WHY_NOT.get(request.status)
        return reject_answer(state, gate, why)
    state = revised(state, gate=None)
    if request.status != "responded" and request.edited is None:
        return answer(ledger.queue(state), gate.output, gate.item)
    output = effect_factory.answer_of_person(request)
    state, index = replace_answer(state, gate.item, output)
    return answer(ledger.queue(state), output, index)


def _settle_budget(state: LoopState, index: int, request: ApprovalRequest) -> LoopState:
    """Go on with more of a budget, or fail the question."""
    if request.status not in {"approved", "edited"}:
        why = request.decision.message if request.decision else None
        return fail_question(state, _budget_failure(state, index, why))
    wanted: JsonObject = json.loads(request.edited or request.arguments)
    return revised(state, extended=(*state.extended, (index, int(wanted["extend_by"]))))


# --- Budgets that are used up ----------------------------------------------------------------------


def ask_to_go_on(state: LoopState, index: int, at_ms: int, agent: str = "") -> LoopState:
    """Request more of a budget that is used up, from people or the parent; or fail the question."""
    budget = state.start.budgets[index]
    phase = "acting" if state.phase == "acting" else "asking"
    if budget.lent is not None and state.start.parent is not None:
        wants = state.wants if index in state.wants else (*state.wants, index)
        return revised(state, phase=phase, wants=wants)
    if budget.terms is None:
        return fail_question(state, _budget_failure(state, index, None))
    request = effect_factory.budget_approval(state, index, budget.terms, at_ms, agent)
    gate = Gate(request_id=request.id, budget=index)
    return revised(state, phase=phase, approvals=(*state.approvals, request), gate=gate)


def lend_more(state: LoopState, lent: Lent, index: int, at_ms: int) -> LoopState:
    """Lend a nested run more of a budget, or ask for more of it if nothing is left."""
    if spending.left(state, index, lent.target) <= 0:
        return ask_to_go_on(state, index, at_ms, lent.target)
    return spending.with_more(state, lent, index)


def _budget_failure(state: LoopState, index: int, why: str | None) -> Failure:
    message = phrases.budget_used_up(spending.described(state, index), why)
    return Failure(code="budget_exceeded", message=message)


# --- Takeover: a person has the conversation -------------------------------------------------------


def hold_conversation(state: LoopState, event: PersonActed[HoldAction]) -> LoopState:
    """Give the conversation to a person, as soon as what has begun is over.

    A model call under way is cancelled, unless the person lets it end. Meanwhile no time passes for requests.
    """
    by = event.action.to or event.person.subject
    if state.hold is not None:  # handed over, or taken from somebody: the agent waits already
        changes = by != state.hold.by
        handed = replace(state.hold, by=by, at_ms=event.at_ms)
        given_up = _given_up(state.hold, event) if event.action.to else None
        if not changes:
            return state
        state = revised(state, hold=handed, given_up=given_up)
        return case_acts.taken_over(state, by, event.at_ms)
    state = case_acts.roused(state)  # it must not end under the person
    state = _held(case_acts.taken_over(state, by, event.at_ms), by, event.at_ms)
    if state.phase == "idle":
        return revised(state, phase="turned")
    if state.phase == "thinking" and event.action.mode == "immediate" and line_call(state) is None:
        return stop_thinking(state)
    return state


def _held(state: LoopState, by: str, at_ms: int) -> LoopState:
    pending = tuple(votes.paused(one, at_ms) for one in state.approvals)
    return revised(state, hold=Hold(by=by, at_ms=at_ms), approvals=pending)


def hold_for_team(state: LoopState, team: str, at_ms: int) -> LoopState:
    """Give the conversation to a team, as soon as the turn is over: whoever of it takes it has it.

    A nested run has no conversation to give. Who has the conversation already keeps it.
    """
    if state.start.parent is not None:
        return state
    state = case_acts.given_to_team(state, team, at_ms)
    return state if state.hold is not None else _held(state, "", at_ms)


def _given_up(hold: Hold, event: PersonActed[HoldAction] | PersonActed[ReleaseAction]) -> GivenUp:
    action = event.action
    to = action.to if isinstance(action, HoldAction) else ""
    return GivenUp(by=action.by, since_ms=hold.at_ms, to=to, digest=digest_of_given_up(action))


def leave_to_person(state: LoopState) -> LoopState:
    """Leave the conversation to the person who has it, once guardrails judged what was said."""
    if not state.unsaid:
        return revised(state, phase="held")
    words = state.unsaid[0]
    said = Item("message", message_of_person(words.text), words.person.subject)
    check = effect_factory.input_check(state, "said", (said,))
    return effect_factory.issue(revised(state, phase="checking"), check)


def say_to_user(state: LoopState, event: PersonActed[SayAction]) -> LoopState:
    """Let the user read a person's words, which answer the user's open messages.

    Where output guardrails judge them, they wait for that, and for the end of the turn.
    """
    hold, message_id = state.hold, message_id_of(event)
    if hold is None or message_id in hold.said:
        return state
    state = revised(state, hold=replace(hold, said=(*hold.said, message_id)))
    words = Words(text=event.action.text, person=event.person, files=event.action.files)
    if "check_said" not in state.required_steps:
        return _say(state, words, event.at_ms)
    phase = "turned" if state.phase == "held" else state.phase
    return revised(state, unsaid=(*state.unsaid, words), phase=phase)


def message_id_of(event: PersonActed[SayAction]) -> str:
    """Return the id of a person's message; one that has none is named by its time."""
    return event.action.message_id or f"said at {event.at_ms}"


def _say(state: LoopState, words: Words, at_ms: int) -> LoopState:
    """Record a person's words; the model reads first whose they are."""
    hold = state.hold
    by = words.person.subject
    if hold is not None and hold.speaker != by:
        told = phrases.taken_over(_shown_name(words.person))
        note: JsonObject = {"role": "developer", "content": told}
        state = revised(
            state,
            items=(*state.items, Item("note", note)),
            hold=replace(hold, speaker=by),
        )
        state = case_acts.taken_over(state, by, at_ms)
    index = len(state.items)
    files: JsonObject | None = {"files": list(words.files)} if words.files else None
    said = Item("message", message_of_person(words.text), by, custom_data=files)
    state = revised(state, items=(*state.items, said))
    if state.phase != "held":
        return state
    state = ledger.queue(ledger.answer_unchecked(state, index))
    if not state.question.answering:
        return state
    answer = Answer(state.question.answering, index, state.agent)
    return with_answer(state, answer, words.text, None)


def said_checked(state: LoopState, failure: Failure | None, at_ms: int) -> LoopState:
    """Say what output guardrails passed, and tell people of what they did not."""
    words, *rest = state.unsaid
    state = revised(state, unsaid=tuple(rest), phase="held")
    if failure is None:
        state = _say(state, words, at_ms)
    else:
        state = with_ignored(state, at_ms, f"say{by_whom(words.person)}", failure.message)
    return revised(state, phase="turned")


def release_conversation(state: LoopState, event: PersonActed[ReleaseAction]) -> LoopState:
    """Give the conversation back to an agent, which answers the open messages."""
    action, by = event.action, _shown_name(event.person)
    spoke = state.hold is not None and state.hold.speaker is not None
    told: JsonObject = {
        "role": "developer",
        "content": phrases.released(by, action.note, spoke=spoke),
    }
    note = Item("note", told)
    pending = tuple(votes.resumed(one, event.at_ms) for one in state.approvals)
    assert state.hold is not None  # noqa: S101  nobody else releases it
    given_up = _given_up(state.hold, event)
    authors = state.question.authors
    if action.note:  # the agent does what they have written
        authors = with_authors(authors, (event.person.subject,))
    state = revised(
        state,
        hold=None,
        given_up=given_up,
        starts=True,
        approvals=pending,
        items=(*state.items, note),
        authors=authors,
    )
    state = case_acts.given_back(state)
    if action.to and action.to != state.agent:
        path = (*state.handoff_path, action.to)
        state = revised(state, agent=action.to, model="", required_steps=(), handoff_path=path)
    if state.phase != "held":
        return state
    if state.question.answering:
        return revised(state, phase="turned")
    return next_question(state)


def set_aside(state: LoopState, event: PersonActed[SetAsideAction]) -> LoopState:
    """Leave an item out of what the model reads from its next call on, or let it read it again."""
    action = event.action
    one = Aside(
        item=action.item,
        part=action.part,
        reason=action.reason,
        by=event.person.subject or SOMEBODY,
        at_ms=event.at_ms,
    )
    kept = tuple(other for other in state.aside if other.place != one.place)
    if (len(kept) == len(state.aside)) == action.back:
        return state  # they repeat it
    return revised(state, aside=kept if action.back else (*kept, one))


def _shown_name(person: Person) -> str:
    """Return a person's name as the model reads it."""
    return person.display or person.subject or "A person"


def by_whom(person: Person) -> str:
    """Return ` by ann`, or nothing if nobody says who."""
    return f" by {person.subject:.80}" if person.subject else ""
