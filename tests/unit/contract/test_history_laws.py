"""Folding a history gives the state that the run had, for any run."""

from hypothesis import assume, given

from outlast.contract import failures
from outlast.contract.failures import EngineFailure
from outlast.contract.history import (
    CancelAsked,
    HistoryEntry,
    Resolved,
    Signalled,
    Started,
    Updated,
    WorkflowTask,
    fold,
    opening,
)
from outlast.contract.records import NestedRecord, RunInput, write, write_state
from outlast.loop.effects import (
    AgentFinished,
    AnswerFinalized,
    EffectEvent,
    EffectFailed,
    HandoffFinished,
    InputChecked,
    ItemsOffloaded,
    ModelReplied,
    RunPrepared,
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
from outlast.loop.state import LoopState
from outlast.loop.values import JsonObject
from tests.loop_driver import Play
from tests.loop_strategies import MOVES, Script, examples, play_script, scripts

RECORDABLE = tuple(move for move in MOVES if move != "wrong")
"""An activity cannot answer with the result of another type: it would be unreadable."""

LAW = examples(20)


def happening_of(event: Event) -> HistoryEntry:
    """What a history would say of an event."""
    match event:
        case RunStarted():
            return Started(payload=input_of(event))
        case MessageReceived():
            (said,) = event.message.content
            payload = {"input": said["content"], "message_id": event.message.id}
            return Updated(name="send", arguments=(payload,))
        case DecisionReceived():
            kind = Signalled if event.at_ms % 2_000 else Updated
            return kind(name="decide", arguments=(write(event.decision),))
        case CancelRequested():
            if event.mode == "immediate" and event.at_ms % 2_000:
                return CancelAsked()
            return Signalled(name="cancel", arguments=({"mode": event.mode},))
        case SignalUnreadable():
            return Signalled(name=event.name.removeprefix("signal "), arguments=())
        case NestedReported():
            record = NestedRecord(nested_id=event.nested_id, requests=event.requests)
            return Signalled(name="nested", arguments=(write(record),))
        case RunEnded():
            raise AssertionError("the engine tells of it at the end of a history")
        case _:
            return resolved(event)


def resolved(event: EffectEvent | EffectBlocked) -> Resolved:
    match event:
        case EffectBlocked():
            code = failures.WORKER_LACKS if event.lacks else failures.WORKER_FOUND
            failure = EngineFailure(kind="application", code=code, message=event.lacks)
            return Resolved(effect=event.effect, failure=failure)
        case RunPrepared():
            return Resolved(effect=event.effect, payload=write(event.result))
        case ModelReplied():
            return Resolved(effect=event.effect, payload=write(event.result))
        case AnswerFinalized():
            return Resolved(effect=event.effect, payload=write(event.result))
        case SessionSaved():
            return Resolved(effect=event.effect, payload=None)
        case (
            ToolFinished() | HandoffFinished() | InputChecked() | AgentFinished() | ItemsOffloaded()
        ):
            return Resolved(effect=event.effect, payload=write(event.result))
        case EffectFailed():
            code, message = event.failure.code, event.failure.message
            failure = EngineFailure(kind="application", code=code, message=message)
            return Resolved(effect=event.effect, failure=failure)


def input_of(event: RunStarted) -> JsonObject:
    (said,) = event.message.content
    record = RunInput(
        agent=event.agent,
        input=said["content"],
        message_id=event.message.id,
        context=event.context,
        max_turns=event.max_turns,
        keep_open=event.keep_open,
        session=event.session,
        thread=event.thread,
        handled=event.handled,
        parent=event.parent,
    )
    return write(record)


def tasks_of(play: Play) -> list[WorkflowTask]:
    return [
        WorkflowTask(at_ms=event.at_ms, entries=(happening_of(event),)) for event in play.events
    ]


@LAW
@given(scripts(moves=RECORDABLE))
def test_the_fold_of_a_history_is_the_runs_own_state(script: Script) -> None:
    play = play_script(script)
    folded = list(fold(LoopState(), play.run_id, tasks_of(play)))
    assert folded[-1][1] == play.state


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
