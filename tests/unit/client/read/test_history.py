"""Reading a run's history: which of Temporal's records mean something, and when it arrived."""

from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure as FailureRecord
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable
from outlast.client.read.history import HistoryReader, Progress, RunReader
from outlast.contract import records
from outlast.contract.failures import EngineFailure
from outlast.contract.history import (
    CancelAsked,
    HistoryEntry,
    Resolved,
    Signalled,
    Started,
    Updated,
    WorkflowTask,
)
from outlast.contract.records import NOT_JSON, RunInput, Unreadable
from outlast.loop.calls import ModelReply
from outlast.loop.effects import EffectAnswered
from outlast.loop.events import RunStarted
from tests.unit.client.recorded import (
    START_MS,
    UNDECODABLE,
    FakeClient,
    Kind,
    Recording,
    application_failure,
    payloads_of,
    refused,
)

INPUT = {"agent": "Triage", "input": "Hello"}


def reader() -> HistoryReader:
    return HistoryReader(DataConverter.default)


async def read(recording: Recording) -> list[WorkflowTask]:
    return await reader().feed(recording.events)


async def only(recording: Recording) -> list[HistoryEntry]:
    """Return what the last workflow task delivered."""
    return list((await read(recording))[-1].entries)


# --- One record ------------------------------------------------------------------------------------------


async def test_the_input_is_delivered_by_the_first_workflow_task() -> None:
    recording = Recording()
    recording.started(INPUT, "more")
    recording.task()
    (task,) = await read(recording)
    assert task == WorkflowTask(at_ms=START_MS + 1_000, entries=(Started(payload=INPUT),))


async def test_a_run_without_input_started_all_the_same() -> None:
    recording = Recording()
    recording.started()
    recording.task()
    assert await only(recording) == [Started(payload=None)]


async def test_an_input_that_cannot_be_decoded_is_unreadable() -> None:
    recording = Recording()
    recording.add(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED, input=UNDECODABLE)
    recording.task()
    assert await only(recording) == [Started(payload=Unreadable(NOT_JSON))]


@pytest.mark.parametrize("name", ["decide", "cancel"])
async def test_a_signal_is_delivered_with_its_arguments(name: str) -> None:
    recording = Recording()
    recording.signal(name, {"a": 1}, "more")
    recording.task()
    assert await only(recording) == [Signalled(name=name, arguments=({"a": 1}, "more"))]


async def test_the_arguments_of_a_signal_that_nobody_knows_are_not_even_decoded() -> None:
    recording = Recording()
    recording.signal("hello", input=UNDECODABLE)
    recording.task()
    assert await only(recording) == [Signalled(name="hello", arguments=())]


async def test_a_signal_that_cannot_be_decoded_is_unreadable() -> None:
    recording = Recording()
    recording.signal("decide", input=UNDECODABLE)
    recording.task()
    assert await only(recording) == [Signalled(name="decide", arguments=(Unreadable(NOT_JSON),))]


async def test_a_signal_with_too_many_arguments_is_dropped_as_the_workflow_drops_it() -> None:
    recording = Recording()
    two = Payloads(payloads=[*UNDECODABLE.payloads, *UNDECODABLE.payloads])
    recording.signal("decide", input=two)
    recording.task()
    assert await only(recording) == []


async def test_an_update_belongs_to_the_task_that_it_was_delivered_with() -> None:
    recording = Recording()
    begun = recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
    recording.complete(begun)
    recording.update("send", {"input": "x", "message_id": "m"}, before=begun - 1)
    (task,) = await read(recording)
    assert task.entries == (Updated(name="send", arguments=({"input": "x", "message_id": "m"},)),)


async def test_the_engines_own_cancel_is_delivered() -> None:
    recording = Recording()
    recording.add(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED)
    recording.task()
    assert await only(recording) == [CancelAsked()]


async def test_an_activitys_result_is_delivered_under_its_effects_number() -> None:
    recording = Recording()
    recording.activity(7, {"output": "x"})
    recording.task()
    assert await only(recording) == [Resolved(effect=7, payload={"output": "x"})]


async def test_activities_that_end_out_of_order_keep_their_numbers() -> None:
    recording = Recording()
    first, second = recording.schedule("3"), recording.schedule("4")
    for scheduled in (second, first):
        recording.add(
            Kind.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
            scheduled_event_id=scheduled,
            result=payloads_of(scheduled),
        )
    recording.task()
    assert await only(recording) == [
        Resolved(effect=4, payload=second),
        Resolved(effect=3, payload=first),
    ]


async def test_an_activity_of_somebody_else_answers_no_effect() -> None:
    recording = Recording()
    scheduled = recording.schedule("not-a-number")
    recording.add(
        Kind.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
        scheduled_event_id=scheduled,
        result=payloads_of(1),
    )
    recording.task()
    assert await only(recording) == [Resolved(effect=0, payload=1)]


def wrapped(cause: FailureRecord) -> FailureRecord:
    """A failure as the SDK shows it, inside of its own."""
    failure = FailureRecord(message="Activity task failed", cause=cause)
    failure.activity_failure_info.activity_id = "7"
    return failure


def timeout() -> FailureRecord:
    failure = FailureRecord(message="late")
    failure.timeout_failure_info.SetInParent()
    return failure


def cancelled() -> FailureRecord:
    failure = FailureRecord(message="stop")
    failure.canceled_failure_info.SetInParent()
    return failure


def server_failure() -> FailureRecord:
    failure = FailureRecord(message="too large")
    failure.server_failure_info.non_retryable = True
    return failure


FAILURES: list[tuple[FailureRecord, EngineFailure]] = [
    (
        application_failure("tool_failed", "It broke."),
        EngineFailure(kind="application", code="tool_failed", message="It broke."),
    ),
    (
        application_failure("model_call_failed", "Busy.", {"status": 503}, "more"),
        EngineFailure(
            kind="application", code="model_call_failed", message="Busy.", details={"status": 503}
        ),
    ),
    (
        application_failure("x", "y", "no object"),
        EngineFailure(kind="application", code="x", message="y"),
    ),
    (timeout(), EngineFailure(kind="timeout")),
    (cancelled(), EngineFailure(kind="cancelled")),
    (server_failure(), EngineFailure(kind="other", message="too large")),
    (
        wrapped(application_failure("tool_failed", "It broke.")),
        EngineFailure(kind="application", code="tool_failed", message="It broke."),
    ),
    (wrapped(timeout()), EngineFailure(kind="timeout")),
    (FailureRecord(message="?"), EngineFailure(kind="other", message="?")),
]


@pytest.mark.parametrize(
    ("failure", "engine"), FAILURES, ids=[f"{at}" for at in range(len(FAILURES))]
)
async def test_a_failed_activity_says_how(failure: FailureRecord, engine: EngineFailure) -> None:
    recording = Recording()
    recording.failed_activity(7, failure)
    recording.task()
    assert await only(recording) == [Resolved(effect=7, failure=engine)]


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (Kind.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, "timeout"),
        (Kind.EVENT_TYPE_ACTIVITY_TASK_CANCELED, "cancelled"),
    ],
)
async def test_an_activity_that_ended_otherwise_is_a_failure(
    ending: "EventType.ValueType", kind: Any
) -> None:
    recording = Recording()
    recording.add(ending, scheduled_event_id=recording.schedule("7"))
    recording.task()
    assert await only(recording) == [Resolved(effect=7, failure=EngineFailure(kind=kind))]


async def test_a_local_activity_ends_within_its_task_at_a_time_of_its_own() -> None:
    recording = Recording()
    recording.started(INPUT)
    _, completed = recording.task()
    recording.local(1, {"model": "x"}, task=completed, end_ms=START_MS + 1_234)
    (task,) = await read(recording)
    assert task.entries == (
        Started(payload=INPUT),
        Resolved(effect=1, payload={"model": "x"}, local_end_ms=START_MS + 1_234),
    )


async def test_a_local_activity_may_fail() -> None:
    recording = Recording()
    _, completed = recording.task()
    failure = application_failure("user_error", "No such agent.")
    recording.local(1, None, task=completed, end_ms=5, failure=failure)
    engine = EngineFailure(kind="application", code="user_error", message="No such agent.")
    assert await only(recording) == [Resolved(effect=1, failure=engine, local_end_ms=5)]


async def test_a_local_activity_that_the_workflow_stopped_is_nothing() -> None:
    recording = Recording()
    _, completed = recording.task()
    recording.local(1, None, task=completed, end_ms=None)
    assert await only(recording) == []


async def test_other_markers_and_records_are_nothing() -> None:
    recording = Recording()
    _, completed = recording.task()
    recording.add(
        Kind.EVENT_TYPE_MARKER_RECORDED,
        marker_name="core_patch",
        workflow_task_completed_event_id=completed,
    )
    recording.add(Kind.EVENT_TYPE_TIMER_FIRED)
    recording.add(Kind.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES)
    assert await read(recording) == [WorkflowTask(at_ms=START_MS + 1_000, entries=())]


# --- When it arrived ---------------------------------------------------------------------------------------


async def test_what_comes_while_a_task_runs_belongs_to_the_next() -> None:
    recording = Recording()
    recording.started(INPUT)
    begun = recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
    recording.signal("cancel", {})
    recording.complete(begun)
    recording.task()
    first, second = await read(recording)
    assert first.entries == (Started(payload=INPUT),)
    assert second.entries == (Signalled(name="cancel", arguments=({},)),)


async def test_a_task_that_failed_delivers_nothing_until_it_is_tried_again() -> None:
    recording = Recording()
    recording.started(INPUT)
    recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
    recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_FAILED)
    recording.signal("cancel", {})
    recording.task()
    (task,) = await read(recording)
    assert [type(one) for one in task.entries] == [Started, Signalled]


async def test_a_history_may_come_in_any_portions() -> None:
    recording = Recording()
    recording.started(INPUT)
    recording.prepared()
    recording.activity(2, {"items": []})
    recording.task()
    whole = await read(recording)
    ends = [5, 7, 8, 9]  # wherever a transaction of the server may end
    one, parts = reader(), list[WorkflowTask]()
    for start, end in zip([0, *ends], [*ends, len(recording.events)], strict=True):
        parts.extend(await one.feed(recording.events[start:end]))
    assert parts == whole
    assert one.size == len(recording.events)
    assert one.start_payload == INPUT


@pytest.mark.parametrize(
    "ending",
    [
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    ],
)
async def test_the_record_that_ends_a_run_is_known(ending: "EventType.ValueType") -> None:
    recording = Recording()
    one = reader()
    await one.feed(recording.events)
    assert one.closed_by is None
    recording.close(ending)
    await one.feed(recording.events)
    assert one.closed_by == recording.events[-1]


# --- A whole run ---------------------------------------------------------------------------------------------


def run_of(client: FakeClient) -> RunReader:
    return RunReader(cast("Client", client), "support-42")


def whole_run(**fields: Any) -> Recording:
    """A question, and its answer."""
    recording = Recording()
    recording.asked(**fields)
    recording.prepared()
    recording.answered()
    return recording


def closed_run() -> Recording:
    recording = whole_run()
    recording.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    return recording


async def followed(one: RunReader, *, from_start: bool = True) -> list[Progress]:
    return [progress async for progress in one.follow(from_start=from_start)]


async def test_the_state_of_a_run_can_be_read_while_it_works() -> None:
    recording = Recording()
    recording.asked()
    recording.prepared()
    one = run_of(FakeClient(recording.events))
    state = await one.catch_up()
    assert (state.status, state.phase, state.run_id) == ("running", "thinking", "support-42")
    assert state.start.started_at_ms == START_MS + 1_000
    assert one.closed_by is None


async def test_a_run_can_be_read_to_its_end() -> None:
    one = run_of(FakeClient(closed_run().events))
    state = await one.catch_up()
    assert (state.status, state.final_output) == ("completed", "Hi")
    assert one.closed_by is not None


async def test_an_unreadable_run_never_began_and_has_failed() -> None:
    recording = Recording()
    recording.started("nonsense")
    recording.task()
    recording.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED)
    state = await run_of(FakeClient(recording.events)).catch_up()
    assert (state.status, state.run_id, state.items) == ("failed", "", ())


async def test_following_yields_every_event_with_the_state_after_it() -> None:
    progress = await followed(run_of(FakeClient(closed_run().events)))
    assert [type(one.event) for one in progress] == [
        type(None),
        RunStarted,
        EffectAnswered,
        EffectAnswered,
    ]
    assert [one.state.phase for one in progress] == ["new", "preparing", "thinking", "closed"]


async def test_a_long_poll_that_comes_back_empty_or_breaks_is_begun_again() -> None:
    events = closed_run().events
    client = FakeClient(
        events[:6],
        [],
        refused(RPCStatusCode.DEADLINE_EXCEEDED),
        refused(RPCStatusCode.CANCELLED),
        events[6:],
    )
    assert (await followed(run_of(client)))[-1].state.final_output == "Hi"


async def test_a_history_that_moved_on_the_server_is_read_again_and_no_record_counts_twice() -> (
    None
):
    events = closed_run().events
    client = FakeClient(events[:6], refused(RPCStatusCode.INVALID_ARGUMENT), events[6:])
    assert await followed(run_of(client)) == await followed(run_of(FakeClient(events)))
    assert client.calls.count(("fetch", "run-1")) == 2


async def test_events_in_the_place_of_a_workflow_task_that_was_lost_are_read() -> None:
    stored = whole_run(keep_open=True)
    lost = Recording()
    lost.events = list(stored.events)
    lost.add(Kind.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
    lost.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
    length = stored.last
    stored.signal("cancel", {"mode": "after_turn"})
    stored.task()
    stored.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    client = FakeClient(lost.events, [], stored.events[length:])
    assert await followed(run_of(client)) == await followed(run_of(FakeClient(stored.events)))


async def test_a_workflow_task_that_was_tried_again_has_the_time_of_its_last_attempt() -> None:
    early, late = Recording(), Recording()
    for recording, extra in ((early, 0), (late, 5_000)):
        recording.asked()
        recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
        begun = recording.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
        recording.events[-1].event_time.FromMilliseconds(START_MS + extra)
    late.complete(begun)
    late.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    progress = await followed(run_of(FakeClient(early.events, late.events[1:])))
    assert progress[-1].state.start.started_at_ms == START_MS + 5_000


async def test_a_request_that_the_server_does_not_take_at_all_is_an_error() -> None:
    client = FakeClient(refused(RPCStatusCode.INVALID_ARGUMENT), closed_run().events)
    with pytest.raises(RPCError):
        await followed(run_of(client))


async def test_a_server_that_refuses_is_not_asked_for_ever() -> None:
    client = FakeClient(closed_run().events[:6], refused(RPCStatusCode.PERMISSION_DENIED))
    with pytest.raises(RPCError, match="refused"):
        await followed(run_of(client))


async def test_a_run_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(RPCError):
        await run_of(FakeClient()).catch_up()
    with pytest.raises(RPCError):
        await followed(run_of(FakeClient()))


async def continued() -> FakeClient:
    """A conversation that went on in a second history."""
    first = whole_run(keep_open=True)
    carried = await run_of(FakeClient(first.events)).catch_up()
    first.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, new_execution_run_id="run-2")
    second = Recording()
    start = RunInput(agent="Triage", carried=records.write_state(carried))
    second.started(records.write(start), continues="run-1")
    begun, _ = second.task()
    second.update("send", {"input": "More", "message_id": "m2"}, before=begun - 1)
    second.answered("Again", effect=3)
    second.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    client = FakeClient(first.events)
    client.runs["run-2"] = [second.events]
    client.newest = "run-2"
    return client


async def test_a_conversation_is_followed_from_its_first_history_into_the_next() -> None:
    client = await continued()
    progress = await followed(run_of(client))
    assert [one for one in client.calls if one[0] == "fetch"] == [
        ("fetch", "run-1"),
        ("fetch", "run-2"),
    ]
    texts = [
        one.state.final_output
        for one in progress
        if isinstance(one.event, EffectAnswered) and isinstance(one.event.result, ModelReply)
    ]
    assert texts == ["Hi", "Again"]
    begins = [at for at, one in enumerate(progress) if one.event is None]
    assert progress[begins[1]].state == progress[begins[1] - 1].state, "nothing is lost between"


async def test_the_newest_history_holds_the_whole_state() -> None:
    client = await continued()
    state = await run_of(client).catch_up()
    progress = await followed(run_of(client), from_start=False)
    assert progress[-1].state == state
    assert [answer.to for answer in state.answers] == [("start",), ("m2",)]
    assert len(progress) < 5
    assert ("fetch", "run-1") not in client.calls


async def test_a_conversation_that_was_reset_is_followed_in_the_history_that_counts() -> None:
    client = await continued()
    first = whole_run(keep_open=True)
    first.close(
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW, new_execution_run_id="left-behind"
    )
    client.runs |= {"run-1": [first.events], "left-behind": [[]]}
    texts = [one.state.final_output for one in await followed(run_of(client)) if one.event]
    assert texts[-1] == "Again"
    assert ("fetch", "left-behind") not in client.calls


async def test_a_first_history_that_is_no_longer_retained_is_done_without() -> None:
    client = await continued()
    del client.runs["run-1"]
    progress = await followed(run_of(client))
    assert progress[-1].state.final_output == "Again"


async def test_a_server_that_fails_to_describe_a_history_is_not_taken_for_one_that_lost_it() -> (
    None
):
    client = await continued()

    class Failing(dict[str, Any]):
        def get(self, run: str, default: Any = None) -> Any:
            if run == "run-1":
                raise refused(RPCStatusCode.UNAVAILABLE)
            return super().get(run, default)

    client.runs = Failing(client.runs)
    with pytest.raises(ServerUnavailable):
        await followed(run_of(client))


async def test_an_update_that_a_reset_applied_again_is_read_where_it_was_admitted() -> None:
    one = whole_run(keep_open=True)
    admitted = one.add(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ADMITTED)
    request = one.events[-1].workflow_execution_update_admitted_event_attributes.request
    request.input.name = "send"
    request.input.args.CopyFrom(payloads_of({"input": "More", "message_id": "m2"}))
    one.task()
    one.add(
        Kind.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED,
        accepted_request_sequencing_event_id=admitted,
    )
    one.answered("Again", effect=3)
    state = await run_of(FakeClient(one.events)).catch_up()
    assert [answer.to for answer in state.answers] == [("start",), ("m2",)]
