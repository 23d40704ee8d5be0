"""Worker and server are killed with SIGKILL in mid-answer, and every reader has the text once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.contract import names
from outlast.dev import EmbeddedServer
from outlast.serve.cursor import Cursor
from outlast.serve.feed import Ended, Feed
from tests.crash.desk_worker import READY, DeskSettings, DeskWorker
from tests.servers import kill_and_start_again
from tests.workflow.desk import QUICK
from tests.workflow.test_feeds import events, take_all, take_pieces, texts
from tests.workflow.test_streams import WORDS

QUEUE = "writers"
WRITER = Agent[Any](name="Writer")


async def serve_writer(settings: DeskSettings, line: Connection) -> None:
    """Carry runs whose model writes slowly."""
    from outlast.testing import ScriptedModel, paced
    from outlast.worker import AgentWorker

    client = await Client.connect(settings.address)
    model = ScriptedModel(*[paced(0.2, WORDS)] * 9)
    async with AgentWorker(
        client, agents=[WRITER], task_queue=settings.task_queue, model_provider=model
    ):
        line.send(READY)
        await asyncio.Event().wait()


@asynccontextmanager
async def writer(address: str, folder: Path) -> AsyncGenerator[DeskWorker]:
    """A process that carries the runs."""
    settings = DeskSettings(
        address=address,
        task_queue=QUEUE,
        database=folder / "shop.db",
        log=folder / "worker.log",
    )
    async with DeskWorker(settings, serve_writer) as worker:
        yield worker


@pytest.mark.full
@pytest.mark.timeout(120)
async def test_whatever_is_killed_in_mid_answer_every_reader_has_the_text_once(tmp_path: Path):
    data_dir = tmp_path / "server"
    server = EmbeddedServer(
        data_dir=data_dir, ui_port=None, search_attributes=names.SEARCH_ATTRIBUTES
    )
    await server.start()
    client = await Client.connect(server.address)

    def source(run_id: str) -> Any:
        return RunHandle(client, run_id).stream_states()

    try:
        async with Feed(source) as one, Feed(source) as other:
            await Runner.start(
                WRITER, "Hi", client=client, task_queue=QUEUE, id="r", stream=True, run_config=QUICK
            )
            stays = asyncio.create_task(take_all(one, "r", Cursor()))
            async with other.reader("r", Cursor()) as first:
                async with writer(server.address, tmp_path) as worker:
                    goes = await take_pieces(first, 3)
                    await worker.kill()
                    assert worker.was_killed
                async with writer(server.address, tmp_path):
                    goes += await take_pieces(first, 3)
                    server = await kill_and_start_again(server, data_dir)
                    await other.close()
                    goes += [entry async for entry in first]
                    goes += await take_all(other, "r", goes[-1].cursor)
                    stayed = await stays
    finally:
        await server.stop()
    assert texts(goes) == texts(stayed) == [WORDS]
    assert stayed[-1] == goes[-1] == Ended(stayed[-1].cursor, "completed")
    assert [one.id for one in events(stayed)] == list(range(stayed[-1].cursor.event))
