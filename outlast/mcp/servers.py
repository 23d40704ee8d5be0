"""The public MCP server classes, one for each transport."""

from contextlib import AbstractAsyncContextManager
from typing import Any, Unpack

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

__all__ = [
    "MCPServerSse",
    "MCPServerSseParams",
    "MCPServerStdio",
    "MCPServerStdioParams",
    "MCPServerStreamableHttp",
    "MCPServerStreamableHttpParams",
]


class MCPServerStdio(ConnectedServer):
    """An MCP server that each worker starts as a child process.

    Attributes:
        params: the parameters of the process.
    """

    starts_process = True

    def __init__(
        self,
        params: MCPServerStdioParams,
        cache_tools_list: bool = False,  # noqa: FBT001, FBT002  as the field has it
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        tool_filter: ToolFilter = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Store the options; start no process yet.

        Args:
            params: the parameters of the process.
            cache_tools_list: see `ConnectedServer`, also for the arguments below.
            name: default `stdio: <command>`.
            client_session_timeout_seconds: see there.
            tool_filter: see there.
            **options: see `ServerOptions`.

        Raises:
            UserError: an argument is invalid.
        """
        check_params(params, MCPServerStdioParams, "command", "MCPServerStdio")
        self.params = params
        super().__init__(
            name or f"stdio: {params['command']}",
            cache_tools_list=cache_tools_list,
            client_session_timeout_seconds=client_session_timeout_seconds,
            tool_filter=tool_filter,
            **options,
        )

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that starts the process and connects to it."""
        return client_over(
            over_stdio(self.params, f"The MCP server {self.name!r}"), self.message_handler
        )


class MCPServerSse(ConnectedServer):
    """An MCP server that is reached by HTTP with server-sent events.

    Attributes:
        params: the parameters of the connection.
    """

    def __init__(
        self,
        params: MCPServerSseParams,
        cache_tools_list: bool = False,  # noqa: FBT001, FBT002  as the field has it
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        tool_filter: ToolFilter = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Store the options; open no connection yet.

        Args:
            params: the parameters of the connection.
            cache_tools_list: see `ConnectedServer`, also for the arguments below.
            name: default `sse: <url>`.
            client_session_timeout_seconds: see there.
            tool_filter: see there.
            **options: see `ServerOptions`.

        Raises:
            UserError: an argument is invalid.
        """
        check_params(params, MCPServerSseParams, "url", "MCPServerSse")
        self.params = params
        super().__init__(
            name or f"sse: {public_url(params['url'])}",
            cache_tools_list=cache_tools_list,
            client_session_timeout_seconds=client_session_timeout_seconds,
            tool_filter=tool_filter,
            **options,
        )

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that connects to the server."""
        return client_over(over_sse(self.params), self.message_handler)


class MCPServerStreamableHttp(ConnectedServer):
    """An MCP server that is reached by streamable HTTP.

    Attributes:
        params: the parameters of the connection.
    """

    def __init__(
        self,
        params: MCPServerStreamableHttpParams,
        cache_tools_list: bool = False,  # noqa: FBT001, FBT002  as the field has it
        name: str | None = None,
        client_session_timeout_seconds: float | None = 5,
        tool_filter: ToolFilter = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Store the options; open no connection yet.

        Args:
            params: the parameters of the connection.
            cache_tools_list: see `ConnectedServer`, also for the arguments below.
            name: default `streamable_http: <url>`.
            client_session_timeout_seconds: see there.
            tool_filter: see there.
            **options: see `ServerOptions`.

        Raises:
            UserError: an argument is invalid.
        """
        check_params(params, MCPServerStreamableHttpParams, "url", "MCPServerStreamableHttp")
        self.params = params
        super().__init__(
            name or f"streamable_http: {public_url(params['url'])}",
            cache_tools_list=cache_tools_list,
            client_session_timeout_seconds=client_session_timeout_seconds,
            tool_filter=tool_filter,
            **options,
        )

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        """Return a context manager that connects to the server."""
        return client_over(over_http(self.params, self.note_status), self.message_handler)
