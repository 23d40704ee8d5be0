"""The events of a line: what changes in its run, and what becomes of the line itself.

`Progress` derives those of the run from two consecutive states.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop import run_changes
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, call_id_of
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import Failure, Json, JsonObject


@dataclass(frozen=True)
class CallBegan:
    """A tool call is under way."""

    agent: str
    name: str
    call_id: str
    arguments: str


@dataclass(frozen=True)
class CallEnded:
    """A tool call has an output."""

    call: CallBegan
    output: Json


@dataclass(frozen=True)
class ApprovalNeeded:
    """A tool call waits for a person."""

    request: ApprovalRequest


@dataclass(frozen=True)
class AgentSwitched:
    """Another agent is active."""

    before: str
    after: str


@dataclass(frozen=True)
class OutputReady:
    """A call has an output while others wait for people: the caller need not wait with them."""

    call_id: str
    output: Json


@dataclass(frozen=True)
class ModelDue:
    """The model is to go on, with items that its session does not have, by their index."""

    effect: CallModel
    items: tuple[tuple[int, Item], ...]


@dataclass(frozen=True)
class QuestionFailed:
    """The run cannot answer; the conversation stays open."""

    failure: Failure


@dataclass(frozen=True)
class LineLost:
    """The run no longer counts on this line: another one is attached, or it was silent."""

    replaced: bool


@dataclass(frozen=True)
class RunOver:
    """The run has ended; with its failure, if it has failed."""

    failure: Failure | None


ReconnectReason: TypeAlias = Literal["connection_lost", "session_limit"]


@dataclass(frozen=True)
class Reconnected:
    """The line has a new connection to the model."""

    reason: ReconnectReason


@dataclass(frozen=True)
class LineError:
    """Something failed, and the line goes on."""

    error: object


@dataclass(frozen=True)
class LineClosed:
    """The line has ended by itself, with its error if there is one."""

    error: BaseException | None = None


RunEvent: TypeAlias = (
    CallBegan
    | CallEnded
    | ApprovalNeeded
    | AgentSwitched
    | OutputReady
    | ModelDue
    | QuestionFailed
    | LineLost
    | RunOver
)
LineEvent: TypeAlias = RunEvent | Reconnected | LineError | LineClosed


class Progress:
    """Reads the states of a run for one line."""

    def __init__(self) -> None:
        self.line: str = ""
        self._own: list[JsonObject] = []
        self._state = LoopState()
        self._new: list[tuple[int, Item]] = []
        self._calls: dict[str, CallBegan] = {}
        self._began: set[str] = set()
        self._sent: set[str] = set()
        self._asked: set[str] = set()
        self._undecided: set[str] = set()
        self._served = 0
        self._attached = False

    def begin(self, state: LoopState) -> None:
        """Take a state as the beginning: its items are in the provider's session.

        Its model call is not due again: whoever begins anew lets the model speak.
        """
        for change in run_changes.run_changes(self._state, None, state):
            if isinstance(change, run_changes.ItemsRecorded):
                self._note_calls(change.items)
        self._state = state
        self._new.clear()
        self._own.clear()
        self._sent.clear()
        call = model_call_on(self.line, state)
        self._served = 0 if call is None else call.effect

    def attached(self, line: str) -> None:
        """Take that a line is attached, as every state shows that is read from now on."""
        self.line, self._attached = line, True

    def replied(self, raws: Iterable[JsonObject]) -> None:
        """Record items that this line reports: its session has them already."""
        self._own.extend(raws)

    def sent(self, call_id: str) -> bool:
        """Record that an output was sent; return whether it had been sent before."""
        was_sent = call_id in self._sent
        self._sent.add(call_id)
        return was_sent

    def read(self, state: LoopState) -> list[RunEvent]:
        """Return the events that lead to a state."""
        events: list[RunEvent] = []
        failed: list[RunEvent] = []
        for change in run_changes.run_changes(self._state, None, state):
            match change:
                case run_changes.ItemsRecorded(start=start, items=items):
                    events += self._new_items(start, items)
                case run_changes.AgentChanged(agent=agent, before=before) if agent != before:
                    events.append(AgentSwitched(before, agent))
                case run_changes.QuestionFailed(failure=failure):
                    failed.append(QuestionFailed(failure))
                case _:
                    pass
        self._state = state
        events += self._calls_begun(state)
        events += self._approvals(state)
        if state.status == "waiting":
            events += self._ready_outputs()
        events += failed
        held = line_of(state)
        is_ours = held is not None and held.line == self.line
        if self._attached and not is_ours and state.outcome is None:
            self._attached = False
            events.append(LineLost(replaced=held is not None))
        self._attached = self._attached or is_ours
        call = model_call_on(self.line, state)
        if call is not None and call.effect > self._served:
            self._served = call.effect
            items, self._new = tuple(self._new), []
            events.append(ModelDue(call, items))
        if state.outcome is not None:
            events.append(RunOver(state.failure if state.outcome == "failed" else None))
        return events

    def _new_items(self, start: int, items: Sequence[Item]) -> list[RunEvent]:
        ended: list[RunEvent] = []
        self._note_calls(items)
        for at, item in enumerate(items, start):
            call_id = call_id_of(item.raw) if item.kind == "tool_output" else ""
            if call_id and call_id in self._began | self._undecided:
                call = self._calls.get(call_id) or CallBegan("", "", call_id, "")
                ended.append(CallEnded(call, item.raw.get("output")))
                self._began.discard(call_id)
                self._undecided.discard(call_id)
            if item.raw in self._own:
                self._own.remove(item.raw)
            else:
                self._new.append((at, item))
        return ended

    def _note_calls(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.kind in {"tool_call", "handoff_call"}:
                call_id = call_id_of(item.raw)
                name, arguments = name_of(item.raw), arguments_of(item.raw)
                self._calls[call_id] = CallBegan(item.agent, name, call_id, arguments)

    def _calls_begun(self, state: LoopState) -> list[RunEvent]:
        begun: list[RunEvent] = []
        for call in state.calls:
            is_tool = call.plan.kind in {"tool", "agent"}
            if is_tool and call.status == "running" and call.call_id not in self._began:
                self._began.add(call.call_id)
                begun.append(CallBegan(state.agent, call.name, call.call_id, call.arguments))
        return begun

    def _approvals(self, state: LoopState) -> list[RunEvent]:
        pending = [
            one
            for one in state.pending_approvals
            if one.id not in self._asked and one.kind != "worker"
        ]
        self._asked.update(one.id for one in pending)
        self._undecided.update(one.call_id for one in pending)
        return [ApprovalNeeded(request) for request in pending]

    def _ready_outputs(self) -> list[RunEvent]:
        ready = [entry for entry in self._new if entry[1].kind == "tool_output"]
        self._new = [entry for entry in self._new if entry not in ready]
        return [OutputReady(call_id_of(item.raw), item.raw.get("output")) for _, item in ready]


def model_call_on(line: str, state: LoopState) -> CallModel | None:
    """Return the model call that a run waits for on a line."""
    calls = (one for one in state.pending if isinstance(one, CallModel))
    return next((one for one in calls if line and one.line == line), None)
