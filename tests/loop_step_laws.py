"""What holds of every step of every run. `Play` in `loop_driver` checks it after every event."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

from outlast.contract.blobs import is_plain
from outlast.contract.effects import EffectRequest, request_of
from outlast.contract.stages import Stage, StageBegun, StageChange
from outlast.loop.approvals import refusal
from outlast.loop.calls import PreparedRun
from outlast.loop.effects import (
    AgentFinished,
    AnswerFinalized,
    CallModel,
    CheckInput,
    Command,
    Effect,
    EffectFailed,
    FinalizeAnswer,
    HandoffFinished,
    InputChecked,
    ItemsOffloaded,
    ModelReplied,
    NotifyParent,
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
from outlast.loop.items import Message
from outlast.loop.state import CALL_KINDS, LoopState
from outlast.loop.values import JsonObject
from outlast.loop.view import shown, size

ANSWER_OF: dict[type, type] = {
    PrepareRun: RunPrepared,
    CheckInput: InputChecked,
    CallModel: ModelReplied,
    RunTool: ToolFinished,
    RunAgent: AgentFinished,
    RunHandoff: HandoffFinished,
    FinalizeAnswer: AnswerFinalized,
    SaveSession: SessionSaved,
    OffloadItems: ItemsOffloaded,
}


def is_inert(
    state: LoopState,
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
        case NestedReported():
            return not any(
                isinstance(one, RunAgent) and one.nested_id == event.nested_id
                for one in outstanding.values()
            )
        case CancelRequested() | RunEnded():
            return False
        case EffectFailed() | EffectBlocked():
            return event.effect not in outstanding
        case _:
            effect = outstanding.get(event.effect)
            return effect is None or not isinstance(event, ANSWER_OF[type(effect)])


def check_nothing_happened(
    before: LoopState, after: LoopState, commands: Sequence[Command], event: Event
) -> None:
    assert commands == (), f"{event} has no effect, but the loop asks for {commands}"
    if after is before:
        return
    assert before.phase != "closed", "a closed run has changed"
    assert isinstance(event, (DecisionReceived, SignalUnreadable)), f"{event} changed the run"
    assert after.ignored != before.ignored
    for name in LoopState.__dataclass_fields__:
        same = getattr(after, name) is getattr(before, name)
        assert same or name == "ignored", f"{event} changed {name}"


def check_messages(
    state: LoopState, accepted: Sequence[Message], opened: PreparedRun | None
) -> None:
    """Every message is kept once, and those shown to the model are in the transcript, in order.

    Where the worker made the model's input of the first message, that is what stands for it.
    """
    opening: tuple[JsonObject, ...] = ()
    if opened is not None and opened.input is not None:
        known = set(opened.old)
        opening = opened.input
        old = [at for at in range(len(opening)) if at in known]
        kinds = ["history" if at in known else "input" for at in range(len(opening))]
        assert [one.kind for one in state.items[: len(opening)]] == kinds
        assert [state.items[at].raw for at in old] == [opening[at] for at in old]
        opening = tuple(raw for at, raw in enumerate(opening) if at not in known)
        first, *others = accepted
        accepted = [replace(first, content=()), *others]
    else:
        assert all(one.kind != "history" for one in state.items)
    shown = len(accepted) - len(state.inbox)
    assert state.inbox == tuple(accepted[shown:]), "the inbox is not the newest messages"
    answered = [one for answer in state.answers for one in answer.to]
    assert [*answered, *state.question.answering] == [one.id for one in accepted[:shown]]
    inputs = [item.raw for item in state.items if item.kind == "input"]
    assert inputs == [*opening, *(raw for one in accepted[:shown] for raw in one.content)]


def check_items(before: LoopState, after: LoopState) -> None:
    """No item is lost, and none changes but the newest turn's when its answer is withheld."""
    kept = after.items[: len(before.items)]
    assert len(kept) == len(before.items), "an item was lost"
    changed = [
        (old, new)
        for old, new in zip(before.items, kept, strict=True)
        if old != new and is_plain(new.raw)  # what is not refers to content that is stored outside
    ]
    assert not changed or before.phase == "finalizing", "an item has changed"
    for old, new in changed:
        assert old.turn == before.turns, "an item of an earlier turn has changed"
        assert (old.kind, old.agent, old.turn) == (new.kind, new.agent, new.turn)
        assert old.raw.get("call_id") == new.raw.get("call_id")
        assert new.kind not in CALL_KINDS


def check_calls(state: LoopState) -> None:
    """Every call has one output after it and no more; calls being acted on have none yet."""
    open_calls: list[str] = []
    for item in state.items:
        if item.kind in {"tool_call", "handoff_call"}:
            open_calls.append(item.raw["call_id"])
        elif item.kind in {"tool_output", "handoff_output"}:
            assert item.raw["call_id"] in open_calls, "an output without a call"
            open_calls.remove(item.raw["call_id"])
    assert sorted(open_calls) == sorted(
        call.call_id for call in state.calls if call.status != "recorded"
    )
    running = [call for call in state.calls if call.status == "running"]
    assert state.question.parallel is None or len(running) <= state.question.parallel, (
        "too many calls run at once"
    )


def check_approvals(before: LoopState, after: LoopState) -> None:
    prefix = after.start.parent.prefix if after.start.parent else ""
    assert [one.id for one in after.approvals] == [
        f"{prefix}a{number + 1}" for number in range(len(after.approvals))
    ]
    for old, new in zip(before.approvals, after.approvals, strict=False):
        assert old.status == "pending" or new == old, "a settled approval has changed"
    nested = {one.nested_id for one in after.pending if isinstance(one, RunAgent)}
    assert {one.nested_id for one in after.nested} <= nested, "a nested run is over and still asks"


def check_reports(state: LoopState, commands: Sequence[Command]) -> None:
    """The parent knows what waits for people here and further down, and nobody else is told."""
    told = [one for one in commands if isinstance(one, NotifyParent)]
    if state.start.parent is None:
        assert told == []
        return
    assert all(one.parent == state.start.parent.run_id for one in told)
    waiting = [
        one if one.run_id else replace(one, run_id=state.run_id) for one in state.pending_approvals
    ]
    assert list(told[-1].requests if told else ()) == waiting, "the parent knows something else"
    for earlier, later in pairwise(told):
        assert earlier.requests != later.requests, "the parent was told the same thing twice"


def check_saves(
    before: LoopState, state: LoopState, issued: Sequence[Effect], opened: PreparedRun | None
) -> None:
    """What the session is asked to save are pieces of the transcript, in order, none twice.

    What it has already, from where the run began, it does not get again. Everything else it gets,
    but for the turn of a question that failed, or that somebody stopped at once, and for what
    input guardrails did not pass.
    """
    saves = [one for one in issued if isinstance(one, SaveSession)]
    assert not saves or state.start.session
    # One that failed is asked for again.
    ranges = list(dict.fromkeys((one.start, one.stop) for one in saves))
    ranges += [
        (one.start, one.stop) for one in state.saving.to_save if (one.start, one.stop) not in ranges
    ]
    assert all(start < stop <= state.saving.queued_up_to for start, stop in ranges)
    assert all(stop <= start for (_, stop), (start, _) in pairwise(ranges)), "saved twice"
    known = set(opened.old) if opened is not None and opened.input is not None else set[int]()
    assert all(at not in known for start, stop in ranges for at in range(start, stop))
    assert state.saving.queued_up_to <= len(state.items)
    given_up = any(one.failure for one in state.answers[len(before.answers) :])
    is_stopped = "cancelled" in {state.outcome, state.closing}
    if state.start.session and not given_up and not is_stopped:
        got = {at for start, stop in ranges for at in range(start, stop)} | known
        if state.blocked_from is not None:  # guardrails did not pass it
            got |= set(range(state.blocked_from, len(state.items)))
        assert set(range(before.saving.queued_up_to, state.saving.queued_up_to)) <= got, (
            "something is not saved"
        )


def check_view(state: LoopState) -> None:
    """Nothing is shown twice, and nothing that is said later is left out, unless a filter did it."""
    segments = [one for one in state.view.segments if not isinstance(one, dict)]
    assert all(start < stop <= state.view.rest for start, stop in segments)
    assert state.view.rest <= len(state.items)
    places = [at for start, stop in segments for at in range(start, stop)]
    assert len(set(places)) == len(places), "something is shown twice"
    assert len(shown(state.view, state.items, len(state.items))) == size(
        state.view, len(state.items)
    )


def check_requests(state: LoopState, requests: dict[int, EffectRequest[Any]]) -> None:
    """What an effect asks is the same whenever it is asked, for as long as it is pending."""
    for effect in state.pending:
        request = request_of(state, effect)
        assert requests.setdefault(effect.effect, request) == request


OUTER = {"agent": "question", "turn": "agent", "handoff": "turn", "nested_run": "turn"}
"""Which stage each stage is in."""


def check_stages(state: LoopState, stages: Sequence[Stage], changes: Sequence[StageChange]) -> None:
    """Every stage begins once and ends once, inside of the one around it; none outlives its run."""
    under_way: list[Stage] = []
    begun: set[Any] = set()
    for change in changes:
        stage = change.stage
        if isinstance(change, StageBegun):
            assert stage.identity not in begun, f"{stage} begins twice"
            begun.add(stage.identity)
            if stage.kind in OUTER:
                assert [one for one in under_way if _is_around(one, stage)], f"{stage} is alone"
            under_way.append(stage)
        else:
            assert not [one for one in under_way if _is_around(stage, one)], f"{stage} ends early"
            assert change.at_ms >= stage.since_ms
            assert all(count >= 0 for count in asdict(change.usage).values())
            under_way.remove(stage)
    assert under_way == list(stages)
    assert not stages or state.question.answering
    assert not stages or state.phase not in {"closing", "closed", "idle"}


def _is_around(outer: Stage, inner: Stage) -> bool:
    return (
        OUTER.get(inner.kind) == outer.kind
        and outer.question == inner.question
        and (
            outer.kind == "question"
            or (outer.kind == "agent" and outer.handovers == inner.handovers)
            or (outer.handovers, outer.turn) == (inner.handovers, inner.turn)
        )
    )
