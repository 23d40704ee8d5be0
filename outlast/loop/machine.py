"""The agent loop. The only place where a run's state changes.

`advance(state, event)` returns the next state and the commands that the shell has to carry out.
It reads no clock, makes no ids, does no I/O and calls no user code, so the same events always
make the same run: in the workflow, in its replay, in a client that folds the history, in a test.

The life of a run, one phase after the other:

    new           --RunStarted-->        preparing       look the agent up
    preparing     --RunPrepared-->       turned          a turn may begin
    turned                               checking        what was said has guardrails
                                         thinking        ask the model
    checking      --InputChecked-->      thinking        they let it pass
    thinking      --ModelReplied-->      acting          the reply has calls
                                         finalizing      the reply is the answer
                                         turned          the reply says nothing yet
    acting        --ToolFinished-->      acting          until every call is settled, and then
                    AgentFinished        turned          show the outputs to the model, or
                    DecisionReceived     transferring    run what a handoff has to run, or
                                         finalizing      take an output as the answer
    transferring  --HandoffFinished-->   turned          as the agent that took over
    finalizing    --AnswerFinalized-->   idle | closing  the answer is given
    idle          --MessageReceived-->   turned          the next question
    any           --CancelRequested-->   closing         now, or when the turn is over
    closing       --SessionSaved-->      closed          everything is saved, and the end of a
                    AnswerFinalized                      question that was stopped is told
    any           --EffectFailed-->      see `_effect_failed`

`turned`, `finalizing` and `closing` go on by themselves, in `_go_on`, unless something holds
them: input guardrails that run beside the model hold up what its reply leads to, and a session
that is being written holds up the end.

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are taken over in the order of the calls, whenever they
arrive; what has finished when the run begins to wait for people is taken over then. Nothing that
was said to the run is lost: it is answered, or its failure is, or it can be read in the inbox of
the closed run.

Here is what each event does, and how a turn begins. How it acts is in `acting.py`, how a
question ends in `answering.py`, what effects ask for in `requests.py`.
"""

from typing import assert_never

from outlast.loop import phrases, requests
from outlast.loop.acting import (
    agent_finished,
    call_failed,
    continue_acting,
    decide,
    hand_over,
    start_acting,
    stop_waiting,
    tool_finished,
)
from outlast.loop.answering import (
    abandon,
    cancel_now,
    close,
    close_gently,
    conclude,
    concluded,
    end_of_reply,
    end_told,
    ended,
    fail,
    finish,
    is_handled,
    not_concluded,
    retry_saving,
    save_failed,
    saved,
)
from outlast.loop.approvals import refusal
from outlast.loop.calls import ModelReply, PreparedRun
from outlast.loop.changes import apply
from outlast.loop.checks import INPUT_CHECKS, CheckResult
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
from outlast.loop.state import (
    Blocked,
    LoopState,
    NestedRequests,
    Step,
    has_message,
    is_held,
    may_save,
    revised,
    waits_for_people,
)
from outlast.loop.trace_mark import TraceMark
from outlast.loop.transcript import (
    admit,
    begin_question,
    drop_unchecked,
    hide_blocked,
    needs_offload,
    note,
    open_with,
    storing,
    take_in,
    take_offload,
    weighed,
    with_ignored,
)
from outlast.loop.values import Failure
from outlast.loop.view import shown


def advance(state: LoopState, event: Event) -> Step:
    """Take one event into the run.

    Args:
        state: where the run is; `LoopState()` before the first event.
        event: what happened.

    Returns:
        Where the run is now, and what the shell has to do about it.
    """
    starts, is_new = isinstance(event, RunStarted), state.phase == "new"
    if state.phase == "closed" or (starts != is_new and not isinstance(event, RunEnded)):
        return state, ()
    before = state
    state, commands = _take(state, event)
    if state is not before:
        state, further = _go_on(_without_stale_blocks(state), len(before.items))
        state, commands = requests.with_marks(state, commands + further, event.at_ms)
    if state.parent is not None and state.pending_approvals != before.pending_approvals:
        commands = (requests.report(state), *commands)
    return state, commands


def _without_stale_blocks(state: LoopState) -> LoopState:
    """Forget what blocked effects that have been answered or stopped."""
    if not state.blocked:
        return state
    pending = {effect.effect for effect in state.pending}
    kept = tuple(one for one in state.blocked if one.effect in pending)
    return state if kept == state.blocked else revised(state, blocked=kept)


def _take(state: LoopState, event: Event) -> Step:
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
            return ended(state, event), ()
        case EffectBlocked():
            return _effect_blocked(state, event), ()
        case SignalUnreadable():
            return with_ignored(state, event.at_ms, event.name, event.problem), ()
        case _:
            return _effect_answered(state, event)


def _go_on(state: LoopState, weighed_up_to: int) -> Step:
    """Do what needs no further event: begin turns, give answers, save, store, close."""
    commands: tuple[Command, ...] = ()
    while state.phase != "closed":
        state, weighed_up_to = weighed(state, weighed_up_to), len(state.items)
        kinds = {effect.kind for effect in state.pending}
        if may_save(state) and "save_session" not in kinds:
            step = requests.issue(state, requests.session_save(state, state.to_save[0]))
        elif state.phase == "turned" and not is_held(state):
            step = _begin_turn(state)
        elif state.candidate is not None and not (is_held(state) or "finalize_answer" in kinds):
            step = conclude(state, state.candidate)
        elif state.closing is not None and not kinds:
            step = finish(state, state.closing)
        elif state.closing is not None and kinds == {"offload_items"}:
            step = abandon(state, phrases.CANCELLED, keep=frozenset())  # the end does not wait
        elif needs_offload(state) and "offload_items" not in kinds:
            step = requests.issue(state, requests.offload(state))
        else:
            break
        state = step[0]
        commands += step[1]
    return state, commands


# --- What each event does ------------------------------------------------------------------------


def _run_started(event: RunStarted) -> Step:
    state = LoopState(
        run_id=event.run_id,
        agent=event.agent,
        max_turns=event.max_turns,
        keep_open=event.keep_open,
        settings=event.settings,
        context=event.context,
        context_type=event.context_type,
        phase="preparing",
        inbox=(event.message,),
        handoff_path=(event.agent,),
        started_at_ms=event.at_ms,
        session=event.session,
        thread=event.thread,
        handled=event.handled,
        parent=event.parent,
        chain_id=event.chain_id,
    )
    return requests.issue(state, requests.preparation(state))


def _effect_blocked(state: LoopState, event: EffectBlocked) -> LoopState:
    """Show what no worker has, until one has it."""
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
    """Take over what an effect came to; None when the event is the answer to another kind."""
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
            return tool_finished(rest, effect, event.result)
        case RunAgent(), AgentFinished():
            return agent_finished(rest, effect, event.result)
        case RunHandoff(), HandoffFinished():
            return hand_over(rest, event.result)
        case FinalizeAnswer(), AnswerFinalized():
            return concluded(rest, event.result)
        case SaveSession(), SessionSaved():
            return saved(rest), ()
        case _:
            return None


def _effect_failed(state: LoopState, effect: Effect, event: EffectFailed) -> Step:
    """A call's failure is told to the model, unless its plan says otherwise; others end the run.

    A run that cannot even be prepared closes, also a conversation: it has no agent to talk to.
    """
    failure = event.failure
    match effect:
        case PrepareRun():
            return close(revised(state, failure=failure), "failed"), ()
        case CheckInput():
            return _not_passed(state, failure)
        case CallModel() | RunHandoff():
            return fail(state, failure)
        case FinalizeAnswer() if state.phase == "closing":
            return end_told(state), ()
        case FinalizeAnswer():
            own = effect.candidate.failure
            if own is not None and not is_handled(state, own):  # it was only to be told
                failure = own
            return not_concluded(state, failure)
        case SaveSession():
            return save_failed(state, failure, event.at_ms)
        case OffloadItems():  # what is large stays where it is, until a worker can store it
            return revised(state, stores=False, inline=0), ()
        case RunTool() | RunAgent():
            return call_failed(state, effect, failure)
        case _:
            assert_never(effect)


def _prepared(state: LoopState, briefing: PreparedRun) -> LoopState:
    context = briefing.context if state.context is None else state.context
    context = apply(context, briefing.changes)
    state = revised(
        state,
        phase="turned",
        model=briefing.model,
        context=context,
        required_steps=briefing.required_steps,
    )
    if briefing.stores:
        state = storing(state)
    if briefing.traced:
        state = revised(state, trace=TraceMark(started_at_ms=state.started_at_ms))
    return state if briefing.input is None else open_with(state, briefing.input, briefing.old)


def _input_checked(state: LoopState, result: CheckResult) -> Step:
    state = revised(
        state,
        context=apply(state.context, result.changes),
        guardrails=(*state.guardrails, *result.results),
    )
    if result.failure is not None:
        return _not_passed(state, result.failure)
    if state.phase == "checking" and state.cancel is None:
        state, commands = _ask_model(state)
        return state if is_held(state) else revised(state, unchecked_from=None), commands
    state = revised(state, unchecked_from=None)
    if state.phase == "acting":  # a run that is to stop after the turn may now wait for people only
        return continue_acting(state)
    return close(state, "cancelled") if state.phase == "checking" else state, ()


def _not_passed(state: LoopState, failure: Failure) -> Step:
    """The question stays unanswered, and later calls, checks and the session know nothing of it."""
    state, commands = fail(state, failure)
    return drop_unchecked(state), commands


def _model_replied(state: LoopState, reply: ModelReply, at_ms: int) -> Step:
    if reply.unchecked:
        return _check_anew(state, reply)
    state = take_in(storing(state) if reply.stores else state, reply)
    if reply.failure is not None:
        return fail(state, reply.failure)
    return start_acting(state, at_ms) if reply.calls else end_of_reply(state, reply)


def _check_anew(state: LoopState, reply: ModelReply) -> Step:
    """Check the question with the guardrails that the agent has now, and call the model then."""
    checks = tuple(one for one in state.pending if isinstance(one, CheckInput))
    state = revised(
        state,
        pending=tuple(one for one in state.pending if one not in checks),
        required_steps=reply.required_steps,
        turn=state.turn - 1,
        starts=True,
        unchecked_from=state.question_from,
    )
    state, commands = _check_question(state)
    return state, (*(CancelEffect(effect=one.effect) for one in checks), *commands)


def _message_received(state: LoopState, event: MessageReceived) -> LoopState:
    if has_message(state, event.message.id):
        return state
    phase = "turned" if state.phase == "idle" else state.phase
    return retry_saving(revised(state, inbox=(*state.inbox, event.message), phase=phase))


def _decision_received(state: LoopState, event: DecisionReceived) -> Step:
    decision = event.decision
    problem = refusal(state.approvals, decision)
    if problem is not None:
        what = f"decision {decision.type} for {decision.request_id}"
        return with_ignored(state, event.at_ms, what, problem), ()
    return decide(state, decision, event.at_ms)


def _nested_reported(state: LoopState, event: NestedReported) -> Step:
    """Show what a nested run asks; a run that is to stop after the turn does not wait for it."""
    ours = any(
        isinstance(one, RunAgent) and one.nested_id == event.nested_id for one in state.pending
    )
    if not ours:
        return state, ()
    others = tuple(one for one in state.nested if one.nested_id != event.nested_id)
    newest = NestedRequests(nested_id=event.nested_id, requests=event.requests)
    return continue_acting(revised(state, nested=(*others, newest)))


def _cancel_requested(state: LoopState, event: CancelRequested) -> Step:
    """Stop at once, or let the turn end. Waiting for people is not a turn that would end."""
    if event.mode == "after_turn" and state.phase == "closing":
        return state, ()
    if event.mode == "after_turn" and state.phase == "idle":
        return close_gently(state), ()
    if event.mode == "after_turn" and waits_for_people(state):
        return stop_waiting(state)
    if event.mode == "after_turn":
        return revised(state, cancel="after_turn"), ()
    return cancel_now(state)


# --- How a turn begins ---------------------------------------------------------------------------


def _begin_turn(state: LoopState) -> Step:
    """Take in what was said and check it, and then ask the model."""
    if state.cancel is not None:
        return close(drop_unchecked(note(state, len(state.items))), "cancelled"), ()
    first = not state.answering
    spent = state.max_turns is not None and state.turn >= state.max_turns
    before = len(state.items)
    if first:
        state = hide_blocked(state)
    if first or not spent:  # a new message has a budget of its own
        state = admit(state)
    has_checks = not spent and not INPUT_CHECKS.isdisjoint(state.required_steps)
    if not has_checks:
        state = revised(state, unchecked_from=None)
    elif state.unchecked_from is None and len(state.items) > before:
        state = revised(state, unchecked_from=before)
    state = note(state, len(state.items))
    if first:
        start = before if state.unchecked_from is None else state.unchecked_from
        state = revised(begin_question(state), question_from=start)
    if spent:
        message = phrases.turns_used_up(state.turn)
        return fail(state, Failure(code="max_turns_exceeded", message=message))
    added = state.items[before:]
    if first:
        return _check_question(state)
    if added and has_checks:
        check = requests.input_check(state, "added", added)
        return requests.issue(revised(state, phase="checking"), check)
    return _ask_model(state)


def _check_question(state: LoopState) -> Step:
    """Run the input guardrails that come before the model, if there are any."""
    if "check_first" not in state.required_steps:
        return _ask_model(state)
    everything = shown(state.view, state.items, len(state.items))
    check = requests.input_check(state, "blocking", everything)
    return requests.issue(revised(state, phase="checking"), check)


def _ask_model(state: LoopState) -> Step:
    """Ask the model; what a question begins with may be checked meanwhile."""
    checks: tuple[Command, ...] = ()
    if state.turn == 0 and "check" in state.required_steps:
        everything = shown(state.view, state.items, len(state.items))
        state, checks = requests.issue(state, requests.input_check(state, "parallel", everything))
    state = revised(state, phase="thinking", turn=state.turn + 1, turns=state.turns + 1)
    state, calls = requests.issue(state, requests.model_call(state))
    return revised(state, starts=False), (*checks, *calls)
