"""A server of the Responses API over WebSocket that answers from a script."""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError, ModelRequest, ToolSpec
from outlast.testing.scripted_model import DirectedStep, Reply, ScriptedModel, Step
from outlast.testing.socket_server import ServerSocket, SocketServer

_PREFIXES = {"message": "msg", "function_call": "fc", "reasoning": "rs"}
"""The beginnings of item ids, by the type of the item."""

_SERVER_ERROR = 500


class ScriptedResponsesServer(SocketServer):
    """A server of the Responses API over WebSocket: each request takes the next step of a script.

        async with ScriptedResponsesServer([call("look_up", "c1")], "It is on its way.") as server:
            provider = OpenAIProvider(
                api_key="test", transport="websocket", websocket_base_url=server.websocket_base_url
            )

    As OpenAI's, it continues a response for `previous_response_id`: any stored one, and without
    `store` only the last one of the connection. Steps are those of `ScriptedModel`; a `ModelError`
    becomes an error event, with its status and its delay. It needs the extra `realtime`.

    Attributes:
        script: the model with the script; its `requests` have the whole conversation.
    """

    def __init__(self, *steps: Step, always: Step | None = None, repeat: bool = False) -> None:
        """Set the script, as for `ScriptedModel`."""
        super().__init__()
        self.script: _Script = _Script(*steps, always=always, repeat=repeat)
        self._stored: dict[str, list[JsonObject]] = {}
        self._forgotten = False
        self._reached = False

    def forget_responses(self) -> None:
        """Forget every response so far, so that none of them can be continued."""
        self._stored.clear()
        self._forgotten = True

    def reach_limit(self) -> None:
        """Refuse the next request, because its connection is too old, and close the connection."""
        self._reached = True

    async def serve(self, socket: ServerSocket) -> None:
        """Answer the requests of one connection in turn."""
        held: dict[str, list[JsonObject]] = {}
        async for body in socket:
            if self._forgotten:
                held, self._forgotten = {}, False
            if not isinstance(body, dict):
                await socket.send(_error(400, "invalid_json", "The frame is no JSON object."))
                continue
            request = cast("JsonObject", body)
            if request.get("type") != "response.create":
                message = f"Unknown event type: {request.get('type')!r}."
                await socket.send(_error(400, "invalid_request_error", message))
            elif self._reached:
                self._reached = False
                message = "The connection has reached its limit of 60 minutes. Open a new one."
                await socket.send(_error(400, "websocket_connection_limit_reached", message))
                return
            else:
                held = await self._answer(socket, request, held)

    async def _answer(
        self, socket: ServerSocket, body: JsonObject, held: Mapping[str, list[JsonObject]]
    ) -> dict[str, list[JsonObject]]:
        previous = body.get("previous_response_id")
        before = held.get(previous) or self._stored.get(previous) if previous else []
        if before is None:
            message = f"Previous response with id {previous!r} not found."
            error = _error(400, "previous_response_not_found", message)
            error["error"]["param"] = "previous_response_id"
            await socket.send(error)
            return {}
        items = [*before, *_items(body.get("input"))]
        response: JsonObject = {}
        try:
            async with aclosing(self.script.stream_response(_request(body, items))) as events:
                async for event in events:
                    await socket.send(event)
                    response = event.get("response", response)
        except ModelError as failure:
            await socket.send(_failure(failure))
            return {}
        conversation = {response["id"]: [*items, *response["output"]]}
        if body.get("store") is not False:
            self._stored |= conversation
        return conversation


class _Script(ScriptedModel):
    """A script with item ids such as those of providers."""

    async def _play(self, request: ModelRequest) -> tuple[int, DirectedStep, Reply]:
        number, step, reply = await super()._play(request)
        named = [
            {"id": f"{_PREFIXES.get(str(item.get('type')), 'item')}_{number}_{position}", **item}
            for position, item in enumerate(reply)
        ]
        return number, step, named


def _items(value: object) -> Sequence[JsonObject]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    return cast("list[JsonObject]", value) if isinstance(value, list) else []


def _request(body: JsonObject, items: Sequence[JsonObject]) -> ModelRequest:
    tools: list[JsonObject] = [
        tool for tool in body.get("tools") or () if tool.get("type") == "function"
    ]
    return ModelRequest(
        instructions=body.get("instructions"),
        input=items,
        tools=[
            ToolSpec(
                name=tool["name"],
                description=tool.get("description") or "",
                parameters=tool.get("parameters") or {},
            )
            for tool in tools
        ],
        previous_response_id=body.get("previous_response_id"),
        conversation_id=body.get("conversation"),
    )


def _error(status: int, code: str | None, message: str) -> JsonObject:
    kind = "server_error" if status >= _SERVER_ERROR else "invalid_request_error"
    error: JsonObject = {"type": kind, "code": code, "message": message, "param": None}
    return {"type": "error", "status": status, "error": error}


def _failure(failure: ModelError) -> JsonObject:
    event = _error(failure.status or _SERVER_ERROR, failure.code, failure.message)
    if failure.retry_after is not None:
        headers: dict[str, Any] = {"retry-after": str(failure.retry_after.total_seconds())}
        event["error"]["headers"] = headers
    return event
