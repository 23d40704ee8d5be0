"""MCP servers for tests: one without a protocol, and the program `mcp_program.py`, run.

Owns: making and running them. Must not know: what a test asks them.
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mcp.types import CallToolResult, TextContent, Tool

from outlast.agents.mcp.server import MCPServer
from outlast.loop.values import JsonObject
from outlast.mcp import MCPServerStdio
from tests import forked

PROGRAM = Path(__file__).with_name("mcp_program.py")
TASKS_PROGRAM = Path(__file__).with_name("mcp_tasks_program.py")
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


SAYS_HELLO: JsonObject = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "shelf", "version": "1"},
}


class Nonsense:
    """A listening socket that is no MCP server, or one that says hello and then goes wrong.

    Attributes:
        url: where.
        requests: how many connections were made.
    """

    def __init__(self, kind: str) -> None:
        """Take what it does.

        Args:
            kind: `mute`, `ssh`, `page`, `json`, `shape`, `mute_list` or an HTTP status.
        """
        self.kind = kind
        self.requests = 0
        self.url = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests += 1
        self._open.add(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            sizes = [line for line in head.lower().split("\r\n") if "content-length" in line]
            size = int(sizes[0].partition(":")[2]) if sizes else 0
            body: JsonObject = json.loads(await reader.readexactly(size)) if size else {}
            reply = self._reply(body)
            if reply is None:
                await reader.read()  # nothing, until the client goes
            else:
                writer.write(reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()

    def _reply(self, request: JsonObject) -> bytes | None:
        if self.kind == "mute":
            return None
        if self.kind == "ssh":
            return b"SSH-2.0-OpenSSH_9.6\r\n\r\n"
        if self.kind == "page":
            return _http("200 OK", "text/html", "<h1>We are moving</h1>")
        if self.kind == "json":
            return _http("200 OK", "application/json", "{")
        if self.kind.isdecimal():
            return _http(f"{self.kind} No", "text/plain", "no")
        return self._half_right(request)

    def _half_right(self, request: JsonObject) -> bytes | None:
        """Say hello, and then list something that is no list of tools, or nothing."""
        if request.get("method") == "initialize":
            result: JsonObject = SAYS_HELLO
        elif request.get("method") != "tools/list":
            return _http("404 No", "text/plain", "no")
        elif self.kind == "mute_list":
            return None
        else:
            result = {"tools": "find"}
        reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        return _http("200 OK", "application/json", json.dumps(reply))


def _http(status: str, kind: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n{body}".encode()


class Listening:
    """The program as a server that listens; it can be killed and started again.

    Attributes:
        url: where.
        command: the program and its arguments.
    """

    def __init__(self, transport: str = "http", program: Path = PROGRAM, *arguments: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self.command = [sys.executable, str(program), transport, str(self._port), *arguments]
        self._process: asyncio.subprocess.Process | None = None
        self.url = f"http://127.0.0.1:{self._port}/{'mcp' if transport == 'http' else 'sse'}"

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = await forked.start(
            *self.command[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await self.wait_until_it_listens()

    async def wait_until_it_listens(self) -> None:
        """Wait for the program, whoever has started it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await self._listens():
                assert self._process is None or self._process.returncode is None, "it ended"
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
