"""Agents of others as tools, in real processes: an agent made with the `a2a-sdk`, and our own desk."""

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.client.runs import RunFilter, find_runs
from tests.browser.stage import ANN, ROOT, Stage, free_port

pytestmark = pytest.mark.full

KEY = "caller-key-that-nobody-guesses"
LETTER = {"address": "Main Street 1", "text": "Hello", "copies": 2}
SECONDS = 60


class Courier:
    """The process of the agent that is not ours."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port = home, port
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        arguments = ["-m", "tests.clients.a2a_agent", str(self.port), str(self.home)]
        self._process = await asyncio.create_subprocess_exec(sys.executable, *arguments, cwd=ROOT)
        url = f"http://127.0.0.1:{self.port}/.well-known/agent-card.json"
        async with asyncio.timeout(SECONDS), httpx2.AsyncClient() as http:
            while not await _is_there(http, url):  # noqa: ASYNC110  another process
                await asyncio.sleep(0.1)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    @property
    def ledger(self) -> list[str]:
        """What the agent was asked, and what it cancelled."""
        path = self.home / "ledger"
        return path.read_text().splitlines() if path.exists() else []

    async def until(self, line: str) -> None:
        """Wait until the ledger has a line."""
        async with asyncio.timeout(SECONDS):
            while line not in self.ledger:  # noqa: ASYNC110  another process writes it
                await asyncio.sleep(0.05)


async def _is_there(http: httpx2.AsyncClient, url: str) -> bool:
    try:
        await http.get(url)
    except httpx2.TransportError:
        return False
    return True


@pytest.fixture(scope="module")
async def courier(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Courier]:
    courier = Courier(tmp_path_factory.mktemp("courier"), free_port())
    try:
        await courier.start()
        yield courier
    finally:
        await courier.stop()


@pytest.fixture(scope="module")
async def stage(courier: Courier, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A worker with the tools, and a desk that is the other end and takes what is pushed."""
    port = free_port()
    environment = {
        "A2A_REMOTE": f"http://127.0.0.1:{courier.port}",
        "A2A_DESK": f"http://127.0.0.1:{port}",
        "A2A_KEY": KEY,
        "OUTLAST_API_KEYS": f"caller={KEY}",
        "OUTLAST_DELIVERY_KEYS": secrets.token_hex(32),
        "OUTLAST_DELIVERY_URL": f"http://127.0.0.1:{port}",
    }
    home = tmp_path_factory.mktemp("stage")
    agents = "tests.clients.a2a_agents"
    async with Stage(home, people=(ANN,), agents=agents, environment=environment) as stage:
        await stage.serve("--port", str(port))
        yield stage


async def begun(stage: Stage, tool: str, message: str, **more: Any) -> RunHandle:
    """Start a run whose model calls a tool."""
    asked = f"call {tool} {json.dumps({'message': message, **more})}"
    return await stage.start_run("Caller", asked, f"a2a-{secrets.token_hex(6)}", keep_open=False)


async def answer(handle: RunHandle) -> Any:
    """Return what the model read of the tool, which it repeats."""
    async with asyncio.timeout(SECONDS):
        said = str((await handle.result()).final_output)
    return json.loads(said.removeprefix("Done: "))


async def parked(handle: RunHandle) -> Any:
    """Wait until the call waits, and return the wait."""
    async with asyncio.timeout(SECONDS):
        await handle.wait(lambda state: state.status == "parked")
    [wait] = await handle.pending_waits()
    return wait


async def test_an_agent_answers_at_once_and_its_conversation_goes_on(
    stage: Stage, courier: Courier
) -> None:
    first = await answer(await begun(stage, "courier", "now Hello"))
    assert (first["state"], first["text"]) == ("completed", "Hello")
    more = await begun(stage, "courier", "now More", context_id=first["context_id"])
    assert await answer(more) == {**first, "text": "More"}
    assert courier.ledger.count("now Hello") == 1


async def test_a_task_outlasts_the_worker_and_the_agent_calls_back(
    stage: Stage, courier: Courier
) -> None:
    handle = await begun(stage, "pushed", "when here")
    wait = await parked(handle)
    assert wait.name.startswith("task ")
    await stage.kill_worker()
    (courier.home / "here").write_text("It is here.")
    done = await answer(handle)  # long before the tool would have looked for itself
    assert (done["state"], done["text"]) == ("completed", "It is here.")
    assert courier.ledger.count("when here") == 1


async def test_a_task_is_looked_at_until_it_is_over(stage: Stage, courier: Courier) -> None:
    handle = await begun(stage, "courier", "when there")
    await parked(handle)
    (courier.home / "there").write_text("It is there.")
    assert (await answer(handle))["text"] == "It is there."


async def test_people_answer_what_the_agent_asks(stage: Stage, courier: Courier) -> None:
    handle = await begun(stage, "asking", "ask Which street?")
    async with asyncio.timeout(SECONDS):
        await handle.wait(lambda state: bool(state.pending_approvals))
    [request] = await handle.approvals()
    assert request.reason == "The agent asks for input, and says: Which street?"
    await stage.kill_worker()
    await handle.respond(request, "Main Street", by=person("ann", groups=["billing"]))
    assert (await answer(handle))["text"] == "Main Street"
    assert courier.ledger.count("Main Street") == 1


async def test_the_model_reads_what_the_agent_asks(stage: Stage) -> None:
    asked = await answer(await begun(stage, "courier", "ask How many?"))
    assert (asked["state"], asked["text"]) == ("input_required", "How many?")
    told = await begun(stage, "courier", "Five", task_id=asked["task_id"])
    assert (await answer(told))["text"] == "Five"


async def test_a_cancelled_run_cancels_its_task(stage: Stage, courier: Courier) -> None:
    handle = await begun(stage, "courier", "when nobody knows")
    await parked(handle)
    await handle.cancel()
    await courier.until("cancelled")


async def test_an_agent_of_our_own_desk_waits_for_its_people(stage: Stage) -> None:
    handle = await begun(stage, "writer", f"call write_letter {json.dumps(LETTER)}")
    await parked(handle)
    async with asyncio.timeout(SECONDS):
        while True:
            runs = await find_runs(stage.client, RunFilter(agent="Writer", waiting=True), limit=9)
            if runs:
                break
            await asyncio.sleep(0.1)
    inner = RunHandle(stage.client, runs[0].run_id)
    await inner.approve((await inner.approvals())[0], by=person("ann", groups=["billing"]))
    done = await answer(handle)
    assert (done["state"], done["context_id"]) == ("completed", inner.id)
    assert done["text"].endswith("2 to Main Street 1: Hello")


async def test_a_task_that_the_agent_has_lost_is_read_by_the_model(
    stage: Stage, courier: Courier
) -> None:
    handle = await begun(stage, "courier", "when lost")
    await parked(handle)
    await courier.stop()
    await courier.until("when lost")
    await courier.start()  # it keeps its tasks in memory
    assert (await answer(handle))["state"] == "not_found"
    assert courier.ledger.count("when lost") == 1
