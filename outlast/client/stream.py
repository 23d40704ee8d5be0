"""The numbered events of a run, for its readers.

They are made from two consecutive states, so every reader of the same history sees the same events
with the same numbers, and can resume from any number in any process.
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
from outlast.client.local_definitions import LocalDefinitions
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.items import INTERNAL_KINDS
from outlast.loop.state import LoopState, Status, released

_NOBODY = LocalDefinitions()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStreamEvent:
    """An approval request was made or settled; its status says which."""

    id: int
    request: ApprovalRequest
    type: Literal["approval_stream_event"] = "approval_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStreamEvent:
    """The status of the run has changed."""

    id: int
    status: Status
    type: Literal["status_stream_event"] = "status_stream_event"


NumberedEvent: TypeAlias = (
    RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalStreamEvent | StatusStreamEvent
)
StreamEvent: TypeAlias = NumberedEvent | RawResponsesStreamEvent
"""An event of `RunHandle.stream_events`."""


def changes(
    before: LoopState,
    after: LoopState,
    next_id: int,
    definitions: LocalDefinitions = _NOBODY,
    *,
    internal: bool = False,
) -> Iterator[NumberedEvent]:
    """Yield the events between two consecutive states, in order.

    An answer that needs output guardrails comes after they pass; a blocked answer comes as its
    placeholder.

    Args:
        before: the state before an event of the loop.
        after: the state after it.
        next_id: the number of the first event.
        definitions: the agents that this process has.
        internal: whether notes to the model, and answers that were not approved, are among them.
            Users must not read these.
    """
    for entry in after.items[released(before) : released(after)]:
        if entry.kind in INTERNAL_KINDS and not internal:
            continue
        yield item_event(entry, definitions.run_item(entry), next_id)
        next_id += 1
    for agent in after.handoff_path[len(before.handoff_path) :]:
        yield AgentUpdatedStreamEvent(id=next_id, new_agent=definitions.agent(agent))
        next_id += 1
    for index, request in enumerate(after.approvals):
        if index >= len(before.approvals) or before.approvals[index] != request:
            yield ApprovalStreamEvent(id=next_id, request=request)
            next_id += 1
    if after.status != before.status:
        yield StatusStreamEvent(id=next_id, status=after.status)
