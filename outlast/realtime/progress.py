"""The tasks and reports of a line, derived from two consecutive states of the run.

Pure: states in, steps out. The loop decides everything; a line only carries it out.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.call_forms import arguments_of, name_of
from outlast.loop.effects import CallModel
from outlast.loop.items import Item, call_id_of
from outlast.loop.state import LoopState, Outcome, line_of
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

    agent: str
    name: str
    call_id: str
    arguments: str
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
    """The model is to go on, with items that its session does not have.

    Attributes:
        effect: the model call.
        items: the items, each with its index in the transcript.
    """

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
    """The run has ended."""

    outcome: Outcome
    failure: Failure | None


Step: TypeAlias = (
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


class Progress:
    """Reads the states of a run for one line.

    Attributes:
        line: the id of the line; empty before it is attached.
    """

    def __init__(self, line: str = "") -> None:
        self.line = line
        self._own: deque[JsonObject] = deque()
        self._seen = 0
        self._new: list[tuple[int, Item]] = []
        self._calls: dict[str, tuple[str, str, str]] = {}
        self._began: set[str] = set()
        self._sent: set[str] = set()
        self._asked: set[str] = set()
        self._undecided: set[str] = set()
        self._agent = ""
        self._served = 0
        self._answers = 0
        self._attached = False

    def begin(self, state: LoopState) -> None:
        """Take a state as the beginning: its items are in the provider's session.

        Its model call is not due again: whoever begins anew lets the model speak.
        """
        self._note_calls(state.items[self._seen :])
        self._seen = len(state.items)
        self._new.clear()
        self._own.clear()
        self._sent.clear()
        call = self._call_of(state)
        self._served = 0 if call is None else call.effect
        self._agent = state.agent
        self._answers = len(state.answers)

    def attached(self, line: str) -> None:
        """Take that a line is attached, as every state shows that is read from now on."""
        self.line, self._attached = line, True

    def replied(self, raws: Iterable[JsonObject]) -> None:
        """Record items that this line reports: its session has them already."""
        self._own.extend(raws)

    def sent(self, call_id: str) -> bool:
        """Record that an output was sent; return whether it had been sent before."""
        if call_id in self._sent:
            return True
        self._sent.add(call_id)
        return False

    def read(self, state: LoopState) -> list[Step]:
        """Return the steps that a state leads to."""
        steps: list[Step] = [*self._new_items(state)]
        if state.agent != self._agent:
            steps.append(AgentSwitched(self._agent, state.agent))
            self._agent = state.agent
        steps += self._calls_begun(state)
        steps += self._approvals(state)
        steps += self._ready_outputs(state)
        steps += self._failures(state)
        held = line_of(state)
        is_ours = held is not None and held.line == self.line
        if self._attached and not is_ours and state.outcome is None:
            self._attached = False
            steps.append(LineLost(replaced=held is not None))
        self._attached = self._attached or is_ours
        steps += self._due(state)
        if state.outcome is not None:
            steps.append(RunOver(state.outcome, state.failure))
        return steps

    def _new_items(self, state: LoopState) -> list[Step]:
        """Take the new items, and return the ends of calls among them."""
        ended: list[Step] = []
        fresh = state.items[self._seen :]
        self._note_calls(fresh)
        for at, item in enumerate(fresh, self._seen):
            if item.kind in {"tool_output", "handoff_output"}:
                call_id = call_id_of(item.raw)
                agent, name, arguments = self._calls.get(call_id, ("", "", ""))
                if item.kind == "tool_output" and call_id in self._began | self._undecided:
                    output: Json = item.raw.get("output")
                    ended.append(CallEnded(agent, name, call_id, arguments, output))
                    self._began.discard(call_id)
                    self._undecided.discard(call_id)
            if self._is_own(item.raw):
                continue
            self._new.append((at, item))
        self._seen = len(state.items)
        return ended

    def _is_own(self, raw: JsonObject) -> bool:
        """Whether the line has reported an item itself."""
        for at, own in enumerate(self._own):
            if own == raw:
                del self._own[at]
                return True
        return False

    def _note_calls(self, items: Iterable[Item]) -> None:
        for item in items:
            if item.kind in {"tool_call", "handoff_call"}:
                raw = item.raw
                self._calls[call_id_of(raw)] = (item.agent, name_of(raw), arguments_of(raw))

    def _calls_begun(self, state: LoopState) -> list[Step]:
        begun: list[Step] = []
        for call in state.calls:
            is_tool = call.plan.kind in {"tool", "agent"}
            if is_tool and call.status == "running" and call.call_id not in self._began:
                self._began.add(call.call_id)
                begun.append(CallBegan(state.agent, call.name, call.call_id, call.arguments))
        return begun

    def _approvals(self, state: LoopState) -> list[Step]:
        pending = [
            one
            for one in state.pending_approvals
            if one.id not in self._asked and one.kind != "worker"
        ]
        self._asked.update(one.id for one in pending)
        self._undecided.update(one.call_id for one in pending)
        return [ApprovalNeeded(request) for request in pending]

    def _ready_outputs(self, state: LoopState) -> list[Step]:
        if state.status != "waiting":
            return []
        ready = [(at, item) for at, item in self._new if item.kind == "tool_output"]
        self._new = [entry for entry in self._new if entry not in ready]
        return [OutputReady(call_id_of(item.raw), item.raw.get("output")) for _, item in ready]

    def _failures(self, state: LoopState) -> list[Step]:
        fresh = state.answers[self._answers :]
        self._answers = len(state.answers)
        return [QuestionFailed(one.failure) for one in fresh if one.failure is not None]

    def _call_of(self, state: LoopState) -> CallModel | None:
        """Return the model call that the run waits for on this line."""
        calls = (one for one in state.pending if isinstance(one, CallModel))
        return next((one for one in calls if one.line and one.line == self.line), None)

    def _due(self, state: LoopState) -> list[Step]:
        call = self._call_of(state)
        if call is None or call.effect <= self._served:
            return []
        self._served = call.effect
        items, self._new = tuple(self._new), []
        return [ModelDue(call, items)]
