"""The kinds of MCP servers, with a real one behind each."""

import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.agents.errors import UserError
from outlast.agents.mcp.server import MCPServer
from outlast.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp
from tests.mcp_servers import PATIENCE_SECONDS, PROGRAM, Listening, stdio, text_of

LISTED = ["find", "process_id", "key", "cover", "count", "tear", "read", "drop"]


@asynccontextmanager
async def server_of(kind: str) -> AsyncGenerator[Any]:
    """A connected server of a kind."""
    if kind == "stdio":
        async with stdio() as server:
            yield server
        return
    make: Any = MCPServerStreamableHttp if kind == "http" else MCPServerSse
    async with Listening(kind) as program:
        url: Any = {"url": program.url}
        async with make(url, client_session_timeout_seconds=PATIENCE_SECONDS) as server:
            yield server


@pytest.mark.parametrize(
    "kind", ["stdio", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("http", "sse"))]
)
async def test_a_real_server_lists_and_answers(kind: str) -> None:
    async with server_of(kind) as server:
        assert isinstance(server, MCPServer)
        tools = await server.list_tools()
        assert [tool.name for tool in tools] == LISTED
        found = await server.call_tool("find", {"title": "Dune"})
        assert text_of(found) == "Dune (0) is here"
        torn = await server.call_tool("tear", {"page": 3})
        assert torn.is_error
        assert "page 3 is glued in" in text_of(torn)
        keyed = await server.call_tool("key", {}, {"outlast/idempotency-key": "k", "tenant": "t"})
        assert text_of(keyed) == "k t"


@pytest.mark.full
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_prompts_and_resources_can_be_read(kind: str) -> None:
    async with server_of(kind) as server:
        assert [one.name for one in (await server.list_prompts()).prompts] == ["greeting"]
        prompt = await server.get_prompt("greeting", {"name": "Ann"})
        assert prompt.messages[0].content.text == "Greet Ann kindly."
        assert len((await server.list_resources()).resources) == 1
        assert (await server.list_resource_templates()).resource_templates == []
        assert (await server.read_resource("shelf://rules")).contents[0].text == "No coffee."


@pytest.mark.full
async def test_a_process_that_was_killed_is_started_again() -> None:
    async with stdio() as server:
        first = int(text_of(await server.call_tool("process_id", {})))
        os.kill(first, signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await server.call_tool("process_id", {})
        second = int(text_of(await server.call_tool("process_id", {})))
    assert second != first


@pytest.mark.full
async def test_a_server_that_was_started_again_is_found_again() -> None:
    async with Listening() as program:
        server = MCPServerStreamableHttp(
            {"url": program.url}, client_session_timeout_seconds=PATIENCE_SECONDS
        )
        first = text_of(await server.call_tool("process_id", {}))
        await program.kill()
        with pytest.raises(ConnectionError):
            await server.call_tool("process_id", {})
        with pytest.raises(ConnectionError):
            await server.list_tools()
        await program.start()
        assert text_of(await server.call_tool("process_id", {})) != first
        await server.cleanup()


def process_is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.full
async def test_the_process_ends_with_the_connection() -> None:
    async with stdio() as server:
        process = int(text_of(await server.call_tool("process_id", {})))
        assert process_is_alive(process)
    assert not process_is_alive(process)


def real(path: Path) -> str:
    return str(path.resolve())


@pytest.mark.full
async def test_the_process_gets_its_directory_and_variables(tmp_path: Path) -> None:
    code = (
        "import os; from mcp.server.mcpserver import MCPServer; s = MCPServer('s')\n"
        "@s.tool(structured_output=False)\n"
        "def where() -> str: return os.getcwd() + ' ' + os.environ['SHELF']\n"
        "s.run('stdio')"
    )
    params: Any = {
        "command": sys.executable,
        "args": ["-c", code],
        "cwd": tmp_path,
        "env": {"SHELF": "B"},
    }
    async with MCPServerStdio(params, client_session_timeout_seconds=PATIENCE_SECONDS) as server:
        assert text_of(await server.call_tool("where", {})) == f"{real(tmp_path)} B"


def test_names_say_what_a_server_is() -> None:
    url = "https://ann:hunter2@host/mcp?token=hunter2"
    assert MCPServerStdio({"command": "npx"}).name == "stdio: npx"
    assert MCPServerSse({"url": url}).name == "sse: https://host/mcp"
    assert MCPServerStreamableHttp({"url": url}).name == "streamable_http: https://host/mcp"
    assert MCPServerStdio({"command": "npx"}, name="files").name == "files"


@pytest.mark.parametrize("kind", [MCPServerStdio, MCPServerSse, MCPServerStreamableHttp])
def test_parameters_that_do_not_fit_are_refused_when_they_are_given(kind: Any) -> None:
    with pytest.raises(UserError, match=f"{kind.__name__}: params needs"):
        kind({"program": str(PROGRAM)})
