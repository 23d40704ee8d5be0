"""The ways to an MCP server, and their parameters."""

import io
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from outlast.agents.errors import UserError
from outlast.mcp.transports import (
    MCPServerSseParams,
    MCPServerStdioParams,
    MCPServerStreamableHttpParams,
    check_params,
    client_over,
    http_client,
    over_http,
    over_sse,
    over_stdio,
    public_url,
    seconds,
)
from tests.mcp_servers import PROGRAM, Listening


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://host/mcp", "https://host/mcp"),
        ("https://ann:hunter2@host:8443/mcp?token=hunter2#x", "https://host:8443/mcp"),
    ],
)
def test_an_address_is_shown_without_what_is_secret(url: str, shown: str) -> None:
    assert public_url(url) == shown


def test_a_duration_is_seconds() -> None:
    assert (seconds(2), seconds(timedelta(minutes=1))) == (2.0, 60.0)


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        (MCPServerStdioParams, {"command": "server"}),
        (MCPServerStdioParams, {"command": "server", "args": ["-v"], "cwd": Path("/")}),
        (MCPServerSseParams, {"url": "http://host/sse", "headers": {}}),
        (MCPServerStreamableHttpParams, {"url": "http://host", "terminate_on_close": False}),
    ],
)
def test_parameters_that_fit(kind: type, fits: Any) -> None:
    check_params(fits, kind, next(iter(fits)), "S")


@pytest.mark.parametrize(
    ("kind", "wrong", "problem"),
    [
        (MCPServerStdioParams, None, "S: params needs 'command'"),
        (MCPServerStdioParams, {}, "Its keys are command, args"),
        (MCPServerStdioParams, {"command": ["server"]}, "S: params needs 'command', a string"),
        (MCPServerStdioParams, {"command": "server", "arg": []}, "S: params has no arg"),
        (MCPServerSseParams, {"url": "http://host", "cwd": "/"}, "S: params has no cwd"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(kind: type, wrong: Any, problem: str) -> None:
    required = next(iter(kind.__annotations__))
    with pytest.raises(UserError, match=problem):
        check_params(wrong, kind, required, "S")


@pytest.mark.parametrize("command", ["/nowhere/to/be/found", str(PROGRAM.parent)])
async def test_a_program_that_cannot_be_started_is_named(command: str) -> None:
    with pytest.raises(UserError, match=f"S: '{command}' cannot be started on this machine"):
        async with over_stdio({"command": command}, "S"):
            pass


@pytest.mark.full
async def test_headers_and_the_http_client_are_the_users() -> None:
    seen: list[Any] = []

    def factory(**options: Any) -> httpx2.AsyncClient:
        seen.append(options)
        return http_client(**options)

    async with Listening() as program:
        params: MCPServerStreamableHttpParams = {
            "url": program.url,
            "headers": {"x-tenant": "acme"},
            "timeout": timedelta(seconds=7),
            "sse_read_timeout": 60,
            "httpx_client_factory": factory,
        }
        async with client_over(over_http(params, print), None, note_tool=print) as client:
            assert client.server_info.name == "shelf"
    (options,) = seen
    assert options["headers"] == {"x-tenant": "acme"}
    assert (options["timeout"].connect, options["timeout"].read) == (7.0, 60.0)


@pytest.mark.full
async def test_the_older_way_over_http() -> None:
    async with (
        Listening("sse") as program,
        client_over(over_sse({"url": program.url}), None, note_tool=print) as client,
    ):
        assert client.server_info.name == "shelf"


@pytest.mark.full
@pytest.mark.parametrize("stderr", [None, io.StringIO()])
async def test_a_process_can_be_started_where_there_is_no_file_to_write_to(
    stderr: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, or without a console."""
    monkeypatch.setattr(sys, "__stderr__", stderr)
    params: MCPServerStdioParams = {"command": sys.executable, "args": [str(PROGRAM), "stdio"]}
    async with client_over(over_stdio(params, "S"), None, note_tool=print) as client:
        assert client.server_info.name == "shelf"
