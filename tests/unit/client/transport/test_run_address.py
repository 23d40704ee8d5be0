"""Sending something to a run, also when it meets a bad moment."""

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.service import RPCStatusCode

from outlast.agents.errors import AgentsException, RunClosed, RunNotFound, ServerUnavailable
from outlast.client.transport import outages, run_address
from outlast.client.transport.run_address import RunAddress
from tests.unit.client.recorded import FakeClient, Recording, refused

BUSY = refused(RPCStatusCode.FAILED_PRECONDITION, "the workflow task is repeated")
GONE = refused(RPCStatusCode.NOT_FOUND, "no such workflow")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "WAITS_SECONDS", (0,))
    monkeypatch.setattr(run_address, "PATIENCE_WITH_FULL", timedelta(0))


def address(client: FakeClient) -> RunAddress:
    return RunAddress(cast("Client", client), "support-42", timedelta(0))


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


@pytest.mark.parametrize(
    "refusal",
    [
        refused(RPCStatusCode.RESOURCE_EXHAUSTED, "limit on concurrent in-flight updates (10)"),
        refused(RPCStatusCode.UNAVAILABLE, "transport error"),
        refused(RPCStatusCode.UNKNOWN, "transport error"),
        WorkflowUpdateRPCTimeoutOrCancelledError(),
    ],
)
async def test_a_server_that_is_busy_or_away_is_asked_again(refusal: Exception) -> None:
    if isinstance(refusal, WorkflowUpdateRPCTimeoutOrCancelledError):
        refusal.__cause__ = refused(RPCStatusCode.DEADLINE_EXCEEDED)
    client = open_run(refusal, refusal, {"taken": True})
    assert await address(client).update("send", {}, "m1") == {"taken": True}
    assert len(updates(client)) == 3


@pytest.mark.usefixtures("short_updates")
async def test_an_update_is_not_tried_for_ever() -> None:
    with pytest.raises(
        ServerUnavailable, match=r"within 0\.05 s\. The server's last error: the wo"
    ):
        await address(open_run(BUSY)).update("send", {}, "m1")


async def test_a_history_that_takes_no_more_updates_is_named() -> None:
    full = refused(
        RPCStatusCode.FAILED_PRECONDITION,
        "The limit on the total number of distinct updates in this workflow has been reached (2000).",
    )
    with pytest.raises(AgentsException, match="limit of messages and decisions") as raised:
        await address(open_run(full)).update("send", {}, "m1")
    assert not isinstance(raised.value, ServerUnavailable)


async def test_what_is_larger_than_a_server_takes_is_not_tried_again() -> None:
    large = refused(
        RPCStatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (5 vs. 4)"
    )
    client = open_run(large)
    with pytest.raises(AgentsException, match="larger than max"):
        await address(client).update("send", {}, "m1")
    assert len(updates(client)) == 1


async def test_updates_of_one_sender_are_taken_in_their_order() -> None:
    client = open_run(BUSY, BUSY, {"taken": True})
    one = address(client)
    await asyncio.gather(*(one.update("send", {}, f"m{number}") for number in range(5)))
    taken = [call[3] for call in updates(client)]
    assert taken == ["m0", "m0", "m0", "m1", "m2", "m3", "m4"]


async def test_a_caller_that_is_cancelled_notices() -> None:
    interrupted = WorkflowUpdateRPCTimeoutOrCancelledError()
    interrupted.__cause__ = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await address(open_run(interrupted)).update("send", {}, "m1")


async def test_a_run_that_has_ended_takes_nothing() -> None:
    client = FakeClient(Recording().events, status=WorkflowExecutionStatus.TERMINATED, answer=GONE)
    with pytest.raises(RunClosed, match=r"has ended \(terminated\)"):
        await address(client).update("send", {}, "m1")
    assert len(updates(client)) == 1


async def test_a_run_that_never_was_takes_nothing() -> None:
    with pytest.raises(RunNotFound, match="no run 'support-42'"):
        await address(FakeClient(answer=GONE)).update("send", {}, "m1")
