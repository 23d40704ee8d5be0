"""What logs have of a conversation, at each level, of each package: marks stand in every place."""

import asyncio
import logging
import sys
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import httpx2
import pytest

from outlast import Customer
from outlast.agents.agent import Agent
from outlast.agents.context.wrapper import ToolContext
from outlast.agents.errors import DeliveryRefused
from outlast.agents.json_values import JsonObject
from outlast.agents.tools.function_tool import function_tool
from outlast.cli.process_log import log_to_standard_error
from outlast.client.deliveries import finish
from outlast.client.handle import RunHandle
from outlast.client.identity import person
from outlast.contract.identity import new_shared_key
from outlast.mcp import MCPServerStdio
from outlast.models.openai.provider import OpenAIProvider
from outlast.notifications import Webhook
from outlast.serve.app import desk as desk_app
from outlast.serve.login import ThisMachine
from outlast.testing.demo.responses_server import ResponsesServer, function_call, message
from tests.unit.notifications.receiver import receiving
from tests.workflow.desk import PATIENCE_SECONDS, Desk, waits_for
from tests.workflow.test_desk_api import TOKENS
from tests.workflow.test_waits import parked


def mark(place: str) -> str:
    return f"MARK-{place}-7f3a9c51d2e4b6"


KEYS: Final = ("api-key", "model-key", "cookie", "bearer", "token", "webhook-url", "webhook-secret")
"""The places of keys, which no level has."""

MCP_PROGRAM: Final = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    mark = {mark!r}
    result = {{
        "initialize": {{
            "protocolVersion": "2025-06-18",
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "s", "version": "1"}},
        }},
        "tools/list": {{
            "tools": [
                {{
                    "name": "peek",
                    "inputSchema": {{"type": "object", "properties": {{"q": {{"type": "string"}}}}}},
                    "outputSchema": {{
                        "type": "object",
                        "properties": {{"n": {{"type": "integer"}}}},
                        "required": ["n"],
                    }},
                }}
            ]
        }},
        "tools/call": {{
            "content": [{{"type": "text", "text": mark}}],
            "structuredContent": {{"n": mark}},
        }},
    }}.get(asked["method"], {{}})
    if asked["method"] == "tools/call":
        print("debug: " + mark, flush=True)
        print(json.dumps({{"jsonrpc": "2.0", "method": 5, "params": [mark]}}), flush=True)
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


class Lines(logging.Handler):
    """All lines of all loggers."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.found: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        text = logging.Formatter().format(record)
        self.count += 1
        for place in text.split("MARK-")[1:]:
            self.found[record.levelname].add((place.partition("-7f3a9c51d2e4b6")[0], record.name))


@contextmanager
def all_lines() -> Generator[Lines]:
    root, lines = logging.getLogger(), Lines()
    level = root.level
    root.addHandler(lines)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.removeHandler(lines)
        root.setLevel(level)


def _answer(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Call the next tool, and answer at last."""
    outputs = sum(one.get("type") == "function_call_output" for one in body["input"])
    calls: list[tuple[str, JsonObject]] = [
        ("look_up", {"order": mark("argument")}),
        ("fail", {"order": mark("argument")}),
        ("look_up", {"nothing": mark("argument")}),
        ("peek", {"q": mark("argument")}),
        ("pay", {"order": mark("argument")}),
        ("wait", {}),
    ]
    if outputs < len(calls):
        return [function_call(*calls[outputs])]
    return [message(mark("answer"))]


def _agent(server: MCPServerStdio) -> Agent[Any]:
    @function_tool
    async def look_up(order: str) -> str:
        return mark("output")

    @function_tool
    async def fail(order: str) -> str:
        raise ValueError(f"There is no {mark('error')}.")

    @function_tool(needs_approval=True)
    async def pay(order: str) -> str:
        return mark("output")

    @function_tool
    async def wait(ctx: ToolContext[Any]) -> str:
        delivered = await ctx.wait_for("parcel", timeout=None, schema=dict[str, str])
        return str(delivered)

    return Agent(
        name="Clerk",
        instructions=mark("instructions"),
        tools=[look_up, fail, pay, wait],
        mcp_servers=[server],
    )


@pytest.mark.parametrize("texts", ["0", "1"])
async def test_at_info_and_above_logs_have_no_contents_and_keys_nowhere(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, texts: str
) -> None:
    monkeypatch.setenv("OUTLAST_LOG_EXCEPTION_TEXTS", texts)
    monkeypatch.setenv("OUTLAST_IDENTITY_KEY", new_shared_key())
    monkeypatch.setenv("OPENAI_API_KEY", mark("model-key"))
    program = tmp_path / "mcp.py"
    program.write_text(MCP_PROGRAM.format(mark=mark("mcp-output")), encoding="utf-8")
    server = MCPServerStdio(cast("Any", {"command": sys.executable, "args": [str(program)]}))
    agent = _agent(server)
    with ResponsesServer(cast("Any", _answer)) as model, all_lines() as lines:
        monkeypatch.setenv("OPENAI_BASE_URL", model.base_url)
        async with receiving() as receiver:
            receiver.outcomes += [500, 410]
            hook = Webhook(f"{receiver.url}?at={mark('webhook-url')}", mark("webhook-secret"))
            await desk.open(agent, model=cast("Any", OpenAIProvider()), notifiers=[hook])
            handle = await desk.start(
                agent,
                mark("message"),
                context={"card": mark("context")},
                customer=Customer(id=mark("customer"), name=mark("name")),
                keep_open=True,
            )
            await desk.until(handle, waits_for(1))
            await _at_the_desk(desk, agent, handle)
            await _deliver(desk, handle)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await handle.wait_for_answer("start")
            assert len(receiver.bodies) > 1
        assert mark("answer") in str((await handle.state()).items)
    assert lines.count > 50
    # What a tool raises is the text of the author's own code, and is left out where they say so.
    above = {
        place for level, found in lines.found.items() if level != "DEBUG" for place, _ in found
    }
    assert above == ({"error"} if texts == "1" else set())
    assert not [one for one in lines.found["DEBUG"] if one[0] in KEYS]
    assert not [one for one in lines.found["DEBUG"] if one[1].startswith("outlast")]


async def _at_the_desk(desk: Desk, agent: Agent[Any], handle: RunHandle) -> None:
    """Come with every kind of key, and send what is refused and what is taken."""
    app = desk_app(
        desk.client,
        agents=[agent],
        login=ThisMachine(person("ann")),
        tokens=TOKENS,
        api_keys={"shop": mark("api-key")},
        task_queue=desk.queue,
    )
    transport = httpx2.ASGITransport(app, client=("127.0.0.1", 5000))
    run, chat = f"/api/conversations/{handle.id}", f"/chat/c/{handle.id}"
    own = {"Origin": "http://localhost"}
    (request,) = await handle.approvals()
    statuses: list[int] = []
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for bearer in (mark("bearer"), f"oc1.{mark('token')}", mark("api-key")):
            answer = await http.get(run, headers={"Authorization": f"Bearer {bearer}"})
            statuses.append(answer.status_code)
        cookie = {"Cookie": f"outlast_conversation=oc1.{mark('cookie')}"}
        statuses.append((await http.get(chat, headers=cookie)).status_code)
        for text in (mark("message"), [mark("message")]):
            answer = await http.post(
                f"{run}/messages",
                json={"text": text},
                headers={"Authorization": f"Bearer {mark('api-key')}"},
            )
            statuses.append(answer.status_code)
        body = {"type": "approve", "nothing": mark("reason")}
        answer = await http.post(f"{run}/requests/{request.id}/decide", json=body, headers=own)
        statuses.append(answer.status_code)
        files = {"files": (f"{mark('file')}.exe", b"MZ" + mark("content").encode())}
        cookie = {"Cookie": f"outlast_conversation={TOKENS.mint(handle.id)}"}
        answer = await http.post(chat, files=files, data={"text": "a"}, headers=own | cookie)
        statuses.append(answer.status_code)
    assert statuses == [401, 401, 200, 401, 202, 400, 400, 415]
    await handle.edit(request.id, {"order": mark("edited")}, by="ann")


async def _deliver(desk: Desk, handle: RunHandle) -> None:
    """Deliver what does not fit, and then what does."""
    wait = await parked(handle)
    with pytest.raises(DeliveryRefused):
        await finish(wait.token, mark("delivered"), client=desk.client, delivery_id="1")
    await finish(wait.token, {"is": mark("delivered")}, client=desk.client, delivery_id="2")


def test_a_process_logs_no_addresses_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = ("httpx", "httpx2", "mcp.client.streamable_http")
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    log_to_standard_error(logging.INFO)
    assert not [one for one in quiet if logging.getLogger(one).isEnabledFor(logging.INFO)]
