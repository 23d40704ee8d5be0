"""The agent loop: every transition of a run, in the order in which a run goes through them.

`advance(state, event)` returns the next state and the commands that the shell has to carry out.
It reads no clock, makes no ids, does no I/O and calls no user code, so the same events always
make the same run: in the workflow, in its replay, in a client that folds the history, in a test.

The life of a run, one phase after the other. An effect stands for its result:

    new           --RunStarted-->        preparing       look the agent up
    preparing     --PrepareRun-->        turned          a turn may begin
                                         idle            nothing has been said yet
    turned                               asking          a budget is used up
                                         checking        a new message has guardrails
                                         thinking        call the model
    checking      --CheckInput-->        thinking        the guardrails passed
    thinking      --CallModel-->         acting          the reply has calls
                                         finalizing      the reply is the answer
                                         turned          the reply is no answer yet
    acting        --RunTool-->           acting          until every call is settled, and then
                    RunAgent             turned          show the outputs to the model, or
                    a decision           transferring    run a handoff's callback, or
                    ValueDelivered       finalizing      take an output as the answer
                    TimePassed
    transferring  --RunHandoff-->        turned          as the agent that took over
    finalizing    --FinalizeAnswer-->    asking          a person has to approve the answer
                                         idle | closing  the question is answered
    asking        --a decision-->        idle | closing  the answer is approved
                                         turned          it is not, and the model answers anew; or
                                                         the budget is extended
    idle          --MessageReceived-->   turned          the next question
    idle          --RetryRequested-->    checking        the failed question again, as it stands
                                         thinking
    idle          --LineReplied-->       acting          said and answered on a realtime line
    thinking                             finalizing
    any           --a hold-->            held            when the turn is over
    held          --words of a person--> held            the question is answered by a person
                  --a release-->         turned | idle
    any           --CancelRequested-->   closing         now, or when the turn is over
    closing       --SaveSession-->       closed          everything is saved
    any           --EffectFailed-->      see `effect_results.py`

`turned`, `finalizing` and `closing` need no further event: `_rest` leaves them, unless input
guardrails still run beside the model, or the session is still being saved.

While a realtime line is attached (`KeepLineOpen` is pending), it makes the model calls: a `CallModel`
stays pending until the line replies. What is said while calls run belongs to the same turn.

Time is an event, and every event tells the time: what is due by then happens before it, such as the
expiry of a request. `TimePassed` wakes a run that nothing else happens to.

A tool may begin something outside of the run and wait for it: `outside.py`. Its call is parked
without an effect until a value is delivered or the wait ends in time. A tool whose parked call is
dropped may run once more, to end what it began (`CleanUp`).

Three rules hold everywhere. An event that answers no pending effect, or comes too late, changes
nothing. Outputs and context changes are recorded in the order of the calls, not of their arrival;
the changes of calls that shared one object in a worker are in that worker's order.
Every message is answered, or fails with a reason, or stays in the inbox of the closed run.

Transitions return the next state only. `_rest` does what needs no further event, until nothing is
left to do; `_commands` compares the pending effects before and after, and says what to start and
to cancel.

`turns.py` has what a turn does, `human_actions.py` and `people.py` what people do, `lines.py` what a realtime line does,
`endings.py` how questions and runs end, and `ledger.py` what may be saved. Below them are the state
(`state.py`), the rules of decisions (`votes.py`), the transcript, and the effects that
`effect_factory.py` makes; `invariants.py` checks the state after every event.
"""

from typing import Final

from outlast.loop import (
    case_acts,
    compaction,
    effect_factory,
    effect_results,
    endings,
    hours,
    human_actions,
    lines,
    outside,
    people,
    phrases,
    reply_clock,
    spending,
    turns,
    votes,
)
from outlast.loop.actions import LendRecord
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.effects import (
    CancelEffect,
    Command,
    EffectAnswered,
    EffectFailed,
    LendBudget,
    NotifyAfterEnd,
    NotifyPeople,
)
from outlast.loop.events import (
    BudgetLent,
    CancelRequested,
    ConversationRated,
    EffectBlocked,
    Event,
    LineAttached,
    LineReplied,
    MessageReceived,
    MessageWithdrawn,
    NestedReported,
    PersonActed,
    RetryRequested,
    RunEnded,
    RunForked,
    RunStarted,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.news import notices
from outlast.loop.notices import Notice
from outlast.loop.problems import is_known, judged_at_ms
from outlast.loop.revision import revised
from outlast.loop.state import LoopState, Server, Step, is_being_checked, may_save, stands_still
from outlast.loop.transcript import (
    needs_offload,
    with_ignored,
    with_inline_size,
)
from outlast.loop.values import Failure

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
    after, news = _after(state, event), ()
    if after is not state:
        news = _news(state, after, event)
        if news and after.phase != "closed":
            notification = effect_factory.notification(after, news)
            after = effect_factory.issue(after, notification)
        after = spending.with_pauses(after, event.at_ms)
        if after.case.team or state.case.team:
            after = case_acts.with_report(state, after, event)
        after = revised(after, at_ms=max(event.at_ms, state.at_ms))
    return after, _commands(state, after, event, news)


def _after(state: LoopState, event: Event) -> LoopState:
    if isinstance(event, RunForked):  # no time has passed for it since the event of its source
        return _rest(state, _take_event(state, event), event.at_ms)
    if not isinstance(event, PersonActed):
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
            return effect_results.without_stale_blocks(state)
        state = newer


def _go_on(state: LoopState, at_ms: int) -> LoopState:  # noqa: C901, PLR0911  a row each
    """Do the next thing that needs no event; the same state if there is none."""
    kinds = {effect.kind for effect in state.pending}
    gate = state.gate
    if gate is not None and any(
        one.id == gate.request_id and one.status != "pending" for one in state.approvals
    ):
        return people.settle_gate(state, gate)
    if state.phase == "acting" and (newer := turns.act(state)) is not state:
        return newer
    if state.phase == "asking" and state.cancel is not None and stands_still(state):
        return endings.stop_waiting(state)
    if may_save(state) and "save_session" not in kinds:
        save = effect_factory.session_save(state, state.saving.to_save[0])
        return effect_factory.issue(state, save)
    if (newer := compaction.begun(state)) is not state:
        return newer
    if state.phase == "turned" and not (is_being_checked(state) or compaction.holds_back(state)):
        return turns.begin_turn(state, at_ms)
    if state.phase == "acting" and (wanting := spending.wanting(state)) is not None:
        return people.lend_more(state, *wanting, at_ms)
    candidate = state.question.candidate
    if candidate is not None and not (is_being_checked(state) or "finalize_answer" in kinds):
        return endings.finalize(state, candidate, at_ms)
    if state.closing is not None and not kinds:
        return revised(state, phase="closed", outcome=state.closing, closing=None)
    if state.closing is not None and all(one.ends_with_run for one in state.pending):
        return endings.cancel_pending(state, phrases.CANCELLED)
    if (newer := reply_clock.kept(state, at_ms)) is not state:
        return newer
    if "count_hours" not in kinds and (newer := hours.begun(state)) is not state:
        return newer
    if needs_offload(state) and "offload_items" not in kinds:
        return effect_factory.issue(state, effect_factory.offload(state))
    return state


def _pass_time(state: LoopState, at_ms: int) -> LoopState:
    """Apply what is due by a time: reminders, escalation, expiry, and ends of waits."""
    before, expired = state, list[ApprovalRequest]()
    if state.case.resolved_ms or state.case.snoozed_until_ms or state.case.reply:
        state = case_acts.pass_time(state, at_ms)
    if not state.calls and state.gate is None:
        return _rest(before, state, at_ms)
    for request in state.approvals:
        older = votes.aged(request, at_ms)
        if older is not request:
            state = people.settle_call(people.with_request(state, older), older)
            expired += [older] if older.status == "expired" else []
    fatal = next((one for one in expired if one.terms.on_expiry == "fail"), None)
    if fatal is not None:
        message = phrases.approval_expired(fatal.id, fatal.name)
        state = endings.fail_question(state, Failure(code="approval_expired", message=message))
    while (due := outside.first_due(state, at_ms)) is not None:
        state = outside.wake(state, due, at_ms)
    return _rest(before, state, at_ms)


# --- Commands and notices -------------------------------------------------------------------------


def _commands(
    before: LoopState, after: LoopState, event: Event, news: tuple[Notice, ...]
) -> tuple[Command, ...]:
    """Return what the shell has to do, from what has changed: cancellations come first."""
    if isinstance(event, RunEnded):  # the engine has stopped everything
        return ()
    if isinstance(event, RunForked):  # what its source had begun
        return after.pending
    commands: list[Command] = []
    if after.start.parent is not None and (
        after.pending_approvals != before.pending_approvals
        or effect_factory.only_waits_for(after) != effect_factory.only_waits_for(before)
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
    if after.case.report != before.case.report:
        commands += case_acts.reports(before, after)
    if after.phase == "closed":
        commands += [NotifyAfterEnd(notices=news)] if news else []
        commands.append(effect_factory.finish(after))
    return tuple(commands)


def _pending_or_answered(after: LoopState, event: Event) -> set[int]:
    numbers = {one.effect for one in after.pending}
    return numbers | {event.effect} if isinstance(event, EffectAnswered | EffectFailed) else numbers


def _loans(before: LoopState, after: LoopState) -> list[LendBudget]:
    """Return what nested runs that work already may spend more."""
    known = {one.nested_id: one.shares for one in before.lent}
    return [
        LendBudget(nested_id=one.nested_id, record=LendRecord(index=index, share=share))
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


# --- What each event does -------------------------------------------------------------------------


def _take_event(  # noqa: C901, PLR0911, PLR0912  a row for each event
    state: LoopState, event: Event
) -> LoopState:
    match event:
        case EffectAnswered() | EffectFailed():  # first: nearly every event is one
            return effect_results.effect_answered(state, event)
        case RunStarted():
            return _run_started(event)
        case RunForked():
            from outlast.loop.forked_state import forked  # few runs are forks

            return forked(state, event)
        case MessageReceived():
            return turns.message_received(state, event)
        case RetryRequested():
            return turns.retry_requested(state, event)
        case MessageWithdrawn():
            return turns.message_withdrawn(state, event)
        case PersonActed():
            return human_actions.take(state, event)
        case ValueDelivered():
            return outside.value_delivered(state, event)
        case TimePassed():
            return state
        case NestedReported():
            return turns.nested_reported(state, event)
        case BudgetLent():
            return turns.budget_lent(state, event)
        case TeamAnswered():
            return case_acts.assigned(state, event)
        case ConversationRated():
            return case_acts.rated(state, event)
        case LineAttached():
            return lines.line_attached(state, event)
        case LineReplied():
            return lines.line_replied(state, event)
        case CancelRequested():
            return endings.cancel_requested(state, event)
        case RunEnded():
            return endings.run_ended(state, event)
        case EffectBlocked():
            return effect_results.effect_blocked(state, event)
        case _:  # `SignalUnreadable`
            return with_ignored(state, event.at_ms, event.name, event.problem)


def _run_started(event: RunStarted) -> LoopState:
    state = LoopState(
        run_id=event.run_id,
        start=event.start,
        phase="preparing",
        agent=event.agent,
        context=event.context,
        inbox=(event.message,) if event.message is not None else (),
        handoff_path=(event.agent,),
        server=Server(thread=event.thread),
        remembered=event.remembered,
        redacted=event.redacted,
        fork=event.fork,
    )
    return effect_factory.issue(state, effect_factory.preparation(state))
