"""MCP servers with a connection: listing, calling, and reconnecting.

A `ConnectedServer` connects on first use, and again after its connection broke, so the next attempt
finds a restarted server.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from datetime import timedelta
from typing import Any, ClassVar, NoReturn, TypeVar, Unpack
from weakref import WeakKeyDictionary

import anyio
import httpx2
import mcp.types as mcp_types
from mcp.shared.exceptions import MCPError

from outlast.agents.checks import check_fields, check_options
from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.errors import AgentsException, UserError
from outlast.agents.mcp.filters import ToolFilter, ToolFilterContext, check_tool_filter, filtered
from outlast.agents.mcp.replies import MCPInputRequired, MCPTask
from outlast.agents.mcp.server import (
    MCPConnectionError,
    MCPFault,
    MCPNotSent,
    MCPProtocolError,
    MCPReadError,
    MCPRefusal,
    MCPServer,
)
from outlast.agents.tools.definition import DEFAULT_TIMEOUT, ToolRetry
from outlast.loop.values import JsonObject
from outlast.mcp import tasks
from outlast.mcp.connection import Connection, OpeningTimeoutError, first_cause
from outlast.mcp.links import declined, links_in, without_links
from outlast.mcp.options import (
    RULES,
    CommonOptions,
    MessageHandler,
    ServerOptions,
    retry_of,
)

T = TypeVar("T")

PATIENCE = timedelta(seconds=30)
"""How long a server may take to start and initialize, and to list all its tools."""

CHECKED_AFTER_SECONDS = 1.0
"""How long a connection is idle before a call first checks that it still works."""

BROKEN = (OSError, anyio.ClosedResourceError, anyio.BrokenResourceError, httpx2.TransportError)
"""Errors of the protocol's client for a closed connection, besides its own error."""

PASSING_STATUSES = frozenset({408, 425, 429})
"""HTTP statuses below 500 that are worth a retry."""


class ConnectedServer(MCPServer):
    """An MCP server with one connection of this process for each event loop.

    Attributes:
        cache_tools_list: whether the tools are listed once, and not for every model call.
        client_session_timeout_seconds: the time-out of one answer; None or 0 for only the tool's
            own time-out.
        tool_filter: chooses the offered tools.
        max_list_pages: more pages of tools or prompts are an error.
        max_retry_attempts: see `ServerOptions`, also for the two waits.
        retry_backoff_seconds_base: see there.
        retry_backoff_seconds_max: see there.
        message_handler: called with the server's notifications.
        tasks: whether the server may answer calls with tasks and questions, see `ServerOptions`.
        starts_process: whether connecting starts the server, which takes time.
    """

    idempotency_meta_key: ClassVar[str | None] = "outlast/idempotency-key"
    starts_process: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        *,
        cache_tools_list: bool,
        client_session_timeout_seconds: float | None,
        tool_filter: ToolFilter,
        **options: Unpack[ServerOptions],
    ) -> None:
        """Store the options; nothing is opened. The arguments are those of the attributes.

        Raises:
            UserError: an argument is invalid.
        """
        owner = f"The MCP server {name!r}"
        check_options(owner, options, ServerOptions)
        shared: dict[str, Any] = {
            key: value for key, value in options.items() if key in CommonOptions.__annotations__
        }
        super().__init__(**shared)
        check_tool_filter(tool_filter, owner)
        self._name = name
        self.cache_tools_list = cache_tools_list
        self.client_session_timeout_seconds = client_session_timeout_seconds
        self.tool_filter = tool_filter
        self.max_list_pages: int | None = options.get("max_list_pages")
        self.message_handler: MessageHandler | None = options.get("message_handler")
        self.tasks: bool = options.get("tasks", not self.starts_process)
        self._task_timeout = options.get("task_timeout")
        self.max_retry_attempts: int | None = options.get("max_retry_attempts")
        self.retry_backoff_seconds_base: float = options.get("retry_backoff_seconds_base", 1.0)
        self.retry_backoff_seconds_max: float | None = options.get("retry_backoff_seconds_max")
        check_fields(self, RULES, owner)
        self._is_mute = False  # it did not initialize within its time to start
        self._status = 0  # of the newest HTTP error response
        self._stand_in: Any = None
        self._listed: list[Any] | None = None
        self._lists = 0
        self.listing_problems = {}
        self._connections: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = (
            WeakKeyDictionary()
        )

    @abstractmethod
    def open_client(self) -> AbstractAsyncContextManager[Any]:
        """Return a context that holds the protocol's client, connected."""

    @property
    def name(self) -> str:
        """The name of the server, for people."""
        return self._name

    @property
    def session(self) -> Any:
        """The protocol's session of this event loop, an `mcp.ClientSession`; None if not connected.

        A test may set a stand-in, which takes the place of the connection.
        """
        if self._stand_in is not None:
            return self._stand_in
        loop = asyncio._get_running_loop()  # noqa: SLF001  None outside of a loop
        connection = None if loop is None else self._connections.get(loop)
        client = None if connection is None or connection.is_over else connection.opened
        return None if client is None else client.session

    @session.setter
    def session(self, stand_in: Any) -> None:
        self._stand_in = stand_in

    @property
    def tool_timeout(self) -> timedelta:
        """The time-out of one attempt of a call, including connecting."""
        answer = timedelta(seconds=self.client_session_timeout_seconds or 0)
        return max(DEFAULT_TIMEOUT, answer + PATIENCE)

    @property
    def task_timeout(self) -> timedelta | None:
        """How long a call may take that the server answers with a task; None for any time."""
        return self._task_timeout

    @property
    def tool_retry(self) -> ToolRetry:
        """How failed calls are retried."""
        waits = self.retry_backoff_seconds_base, self.retry_backoff_seconds_max
        return retry_of(self.max_retry_attempts, *waits)

    @property
    def cached_tools(self) -> list[Any] | None:
        """A copy of the listed tools, before the filter; None before the first listing."""
        return None if self._listed is None else _copies(self._listed)

    def invalidate_tools_cache(self) -> None:
        """List the tools again the next time."""
        self._listed = None
        self._lists += 1

    async def connect(self) -> None:
        """Connect until `cleanup` is called, for all workers of this event loop.

        Raises:
            UserError: the server cannot be started here, or does not answer; the latter is also a
                ConnectionError.
            TimeoutError: the server does not answer in time.
        """
        connection = self._connection()
        connection.is_kept = True
        try:
            await self._request("connect", _do_nothing, patiently=True)
        except (ConnectionError, MCPFault, MCPRefusal) as error:
            raise MCPConnectionError(str(error)) from (error.__cause__ or error)

    async def cleanup(self) -> None:
        """Close the connection. The next use opens it again."""
        connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    async def release(self) -> None:
        """Close a connection that was opened on first use, unless it is in use."""
        connection = self._connections.get(asyncio.get_running_loop())
        if connection is not None and not connection.is_kept and not connection.is_in_use:
            await self.cleanup()

    async def list_tools(
        self, run_context: RunContextWrapper[Any] | None = None, agent: Any = None
    ) -> list[Any]:
        """Return copies of the tools that pass the filter, as `mcp.types.Tool`.

        Args:
            run_context: the run's context, for the filter.
            agent: the agent of the model call.

        Raises:
            UserError: there are more pages than allowed, or the server repeats itself.
            ConnectionError: the server cannot be reached.
            TimeoutError: the server does not answer in time.
            MCPFault: the server failed inside.
            MCPRefusal: the server answered with an error of the protocol.
            MCPProtocolError: the server's answer cannot be read.
        """
        tools = self._listed if self.cache_tools_list else None
        if tools is None:
            lists = self._lists
            tools = await self._tools()
            if lists == self._lists:
                self._listed = tools
        context = None
        if run_context is not None and agent is not None:
            context = ToolFilterContext(run_context, agent, self.name)
        return await filtered(_copies(tools), self.tool_filter, context)

    async def call_tool(
        self, tool_name: str, arguments: JsonObject | None, meta: JsonObject | None = None
    ) -> Any:
        """Call a tool, and return its `mcp.types.CallToolResult`.

        A task is polled until it is done, for `task_timeout` at most; in a run, its call is parked
        instead, see `start_call`.

        Args:
            tool_name: the tool, as the server names it.
            arguments: the arguments of the call.
            meta: the metadata of the call, sent as `_meta`.

        Raises:
            MCPNotSent: the server could not be reached; the call was not carried out.
            ConnectionError: the connection broke; the call may or may not have been carried out.
            TimeoutError: the server took too long, or its task did, which is cancelled.
            MCPFault: the server failed inside.
            MCPRefusal: the server answered with an error of the protocol, or asks something.
            MCPProtocolError: the server's answer cannot be read.
        """
        reply = await self._send_call(tool_name, arguments, meta)
        if isinstance(reply, MCPTask):
            reply = await self._ended(tool_name, reply)
        if isinstance(reply, MCPInputRequired | MCPTask):
            return self._result_of(tool_name, reply)
        return reply

    async def start_call(
        self,
        tool_name: str,
        arguments: JsonObject | None,
        meta: JsonObject | None = None,
        *,
        answers: JsonObject | None = None,
        state: str | None = None,
    ) -> Any:
        """Call a tool for a run, see `MCPServer.start_call`; it raises what `call_tool` does."""
        if type(self).call_tool is not ConnectedServer.call_tool:  # a program's own
            return await super().start_call(tool_name, arguments, meta)
        return await self._send_call(tool_name, arguments, meta, answers, state)

    async def get_task(self, task_id: str, tool_name: str) -> MCPTask:
        """Return the state of a task. It raises what `call_tool` does."""
        what = f"say how the task of {tool_name!r} is"
        return await self._read_with(
            what, lambda client: tasks.get_task(client, task_id, tool_name)
        )

    async def update_task(self, task_id: str, answers: JsonObject) -> None:
        """Send the answers to requests of a task. It raises what `call_tool` does."""
        what = "take the answers for a task"
        await self._read_with(what, lambda client: tasks.update_task(client, task_id, answers))

    async def cancel_task(self, task_id: str) -> None:
        """Ask the server to end a task. It raises what `call_tool` does."""
        what = "cancel a task"
        await self._read_with(what, lambda client: tasks.cancel_task(client, task_id))

    async def _send_call(
        self,
        tool_name: str,
        arguments: JsonObject | None,
        meta: JsonObject | None,
        answers: JsonObject | None = None,
        state: str | None = None,
    ) -> Any:
        what = f"run {tool_name!r}"
        options: dict[str, Any] = {} if meta is None else {"meta": meta}

        if declined(answers):
            refusal = MCPRefusal(
                f"The MCP server {self.name!r} did not run {tool_name!r}: {_DECLINED}"
            )
            refusal.words = _DECLINED
            raise refusal
        others = without_links(answers)

        async def send(client: Any) -> Any:
            try:
                if not self.tasks or not tasks.has_tasks(client):
                    return await client.call_tool(tool_name, arguments, **options)
                return await tasks.call(
                    client, tool_name, arguments, meta, answers=others, state=state
                )
            except MCPError as error:
                links = links_in(error.data)
                if error.code != mcp_types.URL_ELICITATION_REQUIRED or not links:
                    raise
                return MCPInputRequired(inputs=links)

        await self._reach(what)
        return await self._request(what, send)

    async def _ended(self, tool_name: str, task: MCPTask) -> MCPTask:
        """Poll a task until it ends or asks something, which cancels it."""
        limit = None if self.task_timeout is None else self.task_timeout.total_seconds()
        bound = asyncio.timeout(limit)
        try:
            async with bound:
                while task.status == "working":
                    await asyncio.sleep(task.poll_seconds())
                    task = await self.get_task(task.task_id, tool_name)
        except TimeoutError as error:
            if not bound.expired():
                raise
            await self.cancel_task(task.task_id)
            raise self._timeout_error(f"end the task of {tool_name!r}", limit or 0) from error
        if task.status == "input_required":
            await self.cancel_task(task.task_id)
        return task

    def _result_of(self, tool_name: str, reply: MCPInputRequired | MCPTask) -> Any:
        """Return the result of a task that has ended."""
        if isinstance(reply, MCPTask) and reply.status == "completed":
            return reply.result
        if isinstance(reply, MCPInputRequired) or reply.status == "input_required":
            why = "it asks something, which only a call in a run can answer"
        else:
            why = f"its task is {reply.status}. {reply.error or reply.message}".rstrip(" .")
        raise MCPRefusal(f"The MCP server {self.name!r} did not run {tool_name!r}: {why}.")

    async def list_prompts(self) -> Any:
        """Return the server's prompts, as `mcp.types.ListPromptsResult`."""
        prompts = await _for_programs(self._pages("list its prompts", "list_prompts", "prompts"))
        return mcp_types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt, as `mcp.types.GetPromptResult`."""
        reading = self._read(f"return the prompt {name!r}", "get_prompt", name, arguments)
        return await _for_programs(reading)

    async def list_resources(self, cursor: str | None = None) -> Any:
        """Return a page of the server's resources, as `mcp.types.ListResourcesResult`."""
        return await _for_programs(self._page("list its resources", "list_resources", cursor))

    async def list_resource_templates(self, cursor: str | None = None) -> Any:
        """Return a page of resource templates, as `mcp.types.ListResourceTemplatesResult`."""
        what = "list its templates"
        return await _for_programs(self._page(what, "list_resource_templates", cursor))

    async def read_resource(self, uri: str) -> Any:
        """Return a resource, as `mcp.types.ReadResourceResult`."""
        return await _for_programs(self._read(f"read {uri!r}", "read_resource", uri))

    def note_tool(self, name: str, problem: str) -> None:
        """Record that a listed tool is left out or changed; `problem` follows its name."""
        self.listing_problems = {**self.listing_problems, name: problem}

    def note_status(self, status: int) -> None:
        """Record the HTTP status of an error response."""
        self._status = status

    async def _tools(self) -> list[Any]:
        start = PATIENCE.total_seconds()
        seconds = start + max(start, self.client_session_timeout_seconds or 0)
        bound = asyncio.timeout(seconds)
        self.listing_problems = {}
        try:
            async with bound:
                return await self._pages("list its tools", "list_tools", "tools")
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise self._timeout_error("list its tools", seconds) from error

    async def _pages(self, what: str, method: str, entries: str) -> list[Any]:
        found: list[Any] = []
        cursors: list[str | None] = [None]
        while True:
            if self.max_list_pages is not None and len(cursors) > self.max_list_pages:
                raise UserError(
                    f"The MCP server {self.name!r} needs more than max_list_pages="
                    f"{self.max_list_pages} to {what}. Raise max_list_pages."
                )
            page = await self._page(what, method, cursors[-1])
            found.extend(getattr(page, entries))
            if page.next_cursor is None:
                return found
            if page.next_cursor in cursors:
                raise UserError(
                    f"The MCP server {self.name!r} sent a repeated cursor while listing {entries}."
                )
            cursors.append(page.next_cursor)

    async def _page(self, what: str, method: str, cursor: str | None) -> Any:
        options = {} if cursor is None else {"cursor": cursor}
        return await self._read(what, method, **options)

    async def _reach(self, what: str) -> None:
        """Open the connection, and check one that was idle, before a call that may have effects.

        Otherwise, a call to a server that has been restarted would fail without being repeated:
        nobody could say whether it was carried out.
        """
        try:
            if self._connection().idle_seconds > CHECKED_AFTER_SECONDS:
                with suppress(MCPRefusal):  # the server answers
                    await self._read(what, "list_tools")
            else:
                await self._request(what, _do_nothing)
        except (ConnectionError, TimeoutError, MCPFault) as error:
            raise MCPNotSent(str(error)) from error

    async def _read(self, what: str, method: str, *args: Any, **options: Any) -> Any:
        """Send a request without side effects; repeat it once if the connection broke."""
        return await self._read_with(what, lambda client: getattr(client, method)(*args, **options))

    async def _read_with(self, what: str, send: Callable[[Any], Awaitable[T]]) -> T:
        current = self._connections.get(asyncio.get_running_loop())
        try:
            return await self._request(what, send)
        except ConnectionError:
            if current is None or not current.is_over:  # it was just opened
                raise
        return await self._request(what, send)

    async def _request(
        self, what: str, send: Callable[[Any], Awaitable[T]], *, patiently: bool = False
    ) -> T:
        """Send a request to the server; `what` completes "could not" in messages.

        If `patiently`, wait for a connection as long as a server may take to start, instead of as
        long as for an answer.
        """
        connection = self._connection()
        patiently = patiently or (self.starts_process and not self._is_mute)
        limit = self.client_session_timeout_seconds or None
        bound = asyncio.timeout(None)
        try:
            async with connection.client(None if patiently else limit) as client, bound:
                if limit is not None:  # opening has its own time-out
                    bound.reschedule(asyncio.get_running_loop().time() + limit)
                return await send(client)
        except OpeningTimeoutError:
            raise  # it may open in time for the next attempt
        except MCPError as error:
            if _is_break(error):
                connection.abort()
                self._raise_unreachable(what, error)
            self._raise_refusal(what, error)
        except BROKEN as error:
            if bound.expired():  # the connection may still work
                raise self._timeout_error(what, limit or 0) from error
            connection.abort()
            if _is_no_http(error):
                self._raise_unreadable(what, error)
            self._raise_unreachable(what, error)
        except httpx2.HTTPStatusError as error:  # server-sent events initialize with it
            self._raise_status(what, error.response.status_code, error)
        except AgentsException:
            raise
        except ExceptionGroup as group:
            self._raise_unreachable(what, first_cause(group))
        except Exception as error:  # noqa: BLE001  any error of the protocol's client for invalid data
            self._raise_unreadable(what, error)

    def _connection(self) -> Connection:
        loop = asyncio.get_running_loop()
        current = self._connections.get(loop)
        if current is not None and not current.is_over:
            return current
        self._is_mute = current is not None and current.has_expired
        seconds = timedelta(seconds=self.client_session_timeout_seconds or 0)
        stand_in = self._stand_in
        made = self._connections[loop] = Connection(
            self.open_client if stand_in is None else lambda: nullcontext(stand_in),
            name=self.name,
            patience=max(PATIENCE, seconds),
            is_kept=current is not None and current.is_kept,
        )
        return made

    def _raise_unreachable(self, what: str, error: Exception) -> NoReturn:
        why = f"{type(error).__name__}: {error}"
        raise ConnectionError(
            f"The MCP server {self.name!r} could not {what}: its connection "
            f"broke or could not be opened ({why})."
        ) from error

    def _raise_unreadable(self, what: str, error: Exception) -> NoReturn:
        raise MCPProtocolError(
            f"The MCP server {self.name!r} could not {what}, or its response cannot be "
            f"read ({type(error).__name__}: {error})."
        ) from error

    def _timeout_error(self, what: str, seconds: float) -> TimeoutError:
        return TimeoutError(f"The MCP server {self.name!r} took longer than {seconds} s to {what}.")

    def _raise_refusal(self, what: str, error: MCPError) -> NoReturn:
        if error.code == mcp_types.INTERNAL_ERROR and error.message == _ERROR_RESPONSE:
            self._raise_status(what, self._status, error)
        if error.code == mcp_types.PARSE_ERROR:  # raised here, about the server's answer
            self._raise_unreadable(what, error)
        message = f"The MCP server {self.name!r} refused to {what}: {error.message}"
        kind = MCPFault if error.code == mcp_types.INTERNAL_ERROR else MCPRefusal
        refusal = kind(message)
        refusal.words = error.message
        raise refusal from error

    def _raise_status(self, what: str, status: int, error: Exception) -> NoReturn:
        message = f"The MCP server {self.name!r} refused to {what}: HTTP error {status}"
        if 400 <= status < 500 and status not in PASSING_STATUSES:
            raise MCPRefusal(message) from error
        raise MCPFault(message) from error


_DECLINED = "A person has to open a link first, and has declined."

_ERROR_RESPONSE = "Server returned an error response"
"""The protocol client's message for an HTTP error status without an error of the protocol."""


async def _for_programs(reading: Awaitable[T]) -> T:
    """Return what a program asked a server for, with the errors that programs know."""
    try:
        return await reading
    except (ConnectionError, MCPFault, MCPRefusal, MCPProtocolError) as error:
        kind = MCPReadError if isinstance(error, MCPProtocolError) else MCPConnectionError
        failure = kind(str(error))
    raise failure


async def _do_nothing(client: object) -> None:
    del client


def _is_no_http(error: BaseException) -> bool:
    if isinstance(error, httpx2.LocalProtocolError | httpx2.UnsupportedProtocol):
        return True
    hung_up = any(word in str(error) for word in ("disconnected", "closed connection"))
    return isinstance(error, httpx2.RemoteProtocolError) and not hung_up


def _is_break(error: MCPError) -> bool:
    """Whether an error means that this connection cannot be used any more.

    A restarted server does not have the session; there is no single error code for that.
    """
    if error.code == mcp_types.CONNECTION_CLOSED:
        return True
    codes = (mcp_types.INVALID_REQUEST, mcp_types.REQUEST_TIMEOUT)
    return error.code in codes and "session" in error.message.lower()


def _copies(tools: list[Any]) -> list[Any]:
    return [tool.model_copy(deep=True) for tool in tools]
