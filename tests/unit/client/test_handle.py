"""A handle on a run: what it reads, what it asks for, and what its refusals mean."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,  # noqa: A004  the engine's
    TimeoutType,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import (
    AgentsException,
    DecisionRefused,
    MaxTurnsExceeded,
    ModelCallFailed,
    RunCancelled,
    RunClosed,
    RunNotFound,
    RunTerminated,
    ServerUnavailable,
    UserError,
)
from outlast.client.handle import RunHandle, SentMessage, progress_of
from outlast.client.read.events import NumberedEvent, StreamedState
from outlast.client.read.read_range import ReadRange
from outlast.client.results.run_result import RunResult
from outlast.loop.state import LoopState
from outlast.views.run import RunSnapshot, loop_state, snapshot_of
from tests.loop_states import of_loop
from tests.unit.client.recorded import FakeClient, Kind, Recording, application_failure, refused

ENDED = WorkflowExecutionStatus.COMPLETED


def handle_on(client: FakeClient) -> RunHandle:
    return RunHandle(cast("Client", client), "support-42")


def recording(**fields: Any) -> Recording:
    one = Recording()
    one.asked(**fields)
    one.prepared()
    return one


def asks_a_person(one: Recording, call_id: str = "c1", effect: int = 2) -> None:
    raw = {"type": "function_call", "call_id": call_id, "name": "refund", "arguments": "{}"}
    plan: dict[str, Any] = {"item": 0, "kind": "tool", "approval": {}}
    one.activity(effect, {"items": [raw], "calls": [plan]})
    one.task()


def closed(one: Recording) -> Recording:
    one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    return one


def completed() -> Recording:
    one = recording()
    one.answered()
    return closed(one)


# --- Reading ------------------------------------------------------------------------------------------------


async def test_a_handle_says_which_run_it_is_on() -> None:
    assert repr(handle_on(FakeClient())) == "RunHandle('support-42')"


async def test_a_run_that_exists_is_found() -> None:
    await handle_on(FakeClient(recording().events)).check()


@pytest.mark.parametrize(
    "ask",
    ["check", "state", "approvals", "wait_for_people", "past", "stream_events", "stream_states"],
)
async def test_a_run_that_does_not_exist_is_not_found_whatever_is_asked(ask: str) -> None:
    answer = getattr(handle_on(FakeClient()), ask)()
    with pytest.raises(RunNotFound, match=r"no run 'support-42' in the namespace 'default'"):
        await (anext(answer) if ask in {"past", "stream_events", "stream_states"} else answer)


async def test_the_result_of_a_run_is_read_from_its_history() -> None:
    result = await handle_on(FakeClient(completed().events)).result()
    assert (result.status, result.final_output) == ("completed", "Hi")


async def test_a_cancelled_run_is_an_error_that_has_the_run() -> None:
    one = recording()
    one.add(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED)
    one.task()
    with pytest.raises(RunCancelled, match="The run support-42 was cancelled") as caught:
        await handle_on(FakeClient(closed(one).events)).result()
    assert caught.value.run_data.input == "Hello"


CLOSINGS: list[tuple[Any, type[AgentsException], str]] = [
    (ApplicationError("Too long.", type="max_turns_exceeded"), MaxTurnsExceeded, "Too long."),
    (ApplicationError("Busy.", {"status": 503}, type="model_call_failed"), ModelCallFailed, "Busy"),
    (ApplicationError("Odd.", type=None), AgentsException, "Odd."),
    (CancelledError("stop"), RunCancelled, "The run was cancelled."),
    (TerminatedError("by ann"), RunTerminated, "The run was terminated: by ann"),
    (
        TimeoutError("late", type=TimeoutType.START_TO_CLOSE, last_heartbeat_details=[]),
        AgentsException,
        "The run failed: late",
    ),
]


@pytest.mark.parametrize(("cause", "kind", "message"), CLOSINGS)
async def test_a_failed_run_raises_what_its_failure_stands_for(
    cause: BaseException, kind: type[AgentsException], message: str
) -> None:
    client = FakeClient(recording().events, answer=WorkflowFailureError(cause=cause))
    with pytest.raises(AgentsException, match=message) as caught:
        await handle_on(client).result()
    assert isinstance(caught.value, kind)
    assert type(caught.value).__name__ == kind.__name__  # of the `openai` package at once
    assert caught.value.run_data.last_agent.name == "Triage"


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        (
            RPCStatusCode.UNAVAILABLE,
            ServerUnavailable,
            "The Temporal server (does not answer|has not answered for 0.05 s): why",
        ),
        (
            RPCStatusCode.DEADLINE_EXCEEDED,
            ServerUnavailable,
            "does not answer|has not answered for",
        ),
        (RPCStatusCode.PERMISSION_DENIED, AgentsException, "The Temporal server refused: why"),
    ],
)
@pytest.mark.parametrize("ask", ["result", "cancel", "send", "approve"])
async def test_what_the_server_says_is_said_in_our_words(
    ask: str,
    status: RPCStatusCode,
    kind: type[AgentsException],
    message: str,
    request: pytest.FixtureRequest,
) -> None:
    if kind is ServerUnavailable:
        request.getfixturevalue("short_updates")
    handle = handle_on(FakeClient(recording().events, answer=refused(status, "why")))
    arguments = {"send": ("x",), "approve": ("a1",)}.get(ask, ())
    with pytest.raises(AgentsException, match=message) as caught:
        await getattr(handle, ask)(*arguments)
    assert type(caught.value) is kind
    assert isinstance(caught.value.__cause__, RPCError)


# --- Waiting ------------------------------------------------------------------------------------------------


async def test_waiting_for_people_ends_where_one_is_needed() -> None:
    one = recording()
    asks_a_person(one)
    result = await handle_on(FakeClient(one.events)).wait_for_people()
    assert (result.status, [request.id for request in result.interruptions]) == ("waiting", ["a1"])


async def test_waiting_for_people_ends_when_the_run_does() -> None:
    result = await handle_on(FakeClient(completed().events)).wait_for_people()
    assert (result.status, result.final_output) == ("completed", "Hi")


async def test_a_conversation_that_could_not_answer_says_why() -> None:
    one = recording(keep_open=True)
    one.failed_activity(2, application_failure("model_call_failed", "No key."))
    one.task()
    with pytest.raises(ModelCallFailed, match="No key") as caught:
        await handle_on(FakeClient(one.events)).wait_for_people()
    assert caught.value.run_data.last_agent.name == "Triage"


async def test_what_is_pending_can_be_asked_for() -> None:
    one = recording()
    asks_a_person(one)
    (request,) = await handle_on(FakeClient(one.events)).approvals()
    assert (request.id, request.name) == ("a1", "refund")


async def test_any_condition_can_be_waited_for() -> None:
    one = recording()
    result = await handle_on(FakeClient(one.events)).wait(of_loop(thinks))
    assert (result.status, result.final_output) == ("running", None)
    never = await handle_on(FakeClient(completed().events)).wait(lambda _state: False)
    assert never.status == "completed", "the last state there is"


def thinks(state: LoopState) -> bool:
    return state.phase == "thinking"


def is_idle(state: LoopState) -> bool:
    return state.status == "idle"


def growing(present: list[HistoryEvent], whole: list[HistoryEvent]) -> FakeClient:
    """Return a client of a server that has more of a history as soon as somebody follows it."""
    client = FakeClient(present, whole[len(present) :])
    client.present = present
    return client


def answers(one: Recording) -> None:
    one.task()
    one.answered("Second.", effect=3)


async def test_a_state_of_the_past_is_not_waited_for() -> None:
    result = await handle_on(FakeClient(completed().events)).wait(of_loop(thinks))
    assert (result.status, result.final_output) == ("completed", "Hi")


async def test_the_state_before_the_engine_ended_a_run_is_past() -> None:
    one = recording(keep_open=True)
    one.answered()
    one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, reason="spam")
    assert (await handle_on(FakeClient(one.events)).wait(of_loop(is_idle))).status == "terminated"


async def test_waiting_after_a_message_is_waiting_for_what_comes_of_it() -> None:
    one = recording(keep_open=True)
    one.answered("First.")
    assert (await handle_on(FakeClient(one.events)).wait(of_loop(is_idle))).final_output == "First."
    one.update("send", {"input": "More", "message_id": "m2"}, before=one.last)
    answers(one)
    assert (
        await handle_on(FakeClient(one.events)).wait(of_loop(is_idle))
    ).final_output == "Second."


WAITS: list[Callable[[RunHandle], Awaitable[RunResult]]] = [
    RunHandle.wait_for_people,
    lambda one: one.wait(lambda state: state.status == "waiting"),
]


def rejects_then_asks_again(one: Recording) -> None:
    one.signal("decide", {"request_id": "a1", "type": "reject"})
    one.task()
    asks_a_person(one, "c2", effect=3)


@pytest.mark.parametrize("wait", WAITS, ids=["people", "condition"])
async def test_what_has_reached_a_run_is_taken_in_before_its_state_counts(
    wait: Callable[[RunHandle], Awaitable[RunResult]],
) -> None:
    one = recording()
    asks_a_person(one)
    at = one.last + 1  # the decision is there, and the run still waits for it
    rejects_then_asks_again(one)
    result = await wait(handle_on(growing(one.events[:at], one.events)))
    assert [request.id for request in result.interruptions] == ["a2"]


@pytest.mark.parametrize("wait", WAITS, ids=["people", "condition"])
async def test_what_arrives_while_a_workflow_task_runs_is_taken_in_after_it(
    wait: Callable[[RunHandle], Awaitable[RunResult]],
) -> None:
    one = recording()
    asks_a_person(one)
    one.add(Kind.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED)
    begun = one.add(Kind.EVENT_TYPE_WORKFLOW_TASK_STARTED)
    at = one.last  # the server keeps the decision back until the task is complete
    one.complete(begun)
    rejects_then_asks_again(one)
    result = await wait(handle_on(growing(one.events[:at], one.events)))
    assert [request.id for request in result.interruptions] == ["a2"]


async def test_what_changes_nothing_ends_a_wait_when_it_is_taken_in() -> None:
    one = recording(keep_open=True)
    one.answered("First.")
    one.signal("somebody's own signal", {})
    present = list(one.events)
    one.task()
    result = await handle_on(growing(present, one.events)).wait(of_loop(is_idle))
    assert result.final_output == "First."


async def test_the_events_of_a_run_can_be_read_from_any_number_on() -> None:
    handle = handle_on(FakeClient(completed().events))

    async def events(*numbers: int) -> list[NumberedEvent]:
        read = handle.stream_events(*numbers)
        return [event async for event in read if event.type != "raw_response_event"]

    everything = await events()
    assert [event.id for event in everything] == list(range(len(everything)))
    for start in range(len(everything) + 2):
        assert await events(start) == everything[start:]


async def test_the_states_of_a_run_have_its_events_and_say_when_they_are_present() -> None:
    handle = handle_on(FakeClient(completed().events))
    streamed = [one async for one in handle.stream_states()]
    events = [event async for event in handle.stream_events()]
    assert [
        event
        for one in streamed
        for event in (one.events if isinstance(one, StreamedState) else [one])
    ] == events
    states = [one for one in streamed if isinstance(one, StreamedState)]
    assert [one.state for one in states] == [
        snapshot_of(step.state) async for step in progress_of(handle)
    ]
    assert [one.is_present for one in states] == [*[False] * (len(states) - 1), True]
    assert [one.model_call for one in states if one.model_call] == [2]


# --- Saying something more ------------------------------------------------------------------------------------


async def test_a_message_has_an_id_that_makes_it_one_message() -> None:
    client = FakeClient(recording().events)
    handle = handle_on(client)
    sent = await handle.send("More", message_id="m2")
    assert sent == SentMessage("m2", handle)
    payload = {"input": "More", "message_id": "m2"}
    assert client.calls == [("update", "send", payload, "m2")]
    other, another = await handle.send("x"), await handle.send("x")
    assert other.id != another.id
    assert "handle" not in repr(sent)


@pytest.mark.parametrize("given", [None, 5, ["x"]])
async def test_what_cannot_be_said_is_refused_here(given: Any) -> None:
    client = FakeClient(recording().events)
    with pytest.raises(UserError, match="string or a list of items"):
        await handle_on(client).send(given)
    assert client.calls == []


async def test_a_run_that_has_ended_takes_no_message() -> None:
    client = FakeClient(
        completed().events, status=ENDED, answer=refused(RPCStatusCode.NOT_FOUND, "completed")
    )
    with pytest.raises(RunClosed, match=r"The run support-42 has ended \(completed\)"):
        await handle_on(client).send("More")


async def test_a_message_that_the_run_refuses_raises_what_the_refusal_stands_for() -> None:
    refusal = WorkflowUpdateFailedError(ApplicationError("It has ended.", type="run_closed"))
    with pytest.raises(RunClosed, match="It has ended"):
        await handle_on(FakeClient(recording().events, answer=refusal)).send("More")


async def test_an_answer_is_the_one_to_the_message() -> None:
    one = recording(keep_open=True)
    one.answered("First.")
    one.update("send", {"input": "More", "message_id": "m2"}, before=one.last)
    begun, _ = one.task()
    assert begun
    one.answered("Second.", effect=3)
    handle = handle_on(FakeClient(one.events))
    assert (await handle.wait_for_answer("start")).final_output == "First."
    assert (await SentMessage("m2", handle).answer()).final_output == "Second."


async def test_a_question_that_could_not_be_answered_raises_why() -> None:
    one = recording(keep_open=True)
    one.failed_activity(2, application_failure("model_call_failed", "No key."))
    one.task()
    one.update("send", {"input": "More", "message_id": "m2"}, before=one.last)
    one.task()
    one.answered("Now.", effect=3)
    handle = handle_on(FakeClient(one.events))
    with pytest.raises(ModelCallFailed, match="No key"):
        await handle.wait_for_answer("start")
    assert (await handle.wait_for_answer("m2")).final_output == "Now."


async def test_the_end_of_a_run_is_no_answer_to_a_message_that_it_never_took_up() -> None:
    one = recording(keep_open=True)
    one.signal("cancel", {"mode": "after_turn"})
    one.update("send", {"input": "More", "message_id": "m2"}, before=one.last)
    one.task()
    one.answered("First.")
    handle = handle_on(FakeClient(closed(one).events))
    assert (await handle.state()).status == "completed"
    with pytest.raises(RunClosed, match="did not answer the message 'm2'") as caught:
        await handle.wait_for_answer("m2")
    assert [item.type for item in caught.value.run_data.new_items] == ["message_output_item"]


# --- Deciding -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "kind"), [("approve", "approved"), ("reject", "rejected")])
async def test_a_decision_says_who_made_it_and_for_which_arguments(verb: str, kind: str) -> None:
    client = FakeClient(answer={"request_id": "a1", "status": kind, "by": "ann"})
    await getattr(handle_on(client), verb)("a1", by="ann", args_digest="d")
    payload = {
        "request_id": "a1",
        "type": verb,
        "by": "ann",
        "channel": "client",
        "args_digest": "d",
    }
    assert client.calls[-1][:3] == ("update", "decide", payload)
    assert re.fullmatch(r"a1-[0-9a-f]{16}@run-1", client.calls[-1][3])


async def test_a_rejection_may_say_something_to_the_model() -> None:
    client = FakeClient(answer={"request_id": "a1", "status": "rejected", "by": None})
    await handle_on(client).reject("a1", message="Too much.")
    assert client.calls[-1][2]["message"] == "Too much."


async def test_a_decision_that_does_not_count_is_refused_in_the_runs_words() -> None:
    refusal = WorkflowUpdateFailedError(
        ApplicationError("The run has no approval 'a9'.", type="decision_refused")
    )
    with pytest.raises(DecisionRefused, match="The run has no approval 'a9'"):
        await handle_on(FakeClient(answer=refusal)).approve("a9")


async def test_an_update_that_failed_otherwise_is_not_hidden() -> None:
    refusal = WorkflowUpdateFailedError(TerminatedError("gone"))
    with pytest.raises(WorkflowUpdateFailedError):
        await handle_on(FakeClient(answer=refusal)).approve("a1")


def late(cause: BaseException | None) -> BaseException:
    error = WorkflowUpdateRPCTimeoutOrCancelledError()
    error.__cause__ = cause
    return error


@pytest.mark.usefixtures("short_updates")
async def test_an_update_that_no_worker_takes_in_time_is_said_in_words() -> None:
    class Hanging(FakeClient):
        async def answer(self, *call: Any) -> Any:
            await asyncio.Event().wait()

    with pytest.raises(
        ServerUnavailable, match=r"not accept it within 0\.05 s\. Is a worker running"
    ):
        await handle_on(Hanging()).send("More")


async def test_a_caller_that_is_cancelled_notices() -> None:
    """The SDK hides it in an error of its own, which would defeat `asyncio.timeout`."""
    client = FakeClient(answer=late(asyncio.CancelledError()))
    with pytest.raises(asyncio.CancelledError):
        await handle_on(client).send("More")


# --- Cancelling ---------------------------------------------------------------------------------------------


async def test_a_run_is_stopped_at_once_by_the_engines_own_means() -> None:
    client = FakeClient(recording().events)
    await handle_on(client).cancel()
    assert client.calls[-1] == ("cancel",)


async def test_a_way_to_stop_that_no_run_knows_is_refused() -> None:
    client = FakeClient(recording().events)
    with pytest.raises(UserError, match="must be 'immediate' or 'after_turn', not 'soon'"):
        await handle_on(client).cancel(cast("Any", "soon"))
    assert client.calls == []


async def test_a_workflow_of_another_kind_is_no_run() -> None:
    client = FakeClient(recording().events)
    client.workflow_type = "Invoicing"
    with pytest.raises(RunNotFound, match=r"is not a run of an agent, but .* type 'Invoicing'"):
        await handle_on(client).check()


async def test_a_run_is_stopped_after_its_turn_by_a_signal() -> None:
    client = FakeClient(recording().events)
    await handle_on(client).cancel("after_turn")
    assert client.calls == [("describe", None), ("signal", "cancel", {"mode": "after_turn"})]


async def test_a_run_that_has_ended_cannot_be_cancelled() -> None:
    client = FakeClient(completed().events, status=ENDED)
    with pytest.raises(RunClosed, match=r"has ended \(completed\)"):
        await handle_on(client).cancel()
    assert ("cancel",) not in client.calls
    client.answers = [refused(RPCStatusCode.NOT_FOUND)]
    with pytest.raises(RunClosed):
        await handle_on(client).cancel("after_turn")


# --- Nested runs, and reading along --------------------------------------------------------------------------


def asks_a_nested_agent(one: Recording) -> Recording:
    raw = {"type": "function_call", "call_id": "c1", "name": "ask", "arguments": "{}"}
    one.activity(2, {"items": [raw], "calls": [{"item": 0, "kind": "agent", "target": "Refunds"}]})
    one.task()
    return one


async def nested_id_of(one: Recording) -> str:
    (effect,) = (loop_state(await handle_on(FakeClient(one.events)).state())).pending
    return cast("Any", effect).nested_id


async def test_a_decision_finds_the_nested_run_that_it_is_about() -> None:
    one = asks_a_nested_agent(recording())
    nested = await nested_id_of(one)
    request = {
        "id": "e3.a1",
        "call_id": "n1",
        "name": "refund",
        "agent": "Refunds",
        "arguments": "{}",
        "args_digest": "d",
        "requested_at_ms": 1,
        "run_id": nested,
    }
    one.signal("nested", {"nested_id": nested, "requests": [request]})
    one.task()
    taken = {"status": "approved", "by": None}
    client, there = FakeClient(one.events, answer=taken), FakeClient(answer=taken)
    client.nested[nested] = there
    handle = handle_on(client)
    assert [one.id for one in (await handle.state()).pending_approvals] == ["e3.a1"]
    await handle.approve("e3.a1", always=True)
    assert there.calls[-1][2]["remember"] is True
    await handle.approve("e9.a1")
    assert client.calls[-1][3].startswith("e9.a1-"), (
        "what nobody asked is refused by the run itself"
    )


async def read(handle: RunHandle, read_range: ReadRange) -> list[RunSnapshot]:
    parts = [one async for one in handle.read_states(read_range)]
    return [one for one in parts if isinstance(one, RunSnapshot)]


async def test_reading_along_ends_where_a_person_is_needed() -> None:
    one = recording()
    asks_a_person(one)
    handle = handle_on(FakeClient(one.events))
    states = await read(handle, ReadRange())
    assert states[0] == RunSnapshot()
    assert states[-1] == await handle.state()


async def test_reading_along_does_not_stop_at_what_is_over() -> None:
    one = recording()
    asks_a_person(one)
    one.signal("decide", {"request_id": "a1", "type": "reject"})
    one.task()
    one.answered("Done.", effect=3)
    handle = handle_on(FakeClient(closed(one).events))
    state, place = await handle.present()
    assert (await read(handle, ReadRange(settles=place)))[-1] == state
    assert (await read(handle, ReadRange()))[-1].status == "waiting"


async def test_reading_on_begins_where_the_reader_was() -> None:
    one = recording()
    asks_a_person(one)
    client = FakeClient(one.events)
    handle = handle_on(client)
    before, place = await handle.present()
    one.signal("decide", {"request_id": "a1", "type": "reject"})
    one.task()
    one.answered("Done.", effect=3)
    client.runs["run-1"] = [closed(one).events]
    _, present = await handle.present()
    states = await read(handle, ReadRange(begins=place, settles=present))
    assert states[0] == before
    assert states[-1].status == "completed"
    result = await handle.wait_until_settled(present)
    assert result.final_output == "Done."


async def test_a_run_that_was_terminated_while_it_was_read_along_is_an_error() -> None:
    error = WorkflowFailureError(cause=TerminatedError("by ann"))
    handle = handle_on(FakeClient(recording().events, answer=error))
    with pytest.raises(RunTerminated, match="terminated: by ann"):
        await read(handle, ReadRange())


async def test_nobody_is_asked_for_a_run_that_was_terminated() -> None:
    one = recording()
    asks_a_person(one)
    handle = handle_on(FakeClient(one.events))
    assert [request.id for request in await handle.approvals()] == ["a1"]
    one.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED)
    assert await handle.approvals() == ()
    assert (await handle.state()).status == "terminated"
