"""The numbered events of a run, for its readers.

They are made from two consecutive states, so every reader of the same history sees the same events
with the same numbers, and can resume from any number in any process.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from outlast.agents.items.stream_events import (
    AgentUpdatedStreamEvent,
    RawResponsesStreamEvent,
    RunItemName,
    RunItemStreamEvent,
    item_event,
)
from outlast.client.read.read_range import HistoryPlace
from outlast.client.results.local_definitions import LocalDefinitions
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.contract.effects import kind_of
from outlast.loop import phrases
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.effects import CallModel
from outlast.loop.items import INTERNAL_KINDS, Item
from outlast.loop.run_changes import (
    AgentChanged,
    ItemsShown,
    RequestUpdated,
    StatusChanged,
    run_changes,
)
from outlast.loop.state import LoopState, Status
from outlast.views.run import RunSnapshot, loop_state

_NOBODY = LocalDefinitions()
_NESTED: Final = phrases.blocked("")
_REMEDY: Final = "Start a worker that has this; the run then continues by itself."


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStreamEvent:
    """An approval request was made or settled; its status says which."""

    id: int
    request: ApprovalRequest
    type: Literal["approval_stream_event"] = "approval_stream_event"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedStep:
    """A step of a run, or of a run nested in it, that no worker can carry out so far.

    Attributes:
        step: the step, such as `The model call of Triage`; it may have text that others have written.
        lacks: what the worker lacks that tried it, in its own words.
    """

    step: str
    lacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusStreamEvent:
    """The status of the run has changed, or what blocks it.

    Attributes:
        id: the event's number.
        status: the present status; `running` if only something beside the conversation is blocked,
            or a step of a nested run.
        blocked: the steps that no worker can carry out so far.
        held_by: the person who has the conversation; empty for the agent.
        waits: the calls that wait for something outside of the run, if the run is `parked`.
        nested_waits: the names of what calls of nested runs wait for, then.
    """

    id: int
    status: Status
    blocked: tuple[BlockedStep, ...] = ()
    held_by: str = ""
    waits: tuple[PendingWait, ...] = ()
    nested_waits: tuple[str, ...] = ()
    type: Literal["status_stream_event"] = "status_stream_event"

    @property
    def reason(self) -> str:
        """Why the run does not go on and what to do, for people; empty while it does."""
        why: list[str] = []
        if self.status == "held":
            why.append(f"{self.held_by} has the conversation; it goes on when they give it back.")
        if self.status == "parked":
            why += [f"It waits for {one.what}." for one in self.waits]
            why += [f"A nested run waits for {name}." for name in self.nested_waits]
        if self.blocked:
            steps = (f"{one.step}: {one.lacks.rstrip('.')}." for one in self.blocked)
            why += ["No worker can go on.", *steps, _REMEDY]
        return " ".join(why)


NumberedEvent: TypeAlias = (
    RunItemStreamEvent | AgentUpdatedStreamEvent | ApprovalStreamEvent | StatusStreamEvent
)
InStream: TypeAlias = ItemsShown | AgentChanged | RequestUpdated | StatusChanged
"""The changes that a run's stream tells of: the items that users may see, and one event each."""

StreamEvent: TypeAlias = NumberedEvent | RawResponsesStreamEvent
"""An event of `RunHandle.stream_events`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedState:
    """A state of a run, and the events that led to it from the state before.

    Attributes:
        state: the state.
        events: the events, numbered as in `RunHandle.stream_events`.
        place: how far the run's history was read.
        is_present: whether all was read that was recorded when the stream began.
        cause: what led to the state, for `RunHandle.timeline` and its like.
    """

    state: RunSnapshot
    events: tuple[NumberedEvent, ...] = ()
    place: HistoryPlace = ("", 0)
    is_present: bool = False
    cause: object = field(default=None, repr=False)

    @property
    def model_call(self) -> int | None:
        """The number of the effect that is the pending model call, if there is one."""
        pending = loop_state(self.state).pending
        return next((one.effect for one in pending if isinstance(one, CallModel)), None)


def changes(
    before: LoopState, after: LoopState, next_id: int, definitions: LocalDefinitions = _NOBODY
) -> Iterator[NumberedEvent]:
    """Yield the events between two consecutive states, in order, numbered from `next_id`.

    An answer that needs output guardrails comes after they pass; a blocked answer comes as its
    placeholder. Notes to the model and answers that were not approved are not for users, nor is
    what a handoff's filter drops of the items that come with the handoff.
    """
    for change in run_changes(before, None, after):
        match change:
            case ItemsShown(items=items, dropped=dropped):
                for at, entry in enumerate(items):
                    if entry.kind not in INTERNAL_KINDS and at not in dropped:
                        yield item_event(entry, definitions.run_item(entry), next_id)
                        next_id += 1
            case AgentChanged(agent=agent):
                yield AgentUpdatedStreamEvent(id=next_id, new_agent=definitions.agent(agent))
                next_id += 1
            case RequestUpdated(request=request):
                yield ApprovalStreamEvent(id=next_id, request=request)
                next_id += 1
            case StatusChanged():
                yield status_event(after, next_id)
                next_id += 1
            case _:
                pass


def status_event(state: LoopState, number: int = 0) -> StatusStreamEvent:
    """Return the event of a new status."""
    held_by = state.hold.by if state.hold is not None else ""
    blocked, is_parked = _blocked_steps(state), state.status == "parked"
    return StatusStreamEvent(
        id=number,
        status=state.status,
        blocked=blocked,
        held_by=held_by,
        waits=pending_waits(state) if is_parked else (),
        nested_waits=tuple(name for one in state.nested for name in one.deliveries)
        if is_parked
        else (),
    )


def item_name(entry: Item) -> RunItemName:
    """Return the name of the event of an item."""
    return item_event(entry, _NOBODY.run_item(entry)).name


def _blocked_steps(state: LoopState) -> tuple[BlockedStep, ...]:
    pending = {effect.effect: effect for effect in state.pending} if state.blocked else {}
    own = (
        BlockedStep(step=kind_of(pending[one.effect]).label(pending[one.effect]), lacks=one.lacks)
        for one in state.blocked
    )
    nested = (
        BlockedStep(
            step=f"{one.name} of {one.agent}", lacks=(one.reason or "").removeprefix(_NESTED)
        )
        for made in state.nested
        for one in made.requests
        if one.kind == "worker"
    )
    return (*own, *nested)
