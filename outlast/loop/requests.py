"""What a run asks of the shell and of people, made from its state.

Owns: the making of effects and approval requests. Says what is asked; `machine.py` says when.
"""

from dataclasses import replace

from outlast.loop.approvals import ApprovalRequest, digest
from outlast.loop.calls import Call
from outlast.loop.commands import CallModel, Effect, Finish, PrepareRun, RunHandoff, RunTool
from outlast.loop.state import Outcome, RunState
from outlast.loop.transcript import context_before


def issue(state: RunState, effect: Effect) -> tuple[RunState, tuple[Effect, ...]]:
    """Ask for an effect, and remember that it was asked for."""
    pending = (*state.pending, effect)
    return replace(state, pending=pending, next_effect=effect.effect + 1), (effect,)


def preparation(state: RunState) -> PrepareRun:
    """Ask the worker whether it knows the agent."""
    return PrepareRun(
        effect=state.next_effect,
        agent=state.agent,
        context=state.context,
        context_type=state.context_type,
        settings=state.settings,
    )


def model_call(state: RunState) -> CallModel:
    """Ask the active agent's model about everything said so far."""
    return CallModel(
        effect=state.next_effect,
        agent=state.agent,
        turn=state.turn,
        input_length=len(state.items),
        context=state.context,
        context_type=state.context_type,
        settings=state.settings,
        usage=state.usage,
        run_id=state.run_id,
    )


def tool_run(state: RunState, index: int) -> RunTool:
    """Ask for a call to be run, on the context as the calls before it have left it so far."""
    call = state.calls[index]
    return RunTool(
        effect=state.next_effect,
        agent=state.agent,
        name=call.name,
        call_id=call.call_id,
        arguments=call.arguments,
        context=context_before(state, index),
        context_type=state.context_type,
        settings=state.settings,
        usage=state.usage,
        turn=state.turn,
        run_id=state.run_id,
        policy=call.plan.policy,
    )


def handoff_run(state: RunState, call: Call) -> RunHandoff:
    """Ask for a handoff's callback to be run."""
    return RunHandoff(
        effect=state.next_effect,
        agent=state.agent,
        name=call.name,
        target=call.plan.target,
        call_id=call.call_id,
        arguments=call.arguments,
        context=state.context,
        context_type=state.context_type,
        settings=state.settings,
        usage=state.usage,
        turn=state.turn,
        run_id=state.run_id,
        policy=call.plan.policy,
    )


def approval(state: RunState, call: Call, at_ms: int) -> ApprovalRequest:
    """Ask people whether a call may run."""
    return ApprovalRequest(
        id=f"a{len(state.approvals) + 1}",
        call_id=call.call_id,
        name=call.name,
        agent=state.agent,
        handoff_path=state.handoff_path,
        arguments=call.arguments,
        args_digest=digest(call.arguments),
        reason=call.plan.reason,
        requested_at_ms=at_ms,
    )


def finish(state: RunState, outcome: Outcome) -> Finish:
    """Ask for the run to be ended. Only a complete run has an answer, only a failed one a reason."""
    return Finish(
        status=outcome,
        final_output=state.final_output if outcome == "completed" else None,
        failure=state.failure if outcome == "failed" else None,
    )
