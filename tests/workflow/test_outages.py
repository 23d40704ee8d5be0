"""Busy runs and servers that are restarted: nothing sent is lost, and whoever waits goes on waiting."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.errors import ServerUnavailable
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.client.transport import outages
from outlast.contract import names
from outlast.dev import EmbeddedServer, running_server
from outlast.local.engine import LocalEngine
from outlast.loop.state import LoopState
from outlast.testing import ScriptedModel, call, say
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.workflow.desk import PATIENCE_SECONDS, Desk

HELPER = Agent[Any](name="Helper")
WAITERS = 12


def messages(state: LoopState) -> list[str]:
    """Return the ids of the messages that a run was sent, in its order."""
    queued = [message.id for message in state.inbox]
    answered = [one for answer in state.answers for one in answer.to]
    return [*answered, *state.question.answering, *queued]


@pytest.mark.parametrize(
    "down",
    [False, pytest.param(True, marks=pytest.mark.full)],
    ids=["at once", "with the worker down for 10 s"],
)
async def test_fifty_messages_at_once_all_arrive_each_senders_in_order(desk: Desk, *, down: bool):
    model = ScriptedModel(always=lambda _: say("Yes."))
    worker = await desk.open(HELPER, model=model)
    handle = await desk.start(HELPER, keep_open=True)
    await desk.until_status(handle, "idle")
    if down:
        await desk.close(worker)

    async def send(sender: int) -> None:
        one = RunHandle(desk.client, handle.id)  # as in a process of its own
        for number in range(2):
            await one.send(f"{sender}", message_id=f"s{sender}-{number}")

    async def send_together() -> None:
        one = RunHandle(desk.client, handle.id)
        await asyncio.gather(*(one.send("x", message_id=f"t{number}") for number in range(10)))

    sending = [asyncio.create_task(send(sender)) for sender in range(20)]
    sending.append(asyncio.create_task(send_together()))
    if down:
        await asyncio.sleep(10)
        await desk.open(HELPER, model=model)
    async with asyncio.timeout(PATIENCE_SECONDS * 2):
        await asyncio.gather(*sending)
    state = await desk.until(
        handle, lambda state: state.status == "idle" and len(messages(state)) > 50
    )
    arrived = [one for one in messages(state) if one != "start"]
    assert len(arrived) == len(set(arrived)) == 50
    for sender in range(20):
        assert arrived.index(f"s{sender}-0") < arrived.index(f"s{sender}-1")
    assert [one for one in arrived if one[0] == "t"] == [f"t{number}" for number in range(10)]


@dataclass
class Restarting:
    """A server that tests kill, and start again on the same port and database."""

    server: EmbeddedServer
    data_dir: Path

    async def restart(self, *, away_seconds: float) -> None:
        port = int(self.server.address.rpartition(":")[2])
        os.kill(self.server.info.pid, signal.SIGKILL)
        while running_server(self.data_dir) is not None:  # noqa: ASYNC110  another process makes it true
            await asyncio.sleep(0.02)
        await self.server.stop()
        await asyncio.sleep(away_seconds)
        self.server = EmbeddedServer(data_dir=self.data_dir, port=port, ui_port=None)
        await self.server.start()


@asynccontextmanager
async def own_server(data_dir: Path) -> AsyncGenerator[Restarting]:
    attributes = names.SEARCH_ATTRIBUTES
    server = EmbeddedServer(data_dir=data_dir, ui_port=None, search_attributes=attributes)
    await server.start()
    one = Restarting(server, data_dir)
    try:
        yield one
    finally:
        await one.server.stop()


def waiters(client: Client, handle: RunHandle) -> list[Callable[[], Coroutine[Any, Any, Any]]]:
    """Return all the ways to wait for the run `handle`."""

    async def events() -> Any:
        return [event async for event in handle.stream_events()][-1]

    async def attached() -> Any:
        return await (await Runner.attach(handle.id, client=client)).result()

    async def streamed() -> Any:
        result = Runner.run_streamed("Clerk", "Hello", id=handle.id, client=client, task_queue="q")
        async for _ in result.stream_events():
            pass
        return result.final_output

    return [
        handle.result,
        events,
        attached,
        streamed,
        lambda: handle.wait(lambda state: loop_state(state).phase == "closed"),
        lambda: handle.wait_for_answer("start"),
        lambda: Runner.run("Clerk", "Hello", id=handle.id, client=client, task_queue="q"),
    ]


@pytest.mark.full
async def test_whoever_waits_outlasts_a_restart_of_the_server(tmp_path: Path):
    go_on = asyncio.Event()

    @function_tool(timeout=300)
    async def look_up() -> str:
        await go_on.wait()
        return "found"

    agent = Agent[Any](name="Clerk", tools=[look_up])

    def answer(request: Any) -> Any:
        asked = any(item.get("type") == "function_call_output" for item in request.input)
        return say("Done.") if asked else [call("look_up", "c1")]

    model = ScriptedModel(always=answer)
    async with own_server(tmp_path / "server") as restarting:
        client = await Client.connect(restarting.server.address)
        async with AgentWorker(client, agents=[agent], task_queue="q", model_provider=model):
            handle = await Runner.start("Clerk", "Hello", id="r", client=client, task_queue="q")
            await handle.wait(lambda state: bool(loop_state(state).calls))
            kinds = waiters(client, handle)
            waiting = [asyncio.create_task(one()) for one in (kinds * 2)[:WAITERS]]
            await asyncio.sleep(1)
            await restarting.restart(away_seconds=12)
            assert not [task for task in waiting if task.done()]
            go_on.set()
            async with asyncio.timeout(PATIENCE_SECONDS * 2):
                results = await asyncio.gather(*waiting)
            assert len(results) == WAITERS


@pytest.mark.full
async def test_whoever_has_no_patience_learns_that_the_server_is_away(tmp_path: Path):
    async with own_server(tmp_path / "server") as restarting:
        client = await Client.connect(restarting.server.address)
        handle = await Runner.start("Clerk", "Hello", id="r", client=client, task_queue="q")
        hasty = RunHandle(client, handle.id, patience=timedelta(seconds=1))
        calls: list[Coroutine[Any, Any, Any]] = [
            hasty.result(),
            hasty.wait_for_people(),
            hasty.send("More"),
        ]
        waiting = [asyncio.create_task(one) for one in calls]
        await asyncio.sleep(1)
        began = time.monotonic()
        os.kill(restarting.server.info.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_SECONDS):
            results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in results] == [ServerUnavailable] * 3, results
        assert time.monotonic() - began < 50


@pytest.mark.full
async def test_a_program_says_that_its_server_is_frozen_and_goes_on_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(outages, "QUIET_SECONDS", 0.5)
    monkeypatch.setattr(outages, "PING_SECONDS", 1.0)
    monkeypatch.setattr(outages, "SILENT_SECONDS", 0.5)
    monkeypatch.setenv("OUTLAST_PATIENCE_SECONDS", "3")
    monkeypatch.setenv("OUTLAST_DATA_DIR", str(tmp_path / "data"))
    to_freeze: list[int] = []

    @function_tool
    async def look_up() -> str:
        while to_freeze:
            os.kill(to_freeze.pop(), signal.SIGSTOP)
        return "found"

    def answer(request: Any) -> Any:
        asked = any(item.get("type") == "function_call_output" for item in request.input)
        return say("Done.") if asked else [call("look_up", "c1")]

    agent = Agent[Any](name="Clerk", tools=[look_up], model=ScriptedModel(always=answer))
    async with own_server(tmp_path / "server") as restarting:
        monkeypatch.setenv("TEMPORAL_ADDRESS", restarting.server.address)
        to_freeze.append(restarting.server.info.pid)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(ServerUnavailable, match="has not answered for 3 s"):
                    await Runner.run(agent, "Hello", id="r")
                await LocalEngine.close_shared()
        finally:
            os.kill(restarting.server.info.pid, signal.SIGCONT)
        assert any("does not answer" in line for line in caplog.messages)
        monkeypatch.delenv("OUTLAST_PATIENCE_SECONDS")
        assert (await Runner.run(agent, "Hello", id="r")).final_output == "Done."
        await LocalEngine.close_shared()
