"""What a reader of a run sees happen, one event after the other.

Owns: the events that only readers of a run's history know, and the numbers of all. They are made
from two consecutive states, so every reader of the same history sees the same events under the
same numbers: whoever was cut off goes on from the number it had, in any process. Must not know: how the states were read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.agents.items.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemStreamEvent,
    item_event,
)
from outlast.client.known_agents import KnownAgents
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.state import LoopState, Status, released

_NOBODY = KnownAgents()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStreamEvent:
    """An approval request was made or settled; its status says which."""

    id: int
    request: ApprovalRequest
    type: Literal["approval_stream_event"] = "approval_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStreamEvent:
    """The run waits, works again, or has ended."""

    id: int
    status: Status
    type: Literal["status_stream_event"] = "status_stream_event"


NumberedEvent: TypeAlias = (
    RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalStreamEvent | StatusStreamEvent
)
StreamEvent: TypeAlias = NumberedEvent | RawResponsesStreamEvent
"""An event of `RunHandle.stream_events`."""


def changes(
    before: LoopState, after: LoopState, next_id: int, known: KnownAgents = _NOBODY
) -> Iterator[NumberedEvent]:
    """Yield what happened between two consecutive states, in the order in which it did.

    An answer that output guardrails have to pass comes once they have; a blocked one, as the
    placeholder in its place.

    Args:
        before: the state before an event of the loop.
        after: the state after it.
        next_id: the number of the first event yielded.
        known: the agents that this process knows.
    """
    for entry in after.items[released(before) : released(after)]:
        yield item_event(entry, known.run_item(entry), next_id)
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
