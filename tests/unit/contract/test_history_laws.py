"""Folding a history gives the state that the run had, for any run."""

from dataclasses import fields, replace

from hypothesis import assume, given

from outlast.contract import failures
from outlast.contract.failures import EngineFailure
from outlast.contract.history import (
    CancelAsked,
    HistoryEntry,
    Resolved,
    Signalled,
    Started,
    TimerFired,
    Updated,
    WorkflowTask,
    fold,
    opening,
)
from outlast.contract.records import (
    RunInput,
    write,
    write_state,
)
from outlast.loop.actions import (
    Action,
    AssignedRecord,
    AttachLineRecord,
    DeliverRecord,
    LendRecord,
    LineReplyRecord,
    NestedRecord,
    RatingRecord,
)
from outlast.loop.effects import (
    EffectAnswered,
    EffectEvent,
    EffectFailed,
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
    SignalUnreadable,
    TeamAnswered,
    TimePassed,
    ValueDelivered,
)
from outlast.loop.human_actions import row_of
from outlast.loop.machine import advance
from outlast.loop.notices import NoticeReceipt
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from tests.laws.driver import Play
from tests.laws.strategies import MOVES, Script, examples, play_script, scripts

RECORDABLE = tuple(move for move in MOVES if move != "wrong")
"""An activity cannot answer with the result of another type: it would be unreadable."""

STOPS = {"reject", "respond"}
"""The decisions after which a call does not run."""

LAW = examples(20)


def happening_of(event: Event) -> HistoryEntry:  # noqa: C901, PLR0911, PLR0912  a row for each event
    """What a history would say of an event."""
    match event:
        case RunStarted():
            return Started(payload=input_of(event))
        case MessageReceived():
            (said,) = event.message.content
            payload = {
                "input": said["content"],
                "message_id": event.message.id,
                "mode": event.message.mode,
                "author": "".join(event.message.authors),
            }
            return Updated(name="send", arguments=(payload,))
        case PersonActed():
            kind = Updated if event.verified else Signalled
            return kind(name=row_of(event.action).name, arguments=(write(event.action),))
        case MessageWithdrawn():
            return Updated(name="withdraw", arguments=({"message_id": event.message_id},))
        case TimePassed():
            return TimerFired()
        case RetryRequested():
            return Updated(name="retry", arguments=({"answers": event.answers},))
        case CancelRequested():
            if event.mode == "immediate" and event.at_ms % 2_000:
                return CancelAsked()
            return Signalled(name="cancel", arguments=({"mode": event.mode},))
        case SignalUnreadable():
            return Signalled(name=event.name.removeprefix("signal "), arguments=())
        case NestedReported():
            return Signalled(name="nested", arguments=(record_of(NestedRecord, event),))
        case BudgetLent():
            return Signalled(name="lend", arguments=(record_of(LendRecord, event),))
        case TeamAnswered():
            return Signalled(name="assigned", arguments=(record_of(AssignedRecord, event),))
        case ConversationRated():
            return Updated(name="rate", arguments=(record_of(RatingRecord, event),))
        case LineAttached():
            return Updated(name="attach_line", arguments=(record_of(AttachLineRecord, event),))
        case ValueDelivered():
            # A worker's update handler has checked the proof; a signal's proof is still to be checked.
            kind = Signalled if event.verified is None else Updated
            return kind(name="deliver", arguments=(record_of(DeliverRecord, event),))
        case LineReplied():
            return Signalled(name="line_reply", arguments=(record_of(LineReplyRecord, event),))
        case RunForked():
            raise AssertionError("a fork begins with it")
        case RunEnded():
            raise AssertionError("the engine tells of it at the end of a history")
        case _:
            return resolved(event)


def record_of(kind: type, event: Event) -> JsonObject:
    """The record that an event is made of, with every field: one that is forgotten here would differ."""
    return write(kind(**{one.name: getattr(event, one.name) for one in fields(kind)}))


def resolved(event: EffectEvent | EffectBlocked) -> Resolved:
    match event:
        case EffectBlocked():
            code = failures.WORKER_LACKS if event.lacks else failures.FAILED_ON_CAPABLE_WORKER
            failure = EngineFailure(kind="application", code=code, message=event.lacks)
            return Resolved(effect=event.effect, failure=failure)
        case EffectAnswered(result=None | NoticeReceipt()):
            return Resolved(effect=event.effect, payload=None)
        case EffectAnswered(result=result):
            return Resolved(effect=event.effect, payload=write(result))
        case EffectFailed():
            code, message = event.failure.code, event.failure.message
            details = event.failure.details
            failure = EngineFailure(kind="application", code=code, message=message, details=details)
            return Resolved(effect=event.effect, failure=failure)


def input_of(event: RunStarted) -> JsonObject:
    assert event.message is not None
    (said,) = event.message.content
    record = RunInput(
        agent=event.agent,
        input=said["content"],
        message_id=event.message.id,
        context=event.context,
        max_turns=event.start.max_turns,
        keep_open=event.start.keep_open,
        settings=event.start.settings,
        session=event.start.session,
        thread=event.thread,
        handled=event.start.handled,
        parent=event.start.parent,
    )
    return write(record)


def proven_events(play: Play) -> list[Event]:
    """The events of a run, where people and deliveries have the proof that a history shows."""
    return [proven(event, number) for number, event in enumerate(play.events)]


def proven(event: Event, number: int) -> Event:
    """An event with a proof whose time changes nothing.

    What stops a call counts as made in time where nobody knows when it was made: so its proof is
    as old as can be.
    """
    stops = isinstance(event, PersonActed) and getattr(event.action, "type", "") in STOPS
    made_at_ms = 1 if stops else event.at_ms
    nonce = f"{number:032x}"
    proof = f"v2.00000000.{made_at_ms}.{nonce}.{'A' * 43}"
    if isinstance(event, ValueDelivered):
        return replace(event, proof=None if event.verified is False else proof)
    if not isinstance(event, PersonActed) or not event.verified:
        return event
    action: Action = replace(event.action, proof=proof)
    return replace(event, action=action, nonce=nonce, made_at_ms=made_at_ms)


def tasks_of(play: Play) -> list[WorkflowTask]:
    """What a history says of a run. An answer that nobody waits for is only a moment of time."""
    state, tasks = LoopState(), list[WorkflowTask]()
    for event in proven_events(play):
        effect: int | None = getattr(event, "effect", None)
        is_stray = effect is not None and effect not in {one.effect for one in state.pending}
        entry = TimerFired() if is_stray else happening_of(event)
        tasks.append(WorkflowTask(at_ms=event.at_ms, entries=(entry,)))
        state, _ = advance(state, event)
    return tasks


@LAW
@given(scripts(moves=RECORDABLE))
def test_the_fold_of_a_history_is_the_runs_own_state(script: Script) -> None:
    play = play_script(script)
    state = LoopState()
    for event in proven_events(play):
        state, _ = advance(state, event)
    folded = list(fold(LoopState(), play.run_id, tasks_of(play)))
    assert folded[-1][1] == state


@LAW
@given(scripts(max_moves=16, moves=RECORDABLE))
def test_the_fold_goes_on_across_histories(script: Script) -> None:
    play = play_script(script)
    tasks = tasks_of(play)
    whole = list(fold(LoopState(), play.run_id, tasks))
    cut = len(tasks) // 2
    first = list(fold(LoopState(), play.run_id, tasks[: cut + 1]))
    assume(first[-1][1].phase != "closed")  # a run that has ended continues in no other history
    payload = write(RunInput(carried=write_state(first[-1][1])))
    begun = WorkflowTask(at_ms=1, entries=(Started(payload=payload),))
    second = list(fold(opening(payload), play.run_id, [begun, *tasks[cut + 1 :]]))
    assert [*first, *second] == whole
