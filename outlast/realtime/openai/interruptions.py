"""Interruptions of a realtime model: stop the playback, cut off the message, cancel the response."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil

from outlast.agents.errors import UserError
from outlast.loop.values import JsonObject
from outlast.realtime.openai.messages import truncate_message
from outlast.realtime.openai.playback import Audio, Playback
from outlast.realtime.openai.response_queue import ResponseQueue
from outlast.realtime.port.model_events import (
    RealtimeModelAudioInterruptedEvent,
    RealtimeModelEvent,
)
from outlast.realtime.port.model_inputs import RealtimeModelSendInterrupt


@dataclass
class Interruptions:
    """Carries out the interruptions of one connection.

    `automatic`: the provider itself cancels the response when the user speaks.
    """

    send: Callable[[JsonObject], Awaitable[None]]
    emit: Callable[[RealtimeModelEvent], Awaitable[None]]
    responses: ResponseQueue
    playback: Playback
    automatic: bool = False

    async def speech_started(self) -> None:
        """Stop the playback at once, because the user speaks."""
        last, playing = self.playback.last, self.playback.playing()
        if last is None:
            return
        await self._emit_interrupted(last)
        if playing is not None:
            await self._truncate(*playing)
        self.playback.interrupted()
        if not self.automatic:
            await self.responses.cancel()

    async def interrupt(self, event: RealtimeModelSendInterrupt) -> None:
        """Stop the playback and the response, as far as the program asks for it.

        Raises:
            UserError: the program asks for steps that exclude each other.
        """
        if event.playback_only and (event.cancel_response_only or event.force_response_cancel):
            raise UserError(
                "RealtimeModelSendInterrupt(playback_only=True) leaves the response alone, so it"
                " cannot be combined with cancel_response_only or force_response_cancel."
            )
        if event.cancel_response_only:
            if event.response_id is None:
                raise UserError(
                    "RealtimeModelSendInterrupt(cancel_response_only=True) needs a response_id."
                )
            await self.responses.cancel(event.response_id)
            return
        cancels = event.force_response_cancel or not self.automatic
        try:
            await self._stop_playback(event)
        finally:
            if cancels and not event.playback_only:
                await self.responses.cancel(event.response_id)

    async def _stop_playback(self, event: RealtimeModelSendInterrupt) -> None:
        scope, playing = event.response_id, self.playback.playing()
        may_grow = not event.playback_only
        if scope is not None:
            self.playback.silenced.add(scope)
            audios = self.playback.audio_of(scope)
            for audio in audios:
                await self._emit_interrupted(audio)
            if playing is not None and playing[0] in audios:
                await self._truncate(*playing, may_grow=may_grow)
            self.playback.response_interrupted(scope)
        elif playing is not None:
            await self._emit_interrupted(playing[0])
            await self._truncate(*playing, may_grow=may_grow)
            self.playback.interrupted()

    async def _truncate(self, audio: Audio, played_ms: float, *, may_grow: bool = True) -> None:
        """Cut off a message where its audio was stopped, unless all of it was played.

        `may_grow`: more of the audio may arrive if its response is in progress.
        """
        received = self.playback.received_ms(audio)
        end = max(round(played_ms), 0)
        if received is not None:
            limit, responses = ceil(received), self.responses
            grows = responses.in_progress and self.playback.belongs_to(audio, responses.response_id)
            if end >= limit and not (may_grow and grows):
                return
            end = min(end, limit)
        await self.send(truncate_message(*audio, end))

    async def _emit_interrupted(self, audio: Audio) -> None:
        await self.emit(RealtimeModelAudioInterruptedEvent(*audio))
