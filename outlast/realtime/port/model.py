"""Realtime models: the abstract class, its listeners and the playback of audio."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import NotRequired, TypedDict

from outlast.realtime.port.audio import audio_ms
from outlast.realtime.port.config import RealtimeAudioFormat, RealtimeSessionModelSettings
from outlast.realtime.port.model_events import RealtimeModelEvent
from outlast.realtime.port.model_inputs import RealtimeModelSendEvent


class RealtimePlaybackState(TypedDict):
    """How far the model's audio has been played.

    Attributes:
        elapsed_ms: the milliseconds of this audio that were played.
    """

    current_item_id: str | None
    current_item_content_index: int | None
    elapsed_ms: float | None


class RealtimePlaybackTracker:
    """The record of the audio that the user has really heard.

    Make one where audio is played later or slower than it arrives, as on a phone, and pass it in
    `RealtimeModelConfig`. Call `on_play_bytes` or `on_play_ms` for each piece that was played.
    When the user interrupts, the model forgets what was not played.
    """

    def __init__(self) -> None:
        self._format: RealtimeAudioFormat | None = None
        self._audio: tuple[str, int] | None = None
        self._elapsed_ms = 0.0

    def on_play_bytes(self, item_id: str, item_content_index: int, bytes: bytes) -> None:
        """Record audio that was played."""
        self.on_play_ms(item_id, item_content_index, audio_ms(self._format, bytes))

    def on_play_ms(self, item_id: str, item_content_index: int, ms: float) -> None:
        """Record audio that was played, by its milliseconds since the last call."""
        if self._audio != (item_id, item_content_index):
            self._audio = (item_id, item_content_index)
            self._elapsed_ms = 0.0
        self._elapsed_ms += ms

    def on_interrupted(self) -> None:
        """Forget the audio that is played. The model calls this when the user interrupts."""
        self._audio = None
        self._elapsed_ms = 0.0

    def set_audio_format(self, format: RealtimeAudioFormat) -> None:
        """Set the format of the audio. The model calls this when the session starts."""
        self._format = format

    def get_state(self) -> RealtimePlaybackState:
        """Return how far the model's audio has been played. The model calls this."""
        item_id, content_index = self._audio or (None, None)
        return {
            "current_item_id": item_id,
            "current_item_content_index": content_index,
            "elapsed_ms": None if self._audio is None else self._elapsed_ms,
        }


class RealtimeModelListener(ABC):
    """A receiver of a realtime model's events."""

    @abstractmethod
    async def on_event(self, event: RealtimeModelEvent) -> None:
        """Receive an event."""


class RealtimeModelConfig(TypedDict):
    """How to connect to a realtime model.

    Attributes:
        api_key: the key, or a function that returns it. Default: the provider's environment
            variable, such as OPENAI_API_KEY.
        url: the address of the model's socket. Default: the provider's own.
        headers: the headers of the connection. With headers, no Authorization header is added.
        playback_tracker: the record of the audio that the user has heard. Default: audio counts as
            played at once, at normal speed.
        call_id: the provider's id of a call to attach to, instead of a new session.
    """

    api_key: NotRequired[str | Callable[[], str | Awaitable[str]]]
    url: NotRequired[str]
    headers: NotRequired[dict[str, str]]
    initial_model_settings: NotRequired[RealtimeSessionModelSettings]
    playback_tracker: NotRequired[RealtimePlaybackTracker]
    call_id: NotRequired[str]


class RealtimeModel(ABC):
    """A connection to a realtime model, which sends events and accepts messages."""

    @abstractmethod
    async def connect(self, options: RealtimeModelConfig) -> None:
        """Connect to the model."""

    @abstractmethod
    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Add a receiver of the model's events."""

    @abstractmethod
    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Remove a receiver of the model's events."""

    @abstractmethod
    async def send_event(self, event: RealtimeModelSendEvent) -> None:
        """Send a message to the model."""

    async def send_event_if(
        self, event: RealtimeModelSendEvent, send_if: Callable[[], bool]
    ) -> bool:
        """Send a message to the model if a condition holds at the moment of sending.

        The default sends nothing and returns False: only the model can check the condition
        without a pause before the message is on its way.

        Returns:
            Whether the message was sent.
        """
        del event, send_if
        return False

    def retire_response_audio(self, response_id: str) -> None:  # noqa: B027  (a model may have nothing to do)
        """Forget which audio belongs to a response, when no more interruptions name it."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection."""


class ListenedModel(RealtimeModel, ABC):
    """A realtime model that keeps its listeners, each of them once."""

    def __init__(self) -> None:
        self._listeners: list[RealtimeModelListener] = []

    def add_listener(self, listener: RealtimeModelListener) -> None:
        """Add a receiver of the model's events; a second call does nothing."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: RealtimeModelListener) -> None:
        """Remove a receiver of the model's events, if it is one."""
        if listener in self._listeners:
            self._listeners.remove(listener)
