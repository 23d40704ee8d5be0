"""Listing and calling, and what is done when a connection breaks."""

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import anyio
import httpx2
import mcp.types as mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import UserError
from outlast.agents.mcp.filters import create_static_tool_filter
from outlast.agents.mcp.server import MCPFault, MCPNotSent, MCPProtocolError, MCPRefusal
from outlast.agents.tools.definition import DEFAULT_TIMEOUT
from outlast.mcp import connected_server
from outlast.mcp.connected_server import ConnectedServer
from tests.mcp_servers import said, tool

CLOSED = MCPError(mcp_types.CONNECTION_CLOSED, "Connection closed")


class Client:
    """The protocol's client, played.

    Attributes:
        pages: of tools, by cursor.
        outcomes: what the next requests come to, before the usual.
        asked: the requests.
    """

    session = "the session"

    def __init__(self, *outcomes: Any) -> None:
        self.pages: dict[str | None, tuple[list[str], str | None]] = {None: (["find"], None)}
        self.outcomes = list(outcomes)
        self.asked: list[Any] = []

    async def list_tools(self, *, cursor: str | None = None) -> Any:
        await self._note("list", cursor)
        names, following = self.pages[cursor]
        return SimpleNamespace(tools=[tool(name) for name in names], next_cursor=following)

    async def call_tool(self, name: str, arguments: Any, **options: Any) -> Any:
        await self._note(name, arguments, options)
        return said("done")

    async def _note(self, *asked: Any) -> None:
        self.asked.append(asked)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            await outcome()


class Played(ConnectedServer):
    """A server whose client is played.

    Attributes:
        client: the client.
        opened: how often it was connected to.
        closed: how often that ended.
    """

    def __init__(self, client: Client | None = None, **options: Any) -> None:
        given: dict[str, Any] = {
            "cache_tools_list": False,
            "client_session_timeout_seconds": 5,
            "tool_filter": None,
            **options,
        }
        super().__init__("shelf", **given)
        self.client = client or Client()
        self.opened = self.closed = 0
        self.fails: Exception | None = None

    def open_client(self) -> AbstractAsyncContextManager[Any]:
        return self._opened()

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Client]:
        if self.fails is not None:
            raise self.fails
        self.opened += 1
        try:
            yield self.client
        finally:
            self.closed += 1


Serve = Callable[..., Played]


@pytest.fixture
async def serve() -> AsyncGenerator[Serve]:
    """Make servers that are let go when the test ends."""
    made: list[Played] = []

    def make(*outcomes: Any, **options: Any) -> Played:
        made.append(Played(Client(*outcomes), **options))
        return made[-1]

    yield make
    for server in made:
        await server.cleanup()


def names(tools: list[Any]) -> list[str]:
    return [one.name for one in tools]


async def test_it_connects_when_it_is_first_used_and_stays_so(serve: Serve) -> None:
    server = serve()
    assert server.opened == 0
    assert names(await server.list_tools()) == ["find"]
    assert (await server.call_tool("find", {"a": 1}, {"m": 2})).content[0].text == "done"
    await server.call_tool("find", None)
    assert server.client.asked == [
        ("list", None),
        ("find", {"a": 1}, {"meta": {"m": 2}}),
        ("find", None, {}),
    ]
    assert (server.opened, server.closed) == (1, 0)


async def test_many_who_come_at_once_share_the_connection(serve: Serve) -> None:
    server = serve()
    await asyncio.gather(*(server.call_tool("find", {}) for _ in range(20)))
    assert server.opened == 1


async def test_what_the_caller_connected_a_worker_leaves_alone(serve: Serve) -> None:
    server = serve()
    async with server:
        await server.list_tools()
        await server.release()
        assert (server.opened, server.closed) == (1, 0)
    assert server.closed == 1


async def test_what_was_opened_on_first_use_is_released(serve: Serve) -> None:
    server = serve()
    await server.release()
    await server.list_tools()
    await server.release()
    assert (server.opened, server.closed) == (1, 1)
    await server.list_tools()
    assert server.opened == 2


async def test_what_is_in_use_is_not_released(serve: Serve) -> None:
    going, goes_on = asyncio.Event(), asyncio.Event()

    async def long() -> None:
        going.set()
        await goes_on.wait()

    server = serve(long)
    calling = asyncio.create_task(server.call_tool("find", {}))
    await going.wait()
    await server.release()
    assert server.closed == 0
    goes_on.set()
    await calling


@pytest.mark.parametrize(
    "error",
    [
        CLOSED,
        MCPError(mcp_types.INVALID_REQUEST, "Session terminated"),
        MCPError(-32001, "Session not found"),
        anyio.ClosedResourceError(),
        anyio.BrokenResourceError(),
        BrokenPipeError(),
        TimeoutError("the transport's own"),
    ],
)
async def test_a_call_whose_connection_broke_fails_and_the_next_one_connects_anew(
    error: Exception, serve: Serve
) -> None:
    server = serve(error)
    with pytest.raises(ConnectionError, match="'shelf' could not run 'find'"):
        await server.call_tool("find", {})
    assert (await server.call_tool("find", {})).content[0].text == "done"
    assert server.opened == 2


async def test_a_call_of_a_server_that_cannot_be_opened_says_that_it_was_not_sent(
    serve: Serve,
) -> None:
    server = serve()
    server.fails = ConnectionRefusedError("nobody there")
    with pytest.raises(MCPNotSent, match=r"could not run 'find'.*nobody there"):
        await server.call_tool("find", {})
    assert server.client.asked == []


@pytest.mark.parametrize("lost", [CLOSED, MCPError(mcp_types.INVALID_REQUEST, "Session expired")])
async def test_a_connection_that_was_idle_is_checked_before_a_call(
    lost: Exception, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    await server.list_tools()
    monkeypatch.setattr(connected_server, "CHECKED_AFTER_SECONDS", -1.0)
    server.client.outcomes.append(lost)
    assert (await server.call_tool("find", {})).content[0].text == "done"
    assert server.opened == 2
    assert [one[0] for one in server.client.asked] == ["list", "list", "list", "find"]


async def test_a_server_that_refuses_the_check_is_called(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connected_server, "CHECKED_AFTER_SECONDS", -1.0)
    server = serve(MCPError(mcp_types.METHOD_NOT_FOUND, "Method not found"))
    assert (await server.call_tool("find", {})).content[0].text == "done"
    assert server.opened == 1


async def test_listing_is_tried_again_at_once_where_the_connection_had_broken(
    serve: Serve,
) -> None:
    server = serve()
    await server.list_tools()
    server.client.outcomes.append(CLOSED)
    assert names(await server.list_tools()) == ["find"]
    assert server.opened == 2


async def test_listing_fails_where_a_new_connection_breaks(serve: Serve) -> None:
    server = serve(CLOSED)
    with pytest.raises(ConnectionError, match="could not list its tools"):
        await server.list_tools()
    assert server.opened == 1


async def test_what_the_caller_connected_stays_the_callers_when_it_is_opened_anew(
    serve: Serve,
) -> None:
    server = serve()
    await server.connect()
    server.client.outcomes.append(CLOSED)
    await server.list_tools()
    await server.release()
    assert (server.opened, server.closed) == (2, 1)


async def test_a_server_that_cannot_be_reached(serve: Serve) -> None:
    server = serve()
    server.fails = ExceptionGroup("", [ConnectionRefusedError("nobody there")])
    with pytest.raises(UserError, match="nobody there") as caught:
        await server.connect()
    assert isinstance(caught.value, ConnectionError)
    assert caught.value.code == "user_error"
    with pytest.raises(ConnectionError, match="nobody there") as listing:
        await server.list_tools()
    assert not isinstance(listing.value, UserError), "a retry may help"
    server.fails = UserError("no such program")
    with pytest.raises(UserError, match="no such program"):
        await server.list_tools()
    server.fails = None
    await server.list_tools()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (mcp_types.INVALID_PARAMS, MCPRefusal),
        (mcp_types.METHOD_NOT_FOUND, MCPRefusal),
        (mcp_types.INVALID_REQUEST, MCPRefusal),
        (mcp_types.INTERNAL_ERROR, MCPFault),
    ],
)
async def test_what_a_server_refuses_is_not_the_connections_fault(
    code: int, kind: type[Exception], serve: Serve
) -> None:
    server = serve(MCPError(code, "I will not"))
    with pytest.raises(kind, match="'shelf' refused to run 'find': I will not"):
        await server.call_tool("find", {})
    await server.call_tool("find", {})
    assert server.opened == 1


@pytest.mark.parametrize(
    "error",
    [
        MCPError(mcp_types.PARSE_ERROR, "Failed to parse JSON response"),
        RuntimeError("Unsupported protocol version from the server: 1"),
        ValueError("1 validation error for ListToolsResult"),
        httpx2.RemoteProtocolError("illegal status line: b'SSH-2.0'"),
        httpx2.DecodingError("not gzip"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_said_to_be_none(
    error: Exception, serve: Serve
) -> None:
    with pytest.raises(MCPProtocolError, match="'shelf' could not list its tools, or"):
        await serve(error).list_tools()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, MCPRefusal), (400, MCPRefusal), (429, MCPFault), (500, MCPFault), (503, MCPFault)],
)
async def test_an_http_status_says_whether_another_try_can_help(
    status: int, kind: type[Exception], serve: Serve
) -> None:
    async def answer() -> None:
        server.note_status(status)
        raise MCPError(mcp_types.INTERNAL_ERROR, "Server returned an error response")

    server = serve(answer)
    with pytest.raises(kind, match=f"HTTP error {status}"):
        await server.list_tools()
    request = httpx2.Request("GET", "http://shelf")
    response = httpx2.Response(status, request=request)
    server.client.outcomes.append(httpx2.HTTPStatusError("", request=request, response=response))
    with pytest.raises(kind, match=f"HTTP error {status}"):
        await server.list_tools()


async def test_a_server_that_hangs_up_is_restarted_and_speaks_no_nonsense(serve: Serve) -> None:
    server = serve(httpx2.RemoteProtocolError("Server disconnected without sending a response."))
    with pytest.raises(ConnectionError, match="'shelf' could not list its tools"):
        await server.list_tools()


async def test_pages_without_an_end_have_one_in_time(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Endless(Client):
        async def list_tools(self, *, cursor: str | None = None) -> Any:
            await asyncio.sleep(0)
            return SimpleNamespace(tools=[], next_cursor=f"{cursor}+")

    monkeypatch.setattr("outlast.mcp.connected_server.PATIENCE", timedelta(milliseconds=20))
    server = serve(client_session_timeout_seconds=0.01)
    server.client = Endless()
    with pytest.raises(
        TimeoutError, match=r"'shelf' took longer than 0\.0[14] s to list its tools"
    ):
        await server.list_tools()


async def test_a_server_that_takes_too_long_keeps_its_connection(serve: Serve) -> None:
    server = serve(asyncio.Event().wait, client_session_timeout_seconds=0.001)
    with pytest.raises(TimeoutError, match=r"'shelf' took longer than 0.001 s to run 'find'"):
        await server.call_tool("find", {})
    await server.call_tool("find", {})
    assert server.opened == 1


@pytest.mark.parametrize("none", [None, 0])
async def test_without_a_bound_of_its_own_the_tool_has_one(none: Any, serve: Serve) -> None:
    server = serve(client_session_timeout_seconds=none)
    await server.list_tools()
    assert server.tool_timeout == DEFAULT_TIMEOUT


def test_a_tool_may_take_as_long_as_its_server() -> None:
    server = Played(client_session_timeout_seconds=600)
    assert server.tool_timeout > timedelta(seconds=600)


async def test_tools_come_in_pages(serve: Serve) -> None:
    server = serve()
    server.client.pages = {None: (["a"], "2"), "2": (["b"], "3"), "3": (["c"], None)}
    assert names(await server.list_tools()) == ["a", "b", "c"]


async def test_too_many_pages_are_an_error(serve: Serve) -> None:
    server = serve(max_list_pages=1)
    assert names(await server.list_tools()) == ["find"]
    server.client.pages = {None: (["a"], "2"), "2": (["b"], None)}
    with pytest.raises(UserError, match="more than max_list_pages=1"):
        await server.list_tools()


async def test_a_server_that_repeats_itself_is_an_error(serve: Serve) -> None:
    server = serve()
    server.client.pages = {None: (["a"], "2"), "2": (["b"], "2")}
    with pytest.raises(UserError, match="repeated cursor while listing tools"):
        await server.list_tools()


async def test_tools_are_listed_each_time_unless_they_are_kept(serve: Serve) -> None:
    server = serve()
    await server.list_tools()
    await server.list_tools()
    assert len(server.client.asked) == 2


async def test_kept_tools_are_listed_once_until_they_are_not_good_any_more(serve: Serve) -> None:
    server = serve(cache_tools_list=True)
    assert server.cached_tools is None
    first = await server.list_tools()
    first[0].name = "changed"
    assert names(await server.list_tools()) == names(server.cached_tools or []) == ["find"]
    assert len(server.client.asked) == 1
    server.invalidate_tools_cache()
    await server.list_tools()
    assert len(server.client.asked) == 2


async def test_a_list_that_was_outdated_while_it_was_made_is_not_kept(serve: Serve) -> None:
    async def outdate() -> None:
        server.invalidate_tools_cache()

    server = serve(outdate, cache_tools_list=True)
    await server.list_tools()
    assert server.cached_tools is None


async def test_the_filter_comes_after_what_is_kept(serve: Serve) -> None:
    chosen = create_static_tool_filter(allowed_tool_names=["b"])
    server = serve(cache_tools_list=True, tool_filter=chosen)
    server.client.pages = {None: (["a", "b"], None)}
    assert names(await server.list_tools()) == ["b"]
    assert names(server.cached_tools or []) == ["a", "b"]


async def test_a_callable_filter_is_told_for_whom(serve: Serve) -> None:
    def for_staff(context: Any, _tool: Any) -> bool:
        return context.run_context.context == "staff" and context.agent == "the agent"

    server = serve(tool_filter=for_staff)
    assert names(await server.list_tools(RunContextWrapper("staff"), "the agent")) == ["find"]
    assert await server.list_tools(RunContextWrapper("guest"), "the agent") == []
    with pytest.raises(UserError, match="run_context and agent are required"):
        await server.list_tools()


def test_every_event_loop_has_a_connection_of_its_own() -> None:
    server = Played()

    async def use() -> None:
        await server.list_tools()
        await server.cleanup()

    asyncio.run(use())
    asyncio.run(use())
    assert (server.opened, server.closed) == (2, 2)


def test_a_connection_that_nobody_closes_ends_with_its_event_loop() -> None:
    server = Played()
    asyncio.run(server.list_tools())
    assert (server.opened, server.closed) == (1, 1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_retries": 1}, "The MCP server 'shelf' has no option max_retries"),
        ({"tool_filter": ["find"]}, "'shelf': tool_filter must be callable"),
        ({"max_list_pages": 0}, "'shelf': max_list_pages must be a whole number from 1, or None"),
        ({"max_list_pages": True}, "'shelf': max_list_pages"),
        ({"client_session_timeout_seconds": -1}, "'shelf': client_session_timeout_seconds"),
        ({"require_approval": "perhaps"}, "require_approval is 'perhaps'"),
        ({"required": "yes"}, "required must be True or False, not 'yes'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Played(**options)


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("list_prompts", ()),
        ("get_prompt", ("a",)),
        ("list_resources", ("next",)),
        ("read_resource", ("a",)),
    ],
)
async def test_a_program_reads_an_error_without_the_request(
    serve: Serve, method: str, arguments: tuple[Any, ...]
) -> None:
    request = httpx2.Request("POST", "https://ann:pw@x.example/mcp", content="SECRET")
    for error in (
        httpx2.ReadError("request failed", request=request),
        httpx2.HTTPStatusError(
            "SECRET", request=request, response=httpx2.Response(503, request=request)
        ),
        ExceptionGroup("SECRET", [httpx2.ConnectError("gone", request=request)]),
    ):
        server = serve()
        server.session = AsyncMock(**{f"{method}.side_effect": error})
        with pytest.raises(UserError) as caught:
            await getattr(server, method)(*arguments)
        assert isinstance(caught.value, ConnectionError)
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)
        assert "SECRET" not in "".join(traceback.format_exception(caught.value))


async def test_a_server_has_a_session_while_it_is_connected(serve: Serve) -> None:
    server = serve()
    assert server.session is None
    async with server:
        assert server.session == "the session"
    assert server.session is None
