"""The messages that a realtime model accepts."""

from dataclasses import dataclass
from typing import TypeAlias

from outlast.realtime.port.config import (
    RealtimeClientMessage,
    RealtimeSessionModelSettings,
    RealtimeUserInput,
    RealtimeUserInputImage,
    RealtimeUserInputMessage,
    RealtimeUserInputText,
)
from outlast.realtime.port.model_events import RealtimeModelToolCallEvent

RealtimeModelRawClientMessage: TypeAlias = RealtimeClientMessage
"""A message to the provider in the provider's own format."""

RealtimeModelInputTextContent: TypeAlias = RealtimeUserInputText
"""A text in a message of the user."""

RealtimeModelInputImageContent: TypeAlias = RealtimeUserInputImage
"""An image in a message of the user."""

RealtimeModelUserInputMessage: TypeAlias = RealtimeUserInputMessage
"""A message of the user."""

RealtimeModelUserInput: TypeAlias = RealtimeUserInput
"""The user's input: a text, or a message with texts and images."""


@dataclass(frozen=True, slots=True)
class RealtimeModelSendRawMessage:
    """Send a message in the provider's own format."""

    message: RealtimeModelRawClientMessage


@dataclass(frozen=True, slots=True)
class RealtimeModelSendUserInput:
    """Send a message of the user, and start a response."""

    user_input: RealtimeModelUserInput


@dataclass(frozen=True, slots=True)
class RealtimeModelSendAudio:
    """Send a piece of the user's audio.

    Attributes:
        commit: whether the user's turn ends here, where turn detection is off.
    """

    audio: bytes
    commit: bool = False


@dataclass(frozen=True, slots=True)
class RealtimeModelSendToolOutput:
    """Send a tool's output."""

    tool_call: RealtimeModelToolCallEvent
    output: str
    start_response: bool


@dataclass(frozen=True, slots=True)
class RealtimeModelSendInterrupt:
    """Stop the playback of the model's audio, and its response.

    Attributes:
        force_response_cancel: whether to cancel the response even where the provider does so
            by itself, when the user speaks.
        response_id: the response to stop; None means the current one. The playback of other
            responses goes on.
        cancel_response_only: whether to cancel `response_id` and leave the playback alone.
        playback_only: whether to stop the playback and leave the response alone.
    """

    force_response_cancel: bool = False
    response_id: str | None = None
    cancel_response_only: bool = False
    playback_only: bool = False


@dataclass(frozen=True, slots=True)
class RealtimeModelSendSessionUpdate:
    """Change the settings of the session."""

    session_settings: RealtimeSessionModelSettings


RealtimeModelSendEvent: TypeAlias = (
    RealtimeModelSendRawMessage
    | RealtimeModelSendUserInput
    | RealtimeModelSendAudio
    | RealtimeModelSendToolOutput
    | RealtimeModelSendInterrupt
    | RealtimeModelSendSessionUpdate
)
"""A message that a realtime model accepts."""
