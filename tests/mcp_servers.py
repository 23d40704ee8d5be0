"""MCP servers for tests: one without a protocol, and the program `mcp_program.py`, run.

Owns: making and running them. Must not know: what a test asks them.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mcp.types import CallToolResult, TextContent, Tool

from outlast.agents.mcp_server import MCPServer
from outlast.loop.values import JsonObject
from outlast.mcp import MCPServerStdio

PROGRAM = Path(__file__).with_name("mcp_program.py")
PATIENCE_SECONDS = 60
TITLE: JsonObject = {
    "type": "object",
    "properties": {"title": {"type": "string"}},
    "required": ["title"],
}


def tool(name: str = "find", **fields: Any) -> Tool:
    """Return a tool as a server lists it."""
    return Tool.model_validate({"name": name, "inputSchema": {"type": "object"}, **fields})


def said(*texts: str, **fields: Any) -> CallToolResult:
    """Return a result that is text."""
    return CallToolResult(content=[TextContent(type="text", text=one) for one in texts], **fields)


def repeat(name: str, arguments: Any) -> CallToolResult:
    """Answer with what was asked."""
    return said(f"{name} {arguments}")


class Shelf(MCPServer):
    """A server in this process, without a protocol.

    Attributes:
        tools: what it lists.
        answer: makes the result of a call; called with (tool, arguments).
        calls: the calls so far: (tool, arguments, meta).
        steps: what was done with the connection.
    """

    def __init__(
        self,
        *tools: Tool,
        name: str = "shelf",
        answer: Callable[[str, Any], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.tools = list(tools or [tool()])
        self.answer = answer or repeat
        self.calls: list[tuple[str, Any, Any]] = []
        self.steps: list[str] = []
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def connect(self) -> None:
        self.steps.append("connect")

    async def cleanup(self) -> None:
        self.steps.append("cleanup")

    async def release(self) -> None:
        self.steps.append("release")

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        self.steps.append("list")
        return list(self.tools)

    async def call_tool(self, tool_name: str, arguments: Any, meta: Any = None) -> Any:
        self.calls.append((tool_name, arguments, meta))
        return self.answer(tool_name, arguments)


def stdio(*, name: str = "shelf", **options: Any) -> MCPServerStdio:
    """Return the program as a server over its standard streams."""
    params: Any = {"command": sys.executable, "args": [str(PROGRAM), "stdio"]}
    options.setdefault("client_session_timeout_seconds", PATIENCE_SECONDS)
    return MCPServerStdio(params, name=name, **options)


def text_of(result: Any) -> str:
    """Return the texts of a result."""
    return " ".join(block.text for block in result.content)


class Listening:
    """The program as a server that listens; it can be killed and started again.

    Attributes:
        url: where.
    """

    def __init__(self, transport: str = "http") -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._transport = transport
        self._process: asyncio.subprocess.Process | None = None
        self.url = f"http://127.0.0.1:{self._port}/{'mcp' if transport == 'http' else 'sse'}"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, str(PROGRAM), self._transport, str(self._port)]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._listens():
                assert self._process.returncode is None, "the server ended"
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """Kill it, as a crash does."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.kill()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True
