"""Going on with a run that waited: what is sent, in which order, and how often."""

from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCStatusCode

from outlast.agents.errors import DecisionRefused, RunClosed, RunNotFound, UserError
from outlast.client.handle import RunHandle
from outlast.client.results.run_result import result_of
from outlast.client.results.run_state import RunState
from outlast.client.start.resumption import resume
from outlast.views.run import loop_state
from tests.laws.driver import Play, gated
from tests.unit.client.recorded import FakeClient, Kind, Recording, refused


def call(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def waiting(*names: str, **fields: Any) -> Recording:
    """A run that waits for decisions about these calls."""
    one = Recording()
    one.asked(**fields)
    one.prepared()
    calls = [call(name, f"c{at}") for at, name in enumerate(names, start=1)]
    plans: list[dict[str, Any]] = [
        {"item": at, "kind": "tool", "approval": {}} for at in range(len(calls))
    ]
    one.activity(2, {"items": calls, "calls": plans})
    one.task()
    return one


class Deciding(FakeClient):
    """A server whose runs take every decision."""

    async def answer(self, *call: Any) -> Any:
        self.note(*call)
        if call[:2] == ("update", "decide"):
            decided = {"approve": "approved", "reject": "rejected"}[call[2]["type"]]
            return {"request_id": call[3], "status": decided, "by": None}
        return {}

    @property
    def sent(self) -> list[tuple[str, Any]]:
        return [
            (call[1], call[2].get("request_id", call[2].get("input")))
            for call in self.calls
            if call[0] == "update"
        ]


async def open_state(client: FakeClient) -> tuple[RunHandle, RunState]:
    handle = RunHandle(cast("Client", client), "support-42")
    state = await handle.state()
    return handle, result_of(loop_state(state), client=client).to_state()


async def test_what_is_said_is_sent_before_what_lets_the_run_go_on() -> None:
    client = Deciding(waiting("refund", "ban").events)
    handle, state = await open_state(client)
    refund, ban = state.get_interruptions()
    state.approve(refund, always_approve=True)
    state.reject(ban, rejection_message="No.")
    state.add_input("And by card?")
    read_range = await resume(handle, state)
    assert client.sent == [("send", "And by card?"), ("decide", "a2"), ("decide", "a1")]
    assert state.pending_input == []
    decisions = [call[2] for call in client.calls if call[:2] == ("update", "decide")]
    assert (decisions[0]["message"], decisions[1]["remember"]) == ("No.", True)
    assert read_range.without == {("", "a1"), ("", "a2")}
    assert read_range.begins is not None
    assert read_range.begins[1] > 0


async def test_nothing_decided_is_nothing_sent() -> None:
    client = Deciding(waiting("refund").events)
    handle, state = await open_state(client)
    read_range = await resume(handle, state)
    assert client.sent == []
    assert read_range.begins == read_range.settles


async def test_what_the_run_has_already_is_not_sent_again() -> None:
    one = waiting("refund")
    client = Deciding(one.events)
    handle, state = await open_state(client)
    state.approve(state.get_interruptions()[0])
    state.add_input("And by card?")
    (said,) = state.staged_input()
    payload = {"input": said.input, "message_id": said.message_id}
    one.update("send", payload, before=one.last)
    one.update("decide", {"request_id": "a1", "type": "approve"}, before=one.last - 1)
    one.task()
    await resume(handle, state)
    assert client.sent == []


async def test_another_decision_that_was_made_meanwhile_is_not_overruled() -> None:
    one = waiting("refund")
    client = Deciding(one.events)
    handle, state = await open_state(client)
    state.approve(state.get_interruptions()[0])
    one.signal("decide", {"request_id": "a1", "type": "reject"})
    one.task()
    with pytest.raises(DecisionRefused, match="a1 is already rejected"):
        await resume(handle, state)
    assert client.sent == []


async def test_a_run_in_memory_is_on_no_server() -> None:
    play = Play.ready()
    play.replies(gated("refund", "c1"))
    handle = RunHandle(cast("Client", FakeClient()), "support-42")
    with pytest.raises(UserError, match=r"run_in_memory\(agent, state"):
        await resume(handle, result_of(play.state).to_state())


async def test_the_context_of_a_run_cannot_be_replaced() -> None:
    client = Deciding(waiting("refund", context={"name": "Ann"}).events)
    handle, state = await open_state(client)
    await resume(handle, state, context={"name": "Ann"})
    with pytest.raises(UserError, match="already has its context"):
        await resume(handle, state, context={"name": "Bob"})


async def test_a_run_that_is_gone_cannot_go_on() -> None:
    client = Deciding(waiting("refund").events)
    handle, state = await open_state(client)
    client.runs.clear()
    with pytest.raises(RunNotFound):
        await resume(handle, state)


async def test_a_run_that_was_cancelled_says_how_to_go_on() -> None:
    run = waiting("refund")
    client = Deciding(run.events)
    handle, state = await open_state(client)
    run.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED)
    with pytest.raises(RunClosed, match=r"was cancelled .* result\.to_input_list"):
        await resume(handle, state)
    assert client.sent == []


class Nested(Deciding):
    """A run whose nested run was decided about, and has ended, since it was looked at."""

    def __init__(self, *, decided: bool = True, root_has_ended: bool = False) -> None:
        root = waiting("refund")
        super().__init__(root.events)
        self.root, self.root_has_ended, self.decided = root, root_has_ended, decided
        closed = refused(RPCStatusCode.NOT_FOUND, "completed")
        done = WorkflowExecutionStatus.COMPLETED
        self.nested["inner"] = FakeClient(self.inner().events, status=done, answer=closed)

    def inner(self) -> Recording:
        inner = waiting("refund")
        if self.decided:
            inner.update("decide", {"request_id": "a1", "type": "approve"}, before=inner.last)
            inner.task()
        inner.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
        return inner

    async def decide(self, kind: str) -> Any:
        handle, state = await open_state(self)
        data = state.to_json()
        data["waiting"][0]["request"]["run_id"] = "inner"
        state = await RunState.from_json("Triage", data)
        (item,) = state.get_interruptions()
        (state.approve if kind == "approve" else state.reject)(item)
        if self.root_has_ended:
            self.root.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
        return await resume(handle, state)


@pytest.mark.parametrize("root_has_ended", [False, True])
async def test_a_nested_run_that_has_ended_was_decided_about_before(root_has_ended: bool) -> None:
    read_range = await Nested(root_has_ended=root_has_ended).decide("approve")
    assert read_range.without == {("inner", "a1")}
    with pytest.raises(DecisionRefused, match="Approval a1 is already approved"):
        await Nested(root_has_ended=root_has_ended).decide("reject")


async def test_a_nested_run_that_is_gone_or_ended_undecided_is_waited_for_no_more() -> None:
    read_range = await Nested(decided=False).decide("reject")
    assert read_range.without == {("inner", "a1")}
    gone = Nested(root_has_ended=True)
    gone.nested.clear()
    read_range = await gone.decide("reject")
    assert read_range.without == {("inner", "a1")}
