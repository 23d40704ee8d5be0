"""The agent loop: every transition of a run, in the order in which a run goes through them.

`advance(state, event)` returns the next state and the commands that the shell has to carry out.
It reads no clock, makes no ids, does no I/O and calls no user code, so the same events always
make the same run: in the workflow, in its replay, in a client that folds the history, in a test.

The life of a run, one phase after the other:

    new           --RunStarted-->        preparing       look the agent up
    preparing     --RunPrepared-->       turned          a turn may begin
                                         idle            nothing has been said yet
    turned                               asking          a budget is used up
                                         checking        a new message has guardrails
                                         thinking        call the model
    checking      --InputChecked-->      thinking        the guardrails passed
    thinking      --ModelReplied-->      acting          the reply has calls
                                         finalizing      the reply is the answer
                                         turned          the reply is no answer yet
    acting        --ToolFinished-->      acting          until every call is settled, and then
                    AgentFinished        turned          show the outputs to the model, or
                    DecisionReceived     transferring    run a handoff's callback, or
                    TimePassed           finalizing      take an output as the answer
    transferring  --HandoffFinished-->   turned          as the agent that took over
    finalizing    --AnswerFinalized-->   asking          a person has to approve the answer
                                         idle | closing  the question is answered
    asking        --DecisionReceived-->  idle | closing  the answer is approved
                                         turned          it is not, and the model answers anew; or
                                                         the budget is extended
    idle          --MessageReceived-->   turned          the next question
    idle          --RetryRequested-->    checking        the failed question again, as it stands
                                         thinking
    idle          --LineReplied-->       acting          said and answered on a realtime line
    thinking                             finalizing
    any           --ConversationHeld-->  held            when the turn is over
    held          --PersonSpoke-->       held            the question is answered by a person
                  --ConversationReleased--> turned | idle
    any           --CancelRequested-->   closing         now, or when the turn is over
    closing       --SessionSaved-->      closed          everything is saved
    any           --EffectFailed-->      see `_effect_failed`

`turned`, `finalizing` and `closing` need no further event: `_continue` leaves them, unless input
guardrails still run beside the model, or the session is still being saved.

While a realtime line is attached (`HoldLine` is pending), it makes the model calls: a `CallModel`
stays pending until the line replies. What is said while calls run belongs to the same turn.

Time is an event, and every event tells the time: what is due by then happens before it, such as the
expiry of a request. `TimePassed` wakes a run that nothing else happens to.

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are recorded in the order of the calls, not of their arrival;
the changes of calls that shared one object in a worker are in that worker's order.
Every message is answered, or fails with a reason, or stays in the inbox of the closed run.

The sections: what each event does, how a turn begins, how it acts on the reply, how people decide,
how a question ends. `state.py` has the state, `votes.py` the rules of decisions, `transcript.py`
records items and outputs, `requests.py` makes the effects, and `invariants.py` checks the state
after every event.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from outlast.loop import lines, phrases, requests, spending, votes
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    Decision,
    Evidence,
    Person,
    Remembered,
)
from outlast.loop.call_forms import MAY_CALL, MCP_APPROVAL
from outlast.loop.calls import (
    AgentResult,
    Call,
    CallStatus,
    HandoffResult,
    ModelReply,
    PreparedRun,
    RequiredApproval,
    ToolResult,
)
from outlast.loop.canonical import digest
from outlast.loop.changes import apply, clashes, diff
from outlast.loop.checks import (
    ENDS_CALLER,
    INPUT_CHECKS,
    Candidate,
    CheckResult,
    FinalizedAnswer,
    ToolOutcome,
)
from outlast.loop.effects import (
    STOPPED_AT_THE_END,
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
    Finish,
    HandoffFinished,
    HoldLine,
    InputChecked,
    ItemsOffloaded,
    LendBudget,
    LineEnded,
    ModelReplied,
    NotifyAfterEnd,
    NotifyPeople,
    OffloadItems,
    PeopleNotified,
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
    ActionEvent,
    BudgetLent,
    CancelRequested,
    ConversationHeld,
    ConversationReleased,
    DecisionReceived,
    EffectBlocked,
    Event,
    HumanAction,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonSpoke,
    RequestClaimed,
    RetryRequested,
    RunEnded,
    RunStarted,
    SignalUnreadable,
    TimePassed,
)
from outlast.loop.items import (
    Item,
    Message,
    last_words,
    message_of_person,
    refusal_of,
    text_of,
)
from outlast.loop.notices import Notice, Undelivered, notices, undelivered
from outlast.loop.state import (
    Answer,
    Blocked,
    Ending,
    Gate,
    Hold,
    Lent,
    LoopState,
    NestedRequests,
    SaveFailure,
    Server,
    Start,
    Step,
    Words,
    claim_problem,
    decision_problem,
    has_message,
    hold_problem,
    is_being_checked,
    is_known,
    judged_at_ms,
    line_of,
    line_problem,
    may_save,
    release_problem,
    released,
    retry_problem,
    revised,
    say_problem,
    sender_of,
    waits_for_people,
    withdraw_problem,
)
from outlast.loop.transcript import (
    answer_unchecked,
    answered_inputs,
    begin_question,
    call_of,
    change_view,
    drop_gate,
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
    replace_answer,
    settle_answered,
    storing,
    take_offload,
    weighed,
    with_call,
    with_ignored,
    withhold_turn,
)
from outlast.loop.values import Failure, Json, JsonObject, is_reference
from outlast.loop.view import shown

MOST_UNDELIVERED: Final = 50
"""How many undelivered notices a run keeps."""


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
    before, weighed_up_to = state, len(state.items)
    if isinstance(event, HumanAction):
        state, commands = _take_action(state, event)
    else:
        state, commands = _pass_time(state, event.at_ms)
        # An event of the blob store weighs all items that are there.
        state, weighed_up_to = weighed(state, weighed_up_to), len(state.items)
        state, taken = _take_event(state, event)
        commands += taken
    if state is not before:
        state, further = _continue(_without_stale_blocks(state), weighed_up_to, event.at_ms)
        commands += further
        state, commands = _notify(before, state, event, commands)
        state = spending.with_pauses(state, event.at_ms)
        state = revised(state, at_ms=max(event.at_ms, before.at_ms))
    if state.start.parent is not None and (
        state.pending_approvals != before.pending_approvals
        or (state.wants and (state.wants != before.wants or isinstance(event, BudgetLent)))
    ):
        commands = (requests.report(state), *commands)
    return state, commands


NONCES_KEPT_MS: Final = 30 * 60_000
"""How long a signed action is known. Workers refuse one that was signed much earlier."""


def _take_action(state: LoopState, event: ActionEvent) -> Step:
    """Take what a person does, once, at the time for which it counts."""
    if is_known(state, event.nonce):
        return _pass_time(state, event.at_ms)
    state, commands = _pass_time(state, judged_at_ms(state, event))
    if event.verified and event.nonce:
        kept = (one for one in state.nonces if one[0] > event.at_ms - NONCES_KEPT_MS)
        state = revised(state, nonces=(*kept, (event.at_ms, event.nonce)))
    state, taken = _take_event(state, event)
    state, late = _pass_time(state, event.at_ms)
    return state, (*commands, *taken, *late)


def _notify(
    before: LoopState, state: LoopState, event: Event, commands: tuple[Command, ...]
) -> Step:
    """Notify people of an event; what the end of the run leaves is delivered after it.

    Runs that were prepared by an earlier version drop what their end leaves.
    """
    ends = state.phase in {"closing", "closed"}
    if not state.notifies or (ends and not state.notifies_later):
        return state, commands
    news = notices(before, state, event.at_ms)
    if (
        state.notifies_later
        and before.hold is not None
        and (_waits_for_holder(state) and not _waits_for_holder(before))
    ):
        at_ms, by = event.at_ms, before.hold.by
        news += (Notice(event="waiting", number=at_ms, by=by, at_ms=at_ms),)
    if ends:
        news = (*_stopped_notices(before, state, event, commands), *news)
    if not news:
        return state, commands
    if state.phase != "closed":
        state, further = requests.issue(state, requests.notification(state, news))
        return state, commands + further
    issued = [one for one in commands if not isinstance(one, NotifyPeople)]
    finish = [one for one in issued if isinstance(one, Finish)]
    rest = [one for one in issued if not isinstance(one, Finish)]
    return state, (*rest, NotifyAfterEnd(notices=news), *finish)


def _waits_for_holder(state: LoopState) -> bool:
    """Whether the user waits for the person who has the conversation."""
    return state.hold is not None and bool(state.inbox or state.question.answering)


def _stopped_notices(
    before: LoopState, state: LoopState, event: Event, commands: Sequence[Command]
) -> list[Notice]:
    """Return the notices whose delivery this step has stopped."""
    issued = [one for one in commands if isinstance(one, NotifyPeople)]
    pending = [one for one in before.pending if isinstance(one, NotifyPeople)]
    answered: int | None = getattr(event, "effect", None)
    still = {one.effect for one in state.pending} | {answered}
    stopped = (one for one in (*pending, *issued) if one.effect not in still)
    return [notice for one in stopped for notice in one.notices]


def _without_stale_blocks(state: LoopState) -> LoopState:
    """Forget the blocks of effects that are no longer pending."""
    if not state.blocked:
        return state
    pending = {effect.effect for effect in state.pending}
    kept = tuple(one for one in state.blocked if one.effect in pending)
    return state if kept == state.blocked else revised(state, blocked=kept)


def _take_event(  # noqa: C901, PLR0911, PLR0912  a row for each event
    state: LoopState, event: Event
) -> Step:
    match event:
        case RunStarted():
            return _run_started(event)
        case MessageReceived():
            return _message_received(state, event)
        case RetryRequested():
            return _retry_requested(state, event)
        case MessageWithdrawn():
            return _message_withdrawn(state, event), ()
        case DecisionReceived():
            return _decision_received(state, event)
        case RequestClaimed():
            return _request_claimed(state, event), ()
        case TimePassed():
            return state, ()
        case ConversationHeld():
            return _conversation_held(state, event)
        case PersonSpoke():
            return _person_spoke(state, event)
        case ConversationReleased():
            return _conversation_released(state, event)
        case NestedReported():
            return _nested_reported(state, event)
        case BudgetLent():
            return _budget_lent(state, event), ()
        case LineAttached():
            return _line_attached(state, event)
        case LineReplied():
            return _line_replied(state, event)
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


def _continue(state: LoopState, weighed_up_to: int, at_ms: int) -> Step:
    """Do everything that needs no further event: begin turns, answer, save, store, close."""
    commands: tuple[Command, ...] = ()
    while state.phase != "closed":
        state, weighed_up_to = weighed(state, weighed_up_to), len(state.items)
        kinds = {effect.kind for effect in state.pending}
        if may_save(state) and "save_session" not in kinds:
            step = requests.issue(state, requests.session_save(state, state.saving.to_save[0]))
        elif state.phase == "turned" and not is_being_checked(state):
            step = _begin_turn(state, at_ms)
        elif state.phase == "acting" and (wanting := spending.wanting(state)) is not None:
            step = _lend_more(state, *wanting, at_ms)
        elif state.question.candidate is not None and not (
            is_being_checked(state) or "finalize_answer" in kinds
        ):
            step = _finalize(state, state.question.candidate, at_ms)
        elif state.closing is not None and not kinds:
            step = _end_run(state, state.closing)
        elif state.closing is not None and kinds <= STOPPED_AT_THE_END:
            step = _cancel_pending(state, phrases.CANCELLED, keep=frozenset())
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
        requester=event.requester,
        takeover=event.takeover,
        budgets=event.budgets,
    )
    state = LoopState(
        run_id=event.run_id,
        start=start,
        phase="preparing",
        agent=event.agent,
        context=event.context,
        inbox=(event.message,) if event.message is not None else (),
        handoff_path=(event.agent,),
        server=Server(thread=event.thread),
        remembered=event.remembered,
    )
    return requests.issue(state, requests.preparation(state))


def _effect_blocked(state: LoopState, event: EffectBlocked) -> LoopState:
    """Show that no worker can carry out an effect, until one can."""
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state
    others = tuple(one for one in state.blocked if one.effect != event.effect)
    if not event.lacks:
        return revised(state, blocked=others) if others != state.blocked else state
    request = requests.blocked_effect(state, effect, event.lacks, event.at_ms)
    newest = Blocked(effect=event.effect, at_ms=event.at_ms, lacks=event.lacks, request=request)
    return revised(state, blocked=(*others, newest))


def _effect_answered(state: LoopState, event: EffectEvent) -> Step:
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state, ()
    rest = revised(state, pending=tuple(one for one in state.pending if one is not effect))
    if isinstance(event, EffectFailed):
        return _effect_failed(rest, effect, event)
    return _effect_done(rest, effect, event) or (state, ())


def _effect_done(  # noqa: C901, PLR0911  a row for each effect
    rest: LoopState, effect: Effect, event: EffectEvent
) -> Step | None:
    """Apply the result of an effect; None if the event answers another kind of effect."""
    if isinstance(effect, OffloadItems):
        is_answer = isinstance(event, ItemsOffloaded)
        return (take_offload(rest, effect, event.result), ()) if is_answer else None
    if isinstance(effect, NotifyPeople):
        if not isinstance(event, PeopleNotified):
            return None
        return _with_undelivered(rest, event.result.undelivered), ()
    match effect, event:
        case PrepareRun(), RunPrepared():
            return _prepared(rest, event.result), ()
        case CheckInput(), InputChecked():
            return _input_checked(rest, effect, event.result, event.at_ms)
        case CallModel(), ModelReplied():
            return _model_replied(rest, event.result, event.at_ms)
        case RunTool(), ToolFinished():
            return _tool_finished(rest, effect, event.result, event.at_ms)
        case RunAgent(), AgentFinished():
            return _agent_finished(rest, effect, event.result, event.at_ms)
        case RunHandoff(), HandoffFinished():
            return _handed_over(rest, event.result, event.at_ms)
        case FinalizeAnswer(), AnswerFinalized():
            return _answer_finalized(rest, event.result, event.at_ms)
        case SaveSession(), SessionSaved():
            return _session_saved(rest), ()
        case HoldLine(), LineEnded():
            return _reroute_model_call(rest)
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
            return _input_checked(state, effect, CheckResult(failure=failure), event.at_ms)
        case CallModel() | RunHandoff():
            return _fail_question(state, failure)
        case FinalizeAnswer():
            return _finalizing_failed(state, failure)
        case SaveSession():
            return _saving_failed(state, failure, event.at_ms)
        case HoldLine():  # nobody has heard of the line for too long
            return _reroute_model_call(state)
        case NotifyPeople():  # a run does not depend on who hears of it
            lost = tuple(undelivered(one, failure.message) for one in effect.notices)
            return _with_undelivered(state, lost), ()
        case OffloadItems():  # large content stays inline until a worker can store it
            return revised(state, stores=False), ()
        case RunTool() | RunAgent():
            return _call_failed(state, effect, failure)
        case _:
            assert_never(effect)


def _with_undelivered(state: LoopState, lost: tuple[Undelivered, ...]) -> LoopState:
    """Keep the newest notices that nobody has heard of."""
    newest = (*state.undelivered, *lost)[-MOST_UNDELIVERED:]
    return revised(state, undelivered=newest) if lost else state


def _prepared(state: LoopState, prepared: PreparedRun) -> LoopState:
    context = prepared.context if state.context is None else state.context
    context = apply(context, prepared.changes)
    state = revised(
        state,
        phase="turned" if state.inbox or state.hold is not None else "idle",
        model=prepared.model,
        context=context,
        required_steps=prepared.required_steps,
        notifies=prepared.notifies,
        notifies_later=prepared.notifies_later,
    )
    if prepared.stores:
        state = storing(state)
    return (
        state
        if prepared.input is None
        else record_prepared_input(state, prepared.input, prepared.old)
    )


def _input_checked(state: LoopState, effect: CheckInput, result: CheckResult, at_ms: int) -> Step:
    state = revised(state, context=apply(state.context, result.changes))
    if effect.stage == "said":
        return _said_checked(state, result.failure, at_ms)
    if effect.stage == "added" and state.answered_unchecked:
        if result.failure is not None:
            what = "a message that a person answered"
            state = with_ignored(state, at_ms, what, result.failure.message)
        state = settle_answered(state, passed=result.failure is None)
        return revised(state, phase="turned"), ()
    state = revised(state, guardrails=(*state.question.guardrails, *result.results))
    if result.failure is not None:
        return _not_passed(state, result.failure)
    if state.phase == "checking" and state.hold is not None and state.cancel is None:
        return revised(state, phase="turned"), ()  # checked again when the person releases it
    if state.phase == "checking" and state.cancel is None:
        state, commands = _ask_model(state)
        return state if is_being_checked(state) else revised(state, unchecked_from=None), commands
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
        phase="turned",
        pending=tuple(one for one in state.pending if one not in checks),
        required_steps=reply.required_steps,
        turn=state.question.turn - 1,
        starts=True,
        unchecked_from=_input_from(state),
    )
    return state, tuple(CancelEffect(effect=one.effect) for one in checks)


def _message_received(state: LoopState, event: MessageReceived) -> Step:
    if has_message(state, event.message.id):
        return state, ()
    phase = "turned" if state.phase in {"idle", "held"} else state.phase
    state = _retry_saving(revised(state, inbox=(*state.inbox, event.message), phase=phase))
    return _interrupt(state) if event.message.mode == "interrupt" else (state, ())


def _interrupt(state: LoopState) -> Step:
    """Stop the model call and calls that have not begun, to answer the newest message.

    The model call under way is cancelled; tools that have begun run to their end.
    """
    if state.phase == "thinking" and _line_call(state) is None:
        return _stop_thinking(state)
    gate = state.gate
    if gate is not None and gate.budget is None:
        state = _settle_pending(state, "superseded")
        return _reject_answer(state, gate, phrases.ANSWER_SUPERSEDED)
    if state.phase != "acting":
        return state, ()
    for index, call in enumerate(state.calls):
        if call.status in {"planned", "waiting"}:
            dropped = replace(call, status="settled", output=phrases.SUPERSEDED)
            state = with_call(state, index, dropped)
    return _continue_acting(_settle_pending(state, "superseded", but=gate))


def _stop_thinking(state: LoopState) -> Step:
    """Cancel the model call under way; the turn counts."""
    stopped = tuple(one for one in state.pending if isinstance(one, CallModel))
    rest = tuple(one for one in state.pending if one not in stopped)
    stops = tuple(CancelEffect(effect=one.effect) for one in stopped)
    return revised(state, pending=rest, phase="turned"), stops


def _message_withdrawn(state: LoopState, event: MessageWithdrawn) -> LoopState:
    """Forget a message that no question has taken yet."""
    problem = withdraw_problem(state, event.message_id)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"withdraw {event.message_id:.80}", problem)
    rest = tuple(one for one in state.inbox if one.id != event.message_id)
    return revised(state, inbox=rest)


def _retry_requested(state: LoopState, event: RetryRequested) -> Step:
    """Call the model again for the failed question, with everything that it has led to so far.

    Its items stay and are not recorded again: what the failed try has done is not repeated.
    Guardrails check the question anew, and what they did not pass may be saved if they pass it now.
    """
    problem = retry_problem(state, event.answers)
    if problem is not None:
        return with_ignored(state, event.at_ms, "retry", problem), ()
    *earlier, failed = state.answers
    blocked, queued = state.blocked_from, state.saving.queued_up_to
    unchecked = INPUT_CHECKS.isdisjoint(state.required_steps)
    state = revised(
        state,
        answers=(*earlier, replace(failed, to=())),
        answering=failed.to,
        failure=None,
        guardrails=(),
        blocked_from=None,
        queued_up_to=queued if blocked is None else blocked,
        unchecked_from=None if unchecked else _input_from(state),
    )
    state = _retry_saving(state)
    budget = spending.used_up(state, event.at_ms)
    if budget is not None:
        return _ask_to_go_on(state, budget, event.at_ms)
    return _check_question(state)


def _input_from(state: LoopState) -> int | None:
    """Return the index of the question's first input item; None for a message without items."""
    start = state.question.question_from
    has_input = start < len(state.items) and state.items[start].kind == "input"
    return start if has_input else None


def _decision_received(state: LoopState, event: DecisionReceived) -> Step:
    decision = event.decision
    if votes.is_repeated(state.approvals, decision):
        return state, ()
    problem = decision_problem(state, event)
    if problem is not None:
        what = f"decision {decision.type:.20} for {decision.request_id:.80}{_by(decision.person)}"
        return with_ignored(state, event.at_ms, what, problem), ()
    sender = sender_of(state, event.at_ms, verified=event.verified)
    given_up = (
        (block, request)
        for block in state.blocked
        if (request := block.request) is not None and request.id == decision.request_id
    )
    block, request = next(given_up, (None, None))
    if block is not None and request is not None:
        request = votes.voted(request, decision, sender, request.arguments)
        return _give_up(state, block, request)
    return _take_decision(state, decision, sender)


def _give_up(state: LoopState, block: Blocked, request: ApprovalRequest) -> Step:
    """Go on without an effect that no worker can carry out: a person does not wait any more.

    The model reads a call's output. Anything else fails as if it had failed by itself.
    """
    effect = next(one for one in state.pending if one.effect == block.effect)
    decision = request.decision
    assert decision is not None  # noqa: S101  one person is enough to reject
    pending = tuple(one for one in state.pending if one is not effect)
    approvals = (*state.approvals, request)
    state = revised(state, pending=pending, approvals=approvals, starts=True)
    if isinstance(effect, RunTool):
        index = call_of(state, effect)
        state = with_call(state, index, _rejected(state.calls[index], decision))
        state, commands = _continue_acting(state)
    elif isinstance(effect, RunHandoff):
        call = _rejected(state.calls[0], decision)
        state, commands = _continue_acting(revised(state, phase="acting", calls=(call,)))
    else:
        message = phrases.given_up(decision.by, block.lacks, decision.message)
        failure = Failure(code="user_error", message=message)
        if isinstance(effect, CallModel | CheckInput):  # a handler would wait for the worker, too
            state, commands = _settle_unanswered(state, failure)
        else:
            failed = EffectFailed(at_ms=block.at_ms, effect=effect.effect, failure=failure)
            state, commands = _effect_failed(state, effect, failed)
    return state, (CancelEffect(effect=effect.effect), *commands)


def _request_claimed(state: LoopState, event: RequestClaimed) -> LoopState:
    problem = claim_problem(state, event)
    if problem is not None:
        what = f"claim of {event.request_id:.80}{_by(event.person)}"
        return with_ignored(state, event.at_ms, what, problem)
    request = next(one for one in state.approvals if one.id == event.request_id)
    by = event.to or event.person.subject
    return _with_request(state, votes.claimed(request, by, event.minutes, event.at_ms))


def _conversation_held(state: LoopState, event: ConversationHeld) -> Step:
    """Give the conversation to a person, as soon as the turn is over.

    Meanwhile no time passes for requests.
    """
    by = event.to or event.person.subject
    problem = hold_problem(state, event)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"hold{_by(event.person)}", problem), ()
    if state.hold is not None:  # handed over, or taken from somebody: the agent waits already
        changes = by != state.hold.by
        handed = replace(state.hold, by=by, at_ms=event.at_ms)
        return revised(state, hold=handed) if changes else state, ()
    pending = tuple(votes.paused(one, event.at_ms) for one in state.approvals)
    state = revised(state, hold=Hold(by=by, at_ms=event.at_ms), approvals=pending)
    if state.phase == "idle":
        return revised(state, phase="turned"), ()
    if state.phase == "thinking" and event.mode == "cancel" and _line_call(state) is None:
        return _stop_thinking(state)
    return state, ()


def _person_spoke(state: LoopState, event: PersonSpoke) -> Step:
    """Let the user read a person's words, which answer the user's open messages.

    Where output guardrails judge them, they wait for that, and for the end of the turn.
    """
    problem = say_problem(state, event.person, event.at_ms, verified=event.verified)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"say{_by(event.person)}", problem), ()
    hold, person = state.hold, event.person
    if hold is None or event.message_id in hold.said:
        return state, ()
    state = revised(state, hold=replace(hold, said=(*hold.said, event.message_id)))
    words = Words(text=event.text, person=person)
    if "check_said" not in state.required_steps:
        return _say(state, words), ()
    state = revised(state, unsaid=(*state.unsaid, words))
    return _rest(state) if state.phase == "held" else (state, ())


def _say(state: LoopState, words: Words) -> LoopState:
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
    index = len(state.items)
    said = Item("message", message_of_person(words.text), by)
    state = revised(state, items=(*state.items, said))
    if state.phase != "held":
        return state
    unchecked = state.question.unchecked_from
    if unchecked is not None:  # checked before the next turn: see `_begin_turn`
        state = answer_unchecked(state, unchecked, index)
    state = queue_for_session(state, index + 1)
    if not state.question.answering:
        return state
    answer = Answer(state.question.answering, index, state.agent)
    return _with_answer(state, answer, words.text, None)


def _said_checked(state: LoopState, failure: Failure | None, at_ms: int) -> Step:
    """Say what output guardrails passed, and tell people of what they did not."""
    words, *rest = state.unsaid
    state = revised(state, unsaid=tuple(rest), phase="held")
    if failure is None:
        state = _say(state, words)
    else:
        state = with_ignored(state, at_ms, f"say{_by(words.person)}", failure.message)
    return revised(state, phase="turned"), ()


def _conversation_released(state: LoopState, event: ConversationReleased) -> Step:
    """Give the conversation back to an agent, which answers the open messages."""
    problem = release_problem(state, event.person, event.to, event.at_ms, verified=event.verified)
    if problem is not None:
        return with_ignored(state, event.at_ms, f"release{_by(event.person)}", problem), ()
    by = _shown_name(event.person)
    spoke = state.hold is not None and state.hold.speaker is not None
    told: JsonObject = {
        "role": "developer",
        "content": phrases.released(by, event.note, spoke=spoke),
    }
    note = Item("note", told)
    pending = tuple(votes.resumed(one, event.at_ms) for one in state.approvals)
    state = revised(state, hold=None, starts=True, approvals=pending, items=(*state.items, note))
    if event.to and event.to != state.agent:
        path = (*state.handoff_path, event.to)
        state = revised(state, agent=event.to, model="", required_steps=(), handoff_path=path)
    if state.phase != "held":
        return state, ()
    return (
        (revised(state, phase="turned"), ()) if state.question.answering else _next_question(state)
    )


def _shown_name(person: Person) -> str:
    """Return a person's name as the model reads it."""
    return person.display or person.subject or "A person"


def _by(person: Person) -> str:
    return f" by {person.subject:.80}" if person.subject else ""


def _nested_reported(state: LoopState, event: NestedReported) -> Step:
    """Show a nested run's approval requests; a cancelled run does not wait for them."""
    ours = (
        one
        for one in state.pending
        if isinstance(one, RunAgent) and one.nested_id == event.nested_id
    )
    effect = next(ours, None)
    if effect is None:
        return state, ()
    # Anybody may have sent it: a request of another run must not pass for one of this run's.
    prefix = f"{effect.prefix}e{effect.effect}."
    if not all(
        one.id.startswith(prefix) and f"{one.run_id}/".startswith(f"{event.nested_id}/")
        for one in event.requests
    ):
        what, why = f"report of {event.nested_id:.80}", "It has requests of another run."
        return with_ignored(state, event.at_ms, what, why), ()
    others = tuple(one for one in state.nested if one.nested_id != event.nested_id)
    newest = NestedRequests(nested_id=event.nested_id, requests=event.requests)
    state = spending.with_report(state, event)
    return _continue_acting(revised(state, nested=(*others, newest)))


def _budget_lent(state: LoopState, event: BudgetLent) -> LoopState:
    """Go on with a larger share of the parent's budget."""
    budgets = state.start.budgets
    index = next((at for at, one in enumerate(budgets) if one.lent == event.index), None)
    more = 0 if index is None else event.share - spending.limit_of(state, index)
    if index is None or more <= 0:
        return state
    waits = state.phase == "asking" and state.gate is None
    return revised(
        state,
        extended=(*state.extended, (index, more)),
        wants=tuple(one for one in state.wants if one != index),
        phase="turned" if waits else state.phase,
    )


def _line_attached(state: LoopState, event: LineAttached) -> Step:
    """Let a realtime line make the model calls from now on, instead of the one before."""
    before = line_of(state)
    if line_problem(state) or (before is not None and before.line == event.line):
        return state, ()
    stops: tuple[Command, ...] = ()
    if before is not None:
        state = revised(state, pending=tuple(one for one in state.pending if one is not before))
        stops = (CancelEffect(effect=before.effect),)
    hold = HoldLine(effect=state.next_effect, line=event.line, label=event.label)
    state, holds = requests.issue(revised(state, line_token=event.owner), hold)
    state, calls = _reroute_model_call(state)
    return state, (*stops, *holds, *calls)


def _reroute_model_call(state: LoopState) -> Step:
    """Give the model call of a line that has ended to the newest line, or else to a worker."""
    call = _line_call(state)
    if call is None:
        return state, ()
    line = line_of(state)
    again = replace(call, effect=state.next_effect, line=line.line if line is not None else "")
    rest = tuple(one for one in state.pending if one is not call)
    return requests.issue(revised(state, pending=rest), again)


def _line_call(state: LoopState) -> CallModel | None:
    """Return the pending model call that a line makes."""
    calls = (one for one in state.pending if isinstance(one, CallModel) and one.line)
    return next(calls, None)


def _line_replied(state: LoopState, event: LineReplied) -> Step:
    """Record a reply on the line, and the user's words before it, once.

    The conversation on the provider's server, if the run has one, does not hear of it.
    """
    line, message = line_of(state), event.message
    if line is None or line.line != event.line or state.phase in {"preparing", "closing"}:
        what, why = f"reply on the line {event.line}", "It is not the line of this run now."
        return with_ignored(state, event.at_ms, what, why), ()
    replied = any(one.response_id == event.result.response_id for one in state.responses)
    if replied or has_message(state, message.id):
        return state, ()
    if state.line_token and not lines.follows(event.token, state.line_token):
        what, why = f"reply on the line {event.line}", "It does not come from the line's owner."
        return with_ignored(state, event.at_ms, what, why), ()
    state = revised(state, line_token=event.token)
    if not state.question.answering:  # nothing happens, or a person has the conversation
        state = _begin_spoken(state, message, event.at_ms)
    elif message.content:
        state = record_messages(revised(state, inbox=(*state.inbox, message)))
    if state.phase == "idle":
        begun = revised(state, phase="thinking", turn=1, turns=state.turns + 1, starts=False)
        step = _model_replied(begun, event.result, event.at_ms)
    else:
        step = _reply_on_line(state, event)
    return revised(step[0], server=state.server), step[1]


def _reply_on_line(state: LoopState, event: LineReplied) -> Step:
    """Take a reply as the result of the line's model call, or beside running calls.

    On a line the user may speak, and the model may answer, at any time. While calls run or wait for
    people, what is said belongs to the same turn, and its calls run beside the others.
    """
    call = _line_call(state)
    if call is not None:
        rest = tuple(one for one in state.pending if one is not call)
        return _model_replied(revised(state, pending=rest), event.result, event.at_ms)
    earlier, question = state.calls, state.question
    state = record_reply(state, event.result)
    calls = state.calls
    state = revised(
        state,
        calls=earlier,
        judged=question.judged,
        parallel=question.parallel,
        answer_terms=question.answer_terms,
        answer_reason=question.answer_reason,
    )
    if state.phase == "acting":
        return _start_acting(revised(state, calls=(*earlier, *calls)), event.at_ms, len(earlier))
    late = [replace(one, output=one.output or phrases.NOT_RUN_NOW) for one in calls]
    return record_outputs(state, late), ()


def _begin_spoken(state: LoopState, message: Message, at_ms: int) -> LoopState:
    """Begin a question on a line; its first reply has arrived already."""
    before = len(state.items)
    state = record_messages(revised(hide_blocked(state), inbox=(*state.inbox, message)))
    return revised(begin_question(state, at_ms), question_from=before)


def _cancel_requested(state: LoopState, event: CancelRequested) -> Step:
    """Stop immediately or after the turn; a turn that only waits for people stops at once."""
    if event.mode == "after_turn" and state.phase == "closing":
        return state, ()
    is_idle = state.phase == "held" and not state.question.answering
    if event.mode == "after_turn" and (is_idle or state.phase == "idle"):
        return _close_when_idle(state), ()
    if event.mode == "after_turn" and state.phase == "held":
        return revised(state, cancel="after_turn", phase="turned"), ()
    if event.mode == "after_turn" and waits_for_people(state):
        return _stop_waiting(state)
    if event.mode == "after_turn":
        return revised(state, cancel="after_turn"), ()
    return _cancel_now(state)


# --- How a turn begins ---------------------------------------------------------------------------


def _begin_turn(state: LoopState, at_ms: int) -> Step:
    """Record new messages, check them, and then call the model.

    A person who holds the conversation reads the messages instead. A budget that is used up comes
    first.
    """
    if state.cancel is not None:
        return _close(drop_unchecked(queue_for_session(state, len(state.items))), "cancelled"), ()
    is_held = state.hold is not None
    spent = state.start.max_turns is not None and state.question.turn >= state.start.max_turns
    state = _take_messages(state, at_ms, spent=spent and not is_held)
    if is_held:
        return _rest(state)
    if state.answered_unchecked and not INPUT_CHECKS.isdisjoint(state.required_steps):
        inputs = tuple(state.items[at] for at in answered_inputs(state))
        check = requests.input_check(state, "added", inputs)
        return requests.issue(revised(state, phase="checking"), check)
    if spent:
        message = phrases.turns_used_up(state.question.turn)
        return _fail_question(state, Failure(code="max_turns_exceeded", message=message))
    budget = spending.used_up(state, at_ms)
    if budget is not None:
        return _ask_to_go_on(state, budget, at_ms)
    if state.question.turn == 0:
        return _check_question(state)
    unchecked = state.question.unchecked_from
    if unchecked is not None:
        check = requests.input_check(state, "added", state.items[unchecked:])
        return requests.issue(revised(state, phase="checking"), check)
    return _ask_model(state)


def _rest(state: LoopState) -> Step:
    """Leave the conversation to the person who has it, once guardrails judged what was said."""
    if not state.unsaid:
        return revised(state, phase="held"), ()
    words = state.unsaid[0]
    said = Item("message", message_of_person(words.text), words.person.subject)
    check = requests.input_check(state, "said", (said,))
    return requests.issue(revised(state, phase="checking"), check)


def _take_messages(state: LoopState, at_ms: int, *, spent: bool) -> LoopState:
    """Record new messages; the first ones begin a question.

    Args:
        state: the state.
        at_ms: the time, in milliseconds since the epoch.
        spent: whether the question has used up its turns: a further message has its own budget.
    """
    first, before = not state.question.answering, len(state.items)
    if state.hold is not None and not state.inbox:
        return state
    if first:
        state = hide_blocked(state)
    if first or not spent:
        state = record_messages(state, all_of_them=first or state.hold is not None)
    if spent or INPUT_CHECKS.isdisjoint(state.required_steps):
        state = revised(state, unchecked_from=None)
    elif state.question.unchecked_from is None and len(state.items) > before:
        state = revised(state, unchecked_from=before)
    state = queue_for_session(state, len(state.items))
    if first:
        start = before if state.question.unchecked_from is None else state.question.unchecked_from
        state = revised(begin_question(state, at_ms), question_from=start)
    return state


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


def _start_acting(state: LoopState, at_ms: int, first: int = 0) -> Step:
    """Start every call from an index on that may start; request approval for the others."""
    state = revised(state, phase="acting")
    for index, call in enumerate(state.calls):
        gated = call.status == "held" and call.plan.needs_approval
        if index < first or not (call.status == "planned" or gated):
            continue
        kept = _remembered(state, call)
        if kept is not None and kept.decision.type == "reject":  # whatever the rule says
            state = with_call(state, index, _rejected(call, kept.decision))
        elif call.plan.needs_approval:
            request = requests.approval(state, call, at_ms)
            sender = sender_of(state, at_ms, verified=kept is not None and kept.verified)
            if kept is None or not _covers(kept, request, sender):
                state = _ask_people(state, index, request)
            else:
                evidence = Evidence(
                    decisions=(kept.decision,), requested_at_ms=at_ms, run_id=kept.run_id
                )
                state = with_call(state, index, replace(call, evidence=evidence))
    return _continue_acting(state)


def _tool_finished(state: LoopState, effect: RunTool, result: ToolResult, at_ms: int) -> Step:
    """Apply the result of a tool call; or ask people, or run the call again as an activity."""
    if result.required is not None:
        index = call_of(state, effect)
        return _continue_acting(_ask_again(state, index, result.required, at_ms))
    if result.deferred:
        index = call_of(state, effect)
        call = state.calls[index]
        policy = replace(call.plan.policy, fast=False)
        call = replace(call, status="planned", plan=replace(call.plan, policy=policy))
        return _continue_acting(with_call(state, index, call))
    state = revised(state, guardrails=(*state.question.guardrails, *result.checks))
    if result.failure is not None:
        return _fail_with_call(state, effect, result.output, result.failure)
    return _settle(_with_clashes(state, effect, result, at_ms), effect, result)


def _ask_again(state: LoopState, index: int, required: RequiredApproval, at_ms: int) -> LoopState:
    """Let a call wait for the approval that a worker found missing."""
    call = state.calls[index]
    plan = replace(
        call.plan,
        needs_approval=True,
        reason=required.reason,
        terms=required.terms,
        schema=required.schema,
        source=required.source,
        tool_digest=required.tool_digest,
        policy=replace(call.plan.policy, fast=False, defers=False),
    )
    call = replace(call, plan=plan, arguments=required.arguments, evidence=None, effect=None)
    request = requests.approval(state, call, at_ms)
    return _ask_people(with_call(state, index, call), index, request)


def _agent_finished(state: LoopState, effect: RunAgent, result: AgentResult, at_ms: int) -> Step:
    """Apply the result of a nested run, with its usage and context changes."""
    state = revised(state, usage=state.usage.plus(result.usage))
    state = spending.settled(state, effect.nested_id, result.spent)
    state = _passed_up(state, effect.nested_id, result.remembered)
    if result.required is not None:
        index = call_of(state, effect)
        required = replace(result.required, arguments=state.calls[index].arguments)
        state = _ask_again(_without_nested(state, effect), index, required, at_ms)
        return _continue_acting(state)
    if result.status != "completed":
        message = f"The run of {effect.target} was {result.status}."
        failure = result.failure or Failure(code="tool_failed", message=message)
        return _call_failed(state, effect, failure)
    changes = diff(effect.context, result.context)
    output = result.final_output
    if not is_reference(output):
        output = phrases.as_text(output)
    as_tool = ToolResult(output=output, value=result.final_output, changes=changes)
    state = _without_nested(state, effect)
    return _settle(_with_clashes(state, effect, as_tool, at_ms), effect, as_tool)


def _with_clashes(
    state: LoopState, effect: RunTool | RunAgent, result: ToolResult, at_ms: int
) -> LoopState:
    """Note the fields that this call and one that ran beside it in another worker both set."""
    others = [one for one in state.calls if not result.host or one.host != result.host]
    paths = clashes(result.changes, [change for one in others for change in one.changes])
    if not paths:
        return state
    return with_ignored(state, at_ms, "context", phrases.clash(effect.name, paths))


def _passed_up(state: LoopState, nested_id: str, remembered: Sequence[Remembered]) -> LoopState:
    """Keep the decisions that a nested run took for further calls of its agents."""
    question = len(state.answers)
    kept = (
        replace(
            one,
            question=None if one.question is None else question,
            run_id="" if one.run_id == state.run_id else one.run_id or nested_id,
        )
        for one in remembered
    )
    newer = tuple(one for one in kept if one not in state.remembered)
    return revised(state, remembered=(*state.remembered, *newer)) if newer else state


def _call_failed(state: LoopState, effect: RunTool | RunAgent, failure: Failure) -> Step:
    """Turn a failure into the call's output, unless the plan of the call is fatal."""
    state = _without_nested(state, effect)
    output = phrases.tool_failed(effect.name, failure.code)
    details = dict(failure.details or {})
    ends_caller = details.pop(ENDS_CALLER, False) is True
    if ends_caller or state.calls[call_of(state, effect)].plan.fatal:
        return _fail_with_call(state, effect, output, replace(failure, details=details or None))
    return _settle(state, effect, ToolResult(output=output))


def _continue_acting(state: LoopState) -> Step:
    """Go on when every call is settled; a handoff waits for all other calls."""
    state, commands = _start_calls(state)
    if any(call.status in {"waiting", "running"} for call in state.calls):
        if state.cancel is not None and waits_for_people(state):
            state, stops = _stop_waiting(state)
            return state, (*commands, *stops)
        return (_pause(state) if waits_for_people(state) else state), commands
    if state.gate is not None:  # the nested runs that needed the budget have ended
        state = _settle_pending(revised(state, gate=None), "superseded")
    state = record_outputs(state, [call for call in state.calls if call.status == "settled"])
    handoffs = tuple(call for call in state.calls if call.status == "held")
    if not handoffs:
        return _use_outputs(revised(state, calls=()), state.calls), commands
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
    state, stops = _cancel_pending(
        state, phrases.CANCELLED, keep=frozenset({"save_session", "notify_people"})
    )
    state = state if may_be_blocked else queue_for_session(state, len(state.items))
    return _close(state, "cancelled"), stops


def _handed_over(state: LoopState, result: HandoffResult, at_ms: int) -> Step:
    """Make another agent the active one, or ask people first."""
    if result.required is None:
        return _switch_agent(state, result)
    state = _ask_again(revised(state, phase="acting"), 0, result.required, at_ms)
    return _continue_acting(state)


def _switch_agent(state: LoopState, result: HandoffResult) -> Step:
    """Make another agent the active one; its first turn begins."""
    call = state.calls[0]
    target, own_name = call.plan.target, call.plan.target_own_name
    if result.target is not None:
        target, own_name = result.target, result.target_own_name
    state = revised(state, context=apply(state.context, result.changes))
    told = phrases.handed_over(own_name or target)
    plan = replace(call.plan, target=target, target_own_name=own_name)
    state = record_outputs(state, [replace(call, plan=plan, output=told)])
    if result.edit is not None:
        # The provider's server has the unedited items, so the next call sends all items again.
        state = revised(change_view(state, result.edit), on_server=0)
    state = revised(
        state,
        phase="turned",
        calls=(),
        agent=target,
        model=result.target_model or call.plan.target_model,
        required_steps=result.required_steps or call.plan.target_steps,
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
            if call.plan.kind != "unknown" and call.form != MCP_APPROVAL
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
    running = sum(call.status == "running" for call in state.calls)
    for index, call in enumerate(state.calls):
        if state.question.parallel is not None and running >= state.question.parallel:
            break
        if call.status == "planned" and call.form == MCP_APPROVAL:  # the provider runs the tool
            output = phrases.EDITED_ELSEWHERE if call.edited else MAY_CALL
            state = with_call(state, index, replace(call, status="settled", output=output))
        elif call.status == "planned":
            run = requests.call_run(state, index)
            state = with_call(state, index, replace(call, status="running", effect=run.effect))
            state, started = requests.issue(state, run)
            if isinstance(run, RunAgent) and run.budgets:
                lent = requests.lent_to(run, state.question.responses_from)
                state = revised(state, lent=(*state.lent, lent))
            commands.extend(started)
            running += 1
    return state, tuple(commands)


def _settle(state: LoopState, effect: RunTool | RunAgent, result: ToolResult) -> Step:
    """Take over the result of a call, which is recorded when the reply's calls are."""
    index = call_of(state, effect)
    call = state.calls[index]
    output = result.output
    if call.edited:
        output = phrases.edited(output, call.arguments, _reason_of_edit(state, call))
    settled = replace(
        call,
        status="settled",
        output=output,
        value=result.value,
        changes=result.changes,
        host=result.host,
        order=result.order,
        custom_data=result.custom_data,
    )
    return _continue_acting(with_call(state, index, settled))


def _reason_of_edit(state: LoopState, call: Call) -> str | None:
    """Return what the person who edited a call last said about it."""
    request = next(one for one in state.approvals if one.id == call.approval)
    edits = (one.decision for one in reversed(request.votes) if one.decision.type == "edit")
    return next((one.message for one in edits), None)


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


def _may_be_blocked(state: LoopState) -> bool:
    """Whether a guardrail or a person may still withhold the turn's items."""
    ends = state.question.judged or any(call.plan.final for call in state.calls)
    if state.gate is not None and state.gate.budget is None:
        return True
    return is_being_checked(state) or (ends and "finalize_answer" in state.required_steps)


def _without_nested(state: LoopState, effect: RunTool | RunAgent) -> LoopState:
    if isinstance(effect, RunTool):
        return state
    nested = tuple(one for one in state.nested if one.nested_id != effect.nested_id)
    return spending.without_wants(revised(state, nested=nested), effect.nested_id)


# --- How people decide: requests, votes, what a settled request does, and what time does ----------


def _ask_people(state: LoopState, index: int, request: ApprovalRequest) -> LoopState:
    """Let a call wait for its approval."""
    call = state.calls[index]
    state = revised(state, approvals=(*state.approvals, request))
    return with_call(state, index, replace(call, status="waiting", approval=request.id))


def _give_answer(state: LoopState, output: Json, item: int | None, at_ms: int) -> Step:
    """Answer the question, or request approval of the answer first."""
    terms = state.question.answer_terms
    if terms is None:
        return _answer(queue_for_session(state, len(state.items)), output, item)
    request = requests.answer_approval(state, output, terms, at_ms)
    gate = Gate(
        request_id=request.id,
        output=output,
        item=item,
        shown=released(state) if item is None else min(released(state), item),
        failure=(state.question.candidate or Candidate()).failure,
    )
    state = revised(
        state,
        phase="asking",
        candidate=None,
        approvals=(*state.approvals, request),
        gate=gate,
    )
    return (state, ()) if state.cancel is None else _stop_waiting(state)


def _ask_to_go_on(state: LoopState, index: int, at_ms: int, agent: str = "") -> Step:
    """Request more of a budget that is used up, from people or the parent; or fail the question."""
    budget = state.start.budgets[index]
    phase = "acting" if state.phase == "acting" else "asking"
    if budget.lent is not None and state.start.parent is not None:
        wants = state.wants if index in state.wants else (*state.wants, index)
        return revised(state, phase=phase, wants=wants), ()
    if budget.terms is None:
        return _fail_question(state, _budget_failure(state, index, None))
    request = requests.budget_approval(state, index, budget.terms, at_ms, agent)
    gate = Gate(request_id=request.id, budget=index)
    return revised(state, phase=phase, approvals=(*state.approvals, request), gate=gate), ()


def _lend_more(state: LoopState, lent: Lent, index: int, at_ms: int) -> Step:
    """Lend a nested run more of a budget, or ask for more of it if nothing is left."""
    if spending.left(state, index, lent.target) <= 0:
        return _ask_to_go_on(state, index, at_ms, lent.target)
    state, share = spending.with_more(state, lent, index)
    return state, (LendBudget(nested_id=lent.nested_id, index=index, share=share),)


def _budget_failure(state: LoopState, index: int, why: str | None) -> Failure:
    message = phrases.budget_used_up(spending.described(state, index), why)
    return Failure(code="budget_exceeded", message=message)


def _take_decision(state: LoopState, decision: Decision, sender: votes.Sender) -> Step:
    """Count an accepted decision for every waiting request that it covers."""
    decided = next(one for one in state.approvals if one.id == decision.request_id)
    covered = {decided.id}
    if decision.remember:
        is_exact = decision.remember_scope == "tool_with_args"
        kept = Remembered(
            agent=decided.agent,
            name=decided.name,
            decision=decision,
            args_digest=decided.args_digest if is_exact else None,
            question=len(state.answers) if decision.remember_until == "run" else None,
            verified=sender.verified,
        )
        state = revised(state, remembered=(*state.remembered, kept))
        covered |= {one.id for one in state.approvals if _covers(kept, one, sender)}
    for request in state.approvals:
        if request.id in covered:
            newer = votes.voted(request, decision, sender, _arguments_of(state, request))
            state = _with_request(state, newer)
            state = _settle_call(state, newer)
    return _go_on(revised(state, starts=True), state.gate)


def _covers(kept: Remembered, request: ApprovalRequest, sender: votes.Sender) -> bool:
    """Whether a remembered decision also decides another waiting request."""
    same = (request.agent, request.name) == (kept.agent, kept.name)
    if not same or kept.args_digest not in {None, request.args_digest}:
        return False
    made = kept.decision.seen
    if made is not None and (made.tool, made.policy) != (request.seen.tool, request.seen.policy):
        return False  # the tool or the policy has changed since
    decision = replace(kept.decision, request_id=request.id, args_digest=None, seen=None)
    return votes.refusal((request,), decision, sender) is None


def _arguments_of(state: LoopState, request: ApprovalRequest) -> str:
    """Return all arguments under review, also those that reviewers do not see."""
    if request.kind == "budget":
        return request.arguments
    if state.gate is not None:
        return requests.answer_arguments(state.gate.output)
    return next(one.arguments for one in state.calls if one.approval == request.id)


def _with_request(state: LoopState, request: ApprovalRequest) -> LoopState:
    approvals = tuple(request if one.id == request.id else one for one in state.approvals)
    return revised(state, approvals=approvals)


def _settle_pending(
    state: LoopState, status: ApprovalStatus, *, but: Gate | None = None
) -> LoopState:
    """Settle every pending request without a decision, but for that of a gate."""
    kept = "" if but is None else but.request_id
    approvals = tuple(
        replace(one, status=status) if one.status == "pending" and one.id != kept else one
        for one in state.approvals
    )
    return revised(state, approvals=approvals)


def _settle_call(state: LoopState, request: ApprovalRequest) -> LoopState:
    """Let the call of a settled request run, or give it its output."""
    found = (at for at, one in enumerate(state.calls) if one.approval == request.id)
    index = next(found, None)
    if request.status == "pending" or index is None:
        return state
    call = state.calls[index]
    if request.status in {"approved", "edited"}:
        call = replace(call, evidence=requests.evidence_of(request, call.arguments))
        if request.edited is not None:
            call = replace(call, arguments=request.edited, edited=True)
        status: CallStatus = "held" if call.plan.kind == "handoff" else "planned"
        return with_call(state, index, replace(call, status=status))
    if request.status == "expired":
        return with_call(state, index, replace(call, status="settled", output=phrases.EXPIRED))
    assert request.decision is not None  # noqa: S101  only a decision rejects or responds
    if request.status == "responded":
        output = phrases.as_text(request.decision.response)
        return with_call(state, index, replace(call, status="settled", output=output))
    return with_call(state, index, _rejected(call, request.decision))


def _go_on(state: LoopState, gate: Gate | None) -> Step:
    """Go on with what waited for requests that are settled: an answer, a budget, calls."""
    if gate is None:
        return _continue_acting(state)
    was_acting = state.phase == "acting"
    state, commands = _settle_gate(state, gate)
    if not (was_acting and state.phase == "acting"):
        return state, commands
    state, further = _continue_acting(state)
    return state, (*commands, *further)


def _settle_gate(state: LoopState, gate: Gate) -> Step:
    """Give the answer that a person approved, or let the model answer anew; extend a budget."""
    request = next(one for one in state.approvals if one.id == gate.request_id)
    if request.status == "pending":
        return state, ()
    if gate.budget is not None:
        phase = "acting" if state.phase == "acting" else "turned"
        state = revised(state, gate=None, phase=phase)
        return _settle_budget(state, gate.budget, request)
    if request.status in {"rejected", "expired"}:
        why = phrases.ANSWER_EXPIRED if request.decision is None else request.decision.message
        return _reject_answer(state, gate, why)
    state = revised(state, gate=None)
    if request.status != "responded" and request.edited is None:
        return _answer(queue_for_session(state, len(state.items)), gate.output, gate.item)
    output = requests.answer_of_person(request)
    state, index = replace_answer(state, gate.item, output)
    return _answer(queue_for_session(state, len(state.items)), output, index)


def _settle_budget(state: LoopState, index: int, request: ApprovalRequest) -> Step:
    """Go on with more of a budget, or fail the question."""
    if request.status not in {"approved", "edited"}:
        why = request.decision.message if request.decision else None
        return _fail_question(state, _budget_failure(state, index, why))
    wanted: JsonObject = json.loads(request.edited or request.arguments)
    return revised(state, extended=(*state.extended, (index, int(wanted["extend_by"])))), ()


def _reject_answer(state: LoopState, gate: Gate, why: str | None) -> Step:
    """Let the model answer anew; it reads why, and users and sessions get neither.

    An error handler's answer is not made anew: the question fails with the handler's failure.
    """
    if gate.failure is not None:
        return _settle_unanswered(state, gate.failure)
    state = drop_gate(state)
    note: JsonObject = {"role": "developer", "content": phrases.answer_rejected(why)}
    items = (*state.items, Item("note", note))
    hidden = (*state.hidden, len(state.items))
    return revised(state, phase="turned", items=items, hidden=hidden), ()


def _pass_time(state: LoopState, at_ms: int) -> Step:
    """Apply what is due by a time: reminders, escalation and expiry."""
    if not state.calls and state.gate is None:
        return state, ()
    before, expired = state, list[ApprovalRequest]()
    for request in state.approvals:
        older = votes.aged(request, at_ms)
        if older is not request:
            state = _settle_call(_with_request(state, older), older)
            expired += [older] if older.status != "pending" else []
    if not expired:
        return state, ()
    fatal = next((one for one in expired if one.terms.on_expiry == "fail"), None)
    if fatal is not None:
        message = phrases.approval_expired(fatal.id, fatal.name)
        return _fail_question(state, Failure(code="approval_expired", message=message))
    return _go_on(state, before.gate)


def _rejected(call: Call, decision: Decision) -> Call:
    output = decision.message or call.plan.rejection or phrases.REJECTED
    return replace(call, status="settled", output=output)


def _remembered(state: LoopState, call: Call) -> Remembered | None:
    """Return the newest decision for this call of a tool by this agent.

    One for exactly these arguments comes before one for all calls.
    """
    fitting = [
        one
        for one in reversed(state.remembered)
        if (one.agent, one.name) == (state.agent, call.name)
        and one.question in {None, len(state.answers)}
        and (one.args_digest is None or one.args_digest == digest(call.arguments))
    ]
    return next((one for one in fitting if one.args_digest is not None), next(iter(fitting), None))


# --- How a question ends: answered, failed or cancelled ------------------------------------------


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


def _finalize(state: LoopState, candidate: Candidate, at_ms: int) -> Step:
    """Answer at once, or first run the user code that finalizes the answer."""
    is_due = "finalize_answer" in state.required_steps
    if candidate.failure is None and not candidate.outcomes and not is_due:
        return _give_answer(state, candidate.output, candidate.item, at_ms)
    return requests.issue(state, requests.finalization(state, candidate))


def _answer_finalized(state: LoopState, finalized: FinalizedAnswer, at_ms: int) -> Step:
    """Apply the result of finalizing."""
    candidate = state.question.candidate or Candidate()
    state = revised(
        state,
        context=apply(state.context, finalized.changes),
        guardrails=(*state.question.guardrails, *finalized.results),
    )
    if candidate.failure is not None and _stands(candidate.failure, finalized):
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
    return _give_answer(state, output, index, at_ms)


def _stands(failure: Failure, finalized: FinalizedAnswer) -> bool:
    """Whether a failure is final; after an empty answer, the model may be called again."""
    return finalized.declined or not (finalized.final or failure.code == "invalid_final_output")


def _fail_question(state: LoopState, failure: Failure) -> Step:
    """Fail the question, unless a handler turns the failure into an answer."""
    if not _is_handled(state, failure):
        return _settle_unanswered(state, failure)
    keep = frozenset({"save_session", "check_input", "hold_line", "notify_people"})
    state, stops = _cancel_pending(state, phrases.NOT_RUN, keep=keep)
    return _set_candidate(state, Candidate(failure=failure)), stops


def _is_handled(state: LoopState, failure: Failure) -> bool:
    """Whether a handler may turn a failure into an answer."""
    return failure.code in state.start.handled or "*" in state.start.handled


def _next_question(state: LoopState) -> Step:
    """Start the next question, wait for one, or close."""
    if state.cancel is not None:
        return _close_when_idle(state), ()
    if state.inbox or state.hold is not None:
        return revised(state, phase="turned"), ()
    if state.start.keep_open:
        return revised(state, phase="idle"), ()
    return _close_when_idle(state), ()


def _cancel_now(state: LoopState) -> Step:
    """Stop immediately, and cancel everything that is pending."""
    state, stops = _cancel_pending(state, phrases.CANCELLED, keep=frozenset())
    state = revised(
        state, candidate=None, answered_unchecked=(), to_save=(), queued_up_to=len(state.items)
    )
    return _close(state, "cancelled"), stops


def _close_when_idle(state: LoopState) -> LoopState:
    """Close between two questions; the outcome of the last question is that of the run."""
    return _close(state, "completed" if state.failure is None else "failed")


def _close(state: LoopState, outcome: Ending) -> LoopState:
    """End the run as soon as everything is saved.

    Messages that a person answered, and that nobody will check any more, are not saved.
    """
    if state.answered_unchecked:
        while state.answered_unchecked:
            state = settle_answered(state, passed=False)
        state = queue_for_session(state, len(state.items))
    state = revised(state, unsaid=())
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
    """Retry saving the items that the session did not accept."""
    if state.saving.save_failure is None:
        return state
    return revised(state, save_failure=replace(state.saving.save_failure, retrying=True))


def _saving_failed(state: LoopState, failure: Failure, at_ms: int) -> Step:
    """Keep items that the session did not accept; only a conversation retries."""
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
    pending = tuple(effect for effect in state.pending if effect not in stopped)
    state = _settle_pending(drop_gate(state), "cancelled")
    state = revised(state, calls=(), nested=(), pending=pending)
    return record_outputs(state, calls), stops


def _answer(state: LoopState, output: Json, item: int | None) -> Step:
    # Guardrails passed the empty answer, but not the earlier items, which must not replace it.
    is_guarded = any(record.stage == "output" for record in state.question.guardrails)
    if state.start.parent is not None and not is_guarded and (output is None or output == ""):
        output = last_words(state.items[state.question.replies_from :])
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
    keep = frozenset({"save_session", "hold_line", "notify_people"})
    state, stops = _cancel_pending(state, phrases.NOT_RUN, keep=keep)
    state = drop_unchecked(state)
    answer = Answer(state.question.answering, None, state.agent, failure)
    state = revised(_with_answer(state, answer, None, failure), queued_up_to=len(state.items))
    if state.start.keep_open or state.hold is not None:
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
