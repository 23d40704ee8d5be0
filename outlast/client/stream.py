"""What a reader of a run sees happen, one event after the other.

Owns: the stream events and their numbers. They are made from two consecutive states, so every
reader of the same history sees the same events under the same numbers: whoever was cut off goes
on from the number it had, in any process. Must not know: how the states were read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import Item, ItemKind
from outlast.loop.state import RunState, Status

RunItemName: TypeAlias = Literal[
    "message_input",
    "message_output_created",
    "reasoning_item_created",
    "tool_called",
    "tool_output",
    "handoff_requested",
    "handoff_occured",
    "provider_item_created",
]
"""The names of the field; `handoff_occured` is spelled as everybody's programs spell it."""

_NAMES: dict[ItemKind, RunItemName] = {
    "input": "message_input",
    "message": "message_output_created",
    "reasoning": "reasoning_item_created",
    "tool_call": "tool_called",
    "tool_output": "tool_output",
    "handoff_call": "handoff_requested",
    "handoff_output": "handoff_occured",
    "other": "provider_item_created",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunItemStreamEvent:
    """An item came into the transcript."""

    id: int
    name: RunItemName
    item: Item
    type: Literal["run_item_stream_event"] = "run_item_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentUpdatedStreamEvent:
    """Another agent is the active one: the starting agent, and then each that took over."""

    id: int
    new_agent: str
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


StreamEvent: TypeAlias = (
    RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalStreamEvent | StatusStreamEvent
)


def changes(before: RunState, after: RunState, next_id: int) -> Iterator[StreamEvent]:
    """Yield what happened between two consecutive states, in the order in which it did.

    Args:
        before: the state before an event of the loop.
        after: the state after it.
        next_id: the number of the first event yielded.
    """
    for item in after.items[len(before.items) :]:
        yield RunItemStreamEvent(id=next_id, name=_NAMES[item.kind], item=item)
        next_id += 1
    for agent in after.handoff_path[len(before.handoff_path) :]:
        yield AgentUpdatedStreamEvent(id=next_id, new_agent=agent)
        next_id += 1
    for index, request in enumerate(after.approvals):
        if index >= len(before.approvals) or before.approvals[index] != request:
            yield ApprovalStreamEvent(id=next_id, request=request)
            next_id += 1
    if after.status != before.status:
        yield StatusStreamEvent(id=next_id, status=after.status)
