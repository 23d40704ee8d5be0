"""Makes effects and approval requests from the state; `machine.py` decides when."""

from dataclasses import replace
from typing import Any

from outlast.loop.approvals import ApprovalRequest, digest
from outlast.loop.calls import DEFAULT_NESTED, Call
from outlast.loop.checks import INPUT_CHECKS, Candidate, CheckStage
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Effect,
    FinalizeAnswer,
    Finish,
    NotifyParent,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunTool,
    SaveSession,
)
from outlast.loop.items import Item
from outlast.loop.state import Ending, ItemsToSave, LoopState, revised, turn_start
from outlast.loop.transcript import context_before
from outlast.loop.values import Json
from outlast.loop.view import size


def issue(state: LoopState, effect: Effect) -> tuple[LoopState, tuple[Effect, ...]]:
    """Add an effect to the pending ones and return it as a command."""
    pending = (*state.pending, effect)
    return revised(state, pending=pending, next_effect=effect.effect + 1), (effect,)


def preparation(state: LoopState) -> PrepareRun:
    """Look the agent up and prepare the input."""
    made_elsewhere = state.start.session or state.start.parent is not None
    return PrepareRun(
        effect=state.next_effect,
        agent=state.agent,
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        input=state.inbox[0].content if made_elsewhere else None,
        run_id=state.run_id if made_elsewhere else "",
    )


def input_check(state: LoopState, stage: CheckStage, items: tuple[Item, ...]) -> CheckInput:
    """Run input guardrails."""
    return CheckInput(**_turn_fields(state), stage=stage, items=items)


def model_call(state: LoopState) -> CallModel:
    """Call the active agent's model with its view of the transcript."""
    thread = state.server.thread
    shown = size(state.view, len(state.items))
    has_more = state.question.starts and thread is None and state.view.history < shown
    return CallModel(
        **_turn_fields(state),
        input_length=len(state.items),
        known=state.server.known,
        conversation_id=thread.conversation_id if thread else None,
        previous_response_id=thread.previous_response_id if thread else None,
        chained=thread is not None and thread.chained,
        tools_used=state.agent in state.question.tool_users,
        starts=state.question.starts,
        history=state.view.history if has_more else None,
        decided=tuple(one.name for one in state.remembered if one.agent == state.agent),
        required_steps=tuple(
            duty
            for duty in state.required_steps
            if duty in INPUT_CHECKS and state.question.turn == 1
        ),
    )


def call_run(state: LoopState, index: int) -> RunTool | RunAgent:
    """Run a call, on the context with the changes of the calls before it."""
    call = state.calls[index]
    context = context_before(state, index)
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
        )
    return RunTool(
        **_turn_fields(state, context),
        name=call.name,
        call_id=call.call_id,
        arguments=call.arguments,
        form=call.form,
        final=call.plan.final or state.question.judged,
        approved=call.plan.needs_approval,
        policy=call.plan.policy,
    )


def handoff_run(state: LoopState, call: Call) -> RunHandoff:
    """Run a handoff's callback, hooks and filter."""
    filters = call.plan.filters
    return RunHandoff(
        **_turn_fields(state),
        name=call.name,
        target=call.plan.target,
        call_id=call.call_id,
        arguments=call.arguments,
        input_length=len(state.items) if filters else None,
        history=state.view.history if filters else 0,
        fresh=len(state.items) - turn_start(state) if filters else 0,
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


def approval(state: LoopState, call: Call, at_ms: int) -> ApprovalRequest:
    """Request a person's approval of a call."""
    prefix = state.start.parent.prefix if state.start.parent else ""
    return ApprovalRequest(
        id=f"{prefix}a{len(state.approvals) + 1}",
        call_id=call.call_id,
        name=call.name,
        agent=state.agent,
        handoff_path=state.handoff_path,
        arguments=call.arguments,
        args_digest=digest(call.arguments),
        reason=call.plan.reason,
        requested_at_ms=at_ms,
    )


def report(state: LoopState) -> NotifyParent:
    """Report pending approval requests, also those of nested runs, to the parent."""
    assert state.start.parent is not None  # noqa: S101  the caller checks it
    return NotifyParent(
        parent=state.start.parent.run_id,
        requests=tuple(
            request if request.run_id else replace(request, run_id=state.run_id)
            for request in state.pending_approvals
        ),
    )


def finish(state: LoopState, outcome: Ending) -> Finish:
    """End the run; only a completed run has an answer, and only a failed one a failure."""
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
