"""The events of a realtime session."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import OutputGuardrailResult
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.port.items import RealtimeItem
from outlast.realtime.port.model_events import RealtimeModelAudioEvent, RealtimeModelEvent

ReconnectReason: TypeAlias = Literal["connection_lost", "session_limit"]


@dataclass
class RealtimeEventInfo:
    """The common fields of a session's events.

    Attributes:
        context: the context of the run, with its usage so far.
    """

    context: RunContextWrapper[Any]


@dataclass
class RealtimeAgentStartEvent:
    """The model starts a response."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass
class RealtimeAgentEndEvent:
    """The model has finished a response."""

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass
class RealtimeHandoffEvent:
    """An agent has handed the conversation over."""

    from_agent: RealtimeAgent[Any]
    to_agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass
class RealtimeToolStart:
    """A tool call starts: its activity is scheduled."""

    agent: RealtimeAgent[Any]
    tool: Any
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_start"] = "tool_start"


@dataclass
class RealtimeToolEnd:
    """A tool call has an output.

    Attributes:
        output: the output, as the model reads it.
    """

    agent: RealtimeAgent[Any]
    tool: Any
    arguments: str
    output: Any
    info: RealtimeEventInfo
    type: Literal["tool_end"] = "tool_end"


@dataclass
class RealtimeToolApprovalRequired:
    """A tool call waits for a person's decision.

    Decide with `session.approve_tool_call(call_id)`, or from anywhere else with `handle.approve`
    or `outlast approve`.
    """

    agent: RealtimeAgent[Any]
    tool: Any
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_required"] = "tool_approval_required"


@dataclass
class RealtimeRawModelEvent:
    """An event of the model, as it came."""

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


@dataclass
class RealtimeAudioEnd:
    """The model has sent all audio of a message."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_end"] = "audio_end"


@dataclass
class RealtimeAudio:
    """A piece of audio to play."""

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass
class RealtimeAudioInterrupted:
    """The model was interrupted: stop the playback."""

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass
class RealtimeError:
    """Something failed, and the session goes on.

    Attributes:
        error: the provider's error, an exception, or a dict with a message.
    """

    error: Any
    info: RealtimeEventInfo
    type: Literal["error"] = "error"


@dataclass
class RealtimeHistoryUpdated:
    """The history has changed."""

    history: list[RealtimeItem]
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass
class RealtimeHistoryAdded:
    """The history has a new item."""

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass
class RealtimeGuardrailTripped:
    """An output guardrail has stopped the agent in mid-answer.

    Attributes:
        message: what the agent had said so far.
    """

    guardrail_results: list[OutputGuardrailResult]
    message: str
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


@dataclass
class RealtimeInputAudioTimeoutTriggered:
    """The user has been silent for the time-out of the session."""

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass
class RealtimeReconnected:
    """The line has a new connection to the model, with the conversation so far."""

    reason: ReconnectReason
    info: RealtimeEventInfo
    type: Literal["reconnected"] = "reconnected"


RealtimeSessionEvent: TypeAlias = (
    RealtimeAgentStartEvent
    | RealtimeAgentEndEvent
    | RealtimeHandoffEvent
    | RealtimeToolStart
    | RealtimeToolEnd
    | RealtimeToolApprovalRequired
    | RealtimeRawModelEvent
    | RealtimeAudioEnd
    | RealtimeAudio
    | RealtimeAudioInterrupted
    | RealtimeError
    | RealtimeHistoryUpdated
    | RealtimeHistoryAdded
    | RealtimeGuardrailTripped
    | RealtimeInputAudioTimeoutTriggered
    | RealtimeReconnected
)
"""An event of a realtime session."""
