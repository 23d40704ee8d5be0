"""MCP transports: a process, server-sent events, streamable HTTP.

Uses the `mcp` package and its HTTP client; `connected_server.py` handles their errors.
"""

import contextlib
import importlib.metadata
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, TextIO, TypeAlias, TypedDict, cast
from urllib.parse import urlsplit, urlunsplit

import httpx2
import mcp.types as mcp_types
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from outlast.agents.errors import UserError
from outlast.agents.json_values import is_mapping
from outlast.edges.bodies import DOORS
from outlast.edges.bodies.answers import bound_answers
from outlast.mcp.options import MessageHandler
from outlast.mcp.repairs import NoteTool, Repairs
from outlast.mcp.stdio import bounded_stdio
from outlast.mcp.tasks import TasksExtension, declaring_questions

HttpClientFactory: TypeAlias = Callable[..., httpx2.AsyncClient]
"""Called with headers=, timeout= and auth=; returns the HTTP client to use."""

HTTP_TIMEOUT_SECONDS = 5.0  # as in the SDK
READ_TIMEOUT_SECONDS = 300.0  # likewise: a call may take minutes


class MCPServerStdioParams(TypedDict, total=False):
    """The parameters of a server that the worker starts as a child process.

    Attributes:
        command: the program.
        args: the arguments of the program.
        env: environment variables, in addition to the few that the process inherits.
        cwd: the working directory.
        encoding: the encoding of messages; default UTF-8.
        encoding_error_handler: the handling of undecodable bytes; default `strict`.
    """

    command: Required[str]
    args: list[str]
    env: dict[str, str]
    cwd: str | Path
    encoding: str
    encoding_error_handler: Literal["strict", "ignore", "replace"]


class MCPServerSseParams(TypedDict):
    """The parameters of a server that is reached by HTTP with server-sent events.

    Attributes:
        url: the server's URL.
        headers: the headers of each request.
        timeout: the time-out of a request, in seconds; default 5.
        sse_read_timeout: the longest wait for data from the server, in seconds; default 300.
        auth: an `httpx2.Auth`.
        httpx_client_factory: makes the HTTP client.
    """

    url: str
    headers: NotRequired[dict[str, str]]
    timeout: NotRequired[timedelta | float]
    sse_read_timeout: NotRequired[timedelta | float]
    auth: NotRequired[Any]
    httpx_client_factory: NotRequired[HttpClientFactory]


class MCPServerStreamableHttpParams(MCPServerSseParams):
    """The parameters of a server that is reached by streamable HTTP.

    They are those of `MCPServerSseParams`, and one more.

    Attributes:
        terminate_on_close: whether closing the connection ends the server's session; default true.
    """

    terminate_on_close: NotRequired[bool]


@contextlib.asynccontextmanager
async def client_over(
    streams: AbstractAsyncContextManager[Any],
    message_handler: MessageHandler | None,
    *,
    note_tool: NoteTool,
    tasks: bool = False,
) -> AsyncGenerator[Any]:
    """Open the protocol's client over a transport; `ConnectedServer` caches.

    Args:
        streams: the transport.
        message_handler: called with the server's notifications.
        note_tool: called for each listed tool that is left out or changed.
        tasks: the client declares that it takes tasks and questions for answers to calls.
    """
    version = importlib.metadata.version("outlast")
    repairs = Repairs(note_tool)
    repaired = repairs.over(streams)
    async with Client(
        declaring_questions(repaired) if tasks else repaired,
        cache=None,
        extensions=[TasksExtension()] if tasks else None,
        client_info=mcp_types.Implementation(name="outlast", version=version),
        message_handler=cast("Any", message_handler),
    ) as client:
        repairs.attach(client)
        yield client


@contextlib.asynccontextmanager
async def over_stdio(params: MCPServerStdioParams, owner: str) -> AsyncGenerator[Any]:
    """Start a server's process; a `UserError` if the program is missing or may not be executed."""
    parameters = StdioServerParameters(**params)
    log = _log()
    streams = bounded_stdio(parameters, log)
    try:
        opened = await streams.__aenter__()
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise UserError(
            f"{owner}: {parameters.command!r} cannot be started on this machine: {error}. Install "
            "it where the worker runs, or correct params['command'] and params['cwd']."
        ) from error
    finally:
        if log is not sys.__stderr__:
            log.close()  # the process has inherited the file
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_exit(streams)
        yield opened


def _log() -> TextIO:
    """Return a file for a server's standard error; `sys.stderr` may be none, as in a notebook."""
    with contextlib.suppress(OSError, ValueError):
        if sys.__stderr__ is not None:
            sys.__stderr__.fileno()
            return sys.__stderr__
    return Path(os.devnull).open("w", encoding="utf-8")


@contextlib.asynccontextmanager
async def over_http(
    params: MCPServerStreamableHttpParams, on_error_status: Callable[[int], None]
) -> AsyncGenerator[Any]:
    """Open a streamable HTTP transport to a server.

    `on_error_status` gets each response status of 400 or above: the protocol's client does not
    report them.
    """

    async def note_status(response: httpx2.Response) -> None:
        if response.status_code >= 400:
            on_error_status(response.status_code)

    factory = params.get("httpx_client_factory", http_client)
    timeout = httpx2.Timeout(
        seconds(params.get("timeout", HTTP_TIMEOUT_SECONDS)),
        read=seconds(params.get("sse_read_timeout", READ_TIMEOUT_SECONDS)),
    )
    headers, auth = params.get("headers"), params.get("auth")
    async with (
        factory(headers=headers, timeout=timeout, auth=auth) as client,
        streamable_http_client(
            params["url"],
            http_client=client,
            terminate_on_close=params.get("terminate_on_close", True),
        ) as streams,
    ):
        client.event_hooks["response"].append(note_status)
        end_bounds = bound_answers(client, DOORS["mcp"])
        try:
            yield streams
        finally:
            end_bounds()
            client.event_hooks["response"].remove(note_status)


def over_sse(params: MCPServerSseParams) -> AbstractAsyncContextManager[Any]:
    """Open a transport to a server with server-sent events."""
    factory = params.get("httpx_client_factory", http_client)

    def bounded_client(**options: Any) -> httpx2.AsyncClient:
        client = factory(**options)
        bound_answers(client, DOORS["mcp"])
        return client

    return sse_client(
        params["url"],
        headers=params.get("headers"),
        timeout=seconds(params.get("timeout", HTTP_TIMEOUT_SECONDS)),
        sse_read_timeout=seconds(params.get("sse_read_timeout", READ_TIMEOUT_SECONDS)),
        httpx_client_factory=cast("Any", bounded_client),
        auth=params.get("auth"),
    )


def http_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None
) -> httpx2.AsyncClient:
    """Return the default HTTP client."""
    return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth)


def public_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def seconds(duration: timedelta | float) -> float:
    """Return a duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def check_params(params: object, kind: type, required: str, owner: str) -> None:
    """Check the parameters of a server when it is constructed."""
    keys = ", ".join(kind.__annotations__)
    fields: Mapping[str, object] = params if is_mapping(params) else {}
    if not isinstance(fields.get(required), str):
        raise UserError(f"{owner}: params needs {required!r}, a string. Its keys are {keys}.")
    if unknown := sorted(str(name) for name in fields if name not in kind.__annotations__):
        raise UserError(f"{owner}: params has no {', '.join(unknown)}. Its keys are {keys}.")
