"""What a program is told that waits for a run which nobody carries."""

import asyncio
import logging
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import ServerUnavailable
from outlast.agents.registry import Registry
from outlast.agents.run_objects import RunKey, RunObjects, RunObjectTable
from outlast.client.handle import RunHandle
from outlast.client.start import missing_worker
from outlast.client.start.missing_worker import warned_without_worker
from outlast.client.transport.pollers import LONGEST_POLL, pollers
from outlast.loop.state import Blocked, LoopState
from outlast.views.run import snapshot_of

WARNING = "no worker has polled the task queue 'suport'"


class Server:
    """A server with one run, which says who has asked for work on its queue.

    Also a handle on the run.
    """

    namespace = "default"
    id = "support-42"

    def __init__(self, *seconds_ago: float, closed: bool = False, lacks: str = "") -> None:
        self.client = self.workflow_service = self
        self.asked = asyncio.Event()
        self.error: Exception | None = None
        self._seconds_ago = seconds_ago
        self._closed = closed
        self._blocked = (Blocked(effect=1, at_ms=0, lacks=lacks),) if lacks else ()

    async def check(self) -> Any:
        self.asked.set()
        if self.error is not None:
            raise self.error
        info = SimpleNamespace(first_run_id="first")
        return SimpleNamespace(
            task_queue="suport",
            close_time="then" if self._closed else None,
            raw_description=SimpleNamespace(workflow_execution_info=info),
        )

    async def state(self) -> Any:
        return snapshot_of(LoopState(blocked=self._blocked))

    async def describe_task_queue(self, request: Any) -> Any:
        assert (request.task_queue.name, request.namespace) == ("suport", "default")
        seen = [SimpleNamespace(seconds=time.time() - ago) for ago in self._seconds_ago]
        return SimpleNamespace(
            pollers=[SimpleNamespace(identity="w", last_access_time=one) for one in seen]
        )


async def warned(server: Server, caplog: pytest.LogCaptureFixture) -> bool:
    """Wait for a run for as long as it takes to look, and say whether there was a warning."""
    async with warned_without_worker(cast("RunHandle", server)):
        await asyncio.wait_for(server.asked.wait(), 5)
        for _ in range(5):
            await asyncio.sleep(0)
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    return WARNING in caplog.text


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_worker, "WARN_AFTER", timedelta(0))


async def test_a_run_on_a_queue_that_nobody_asks_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await warned(Server(), caplog)
    assert "AgentWorker(client, agents=[...], task_queue='suport')" in caplog.text


async def test_a_worker_that_died_long_ago_does_not_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert await warned(Server(LONGEST_POLL.total_seconds() + 10), caplog)


@pytest.mark.parametrize("server", [Server(1), Server(100, 3), Server(closed=True)])
async def test_a_run_that_is_carried_or_has_ended_is_not_warned_of(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    assert not await warned(server, caplog)


async def test_a_run_whose_workers_lack_what_it_needs_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert not await warned(Server(1, lacks="Start the run again.\x1b[2J"), caplog)
    (line,) = caplog.messages
    assert line.startswith("The run support-42 waits for a worker: Start the run again.")
    assert "\x1b" not in line


async def test_a_program_that_hosts_the_run_with_its_agents_says_nothing_of_an_earlier_wait(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = RunObjectTable()
    table.bring(RunKey("default", "first"), RunObjects(definitions=Registry()))
    monkeypatch.setattr(missing_worker, "RUN_OBJECTS", table)
    assert not await warned(Server(1, lacks="It has not the agents of this run."), caplog)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "error",
    [RPCError("gone", RPCStatusCode.UNAVAILABLE, b""), ServerUnavailable("Nobody answers.")],
)
async def test_a_server_that_does_not_tell_is_left_alone(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    server = Server()
    server.error = error
    assert not await warned(server, caplog)
    assert caplog.messages == []


async def test_a_short_wait_asks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_worker, "WARN_AFTER", timedelta(seconds=30))
    server = Server()
    async with warned_without_worker(cast("RunHandle", server)):
        await asyncio.sleep(0)
    assert not server.asked.is_set()


async def test_who_waits_is_known_by_identity() -> None:
    assert await pollers(cast("Client", Server(1, 100)), "suport") == ["w"]
