"""Everything that can happen to a run. Past participles; each is one entry of its history.

Owns: the events. An event carries its time (milliseconds since the epoch), because the loop has
no clock. Must not know: how an event reaches the run; `outlast.contract` decodes it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest, Decision
from outlast.loop.effects import EffectEvent
from outlast.loop.items import Message
from outlast.loop.values import DEFAULT_MAX_TURNS, Failure, Json, JsonObject, ServerThread

CancelMode: TypeAlias = Literal["immediate", "after_turn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The run that this one works for, as the agent behind one of its tools.

    Attributes:
        run_id: its workflow id.
        prefix: begins the ids of this run's approvals, so that they differ from the parent's.
    """

    run_id: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """Somebody asked an agent something.

    Attributes:
        run_id: the workflow id.
        agent: the starting agent's name.
        message: what was asked.
        context: the application's context as JSON.
        context_type: the registered name of the context's type, where it has one.
        max_turns: how many model calls one answer may take; None for no bound.
        keep_open: stay open after the answer and take further messages.
        settings: the run's settings as JSON; opaque to the loop, for the activities.
        session: the run has a session, where its items are read from and written to.
        thread: how the provider's server keeps the conversation.
        handled: the codes of the failures that may become answers; `*` for all.
        parent: the run that this one works for.
        chain_id: the same for every history of the run, also after a reset.
    """

    at_ms: int
    run_id: str
    agent: str
    message: Message
    context: Json = None
    context_type: str | None = None
    max_turns: int | None = DEFAULT_MAX_TURNS
    keep_open: bool = False
    settings: JsonObject | None = None
    session: bool = False
    thread: ServerThread | None = None
    handled: tuple[str, ...] = ()
    parent: Parent | None = None
    chain_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBlocked:
    """No worker could carry an effect out so far: `lacks` says what they lack.

    The effect is tried again until a worker has it; then `lacks` is empty.
    """

    at_ms: int
    effect: int
    lacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """Somebody said something more."""

    at_ms: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReceived:
    """A person decided about an approval request."""

    at_ms: int
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedReported:
    """A nested run says what people have to decide there, as it is now."""

    at_ms: int
    nested_id: str
    requests: tuple[ApprovalRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody wants the run to stop: at once, or after the turn it is in."""

    at_ms: int
    mode: CancelMode = "immediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalUnreadable:
    """A signal came that nobody could read; it is noted where people look, and has no effect."""

    at_ms: int
    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The engine ended the run, without asking the loop.

    Attributes:
        outcome: how; `terminated` by an operator or a limit of the server.
        failure: why, where there is a reason.
    """

    at_ms: int
    outcome: Literal["failed", "cancelled", "terminated"]
    failure: Failure | None = None


Event: TypeAlias = (
    RunStarted
    | EffectEvent
    | EffectBlocked
    | RunEnded
    | MessageReceived
    | DecisionReceived
    | NestedReported
    | CancelRequested
    | SignalUnreadable
)
