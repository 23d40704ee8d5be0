"""What a run asks of the shell and of people, made from its state.

Owns: the making of effects and approval requests. Says what is asked; `machine.py` says when.
"""

from dataclasses import replace

from outlast.loop.approvals import ApprovalRequest, digest
from outlast.loop.calls import DEFAULT_NESTED, Call
from outlast.loop.checks import INPUT_CHECKS, Candidate, CheckStage
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Command,
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
from outlast.loop.state import Ending, ItemsToSave, LoopState, Step, revised, turn_start
from outlast.loop.transcript import context_before
from outlast.loop.view import size


def issue(state: LoopState, effect: Effect) -> tuple[LoopState, tuple[Effect, ...]]:
    """Ask for an effect, and remember that it was asked for."""
    pending = (*state.pending, effect)
    return revised(state, pending=pending, next_effect=effect.effect + 1), (effect,)


def with_marks(state: LoopState, commands: tuple[Command, ...], at_ms: int) -> Step:
    """Say in the effects just asked for where they belong in the run's trace, if it is traced."""
    mark = state.trace
    if mark is None:
        return state, commands
    marked: dict[int, Effect] = {}
    told: list[Command] = []
    for command in commands:
        told.append(command)
        if isinstance(
            command, CallModel | CheckInput | RunTool | RunAgent | RunHandoff | FinalizeAnswer
        ):
            mark = mark.moved(
                question=len(state.answers),
                handovers=len(state.handoff_path) - 1,
                turn=_turn_of(state, command),
                spent=state.usage,
                now_ms=at_ms,
            )
            marked[command.effect] = replace(command, trace=mark)
            told[-1] = marked[command.effect]
    if not marked:
        return state, commands
    pending = tuple(marked.get(one.effect, one) for one in state.pending)
    return revised(state, trace=mark, pending=pending), tuple(told)


def _turn_of(state: LoopState, command: Effect) -> int | None:
    """Return the turn of an effect: 0 outside of turns, None for whichever it is.

    What a question begins with is checked in its first turn, what is said later between turns.
    """
    if isinstance(command, FinalizeAnswer):
        return None
    is_between = isinstance(command, CheckInput) and command.stage == "added"
    return 0 if is_between else max(state.question.turn, 1)


def preparation(state: LoopState) -> PrepareRun:
    """Ask the worker whether it knows the agent, and what the run begins with."""
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
    """Ask for input guardrails to be run."""
    return CheckInput(
        effect=state.next_effect,
        agent=state.agent,
        stage=stage,
        items=items,
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        usage=state.usage,
        turn=state.question.turn,
        run_id=state.run_id,
    )


def model_call(state: LoopState) -> CallModel:
    """Ask the active agent's model about everything it is shown."""
    thread = state.server.thread
    shown = size(state.view, len(state.items))
    has_more = state.question.starts and thread is None and state.view.history < shown
    return CallModel(
        effect=state.next_effect,
        agent=state.agent,
        turn=state.question.turn,
        input_length=len(state.items),
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        usage=state.usage,
        run_id=state.run_id,
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
    """Ask for a call to be run, on the context as the calls before it have left it so far."""
    call = state.calls[index]
    if call.plan.kind == "agent":
        return RunAgent(
            effect=state.next_effect,
            agent=state.agent,
            target=call.plan.target,
            name=call.name,
            call_id=call.call_id,
            arguments=call.arguments,
            nested_id=f"{state.run_id}/{call.name}-{state.next_effect}",
            nested=call.plan.nested or DEFAULT_NESTED,
            context=context_before(state, index),
            context_type=state.start.context_type,
            settings=state.start.settings,
            run_id=state.run_id,
            prefix=state.start.parent.prefix if state.start.parent else "",
        )
    return RunTool(
        effect=state.next_effect,
        agent=state.agent,
        name=call.name,
        call_id=call.call_id,
        arguments=call.arguments,
        form=call.form,
        context=context_before(state, index),
        context_type=state.start.context_type,
        settings=state.start.settings,
        usage=state.usage,
        turn=state.question.turn,
        run_id=state.run_id,
        final=call.plan.final or state.question.judged,
        approved=call.plan.needs_approval,
        policy=call.plan.policy,
    )


def handoff_run(state: LoopState, call: Call) -> RunHandoff:
    """Ask for a handoff's callback, hooks and filter to be run."""
    filters = call.plan.filters
    return RunHandoff(
        effect=state.next_effect,
        agent=state.agent,
        name=call.name,
        target=call.plan.target,
        call_id=call.call_id,
        arguments=call.arguments,
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        usage=state.usage,
        turn=state.question.turn,
        run_id=state.run_id,
        input_length=len(state.items) if filters else None,
        history=state.view.history if filters else 0,
        fresh=len(state.items) - turn_start(state) if filters else 0,
        policy=call.plan.policy,
        rivals=call.plan.rivals,
    )


def conclusion(state: LoopState, candidate: Candidate) -> FinalizeAnswer:
    """Ask what becomes of an answer."""
    return FinalizeAnswer(
        effect=state.next_effect,
        agent=state.agent,
        candidate=candidate,
        input_length=len(state.items),
        history=state.view.history,
        context=state.context,
        context_type=state.start.context_type,
        settings=state.start.settings,
        usage=state.usage,
        turn=state.question.turn,
        run_id=state.run_id,
    )


def session_save(state: LoopState, items: ItemsToSave) -> SaveSession:
    """Ask for items to be written into the session."""
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
    """Ask for the content of the newest items to be stored outside of the run."""
    return OffloadItems(
        effect=state.next_effect,
        start=state.storage.offloaded,
        stop=len(state.items),
        run_id=state.run_id,
    )


def approval(state: LoopState, call: Call, at_ms: int) -> ApprovalRequest:
    """Ask people whether a call may run."""
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
    """Tell the parent what people have to decide, in this run and in those nested in it."""
    assert state.start.parent is not None  # noqa: S101  who asks has looked
    return NotifyParent(
        parent=state.start.parent.run_id,
        requests=tuple(
            request if request.run_id else replace(request, run_id=state.run_id)
            for request in state.pending_approvals
        ),
    )


def finish(state: LoopState, outcome: Ending) -> Finish:
    """Ask for the run to be ended. Only a complete run has an answer, only a failed one a reason."""
    return Finish(
        status=outcome,
        final_output=state.final_output if outcome == "completed" else None,
        failure=state.failure if outcome == "failed" else None,
    )
