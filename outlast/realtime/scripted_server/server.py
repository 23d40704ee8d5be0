"""A scripted realtime server on this machine, which speaks OpenAI's Realtime API.

It needs the extra `realtime`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import parse_qs, urlsplit

from outlast.loop.values import JsonObject
from outlast.realtime.scripted_server.call import RealtimeCall
from outlast.realtime.scripted_server.conversation import RefusedMessage, ScriptedConversation
from outlast.testing.scripted_model import say
from outlast.testing.socket_server import ServerSocket, SocketEnded, SocketServer

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

RealtimeReply: TypeAlias = str | Sequence[JsonObject]
"""A text that the model says, or items such as `call(...)` of `outlast.testing`."""

RealtimeRule: TypeAlias = Callable[[list[JsonObject]], RealtimeReply | Awaitable[RealtimeReply]]
"""A sync or async function of the conversation's items that returns the reply to them."""


class ScriptedRealtimeServer(SocketServer):
    """A realtime server with a script: each response takes the next step.

        async with ScriptedRealtimeServer([call("look_up", "c1", id="A-17")], "On its way.") as server:
            session = await runner.run(model_config={"url": server.url, "api_key": "none"})

    Words become a transcript with 100 ms of silence for each word as audio, or text if the session
    has the output modality `text`. Loud audio of the client is speech, and silence ends it.

    Attributes:
        calls: the sessions and calls so far, in order.
    """

    def __init__(
        self,
        *steps: RealtimeReply | RealtimeRule,
        always: RealtimeReply | RealtimeRule | None = None,
        heard: Sequence[str] = (),
        pause_s: float = 0.0,
        session_s: float | None = None,
        late_transcripts: bool = False,
    ) -> None:
        """Set the script.

        Args:
            steps: one step for each response, in order, of all sessions together.
            always: the step for every further response; None makes further responses fail.
            heard: the transcripts of the audio that clients send, in order.
            pause_s: the pause before each word of a response, in seconds.
            session_s: the limit for a session, in seconds; the provider's is an hour.
            late_transcripts: whether the transcript of the user's audio comes after the response.
        """
        super().__init__()
        self.calls: list[RealtimeCall] = []
        self._steps = list(steps)
        self._always = always
        self._heard = list(heard)
        self._pause_s = pause_s
        self._session_s = session_s
        self._late_transcripts = late_transcripts
        self._by_id: dict[str, RealtimeCall] = {}
        self._refused: list[tuple[JsonObject, int]] = []

    @property
    def url(self) -> str:
        """The address of the sockets, for `model_config={"url": ...}`."""
        return f"{self.websocket_base_url}/realtime"

    def then(self, *steps: RealtimeReply | RealtimeRule) -> None:
        """Add steps to the script."""
        self._steps.extend(steps)

    def start_call(self, call_id: str) -> RealtimeCall:
        """Start a call of a phone or browser, which sockets can attach to by its id.

        Sockets only hear the transcript. `user_says` of the call is what the caller says.
        """
        call = self._new_call(call_id, "gpt-realtime")
        self._by_id[call_id] = call
        return call

    def call(self, call_id: str) -> RealtimeCall:
        """Return the call with an id."""
        return self._by_id[call_id]

    async def hang_up(self, call_id: str) -> None:
        """End a call, and close its sockets."""
        call = self._by_id.pop(call_id)
        call.end()
        for socket in tuple(call.sockets):
            await socket.close()

    def refuse_session(self, code: str, message: str, *, close_code: int = 3000) -> None:
        """Answer the next session with an error, and close its socket.

        Args:
            code: the provider's code, such as `model_not_found`.
            message: the provider's sentence.
            close_code: the close code.
        """
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        self._refused.append(({"type": "error", "event_id": "event_0", "error": error}, close_code))

    async def serve(self, socket: ServerSocket) -> None:
        """Serve one socket: a new session, or the call that it names."""
        if self._refused:
            event, code = self._refused.pop(0)
            await socket.send(event)
            await socket.close(code, f"{event['error']['type']}.{event['error']['code']}")
            return
        call_id = _query(socket.query, "call_id")
        call = self._by_id.get(call_id or "")
        if call is None:
            call = self._new_call(None, _query(socket.query, "model") or "gpt-realtime")
        expiry = asyncio.create_task(self._expire(call, socket))
        try:
            await call.attach(socket)
            async for message in socket:
                await call.receive(socket, message)
        finally:
            expiry.cancel()
            call.drop(socket)

    def _opening(self, connection: "ServerConnection", request: "Request") -> "Response | None":
        call_id = _query(parse_qs(urlsplit(request.path).query), "call_id")
        if call_id is not None and call_id not in self._by_id:
            error = {"type": "invalid_request_error", "code": "call_id_not_found"}
            words = f"No session found for call_id '{call_id}'."
            self.refuse_connection(HTTPStatus.NOT_FOUND, {"error": {**error, "message": words}})
        return super()._opening(connection, request)

    def _new_call(self, call_id: str | None, model: str) -> RealtimeCall:
        call = RealtimeCall(
            next_reply=self._reply,
            call_id=call_id,
            model=model,
            pause_s=self._pause_s,
            late_transcripts=self._late_transcripts,
            number=len(self.calls) + 1,
            heard=self._heard,
        )
        self.calls.append(call)
        return call

    async def _expire(self, call: RealtimeCall, socket: ServerSocket) -> None:
        if self._session_s is None:
            return
        await asyncio.sleep(self._session_s)
        words = f"Your session hit the maximum duration of {self._session_s:g} seconds."
        error = {"type": "invalid_request_error", "code": "session_expired", "message": words}
        with suppress(SocketEnded):
            await socket.send({"type": "error", "event_id": "event_0", "error": error})
        call.end()
        await socket.close(1001, words)

    async def _reply(self, conversation: ScriptedConversation) -> Sequence[JsonObject]:
        step = self._steps.pop(0) if self._steps else self._always
        if step is None:
            words = "The script of the realtime server has no step for this response."
            raise RefusedMessage("no_step", words)
        reply: Any = step
        if callable(step):
            reply = step(list(conversation.items))
            reply = await reply if inspect.isawaitable(reply) else reply
        return say(reply) if isinstance(reply, str) else cast("Sequence[JsonObject]", reply)


def _query(query: dict[str, list[str]], name: str) -> str | None:
    return next(iter(query.get(name, [])), None)
