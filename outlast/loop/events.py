"""Everything that can happen to a run. Past participles; each is one entry of its history.

Every event carries its time in milliseconds since the epoch, because the loop has no clock.
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
    """The parent of a nested run.

    Attributes:
        run_id: the parent's workflow id.
        prefix: the beginning of the nested run's approval ids, so that they differ from the
            parent's.
    """

    run_id: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run was started with a message.

    Attributes:
        run_id: the workflow id.
        agent: the starting agent's name.
        message: the user's message.
        context: the application's context as JSON.
        context_type: the registered name of the context's type, if any.
        max_turns: how many model calls one answer may take; None for no bound.
        keep_open: the run stays open after an answer and accepts further messages.
        settings: the run's settings as JSON; opaque to the loop, for the activities.
        session: the run has a session, which its items are read from and saved to.
        thread: how the provider's server keeps the conversation.
        handled: codes of the failures that a handler may turn into answers; `*` for all.
        parent: the parent of a nested run.
        chain_id: identifies the run across all its histories; unchanged by a reset.
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
    """No worker can carry out an effect so far: `lacks` names what workers lack.

    The effect is retried until a worker can carry it out; then `lacks` is empty.
    """

    at_ms: int
    effect: int
    lacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A further message arrived."""

    at_ms: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionReceived:
    """A person decided about an approval request."""

    at_ms: int
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedReported:
    """A nested run reported its pending approval requests."""

    at_ms: int
    nested_id: str
    requests: tuple[ApprovalRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:
    """Somebody asked the run to stop: immediately, or after the current turn."""

    at_ms: int
    mode: CancelMode = "immediate"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalUnreadable:
    """A signal could not be decoded; it is shown to people and has no effect."""

    at_ms: int
    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The engine ended the run without an event of the loop.

    Attributes:
        outcome: how the run ended; `terminated` by an operator or a limit of the server.
        failure: the reason, if there is one.
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
