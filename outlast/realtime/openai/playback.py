"""The audio that a realtime session has received, and how much of it was played."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from outlast.realtime.port.audio import audio_ms
from outlast.realtime.port.config import RealtimeAudioFormat
from outlast.realtime.port.model import RealtimePlaybackTracker

Audio = tuple[str, int]
"""The id of a message, and the position of the audio in its content."""


@dataclass
class _Received:
    at: float
    ms: float
    response_id: str | None


@dataclass
class Playback:
    """The audio of a connection.

    Attributes:
        tracker: the record of what was really played; None means that audio is played at once, at
            normal speed.
        last: the audio that was received last and not interrupted.
        silenced: the responses whose audio is not passed on any more.
    """

    tracker: RealtimePlaybackTracker | None = None
    clock: Callable[[], float] = time.monotonic
    last: Audio | None = None
    silenced: set[str] = field(default_factory=set[str])
    _format: RealtimeAudioFormat | None = None
    _received: dict[Audio, _Received] = field(default_factory=dict[Audio, _Received])
    _by_response: dict[str, list[Audio]] = field(default_factory=dict[str, list[Audio]])

    def set_format(self, audio_format: RealtimeAudioFormat) -> None:
        """Set the format of the audio, from which its duration follows."""
        self._format = audio_format
        if self.tracker is not None:
            self.tracker.set_audio_format(audio_format)

    def receive(self, audio: Audio, data: bytes, response_id: str) -> None:
        """Record a piece of audio."""
        self.last = audio
        known = self._received.setdefault(audio, _Received(self.clock(), 0.0, response_id))
        known.ms += audio_ms(self._format, data)
        audios = self._by_response.setdefault(response_id, [])
        if audio not in audios:
            audios.append(audio)

    def playing(self) -> tuple[Audio, float] | None:
        """Return the audio that is played, with the milliseconds that were played of it."""
        if self.tracker is not None:
            state = self.tracker.get_state()
            item_id, elapsed_ms = state["current_item_id"], state["elapsed_ms"]
            if item_id is None or elapsed_ms is None:
                return None
            return (item_id, state["current_item_content_index"] or 0), elapsed_ms
        if self.last is None:
            return None
        return self.last, (self.clock() - self._received[self.last].at) * 1000

    def received_ms(self, audio: Audio) -> float | None:
        """Return the duration of the audio that was received; None for unknown audio."""
        received = self._received.get(audio)
        return None if received is None else received.ms

    def belongs_to(self, audio: Audio, response_id: str | None) -> bool:
        """Whether audio may be of a response; unknown audio may be of any."""
        received = self._received.get(audio)
        return response_id is None or received is None or received.response_id == response_id

    def audio_of(self, response_id: str) -> list[Audio]:
        """Return the audio that was received of a response."""
        return list(self._by_response.get(response_id, ()))

    def interrupted(self) -> None:
        """Record that the playback has stopped."""
        if self.last is not None:
            received = self._received[self.last]
            self._by_response.pop(received.response_id or "", None)
        self.last = None
        if self.tracker is not None:
            self.tracker.on_interrupted()

    def response_interrupted(self, response_id: str) -> None:
        """Record that the playback of one response has stopped."""
        audios = self._by_response.pop(response_id, [])
        if self.last in audios:
            self.last = None
        playing = None if self.tracker is None else self.playing()
        if self.tracker is not None and playing is not None and playing[0] in audios:
            self.tracker.on_interrupted()

    def retire(self, response_id: str) -> None:
        """Forget which audio belongs to a response."""
        self.silenced.discard(response_id)
        self._by_response.pop(response_id, None)
