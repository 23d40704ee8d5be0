"""The events of a realtime session."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from outlast.agents.context.wrapper import RunContextWrapper
from outlast.agents.guardrails.guardrail import OutputGuardrailResult
from outlast.realtime.agents import RealtimeAgent
from outlast.realtime.port.items import RealtimeItem
from outlast.realtime.port.model_events import RealtimeModelAudioEvent, RealtimeModelEvent


@dataclass
class RealtimeEventInfo:
    """The common fields of a session's events.

    Attributes:
        context: the context of the run, with its usage so far.
    """

    context: RunContextWrapper[Any]


@dataclass
class RealtimeAgentStartEvent:
    """The model starts a response.

    Attributes:
        agent: the active agent.
        info: the context.
    """

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_start"] = "agent_start"


@dataclass
class RealtimeAgentEndEvent:
    """The model has finished a response.

    Attributes:
        agent: the agent that the response belongs to.
        info: the context.
    """

    agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["agent_end"] = "agent_end"


@dataclass
class RealtimeHandoffEvent:
    """An agent has handed the conversation over.

    Attributes:
        from_agent: the agent before.
        to_agent: the agent that takes over.
        info: the context.
    """

    from_agent: RealtimeAgent[Any]
    to_agent: RealtimeAgent[Any]
    info: RealtimeEventInfo
    type: Literal["handoff"] = "handoff"


@dataclass
class RealtimeToolStart:
    """A tool call starts: its activity is scheduled.

    Attributes:
        agent: the agent that calls the tool.
        tool: the tool.
        arguments: the arguments as JSON text.
        info: the context.
    """

    agent: RealtimeAgent[Any]
    tool: Any
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_start"] = "tool_start"


@dataclass
class RealtimeToolEnd:
    """A tool call has an output.

    Attributes:
        agent: the agent that called the tool.
        tool: the tool.
        arguments: the arguments as JSON text.
        output: the output, as the model reads it.
        info: the context.
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

    Attributes:
        agent: the agent that calls the tool.
        tool: the tool.
        call_id: the id of the call.
        arguments: the arguments as JSON text.
        info: the context.
    """

    agent: RealtimeAgent[Any]
    tool: Any
    call_id: str
    arguments: str
    info: RealtimeEventInfo
    type: Literal["tool_approval_required"] = "tool_approval_required"


@dataclass
class RealtimeRawModelEvent:
    """An event of the model, as it came.

    Attributes:
        data: the event.
        info: the context.
    """

    data: RealtimeModelEvent
    info: RealtimeEventInfo
    type: Literal["raw_model_event"] = "raw_model_event"


@dataclass
class RealtimeAudioEnd:
    """The model has sent all audio of a message.

    Attributes:
        info: the context.
        item_id: the id of the message.
        content_index: the position of the audio in its content.
    """

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_end"] = "audio_end"


@dataclass
class RealtimeAudio:
    """A piece of audio to play.

    Attributes:
        audio: the model's event, with the bytes.
        item_id: the id of the message.
        content_index: the position of the audio in its content.
        info: the context.
    """

    audio: RealtimeModelAudioEvent
    item_id: str
    content_index: int
    info: RealtimeEventInfo
    type: Literal["audio"] = "audio"


@dataclass
class RealtimeAudioInterrupted:
    """The model was interrupted: stop the playback.

    Attributes:
        info: the context.
        item_id: the id of the message that was playing.
        content_index: the position of the audio in its content.
    """

    info: RealtimeEventInfo
    item_id: str
    content_index: int
    type: Literal["audio_interrupted"] = "audio_interrupted"


@dataclass
class RealtimeError:
    """Something failed, and the session goes on.

    Attributes:
        error: the provider's error, an exception, or a dict with a message.
        info: the context.
    """

    error: Any
    info: RealtimeEventInfo
    type: Literal["error"] = "error"


@dataclass
class RealtimeHistoryUpdated:
    """The history has changed.

    Attributes:
        history: all items of the session.
        info: the context.
    """

    history: list[RealtimeItem]
    info: RealtimeEventInfo
    type: Literal["history_updated"] = "history_updated"


@dataclass
class RealtimeHistoryAdded:
    """The history has a new item.

    Attributes:
        item: the item.
        info: the context.
    """

    item: RealtimeItem
    info: RealtimeEventInfo
    type: Literal["history_added"] = "history_added"


@dataclass
class RealtimeGuardrailTripped:
    """An output guardrail has stopped the agent in mid-answer.

    Attributes:
        guardrail_results: the results of the guardrails that tripped.
        message: what the agent had said so far.
        info: the context.
    """

    guardrail_results: list[OutputGuardrailResult]
    message: str
    info: RealtimeEventInfo
    type: Literal["guardrail_tripped"] = "guardrail_tripped"


@dataclass
class RealtimeInputAudioTimeoutTriggered:
    """The user has been silent for the time-out of the session.

    Attributes:
        info: the context.
    """

    info: RealtimeEventInfo
    type: Literal["input_audio_timeout_triggered"] = "input_audio_timeout_triggered"


@dataclass
class RealtimeReconnected:
    """The line has a new connection to the model, with the conversation so far.

    Attributes:
        reason: why there is a new connection.
        info: the context.
    """

    reason: Literal["connection_lost", "session_limit"]
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
