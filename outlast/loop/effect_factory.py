"""Makes effects and approval requests from the state; `machine.py` decides when."""

import json
from dataclasses import replace
from typing import Any

from outlast.loop import phrases
from outlast.loop.actions import NestedRecord
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Evidence,
    Remembered,
    reviewed,
    with_redacted,
)
from outlast.loop.calls import (
    DEFAULT_NESTED,
    NO_APPROVAL,
    BegunResponse,
    Call,
    OutsideWait,
    RequiredApproval,
)
from outlast.loop.canonical import digest
from outlast.loop.checks import INPUT_CHECKS, Candidate, CheckStage
from outlast.loop.effects import (
    CallModel,
    CancelResponse,
    CheckInput,
    CleanUp,
    CompactView,
    Effect,
    FinalizeAnswer,
    Finish,
    NotifyParent,
    NotifyPeople,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.fork import forked_call
from outlast.loop.items import Item
from outlast.loop.notices import Notice
from outlast.loop.revision import revised
from outlast.loop.spending import (
    described,
    limit_of,
    shares,
    spent,
    spent_by_nested,
    spent_of_parent,
)
from outlast.loop.state import ItemsToSave, Lent, LoopState, line_of, redacted_in, turn_start
from outlast.loop.transcript import context_before
from outlast.loop.values import Json, JsonObject
from outlast.loop.view import size
from outlast.loop.votes import SHORTEST_REMINDER_MS


def issue(state: LoopState, effect: Effect) -> LoopState:
    """Add an effect to the pending ones; the driver starts it."""
    return revised(state, pending=(*state.pending, effect), next_effect=effect.effect + 1)


def preparation(state: LoopState) -> PrepareRun:
    """Look the agent up and prepare the input."""
    made_elsewhere = state.start.session or state.start.parent is not None
    return PrepareRun(
        effect=state.next_effect,
        agent=state.agent,
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        input=state.inbox[0].content if made_elsewhere and state.inbox else None,
        run_id=state.run_id if made_elsewhere else "",
    )


def input_check(state: LoopState, stage: CheckStage, items: tuple[Item, ...]) -> CheckInput:
    """Run input guardrails."""
    return CheckInput(**_turn_fields(state), stage=stage, items=items)


def model_call(state: LoopState) -> CallModel:
    """Call the active agent's model with its view of the transcript."""
    thread = state.server.thread
    line = line_of(state)
    shown = size(state.view, len(state.items))
    has_more = state.question.starts and thread is None and state.view.history < shown
    return CallModel(
        **_turn_fields(state),
        input_length=len(state.items),
        on_server=state.server.on_server,
        conversation_id=thread.conversation_id if thread else None,
        previous_response_id=thread.previous_response_id if thread else None,
        chained=thread is not None and thread.chained,
        tools_used=state.agent in state.question.tool_users,
        starts=state.question.starts,
        history=state.view.history if has_more else None,
        decided=tuple(
            one.name
            for one in state.remembered
            if one.agent == state.agent
            and one.args_digest is None
            and one.question in {None, state.root_question}
        ),
        required_steps=tuple(
            duty
            for duty in state.required_steps
            if duty in INPUT_CHECKS and state.question.turn == 1
        ),
        line=line.line if line is not None else "",
        streams=state.question.streams,
        aside=state.aside,
        model_at=state.question.model_at,
        tried=state.question.tried,
    )


def model_call_again(state: LoopState, call: CallModel, begun: BegunResponse) -> CallModel:
    """Go on with a model call whose response the provider makes in the background."""
    return replace(call, effect=state.next_effect, context=state.context, starts=False, begun=begun)


def cancellation_of_response(state: LoopState, call: CallModel) -> CancelResponse:
    """Let the provider stop the response of a model call that was given up."""
    assert call.begun is not None  # noqa: S101  the caller's case
    return CancelResponse(
        effect=state.next_effect,
        agent=call.agent,
        context=call.context,
        context_type=call.context_type,
        settings=call.settings,
        run_id=call.run_id,
        started_at_ms=call.started_at_ms,
        question=call.question,
        handovers=call.handovers,
        response_id=call.begun.response_id,
        model_at=call.model_at,
    )


def compaction(state: LoopState, entries: int, place: int, *, first: bool) -> CompactView:
    """Summarize the first entries of the view, up to an index of the transcript."""
    return CompactView(
        **_turn_fields(state),
        input_length=len(state.items),
        entries=entries,
        place=place,
        first=first,
        aside=state.aside,
        model_at=state.question.model_at,
    )


def call_run(state: LoopState, index: int) -> RunTool | RunAgent:
    """Run a call, on the context with the changes of the calls before it.

    A call that runs again with what its tool waited for has changed the context itself.
    """
    call = state.calls[index]
    context = context_before(state, index + 1)
    if call.plan.kind == "agent":
        return RunAgent(
            **_agent_fields(state, context),
            target=call.plan.target,
            name=call.name,
            call_id=call.call_id,
            arguments=call.arguments,
            nested_id=f"{state.run_id}/{call.name}-{state.next_effect}",
            nested=call.plan.nested or DEFAULT_NESTED,
            prefix=state.start.parent.prefix if state.start.parent else "",
            remembered=_passed_down(state),
            redacted=redacted_in(state),
            evidence=_evidence(state, call),
            authors=state.question.authors,
            chain_id=state.chain_id,
            root_question=state.root_question,
            fork=state.fork,
            budgets=shares(
                state,
                call.plan.target,
                sum(one.plan.kind == "agent" and one.status == "planned" for one in state.calls),
            ),
        )
    return RunTool(
        **_turn_fields(state, context),
        **_tool_fields(state, call),
        final=call.plan.final or state.question.judged,
        policy=call.plan.policy,
        output_of=call.output_of,
    )


def cleanup(state: LoopState, call: Call) -> CleanUp:
    """Let the tool of a dropped call end what it began outside of the run."""
    policy = replace(call.plan.policy, fast=False, defers=False)
    return CleanUp(**_turn_fields(state), **_tool_fields(state, call), policy=policy)


def _tool_fields(state: LoopState, call: Call) -> dict[str, Any]:
    """Return what a tool's worker has to know of a call."""
    return {
        "name": call.name,
        "call_id": call.call_id,
        "arguments": call.arguments,
        "form": call.form,
        "approved": call.plan.approval is not None,
        "evidence": _evidence(state, call),
        "source": call.plan.source,
        "arrived": call.arrived,
        "done": call.done,
        "done_proof": call.done_proof,
        "forked": forked_call(state.fork, call.name, call.arguments),
    }


def _passed_down(state: LoopState) -> tuple[Remembered, ...]:
    """Return the decisions that apply in a nested run."""
    return tuple(
        replace(one, run_id=one.run_id or state.run_id)
        for one in state.remembered
        if one.question in {None, state.root_question}
    )


def _evidence(state: LoopState, call: Call) -> Evidence | None:
    """Return what people decided about a call, with the question that it is made for now."""
    if call.evidence is None:
        return None
    return replace(call.evidence, question=state.root_question)


def handoff_run(state: LoopState, call: Call) -> RunHandoff:
    """Run a handoff's callback, hooks and filter."""
    filters = call.plan.filters
    return RunHandoff(
        **_turn_fields(state),
        name=call.name,
        target=call.plan.target,
        variant=call.plan.variant,
        call_id=call.call_id,
        arguments=call.arguments,
        input_length=len(state.items) if filters else None,
        history=state.view.history if filters else 0,
        fresh=len(state.items) - turn_start(state) if filters else 0,
        evidence=_evidence(state, call),
        policy=call.plan.policy,
    )


def finalization(state: LoopState, candidate: Candidate) -> FinalizeAnswer:
    """Finalize an answer."""
    return FinalizeAnswer(
        **_turn_fields(state),
        candidate=candidate,
        input_length=len(state.items),
        history=state.view.history,
    )


def session_save(state: LoopState, items: ItemsToSave) -> SaveSession:
    """Save items in the session."""
    return SaveSession(
        effect=state.next_effect,
        start=items.start,
        stop=items.stop,
        dropped=items.dropped,
        order=items.order,
        withheld=items.withheld,
        settings=state.start.settings,
        run_id=state.run_id,
        chain_id=state.start.chain_id,
        number=sum(item.kind != "history" for item in state.items[: items.start]),
        follows=state.saving.has_saved or any(item.kind == "history" for item in state.items),
    )


def offload(state: LoopState) -> OffloadItems:
    """Move the content of the newest items to the blob store."""
    return OffloadItems(
        effect=state.next_effect,
        start=state.storage.offloaded,
        stop=len(state.items),
        run_id=state.run_id,
    )


def approval(
    state: LoopState, call: Call, required: RequiredApproval, at_ms: int
) -> ApprovalRequest:
    """Request the approval that a call needs."""
    return _request(
        state,
        at_ms,
        required.terms,
        kind="handoff" if call.plan.kind == "handoff" else "tool",
        call_id=call.call_id,
        name=call.name,
        arguments=call.arguments,
        schema=required.schema,
        source=required.source,
        tool_digest=required.tool_digest,
        reason=required.reason,
    )


def value_request(state: LoopState, call: Call, wait: OutsideWait, at_ms: int) -> ApprovalRequest:
    """Ask people for the value that a call waits for.

    The name is no tool's, so that no decision about the tool is remembered from here. Who may answer
    is as for the tool's approval, if it has one; one person is enough, as nothing is approved.
    """
    terms = (call.plan.approval or NO_APPROVAL).terms
    return _request(
        state,
        at_ms,
        replace(
            terms,
            allow=("respond", "reject") if wait.question else ("respond", "approve", "reject"),
            quorum=1,
            expires_in_ms=None,
            hours=terms.hours and terms.hours.without_expiry,
            bulk=False,
            takeover=False,
            response_schema=wait.schema,
        ),
        kind="tool",
        call_id=call.call_id,
        name=f"{call.name}: {wait.name}",
        arguments=call.arguments,
        reason=wait.question or phrases.nothing_came(wait.name),
        wait=wait.name,
    )


def blocked_effect(
    state: LoopState, effect: Effect, lacks: str, at_ms: int
) -> ApprovalRequest | None:
    """Let a person give up an effect that no worker can carry out; the others go on without it."""
    if effect.beside:
        return None
    calls = (
        one for one in state.calls if effect.effect == one.effect or effect.kind == "run_handoff"
    )
    call = next(calls, None)
    own = state.start.parent.prefix if state.start.parent else ""
    required = (None if call is None else call.plan.approval) or NO_APPROVAL
    request = _request(
        state,
        at_ms,
        replace(
            required.terms,
            allow=("reject",),
            expires_in_ms=None,
            remind_every_ms=None,
            escalations=(),
            hours=None,
        ),
        kind="worker",
        call_id="" if call is None else call.call_id,
        name=state.agent if call is None else call.name,
        arguments="{}" if call is None else call.arguments,
        source="" if call is None else call.plan.source,
        tool_digest=required.tool_digest,
        reason=phrases.blocked(lacks),
    )
    return replace(request, id=f"{own}b{effect.effect}")


def evidence_of(
    request: ApprovalRequest, arguments: str, authors: tuple[str, ...] = ()
) -> Evidence:
    """Return what people decided about a call that may run.

    Args:
        request: the settled request.
        arguments: all arguments of the call, as the request was made for them.
        authors: the members of the team who wrote the question.
    """
    request_digest = digest(arguments)
    edited: list[str] = []
    before = arguments
    for vote in request.votes:
        if vote.decision.type == "edit":
            edited.append(before)
            wanted = with_redacted(vote.decision.edited_arguments or {}, before)
            before = json.dumps(wanted, ensure_ascii=False)
        elif vote.args_digest == request_digest:  # the edit was withdrawn
            before = arguments
    return Evidence(
        decisions=tuple(vote.decision for vote in request.standing_votes),
        edited=tuple(edited),
        requested_at_ms=request.requested_at_ms,
        expired=request.decision is None,
        authors=authors,
    )


def notification(state: LoopState, notices: tuple[Notice, ...]) -> NotifyPeople:
    """Let the worker's notifiers deliver notices."""
    return NotifyPeople(effect=state.next_effect, run_id=state.run_id, notices=notices)


def answer_approval(
    state: LoopState, output: Json, terms: ApprovalTerms, at_ms: int
) -> ApprovalRequest:
    """Request a person's approval of an answer."""
    schema: JsonObject = {
        "type": "object",
        "properties": {"answer": {}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    return _request(
        state,
        at_ms,
        terms,
        kind="output",
        call_id="",
        name="answer",
        arguments=answer_arguments(output),
        schema=schema,
        reason=state.question.answer_reason,
    )


def answer_arguments(output: Json) -> str:
    """Return an answer as JSON text, as if it were the arguments of a call."""
    return json.dumps({"answer": output}, ensure_ascii=False)


def answer_of_person(request: ApprovalRequest) -> Json:
    """Return the answer that a person gave or edited instead of the model's."""
    if request.status == "responded" and request.decision is not None:
        return request.decision.response
    return json.loads(request.edited or "{}")["answer"]


def budget_approval(
    state: LoopState, index: int, terms: ApprovalTerms, at_ms: int, agent: str = ""
) -> ApprovalRequest:
    """Request more of a budget that is used up; by default as much again.

    `agent` is the agent of whose budget it is; the active one if empty.
    """
    budget = state.start.budgets[index]
    arguments: JsonObject = {
        "of": budget.of,
        "per": budget.per,
        "limit": limit_of(state, index),
        "spent": spent(state, budget, at_ms, agent),
        "extend_by": budget.limit,
    }
    if nested := spent_by_nested(state, budget, at_ms, agent):
        arguments["spent_by_nested_runs"] = nested
    schema: JsonObject = {
        "type": "object",
        "properties": {"extend_by": {"type": "integer", "minimum": 1}},
        "required": ["extend_by"],
    }
    return _request(
        state,
        at_ms,
        replace(terms, allow=tuple(one for one in terms.allow if one != "respond")),
        kind="budget",
        call_id="",
        name="budget",
        arguments=json.dumps(arguments),
        schema=schema,
        reason=f"The budget of {described(state, index)} is used up.",
    )


def _request(
    state: LoopState, at_ms: int, terms: ApprovalTerms, *, arguments: str, **fields: Any
) -> ApprovalRequest:
    prefix = state.start.parent.prefix if state.start.parent else ""
    lasts, every = terms.expires_in_ms, terms.remind_every_ms
    if terms.hours is not None and terms.hours.remind_in_ms is not None:
        every = terms.hours.remind_in_ms
    return ApprovalRequest(
        **fields,
        id=f"{prefix}a{len(state.approvals) + 1}",
        agent=state.agent,
        handoff_path=state.handoff_path,
        arguments=reviewed(arguments, terms.redact),
        args_digest=digest(arguments),
        terms=terms,
        requested_at_ms=at_ms,
        expires_at_ms=None if lasts is None else at_ms + lasts,
        remind_at_ms=None if every is None else at_ms + max(every, SHORTEST_REMINDER_MS),
        paused_at_ms=None if state.hold is None else at_ms,
        authors=state.question.authors,
        question=state.root_question,
    )


def only_waits_for(state: LoopState) -> tuple[str, ...]:
    """Return the names of the deliveries that a run waits for, if it waits for nothing else."""
    return state.deliveries if state.status == "parked" else ()


def report(state: LoopState) -> NotifyParent:
    """Report what the run and those nested in it wait for, and spending, to the parent."""
    assert state.start.parent is not None  # noqa: S101  the caller checks it
    waiting = NestedRecord(
        nested_id=state.run_id,
        requests=tuple(
            request if request.run_id else replace(request, run_id=state.run_id)
            for request in state.pending_approvals
        ),
        redacted=redacted_in(state),
        waits=only_waits_for(state),
        spent=spent_of_parent(state),
        wants=tuple(
            (lent, limit_of(state, index))
            for index in state.wants
            if (lent := state.start.budgets[index].lent) is not None
        ),
    )
    return NotifyParent(parent=state.start.parent.run_id, record=waiting)


def lent_to(run: RunAgent, question: int) -> Lent:
    """Return what a nested run that starts may spend."""
    return Lent(
        nested_id=run.nested_id,
        target=run.target,
        question=question,
        shares=tuple((one.lent, one.limit) for one in run.budgets if one.lent is not None),
    )


def finish(state: LoopState) -> Finish:
    """End the run; only a completed run has an answer, and only a failed one a failure."""
    outcome = state.outcome
    assert outcome is not None  # noqa: S101  the run is closed
    assert outcome != "terminated"  # noqa: S101  only the engine terminates a run
    return Finish(
        status=outcome,
        final_output=state.final_output if outcome == "completed" else None,
        failure=state.failure if outcome == "failed" else None,
    )


_OWN: Any = object()
"""The context of the run itself."""


def _agent_fields(state: LoopState, context: Json = _OWN) -> dict[str, Any]:
    """Return the fields of every effect that runs an agent's code."""
    return {
        "effect": state.next_effect,
        "agent": state.agent,
        "context": state.context if context is _OWN else context,
        "context_type": state.start.context_type,
        "settings": state.start.settings,
        "run_id": state.run_id,
        "started_at_ms": state.start.started_at_ms,
        "question": len(state.answers),
        "handovers": len(state.handoff_path) - 1,
    }


def _turn_fields(state: LoopState, context: Json = _OWN) -> dict[str, Any]:
    """Return the fields of every effect that is part of a turn."""
    return {
        **_agent_fields(state, context),
        "turn": state.question.turn,
        "usage": state.usage,
    }
