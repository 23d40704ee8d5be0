"""The agent loop. The only place where a run's state changes.

`advance(state, event)` returns the next state and the commands that the shell has to carry out.
It reads no clock, makes no ids, does no I/O and calls no user code, so the same events always
make the same run: in the workflow, in its replay, in a client that folds the history, in a test.

The life of a run, one phase after the other:

    new           --RunStarted-->        preparing       look the agent up
    preparing     --RunPrepared-->       thinking        ask the model
    thinking      --ModelReplied-->      acting          the reply has calls
                                         idle | closed   the reply is the answer
                                         thinking        the reply says nothing yet
    acting        --ToolFinished-->      acting          until every call is settled, and then
                    DecisionReceived     thinking        show the outputs to the model, or
                                         transferring    run the callback of a handoff
    transferring  --HandoffFinished-->   thinking        as the agent that took over
    idle          --MessageReceived-->   thinking        the next question
    any           --CancelRequested-->   closed          now, or when the turn is over
    any           --EffectFailed-->      see `_effect_failed`

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are taken over in the order of the calls, whenever they
arrive. Nothing that was said to the run is lost: it is answered, or its failure is, or it can be
read in the inbox of the closed run.

Read top to bottom: first what each event does, then how a turn begins, acts and ends.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

from outlast.loop import phrases, requests
from outlast.loop.approvals import refusal
from outlast.loop.calls import ModelReply
from outlast.loop.changes import Change, apply
from outlast.loop.commands import (
    CallModel,
    CancelEffect,
    Command,
    Effect,
    PrepareRun,
    RunHandoff,
    RunTool,
)
from outlast.loop.events import (
    CancelRequested,
    DecisionReceived,
    EffectFailed,
    Event,
    HandoffFinished,
    MessageReceived,
    ModelReplied,
    RunPrepared,
    RunStarted,
    SignalUnreadable,
    ToolFinished,
)
from outlast.loop.items import refusal_of, text_of
from outlast.loop.state import Answer, Outcome, RunState, has_message, waits_for_people
from outlast.loop.transcript import (
    admit,
    call_of,
    last_message,
    take_in,
    take_over,
    with_call,
    with_ignored,
)
from outlast.loop.values import Failure, Json

Step: TypeAlias = tuple[RunState, tuple[Command, ...]]


def advance(state: RunState, event: Event) -> Step:
    """Take one event into the run.

    Args:
        state: where the run is; `RunState()` before the first event.
        event: what happened.

    Returns:
        Where the run is now, and what the shell has to do about it.
    """
    if state.phase == "closed" or (state.phase == "new") != isinstance(event, RunStarted):
        return state, ()
    match event:
        case RunStarted():
            return _run_started(event)
        case RunPrepared() | ModelReplied() | ToolFinished() | HandoffFinished() | EffectFailed():
            return _effect_answered(state, event)
        case MessageReceived():
            return _message_received(state, event)
        case DecisionReceived():
            return _decision_received(state, event)
        case CancelRequested():
            return _cancel_requested(state, event)
        case SignalUnreadable():
            return with_ignored(state, event.at_ms, event.name, event.problem), ()
        case _:
            assert_never(event)


# --- What each event does ------------------------------------------------------------------------


def _run_started(event: RunStarted) -> Step:
    state = RunState(
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
    )
    return requests.issue(state, requests.preparation(state))


def _effect_answered(
    state: RunState,
    event: RunPrepared | ModelReplied | ToolFinished | HandoffFinished | EffectFailed,
) -> Step:
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state, ()
    rest = replace(state, pending=tuple(one for one in state.pending if one is not effect))
    match effect, event:
        case PrepareRun(), RunPrepared():
            context = event.briefing.context if rest.context is None else rest.context
            return _begin_turn(replace(rest, model=event.briefing.model, context=context))
        case CallModel(), ModelReplied():
            return _model_replied(rest, event.reply, event.at_ms)
        case RunTool(), ToolFinished():
            return _settle(rest, effect, event.result.output, event.result.changes)
        case RunHandoff(), HandoffFinished():
            return _hand_over(replace(rest, context=apply(rest.context, event.result.changes)))
        case _, EffectFailed():
            return _effect_failed(rest, effect, event.failure)
        case _:
            return state, ()


def _effect_failed(state: RunState, effect: Effect, failure: Failure) -> Step:
    """A tool's failure is told to the model, unless its plan says otherwise; others end the run.

    A run that cannot even be prepared closes, also a conversation: it has no agent to talk to.
    """
    match effect:
        case PrepareRun():
            return _close(replace(state, failure=failure), "failed")
        case CallModel() | RunHandoff():
            return _fail(state, failure)
        case RunTool():
            output = phrases.tool_failed(effect.name, failure.code)
            index = call_of(state, effect)
            if not state.calls[index].plan.fatal:
                return _settle(state, effect, output, ())
            call = replace(state.calls[index], status="settled", output=output)
            return _fail(with_call(state, index, call), failure)
        case _:
            assert_never(effect)


def _message_received(state: RunState, event: MessageReceived) -> Step:
    if has_message(state, event.message.id):
        return state, ()
    state = replace(state, inbox=(*state.inbox, event.message))
    return _begin_turn(state) if state.phase == "idle" else (state, ())


def _decision_received(state: RunState, event: DecisionReceived) -> Step:
    decision = event.decision
    problem = refusal(state.approvals, decision)
    if problem is not None:
        what = f"decision {decision.type} for {decision.request_id}"
        return with_ignored(state, event.at_ms, what, problem), ()
    approved = decision.type == "approve"
    approvals = tuple(
        replace(
            request,
            status="approved" if approved else "rejected",
            decision=decision,
            decided_at_ms=event.at_ms,
        )
        if request.id == decision.request_id
        else request
        for request in state.approvals
    )
    state = replace(state, approvals=approvals)
    index, call = next(
        (index, one) for index, one in enumerate(state.calls) if one.approval == decision.request_id
    )
    if approved:
        return _run_call(state, index)
    output = decision.message or phrases.REJECTED
    return _continue_acting(with_call(state, index, replace(call, status="settled", output=output)))


def _cancel_requested(state: RunState, event: CancelRequested) -> Step:
    """Stop at once, or let the turn end. Waiting for people is not a turn that would end."""
    if state.phase == "idle" and event.mode == "after_turn":
        return _close_gently(state)
    if event.mode == "after_turn" and not waits_for_people(state):
        return replace(state, cancel="after_turn"), ()
    state, stops = _abandon(state, phrases.CANCELLED)
    state, finishing = _close(state, "cancelled")
    return state, (*stops, *finishing)


# --- How a turn begins ---------------------------------------------------------------------------


def _begin_turn(state: RunState) -> Step:
    """Show the model everything that was said, and ask it."""
    if state.cancel is not None:
        return _close(state, "cancelled")
    spent = state.max_turns is not None and state.turn >= state.max_turns
    if not (spent and state.answering):  # a new message has a budget of its own
        state = admit(state)
    if spent:
        message = phrases.turns_used_up(state.turn)
        return _fail(state, Failure(code="max_turns_exceeded", message=message))
    state = replace(state, phase="thinking", turn=state.turn + 1, turns=state.turns + 1)
    return requests.issue(state, requests.model_call(state))


def _model_replied(state: RunState, reply: ModelReply, at_ms: int) -> Step:
    state = take_in(state, reply)
    if reply.failure is not None:
        return _fail(state, reply.failure)
    if reply.calls:
        return _start_acting(replace(state, phase="acting"), at_ms)
    return _end_of_reply(state, reply)


def _end_of_reply(state: RunState, reply: ModelReply) -> Step:
    """A reply without calls: an answer, or nothing yet. Only its last message counts."""
    if reply.final == "again":
        return _begin_turn(state)
    index = last_message(state, len(reply.items))
    if reply.final == "value":
        return _answer(state, reply.value, index)
    raw = state.items[index].raw if index is not None else {}
    refused = refusal_of(raw)
    if refused is not None:
        return _fail(state, Failure(code="model_refusal", message=refused))
    return _answer(state, text_of(raw), index)


# --- How a turn acts -----------------------------------------------------------------------------


def _start_acting(state: RunState, at_ms: int) -> Step:
    """Start every call that may start; ask people about those that may not."""
    commands: list[Command] = []
    for index, call in enumerate(state.calls):
        if call.status != "planned":
            continue
        if call.plan.needs_approval:
            state = _ask_people(state, index, at_ms)
        else:
            state, started = _run_call(state, index)
            commands.extend(started)
    state, further = _continue_acting(state)
    return state, (*commands, *further)


def _ask_people(state: RunState, index: int, at_ms: int) -> RunState:
    call = state.calls[index]
    request = requests.approval(state, call, at_ms)
    state = replace(state, approvals=(*state.approvals, request))
    return with_call(state, index, replace(call, status="waiting", approval=request.id))


def _run_call(state: RunState, index: int) -> Step:
    """Run a tool call, on the context as the calls before it have left it so far."""
    call = state.calls[index]
    run = requests.tool_run(state, index)
    state = with_call(state, index, replace(call, status="running", effect=run.effect))
    return requests.issue(state, run)


def _settle(state: RunState, effect: RunTool, output: Json, changes: Sequence[Change]) -> Step:
    index = call_of(state, effect)
    call = state.calls[index]
    settled = replace(call, status="settled", output=output, changes=tuple(changes))
    return _continue_acting(with_call(state, index, settled))


def _continue_acting(state: RunState) -> Step:
    """Go on when every call is settled; a handoff waits for all others."""
    if any(call.status in {"waiting", "running"} for call in state.calls):
        if state.cancel is not None and waits_for_people(state):
            return _cancel_requested(state, CancelRequested(at_ms=0))
        return state, ()
    state = take_over(state, [call for call in state.calls if call.status == "settled"])
    handoffs = tuple(call for call in state.calls if call.status == "held")
    if not handoffs:
        return _begin_turn(replace(state, calls=()))
    winner, *others = handoffs
    ignored = [replace(call, output=phrases.HANDOFF_IGNORED) for call in others]
    state = replace(take_over(state, ignored), calls=(winner,))
    if not winner.plan.callback:
        return _hand_over(state)
    return requests.issue(replace(state, phase="transferring"), requests.handoff_run(state, winner))


def _hand_over(state: RunState) -> Step:
    """Make another agent the active one; its first turn begins."""
    call = state.calls[0]
    target = call.plan.target
    done = replace(call, output=phrases.handed_over(target))
    return _begin_turn(
        replace(
            take_over(state, [done]),
            calls=(),
            agent=target,
            model=call.plan.target_model,
            handoff_path=(*state.handoff_path, target),
        )
    )


# --- How a turn ends -----------------------------------------------------------------------------


def _answer(state: RunState, output: Json, item: int | None) -> Step:
    """The question is answered: take up the next one, wait for it, or close."""
    answer = Answer(state.answering, item, state.agent)
    state = replace(
        state,
        answers=(*state.answers, answer),
        answering=(),
        final_output=output,
        failure=None,
        turn=0,
    )
    return _next_question(state)


def _fail(state: RunState, failure: Failure) -> Step:
    """The question cannot be answered. A conversation says so and stays open; a run closes."""
    state, stops = _abandon(state, phrases.NOT_RUN)
    answer = Answer(state.answering, None, state.agent, failure)
    state = replace(
        state,
        answers=(*state.answers, answer),
        answering=(),
        final_output=None,
        failure=failure,
        turn=0,
    )
    state, commands = _next_question(state) if state.keep_open else _close(state, "failed")
    return state, (*stops, *commands)


def _next_question(state: RunState) -> Step:
    if state.cancel is not None:
        return _close_gently(state)
    if state.inbox:
        return _begin_turn(state)
    if state.keep_open:
        return replace(state, phase="idle"), ()
    return _close(state, "completed")


def _close_gently(state: RunState) -> Step:
    """Close between two questions: how the last one ended is how the run ends."""
    return _close(state, "completed" if state.failure is None else "failed")


def _close(state: RunState, outcome: Outcome) -> Step:
    state = replace(state, phase="closed", outcome=outcome)
    return state, (requests.finish(state, outcome),)


def _abandon(state: RunState, output: str) -> Step:
    """Stop what is in flight. What has finished counts; what has not begun gets `output`."""
    stops = tuple(CancelEffect(effect=effect.effect) for effect in state.pending)
    outputs = {"settled": None, "running": phrases.CANCELLED}
    calls = [
        replace(call, output=outputs.get(call.status, output) or call.output)
        for call in state.calls
    ]
    approvals = tuple(
        replace(request, status="cancelled") if request.status == "pending" else request
        for request in state.approvals
    )
    state = take_over(replace(state, approvals=approvals, calls=(), pending=()), calls)
    return state, stops
