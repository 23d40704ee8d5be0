"""A worker that stands still or is killed: whoever looks at a run learns it in time."""

import asyncio
import os
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.client.start.runner import Runner
from tests.crash.desk_worker import READY, DeskSettings, DeskWorker
from tests.servers import TemporalServer
from tests.workflow.test_trouble_live import LIVE_SECONDS, desk_of, kinds, streams

HELPER = Agent[Any](name="Helper")
LISTED_SECONDS = 75.0
"""How long the server may list a worker that was killed, and then somebody has to learn it."""


async def serve_helper(settings: DeskSettings, line: Connection) -> None:
    """Carry runs that are answered at once."""
    from outlast.testing import ScriptedModel, say
    from outlast.worker import AgentWorker

    client = await Client.connect(settings.address)
    model = ScriptedModel(always=lambda _: say("Hello."))
    async with AgentWorker(
        client, agents=[HELPER], task_queue=settings.task_queue, model_provider=model
    ):
        line.send(READY)
        await asyncio.Event().wait()


@pytest.mark.full
@pytest.mark.timeout(240)
async def test_a_worker_that_stops_or_is_killed_is_seen_on_open_pages(
    client: Client, server: TemporalServer, tmp_path: Path
) -> None:
    queue = f"stopped-{os.getpid()}"
    settings = DeskSettings(
        address=server.address,
        task_queue=queue,
        database=tmp_path / "shop.db",
        log=tmp_path / "worker.log",
    )
    options: dict[str, Any] = {"client": client, "task_queue": queue, "keep_open": True}
    async with DeskWorker(settings, serve_helper) as worker, desk_of(client) as http:
        os.kill(worker.pid, signal.SIGSTOP)
        stopped = await Runner.start(HELPER, "Is somebody there?", id=f"{queue}-1", **options)
        async with streams(http, stopped.id) as open_pages:
            await open_pages["page"].says(lambda one: "has taken the first message" in one)
            page = (await http.get(f"/conversations/{stopped.id}")).text
            assert "has taken the first message" in page
            assert "Is somebody there?" in page
            back = asyncio.create_task(
                open_pages["api"].says(lambda one: kinds(one) == [], LISTED_SECONDS)
            )
            await asyncio.sleep(0)
            os.kill(worker.pid, signal.SIGCONT)
            await stopped.wait(lambda state: state.status == "idle")
            async with asyncio.timeout(LIVE_SECONDS):
                await back
        await worker.kill()
        killed_at = time.monotonic()
        killed = await Runner.start(HELPER, "And now?", id=f"{queue}-2", **options)
        async with streams(http, killed.id) as open_pages:
            await open_pages["page"].says(lambda one: "has taken the first message" in one)
            left = LISTED_SECONDS + LIVE_SECONDS - (time.monotonic() - killed_at)
            await open_pages["api"].says(lambda one: "no_worker" in (kinds(one) or ()), left)
