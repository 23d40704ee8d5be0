"""The state of a run: one frozen value that holds everything the run is.

Owns: `RunState`, what can be read off it, and its invariants. Only `machine.py` makes new ones.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest
from outlast.loop.calls import Call
from outlast.loop.commands import CallModel, Effect
from outlast.loop.events import CancelMode
from outlast.loop.items import Item, Message
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, Usage

Phase: TypeAlias = Literal[
    "new", "preparing", "thinking", "acting", "transferring", "idle", "closed"
]
Outcome: TypeAlias = Literal["completed", "failed", "cancelled"]
Status: TypeAlias = Literal["running", "waiting", "idle", "completed", "failed", "cancelled"]

CALL_KINDS = frozenset({"tool_call", "handoff_call"})
OUTPUT_KINDS = frozenset({"tool_output", "handoff_output"})


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the run.

    Attributes:
        to: the ids of the messages it answers.
        item: the index of the item that holds its text; None where it has none.
        agent: who answered.
        failure: why there is no answer.
    """

    to: tuple[str, ...]
    item: int | None
    agent: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something that reached the run and did not count, kept for people to see."""

    at_ms: int
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run is.

    Attributes:
        run_id: the workflow id.
        agent: the active agent.
        model: the active agent's model, for people to read.
        max_turns: how many model calls one answer may take.
        keep_open: whether the run takes further messages after an answer.
        settings: the run's settings, opaque.
        context: the application's context as JSON.
        context_type: the registered name of the context's type.
        phase: what the run is doing.
        turn: model calls made for the current answer.
        turns: model calls made in all.
        items: the transcript; only ever grows.
        calls: the calls of the reply being acted on.
        pending: effects asked for and not yet answered.
        next_effect: the number of the next effect.
        inbox: messages not yet shown to the model.
        answering: ids of the messages shown to the model and not yet answered.
        answers: what was answered so far.
        approvals: everything people were asked, in order.
        handoff_path: the agents the conversation went through.
        usage: tokens spent.
        cancel: a wish to stop after the turn.
        final_output: the newest answer.
        failure: why the newest message has no answer, or why the run failed.
        outcome: how the run ended, once it has.
        ignored: the newest things that did not count.
        started_at_ms: when the run began.
    """

    run_id: str = ""
    agent: str = ""
    model: str = ""
    max_turns: int | None = None
    keep_open: bool = False
    settings: JsonObject | None = None
    context: Json = None
    context_type: str | None = None
    phase: Phase = "new"
    turn: int = 0
    turns: int = 0
    items: tuple[Item, ...] = ()
    calls: tuple[Call, ...] = ()
    pending: tuple[Effect, ...] = ()
    next_effect: int = 1
    inbox: tuple[Message, ...] = ()
    answering: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    approvals: tuple[ApprovalRequest, ...] = ()
    handoff_path: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    cancel: CancelMode | None = None
    final_output: Json = None
    failure: Failure | None = None
    outcome: Outcome | None = None
    ignored: tuple[Ignored, ...] = ()
    started_at_ms: int = 0

    @property
    def status(self) -> Status:
        """The phase as a person would put it: is it working, or whom does it wait for?"""
        if self.outcome is not None:
            return self.outcome
        if self.phase == "idle":
            return "idle"
        return "waiting" if waits_for_people(self) else "running"

    @property
    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """What people still have to decide."""
        return tuple(request for request in self.approvals if request.status == "pending")


def waits_for_people(state: RunState) -> bool:
    """Whether nothing will happen until a person decides."""
    return state.phase == "acting" and not state.pending


def has_message(state: RunState, message_id: str) -> bool:
    """Whether a message with this id has reached the run before."""
    return (
        any(message.id == message_id for message in state.inbox)
        or message_id in state.answering
        or any(message_id in answer.to for answer in state.answers)
    )


def model_input(state: RunState, call: CallModel) -> tuple[Item, ...]:
    """Return the items a model call is about: the same ones whenever it is asked."""
    return state.items[: call.input_length]
