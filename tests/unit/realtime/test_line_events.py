"""What a line has to do, read from the states of a run."""

from dataclasses import replace
from typing import Any

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.client.results.local_definitions import LocalDefinitions, RemoteAgent
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.calls import Call, CallStatus, PlannedCall
from outlast.loop.effects import CallModel, KeepLineOpen
from outlast.loop.items import Item
from outlast.loop.state import Answer, LoopState, Question
from outlast.loop.values import Failure
from outlast.realtime.events import (
    RealtimeError,
    RealtimeEventInfo,
    RealtimeHandoffEvent,
    RealtimeToolApprovalRequired,
    RealtimeToolEnd,
    RealtimeToolStart,
)
from outlast.realtime.line_events import (
    LineClosed,
    LineLost,
    ModelDue,
    OutputReady,
    Progress,
    SessionEvents,
)

CALL = Item(
    "tool_call",
    {"type": "function_call", "call_id": "c1", "name": "track", "arguments": "{}"},
    "Desk",
    1,
)
OUTPUT = Item("tool_output", {"type": "function_call_output", "call_id": "c1", "output": "sent"})
HELD = KeepLineOpen(effect=1, line="ours")
INFO = RealtimeEventInfo(RunContextWrapper[Any](None))
DESK: Any = RemoteAgent("Desk")
ENDED = RealtimeToolEnd(DESK, "track", "{}", "sent", INFO)
IDLE = LoopState(phase="idle", agent="Desk", handoff_path=("Desk",), pending=(HELD,))


def running(status: CallStatus) -> Call:
    plan = PlannedCall(item=0, kind="tool")
    return Call(plan=plan, call_id="c1", name="track", arguments="{}", status=status, effect=2)


def due(effect: int = 3) -> CallModel:
    return CallModel(
        effect=effect, agent="Desk", context=None, run_id="r", turn=2, input_length=2, line="ours"
    )


def followed() -> Progress:
    progress = Progress(SessionEvents(LocalDefinitions(), INFO))
    progress.begin(IDLE)
    progress.attached("ours")
    assert progress.read(IDLE) == []
    return progress


def test_a_call_begins_once_and_ends_with_its_output() -> None:
    progress = followed()
    acting = replace(IDLE, phase="acting", items=(CALL,), calls=(running("running"),))
    assert progress.read(acting) == [RealtimeToolStart(DESK, "track", "{}", INFO)]
    assert progress.under_way == {"c1": False}
    assert progress.read(acting) == []
    assert progress.read(replace(IDLE, items=(CALL, OUTPUT))) == [ENDED]
    assert progress.under_way == {}


def test_the_model_is_due_with_what_its_session_does_not_have() -> None:
    progress = followed()
    progress.replied([CALL.raw])
    state = replace(IDLE, phase="thinking", items=(CALL, OUTPUT), pending=(HELD, due()))
    assert progress.read(state) == [ModelDue(due(), ((1, OUTPUT),))]
    assert progress.read(state) == [], "each model call is due once"
    again = replace(state, pending=(HELD, due(9)))
    assert progress.read(again) == [ModelDue(due(9), ())]


def test_a_model_call_of_another_line_is_not_due() -> None:
    progress = followed()
    other = replace(due(), line="theirs")
    assert progress.read(replace(IDLE, pending=(HELD, other))) == []


def test_an_output_is_ready_while_others_wait_for_people() -> None:
    progress = followed()
    waiting = replace(
        running("waiting"), call_id="c2", effect=None, plan=PlannedCall(item=0, kind="tool")
    )
    progress.replied([CALL.raw])
    state = replace(IDLE, phase="acting", items=(CALL, OUTPUT), calls=(waiting,))
    assert state.status == "waiting"
    assert progress.read(state) == [OutputReady("c1", "sent")]
    assert progress.read(state) == []
    assert not progress.sent("c1")
    assert progress.sent("c1"), "an output is sent once"


def test_requests_failures_and_handoffs_are_reported_once() -> None:
    progress = followed()
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="refund",
        agent="Desk",
        arguments="{}",
        args_digest="d",
        requested_at_ms=0,
    )
    failure = Failure(code="model_call_failed", message="No.")
    orders: Any = RemoteAgent("Orders")
    state = replace(
        IDLE,
        agent="Orders",
        handoff_path=("Desk", "Orders"),
        approvals=(request,),
        answers=(Answer((), None, "Desk", failure),),
        question=Question(turn=1),
    )
    assert progress.read(state) == [
        RealtimeHandoffEvent(DESK, orders, INFO),
        RealtimeToolApprovalRequired(DESK, "refund", "c1", "{}", INFO),
        RealtimeError({"code": "model_call_failed", "message": "No."}, INFO),
    ]
    assert (progress.under_way, progress.asked) == ({"c1": True}, {"a1": request})
    assert progress.read(state) == []


def test_a_rejected_call_ends_once_without_having_begun() -> None:
    progress = followed()
    request = ApprovalRequest(
        id="a1",
        call_id="c1",
        name="track",
        agent="Desk",
        arguments="{}",
        args_digest="d",
        requested_at_ms=0,
    )
    waiting = replace(IDLE, items=(CALL,), calls=(running("waiting"),), approvals=(request,))
    needed = RealtimeToolApprovalRequired(DESK, "track", "c1", "{}", INFO)
    assert progress.read(waiting) == [needed]
    rejected = replace(IDLE, items=(CALL, OUTPUT))
    assert progress.read(rejected) == [ENDED]
    assert progress.read(rejected) == []


def test_a_line_is_lost_to_another_one_or_to_silence() -> None:
    theirs = replace(IDLE, pending=(KeepLineOpen(effect=7, line="theirs"),))
    assert followed().read(theirs) == [LineClosed()]
    progress = followed()
    assert progress.read(replace(IDLE, pending=())) == [LineLost()]
    assert progress.read(replace(IDLE, pending=())) == []


def test_the_end_of_the_run_is_the_last_step() -> None:
    ended = replace(IDLE, phase="closed", outcome="cancelled", pending=())
    assert followed().read(ended) == [LineClosed()]
    failed = replace(ended, outcome="failed", failure=Failure(code="c", message="No."))
    error = RealtimeError({"code": "c", "message": "No."}, INFO)
    assert followed().read(failed) == [error, LineClosed()]
