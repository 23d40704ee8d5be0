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

`turned`, `finalizing` and `closing` need no further event: `_rest` leaves them, unless input
guardrails still run beside the model, or the session is still being saved.

While a realtime line is attached (`HoldLine` is pending), it makes the model calls: a `CallModel`
stays pending until the line replies. What is said while calls run belongs to the same turn.

Time is an event, and every event tells the time: what is due by then happens before it, such as the
expiry of a request. `TimePassed` wakes a run that nothing else happens to.

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are recorded in the order of the calls, not of their arrival;
the changes of calls that shared one object in a worker are in that worker's order.
Every message is answered, or fails with a reason, or stays in the inbox of the closed run.

Transitions return the next state only. `_rest` does what needs no further event, until nothing is
left to do; `_commands` compares the pending effects before and after, and says what to start and
to cancel.

`turns.py` has what a turn does, `people.py` what people do, `lines.py` what a realtime line does,
`endings.py` how questions and runs end, and `ledger.py` what may be saved. Below them are the state
(`state.py`), the rules of decisions (`votes.py`), the transcript, and the effects that
`effect_factory.py` makes; `invariants.py` checks the state after every event.
"""

from typing import Final, assert_never

from outlast.loop import (
    effect_factory,
    endings,
    ledger,
    lines,
    people,
    phrases,
    spending,
    turns,
    votes,
)
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.checks import CheckResult
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
from outlast.loop.notices import Notice, Undelivered, notices, undelivered
from outlast.loop.state import (
    Blocked,
    LoopState,
    Server,
    Start,
    Step,
    decision_problem,
    is_being_checked,
    is_known,
    judged_at_ms,
    may_save,
    revised,
    sender_of,
    waits_for_people,
)
from outlast.loop.transcript import (
    call_of,
    needs_offload,
    take_offload,
    with_call,
    with_ignored,
    with_inline_size,
)
from outlast.loop.values import Failure

MOST_UNDELIVERED: Final = 50
"""How many undelivered notices a run keeps."""

NONCES_KEPT_MS: Final = 30 * 60_000
"""How long a signed action is known. Workers refuse one that was signed much earlier."""


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
    after = _after(state, event)
    if after is not state:
        news = _news(state, after, event)
        if news and after.phase != "closed":
            notification = effect_factory.notification(after, news)
            after = effect_factory.issue(after, notification)
        after = spending.with_pauses(after, event.at_ms)
        after = revised(after, at_ms=max(event.at_ms, state.at_ms))
    return after, _commands(state, after, event)


def _after(state: LoopState, event: Event) -> LoopState:
    if not isinstance(event, HumanAction):
        state = _pass_time(state, event.at_ms)
        return _rest(state, _take_event(state, event), event.at_ms)
    # What a person does counts once, at the time for which it counts.
    if is_known(state, event.nonce):
        return _pass_time(state, event.at_ms)
    before = state = _pass_time(state, judged_at_ms(state, event))
    if event.verified and event.nonce:
        kept = (one for one in state.nonces if one[0] > event.at_ms - NONCES_KEPT_MS)
        state = revised(state, nonces=(*kept, (event.at_ms, event.nonce)))
    state = _rest(before, _take_event(state, event), event.at_ms)
    return _pass_time(state, event.at_ms)


def _rest(before: LoopState, state: LoopState, at_ms: int) -> LoopState:
    """Do everything that needs no further event, until nothing is left to do.

    Args:
        before: the state before the transition, all of whose items are weighed.
        state: the state after it.
        at_ms: the time, in milliseconds since the epoch.
    """
    if state is before:
        return state
    weighed_up_to = len(before.items)
    while True:
        state, weighed_up_to = with_inline_size(state, weighed_up_to), len(state.items)
        newer = state if state.phase == "closed" else _go_on(state, at_ms)
        if newer is state:
            return _without_stale_blocks(state)
        state = newer


def _go_on(state: LoopState, at_ms: int) -> LoopState:  # noqa: PLR0911  a row each
    """Do the next thing that needs no event; the same state if there is none."""
    kinds = {effect.kind for effect in state.pending}
    gate = state.gate
    if gate is not None and any(
        one.id == gate.request_id and one.status != "pending" for one in state.approvals
    ):
        return people.settle_gate(state, gate)
    if state.phase == "acting" and (newer := turns.act(state)) is not state:
        return newer
    if state.phase == "asking" and state.cancel is not None and waits_for_people(state):
        return endings.stop_waiting(state)
    if may_save(state) and "save_session" not in kinds:
        save = effect_factory.session_save(state, state.saving.to_save[0])
        return effect_factory.issue(state, save)
    if state.phase == "turned" and not is_being_checked(state):
        return turns.begin_turn(state, at_ms)
    if state.phase == "acting" and (wanting := spending.wanting(state)) is not None:
        return people.lend_more(state, *wanting, at_ms)
    candidate = state.question.candidate
    if candidate is not None and not (is_being_checked(state) or "finalize_answer" in kinds):
        return endings.finalize(state, candidate, at_ms)
    if state.closing is not None and not kinds:
        return revised(state, phase="closed", outcome=state.closing, closing=None)
    if state.closing is not None and kinds <= STOPPED_AT_THE_END:
        return endings.cancel_pending(state, phrases.CANCELLED)
    if needs_offload(state) and "offload_items" not in kinds:
        return effect_factory.issue(state, effect_factory.offload(state))
    return state


def _pass_time(state: LoopState, at_ms: int) -> LoopState:
    """Apply what is due by a time: reminders, escalation and expiry."""
    if not state.calls and state.gate is None:
        return state
    before, expired = state, list[ApprovalRequest]()
    for request in state.approvals:
        older = votes.aged(request, at_ms)
        if older is not request:
            state = people.settle_call(people.with_request(state, older), older)
            expired += [older] if older.status == "expired" else []
    fatal = next((one for one in expired if one.terms.on_expiry == "fail"), None)
    if fatal is not None:
        message = phrases.approval_expired(fatal.id, fatal.name)
        state = endings.fail_question(state, Failure(code="approval_expired", message=message))
    return _rest(before, state, at_ms)


# --- Commands and notices -------------------------------------------------------------------------


def _commands(before: LoopState, after: LoopState, event: Event) -> tuple[Command, ...]:
    """Return what the shell has to do, from what has changed: cancellations come first."""
    if isinstance(event, RunEnded):  # the engine has stopped everything
        return ()
    commands: list[Command] = []
    if after.start.parent is not None and (
        after.pending_approvals != before.pending_approvals
        or (after.wants and (after.wants != before.wants or isinstance(event, BudgetLent)))
    ):
        commands.append(effect_factory.report(after))
    pending = _pending_or_answered(after, event)
    commands += [
        CancelEffect(effect=one.effect) for one in before.pending if one.effect not in pending
    ]
    commands += [one for one in after.pending if one.effect >= before.next_effect]
    if after.lent is not before.lent:
        commands += _loans(before, after)
    if after.phase == "closed":
        news = _news(before, after, event)
        commands += [NotifyAfterEnd(notices=news)] if news else []
        commands.append(effect_factory.finish(after))
    return tuple(commands)


def _pending_or_answered(after: LoopState, event: Event) -> set[int]:
    numbers = {one.effect for one in after.pending}
    return numbers | {event.effect} if isinstance(event, EffectEvent) else numbers


def _loans(before: LoopState, after: LoopState) -> list[LendBudget]:
    """Return what nested runs that work already may spend more."""
    known = {one.nested_id: one.shares for one in before.lent}
    return [
        LendBudget(nested_id=one.nested_id, index=index, share=share)
        for one in after.lent
        for index, share in one.shares
        if one.nested_id in known and (index, share) not in known[one.nested_id]
    ]


def _news(before: LoopState, after: LoopState, event: Event) -> tuple[Notice, ...]:
    """Return the notices of a step; what the end of the run leaves is delivered after it.

    Runs that were prepared by an earlier version drop what their end leaves.
    """
    ends = after.phase in {"closing", "closed"}
    if not after.notifies or (ends and not after.notifies_later):
        return ()
    news = notices(before, after, event.at_ms)
    waits = _waits_for_holder(after) and not _waits_for_holder(before)
    if after.notifies_later and before.hold is not None and waits:
        at_ms, by = event.at_ms, before.hold.by
        news += (Notice(event="waiting", number=at_ms, by=by, at_ms=at_ms),)
    if not ends:
        return news
    still = _pending_or_answered(after, event)
    stopped = [
        notice
        for one in before.pending
        if isinstance(one, NotifyPeople) and one.effect not in still
        for notice in one.notices
    ]
    return (*stopped, *news)


def _waits_for_holder(state: LoopState) -> bool:
    """Whether the user waits for the person who has the conversation."""
    return state.hold is not None and bool(state.inbox or state.question.answering)


# --- What each event does -------------------------------------------------------------------------


def _take_event(  # noqa: C901, PLR0911, PLR0912  a row for each event
    state: LoopState, event: Event
) -> LoopState:
    match event:
        case RunStarted():
            return _run_started(event)
        case MessageReceived():
            return turns.message_received(state, event)
        case RetryRequested():
            return turns.retry_requested(state, event)
        case MessageWithdrawn():
            return turns.message_withdrawn(state, event)
        case DecisionReceived():
            return _decision_received(state, event)
        case RequestClaimed():
            return people.request_claimed(state, event)
        case ConversationHeld():
            return people.conversation_held(state, event)
        case PersonSpoke():
            return people.person_spoke(state, event)
        case ConversationReleased():
            return people.conversation_released(state, event)
        case TimePassed():
            return state
        case NestedReported():
            return turns.nested_reported(state, event)
        case BudgetLent():
            return turns.budget_lent(state, event)
        case LineAttached():
            return lines.line_attached(state, event)
        case LineReplied():
            return lines.line_replied(state, event)
        case CancelRequested():
            return endings.cancel_requested(state, event)
        case RunEnded():
            return endings.run_ended(state, event)
        case EffectBlocked():
            return _effect_blocked(state, event)
        case SignalUnreadable():
            return with_ignored(state, event.at_ms, event.name, event.problem)
        case _:
            return _effect_answered(state, event)


def _run_started(event: RunStarted) -> LoopState:
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
    return effect_factory.issue(state, effect_factory.preparation(state))


def _effect_answered(state: LoopState, event: EffectEvent) -> LoopState:
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state
    rest = revised(state, pending=tuple(one for one in state.pending if one is not effect))
    if isinstance(event, EffectFailed):
        return _effect_failed(rest, effect, event.failure, event.at_ms)
    return _effect_done(rest, effect, event) or state


def _effect_done(  # noqa: C901, PLR0911  a row for each effect
    rest: LoopState, effect: Effect, event: EffectEvent
) -> LoopState | None:
    """Apply the result of an effect; None if the event answers another kind of effect."""
    if isinstance(effect, OffloadItems):
        if not isinstance(event, ItemsOffloaded):
            return None
        return take_offload(rest, effect, event.result)
    if isinstance(effect, NotifyPeople):
        if not isinstance(event, PeopleNotified):
            return None
        return _with_undelivered(rest, event.result.undelivered)
    match effect, event:
        case PrepareRun(), RunPrepared():
            return turns.run_prepared(rest, event.result)
        case CheckInput(), InputChecked():
            return turns.input_checked(rest, effect, event.result, event.at_ms)
        case CallModel(), ModelReplied():
            return turns.model_replied(rest, event.result, event.at_ms)
        case RunTool(), ToolFinished():
            return turns.tool_finished(rest, effect, event.result, event.at_ms)
        case RunAgent(), AgentFinished():
            return turns.agent_finished(rest, effect, event.result, event.at_ms)
        case RunHandoff(), HandoffFinished():
            return turns.handed_over(rest, event.result, event.at_ms)
        case FinalizeAnswer(), AnswerFinalized():
            return endings.answer_finalized(rest, event.result, event.at_ms)
        case SaveSession(), SessionSaved():
            return ledger.saved(rest)
        case HoldLine(), LineEnded():
            return lines.reroute_model_call(rest)
        case _:
            return None


def _effect_failed(state: LoopState, effect: Effect, failure: Failure, at_ms: int) -> LoopState:
    """Turn a call's failure into its output, unless its plan is fatal; end the run otherwise.

    A run that cannot be prepared closes, even a conversation: it has no agent.
    """
    match effect:
        case PrepareRun():
            return endings.close(revised(state, failure=failure), "failed")
        case CheckInput():
            return turns.input_checked(state, effect, CheckResult(failure=failure), at_ms)
        case CallModel() | RunHandoff():
            return endings.fail_question(state, failure)
        case FinalizeAnswer():
            return endings.finalizing_failed(state, failure)
        case SaveSession():
            return endings.saving_failed(state, failure, at_ms)
        case HoldLine():  # nobody has heard of the line for too long
            return lines.reroute_model_call(state)
        case NotifyPeople():  # a run does not depend on who hears of it
            lost = tuple(undelivered(one, failure.message) for one in effect.notices)
            return _with_undelivered(state, lost)
        case OffloadItems():  # large content stays inline until a worker can store it
            return revised(state, stores=False)
        case RunTool() | RunAgent():
            return turns.call_failed(state, effect, failure)
        case _:
            assert_never(effect)


def _effect_blocked(state: LoopState, event: EffectBlocked) -> LoopState:
    """Show that no worker can carry out an effect, until one can."""
    effect = next((one for one in state.pending if one.effect == event.effect), None)
    if effect is None:
        return state
    others = tuple(one for one in state.blocked if one.effect != event.effect)
    if not event.lacks:
        return revised(state, blocked=others) if others != state.blocked else state
    request = effect_factory.blocked_effect(state, effect, event.lacks, event.at_ms)
    newest = Blocked(effect=event.effect, at_ms=event.at_ms, lacks=event.lacks, request=request)
    return revised(state, blocked=(*others, newest))


def _without_stale_blocks(state: LoopState) -> LoopState:
    """Forget the blocks of effects that are no longer pending."""
    if not state.blocked:
        return state
    pending = {effect.effect for effect in state.pending}
    kept = tuple(one for one in state.blocked if one.effect in pending)
    return state if kept == state.blocked else revised(state, blocked=kept)


def _decision_received(state: LoopState, event: DecisionReceived) -> LoopState:
    """Count a decision; one about a blocked effect gives the effect up."""
    given_up = (
        (block, request)
        for block in state.blocked
        if (request := block.request) is not None and request.id == event.decision.request_id
    )
    block, request = next(given_up, (None, None))
    if block is None or request is None or decision_problem(state, event) is not None:
        return people.decision_received(state, event)
    sender = sender_of(state, event.at_ms, verified=event.verified)
    request = votes.voted(request, event.decision, sender, request.arguments)
    return _give_up(state, block, request)


def _give_up(state: LoopState, block: Blocked, request: ApprovalRequest) -> LoopState:
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
        return with_call(state, index, people.rejected(state.calls[index], decision))
    if isinstance(effect, RunHandoff):
        call = people.rejected(state.calls[0], decision)
        return revised(state, phase="acting", calls=(call,))
    message = phrases.given_up(decision.by, block.lacks, decision.message)
    failure = Failure(code="user_error", message=message)
    if isinstance(effect, CallModel | CheckInput):  # a handler would wait for the worker, too
        return endings.settle_unanswered(state, failure)
    return _effect_failed(state, effect, failure, block.at_ms)


def _with_undelivered(state: LoopState, lost: tuple[Undelivered, ...]) -> LoopState:
    """Keep the newest notices that nobody has heard of."""
    newest = (*state.undelivered, *lost)[-MOST_UNDELIVERED:]
    return revised(state, undelivered=newest) if lost else state
