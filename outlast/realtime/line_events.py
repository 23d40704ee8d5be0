"""The events of a line: those of its session, and what the line itself has to do.

`Progress` derives those of the run from two consecutive states.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from outlast.client.results.local_definitions import LocalDefinitions
from outlast.loop import run_changes
from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, call_id_of
from outlast.loop.state import LoopState, line_of
from outlast.loop.values import Failure, Json, JsonObject
from outlast.realtime.events import (
    RealtimeError,
    RealtimeEventInfo,
    RealtimeHandoffEvent,
    RealtimeSessionEvent,
    RealtimeToolApprovalRequired,
    RealtimeToolEnd,
    RealtimeToolStart,
)


@dataclass(frozen=True)
class SessionEvents:
    """Makes a session's events, in which agents and tools stand instead of their names."""

    definitions: LocalDefinitions
    info: RealtimeEventInfo

    def agent(self, name: str) -> Any:
        """Return an agent."""
        return self.definitions.agent(name)

    def call(self, agent: str, name: str) -> tuple[Any, Any]:
        """Return the agent of a call and its tool; the tool's name if it is not defined here."""
        return self.agent(agent), self.definitions.tool(agent, name) or name

    def error(self, error: object) -> RealtimeError:
        """Return the event of an error."""
        return RealtimeError(error, self.info)

    def failure(self, failure: Failure) -> RealtimeError:
        """Return the event of a failure of the run."""
        return self.error({"code": failure.code, "message": failure.message})


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
class LineLost:
    """The run no longer counts on this line, because it was silent."""


@dataclass(frozen=True)
class LineClosed:
    """The line is over, with its error if there is one."""

    error: BaseException | None = None


LineEvent: TypeAlias = RealtimeSessionEvent | ModelDue | OutputReady | LineLost | LineClosed
"""What a line or its session has to do, or an event that the session passes on."""


class Progress:
    """Reads the states of a run for one line."""

    def __init__(self, session: SessionEvents) -> None:
        self.line: str = ""
        self.under_way: dict[str, bool] = {}
        """Whether a person has to decide about a call under way, by the id of the call."""
        self.asked: dict[str, ApprovalRequest] = {}
        """What the program was told of each request, by its id."""
        self._session = session
        self._own: list[JsonObject] = []
        self._state = LoopState()
        self._new: list[tuple[int, Item]] = []
        self._calls: dict[str, Item] = {}
        self._began: set[str] = set()
        self._sent: set[str] = set()
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

    def read(self, state: LoopState) -> list[LineEvent]:
        """Return the events that lead to a state."""
        events: list[LineEvent] = []
        failed: list[LineEvent] = []
        for change in run_changes.run_changes(self._state, None, state):
            match change:
                case run_changes.ItemsRecorded(start=start, items=items):
                    events += self._new_items(start, items)
                case run_changes.AgentChanged(agent=agent, before=before) if agent != before:
                    agents = self._session.agent(before), self._session.agent(agent)
                    events.append(RealtimeHandoffEvent(*agents, self._session.info))
                case run_changes.QuestionFailed(failure=failure):
                    failed.append(self._session.failure(failure))
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
            events.append(LineLost() if held is None else LineClosed())
        self._attached = self._attached or is_ours
        call = model_call_on(self.line, state)
        if call is not None and call.effect > self._served:
            self._served = call.effect
            items, self._new = tuple(self._new), []
            self.under_way.clear()
            events.append(ModelDue(call, items))
        if state.outcome is not None:
            if state.outcome == "failed" and state.failure is not None:
                events.append(self._session.failure(state.failure))
            events.append(LineClosed())
        return events

    def _new_items(self, start: int, items: Sequence[Item]) -> list[LineEvent]:
        ended: list[LineEvent] = []
        self._note_calls(items)
        for at, item in enumerate(items, start):
            call_id = call_id_of(item.raw) if item.kind == "tool_output" else ""
            if call_id and call_id in self._began | self._undecided:
                call = self._calls.get(call_id) or Item("tool_call", {})
                named = self._session.call(call.agent, name_of(call.raw))
                output, arguments = item.raw.get("output"), arguments_of(call.raw)
                ended.append(RealtimeToolEnd(*named, arguments, output, self._session.info))
                self.under_way.pop(call_id, None)
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
                self._calls[call_id_of(item.raw)] = item

    def _calls_begun(self, state: LoopState) -> list[LineEvent]:
        begun: list[LineEvent] = []
        for call in state.calls:
            is_tool = call.plan.kind in {"tool", "agent"}
            if is_tool and call.status == "running" and call.call_id not in self._began:
                self._began.add(call.call_id)
                self.under_way[call.call_id] = False
                named = self._session.call(state.agent, call.name)
                begun.append(RealtimeToolStart(*named, call.arguments, self._session.info))
        return begun

    def _approvals(self, state: LoopState) -> list[LineEvent]:
        needed: list[LineEvent] = []
        for one in state.pending_approvals:
            if one.id not in self.asked and one.kind != "worker":
                self.asked[one.id] = one
                self._undecided.add(one.call_id)
                self.under_way[one.call_id] = True
                told = *self._session.call(one.agent, one.name), one.call_id, one.arguments
                needed.append(RealtimeToolApprovalRequired(*told, self._session.info))
        return needed

    def _ready_outputs(self) -> list[LineEvent]:
        ready = [entry for entry in self._new if entry[1].kind == "tool_output"]
        self._new = [entry for entry in self._new if entry not in ready]
        return [OutputReady(call_id_of(item.raw), item.raw.get("output")) for _, item in ready]


def model_call_on(line: str, state: LoopState) -> CallModel | None:
    """Return the model call that a run waits for on a line."""
    calls = (one for one in state.pending if isinstance(one, CallModel))
    return next((one for one in calls if line and one.line == line), None)
