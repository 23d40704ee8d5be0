"""Requests of nested runs: who asked, and how it stands when nobody waits any more."""

from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCStatusCode

from outlast.agents.errors import DecisionRefused, ServerUnavailable
from outlast.client.handle import RunHandle
from outlast.client.people.nested_requests import (
    find_request,
    request_in,
    run_of_request,
    state_of,
)
from outlast.loop.state import LoopState
from tests.unit.client.recorded import FakeClient, Kind, Recording, refused

PREFIX = {"support-42/ask-3": "e3.", "support-42/ask-3/inner-3": "e3.e3."}


def call(name: str, **plan: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    raw = {"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}
    return raw, {"item": 0, "kind": "agent", "target": "Inner", **plan}


def run(called: tuple[dict[str, Any], dict[str, Any]], run_id: str = "") -> Recording:
    """A run that has called something, and waits."""
    one = Recording()
    prefix = PREFIX.get(run_id)
    parent = {"run_id": "outer", "prefix": prefix} if prefix else None
    one.started({"agent": "A", "input": "Hello", **({"parent": parent} if parent else {})}, run_id)
    one.prepared()
    raw, plan = called
    one.activity(2, {"items": [raw], "calls": [plan]})
    one.task()
    return one


@pytest.fixture
def asking() -> Recording:
    """The innermost run, which has asked, was answered by ann, and goes on."""
    inner = run(call("refund", kind="tool", approval={}), "support-42/ask-3/inner-3")
    decision = {"request_id": "e3.e3.a1", "type": "reject", "by": "ann"}
    inner.update("decide", decision, before=inner.last)
    inner.task()
    return inner


@pytest.fixture
def client(asking: Recording) -> FakeClient:
    """A run, in it another, and in that the one that asked."""
    client = FakeClient(run(call("ask")).events)
    client.nested["support-42/ask-3"] = FakeClient(run(call("inner"), "support-42/ask-3").events)
    refusal = WorkflowUpdateFailedError(
        ApplicationError("Approval e3.e3.a1 is already rejected by ann.", type="decision_refused")
    )
    client.nested["support-42/ask-3/inner-3"] = FakeClient(asking.events, answer=refusal)
    return client


async def root_of(client: FakeClient) -> LoopState:
    state = await state_of("support-42", cast("Client", client))
    assert state is not None
    return state


async def test_a_run_that_goes_on_is_found_to_say_itself_what_was_decided(
    client: FakeClient,
) -> None:
    asker = await run_of_request("e3.e3.a1", await root_of(client), cast("Client", client))
    assert asker[:2] == ("support-42/ask-3/inner-3", None)
    handle = RunHandle(cast("Client", client), "support-42")
    with pytest.raises(DecisionRefused, match=r"e3\.e3\.a1 is already rejected by ann"):
        await handle.approve("e3.e3.a1", by="bob")


async def test_of_a_run_that_has_ended_it_is_read_what_was_decided(
    client: FakeClient, asking: Recording
) -> None:
    asking.answered("Not paid.", effect=3)
    asking.close(Kind.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
    handle = RunHandle(cast("Client", client), "support-42")
    with pytest.raises(DecisionRefused, match=r"e3\.e3\.a1 is already rejected by ann"):
        await handle.approve("e3.e3.a1", by="bob")
    again = await handle.reject("e3.e3.a1", by="ann")  # a repeated decision is the same one
    assert (again.run_id, again.status, again.by) == ("support-42/ask-3/inner-3", "rejected", "ann")
    with pytest.raises(DecisionRefused, match=r"e3\.e3\.a1 is already rejected by ann"):
        await handle.claim("e3.e3.a1", by="bob")
    assert {one[0] for one in client.nested["support-42/ask-3/inner-3"].calls} == {"describe"}


@pytest.mark.parametrize("request_id", ["e3.e3.a2", "e3.a1", "e9.a1", "e3.e9.a1"])
async def test_what_nobody_has_asked_is_for_the_run_itself_to_refuse(
    client: FakeClient, request_id: str
) -> None:
    asker = await run_of_request(request_id, await root_of(client), cast("Client", client))
    assert asker == ("", None, None)


class Failing(dict[str, Any]):
    def get(self, key: str, default: Any = None) -> Any:
        raise refused(RPCStatusCode.UNAVAILABLE)


async def test_a_run_that_cannot_be_read_is_not_taken_for_none() -> None:
    client = FakeClient()
    client.runs = Failing()
    with pytest.raises(ServerUnavailable):
        await state_of("support-42", cast("Client", client))
    assert await state_of("other", cast("Client", client)) is None


async def test_a_request_is_found_in_the_run_that_made_it(client: FakeClient) -> None:
    inner = await state_of("support-42/ask-3/inner-3", cast("Client", client))
    assert inner is not None
    request = request_in(inner, "e3.e3.a1")
    assert request is not None
    assert request.status == "rejected"
    assert request_in(inner, "a1") is None


async def test_a_request_is_found_by_its_id_wherever_it_was_made(client: FakeClient) -> None:
    root = await root_of(client)
    found = await find_request("e3.e3.a1", root, cast("Client", client))
    assert found is not None
    assert (found.request.run_id, found.state.run_id) == ("support-42/ask-3/inner-3",) * 2
    assert found.request.status == "rejected"
    inner = await find_request("e3.e3.a1", found.state, cast("Client", client))
    assert inner is not None
    assert inner.request.run_id == ""
    for request_id in ("e3.e3.a2", "e9.a1", "a1", ""):
        assert await find_request(request_id, root, cast("Client", client)) is None
