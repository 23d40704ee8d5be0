"""The public MCP server classes, one for each transport."""

from abc import abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Generic, TypeVar, Unpack, cast

from outlast.agents.mcp.filters import ToolFilter
from outlast.mcp.connected_server import ConnectedServer, ServerOptions
from outlast.mcp.transports import (
    MCPServerSseParams,
    MCPServerStdioParams,
    MCPServerStreamableHttpParams,
    check_params,
    client_over,
    over_http,
    over_sse,
    over_stdio,
    public_url,
)

Params = TypeVar(
    "Params", bound=MCPServerStdioParams | MCPServerSseParams | MCPServerStreamableHttpParams
)


class _Server(ConnectedServer, Generic[Params]):
    """A server over one transport.

    Attributes:
        params: the parameters of the process or the connection.
    """

    _params_type: ClassVar[type]
    _transport: ClassVar[str]
    _place: ClassVar[str] = "url"

    def __init__(
        self,
        params: Params,
        cache_tools_list: bool = False,  # noqa: FBT001, FBT002  as the field has it
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        tool_filter: ToolFilter = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Store the options; start no process and open no connection yet.

        Args:
            params: the parameters of the process or the connection.
            cache_tools_list: see `ConnectedServer`, also for the arguments below.
            name: default the transport and the command or the URL, such as `stdio: <command>`.
            client_session_timeout_seconds: see there.
            tool_filter: see there.
            **options: see `ServerOptions`.

        Raises:
            UserError: an argument is invalid.
        """
        check_params(params, self._params_type, self._place, type(self).__name__)
        self.params = params
        place = str(cast("Any", params)[self._place])
        shown = public_url(place) if self._place == "url" else place
        super().__init__(
            name or f"{self._transport}: {shown}",
            cache_tools_list=cache_tools_list,
            client_session_timeout_seconds=client_session_timeout_seconds,
            tool_filter=tool_filter,
            **options,
        )

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that connects to the server, and starts its process if it has one."""
        return client_over(
            self._streams(), self.message_handler, tasks=self.tasks, note_tool=self.note_tool
        )

    @abstractmethod
    def _streams(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that opens the streams of the connection."""


class MCPServerStdio(_Server[MCPServerStdioParams]):
    """An MCP server that each worker starts as a child process."""

    starts_process = True
    _params_type, _transport, _place = MCPServerStdioParams, "stdio", "command"

    def _streams(self) -> AbstractAsyncContextManager[Any]:
        return over_stdio(self.params, f"The MCP server {self.name!r}")


class MCPServerSse(_Server[MCPServerSseParams]):
    """An MCP server that is reached by HTTP with server-sent events."""

    _params_type, _transport = MCPServerSseParams, "sse"

    def _streams(self) -> AbstractAsyncContextManager[Any]:
        return over_sse(self.params)


class MCPServerStreamableHttp(_Server[MCPServerStreamableHttpParams]):
    """An MCP server that is reached by streamable HTTP."""

    _params_type, _transport = MCPServerStreamableHttpParams, "streamable_http"

    def _streams(self) -> AbstractAsyncContextManager[Any]:
        return over_http(self.params, self.note_status)
