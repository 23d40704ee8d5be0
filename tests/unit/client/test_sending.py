"""Sending something to a run, also when it meets a bad moment."""

from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCStatusCode

from outlast.agents.errors import RunClosed, RunNotFound, ServerUnavailable
from outlast.client import sending
from outlast.client.sending import RunAddress
from tests.unit.client.recorded import FakeClient, Recording, refused

BUSY = refused(RPCStatusCode.FAILED_PRECONDITION, "the workflow task is repeated")
GONE = refused(RPCStatusCode.NOT_FOUND, "no such workflow")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "UPDATE_WAITS_SECONDS", (0, 0, 0))


def address(client: FakeClient) -> RunAddress:
    return RunAddress(cast("Client", client), "support-42")


def open_run(*answers: Any) -> FakeClient:
    client = FakeClient(Recording().events)
    client.answers = list(answers)
    return client


def updates(client: FakeClient) -> list[Any]:
    return [call for call in client.calls if call[0] == "update"]


async def test_an_update_that_meets_a_bad_moment_is_tried_again_as_the_same_one() -> None:
    client = open_run(BUSY, BUSY, {"taken": True})
    assert await address(client).update("send", {"x": 1}, "m1") == {"taken": True}
    assert updates(client) == [("update", "send", {"x": 1}, "m1")] * 3


async def test_a_run_that_goes_on_in_a_new_history_is_not_gone() -> None:
    client = open_run(GONE, {"taken": True})
    assert await address(client).update("send", {}, "m1") == {"taken": True}


async def test_an_update_is_not_tried_for_ever() -> None:
    with pytest.raises(ServerUnavailable, match="many times over"):
        await address(open_run(BUSY)).update("send", {}, "m1")


async def test_a_run_that_has_ended_takes_nothing() -> None:
    client = FakeClient(Recording().events, status=WorkflowExecutionStatus.TERMINATED, answer=GONE)
    with pytest.raises(RunClosed, match=r"has ended \(terminated\)"):
        await address(client).update("send", {}, "m1")
    assert len(updates(client)) == 1


async def test_a_run_that_never_was_takes_nothing() -> None:
    with pytest.raises(RunNotFound, match="no run 'support-42'"):
        await address(FakeClient(answer=GONE)).update("send", {}, "m1")
