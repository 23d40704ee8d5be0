"""What holds of every step of a run with people in it, by rules of their own.

Owns: `PeopleLaws`, which `Play` checks after every event. It decides for itself which votes count,
from the terms alone: it must not use `outlast.loop.votes`, which is what it checks.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard

from outlast.loop import phrases
from outlast.loop.actions import HoldAction
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalTerms,
    Audience,
    Decision,
    Remembered,
    Vote,
    digest,
)
from outlast.loop.calls import NO_APPROVAL, Call
from outlast.loop.canonical import LONGEST_NAME, canonical_name, same_person
from outlast.loop.effects import (
    CallModel,
    CancelEffect,
    CleanUp,
    Command,
    RunAgent,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import (
    Event,
    LineAttached,
    MessageReceived,
    MessageWithdrawn,
    PersonActed,
    TimePassed,
)
from outlast.loop.machine import advance
from outlast.loop.schemas import problem_of
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from tests.laws.step_laws import is_due

RUNS = frozenset({"approve", "edit"})
"""The decisions that let a call run."""


def is_decision(event: Event) -> TypeGuard[PersonActed[Decision]]:
    """Whether somebody decides about a request."""
    return isinstance(event, PersonActed) and isinstance(event.action, Decision)


def agrees(request: ApprovalRequest, kind: str) -> bool:
    """Whether a decision needs the quorum: it lets the call run, or answers in its place."""
    return kind in RUNS or (kind == "respond" and request.kind == "output")


SETTLED_BY = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "responded"}
MOST_CHARACTERS = 100_000


class PeopleLaws:
    """Checks the votes, holds and budgets of one run, event by event."""

    def __init__(self) -> None:
        self._withdrawn: set[str] = set()
        self._has_line = False

    def check(
        self,
        before: LoopState,
        timed: LoopState,
        event: Event,
        after: LoopState,
        commands: Sequence[Command],
    ) -> None:
        """Check one step.

        Args:
            before: the state before the event.
            timed: the state if only the event's time had come.
            event: the event.
            after: the state after it.
            commands: what the loop asks for.
        """
        check_reply_clock(before, after)
        if before.approvals is not after.approvals:
            check_requests_settle_once(before, after)
            check_votes(timed, event, after)
            check_redacted(after)
        if is_decision(event):
            check_decision(timed, event, after)
        check_calls_are_approved(before, after, commands)
        check_answers_are_approved(before, event, after)
        check_held(before, timed, event, after, commands)
        self._has_line |= isinstance(event, LineAttached)
        if not self._has_line:
            check_budgets(after, commands)
        self._check_withdrawn(event, before, after)
        if after.phase == "closed" and before.phase != "closed":
            check_end(after)

    def _check_withdrawn(self, event: Event, before: LoopState, after: LoopState) -> None:
        """L21: what was withdrawn gets no answer, unless it is sent again."""
        if isinstance(event, MessageWithdrawn) and len(after.inbox) < len(before.inbox):
            self._withdrawn |= {one.id for one in before.inbox} - {
                *(one.id for one in after.inbox),
                *after.question.answering,
            }
        if isinstance(event, MessageReceived):
            self._withdrawn.discard(event.message.id)
        answered = after.answers[-1].to if after.answers else ()
        assert self._withdrawn.isdisjoint({*answered, *after.question.answering})


def at_time_of(before: LoopState, event: Event) -> LoopState:
    """Return the state if only the time of an event had come."""
    return advance(before, TimePassed(at_ms=event.at_ms))[0]


# --- Requests ------------------------------------------------------------------------------------


def check_requests_settle_once(before: LoopState, after: LoopState) -> None:
    """L11: a request settles at most once; what was settled, voted or escalated stays.

    Votes are only added; its terms, its call and its times of asking never change. Only times that
    count the hours of a calendar do, when a worker has counted them.
    """
    assert len(after.approvals) >= len(before.approvals), "a request was lost"
    for old, new in zip(before.approvals, after.approvals, strict=False):
        if old is new:
            continue
        assert old.status == "pending", "a settled request has changed"
        assert new.votes[: len(old.votes)] == old.votes, "a vote was changed"
        assert (new.escalated, new.reminders) >= (old.escalated, 0)
        assert new.reminders >= old.reminders
        fixed = ("id", "kind", "call_id", "name", "agent", "schema", "requested_at_ms")
        assert all(getattr(old, name) == getattr(new, name) for name in fixed)
        assert untimed(old.terms) == untimed(new.terms)


def untimed(terms: ApprovalTerms) -> ApprovalTerms:
    """Return terms without the times that a worker counts, where they count a calendar's hours."""
    if terms.hours is None:
        return terms
    return replace(
        terms,
        expires_in_ms=None,
        escalations=tuple(replace(step, after_ms=0) for step in terms.escalations),
        hours=replace(terms.hours, from_ms=None, reminders=0, remind_in_ms=None),
    )


def check_reply_clock(before: LoopState, after: LoopState) -> None:
    """L24: a clock runs exactly while a customer waits for a person, and goes one way."""
    clock, was, case = after.case.reply, before.case.reply, after.case
    if after.phase in {"closing", "closed"}:
        assert clock is None or after.phase == "closed"
        return
    is_theirs = after.hold is not None or case.to or case.team
    waits = is_theirs and case.resolved_ms is None and (after.inbox or after.question.answering)
    assert (clock is not None) == bool(after.start.reply_times and waits), "the clock is wrong"
    if clock is None:
        return
    assert clock.warned or not clock.late, "nobody was warned"
    assert clock.due_ms is None or clock.due_ms > clock.since_ms
    assert clock.since_ms <= max(after.at_ms, before.at_ms)
    if was is not None and was.since_ms == clock.since_ms:
        assert (clock.warned, clock.late, clock.is_counted) >= (
            was.warned,
            was.late,
            was.is_counted,
        )


def check_redacted(after: LoopState) -> None:
    """L12: reviewers never see the values of redacted arguments, edited or not."""
    for one in after.approvals:
        if one.terms.redact and one.kind != "budget" and one.status == "pending":
            shown = json.loads(one.arguments)
            wrong = [name for name in one.terms.redact if shown.get(name, REDACTED) != REDACTED]
            assert not wrong, f"{wrong} of {one.id} can be read"


def check_votes(timed: LoopState, event: Event, after: LoopState) -> None:
    """L13: each vote is by somebody who may vote, for what the request then was, at its time.

    It comes from the decision that the event brings, or from one that was remembered for it.
    """
    known = {one.id: one for one in (*timed.approvals, *timed.own_requests)}
    for request in after.approvals:
        earlier = known.get(request.id)
        cast = request.votes[len(earlier.votes) if earlier else 0 :]
        assert len(cast) <= 1, "several votes in one step"
        for vote in cast:
            assert earlier is not None, "a vote for a request that was not there"
            assert is_decision(event), "a vote without a decision"
            assert vote.decision == event.action
            assert (vote.at_ms, vote.verified) == (event.at_ms, event.verified)
            is_other = request.id != event.action.request_id
            assert not is_other or event.action.remember, "a vote for another request"
            problem = why_not(timed, earlier, event.action, event, is_other=is_other)
            assert problem is None, f"a vote counts, although {problem}"
            settles = request.status in _after_vote(request, vote)
            # One that is judged at an earlier time counts before what has fallen due since.
            assert settles or is_due(timed, event.at_ms), "the vote has another effect"


def _after_vote(request: ApprovalRequest, vote: Vote) -> set[str]:
    """The statuses that a request may have after its newest vote."""
    kind = vote.decision.type
    if kind == "withdraw":
        return {"pending"}
    if agrees(request, kind) and len(distinct_voters(request)) < request.terms.quorum:
        return {"pending"}
    if kind in RUNS and request.edited is not None:
        return {"edited"}
    return {SETTLED_BY[kind]}


def distinct_voters(request: ApprovalRequest) -> set[str]:
    """The different people who want what the request asks for now."""
    return {
        vote.decision.by or ""
        for vote in not_withdrawn(request)
        if vote.args_digest == request.args_digest and agrees(request, vote.decision.type)
    }


def not_withdrawn(request: ApprovalRequest) -> list[Vote]:
    """The votes whose person has not withdrawn after them."""
    return [
        vote
        for at, vote in enumerate(request.votes)
        if vote.decision.type != "withdraw"
        and not any(
            later.decision.type == "withdraw" and later.decision.by == vote.decision.by
            for later in request.votes[at:]
        )
    ]


def check_decision(timed: LoopState, event: PersonActed[Decision], after: LoopState) -> None:
    """L14: a decision that does not count changes nothing but `ignored`, and others do count.

    It is judged at the time when it was made. The time when it comes passes for its request, too.
    """
    request = next((one for one in timed.approvals if one.id == event.action.request_id), None)
    later = next((one for one in after.approvals if one.id == event.action.request_id), None)
    problem = "there is no such request"
    if request is not None:
        key, person = event.action.idempotency_key, event.action.by
        made = {(one.decision.idempotency_key, one.decision.by) for one in request.votes}
        if key is not None and (key, person) in made:
            problem = "it has been made before"
        else:
            problem = why_not(timed, request, event.action, event)
    if problem is None:
        assert request is not None
        assert later is not None
        assert len(later.votes) == len(request.votes) + 1, "a vote was not counted"
    else:
        requests = at_time_of(timed, event).approvals
        same = next((one for one in requests if one.id == event.action.request_id), None)
        assert request is None or later == same, f"it counts, although {problem}"


def why_not(  # noqa: C901, PLR0911, PLR0912  one rule after the other
    state: LoopState,
    request: ApprovalRequest,
    decision: Decision,
    event: Any,
    *,
    is_other: bool = False,
) -> str | None:
    """Why a decision must not count, by the terms; None if it must."""
    terms, by = request.terms, decision.by or ""
    if request.status != "pending":
        return "the request is settled"
    if not is_other and decision.args_digest not in {None, request.args_digest}:
        return "it was made for other arguments"
    if not is_other and decision.seen not in {None, request.seen}:
        return "it was made for something else"
    if len(by) > LONGEST_NAME:
        return "the name is too long"
    if decision.type == "withdraw":
        if decision.remember:
            return "it must not be remembered"
        if not by or not any(
            same_person(one.decision.by or "", by) for one in not_withdrawn(request)
        ):
            return "there is no vote to withdraw"
    elif decision.type not in terms.allow:
        return "the terms do not allow it"
    if decision.remember and (
        decision.type not in {"approve", "reject"} or request.kind != "tool" or terms.quorum != 1
    ):
        return "it must not be remembered"
    problem = not_for(terms, request.audiences, by, decision.groups, state, verified=event.verified)
    if problem:
        return problem
    standing = [one for one in not_withdrawn(request) if one.args_digest == request.args_digest]
    content = decision.edited_arguments, decision.response
    own = [
        (one.decision.edited_arguments, one.decision.response)
        for one in standing
        if by and same_person(one.decision.by or "", by)
    ]
    if own and (
        decision.type == "approve" or (decision.type in {"edit", "respond"} and content == own[-1])
    ):
        return "the same person has voted"
    claim = request.claim
    if claim is not None and claim.until_ms > event.at_ms and claim.by != by:
        return "somebody else works on it"
    texts = [decision.message or "", *map(_json, (decision.edited_arguments, decision.response))]
    if any(len(text) > MOST_CHARACTERS for text in texts):
        return "it is too long"
    if decision.type == "edit" and decision.edited_arguments is None:
        return "an edit without arguments"
    if decision.type == "edit":
        fields = {
            name: value
            for name, value in (decision.edited_arguments or {}).items()
            if not (name in terms.redact and value == REDACTED)
        }
        needed = [
            name
            for name in (request.schema or {}).get("required", [])
            if name not in (decision.edited_arguments or {})
        ]
        schema: JsonObject = {**(request.schema or {}), "required": needed}
        if problem_of(fields, schema) is not None:
            return "the arguments do not fit"
    if decision.type == "respond":
        if terms.response_schema is None:
            fits = isinstance(decision.response, str) and decision.response != ""
        else:
            fits = problem_of(decision.response, terms.response_schema) is None
        return None if fits else "the response does not fit"
    return None


def _json(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def not_for(
    terms: ApprovalTerms,
    audiences: Sequence[Audience],
    by: str,
    groups: Sequence[str],
    state: LoopState,
    *,
    verified: bool,
) -> str | None:
    """Why terms are not for somebody."""
    if not (verified or terms.unverified):
        return "nobody proved who it is"
    names = {name for one in audiences for name in one.subjects}
    listed = {name for one in audiences for name in one.groups}
    excludes = terms.audience.exclude_requester
    if not by and (names or listed or excludes or terms.quorum > 1):
        return "nobody says who it is"
    askers = {state.start.customer.id, *state.question.authors}
    if excludes and canonical_name(by) in {canonical_name(one) for one in askers if one}:
        return "the requester is excluded"
    if (names or listed) and by not in names and listed.isdisjoint(groups):
        return "it is for others"
    return None


# --- Calls and answers ---------------------------------------------------------------------------


def check_calls_are_approved(
    before: LoopState, after: LoopState, commands: Sequence[Command]
) -> None:
    """L15: a call that needs approval runs with exactly what enough different people approved.

    Or its terms approve what expires, or a remembered decision covers it. The digest of the
    arguments that it runs with is that of the votes. What the same step stops never runs: what
    falls due after a decision was made may end the question when it comes.
    """
    stopped = {one.effect for one in commands if isinstance(one, CancelEffect)}
    for command in commands:
        if isinstance(command, CleanUp):  # its call has run already
            continue
        if isinstance(command, RunTool | RunAgent) and command.effect not in stopped:
            call = next(one for one in after.calls if one.effect == command.effect)
            if call.plan.approval is not None:
                assert command.arguments == call.arguments
                assert_approved(after, call, command.arguments)
        if isinstance(command, RunHandoff) and after.calls[0].plan.approval is not None:
            assert_approved(after, after.calls[0], command.arguments)
    for item in after.items[len(before.items) :]:
        is_given = item.kind == "tool_output" and item.raw.get("approve") is True
        if is_given or item.kind == "handoff_output":
            name = str(item.raw.get("approval_request_id") or item.raw.get("call_id"))
            target = str(item.raw.get("output"))
            calls = [one for one in (*before.calls, *after.calls) if one.call_id == name]
            gated = bool(calls) and all(one.plan.approval is not None for one in calls)
            if gated and (is_given or target == phrases.handed_over(after.agent)):
                ids = {one.approval for one in calls}
                requests = [one for one in after.approvals if one.id in ids]
                assert not requests or any(
                    one.status in {"approved", "edited"} for one in requests
                ), f"{name} was not approved"


def assert_approved(state: LoopState, call: Call, arguments: str) -> None:
    """Assert that enough people, or what they wanted to be remembered, let a call run."""
    if call.approval is None:
        assert any(_covers(state, one, call) for one in state.remembered), "nobody was asked"
        return
    request = next(one for one in state.approvals if one.id == call.approval)
    assert request.call_id == call.call_id, "the approval of another call"
    assert request.status in {"approved", "edited"}, f"runs although {request.status}"
    assert (request.status == "edited") == (call.edited and request.decision is not None)
    assert digest(arguments) == request.args_digest, "runs with other arguments"
    if request.decision is None:
        assert request.terms.on_expiry == "approve"
        assert request.expires_at_ms is not None
        return
    enough = len(distinct_voters(request)) >= request.terms.quorum
    assert enough, "too few people approved these arguments"


def _covers(state: LoopState, kept: Remembered, call: Call) -> bool:
    """Whether a remembered approval lets a call run without a request."""
    decision, terms = kept.decision, (call.plan.approval or NO_APPROVAL).terms
    parent = state.start.parent
    question = len(state.answers) if parent is None else parent.question
    return (
        decision.type == "approve"
        and "approve" in terms.allow
        and terms.quorum == 1
        and kept.name == call.name
        and kept.agent == state.agent
        and kept.args_digest in {None, digest(call.arguments)}
        and kept.question in {None, question}
        and not not_for(
            terms,
            (terms.audience,),
            decision.by or "",
            decision.groups,
            state,
            verified=kept.verified,
        )
    )


def check_answers_are_approved(before: LoopState, event: Event, after: LoopState) -> None:
    """L16: an answer that waited is given as it was approved, edited or written by a person."""
    gate = before.gate
    if gate is None or gate.budget is not None or len(after.answers) == len(before.answers):
        return
    request = next(one for one in after.approvals if one.id == gate.request_id)
    answer = after.answers[len(before.answers)]
    if answer.failure is not None:
        return
    assert request.status in {"approved", "edited", "responded"}, f"given when {request.status}"
    if len(after.answers) > len(before.answers) + 1:
        return  # the next question failed at once, and its answer is the newest
    if request.status == "responded":
        assert request.decision is not None
        assert after.final_output == request.decision.response
    elif (
        after.start.parent is None or gate.output
    ):  # a nested run without words gives its last ones
        given = json.dumps({"answer": after.final_output}, ensure_ascii=False)
        assert digest(given) == request.args_digest, "another answer than the approved one"


# --- Takeovers and budgets -----------------------------------------------------------------------


def check_held(
    before: LoopState,
    timed: LoopState,
    event: Event,
    after: LoopState,
    commands: Sequence[Command],
) -> None:
    """L17: while a person holds the conversation, no model call begins.

    One under way may move between a line and a worker, and one that was due before may finish. A
    hold that cancels leaves none.
    """
    if after.hold is None:
        return
    under_way = (*before.pending, *timed.pending)
    earlier = {one.turn for one in under_way if isinstance(one, CallModel)}
    for command in commands:
        begins = isinstance(command, CallModel) and command.turn not in earlier
        assert not begins, "a model call begins while a person has the conversation"
    hold = event.action if isinstance(event, PersonActed) else None
    if isinstance(hold, HoldAction) and before.hold is None and hold.mode == "immediate":
        calls = [one for one in after.pending if isinstance(one, CallModel)]
        assert all(one.line for one in calls), "a model call goes on"
        stopped = {one.effect for one in commands if isinstance(one, CancelEffect)}
        began = {one.effect for one in before.pending if isinstance(one, CallModel)}
        assert stopped >= began - {one.effect for one in calls}


def check_budgets(after: LoopState, commands: Sequence[Command]) -> None:
    """L18: no turn begins once a budget of tokens, money or calls is used up.

    A model on a line speaks when it wants to, so a run with a line may spend more.
    """
    begins = any(isinstance(one, CallModel) and one.begun is None for one in commands)
    if not after.start.budgets or not begins:
        return
    for at, budget in enumerate(after.start.budgets):
        if budget.per != "run" or budget.agent or budget.of == "seconds":
            continue
        allowed = budget.limit + sum(amount for index, amount in after.extended if index == at)
        counted = {
            "tokens": after.usage.total_tokens,
            "cost_micros": sum(one.usage.cost_micros for one in after.responses),
            "model_calls": len(after.responses),
            "tool_calls": sum(one.kind == "tool_call" for one in after.items),
        }[budget.of]
        assert counted < allowed, f"{budget.of} are used up in turn {after.question.turn}"


def check_end(after: LoopState) -> None:
    """L19: at the end nothing waits; L20: every message has an answer, or waits, or was cancelled."""
    assert all(one.status != "pending" for one in after.approvals)
    assert after.gate is None
    assert not after.question.answering or after.outcome in {"cancelled", "terminated"}
