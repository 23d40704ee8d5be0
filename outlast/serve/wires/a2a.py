"""Agent2Agent 1.0: agents of others find an agent by its card, and give it tasks.

    GET  /a2a/{agent}/.well-known/agent-card.json    the card, for everybody
    POST /a2a/{agent}                                JSON-RPC
    …    /a2a/{agent}/message:send, /tasks/{id}, …   HTTP+JSON

Both bindings are spellings of the operations in `a2a_tasks`.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from outlast.a2a.protocol import (
    CARD_PATH,
    MEDIA_TYPE,
    VERSION,
    VERSION_HEADER,
    ListTasksRequest,
    Record,
    SendMessageRequest,
    TaskRequest,
)
from outlast.agents.errors import AgentsException
from outlast.agents.json_values import as_object
from outlast.deliveries.problems import JSONAnswer, Problem, Refused
from outlast.edges.bodies import DOORS, loads
from outlast.serve.messages import startable_agent, stream_deadline
from outlast.serve.problems import problem_of
from outlast.serve.routing import DeskRequest, Handler, read_within, route
from outlast.serve.sse import EventStream, ServerSentEvent, json_event
from outlast.serve.wires.a2a_card import card_of
from outlast.serve.wires.a2a_tasks import (
    A2ACall,
    accept,
    cancel_task,
    follow_task,
    list_tasks,
    no_push,
    read_task,
    send_message,
    subscribe,
    unsupported,
)
from outlast.views.records import Json, JsonObject

RecordT = TypeVar("RecordT", bound=Record)

# --- Operations ----------------------------------------------------------------------------------


async def _send(call: A2ACall, params: JsonObject) -> JsonObject:
    task = await send_message(call, _read(params, SendMessageRequest))
    return {"task": task.record()}


async def _get(call: A2ACall, params: JsonObject) -> JsonObject:
    call, task_id = await call.of_task(_read(params, TaskRequest).id)
    return (await read_task(call, task_id)).record()


async def _list(call: A2ACall, params: JsonObject) -> JsonObject:
    return await list_tasks(call, _read(params, ListTasksRequest))


async def _cancel(call: A2ACall, params: JsonObject) -> JsonObject:
    return (await cancel_task(call, _read(params, TaskRequest).id)).record()


async def _refuse_push(call: A2ACall, _params: JsonObject) -> JsonObject:
    call.check_somebody()
    raise no_push()


async def _refuse_extended(call: A2ACall, _params: JsonObject) -> JsonObject:
    call.check_somebody()
    raise unsupported("This agent has no extended card.")


async def _refuse_method(call: A2ACall, _params: JsonObject) -> JsonObject:
    call.check_somebody()
    raise Refused(400, "method_not_found", f"There is no such method. Methods: {_METHODS}.")


async def _stream(call: A2ACall, params: JsonObject) -> AsyncGenerator[JsonObject]:
    return follow_task(*await accept(call, _read(params, SendMessageRequest)))


async def _subscribe(call: A2ACall, params: JsonObject) -> AsyncGenerator[JsonObject]:
    return await subscribe(call, _read(params, TaskRequest).id)


_Operation: TypeAlias = Callable[[A2ACall, JsonObject], Awaitable[JsonObject]]
_Streaming: TypeAlias = Callable[[A2ACall, JsonObject], Awaitable[AsyncGenerator[JsonObject]]]

_OPERATIONS: Final[dict[str, _Operation]] = {
    "SendMessage": _send,
    "GetTask": _get,
    "ListTasks": _list,
    "CancelTask": _cancel,
    "CreateTaskPushNotificationConfig": _refuse_push,
    "GetTaskPushNotificationConfig": _refuse_push,
    "ListTaskPushNotificationConfigs": _refuse_push,
    "DeleteTaskPushNotificationConfig": _refuse_push,
    "GetExtendedAgentCard": _refuse_extended,
}
_STREAMS: Final[dict[str, _Streaming]] = {
    "SendStreamingMessage": _stream,
    "SubscribeToTask": _subscribe,
}


_METHODS: Final = ", ".join((*_OPERATIONS, *_STREAMS))


def _read(params: JsonObject, kind: type[RecordT]) -> RecordT:
    """Return the parameters of an operation.

    Raises:
        Refused: they do not fit.
    """
    try:
        return kind.model_validate(params)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False, include_context=False, include_input=False)
        place = ".".join(map(str, first["loc"]))
        raise Refused(400, "invalid_params", f"{place}: {first['msg']}.") from None


def _call(asked: DeskRequest) -> A2ACall:
    """Return the call of a request.

    Raises:
        Refused: the client speaks another version, or there is no such agent.
    """
    headers, query = asked.http.headers, asked.http.query_params
    version = headers.get(VERSION_HEADER) or query.get(VERSION_HEADER) or "0.3"
    if version != VERSION:
        message = f"Send the header {VERSION_HEADER}: {VERSION}. Without it, the version is 0.3."
        raise Refused(400, "version_not_supported", message)
    agent = asked.parameter("agent")
    startable_agent(asked.desk, agent)
    return A2ACall(asked, agent)


# --- Problems ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kind:
    """How both bindings spell a problem."""

    rpc: int
    http: int
    status: str
    is_of_protocol: bool = True


_KINDS: Final[dict[str, _Kind]] = {
    "task_not_found": _Kind(-32001, 404, "NOT_FOUND"),
    "task_not_cancelable": _Kind(-32002, 400, "FAILED_PRECONDITION"),
    "push_notification_not_supported": _Kind(-32003, 400, "FAILED_PRECONDITION"),
    "unsupported_operation": _Kind(-32004, 400, "FAILED_PRECONDITION"),
    "content_type_not_supported": _Kind(-32005, 400, "INVALID_ARGUMENT"),
    "version_not_supported": _Kind(-32009, 400, "FAILED_PRECONDITION"),
    "parse_error": _Kind(-32700, 400, "INVALID_ARGUMENT", is_of_protocol=False),
    "invalid_request": _Kind(-32600, 400, "INVALID_ARGUMENT", is_of_protocol=False),
    "method_not_found": _Kind(-32601, 400, "UNIMPLEMENTED", is_of_protocol=False),
}
_CODES: Final = {"run_not_found": "task_not_found"}
_BY_STATUS: Final[dict[int, _Kind]] = {
    400: _Kind(-32602, 400, "INVALID_ARGUMENT", is_of_protocol=False),
    401: _Kind(-32000, 401, "UNAUTHENTICATED", is_of_protocol=False),
    403: _Kind(-32000, 403, "PERMISSION_DENIED", is_of_protocol=False),
    404: _Kind(-32602, 404, "NOT_FOUND", is_of_protocol=False),
    409: _Kind(-32004, 400, "FAILED_PRECONDITION"),
    413: _Kind(-32602, 413, "INVALID_ARGUMENT", is_of_protocol=False),
    421: _Kind(-32600, 421, "FAILED_PRECONDITION", is_of_protocol=False),
    429: _Kind(-32000, 429, "RESOURCE_EXHAUSTED", is_of_protocol=False),
    503: _Kind(-32000, 503, "UNAVAILABLE", is_of_protocol=False),
}
_INTERNAL: Final = _Kind(-32603, 500, "INTERNAL", is_of_protocol=False)
_AT_THE_DOOR: Final = frozenset({401, 403, 413, 421, 429, 500, 503})
"""Statuses that a client has to see as the status of the answer, also in JSON-RPC."""


def _kind(problem: Problem) -> tuple[_Kind, list[Json]]:
    """Return how a problem is spelled, and its details."""
    code = _CODES.get(problem.code, problem.code)
    kind = _KINDS.get(code) or _BY_STATUS.get(problem.status) or _INTERNAL
    reason = code if code in _KINDS else "unsupported_operation"
    name = reason.upper() if kind.is_of_protocol else problem.code.upper()
    domain = "a2a-protocol.org" if kind.is_of_protocol else "outlast"
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": name, "domain": domain}
    return kind, [info]


def _rpc_error(problem: Problem, request_id: Json) -> JsonObject:
    kind, data = _kind(problem)
    error: JsonObject = {"code": kind.rpc, "message": problem.message, "data": data}
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def show_rpc(_request: Request, problem: Problem, request_id: Json = None) -> Response:
    """Return a problem as JSON-RPC has it."""
    status = problem.status if problem.status in _AT_THE_DOOR else 200
    return JSONAnswer(_rpc_error(problem, request_id), status, problem.headers)


def _http_error(problem: Problem) -> JsonObject:
    kind, details = _kind(problem)
    return {
        "error": {
            "code": kind.http,
            "status": kind.status,
            "message": problem.message,
            "details": details,
        }
    }


def show_http(_request: Request, problem: Problem) -> Response:
    """Return a problem as HTTP+JSON has it."""
    return _answer(_http_error(problem), _kind(problem)[0].http, problem.headers)


# --- JSON-RPC ------------------------------------------------------------------------------------


async def take_rpc(asked: DeskRequest) -> Response:
    """Answer a request of JSON-RPC."""
    request_id: Json = None
    try:
        if asked.caller is None:
            asked.check("read_messages")
        body = await _rpc_body(asked.http)
        given = body.get("id")
        request_id = given if isinstance(given, str | int | float) else None
        call, method = _call(asked), str(body["method"])
        params: JsonObject = body.get("params") or {}
        if method in _STREAMS:
            events = await _STREAMS[method](call, params)
            return EventStream(_rpc_events(events, request_id), until=stream_deadline(asked.caller))
        result = await _OPERATIONS.get(method, _refuse_method)(call, params)
    except Exception as error:  # noqa: BLE001  every problem gets an answer
        return show_rpc(asked.http, problem_of(error), request_id)
    return JSONAnswer({"jsonrpc": "2.0", "id": request_id, "result": result})


async def _rpc_body(request: Request) -> JsonObject:
    content = await read_within(request, DOORS["wire"])
    try:
        fields = as_object(loads(content)) or {}
    except (ValueError, RecursionError):
        raise Refused(400, "parse_error", "The body is no JSON.") from None
    is_request = fields.get("jsonrpc") == "2.0" and isinstance(fields.get("method"), str)
    if not is_request or not isinstance(fields.get("params"), dict | None):
        message = "The body must be one request of JSON-RPC 2.0, with method and params."
        raise Refused(400, "invalid_request", message)
    return fields


async def _rpc_events(
    events: AsyncGenerator[JsonObject], request_id: Json
) -> AsyncGenerator[ServerSentEvent]:
    try:
        async for event in events:
            yield json_event({"jsonrpc": "2.0", "id": request_id, "result": event})
    except (AgentsException, Refused) as error:
        yield json_event(_rpc_error(problem_of(error), request_id))


# --- HTTP+JSON -----------------------------------------------------------------------------------


def _answer(content: Json, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return JSONAnswer(content, status, headers, media_type=MEDIA_TYPE)


async def _http_params(asked: DeskRequest) -> JsonObject:
    """Return the parameters of an operation: from the path, the query and the body."""
    if asked.caller is None:
        asked.check("read_messages")
    query = {name: one for name, one in asked.http.query_params.items() if name != VERSION_HEADER}
    found: JsonObject = {**query}
    content = await read_within(asked.http, DOORS["wire"])
    if content:
        try:
            body = as_object(loads(content))
        except (ValueError, RecursionError):
            body = None
        if body is None:
            raise Refused(400, "parse_error", "The body must be a JSON object.")
        found = {**found, **body}
    if "task_id" in asked.http.path_params:
        found["id"] = asked.parameter("task_id")
    return found


def _http(operation: _Operation) -> Handler:
    async def handle(asked: DeskRequest) -> Response:
        return _answer(await operation(_call(asked), await _http_params(asked)))

    return handle


def _http_stream(operation: _Streaming) -> Handler:
    async def handle(asked: DeskRequest) -> Response:
        events = await operation(_call(asked), await _http_params(asked))
        return EventStream(_http_events(events), until=stream_deadline(asked.caller))

    return handle


async def _http_events(events: AsyncGenerator[JsonObject]) -> AsyncGenerator[ServerSentEvent]:
    try:
        async for event in events:
            yield json_event(event)
    except (AgentsException, Refused) as error:
        yield json_event(_http_error(problem_of(error)), event="error")


# --- Cards ---------------------------------------------------------------------------------------


async def show_card(asked: DeskRequest) -> Response:
    """Return the card of an agent."""
    return _card(asked, asked.parameter("agent"))


async def show_only_card(asked: DeskRequest) -> Response:
    """Return the card of the agent of a desk that has one."""
    agents = asked.desk.agents
    if len(agents) != 1:
        message = f"This desk has {len(agents)} agents. Each has its card at /a2a/NAME{CARD_PATH}."
        raise Refused(404, "agent_not_found", message)
    return _card(asked, agents[0].name)


def _card(asked: DeskRequest, name: str) -> Response:
    agent = startable_agent(asked.desk, name)
    headers = {"Cache-Control": "public, max-age=300"}
    return JSONAnswer(card_of(asked.desk, asked.http, agent).record(), headers=headers)


def _guarded(path: str, handler: Handler, *methods: str) -> BaseRoute:
    # The run is in the body or in the id of the task, so the handlers judge the caller.
    return route(f"/a2a/{{agent}}{path}", handler, action=None, methods=methods, show=show_http)


ROUTES: Final[list[BaseRoute]] = [
    route(CARD_PATH, show_only_card, action=None),
    route(f"/a2a/{{agent}}{CARD_PATH}", show_card, action=None),
    route("/a2a/{agent}", take_rpc, action=None, methods=("POST",), show=show_rpc),
    _guarded("/message:send", _http(_send), "POST"),
    _guarded("/message:stream", _http_stream(_stream), "POST"),
    _guarded("/tasks", _http(_list), "GET"),
    _guarded("/extendedAgentCard", _http(_refuse_extended), "GET"),
    _guarded("/tasks/{task_id}/pushNotificationConfigs", _http(_refuse_push), "GET", "POST"),
    _guarded(
        "/tasks/{task_id}/pushNotificationConfigs/{config_id}",
        _http(_refuse_push),
        *("GET", "DELETE"),
    ),
    _guarded("/tasks/{task_id}:cancel", _http(_cancel), "POST"),
    # The protocol's text says POST, and its definition says GET.
    _guarded("/tasks/{task_id}:subscribe", _http_stream(_subscribe), "GET", "POST"),
    _guarded("/tasks/{task_id}", _http(_get), "GET"),
]
