"""Workers and the server are killed with SIGKILL while a schedule fires: each message comes once."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast import Agent
from outlast.client import RunHandle, Runner, connect
from outlast.client.schedules import Firing, Schedules, Times
from outlast.contract import names
from outlast.dev import EmbeddedServer, running_server
from outlast.edges.clock import now_ms
from outlast.testing import ScriptedModel
from outlast.worker import AgentWorker
from tests.crash.desk_worker import READY, DeskSettings, DeskWorker
from tests.servers import TemporalServer

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

KILLS = 5
CLERK = Agent[Any](name="Clerk", instructions="Take notes.")


async def serve_clerk(settings: DeskSettings, line: Connection) -> None:
    """Carry the runs of an agent that notes whatever it reads."""
    client = await connect(settings.address, "default")
    async with AgentWorker(
        client,
        agents=[CLERK],
        task_queue=settings.task_queue,
        model_provider=ScriptedModel(*["Noted."] * 1_000),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        line.send(READY)
        await asyncio.Event().wait()


def settings(address: str, folder: Path) -> DeskSettings:
    return DeskSettings(
        address=address,
        task_queue=f"schedules-{folder.name}",
        database=folder / "none.db",
        log=folder / "worker.log",
    )


async def test_a_worker_killed_while_messages_are_sent_sends_each_once(
    client: Client, server: TemporalServer, tmp_path: Path
) -> None:
    place = settings(server.address, tmp_path)
    schedules = Schedules(client, task_queue=place.task_queue)
    name, fired = f"every-{tmp_path.name}", dict[str, Firing]()

    async def look() -> None:
        fired.update({one.run_id: one for one in (await schedules.get(name)).recent})

    async def is_sending() -> bool:
        await look()
        return any(one.status == "open" for one in fired.values())

    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(DeskWorker(place, serve_clerk))
        handle = await Runner.start(
            "Clerk",
            "Hello",
            id=f"notes-{tmp_path.name}",
            keep_open=True,
            client=client,
            task_queue=place.task_queue,
        )
        each = Times(every=timedelta(seconds=1))
        await schedules.create(name, "Tick.", each, to=handle.id, overlap="allow_all")
        for round_ in range(KILLS):
            async with asyncio.timeout(60):
                while not (await is_sending() and len(fired) > round_):  # noqa: ASYNC110  as below
                    await asyncio.sleep(0.01)
            await worker.kill()
            assert worker.was_killed
            worker = await stack.enter_async_context(DeskWorker(place, serve_clerk))
        await schedules.pause(name)
        async with asyncio.timeout(120):
            while await is_sending():  # noqa: ASYNC110  other processes make it false
                await asyncio.sleep(0.1)
        await schedules.delete(name)
        async with asyncio.timeout(60):
            for message_id in fired:
                assert (await handle.wait_for_answer(message_id)).final_output == "Noted."
        answered = [one for answer in (await handle.state()).answers for one in answer.to]
        await handle.cancel("after_turn")
    assert len(fired) >= KILLS
    assert {one.status for one in fired.values()} == {"completed"}
    assert sorted(answered) == sorted(["start", *fired])


async def test_a_time_that_came_while_the_server_was_killed_is_made_up_for(tmp_path: Path) -> None:
    data_dir = tmp_path / "server"
    server = EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES
    )
    await server.start()
    port = int(server.address.rpartition(":")[2])
    place = replace(settings(server.address, tmp_path), task_queue="schedules")
    try:
        schedules = Schedules(await connect(server.address), task_queue=place.task_queue)
        at = datetime.fromtimestamp(now_ms() / 1000 + 3, UTC)
        made = await schedules.create("once", "Hello", Times(at=at), agent="Clerk", to="notes")
        os.kill(server.info.pid, signal.SIGKILL)
        while running_server(data_dir) is not None or now_ms() / 1000 < made.next[0].timestamp():  # noqa: ASYNC110  another process makes it true
            await asyncio.sleep(0.05)
        await server.stop()
        server = EmbeddedServer(data_dir=data_dir, port=port, ui_port=None)
        await server.start()
        async with DeskWorker(place, serve_clerk):
            client = await connect(server.address)
            schedules = Schedules(client)
            found = made
            async with asyncio.timeout(60):
                while not found.recent or found.recent[0].status == "open":
                    await asyncio.sleep(0.1)
                    found = await schedules.get("once")
            [firing] = found.recent
            assert (firing.at, firing.status, found.status) == (made.next[0], "completed", "done")
            answer = await RunHandle(client, "notes").wait_for_answer(firing.run_id)
            assert answer.final_output == "Noted."
    finally:
        await server.stop()
