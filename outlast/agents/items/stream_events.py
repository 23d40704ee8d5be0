"""The stream events of a run, with the Agents SDK's names."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypedDict

from outlast.agents.items.run_items import RunItem
from outlast.agents.items.typed_events import typed_event
from outlast.loop.items import Item, ItemKind
from outlast.loop.values import JsonObject

RunItemName: TypeAlias = Literal[
    "history_loaded",
    "message_input",
    "message_output_created",
    "reasoning_item_created",
    "tool_called",
    "tool_output",
    "handoff_requested",
    "handoff_occured",
    "mcp_list_tools",
    "mcp_approval_requested",
    "mcp_approval_response",
    "tool_search_called",
    "tool_search_output_created",
    "provider_item_created",
]
"""The Agents SDK's event names, including its spelling of `handoff_occured`."""

OF_LONG_RUNS: Final = frozenset({"history_loaded", "message_input", "provider_item_created"})
"""Event names for readers of a run's history, not in the Agents SDK."""

_NAMES: dict[ItemKind, RunItemName] = {
    "history": "history_loaded",
    "input": "message_input",
    "note": "message_input",
    "message": "message_output_created",
    "draft": "message_output_created",
    "reasoning": "reasoning_item_created",
    "tool_call": "tool_called",
    "tool_output": "tool_output",
    "handoff_call": "handoff_requested",
    "handoff_output": "handoff_occured",
    "other": "provider_item_created",
}

_OTHERS: dict[str, RunItemName] = {
    "tool_call_item": "tool_called",
    "tool_call_output_item": "tool_output",
    "mcp_list_tools_item": "mcp_list_tools",
    "mcp_approval_request_item": "mcp_approval_requested",
    "mcp_approval_response_item": "mcp_approval_response",
    "tool_search_call_item": "tool_search_called",
    "tool_search_output_item": "tool_search_output_created",
}
"""The event name of an item of the provider's own, by `RunItem.type`."""


@dataclass(frozen=True, slots=True)
class RunItemStreamEvent:
    """A new item in the transcript.

    Attributes:
        name: the event's name.
        item: the item, as programs see it.
        id: the event's number; 0 in an `on_stream` callback.
        entry: the item, as the transcript holds it; None in an event that a program made.
    """

    name: RunItemName
    item: RunItem
    _: KW_ONLY
    id: int = 0
    entry: Any = field(default=None, repr=False)
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(frozen=True, slots=True)
class AgentUpdatedStreamEvent:
    """A change of the active agent: the start of the run, or a handoff.

    A result that streams a resumed run begins with an event for the active agent.

    Attributes:
        new_agent: the `Agent`, if this process has it; else an object with only its `name`.
        id: the event's number; 0 in an `on_stream` callback, and at the beginning of a resumed run.
    """

    new_agent: Any
    _: KW_ONLY
    id: int = 0
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


@dataclass(frozen=True, slots=True, init=False)
class RawResponsesStreamEvent:
    """A Responses stream event of a model call.

    A raw event has no number and is delivered once, between two numbered events. When an attempt
    restarts, because a worker died or the provider failed in the middle of a response, the stream
    has an event of the type `outlast.attempt_restarted`: discard the earlier events of the response.

    Attributes:
        raw: the event of the provider's stream, as JSON.
        next_id: the number of the next numbered event.
        id: always None.
    """

    raw: JsonObject
    next_id: int = 0
    id: None = None
    type: Literal["raw_response_event"] = "raw_response_event"

    def __init__(
        self, data: Any = None, *, raw: JsonObject | None = None, next_id: int = 0
    ) -> None:
        dump = getattr(data, "model_dump", None)
        given = data if dump is None else dump(mode="json")
        object.__setattr__(self, "raw", given if raw is None else raw)
        object.__setattr__(self, "next_id", next_id)
        object.__setattr__(self, "id", None)
        object.__setattr__(self, "type", "raw_response_event")

    @property
    def data(self) -> Any:
        """The event as an object of its class in `openai.types.responses`."""
        return typed_event(self.raw)


ProgramEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent
"""The events that the Agents SDK has, too."""


class AgentToolStreamEvent(TypedDict):
    """The argument of the `on_stream` callback of an agent used as a tool.

    Attributes:
        event: the event of the nested run.
        agent: the active `Agent` of the nested run.
        tool_call: the tool call that started it, as the openai package's
            `ResponseFunctionToolCall`.
    """

    event: ProgramEvent
    agent: Any
    tool_call: Any


OnStream: TypeAlias = Callable[[AgentToolStreamEvent], Awaitable[None] | None]
"""Called with every event of a nested run; sync or async."""


def item_event(entry: Item, item: RunItem, number: int = 0) -> RunItemStreamEvent:
    """Return the stream event for a new item."""
    name = _NAMES[entry.kind]
    # The output of an ignored handoff is a tool output item, and an approval is a call of the loop.
    is_approval = item.type.startswith("mcp_approval")
    if is_approval or entry.kind in {"other", "handoff_output"}:
        name = _OTHERS.get(item.type, name)
    return RunItemStreamEvent(id=number, name=name, item=item, entry=entry)
