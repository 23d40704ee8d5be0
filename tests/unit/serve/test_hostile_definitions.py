"""Hostile texts where programs, MCP servers, uploads and addresses have theirs."""

from typing import Any

import pytest

from outlast.agents.agent import Agent
from outlast.agents.tools.definition import FunctionTool
from outlast.loop.items import Item
from outlast.loop.state import LoopState
from outlast.mcp import MCPServerStdio
from outlast.serve.pages import chat, page
from tests.unit.serve.chat_desk import place, team
from tests.unit.serve.hostile_pages import HOSTILE, active_content
from tests.unit.serve.page_desk import app, asking, client_of
from tests.unit.serve.test_chat import answered, open_to, post

PLAIN = "plain"


@pytest.fixture(autouse=True)
def no_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing feeds these pages, so a page would wait for the times of its messages in vain."""
    monkeypatch.setattr(chat, "TIMES_SECONDS", 0.0)


class Guardrail:
    """Stands for the guardrail of a program: its name is read, and nothing else."""

    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        return self._name


async def _invoked(_context: Any, _arguments: str) -> str:
    return ""


def _agent(text: str) -> Agent[Any]:
    """Return an agent that has a text wherever a program can write one."""
    tool = FunctionTool(
        name="tool",
        description=text,
        params_json_schema={"type": "object", "title": text, "properties": {}},
        on_invoke_tool=_invoked,
    )
    tool.name = text  # as of a tool that an MCP server names
    server = MCPServerStdio({"command": "none"}, name=f"m{text}")
    other = Agent[Any](name=f"o{text}", handoff_description=text)
    agent = Agent[Any](
        name=f"a{text}",
        handoff_description=text,
        instructions=text,
        tools=[tool],
        mcp_servers=[server],
        handoffs=[other],
    )
    named: Any = [Guardrail(text)]
    agent.input_guardrails, agent.output_guardrails = named, named
    return agent


async def _pages_of_agents(text: str) -> list[str]:
    desk = team(agents=(_agent(text),))
    call = {"type": "function_call", "name": text, "arguments": "{}", "call_id": "c1"}
    path = (f"a{text}", f"o{text}")
    desk.play(
        LoopState(agent=path[1], handoff_path=path, items=(Item("tool_call", call, path[0]),))
    )
    async with desk.client() as client:
        pages = [await client.get(one) for one in ("/agents", "/agents?run=mine", "/chat")]
    assert [one.status_code for one in pages] == [200, 200, 200]
    return [one.text for one in pages]


async def test_definitions_are_text_in_the_graph_and_in_the_list() -> None:
    wanted = [active_content(page) for page in await _pages_of_agents(PLAIN)]
    assert {kind for found in wanted for kind in found} == {"<svg>"}, "the desk's own pictures"
    for text in HOSTILE:
        found = [active_content(page) for page in await _pages_of_agents(text)]
        assert (text[:80], found) == (text[:80], wanted)


async def _page_after_upload(name: str, content: bytes) -> str:
    desk = place()
    desk.play(answered("Hi."))
    async with open_to(desk) as client:
        sent = await post(client, files=[("files", (name, content))])
        assert sent.status_code in {303, 400, 413, 415}, name[:80]
        shown = sent.text or (await client.get("/chat/c/mine")).text
        return shown.partition("<textarea")[0]  # a field has what was written, as it was


@pytest.mark.parametrize(("ending", "content"), [(".exe", b"\x00\xff"), (".txt", b"Hi")])
async def test_names_of_uploads_are_text_whether_taken_or_refused(
    ending: str, content: bytes
) -> None:
    wanted = active_content(await _page_after_upload(PLAIN + ending, content))
    for text in HOSTILE:
        name = text.encode(errors="replace").decode()[:2_000] + ending
        found = active_content(await _page_after_upload(name, content))
        assert (name[:80], found) == (name[:80], wanted)


@pytest.mark.parametrize("path", ["/inbox", "/conversations/r/requests/a1"])
async def test_addresses_are_text(path: str) -> None:
    names = ("group", "risk", "mine", "show", "tool", "did", "seen", "version", "message", "q")
    async with client_of(app({"r": asking()})) as http:
        for text in HOSTILE:
            sent = text[:500].encode(errors="replace").decode()
            answer = await http.get(path, params=dict.fromkeys(names, sent))
            assert answer.status_code in {200, 400}
            assert (sent[:80], active_content(answer.text)) == (sent[:80], [])


async def test_the_check_finds_what_a_page_does_not_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = page._environment.__wrapped__()
    environment.autoescape = False
    monkeypatch.setattr(page, "_environment", lambda: environment)
    found = [active_content(shown) for shown in await _pages_of_agents(HOSTILE[8])]
    assert HOSTILE[8].startswith('"><img src=x onerror=')
    assert all("img onerror" in problems for problems in found), found
