"""Everything that can happen to a run. Past participles; each is one entry of its history.

Owns: the events. An event carries its time (milliseconds since the epoch), because the loop has
no clock. Must not know: how an event reaches the run; `outlast.contract` decodes it.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.approvals import Decision
from outlast.loop.calls import Briefing, HandoffResult, ModelReply, ToolResult
from outlast.loop.items import Message
from outlast.loop.values import Failure, Json, JsonObject

CancelMode: TypeAlias = Literal["immediate", "after_turn"]


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
    """

    at_ms: int
    run_id: str
    agent: str
    message: Message
    context: Json = None
    context_type: str | None = None
    max_turns: int | None = 10
    keep_open: bool = False
    settings: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPrepared:
    """The worker knows the starting agent."""

    at_ms: int
    effect: int
    briefing: Briefing


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    """A model call came back with a reply and the plan for it."""

    at_ms: int
    effect: int
    reply: ModelReply


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool call came back with an output."""

    at_ms: int
    effect: int
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoffFinished:
    """A handoff's callback has run."""

    at_ms: int
    effect: int
    result: HandoffResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFailed:
    """An effect failed for good: its last retry, its time-out, its cancellation."""

    at_ms: int
    effect: int
    failure: Failure


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


Event: TypeAlias = (
    RunStarted
    | RunPrepared
    | ModelReplied
    | ToolFinished
    | HandoffFinished
    | EffectFailed
    | MessageReceived
    | DecisionReceived
    | CancelRequested
    | SignalUnreadable
)
