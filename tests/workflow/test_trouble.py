"""What keeps runs from going on, as a real server knows it and each surface says it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.agent import Agent
from outlast.agents.errors import RunNotFound
from outlast.agents.tools.function_tool import function_tool
from outlast.cli.report import read_report
from outlast.cli.server import Connection
from outlast.client import trouble
from outlast.client.handle import RunHandle
from outlast.client.transport import pollers, run_address
from outlast.serve.app import desk as desk_application
from outlast.serve.login import ThisMachine
from outlast.testing import ScriptedModel, call
from outlast.views.trouble import SILENT, Trouble, trouble_words
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.people import ANN
from tests.workflow.replies import model_error
from tests.workflow.test_chat_page import browser
from tests.workflow.test_conversation_page import ORIGIN, page_of

BUSY = model_error("overloaded", retryable=True, status=529)
HELPER = Agent[Any](name="Helper")


async def until(handle: RunHandle, found: Callable[[list[Trouble]], bool]) -> list[Trouble]:
    """Wait until a run has such trouble."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if found(seen := list(await handle.trouble())):
                return seen
            await asyncio.sleep(0.02)


@asynccontextmanager
async def api_of(desk: Desk, handle: RunHandle) -> AsyncGenerator[Callable[[], Any]]:
    """Return what the API of a desk says about a run."""
    app = desk_application(desk.client, login=ThisMachine(ANN))
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as http,
    ):

        async def read() -> Any:
            answer = await http.get(f"/api/conversations/{quote(handle.id, safe='')}")
            return answer.json()

        yield read


async def shown(desk: Desk, handle: RunHandle) -> dict[str, Any]:
    """Return what `outlast show --json` says."""
    report = await read_report(Connection(client=desk.client, ui_url=None), handle.id)
    return json.loads(json.dumps(report.record(0)))


@pytest.mark.smoke
async def test_a_failing_model_is_seen_with_attempt_reason_and_next_try(desk: Desk) -> None:
    await desk.open(HELPER, model=ScriptedModel(always=BUSY))
    handle = await desk.start(HELPER)
    (found,) = await until(
        handle, lambda seen: any(one.kind == "retry" and one.next_ms for one in seen)
    )
    assert found.attempt >= 1
    assert "overloaded" in found.why
    assert found.since_ms is not None
    assert found.next_ms is not None
    assert found.next_ms > found.since_ms
    async with api_of(desk, handle) as read, page_of(desk, handle, ANN) as page:
        (said,) = (await read())["trouble"]
        assert (said["kind"], said["why"]) == ("retry", found.why)
        assert said["attempt"] >= found.attempt
        seen = await page.until("of the model call of Helper failed")
        assert "overloaded" in seen
        record = await shown(desk, handle)
        (told,) = record["trouble"]
        assert (told["kind"], told["why"]) == ("retry", found.why)
        assert record["retries"][0]["activity"] == "call_model"
        assert record["has_worker"] is True
    await handle.cancel()
    await desk.until_status(handle, "cancelled")
    assert await handle.trouble() == ()


async def test_a_first_message_that_nobody_takes_is_seen_at_once_also_by_its_writer(
    desk: Desk,
) -> None:
    handle = await desk.start("A", "Is somebody there?", keep_open=True)
    found = await handle.trouble()
    assert [one.kind for one in found] == ["no_worker", "untaken"]
    assert [trouble_words(one).split(",")[0] for one in found] == [
        f"No worker polls the task queue {desk.queue!r}",
        "No worker has taken the first message.",
    ]
    async with api_of(desk, handle) as read, page_of(desk, handle, ANN) as page:
        said = await read()
        assert [one["kind"] for one in said["trouble"]] == ["no_worker", "untaken"]
        assert len(said["unread"]) == 1
        text = await page.until("No worker has taken the first message", "Is somebody there?")
        assert desk.queue in text
    record = await shown(desk, handle)
    assert [one["kind"] for one in record["trouble"]] == ["no_worker", "untaken"]
    assert record["has_worker"] is False
    async with browser(desk, handle.id) as http:
        chat = (await http.get(f"/chat/c/{handle.id}")).text
        assert "Is somebody there?" in chat
        assert "We cannot answer at the moment." in chat
        assert desk.queue not in chat
    await desk.open(Agent[Any](name="A"), model=ScriptedModel("Here I am."))
    await desk.until_status(handle, "idle")
    assert await until(handle, lambda seen: not seen) == []


async def test_a_kept_decision_is_seen_by_everybody_until_it_counts(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    @function_tool(needs_approval=True)
    def refund(order: str) -> str:
        return f"refunded {order}"

    agent = Agent[Any](name="Clerk", tools=[refund])
    model = ScriptedModel([call("refund", "c1", order="A")], "Done.")
    worker = await desk.open(agent, model=model)
    handle = await desk.start(agent)
    await desk.until(handle, waits_for(1))
    assert await handle.trouble() == ()
    await desk.close(worker)
    monkeypatch.setattr(run_address, "UNSERVED_AFTER", timedelta(milliseconds=200))
    monkeypatch.setattr(pollers, "LONGEST_POLL", timedelta(seconds=-1))
    assert (await handle.approve("a1", by="lee")).is_kept
    found = await until(handle, lambda seen: [one.kind for one in seen] == ["no_worker", "kept"])
    assert found[1].what == "decision approve for a1 by lee"
    async with api_of(desk, handle) as read, page_of(desk, handle, ANN) as page:
        assert [one["kind"] for one in (await read())["trouble"]] == ["no_worker", "kept"]
        await page.until("The server keeps the decision approve for a1 by lee")
    monkeypatch.undo()
    await desk.open(agent, model=model)
    await desk.result(handle)
    assert await handle.trouble() == ()


async def test_a_run_that_is_not_there_is_not_found(desk: Desk) -> None:
    with pytest.raises(RunNotFound):
        await RunHandle(desk.client, "never-was").trouble()


async def test_a_server_that_does_not_answer_is_known_within_the_bound(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def away(*_: Any) -> Any:
        raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")

    monkeypatch.setattr(trouble, "ASKS_FOR", timedelta(milliseconds=20))
    for answer in (silent, away):
        monkeypatch.setattr(trouble, "describe_newest", answer)
        assert await trouble.server_facts(desk.client, "r") == SILENT
        (found,) = await RunHandle(desk.client, "r").trouble()
        assert found.kind == "no_server"


async def test_whether_a_server_is_there_is_known_soon(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await trouble.server_answers(desk.client)

    async def silent(*_: Any) -> Any:
        await asyncio.Event().wait()

    async def away(*_: Any) -> Any:
        raise RPCError("gone", RPCStatusCode.UNAVAILABLE, b"")

    async def refuses(*_: Any) -> Any:
        raise RPCError("no", RPCStatusCode.PERMISSION_DENIED, b"")

    monkeypatch.setattr(trouble, "SAYS_SO_WITHIN", timedelta(milliseconds=20))
    for answer, is_there in ((silent, False), (away, False), (refuses, True)):
        monkeypatch.setattr(desk.client.workflow_service, "get_system_info", answer)
        assert await trouble.server_answers(desk.client) is is_there
