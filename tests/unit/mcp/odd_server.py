"""An MCP server that is played over streams in memory, and sends whatever a test wants."""

import contextlib
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import mcp.types as mcp_types
from mcp.shared.message import SessionMessage

from outlast.loop.values import JsonObject
from outlast.mcp.connected_server import ConnectedServer
from outlast.mcp.transports import client_over

VERSION = "2025-06-18"


class OddServer(ConnectedServer):
    """A server of an earlier version of the protocol.

    Attributes:
        listed: the tools, as they are on the wire.
        answers: what the next calls come to: a result, or `{"error": …}`; the last one stays.
        requests: the methods and parameters of the requests.
    """

    def __init__(self, *answers: JsonObject, tools: Any = (), **options: Any) -> None:
        given: dict[str, Any] = {
            "cache_tools_list": False,
            "client_session_timeout_seconds": 5,
            "tool_filter": None,
            **options,
        }
        super().__init__("shop", **given)
        self.listed = list(tools) or [{"name": "pay", "inputSchema": {"type": "object"}}]
        self.answers = list(answers)
        self.requests: list[tuple[str, JsonObject]] = []

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        return client_over(self._streams(), None, tasks=self.tasks, note_tool=self.note_tool)

    def calls(self) -> list[JsonObject]:
        """Return the parameters of the calls."""
        return [params for method, params in self.requests if method == "tools/call"]

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncGenerator[Any]:
        to_client, from_server = anyio.create_memory_object_stream[Any](100)
        to_server, from_client = anyio.create_memory_object_stream[Any](100)

        async def serve() -> None:
            async for item in from_client:
                reply = self._reply(item.message)
                if reply is not None:
                    await to_client.send(SessionMessage(reply))

        async with anyio.create_task_group() as group, to_client, from_client:
            group.start_soon(serve)
            yield from_server, to_server
            group.cancel_scope.cancel()

    def _reply(self, message: Any) -> Any:
        if not isinstance(message, mcp_types.JSONRPCRequest):
            return None
        self.requests.append((message.method, dict(message.params or {})))
        result = self._result(message.method)
        if "error" in result:
            return mcp_types.JSONRPCError(jsonrpc="2.0", id=message.id, error=result["error"])
        return mcp_types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result)

    def _result(self, method: str) -> JsonObject:
        match method:
            case "initialize":
                server = {"name": "shop", "version": "1"}
                return {
                    "protocolVersion": VERSION,
                    "capabilities": {"tools": {}},
                    "serverInfo": server,
                }
            case "tools/list":
                return {"tools": self.listed}
            case "tools/call":
                return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            case _:
                return {"error": {"code": -32601, "message": "Method not found"}}
