"""Attempts that began too late, and the way to the engine's core."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.activity import Info
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from outlast.activities.heartbeats import engine_heartbeat
from outlast.activities.heartbeats.engine_heartbeat import Clocks, began_in_time

TIMEOUT = timedelta(seconds=10)


class Server:
    """Answers a heartbeat, or refuses."""

    identity = "me"

    def __init__(self, error: RPCStatusCode | None = None) -> None:
        self.clocks = Clocks()
        self.error = error
        self.asked = 0

    @property
    def workflow_service(self) -> "Server":
        return self

    async def record_activity_task_heartbeat(self, request: Any, *, timeout: timedelta) -> None:  # noqa: ASYNC109  the SDK's
        assert (request.task_token, timeout) == (b"test", engine_heartbeat.ASKING)
        self.asked += 1
        if self.error is not None:
            raise RPCError("refused", self.error, b"")


def info(waited: float, **fields: Any) -> Info:
    started = datetime.fromtimestamp(time.time() - waited, UTC)
    default = ActivityEnvironment().info
    return replace(default, heartbeat_timeout=TIMEOUT, started_time=started, **fields)


async def in_time(server: Server, one: Info) -> bool:
    environment = ActivityEnvironment(client=server)  # type: ignore[arg-type]  all that is needed
    environment.info = one
    return await environment.run(began_in_time, one, server.clocks)


async def test_who_begins_at_once_asks_nobody() -> None:
    server = Server()
    assert await in_time(server, info(0.1))
    assert await in_time(server, ActivityEnvironment().info), "no time is there"
    assert server.asked == 0


@pytest.mark.parametrize(
    ("error", "waited", "expected"),
    [
        (None, 6, True),
        (RPCStatusCode.NOT_FOUND, 6, False),
        (RPCStatusCode.UNAVAILABLE, 6, True),
        (RPCStatusCode.UNAVAILABLE, 11, False),
    ],
)
async def test_who_begins_late_asks_whether_it_is_waited_for(
    error: RPCStatusCode | None, waited: float, *, expected: bool
) -> None:
    server = Server(error)
    assert await in_time(server, info(waited)) is expected
    assert server.asked == 1


@pytest.mark.parametrize(("waited", "expected"), [(4.9, True), (5.1, False)])
async def test_a_local_attempt_whose_time_is_up_does_not_begin(
    waited: float, *, expected: bool
) -> None:
    local = info(waited, is_local=True, start_to_close_timeout=timedelta(seconds=5))
    assert await in_time(Server(), local) is expected


async def test_clocks_that_differ_cost_a_few_questions() -> None:
    server = Server()
    for _ in range(20):
        assert await in_time(server, info(60))
    assert server.asked == 5
    assert await in_time(server, info(66))
    assert server.asked == 6, "this one has waited for six seconds"


async def test_a_server_whose_clock_is_ahead_is_allowed_for() -> None:
    server = Server()
    assert await in_time(server, info(-60))
    assert await in_time(server, info(-54))
    assert server.asked == 1
