"""What holds of every step of every run. `Play` in `loop_driver` checks it after every event."""

from collections.abc import Mapping, Sequence

from outlast.loop.approvals import refusal
from outlast.loop.commands import (
    CallModel,
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
from outlast.loop.items import Message
from outlast.loop.state import RunState

ANSWER_OF: dict[type, type] = {
    PrepareRun: RunPrepared,
    CallModel: ModelReplied,
    RunTool: ToolFinished,
    RunHandoff: HandoffFinished,
}


def is_inert(
    state: RunState,
    outstanding: Mapping[int, Effect],
    accepted: Sequence[Message],
    event: Event,
) -> bool:
    """Whether an event answers nothing, or says nothing new. Told from outside of the loop."""
    if state.phase == "closed":
        return True
    match event:
        case RunStarted() | SignalUnreadable():
            return True
        case MessageReceived():
            return any(one.id == event.message.id for one in accepted)
        case DecisionReceived():
            return refusal(state.approvals, event.decision) is not None
        case CancelRequested():
            return False
        case EffectFailed():
            return event.effect not in outstanding
        case _:
            effect = outstanding.get(event.effect)
            return effect is None or not isinstance(event, ANSWER_OF[type(effect)])


def check_nothing_happened(
    before: RunState, after: RunState, commands: Sequence[Command], event: Event
) -> None:
    assert commands == (), f"{event} has no effect, but the loop asks for {commands}"
    if after is before:
        return
    assert before.phase != "closed", "a closed run has changed"
    assert isinstance(event, (DecisionReceived, SignalUnreadable)), f"{event} changed the run"
    assert after.ignored != before.ignored
    for name in RunState.__slots__:
        same = getattr(after, name) is getattr(before, name)
        assert same or name == "ignored", f"{event} changed {name}"


def check_messages(state: RunState, accepted: Sequence[Message]) -> None:
    """Every message is kept once, and those shown to the model are in the transcript, in order."""
    shown = len(accepted) - len(state.inbox)
    assert state.inbox == tuple(accepted[shown:]), "the inbox is not the newest messages"
    answered = [one for answer in state.answers for one in answer.to]
    assert [*answered, *state.answering] == [one.id for one in accepted[:shown]]
    inputs = [item.raw for item in state.items if item.kind == "input"]
    assert inputs == [raw for one in accepted[:shown] for raw in one.content]


def check_calls(state: RunState) -> None:
    """Every call has one output after it and no more; calls being acted on have none yet."""
    open_calls: list[str] = []
    for item in state.items:
        if item.kind in {"tool_call", "handoff_call"}:
            open_calls.append(item.raw["call_id"])
        elif item.kind in {"tool_output", "handoff_output"}:
            assert item.raw["call_id"] in open_calls, "an output without a call"
            open_calls.remove(item.raw["call_id"])
    assert sorted(open_calls) == sorted(call.call_id for call in state.calls)


def check_approvals(before: RunState, after: RunState) -> None:
    assert [one.id for one in after.approvals] == [
        f"a{number + 1}" for number in range(len(after.approvals))
    ]
    for old, new in zip(before.approvals, after.approvals, strict=False):
        assert old.status == "pending" or new == old, "a settled approval has changed"
