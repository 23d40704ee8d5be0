"""The provider's messages on one realtime connection, as events for listeners."""

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final, cast

from openai.types.realtime.realtime_error import RealtimeError
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json

from outlast.agents.json_values import as_object, as_text
from outlast.agents.logs import get_logger
from outlast.loop.values import JsonObject
from outlast.ports.model import ModelError
from outlast.realtime.openai import messages
from outlast.realtime.openai.interruptions import Interruptions
from outlast.realtime.openai.playback import Playback
from outlast.realtime.openai.response_queue import ResponseQueue
from outlast.realtime.port import model_events as events

logger: Final = get_logger(__name__)

_PASSED_ON: dict[str, type[events.RealtimeModelEvent]] = {
    "conversation.item.deleted": events.RealtimeModelItemDeletedEvent,
    "conversation.item.input_audio_transcription.completed": (
        events.RealtimeModelInputAudioTranscriptionCompletedEvent
    ),
    "input_audio_buffer.timeout_triggered": events.RealtimeModelInputAudioTimeoutTriggeredEvent,
    "response.output_audio.done": events.RealtimeModelAudioDoneEvent,
    "response.output_audio_transcript.delta": events.RealtimeModelTranscriptDeltaEvent,
    "response.output_text.delta": events.RealtimeModelOutputTextDeltaEvent,
}
"""The provider's events whose fields reach listeners under the same names."""


@dataclass
class Exchange:
    """The state of one connection, which follows from the provider's events.

    The events that start and end responses and sessions are read leniently: a field of them that
    is malformed must not hold up the conversation. All others are checked against the records of
    the `openai` package.

    Attributes:
        tracing: the message that sets up the provider's own trace, if any.
        opened: set when the provider has sent something other than an error.
    """

    send: Callable[[JsonObject], Awaitable[None]]
    emit: Callable[[events.RealtimeModelEvent], Awaitable[None]]
    playback: Playback = field(default_factory=Playback)
    tracing: JsonObject | None = None
    responses: ResponseQueue = field(init=False)
    interruptions: Interruptions = field(init=False)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    last_error: JsonObject | None = None
    _current_item: str | None = None

    def __post_init__(self) -> None:
        self.responses = ResponseQueue(self.send)
        self.interruptions = Interruptions(self.send, self.emit, self.responses, self.playback)

    def end(self) -> None:
        """Forget the requests and the playback of the connection, which has ended."""
        self.responses.forget()
        self.playback.interrupted()

    async def receive_frame(self, frame: str | bytes) -> None:
        """Pass on one frame; a bad one becomes an event, and the connection goes on."""
        try:
            event: object = from_json(frame)
        except ValueError as error:
            context = "Failed to parse WebSocket message as JSON"
            await self.emit(events.RealtimeModelExceptionEvent(error, context))
            return
        await self.emit(events.RealtimeModelRawServerEvent(data=event))
        message = as_object(event)
        kind = None if message is None else as_text(message.get("type"))
        if kind != "error":
            self.opened.set()
        if message is None or kind is None or kind not in messages.event_records():
            await self.emit(events.RealtimeModelOtherEvent(data=event))
            return
        try:
            await self._receive(kind, message)
        except ValidationError as error:
            logger.warning("The realtime provider sent a malformed event: %s", kind)
            await self.emit(events.RealtimeModelErrorEvent(error=error))
        except ModelError as error:
            # A reply could not be sent. The end of the connection is reported elsewhere.
            logger.debug("No reply to %s: %s", kind, error)
        except Exception as error:  # noqa: BLE001  (one bad event must not end the call)
            context = f"Error handling WebSocket event {kind}"
            await self.emit(events.RealtimeModelExceptionEvent(error, context))

    async def _receive(self, kind: str, event: JsonObject) -> None:
        match kind:
            case "session.created" | "session.updated":
                await self._receive_session(kind, event)
            case "response.created":
                response_id = as_text(_part(event, "response").get("id"))
                self.responses.created(response_id)
                await self.emit(events.RealtimeModelTurnStartedEvent(response_id=response_id))
            case "response.done":
                await self._receive_done(_part(event, "response"))
            case "error":
                await self._receive_error(event)
            case "response.output_item.added" | "response.output_item.done":
                await self._receive_output(kind, _part(event, "item"))
            case (
                "conversation.item.added"
                | "conversation.item.created"
                | "conversation.item.retrieved"
            ):
                before = as_text(event.get("previous_item_id"))
                await self._receive_message(_part(event, "item"), "in_progress", before)
            case _:
                record = messages.event_records()[kind]
                await self._receive_record(record.model_validate({"event_id": "", **event}))

    async def _receive_record(self, record: BaseModel) -> None:
        event = cast("Any", record)
        match event.type:
            case "response.output_audio.delta":
                await self._receive_audio(event)
            case "input_audio_buffer.speech_started":
                await self.interruptions.speech_started()
            case "conversation.item.truncated":
                await self._retrieve_current()
            case "conversation.item.input_audio_transcription.completed":
                await self._retrieve_current()
            case _:
                pass
        if event.type in _PASSED_ON:
            kind = _PASSED_ON[event.type]
            names = [one.name for one in fields(kind) if one.name != "type"]
            await self.emit(kind(**{name: getattr(event, name) for name in names}))

    async def _receive_session(self, kind: str, event: JsonObject) -> None:
        if kind == "session.created" and self.tracing is not None:
            await self.send(self.tracing)
        detection = _part(event, "session", "audio", "input", "turn_detection")
        self.interruptions.automatic = detection.get("interrupt_response") is True
        name = as_text(_part(event, "session", "audio", "output", "format").get("type"))
        if name is not None:
            self.playback.set_format(name)

    async def _receive_done(self, response: JsonObject) -> None:
        response_id = as_text(response.get("id"))
        self.playback.silenced.discard(response_id or "")
        self.responses.done(response_id)
        malformed: ValidationError | None = None
        if response.get("usage") is not None:
            try:
                await self.emit(messages.usage_event(response["usage"]))
            except ValidationError as error:
                malformed = error  # the turn has ended all the same
        await self.emit(events.RealtimeModelTurnEndedEvent(response_id=response_id))
        if malformed is not None:
            await self.emit(events.RealtimeModelErrorEvent(error=malformed))
        await self.responses.start_next()

    async def _receive_error(self, event: JsonObject) -> None:
        report = self.last_error = _part(event, "error")
        words = as_text(report.get("message")) or ""
        recovers = self.responses.failed(
            as_text(report.get("code")), as_text(report.get("event_id")), words
        )
        if recovers:
            logger.debug("A response waits for the one in progress")
            return
        try:
            error = RealtimeError.model_validate({"message": words, "type": "error", **report})
            await self.emit(events.RealtimeModelErrorEvent(error=error))
        finally:
            await self.responses.start_next()

    async def _receive_output(self, kind: str, item: JsonObject) -> None:
        is_done = kind == "response.output_item.done"
        await self._receive_message(item, "completed" if is_done else "in_progress")
        if item.get("type") == "function_call" and item.get("status") == "completed":
            record, call = messages.started_call(item)
            await self.emit(events.RealtimeModelItemUpdatedEvent(item=record))
            await self.emit(call)

    async def _receive_message(
        self, item: JsonObject, status: str, before: str | None = None
    ) -> None:
        if item.get("type") == "message":
            message = messages.message_item(item, status=status, previous_item_id=before)
            await self.emit(events.RealtimeModelItemUpdatedEvent(item=message))

    async def _receive_audio(self, event: Any) -> None:
        if event.response_id in self.playback.silenced:
            return
        data, audio = b64decode(event.delta), (event.item_id, event.content_index)
        self._current_item = event.item_id
        self.playback.receive(audio, data, event.response_id)
        await self.emit(events.RealtimeModelAudioEvent(data, event.response_id, *audio))

    async def _retrieve_current(self) -> None:
        """Request the message of the last audio: its transcript may have changed."""
        if self._current_item is not None:
            await self.send({"type": "conversation.item.retrieve", "item_id": self._current_item})


def _part(event: JsonObject, *names: str) -> JsonObject:
    for name in names:
        event = as_object(event.get(name)) or {}
    return event
