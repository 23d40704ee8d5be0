"""The events that a realtime model sends to its listeners."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from outlast.agents.usage import Usage
from outlast.realtime.port.items import RealtimeItem

RealtimeConnectionStatus: TypeAlias = Literal["connecting", "connected", "disconnected"]
"""The status of a connection to a realtime model."""


@dataclass(frozen=True, slots=True)
class RealtimeModelErrorEvent:
    """An error that the provider reports, or an event of the provider that is malformed.

    Attributes:
        error: the provider's error record, or the error of the event's validation.
    """

    error: Any
    type: Literal["error"] = "error"


@dataclass(frozen=True, slots=True)
class RealtimeModelToolCallEvent:
    """A tool call of the model.

    Attributes:
        call_id: the provider's id of the call.
        id: the provider's id of the item.
    """

    name: str
    call_id: str
    arguments: str
    id: str | None = None
    previous_item_id: str | None = None
    type: Literal["function_call"] = "function_call"


@dataclass(frozen=True, slots=True)
class RealtimeModelAudioEvent:
    """A piece of the model's audio."""

    data: bytes
    response_id: str
    item_id: str
    content_index: int
    type: Literal["audio"] = "audio"


@dataclass(frozen=True, slots=True)
class RealtimeModelAudioInterruptedEvent:
    """The model's audio was interrupted: stop its playback."""

    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass(frozen=True, slots=True)
class RealtimeModelAudioDoneEvent:
    """The model's audio is complete."""

    item_id: str
    content_index: int
    type: Literal["audio_done"] = "audio_done"


@dataclass(frozen=True, slots=True)
class RealtimeModelInputAudioTranscriptionCompletedEvent:
    """The transcript of something that the user said."""

    item_id: str
    transcript: str
    type: Literal["input_audio_transcription_completed"] = "input_audio_transcription_completed"


@dataclass(frozen=True, slots=True)
class RealtimeModelInputAudioTimeoutTriggeredEvent:
    """The user was silent for longer than `idle_timeout_ms`.

    Attributes:
        audio_start_ms: the beginning of the silence in the input audio.
        audio_end_ms: the end of the silence in the input audio.
    """

    item_id: str
    audio_start_ms: int
    audio_end_ms: int
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass(frozen=True, slots=True)
class RealtimeModelTranscriptDeltaEvent:
    """A piece of the transcript of the model's audio."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["transcript_delta"] = "transcript_delta"


@dataclass(frozen=True, slots=True)
class RealtimeModelOutputTextDeltaEvent:
    """A piece of the model's text."""

    item_id: str
    delta: str
    response_id: str
    type: Literal["output_text_delta"] = "output_text_delta"


@dataclass(frozen=True, slots=True)
class RealtimeModelItemUpdatedEvent:
    """An item of the conversation is new or has changed."""

    item: RealtimeItem
    type: Literal["item_updated"] = "item_updated"


@dataclass(frozen=True, slots=True)
class RealtimeModelItemDeletedEvent:
    """An item of the conversation was deleted."""

    item_id: str
    type: Literal["item_deleted"] = "item_deleted"


@dataclass(frozen=True, slots=True)
class RealtimeModelConnectionStatusEvent:
    """The connection to the model has changed."""

    status: RealtimeConnectionStatus
    type: Literal["connection_status"] = "connection_status"


@dataclass(frozen=True, slots=True)
class RealtimeModelEndOfStreamEvent:
    """The connection has ended; no events follow."""

    type: Literal["end_of_stream"] = "end_of_stream"


@dataclass(frozen=True, slots=True)
class RealtimeModelTurnStartedEvent:
    """The model starts a response."""

    type: Literal["turn_started"] = "turn_started"
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class RealtimeModelCachedTokensDetails:
    """The input tokens from the provider's cache, by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RealtimeModelInputTokensDetails:
    """The input tokens of a response, by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None
    image_tokens: int | None = None
    cached_tokens: int | None = None
    cached_tokens_details: RealtimeModelCachedTokensDetails | None = None


@dataclass(frozen=True, slots=True)
class RealtimeModelOutputTokensDetails:
    """The output tokens of a response, by kind."""

    text_tokens: int | None = None
    audio_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RealtimeModelUsageEvent:
    """The usage of a finished response."""

    usage: Usage
    input_tokens_details: RealtimeModelInputTokensDetails | None = None
    output_tokens_details: RealtimeModelOutputTokensDetails | None = None
    type: Literal["usage"] = "usage"


@dataclass(frozen=True, slots=True)
class RealtimeModelTurnEndedEvent:
    """The model has finished a response."""

    type: Literal["turn_ended"] = "turn_ended"
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class RealtimeModelOtherEvent:
    """An event of the provider that has no type here."""

    data: Any
    type: Literal["other"] = "other"


@dataclass(frozen=True, slots=True)
class RealtimeModelExceptionEvent:
    """An exception in the connection to the model.

    Attributes:
        context: what the connection was doing.
    """

    exception: Exception
    context: str | None = None
    type: Literal["exception"] = "exception"


@dataclass(frozen=True, slots=True)
class RealtimeModelRawServerEvent:
    """An event of the provider in the provider's own format."""

    data: Any
    type: Literal["raw_server_event"] = "raw_server_event"


RealtimeModelEvent: TypeAlias = (
    RealtimeModelErrorEvent
    | RealtimeModelToolCallEvent
    | RealtimeModelAudioEvent
    | RealtimeModelAudioInterruptedEvent
    | RealtimeModelAudioDoneEvent
    | RealtimeModelInputAudioTimeoutTriggeredEvent
    | RealtimeModelInputAudioTranscriptionCompletedEvent
    | RealtimeModelTranscriptDeltaEvent
    | RealtimeModelOutputTextDeltaEvent
    | RealtimeModelItemUpdatedEvent
    | RealtimeModelItemDeletedEvent
    | RealtimeModelConnectionStatusEvent
    | RealtimeModelEndOfStreamEvent
    | RealtimeModelTurnStartedEvent
    | RealtimeModelUsageEvent
    | RealtimeModelTurnEndedEvent
    | RealtimeModelOtherEvent
    | RealtimeModelExceptionEvent
    | RealtimeModelRawServerEvent
)
"""An event of a realtime model."""
