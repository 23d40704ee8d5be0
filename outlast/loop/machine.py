"""The agent loop: every transition of a run, in the order in which a run goes through them.

`advance(state, event)` returns the next state and the commands that the shell has to carry out.
It reads no clock, makes no ids, does no I/O and calls no user code, so the same events always
make the same run: in the workflow, in its replay, in a client that folds the history, in a test.

The life of a run, one phase after the other:

    new           --RunStarted-->        preparing       look the agent up
    preparing     --RunPrepared-->       turned          a turn may begin
    turned                               checking        a new message has guardrails
                                         thinking        call the model
    checking      --InputChecked-->      thinking        the guardrails passed
    thinking      --ModelReplied-->      acting          the reply has calls
                                         finalizing      the reply is the answer
                                         turned          the reply is no answer yet
    acting        --ToolFinished-->      acting          until every call is settled, and then
                    AgentFinished        turned          show the outputs to the model, or
                    DecisionReceived     transferring    run a handoff's callback, or
                                         finalizing      take an output as the answer
    transferring  --HandoffFinished-->   turned          as the agent that took over
    finalizing    --AnswerFinalized-->   idle | closing  the question is answered
    idle          --MessageReceived-->   turned          the next question
    any           --CancelRequested-->   closing         now, or when the turn is over
    closing       --SessionSaved-->      closed          everything is saved
    any           --EffectFailed-->      see `_effect_failed`

`turned`, `finalizing` and `closing` need no further event: `_continue` leaves them, unless input
guardrails still run beside the model, or the session is still being saved.

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are recorded in the order of the calls, not of their arrival.
Every message is answered, or fails with a reason, or stays in the inbox of the closed run.

The sections: what each event does, how a turn begins, how it acts on the reply, how a question
ends. `state.py` has the state, `transcript.py` records items and outputs, `requests.py` makes the
effects, and `invariants.py` checks the state after every event.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from outlast.loop import phrases, requests
from outlast.loop.approvals import Decision, Remembered, refusal
from outlast.loop.calls import AgentResult, Call, HandoffResult, ModelReply, PreparedRun, ToolResult
from outlast.loop.changes import Change, apply, diff
from outlast.loop.checks import (
    ENDS_CALLER,
    INPUT_CHECKS,
    Candidate,
    CheckResult,
    FinalizedAnswer,
    ToolOutcome,
)
from outlast.loop.effects import (
    AgentFinished,
    AnswerFinalized,
    CallModel,
    CancelEffect,
    CheckInput,
    Command,
    Effect,
    EffectEvent,
    EffectFailed,
    FinalizeAnswer,
    HandoffFinished,
    InputChecked,
    ItemsOffloaded,
    ModelReplied,
    OffloadItems,
    PrepareRun,
    RunAgent,
    RunHandoff,
    RunPrepared,
    RunTool,
    SaveSession,
    SessionSaved,
    ToolFinished,
)
from outlast.loop.events import (
    CancelRequested,
    DecisionReceived,
    EffectBlocked,
    Event,
    MessageReceived,
    NestedReported,
    RunEnded,
    RunStarted,
    SignalUnreadable,
)
from outlast.loop.items import Item, last_words, refusal_of, text_of
from outlast.loop.state import (
    Answer,
    Blocked,
    Ending,
    LoopState,
    NestedRequests,
    SaveFailure,
    Server,
    Start,
    Step,
    has_message,
    is_held,
    may_save,
    revised,
    waits_for_people,
)
from outlast.loop.transcript import (
    begin_question,
    call_of,
    change_view,
    drop_unchecked,
    hide_blocked,
    last_message,
    needs_offload,
    queue_calls_for_session,
    queue_for_session,
    record_messages,
    record_outputs,
    record_prepared_input,
    record_reply,
    storing,
    take_offload,
    weighed,
    with_call,
    with_ignored,
    withhold_turn,
)
from outlast.loop.values import Failure, Json, is_reference
from outlast.loop.view import shown


def advance(state: LoopState, event: Event) -> Step:
    """Return the next state and the commands after one event.

    Args:
        state: the state before the event; `LoopState()` before the first.
        event: what happened.

    Returns:
        The next state, and the commands for the shell.
    """
    starts, is_new = isinstance(event, RunStarted), state.phase == "new"
    if state.phase == "closed" or (starts != is_new and not isinstance(event, RunEnded)):
        return state, ()
    before = state
    state, commands = _take_event(state, event)
    if state is not before:
        state, further = _continue(_without_stale_blocks(state), len(before.items))
        commands += further
    if state.start.parent is not None and state.pending_approvals != before.pending_approvals:
        commands = (requests.report(state), *commands)
    return state, commands


def _without_stale_blocks(state: LoopState) -> LoopState:
    """Forget the blocks of effects that are no longer pending."""
    if not state.blocked:
        return state
    pending = {effect.effect for effect in state.pending}
    kept = tuple(one for one in state.blocked if one.effect in pending)
    return state if kept == state.blocked else revised(state, blocked=kept)


def _take_event(state: LoopState, event: Event) -> Step:
    match event:
        case RunStarted():
            return _run_started(event)
        case MessageReceived():
            return _message_received(state, event), ()
        case DecisionReceived():
            return _decision_received(state, event)
        case NestedReported():
            return _nested_reported(state, event)
        case CancelRequested():
            return _cancel_requested(state, event)
        case RunEnded():
            return _run_ended(state, event), ()
        case EffectBlocked():
            return _effect_blocked(state, event), ()
        case SignalUnreadable():
            return with_ignored(state, event.at_ms, event.name, event.problem), ()
        case _:
            return _effect_answered(state, event)


def _continue(state: LoopState, weighed_up_to: int) -> Step:
    """Do everything that needs no further event: begin turns, answer, save, store, close."""
    commands: tuple[Command, ...] = ()
    while state.phase != "closed":
        state, weighed_up_to = weighed(state, weighed_up_to), len(state.items)
        kinds = {effect.kind for effect in state.pending}
        if may_save(state) and "save_session" not in kinds:
            step = requests.issue(state, requests.session_save(state, state.saving.to_save[0]))
        elif state.phase == "turned" and not is_held(state):
            step = _begin_turn(state)
        elif state.question.candidate is not None and not (
            is_held(state) or "finalize_answer" in kinds
        ):
            step = _finalize(state, state.question.candidate)
        elif state.closing is not None and not kinds:
            step = _end_run(state, state.closing)
        elif state.closing is not None and kinds == {"offload_items"}:
            step = _cancel_pending(
                state, phrases.CANCELLED, keep=frozenset()
            )  # ending a run does not wait for the blob store
        elif needs_offload(state) and "offload_items" not in kinds:
            step = requests.issue(state, requests.offload(state))
        else:
            break
        state = step[0]
        commands += step[1]
    return state, commands


# --- What each event does ------------------------------------------------------------------------


def _run_started(event: RunStarted) -> Step:
    start = Start(
        max_turns=event.max_turns,
        keep_open=event.keep_open,
        settings=event.settings,
        context_type=event.context_type,
        started_at_ms=event.at_ms,
        session=event.session,
        handled=event.handled,
        parent=event.parent,
        chain_id=event.chain_id,
    )
    state = LoopState(
        run_id=event.run_id,
        start=start,
        phase="preparing",
        agent=event.agent,
        context=event.context,
        inbox=(event.message,),
        handoff_path=(event.agent,),
        server=Server(thread=event.thread),
    )
    return requests.issue(state, requests.preparation(state))


def _effect_blocked(state: LoopState, event: EffectBlocked) -> LoopState:
    """Show that no worker can carry out an effect, until one can."""
    if all(effect.effect != event.effect for effect in state.pending):
        return state
    others = tuple(one for one in state.blocked if one.effect != event.effect)
    if not event.lacks:
        return revised(state, blocked=others) if others != state.blocked else state
    newest = Blocked(effect=event.effect, at_ms=event.at_ms, lacks=event.lacks)
    return revised(state, blocked=(*others, newest))


def _effect_answered(state: LoopState, event: EffectEvent) -> Step:
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state, ()
    rest = revised(state, pending=tuple(one for one in state.pending if one is not effect))
    if isinstance(event, EffectFailed):
        return _effect_failed(rest, effect, event)
    return _effect_done(rest, effect, event) or (state, ())


def _effect_done(rest: LoopState, effect: Effect, event: EffectEvent) -> Step | None:
    """Apply the result of an effect; None if the event answers another kind of effect."""
    if isinstance(effect, OffloadItems):
        is_answer = isinstance(event, ItemsOffloaded)
        return (take_offload(rest, effect, event.result), ()) if is_answer else None
    match effect, event:
        case PrepareRun(), RunPrepared():
            return _prepared(rest, event.result), ()
        case CheckInput(), InputChecked():
            return _input_checked(rest, event.result)
        case CallModel(), ModelReplied():
            return _model_replied(rest, event.result, event.at_ms)
        case RunTool(), ToolFinished():
            return _tool_finished(rest, effect, event.result)
        case RunAgent(), AgentFinished():
            return _agent_finished(rest, effect, event.result)
        case RunHandoff(), HandoffFinished():
            return _switch_agent(rest, event.result)
        case FinalizeAnswer(), AnswerFinalized():
            return _answer_finalized(rest, event.result)
        case SaveSession(), SessionSaved():
            return _session_saved(rest), ()
        case _:
            return None


def _effect_failed(state: LoopState, effect: Effect, event: EffectFailed) -> Step:
    """Turn a call's failure into its output, unless its plan is fatal; end the run otherwise.

    A run that cannot be prepared closes, even a conversation: it has no agent.
    """
    failure = event.failure
    match effect:
        case PrepareRun():
            return _close(revised(state, failure=failure), "failed"), ()
        case CheckInput():
            return _not_passed(state, failure)
        case CallModel() | RunHandoff():
            return _fail_question(state, failure)
        case FinalizeAnswer():
            return _finalizing_failed(state, failure)
        case SaveSession():
            return _saving_failed(state, failure, event.at_ms)
        case OffloadItems():  # large content stays inline until a worker can store it
            return revised(state, stores=False, inline=0), ()
        case RunTool() | RunAgent():
            return _call_failed(state, effect, failure)
        case _:
            assert_never(effect)


def _prepared(state: LoopState, prepared: PreparedRun) -> LoopState:
    context = prepared.context if state.context is None else state.context
    context = apply(context, prepared.changes)
    state = revised(
        state,
        phase="turned",
        model=prepared.model,
        context=context,
        required_steps=prepared.required_steps,
    )
    if prepared.stores:
        state = storing(state)
    return (
        state
        if prepared.input is None
        else record_prepared_input(state, prepared.input, prepared.old)
    )


def _input_checked(state: LoopState, result: CheckResult) -> Step:
    state = revised(
        state,
        context=apply(state.context, result.changes),
        guardrails=(*state.question.guardrails, *result.results),
    )
    if result.failure is not None:
        return _not_passed(state, result.failure)
    if state.phase == "checking" and state.cancel is None:
        state, commands = _ask_model(state)
        return state if is_held(state) else revised(state, unchecked_from=None), commands
    state = revised(state, unchecked_from=None)
    if state.phase == "acting":  # a cancelled run may now wait for people only
        return _continue_acting(state)
    return _close(state, "cancelled") if state.phase == "checking" else state, ()


def _not_passed(state: LoopState, failure: Failure) -> Step:
    """Fail the question, and keep it out of later model calls, checks and the session."""
    state, commands = _fail_question(state, failure)
    return drop_unchecked(state), commands


def _model_replied(state: LoopState, reply: ModelReply, at_ms: int) -> Step:
    if reply.unchecked:
        return _check_anew(state, reply)
    state = record_reply(storing(state) if reply.stores else state, reply)
    if reply.failure is not None:
        return _fail_question(state, reply.failure)
    return _start_acting(state, at_ms) if reply.calls else _end_of_reply(state, reply)


def _check_anew(state: LoopState, reply: ModelReply) -> Step:
    """Run the input guardrails that the agent has now, and then call the model again."""
    checks = tuple(one for one in state.pending if isinstance(one, CheckInput))
    state = revised(
        state,
        pending=tuple(one for one in state.pending if one not in checks),
        required_steps=reply.required_steps,
        turn=state.question.turn - 1,
        starts=True,
        unchecked_from=state.question.question_from,
    )
    state, commands = _check_question(state)
    return state, (*(CancelEffect(effect=one.effect) for one in checks), *commands)


def _message_received(state: LoopState, event: MessageReceived) -> LoopState:
    if has_message(state, event.message.id):
        return state
    phase = "turned" if state.phase == "idle" else state.phase
    return _retry_saving(revised(state, inbox=(*state.inbox, event.message), phase=phase))


def _decision_received(state: LoopState, event: DecisionReceived) -> Step:
    decision = event.decision
    problem = refusal(state.approvals, decision)
    if problem is not None:
        what = f"decision {decision.type} for {decision.request_id}"
        return with_ignored(state, event.at_ms, what, problem), ()
    return _take_decision(state, decision, event.at_ms)


def _nested_reported(state: LoopState, event: NestedReported) -> Step:
    """Show a nested run's approval requests; a cancelled run does not wait for them."""
    ours = any(
        isinstance(one, RunAgent) and one.nested_id == event.nested_id for one in state.pending
    )
    if not ours:
        return state, ()
    others = tuple(one for one in state.nested if one.nested_id != event.nested_id)
    newest = NestedRequests(nested_id=event.nested_id, requests=event.requests)
    return _continue_acting(revised(state, nested=(*others, newest)))


def _cancel_requested(state: LoopState, event: CancelRequested) -> Step:
    """Stop immediately or after the turn; a turn that only waits for people stops at once."""
    if event.mode == "after_turn" and state.phase == "closing":
        return state, ()
    if event.mode == "after_turn" and state.phase == "idle":
        return _close_when_idle(state), ()
    if event.mode == "after_turn" and waits_for_people(state):
        return _stop_waiting(state)
    if event.mode == "after_turn":
        return revised(state, cancel="after_turn"), ()
    return _cancel_now(state)


# --- How a turn begins ---------------------------------------------------------------------------


def _begin_turn(state: LoopState) -> Step:
    """Record new messages, check them, and then call the model."""
    if state.cancel is not None:
        return _close(drop_unchecked(queue_for_session(state, len(state.items))), "cancelled"), ()
    first = not state.question.answering
    spent = state.start.max_turns is not None and state.question.turn >= state.start.max_turns
    before = len(state.items)
    if first:
        state = hide_blocked(state)
    if first or not spent:  # a new message has its own budget
        state = record_messages(state)
    has_checks = not spent and not INPUT_CHECKS.isdisjoint(state.required_steps)
    if not has_checks:
        state = revised(state, unchecked_from=None)
    elif state.question.unchecked_from is None and len(state.items) > before:
        state = revised(state, unchecked_from=before)
    state = queue_for_session(state, len(state.items))
    if first:
        start = before if state.question.unchecked_from is None else state.question.unchecked_from
        state = revised(begin_question(state), question_from=start)
    if spent:
        message = phrases.turns_used_up(state.question.turn)
        return _fail_question(state, Failure(code="max_turns_exceeded", message=message))
    added = state.items[before:]
    if first:
        return _check_question(state)
    if added and has_checks:
        check = requests.input_check(state, "added", added)
        return requests.issue(revised(state, phase="checking"), check)
    return _ask_model(state)


def _check_question(state: LoopState) -> Step:
    """Run the input guardrails that come before the model call, if there are any."""
    if "check_first" not in state.required_steps:
        return _ask_model(state)
    everything = shown(state.view, state.items, len(state.items))
    check = requests.input_check(state, "blocking", everything)
    return requests.issue(revised(state, phase="checking"), check)


def _ask_model(state: LoopState) -> Step:
    """Call the model; parallel input guardrails run beside a question's first call."""
    checks: tuple[Command, ...] = ()
    if state.question.turn == 0 and "check" in state.required_steps:
        everything = shown(state.view, state.items, len(state.items))
        state, checks = requests.issue(state, requests.input_check(state, "parallel", everything))
    state = revised(state, phase="thinking", turn=state.question.turn + 1, turns=state.turns + 1)
    state, calls = requests.issue(state, requests.model_call(state))
    return revised(state, starts=False), (*checks, *calls)


# --- How a turn acts: which calls run, wait for people or are held, and what their outputs do ---


def _start_acting(state: LoopState, at_ms: int) -> Step:
    """Start every call that may start; request approval for the others."""
    state = revised(state, phase="acting")
    for index, call in enumerate(state.calls):
        if call.status != "planned":
            continue
        decision = _remembered(state, call)
        if decision is not None and decision.type == "reject":  # whatever the rule says
            state = with_call(state, index, _rejected(call, decision))
        elif decision is None and call.plan.needs_approval:
            state = _ask_people(state, index, at_ms)
    return _continue_acting(state)


def _take_decision(state: LoopState, decision: Decision, at_ms: int) -> Step:
    """Apply an accepted decision to every waiting call that it covers."""
    asked = next(one for one in state.approvals if one.id == decision.request_id)
    if decision.remember:
        kept = Remembered(agent=asked.agent, name=asked.name, decision=decision)
        state = revised(state, remembered=(*state.remembered, kept))
    for request in state.approvals:
        same = (request.agent, request.name) == (asked.agent, asked.name)
        if request.status == "pending" and (request is asked or (decision.remember and same)):
            state = _decide_one(state, request.id, decision, at_ms)
    return _continue_acting(revised(state, starts=True))


def _tool_finished(state: LoopState, effect: RunTool, result: ToolResult) -> Step:
    """Apply the result of a tool call."""
    state = revised(state, guardrails=(*state.question.guardrails, *result.checks))
    if result.failure is not None:
        return _fail_with_call(state, effect, result.output, result.failure)
    return _settle(state, effect, result.output, result.value, result.changes)


def _agent_finished(state: LoopState, effect: RunAgent, result: AgentResult) -> Step:
    """Apply the result of a nested run, with its usage and context changes."""
    state = revised(state, usage=state.usage.plus(result.usage))
    if result.status != "completed":
        message = f"The run of {effect.target} was {result.status}."
        failure = result.failure or Failure(code="tool_failed", message=message)
        return _call_failed(state, effect, failure)
    changes = diff(effect.context, result.context)
    output = result.final_output
    if not is_reference(output):
        output = phrases.as_text(output)
    return _settle(_without_nested(state, effect), effect, output, result.final_output, changes)


def _call_failed(state: LoopState, effect: RunTool | RunAgent, failure: Failure) -> Step:
    """Turn a failure into the call's output, unless the plan of the call is fatal."""
    state = _without_nested(state, effect)
    output = phrases.tool_failed(effect.name, failure.code)
    details = dict(failure.details or {})
    ends_caller = details.pop(ENDS_CALLER, False) is True
    if ends_caller or state.calls[call_of(state, effect)].plan.fatal:
        return _fail_with_call(state, effect, output, replace(failure, details=details or None))
    return _settle(state, effect, output, None, ())


def _continue_acting(state: LoopState) -> Step:
    """Go on when every call is settled; a handoff waits for all other calls."""
    state, commands = _start_calls(state)
    if any(call.status in {"planned", "waiting", "running"} for call in state.calls):
        if state.cancel is not None and waits_for_people(state):
            state, stops = _stop_waiting(state)
            return state, (*commands, *stops)
        return (_pause(state) if waits_for_people(state) else state), commands
    state = record_outputs(state, [call for call in state.calls if call.status == "settled"])
    settled = [call for call in state.calls if call.status in {"settled", "recorded"}]
    handoffs = tuple(call for call in state.calls if call.status == "held")
    if not handoffs:
        return _use_outputs(revised(state, calls=()), settled), commands
    winner, *others = handoffs
    ignored = [replace(call, output=phrases.HANDOFF_IGNORED) for call in others]
    state = revised(record_outputs(state, ignored), calls=(winner,))
    if not winner.plan.callback:
        state, further = _switch_agent(state, HandoffResult())
    else:
        state = revised(state, phase="transferring")
        state, further = requests.issue(state, requests.handoff_run(state, winner))
    return state, (*commands, *further)


def _stop_waiting(state: LoopState) -> Step:
    """Stop a turn that only waits for people, and save its finished calls."""
    may_be_blocked = _may_be_blocked(state)
    state, stops = _cancel_pending(state, phrases.CANCELLED, keep=frozenset({"save_session"}))
    state = state if may_be_blocked else queue_for_session(state, len(state.items))
    return _close(state, "cancelled"), stops


def _switch_agent(state: LoopState, result: HandoffResult) -> Step:
    """Make another agent the active one; its first turn begins."""
    call = state.calls[0]
    target = result.target or call.plan.target
    state = revised(state, context=apply(state.context, result.changes))
    state = record_outputs(state, [replace(call, output=phrases.handed_over(target))])
    if result.edit is not None:
        # The provider's server has the unedited items, so the next call sends all items again.
        state = revised(change_view(state, result.edit), known=0)
    state = revised(
        state,
        phase="turned",
        calls=(),
        agent=target,
        model=result.target_model or call.plan.target_model,
        required_steps=result.required_steps or call.plan.target_duties,
        handoff_path=(*state.handoff_path, target),
        starts=True,
    )
    return state, ()


def _pause(state: LoopState) -> LoopState:
    """Record finished calls before the run waits for people, which may take days."""
    state = _record_settled(state)
    return state if _may_be_blocked(state) else queue_for_session(state, len(state.items))


def _record_settled(state: LoopState) -> LoopState:
    """Record the outputs of finished calls in the transcript."""
    state = record_outputs(state, [call for call in state.calls if call.status == "settled"])
    calls = tuple(
        replace(call, status="recorded", changes=()) if call.status == "settled" else call
        for call in state.calls
    )
    return revised(state, calls=calls)


def _use_outputs(state: LoopState, calls: Sequence[Call]) -> LoopState:
    """Send the outputs to the model, take one as the answer, or let a rule decide."""
    if state.question.judged:
        outcomes = tuple(
            ToolOutcome(name=call.name, call_id=call.call_id, output=call.output, value=call.value)
            for call in calls
            if call.plan.kind != "unknown"
        )
        if outcomes:
            return _set_candidate(state, Candidate(outcomes=outcomes, tool_made=True))
    last = next((call for call in calls if call.plan.final), None)
    if last is None:
        return revised(state, phase="turned")
    output = last.output if last.value is None else last.value
    return _set_candidate(state, Candidate(output=output, tool_made=True))


def _start_calls(state: LoopState) -> Step:
    """Start planned calls in their order, up to the parallel limit."""
    commands: list[Command] = []
    for index, call in enumerate(state.calls):
        running = sum(one.status == "running" for one in state.calls)
        if state.question.parallel is not None and running >= state.question.parallel:
            break
        if call.status == "planned":
            run = requests.call_run(state, index)
            state = with_call(state, index, replace(call, status="running", effect=run.effect))
            state, started = requests.issue(state, run)
            commands.extend(started)
    return state, tuple(commands)


def _settle(
    state: LoopState,
    effect: RunTool | RunAgent,
    output: Json,
    value: Json,
    changes: Sequence[Change],
) -> Step:
    index = call_of(state, effect)
    settled = replace(
        state.calls[index], status="settled", output=output, value=value, changes=tuple(changes)
    )
    return _continue_acting(with_call(state, index, settled))


def _fail_with_call(
    state: LoopState, effect: RunTool | RunAgent, output: Json, failure: Failure
) -> Step:
    if not _is_handled(state, failure):  # a handler's answer is saved with the whole turn
        state = _save_finished_calls(state)
    index = call_of(state, effect)
    call = replace(state.calls[index], status="settled", output=output)
    return _fail_question(with_call(state, index, call), failure)


def _save_finished_calls(state: LoopState) -> LoopState:
    """Queue finished calls for the session; otherwise the next run would repeat them."""
    done = {call.call_id for call in state.calls if call.status == "settled"}
    if not state.start.session or not done or _may_be_blocked(state):
        return state
    return queue_calls_for_session(_record_settled(state), done)


def _decide_one(state: LoopState, request_id: str, decision: Decision, at_ms: int) -> LoopState:
    approved = decision.type == "approve"
    approvals = tuple(
        replace(
            request,
            status="approved" if approved else "rejected",
            decision=decision,
            decided_at_ms=at_ms,
        )
        if request.id == request_id
        else request
        for request in state.approvals
    )
    state = revised(state, approvals=approvals)
    index, call = next(
        (index, one) for index, one in enumerate(state.calls) if one.approval == request_id
    )
    if approved:
        return with_call(state, index, replace(call, status="planned"))
    return with_call(state, index, _rejected(call, decision))


def _rejected(call: Call, decision: Decision) -> Call:
    output = decision.message or call.plan.rejection or phrases.REJECTED
    return replace(call, status="settled", output=output)


def _ask_people(state: LoopState, index: int, at_ms: int) -> LoopState:
    call = state.calls[index]
    request = requests.approval(state, call, at_ms)
    state = revised(state, approvals=(*state.approvals, request))
    return with_call(state, index, replace(call, status="waiting", approval=request.id))


def _remembered(state: LoopState, call: Call) -> Decision | None:
    """Return the newest decision that applies to every call of this tool by this agent."""
    for one in reversed(state.remembered):
        if (one.agent, one.name) == (state.agent, call.name):
            return one.decision
    return None


def _may_be_blocked(state: LoopState) -> bool:
    """Whether a guardrail may still withhold what the turn has produced so far."""
    ends = state.question.judged or any(call.plan.final for call in state.calls)
    return is_held(state) or (ends and "finalize_answer" in state.required_steps)


def _without_nested(state: LoopState, effect: RunTool | RunAgent) -> LoopState:
    if isinstance(effect, RunTool) or not state.nested:
        return state
    nested = tuple(one for one in state.nested if one.nested_id != effect.nested_id)
    return revised(state, nested=nested)


# --- How a question ends: with an answer, with a failure, or because the run was cancelled
# ---------


def _end_of_reply(state: LoopState, reply: ModelReply) -> Step:
    """Take a reply without calls: its last message is the answer, or the model goes on."""
    if reply.final == "again":
        return revised(state, phase="turned"), ()
    index = last_message(state, len(reply.items))
    if reply.final == "value":
        return _set_candidate(state, Candidate(output=reply.value, item=index)), ()
    raw = state.items[index].raw if index is not None else {}
    refused = refusal_of(raw)
    if refused is not None:
        return _fail_question(state, Failure(code="model_refusal", message=refused))
    return _set_candidate(state, Candidate(output=text_of(raw), item=index)), ()


def _set_candidate(state: LoopState, candidate: Candidate) -> LoopState:
    """Set the answer, which is final once it passes finalizing."""
    return revised(state, phase="finalizing", candidate=candidate)


def _finalize(state: LoopState, candidate: Candidate) -> Step:
    """Answer at once, or first run the user code that finalizes the answer."""
    is_due = "finalize_answer" in state.required_steps
    if candidate.failure is None and not candidate.outcomes and not is_due:
        return _answer(queue_for_session(state, len(state.items)), candidate.output, candidate.item)
    return requests.issue(state, requests.finalization(state, candidate))


def _answer_finalized(state: LoopState, finalized: FinalizedAnswer) -> Step:
    """Apply the result of finalizing."""
    candidate = state.question.candidate or Candidate()
    state = revised(
        state,
        context=apply(state.context, finalized.changes),
        guardrails=(*state.question.guardrails, *finalized.results),
    )
    if candidate.failure is not None and (finalized.declined or not finalized.final):
        return _settle_unanswered(state, candidate.failure)
    index = candidate.item
    if finalized.message is not None and finalized.failure is None:
        index = len(state.items)
        said = Item("message", finalized.message, state.agent)
        state = revised(state, items=(*state.items, said))
    if finalized.failure is not None:
        return _not_answered(state, candidate, finalized, finalized.failure)
    if not finalized.final:
        return revised(state, phase="turned", candidate=None), ()
    output = finalized.output if finalized.replaced else candidate.output
    if _is_blocked(finalized):
        return _answer(_withhold(state, candidate, finalized), output, index)
    return _answer(queue_for_session(state, len(state.items)), output, index)


def _fail_question(state: LoopState, failure: Failure) -> Step:
    """Fail the question, unless a handler turns the failure into an answer."""
    if not _is_handled(state, failure):
        return _settle_unanswered(state, failure)
    keep = frozenset({"save_session", "check_input"})
    state, stops = _cancel_pending(state, phrases.NOT_RUN, keep=keep)
    return _set_candidate(state, Candidate(failure=failure)), stops


def _is_handled(state: LoopState, failure: Failure) -> bool:
    """Whether a handler may turn a failure into an answer."""
    return failure.code in state.start.handled or "*" in state.start.handled


def _next_question(state: LoopState) -> Step:
    """Start the next question, wait for one, or close."""
    if state.cancel is not None:
        return _close_when_idle(state), ()
    if state.inbox:
        return revised(state, phase="turned"), ()
    if state.start.keep_open:
        return revised(state, phase="idle"), ()
    return _close(state, "completed"), ()


def _cancel_now(state: LoopState) -> Step:
    """Stop immediately, and cancel everything that is pending."""
    state, stops = _cancel_pending(state, phrases.CANCELLED, keep=frozenset())
    state = revised(state, candidate=None, to_save=(), queued_up_to=len(state.items))
    return _close(state, "cancelled"), stops


def _close_when_idle(state: LoopState) -> LoopState:
    """Close between two questions; the outcome of the last question is that of the run."""
    return _close(state, "completed" if state.failure is None else "failed")


def _close(state: LoopState, outcome: Ending) -> LoopState:
    """End the run as soon as everything is saved."""
    return _retry_saving(revised(state, phase="closing", closing=outcome))


def _end_run(state: LoopState, outcome: Ending) -> Step:
    """End a run that is done and saved."""
    state = revised(state, phase="closed", outcome=outcome, closing=None)
    return state, (requests.finish(state, outcome),)


def _run_ended(state: LoopState, event: RunEnded) -> LoopState:
    """Close a run that the engine ended: nothing is pending any more."""
    state, _ = _cancel_pending(state, phrases.CANCELLED, keep=frozenset())
    return revised(
        state,
        phase="closed",
        outcome=event.outcome,
        failure=event.failure if event.failure is not None else state.failure,
        blocked=(),
        candidate=None,
        closing=None,
    )


def _session_saved(state: LoopState) -> LoopState:
    """Drop the oldest range from the session's queue: it is saved."""
    left = state.saving.to_save[1:]
    trouble = state.saving.save_failure if left else None
    return revised(state, to_save=left, save_failure=trouble, has_saved=True)


def _retry_saving(state: LoopState) -> LoopState:
    """Try again to save what the session did not accept."""
    if state.saving.save_failure is None:
        return state
    return revised(state, save_failure=replace(state.saving.save_failure, retrying=True))


def _saving_failed(state: LoopState, failure: Failure, at_ms: int) -> Step:
    """Keep what the session did not accept; a conversation retries, any other run fails."""
    since = at_ms if state.saving.save_failure is None else state.saving.save_failure.at_ms
    trouble = SaveFailure(at_ms=since, failure=failure)
    if state.phase == "closing":
        why = state.failure or failure
        outcome = "cancelled" if state.closing == "cancelled" else "failed"
        return revised(state, save_failure=trouble, closing=outcome, failure=why), ()
    if state.start.keep_open:
        return revised(state, save_failure=trouble), ()
    state, commands = _settle_unanswered(state, failure)
    return revised(state, save_failure=trouble), commands


def _cancel_pending(state: LoopState, output: str, *, keep: frozenset[str]) -> Step:
    """Cancel pending effects; finished calls count, and calls not started get `output`."""
    stopped = tuple(effect for effect in state.pending if effect.kind not in keep)
    stops: tuple[Command, ...] = tuple(CancelEffect(effect=one.effect) for one in stopped)
    outputs = {"settled": None, "running": phrases.CANCELLED}
    calls = [
        replace(call, output=outputs.get(call.status, output) or call.output)
        for call in state.calls
        if call.status != "recorded"
    ]
    approvals = tuple(
        replace(request, status="cancelled") if request.status == "pending" else request
        for request in state.approvals
    )
    pending = tuple(effect for effect in state.pending if effect not in stopped)
    state = revised(state, approvals=approvals, calls=(), nested=(), pending=pending)
    return record_outputs(state, calls), stops


def _answer(state: LoopState, output: Json, item: int | None) -> Step:
    # Guardrails passed the empty answer, but not the earlier items, which must not replace it.
    is_guarded = any(record.stage == "output" for record in state.question.guardrails)
    if state.start.parent is not None and not is_guarded and (output is None or output == ""):
        output = last_words(state.items[state.question.asked_from :])
    answer = Answer(state.question.answering, item, state.agent)
    return _next_question(_with_answer(state, answer, output, None))


def _finalizing_failed(state: LoopState, failure: Failure) -> Step:
    """Fail the question after its answer could not be finalized."""
    candidate = state.question.candidate or Candidate()
    return _not_answered(state, candidate, FinalizedAnswer(), failure)


def _not_answered(
    state: LoopState, candidate: Candidate, finalized: FinalizedAnswer, failure: Failure
) -> Step:
    """Fail the question; withhold an answer that guardrails blocked or did not fully check."""
    if _is_blocked(finalized) or "check_output" in state.required_steps:
        return _settle_unanswered(_withhold(state, candidate, finalized), failure)
    return _settle_unanswered(queue_for_session(state, len(state.items)), failure)


def _withhold(state: LoopState, candidate: Candidate, finalized: FinalizedAnswer) -> LoopState:
    """Withhold the newest turn; the session gets its tool call at most, not the output."""
    if candidate.failure is not None:  # a handler's answer was never in the transcript
        return revised(state, queued_up_to=len(state.items))
    default = phrases.WITHHELD if _is_blocked(finalized) else phrases.UNCHECKED
    placeholder = finalized.withheld or default
    state = withhold_turn(state, placeholder)
    if candidate.tool_made:
        return queue_for_session(state, len(state.items), withheld=placeholder)
    return revised(state, queued_up_to=len(state.items))


def _is_blocked(finalized: FinalizedAnswer) -> bool:
    return any(record.stage == "output" and record.tripped for record in finalized.results)


def _settle_unanswered(state: LoopState, failure: Failure) -> Step:
    """End the question without an answer; a conversation stays open, a run closes."""
    state, stops = _cancel_pending(state, phrases.NOT_RUN, keep=frozenset({"save_session"}))
    state = drop_unchecked(state)
    answer = Answer(state.question.answering, None, state.agent, failure)
    state = revised(_with_answer(state, answer, None, failure), queued_up_to=len(state.items))
    if state.start.keep_open:
        state, commands = _next_question(state)
        return state, (*stops, *commands)
    return _close(state, "failed"), stops


def _with_answer(
    state: LoopState, answer: Answer, output: Json, failure: Failure | None
) -> LoopState:
    return revised(
        state,
        answers=(*state.answers, answer),
        answering=(),
        candidate=None,
        final_output=output,
        failure=failure,
        turn=0,
    )
