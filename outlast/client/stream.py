"""What a reader of a run sees happen, one event after the other.

Owns: the stream events and their numbers. They are made from two consecutive states, so every
reader of the same history sees the same events under the same numbers: whoever was cut off goes
on from the number it had, in any process. Must not know: how the states were read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from outlast.agents.run_items import RunItem
from outlast.client.known_agents import KnownAgents
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import Item, ItemKind
from outlast.loop.state import RunState, Status
from outlast.loop.values import JsonObject
from outlast.models.typed_events import typed_event

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

_NOBODY = KnownAgents()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemStreamEvent:
    """An item came into the transcript.

    Attributes:
        id: the event's number.
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
    """Another agent is the active one: the starting agent, and then each that took over.

    Attributes:
        id: the event's number.
        new_agent: the `Agent`, where this process knows it; else its name under `.name`.
    """

    id: int
    new_agent: Any
    type: Literal["agent_updated_stream_event"] = "agent_updated_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStreamEvent:
    """People were asked, or an approval request was settled: see its status."""

    id: int
    request: ApprovalRequest
    type: Literal["approval_stream_event"] = "approval_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStreamEvent:
    """The run waits for somebody, works again, or has ended."""

    id: int
    status: Status
    type: Literal["status_stream_event"] = "status_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawResponsesStreamEvent:
    """A piece of what a model says, as it says it.

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


NumberedEvent: TypeAlias = (
    RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalStreamEvent | StatusStreamEvent
)
StreamEvent: TypeAlias = NumberedEvent | RawResponsesStreamEvent


def changes(
    before: RunState, after: RunState, next_id: int, known: KnownAgents = _NOBODY
) -> Iterator[NumberedEvent]:
    """Yield what happened between two consecutive states, in the order in which it did.

    Args:
        before: the state before an event of the loop.
        after: the state after it.
        next_id: the number of the first event yielded.
        known: the agents that this process knows.
    """
    for entry in after.items[len(before.items) :]:
        item = known.run_item(entry)
        name = _OTHERS.get(item.type, _NAMES["other"]) if entry.kind == "other" else None
        name = name or _NAMES[entry.kind]
        yield RunItemStreamEvent(id=next_id, name=name, item=item, entry=entry)
        next_id += 1
    for agent in after.handoff_path[len(before.handoff_path) :]:
        yield AgentUpdatedStreamEvent(id=next_id, new_agent=known.agent(agent))
        next_id += 1
    for index, request in enumerate(after.approvals):
        if index >= len(before.approvals) or before.approvals[index] != request:
            yield ApprovalStreamEvent(id=next_id, request=request)
            next_id += 1
    if after.status != before.status:
        yield StatusStreamEvent(id=next_id, status=after.status)
