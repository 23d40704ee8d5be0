"""What happens in a run, as programs that read along see it.

Owns: the events of the field, and which item has which name. Must not know: who is told, and how
what happens was found out.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
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
"""The names of the field; `handoff_occured` is spelled as everybody's programs spell it."""

OF_LONG_RUNS: Final = frozenset({"history_loaded", "message_input", "provider_item_created"})
"""What only readers of a run's history are told: programs of the field do not know it."""

_NAMES: dict[ItemKind, RunItemName] = {
    "history": "history_loaded",
    "input": "message_input",
    "message": "message_output_created",
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
"""By its type, the event of an item that a provider wrote on its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemStreamEvent:
    """The transcript has a new item.

    Attributes:
        id: the event's number; 0 where an `on_stream` is told.
        name: what happened.
        item: the item.
        entry: the same as the transcript has it.
    """

    id: int
    name: RunItemName
    item: RunItem
    entry: Item = field(repr=False)
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpdatedStreamEvent:
    """The active agent has changed: the starting agent, or one after a handoff.

    Attributes:
        id: the event's number; 0 where an `on_stream` is told.
        new_agent: the `Agent`, where this process knows it; else its name under `.name`.
    """

    id: int
    new_agent: Any
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponsesStreamEvent:
    """A Responses stream event of a model call.

    It has no number of its own: it is told once, between two events that have one. When the model
    begins anew, because a worker died or the provider failed in mid-answer, there is an event of
    the type `outlast.attempt_restarted`, and what was said in this reply before it is void.

    Attributes:
        raw: the event of the provider's stream, as JSON.
        next_id: the number of the next event that has one.
        id: None.
    """

    raw: JsonObject
    next_id: int = 0
    id: None = None
    type: Literal["raw_response_event"] = "raw_response_event"

    @property
    def data(self) -> Any:
        """The event as an object of its class in `openai.types.responses`."""
        return typed_event(self.raw)


ProgramEvent: TypeAlias = RawResponsesStreamEvent | RunItemStreamEvent | AgentUpdatedStreamEvent
"""What programs of the field know."""


class AgentToolStreamEvent(TypedDict):
    """The argument of `on_stream` of an agent that works as a tool.

    Attributes:
        event: what happened in the nested run.
        agent: the `Agent` that is at work in it.
        tool_call: the call that it answers, as the openai package's `ResponseFunctionToolCall`.
    """

    event: ProgramEvent
    agent: Any
    tool_call: Any


OnStream: TypeAlias = Callable[[AgentToolStreamEvent], Awaitable[None] | None]
"""Called with every event of a nested run; sync or async."""


def item_event(entry: Item, item: RunItem, number: int = 0) -> RunItemStreamEvent:
    """Return the event that an item makes.

    Args:
        entry: the item as the transcript has it.
        item: the same as programs see it.
        number: the event's.
    """
    name = _NAMES[entry.kind]
    if entry.kind in {"other", "handoff_output"}:  # of a handoff that was ignored, it is a tool's
        name = _OTHERS.get(item.type, name)
    return RunItemStreamEvent(id=number, name=name, item=item, entry=entry)
