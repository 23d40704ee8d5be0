"""Everything that can happen to a run. Past participles; each is one entry of its history.

Every event carries its time in milliseconds since the epoch, because the loop has no clock.
"""

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from outlast.loop.actions import (
    Action,
    AssignedRecord,
    AttachLineRecord,
    CancelRecord,
    DeliverRecord,
    LendRecord,
    LineReplyRecord,
    NestedRecord,
    RatingRecord,
    RetryRecord,
    WithdrawRecord,
)
from outlast.loop.approvals import Person, Remembered
from outlast.loop.effects import EffectEvent
from outlast.loop.fork import Fork
from outlast.loop.items import Message
from outlast.loop.redacted import Redacted
from outlast.loop.start import Start
from outlast.loop.values import Failure, Json, JsonObject, ServerThread

A_co = TypeVar("A_co", bound=Action, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonActed(Generic[A_co]):
    """A person did something in the run.

    Attributes:
        action: what they did.
        verified: a worker has verified the signature.
        nonce: tells the action from every other; a copy of it does nothing. Empty without proof.
        made_at_ms: when it was signed; None without proof.
        arrived_at_ms: when the server had it. Only readers of a history know it: the loop, which
            runs without it, must not use it.
    """

    at_ms: int
    action: A_co
    verified: bool = False
    nonce: str = ""
    made_at_ms: int | None = None
    arrived_at_ms: int | None = None

    @property
    def person(self) -> Person:
        """Who did it."""
        return self.action.person


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """A run was started with a message.

    Attributes:
        run_id: the workflow id.
        agent: the starting agent's name.
        message: the user's message; None for a conversation that begins with a call.
        start: the parameters of the start.
        context: the application's context as JSON.
        thread: how the provider's server keeps the conversation.
        remembered: the decisions of the parent's conversation that apply to a nested run.
        redacted: the values that the parent hides from people.
        fork: what the parent of a nested run was forked from.
    """

    at_ms: int
    run_id: str
    agent: str
    message: Message | None
    start: Start
    context: Json = None
    thread: ServerThread | None = None
    remembered: tuple[Remembered, ...] = ()
    redacted: tuple[Redacted, ...] = ()
    fork: Fork | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBlocked:
    """No worker can carry out an effect so far; `lacks` names the missing part.

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
class RetryRequested(RetryRecord):
    """A request to retry the last question, which failed."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageWithdrawn(WithdrawRecord):
    """A sender withdrew a message, which counts if the run has not taken it yet."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDelivered(DeliverRecord):
    """A program delivered a value that a call waits for; its proof is kept if it can be read.

    `verified` says whether a worker has checked the proof; None if one has to, when the tool runs.
    """

    at_ms: int
    verified: bool | None = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """A time came at which something is due: a reminder, an escalation or an expiry."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunForked:
    """A run begins with the state of another one after an event.

    Attributes:
        run_id: the id of the fork.
        chain_id: the first execution of the fork.
        fork: what it was forked from.
        settings: the settings of the fork.
    """

    at_ms: int
    run_id: str
    chain_id: str
    fork: Fork
    settings: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedReported(NestedRecord):
    """A nested run reported what it waits for, and its spending."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLent(LendRecord):
    """The parent lent more of its budget with an index: the nested run's whole share."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRated(RatingRecord):
    """The customer rated the conversation."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamAnswered(AssignedRecord):
    """The team said whose the conversation is."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineAttached(AttachLineRecord):
    """A realtime line opened: it makes the model calls until it ends or another one opens."""

    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineReplied(LineReplyRecord):
    """The model spoke on a realtime line."""

    at_ms: int

    @property
    def message(self) -> Message:
        """What the user said before; its content is empty if the model began."""
        return Message(f"said:{self.reply.response_id}", tuple(self.said), self.at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested(CancelRecord):
    """A request to stop the run: immediately, or after the current turn."""

    at_ms: int


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
    | RunForked
    | EffectEvent
    | EffectBlocked
    | RunEnded
    | MessageReceived
    | RetryRequested
    | MessageWithdrawn
    | PersonActed[Action]
    | ValueDelivered
    | TimePassed
    | NestedReported
    | BudgetLent
    | TeamAnswered
    | ConversationRated
    | LineAttached
    | LineReplied
    | CancelRequested
    | SignalUnreadable
)
