"""Trouble appears on open pages and streams within 5 s, and is taken back."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from temporalio.client import Client

from outlast.agents.agent import Agent
from outlast.agents.tools.function_tool import function_tool
from outlast.client.handle import RunHandle
from outlast.client.start.runner import Runner
from outlast.client.transport import pollers, run_address
from outlast.serve.app import desk as desk_application
from outlast.serve.http_server import serve_desk
from outlast.serve.login import ThisMachine
from outlast.serve.wires.ids import ResponseId, TaskId
from outlast.testing import ScriptedModel, call
from outlast.views.run import loop_state
from outlast.worker import AgentWorker
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.people import ANN
from tests.workflow.test_chat_page import TOKENS
from tests.workflow.test_outages import own_server

LIVE_SECONDS = 5.0
"""How soon an open page says what the server knows."""

NO_TROUBLE = '<div id="trouble" hx-swap-oob="innerHTML"></div>'

SOON_SECONDS = 3.0
"""How soon a page answers, also without a server."""


@asynccontextmanager
async def desk_of(client: Client, *agents: Agent[Any]) -> AsyncGenerator[httpx2.AsyncClient]:
    """Serve a desk, and return somebody's browser."""
    app = desk_application(client, agents=agents, login=ThisMachine(ANN), tokens=TOKENS)
    stop = asyncio.Event()
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(serve_desk(app, "127.0.0.1", 0, stop, ready.set_result))
    url = f"http://127.0.0.1:{await ready}"
    try:
        async with (
            asyncio.timeout(PATIENCE_SECONDS * 2),
            httpx2.AsyncClient(base_url=url, headers={"Origin": url}, timeout=60) as http,
        ):
            yield http
    finally:
        stop.set()
        await serving


class Stream:
    """An open stream of server-sent events, and what it has said lately.

    Attributes:
        said: the data of its events, in order.
    """

    def __init__(
        self, http: httpx2.AsyncClient, address: str, body: Any = None, **headers: str
    ) -> None:
        self._http = http
        self._address = address
        self._body = body
        self._headers = headers
        self._news = asyncio.Event()
        self.said: list[str] = []

    async def read(self) -> None:
        """Read along."""
        method = "GET" if self._body is None else "POST"
        sent = self._http.stream(method, self._address, json=self._body, headers=self._headers)
        async with sent as stream:
            assert stream.status_code == 200, await stream.aread()
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    self.said.append(line.removeprefix("data: "))
                    self._news.set()

    async def says(
        self, found: Callable[[str], bool], seconds: float = LIVE_SECONDS, *, anew: bool = False
    ) -> None:
        """Wait until it has said something; with `anew`, since this was called."""
        begin = len(self.said) if anew else 0
        async with asyncio.timeout(seconds):
            while not any(map(found, self.said[begin:])):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def streams(
    http: httpx2.AsyncClient, run_id: str, request_id: str = ""
) -> AsyncGenerator[dict[str, Stream]]:
    """Open the page, that of a request, the stream of the API and that of the customer."""
    bearer = {"Authorization": f"Bearer {TOKENS.mint(run_id)}"}
    found = {
        "page": Stream(http, f"/conversations/{run_id}/live"),
        "api": Stream(http, f"/api/conversations/{run_id}/events"),
        "customer": Stream(http, f"/api/conversations/{run_id}/events", **bearer),
        "chat": Stream(http, f"/chat/c/{run_id}/events", **bearer),
    }
    if request_id:
        address = f"/conversations/{run_id}/requests/{request_id}/live"
        found["request"] = Stream(http, address)
    reading = [asyncio.create_task(one.read()) for one in found.values()]
    try:
        await asyncio.gather(
            *(one.says(lambda _: True, PATIENCE_SECONDS) for one in found.values())
        )
        yield found
    finally:
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


def kinds(data: str) -> list[str] | None:
    """Return the kinds of trouble in an event of the API; None for another event."""
    content = json.loads(data)
    return [one["kind"] for one in content["trouble"]] if set(content) == {"trouble"} else None


def is_back(data: str) -> bool:
    """Whether an event of the API says that the server answers again."""
    found = kinds(data)
    return found is not None and "no_server" not in found


async def test_a_kept_decision_appears_on_open_pages_and_goes_when_it_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        return f"refunded {order}"

    agent = Agent[Any](name="Clerk", tools=[refund])
    model = ScriptedModel([call("refund", "c1", order="A")], "Done.")
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await desk.until(handle, waits_for(1))
    async with desk_of(desk.client) as http, streams(http, handle.id, "a1") as open_pages:
        await desk.close(worker)
        monkeypatch.setattr(run_address, "UNSERVED_AFTER", timedelta(milliseconds=200))
        monkeypatch.setattr(pollers, "LONGEST_POLL", timedelta(seconds=-1))
        seen = asyncio.gather(
            open_pages["page"].says(lambda one: "The server keeps the decision" in one, 12),
            open_pages["request"].says(lambda one: "The server keeps the decision" in one, 12),
            open_pages["api"].says(lambda one: kinds(one) == ["no_worker", "kept"], 12),
            open_pages["customer"].says(lambda one: "We cannot answer at the moment" in one, 12),
            open_pages["chat"].says(lambda one: "We cannot answer at the moment" in one, 12),
        )
        assert (await handle.approve("a1", by="lee")).is_kept
        async with asyncio.timeout(LIVE_SECONDS):
            await seen
        for page in (f"/inbox/requests/{handle.id}", f"/conversations/{handle.id}/requests/a1"):
            assert "The server keeps the decision" in (await http.get(page)).text, page
        gone = asyncio.gather(
            open_pages["api"].says(lambda one: kinds(one) == [], PATIENCE_SECONDS),
            open_pages["page"].says(lambda one: NO_TROUBLE in one, PATIENCE_SECONDS, anew=True),
        )
        await asyncio.sleep(0)
        monkeypatch.undo()
        await desk.open(agent, model=model)
        await desk.until_status(handle, "idle")
        async with asyncio.timeout(LIVE_SECONDS):
            await gone


@asynccontextmanager
async def chats(
    http: httpx2.AsyncClient, run_id: str, message_id: str
) -> AsyncGenerator[dict[str, Stream]]:
    """Open the streams of front ends of others, as the customer has them."""
    bearer = {"Authorization": f"Bearer {TOKENS.mint(run_id)}", "A2A-Version": "1.0"}
    follow = {"outlast": {"follow": True}}
    ag_ui: dict[str, Any] = {
        "threadId": run_id,
        "runId": "r1",
        "messages": [],
        "forwardedProps": follow,
    }
    ag_ui |= {"tools": [], "context": [], "state": {}}
    response = ResponseId(run_id, message_id, 0)
    task = {"id": str(TaskId(run_id, message_id))}
    a2a = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": task}
    found = {
        "AG-UI": Stream(http, "/agui/Clerk", ag_ui, **bearer),
        "Vercel": Stream(http, f"/vercel/Clerk/{run_id}/stream", **bearer),
        "A2A": Stream(http, "/a2a/Clerk", a2a, **bearer),
        "Responses": Stream(http, f"/v1/responses/{response}?stream=true", **bearer),
    }
    reading = [asyncio.create_task(one.read()) for one in found.values()]
    try:
        for one in found.values():
            await one.says(lambda _: True, PATIENCE_SECONDS)
        yield found
    finally:
        for one in reading:
            one.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


async def test_front_ends_of_others_are_told_that_nobody_can_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = asyncio.Event()

    @function_tool(timeout=300)
    async def look_up() -> str:
        await go_on.wait()
        return "found"

    agent = Agent[Any](name="Clerk", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1")], "Done.")
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent, keep_open=True)
    await handle.wait(lambda state: bool(loop_state(state).calls))
    [message_id] = (await handle.state()).answering
    async with (
        desk_of(desk.client, agent) as http,
        chats(http, handle.id, message_id) as open_chats,
    ):
        monkeypatch.setattr(pollers, "LONGEST_POLL", timedelta(seconds=-1))
        seen = [
            asyncio.create_task(one.says(lambda said: "We cannot answer at the moment" in said, 20))
            for one in open_chats.values()
        ]
        await desk.close(worker)
        async with asyncio.timeout(LIVE_SECONDS + 2):
            await asyncio.gather(*seen)
        bearer = {"Authorization": f"Bearer {TOKENS.mint(handle.id)}"}
        response = ResponseId(handle.id, message_id, 0)
        polled = (await http.get(f"/v1/responses/{response}", headers=bearer)).json()
        assert polled["status"] == "in_progress"
        assert "We cannot answer at the moment" in polled["metadata"]["trouble"]
        go_on.set()
        monkeypatch.undo()
        await desk.open(agent, model=model)
        for one in open_chats.values():
            await one.says(lambda said: "Done." in said, PATIENCE_SECONDS)
        await open_chats["AG-UI"].says(lambda said: '"trouble":null' in said, LIVE_SECONDS + 3)
    assert (await handle.state()).status == "idle"


@pytest.mark.full
async def test_a_stopped_server_is_seen_on_open_pages_and_pages_answer_soon(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    @function_tool(timeout=300)
    async def look_up() -> str:
        await go_on.wait()
        return "found"

    agent = Agent[Any](name="Clerk", tools=[look_up])
    model = ScriptedModel([call("look_up", "c1")], "Done.")
    async with own_server(tmp_path / "server") as own:
        client = await Client.connect(own.server.address)
        async with AgentWorker(client, agents=[agent], task_queue="q", model_provider=model):
            options: dict[str, Any] = {"client": client, "task_queue": "q", "keep_open": True}
            handle = await Runner.start("Clerk", "Hello", id="r", **options)
            await handle.wait(lambda state: bool(loop_state(state).calls))
            async with desk_of(client) as http, streams(http, handle.id) as open_pages:
                os.kill(own.server.info.pid, signal.SIGSTOP)
                try:
                    await asyncio.gather(
                        open_pages["page"].says(lambda one: "does not answer" in one, 8),
                        open_pages["api"].says(lambda one: kinds(one) == ["no_server"], 8),
                        open_pages["chat"].says(lambda one: "data-not-live" in one, 8),
                    )
                    page = await within(http.get(f"/conversations/{handle.id}"))
                    assert page.status_code == 200
                    assert "The Temporal server does not answer" in page.text
                    for path in ("/conversations", "/inbox", "/conversations/unknown"):
                        answer = await within(http.get(path))
                        assert answer.status_code in {200, 503}, path
                finally:
                    os.kill(own.server.info.pid, signal.SIGCONT)
                # The call may have been lost meanwhile, and be tried again: that is another trouble.
                await open_pages["api"].says(is_back, PATIENCE_SECONDS, anew=True)
                go_on.set()
                await RunHandle(client, handle.id).wait(lambda state: state.status == "idle")


async def within(answering: Any) -> Any:
    """Return an answer that comes soon."""
    async with asyncio.timeout(SOON_SECONDS + 0.5):
        return await answering
