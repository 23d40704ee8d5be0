"""The extension `io.modelcontextprotocol/tasks` on the wire, revision 2026-07-28.

The `mcp` package has the means for extensions, but not this one: its capability, its results and its
three requests are here. They go through the package's session, as its own requests do.
"""

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Annotated, Any, Literal, TypeAlias, cast

import mcp.types as mcp_types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import BeforeValidator, Field

from outlast.agents.mcp.replies import MCPInputRequired, MCPTask
from outlast.loop.values import JsonObject
from outlast.mcp.wrapped_streams import WrappedStream

EXTENSION = "io.modelcontextprotocol/tasks"

PROTOCOL_VERSIONS = frozenset({"2026-07-28"})
"""The versions of the protocol in which this extension may be used."""

LONGEST_ID = 500
"""The maximum length of a task's id, in characters: it travels in a header, and stays in the run."""


def _number(value: object) -> float | None:
    """Return a number, or None: a hint of the server that makes no sense is no hint."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) and value >= 0 else None


_Hint: TypeAlias = Annotated[float | None, BeforeValidator(_number)]
_Words: TypeAlias = Annotated[
    str, BeforeValidator(lambda value: value if isinstance(value, str) else "")
]


class _Created(mcp_types.Result):
    """The answer to a call: a task has begun."""

    result_type: Literal["task"]
    task_id: str = Field(min_length=1, max_length=LONGEST_ID)
    status_message: _Words = ""
    ttl_ms: _Hint = None
    poll_interval_ms: _Hint = None


class _State(mcp_types.Result):
    """The answer to `tasks/get`."""

    task_id: str
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: _Words = ""
    ttl_ms: _Hint = None
    poll_interval_ms: _Hint = None
    result: JsonObject | None = None
    error: JsonObject | None = None
    input_requests: dict[str, JsonObject] | None = None


class _TaskParams(mcp_types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: JsonObject


class _Get(mcp_types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"  # for the header Mcp-Name


class _Update(mcp_types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _Cancel(mcp_types.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class TasksExtension(ClientExtension):
    """Declares that calls may be answered with a task."""

    identifier = EXTENSION

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the result of a call that is a task; `call` reads it."""
        return (
            ResultClaim(
                result_type="task",
                model=_Created,
                resolve=_unresolved,
                protocol_versions=PROTOCOL_VERSIONS,
            ),
        )


async def _unresolved(_result: _Created, _context: ClaimContext) -> mcp_types.CallToolResult:
    raise RuntimeError("calls go through the session, which leaves tasks to the caller")


def has_tasks(client: Any) -> bool:
    """Whether a client speaks a version of the protocol in which calls may be tasks."""
    return getattr(client, "protocol_version", None) in PROTOCOL_VERSIONS


async def call(
    client: Any,
    tool_name: str,
    arguments: JsonObject | None,
    meta: JsonObject | None,
    *,
    answers: JsonObject | None = None,
    state: str | None = None,
) -> mcp_types.CallToolResult | MCPTask | MCPInputRequired:
    """Call a tool; the arguments are those of `MCPServer.start_call`."""

    async def send() -> Any:
        return await client.session.call_tool(
            tool_name,
            arguments,
            meta=meta,
            input_responses=None if answers is None else _read_answers(answers),
            request_state=state,
            allow_input_required=True,
            allow_claimed=True,
        )

    try:
        reply = await send()
    except MCPError as error:
        if error.code != mcp_types.HEADER_MISMATCH:
            raise
        await _list_all(client)  # the session learns from it which arguments are headers, too
        reply = await send()
    if isinstance(reply, _Created):
        return MCPTask(
            task_id=reply.task_id,
            message=reply.status_message,
            poll_interval_ms=reply.poll_interval_ms,
            ttl_ms=reply.ttl_ms or None,
        )
    if isinstance(reply, mcp_types.InputRequiredResult):
        inputs = {key: _plain(one) for key, one in (reply.input_requests or {}).items()}
        return MCPInputRequired(inputs=inputs, state=reply.request_state)
    return cast("mcp_types.CallToolResult", reply)


async def get_task(client: Any, task_id: str, tool_name: str) -> MCPTask:
    """Return the state of a task; a result is checked as that of a direct call is."""
    try:
        found: _State = await client.session.send_request(
            _Get(params=_TaskParams(task_id=task_id)), _State
        )
    except MCPError as error:
        if error.code != mcp_types.INVALID_PARAMS:
            raise
        return MCPTask(task_id=task_id, status="unknown", message=error.message)
    if found.task_id != task_id:
        raise ValueError("the server answered about another task")
    result = None
    if found.status == "completed":
        result = mcp_types.CallToolResult.model_validate(found.result, by_name=False)
        if not result.is_error:
            await client.session.validate_tool_result(tool_name, result)
    error_words = (found.error or {}).get("message")
    return MCPTask(
        task_id=task_id,
        status=found.status,
        message=found.status_message,
        poll_interval_ms=found.poll_interval_ms,
        ttl_ms=found.ttl_ms or None,
        result=result,
        error=error_words if isinstance(error_words, str) else "",
        inputs=found.input_requests or {},
    )


async def update_task(client: Any, task_id: str, answers: JsonObject) -> None:
    """Send the answers to requests of a task, by the keys of the requests."""
    params = _UpdateParams(task_id=task_id, input_responses=answers)
    await client.session.send_request(_Update(params=params), mcp_types.EmptyResult)


async def cancel_task(client: Any, task_id: str) -> None:
    """Ask for the end of a task. The server decides whether and when it ends."""
    params = _TaskParams(task_id=task_id)
    await client.session.send_request(_Cancel(params=params), mcp_types.EmptyResult)


async def _list_all(client: Any) -> None:
    cursor: str | None = None
    seen: set[str | None] = set()
    while cursor not in seen:
        seen.add(cursor)
        cursor = (
            await client.list_tools(**({} if cursor is None else {"cursor": cursor}))
        ).next_cursor
        if cursor is None:
            return


def _plain(request: Any) -> JsonObject:
    return cast("JsonObject", request.model_dump(by_alias=True, mode="json", exclude_none=True))


def _read_answers(answers: JsonObject) -> dict[str, mcp_types.ElicitResult]:
    return {key: mcp_types.ElicitResult.model_validate(one) for key, one in answers.items()}


# --- The other capability that tasks need ------------------------------------------------------------


@asynccontextmanager
async def declaring_questions(streams: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any]:
    """Open a transport on which each request declares that people can be asked by form and by link.

    The package would declare this also to servers of earlier versions, which ask in the middle of a
    call. Requests of those versions have no capabilities, and stay as they are.
    """
    async with streams as (read, write):
        yield read, _Declaring(write)


class _Declaring(WrappedStream):
    async def send(self, item: SessionMessage, /) -> None:
        params = cast("JsonObject", getattr(item.message, "params", None) or {})
        meta = cast("JsonObject", params.get("_meta") or {})
        declared = cast("JsonObject | None", meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY))
        if declared is not None:
            questions: JsonObject = {"elicitation": {"form": {}, "url": {}}}
            meta[mcp_types.CLIENT_CAPABILITIES_META_KEY] = {**declared, **questions}
        await self._stream.send(item)
