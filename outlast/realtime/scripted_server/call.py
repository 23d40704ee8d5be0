"""One session of a scripted realtime server, with the messages of its sockets."""

import asyncio
import json
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import deepcopy
from dataclasses import InitVar, dataclass, field
from typing import Any, TypeVar

from outlast.agents.json_values import as_object
from outlast.loop.values import JsonObject
from outlast.realtime.scripted_server.audio import WORD_MS, InputBuffer, silence
from outlast.realtime.scripted_server.conversation import (
    RefusedMessage,
    ScriptedConversation,
    default_session,
)
from outlast.testing.socket_server import ServerSocket, SocketEnded

T = TypeVar("T")

NextReply = Callable[[ScriptedConversation], Coroutine[Any, Any, Sequence[JsonObject]]]
"""Returns the items of the next response."""

USAGE: JsonObject = {
    "total_tokens": 15,
    "input_tokens": 10,
    "output_tokens": 5,
    "input_token_details": {
        "text_tokens": 6,
        "audio_tokens": 4,
        "cached_tokens": 2,
        "cached_tokens_details": {"text_tokens": 2, "audio_tokens": 0},
    },
    "output_token_details": {"text_tokens": 2, "audio_tokens": 3},
}
"""The usage of each response."""

_WORD = re.compile(r"\S+\s*|\s+")


class _Stopped(Exception):
    """The response in progress was cancelled."""


@dataclass(eq=False, kw_only=True)
class RealtimeCall:
    """A session with its sockets, or a call of a phone or browser that sockets attach to.

    Attributes:
        heard: the transcripts of what the user says next.
        number: makes the ids of the session unique at its server.
    """

    next_reply: NextReply
    call_id: str | None
    model: InitVar[str]
    pause_s: float = 0.0
    late_transcripts: bool = False
    number: int = 1
    heard: list[str] = field(default_factory=list[str])
    sockets: list[ServerSocket] = field(default_factory=list[ServerSocket], init=False)
    conversation: ScriptedConversation = field(init=False)
    is_responding: bool = field(default=False, init=False)
    _input: InputBuffer = field(default_factory=InputBuffer, init=False)
    _speech_item: str | None = field(default=None, init=False)
    _responding: "asyncio.Task[None] | None" = field(default=None, init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _reason: str = field(default="", init=False)

    def __post_init__(self, model: str) -> None:
        session = default_session(f"sess_{self.call_id or 'socket'}", model)
        self.conversation = ScriptedConversation(session, self.number)
        self._handlers = {
            "session.update": self._update_session,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
            "input_audio_buffer.append": self._append_audio,
            "input_audio_buffer.commit": self._commit_audio,
            "input_audio_buffer.clear": self._clear_audio,
        }

    async def attach(self, socket: ServerSocket) -> None:
        """Add a socket; it hears of the session, and then of everything that happens."""
        session = deepcopy(self.conversation.session)
        await socket.send(self._event("session.created", session=session))
        self.sockets.append(socket)

    async def receive(self, socket: ServerSocket, message: object) -> None:
        """Carry out a client's message; an invalid one is answered with an error."""
        fields = as_object(message) or {}
        try:
            await self._handlers.get(str(fields.get("type")), self._refuse)(fields)
        except RefusedMessage as refusal:
            error = {
                "type": "invalid_request_error",
                "code": refusal.code,
                "message": refusal.message,
                "param": refusal.param,
                "event_id": fields.get("event_id"),
            }
            await socket.send(self._event("error", error=error))

    async def user_says(self, text: str) -> None:
        """Let the user say something, as if audio had arrived."""
        self.heard.insert(0, text)
        await self.start_speaking()
        self._input.buffered_ms += len(text.split()) * WORD_MS
        self._input.total_ms += len(text.split()) * WORD_MS
        await self._stop_speech()

    async def broadcast(self, kind: str, **fields: object) -> None:
        """Send an event to every socket; those that have ended are dropped."""
        event = self._event(kind, **deepcopy(fields))
        for socket in tuple(self.sockets):
            try:
                await socket.send(event)
            except SocketEnded:
                self.drop(socket)

    def drop(self, socket: ServerSocket) -> None:
        """Remove a socket. The session of one socket ends with it, a call goes on."""
        if socket in self.sockets:
            self.sockets.remove(socket)
        if self.call_id is None:
            self.end()

    def end(self) -> None:
        """Stop the response in progress without a word: the session is over."""
        if self._responding is not None and self._responding is not asyncio.current_task():
            self._responding.cancel()

    async def idle(self) -> None:
        """Wait until no response is in progress."""
        while self._responding is not None and not self._responding.done():
            await asyncio.wait([self._responding])

    def _event(self, kind: str, **fields: object) -> JsonObject:
        return {"type": kind, "event_id": self.conversation.new_id("event"), **fields}

    async def _refuse(self, message: JsonObject) -> None:
        kinds = ", ".join(self._handlers)
        words = f"Invalid value: '{message.get('type')}'. Supported values are: {kinds}."
        raise RefusedMessage("invalid_value", words, param="type")

    async def _update_session(self, message: JsonObject) -> None:
        self.conversation.update(message.get("session"))
        await self.broadcast("session.updated", session=self.conversation.session)

    async def _create_item(self, message: JsonObject) -> None:
        item, before = self.conversation.create(
            message.get("item"), message.get("previous_item_id")
        )
        await self._announce(item, before)

    async def _announce(self, item: JsonObject, before: str | None) -> None:
        await self.broadcast("conversation.item.added", item=item, previous_item_id=before)
        await self.broadcast("conversation.item.done", item=item, previous_item_id=before)

    async def _retrieve_item(self, message: JsonObject) -> None:
        item = self.conversation.get(message.get("item_id"), "item_retrieve_invalid_item_id")
        await self.broadcast("conversation.item.retrieved", item=item)

    async def _truncate_item(self, message: JsonObject) -> None:
        place = {name: message.get(name) for name in ("item_id", "content_index", "audio_end_ms")}
        self.conversation.truncate(**place)
        await self.broadcast("conversation.item.truncated", **place)

    async def _delete_item(self, message: JsonObject) -> None:
        self.conversation.delete(message.get("item_id"))
        await self.broadcast("conversation.item.deleted", item_id=message.get("item_id"))

    async def _append_audio(self, message: JsonObject) -> None:
        try:
            data = b64decode(str(message.get("audio", "")), validate=True)
        except (Base64Error, ValueError):
            words = "Invalid 'audio'. Expected base64-encoded audio bytes."
            raise RefusedMessage("invalid_value", words, param="audio") from None
        settings: JsonObject = self.conversation.session["audio"]["input"]
        detection: JsonObject | None = settings.get("turn_detection")
        silence_ms = float((detection or {}).get("silence_duration_ms", 200))
        change = self._input.append(settings["format"], data, silence_ms)
        if detection is None:
            return
        if change == "started":
            await self.start_speaking()
        elif change == "stopped":
            await self._stop_speech()

    async def _commit_audio(self, _message: JsonObject) -> None:
        if self._input.buffered_ms < 100:
            words = (
                "Error committing input audio buffer: buffer too small. Expected at least 100ms of"
                f" audio, but buffer only has {self._input.buffered_ms:.2f}ms of audio."
            )
            raise RefusedMessage("input_audio_buffer_commit_empty", words)
        transcribe = await self._commit(self._speech_item or self.conversation.new_id("item"))
        if transcribe is not None:
            await transcribe()

    async def _clear_audio(self, _message: JsonObject) -> None:
        self._input.clear()
        await self.broadcast("input_audio_buffer.cleared")

    async def start_speaking(self) -> None:
        """Let the user begin to speak, which interrupts the model."""
        self._speech_item = self.conversation.new_id("item")
        await self.broadcast(
            "input_audio_buffer.speech_started",
            audio_start_ms=int(self._input.total_ms),
            item_id=self._speech_item,
        )
        if self._detection().get("interrupt_response", True):
            await self._cancel("turn_detected")

    async def _stop_speech(self) -> None:
        item_id = self._speech_item or self.conversation.new_id("item")
        end = int(self._input.total_ms)
        await self.broadcast("input_audio_buffer.speech_stopped", audio_end_ms=end, item_id=item_id)
        transcribe = await self._commit(item_id)
        if self._detection().get("create_response", True) and not self.is_responding:
            self._respond({}, after=transcribe)
        elif transcribe is not None:
            await transcribe()

    async def _commit(self, item_id: str) -> Callable[[], Awaitable[None]] | None:
        """Make a message of the user's audio; return a function that sends its transcript."""
        self._input.clear()
        self._speech_item = None
        content = {"type": "input_audio", "transcript": None}
        item: JsonObject = {
            "id": item_id,
            "object": "realtime.item",
            "type": "message",
            "status": "completed",
            "role": "user",
            "content": [content],
        }
        before = self.conversation.add(item)
        await self.broadcast(
            "input_audio_buffer.committed", item_id=item_id, previous_item_id=before
        )
        await self._announce(item, before)
        if not self.conversation.session["audio"]["input"].get("transcription"):
            return None
        text = self.heard.pop(0) if self.heard else "(inaudible)"

        async def transcribe() -> None:
            content["transcript"] = text
            await self.broadcast(
                "conversation.item.input_audio_transcription.completed",
                item_id=item_id,
                content_index=0,
                transcript=text,
                usage={"type": "duration", "seconds": 1.0},
            )

        if self.late_transcripts:
            return transcribe
        await transcribe()
        return None

    def _detection(self) -> JsonObject:
        return self.conversation.session["audio"]["input"].get("turn_detection") or {}

    async def _create_response(self, message: JsonObject) -> None:
        if self.is_responding:
            words = "Conversation already has an active response in progress."
            raise RefusedMessage("conversation_already_has_active_response", words)
        self._respond(message.get("response") or {})

    async def _cancel_response(self, _message: JsonObject) -> None:
        if not self.is_responding:
            words = "Cancellation failed: no active response found"
            raise RefusedMessage("response_cancel_not_active", words)
        await self._cancel("client_cancelled")

    async def _cancel(self, reason: str) -> None:
        if self.is_responding:
            self._reason = reason
            self._stop.set()
            await self.idle()

    def _respond(
        self, settings: JsonObject, *, after: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.is_responding = True
        self._stop.clear()

        async def respond() -> None:
            await self._response(settings)
            if after is not None:
                await after()

        self._responding = asyncio.create_task(respond())

    async def _unless_stopped(self, step: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine; raise `_Stopped` if the response is cancelled first."""
        doing = asyncio.ensure_future(step)
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                raise _Stopped
            return await doing
        finally:
            doing.cancel()
            stopping.cancel()

    async def _response(self, settings: JsonObject) -> None:
        modalities = (
            settings.get("output_modalities") or self.conversation.session["output_modalities"]
        )
        response: JsonObject = {
            "id": self.conversation.new_id("resp"),
            "object": "realtime.response",
            "status": "in_progress",
            "status_details": None,
            "output": [],
            "conversation_id": "conv_1",
            "output_modalities": modalities,
            "usage": None,
        }
        await self.broadcast("response.created", response=response)
        try:
            items = await self._unless_stopped(self.next_reply(self.conversation))
            for index, item in enumerate(items):
                await self._output(response, index, item)
            response |= {"status": "completed", "usage": USAGE}
        except _Stopped:
            details = {"type": "cancelled", "reason": self._reason}
            response |= {"status": "cancelled", "status_details": details, "usage": USAGE}
        except RefusedMessage as failure:
            error = {"type": "server_error", "code": failure.code, "message": failure.message}
            response |= {"status": "failed", "status_details": {"type": "failed", "error": error}}
        self.is_responding = False
        await self.broadcast("response.done", response=response)

    async def _output(self, response: JsonObject, index: int, given: JsonObject) -> None:
        place = {"response_id": response["id"], "output_index": index}
        is_call = given["type"] == "function_call"
        item: JsonObject = {
            "id": self.conversation.new_id("item"),
            "object": "realtime.item",
            "type": given["type"],
            "status": "in_progress",
        }
        if is_call:
            item |= {"name": given["name"], "call_id": given["call_id"], "arguments": ""}
        else:
            item |= {"role": "assistant", "content": []}
        before = self.conversation.add(item)
        response["output"].append(item)
        await self.broadcast("response.output_item.added", **place, item=item)
        await self.broadcast("conversation.item.added", item=item, previous_item_id=before)
        try:
            if is_call:
                await self._arguments({**place, "item_id": item["id"]}, item, given["arguments"])
            else:
                await self._message({**place, "item_id": item["id"]}, item, given, response)
            item["status"] = "completed"
        except _Stopped:
            item["status"] = "incomplete"
            await self.broadcast("response.output_item.done", **place, item=item)
            raise
        await self.broadcast("response.output_item.done", **place, item=item)
        await self.broadcast("conversation.item.done", item=item, previous_item_id=before)

    async def _arguments(self, place: JsonObject, item: JsonObject, arguments: object) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        place = {**place, "call_id": item["call_id"]}
        await self._unless_stopped(asyncio.sleep(self.pause_s))
        await self.broadcast("response.function_call_arguments.delta", **place, delta=text)
        item["arguments"] = text
        await self.broadcast(
            "response.function_call_arguments.done", **place, name=item["name"], arguments=text
        )

    async def _message(
        self, place: JsonObject, item: JsonObject, given: JsonObject, response: JsonObject
    ) -> None:
        text = "".join(str(part.get("text", "")) for part in given["content"])
        speaks = "audio" in response["output_modalities"]
        name, delta = (
            ("transcript", "output_audio_transcript") if speaks else ("text", "output_text")
        )
        part: JsonObject = {"type": "output_audio" if speaks else "output_text", name: ""}
        item["content"].append(part)
        place = {**place, "content_index": 0}
        plain = {"type": "audio" if speaks else "text"}
        await self.broadcast("response.content_part.added", **place, part={**plain, name: ""})
        for word in _WORD.findall(text):
            await self._unless_stopped(asyncio.sleep(self.pause_s))
            part[name] += word
            await self.broadcast(f"response.{delta}.delta", **place, delta=word)
            if speaks:
                self.conversation.has_spoken = True
                await self._sound(place)
        if speaks and self.call_id is None:
            await self.broadcast("response.output_audio.done", **place)
        await self.broadcast(f"response.{delta}.done", **place, **{name: text})
        await self.broadcast("response.content_part.done", **place, part={**plain, name: text})

    async def _sound(self, place: JsonObject) -> None:
        """Send the sound of one word; that of a call goes to the phone or browser instead."""
        if self.call_id is None:
            audio_format: JsonObject = self.conversation.session["audio"]["output"]["format"]
            sound = b64encode(silence(audio_format, WORD_MS)).decode("ascii")
            await self.broadcast("response.output_audio.delta", **place, delta=sound)
