"""The state of a run: one frozen value that holds everything the run is.

Owns: `LoopState` and what can be read off it. Only modules of `loop/` make new ones.
"""

from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest, Remembered
from outlast.loop.calls import Call
from outlast.loop.checks import Candidate, GuardrailRecord, RequiredStep
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Command,
    Effect,
    FinalizeAnswer,
    RunHandoff,
    SaveSession,
)
from outlast.loop.events import CancelMode, Parent
from outlast.loop.items import Item, Message
from outlast.loop.trace_mark import TraceMark
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, ServerThread, Usage
from outlast.loop.view import WHOLE, View, shown

Phase: TypeAlias = Literal[
    "new",
    "preparing",
    "checking",
    "thinking",
    "acting",
    "transferring",
    "turned",
    "finalizing",
    "idle",
    "closing",
    "closed",
]
Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
"""How the loop ends a run."""

Outcome: TypeAlias = Literal["completed", "failed", "cancelled", "terminated"]
"""How a run ended; only the engine terminates one."""

Status: TypeAlias = Literal[
    "running", "waiting", "blocked", "idle", "completed", "failed", "cancelled", "terminated"
]

CALL_KINDS = frozenset({"tool_call", "handoff_call"})
OUTPUT_KINDS = frozenset({"tool_output", "handoff_output"})
ANSWER_KINDS = frozenset({"message", "tool_output", "other"})
"""Kinds of items that may hold an answer."""


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
class Response:
    """One response of a model: which turn of the run it was, what it cost, its provider's ids."""

    turn: int
    usage: Usage = NO_USAGE
    response_id: str | None = None
    request_id: str | None = None
    raw_usage: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsToSave:
    """A range of the transcript that the session has to get, but for what a filter has dropped."""

    start: int
    stop: int
    dropped: tuple[int, ...] = ()
    withheld: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An effect that no worker could carry out so far: since when, and what they lack."""

    effect: int
    at_ms: int
    lacks: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailure:
    """Why the session lacks what is queued for it, and since when; `retrying` tries again."""

    at_ms: int
    failure: Failure
    retrying: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedRequests:
    """What people have to decide in a nested run, and in those nested in it."""

    nested_id: str
    requests: tuple[ApprovalRequest, ...]


@dataclass(frozen=True, kw_only=True)
class LoopState:
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
        blocked: the effects that wait for a worker which can carry them out.
        cancel: a wish to stop after the turn.
        final_output: the newest answer.
        failure: why the newest message has no answer, or why the run failed.
        outcome: how the run ended, once it has.
        ignored: the newest things that did not count.
        started_at_ms: when the run began.
        required_steps: what has to be done for the active agent.
        handled: codes of the failures that may become answers; `*` for all.
        candidate: the answer that is not given yet.
        guardrails: what guardrails said about the current question and its answer.
        responses: the models' responses, one for each turn.
        view: what the model is shown of the transcript.
        asked_from: the index of the first item after the current question.
        question_from: the index of the current question's first item.
        unchecked_from: the index from which items wait for input guardrails to pass them.
        blocked_from: the index from which input guardrails did not pass the last question.
        hidden: indices of items that a filter took out of the run.
        thread: how the provider's server keeps the conversation.
        known: how many items that server has.
        session: the run has a session.
        to_save: what the session has to get, oldest first.
        noted: the index up to which it is decided what the session gets.
        save_failure: why `to_save` is not being saved; the next question tries again.
        has_saved: the session has taken items of the run.
        chain_id: the same for every history of the run, also after a reset.
        closing: how the run ends, once everything is saved.
        judged: a rule decides whether the outputs of the calls are the answer.
        parallel: how many calls may run at once.
        tool_users: the agents that have called tools for the current question.
        starts: the active agent's next model call begins its work.
        remembered: decisions that go for further calls.
        nested: what people have to decide in nested runs.
        parent: the run that this one works for.
        trace: where the newest effect belongs in the run's trace, if it is traced.
        stores: workers can store content outside of the run.
        offloaded: the index up to which content of items was stored outside.
        inline: characters after that which could be; counted where workers can.
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
    blocked: tuple[Blocked, ...] = ()
    cancel: CancelMode | None = None
    final_output: Json = None
    failure: Failure | None = None
    outcome: Outcome | None = None
    ignored: tuple[Ignored, ...] = ()
    started_at_ms: int = 0
    required_steps: tuple[RequiredStep, ...] = ()
    handled: tuple[str, ...] = ()
    candidate: Candidate | None = None
    guardrails: tuple[GuardrailRecord, ...] = ()
    responses: tuple[Response, ...] = ()
    view: View = WHOLE
    asked_from: int = 0
    question_from: int = 0
    unchecked_from: int | None = None
    blocked_from: int | None = None
    hidden: tuple[int, ...] = ()
    thread: ServerThread | None = None
    known: int = 0
    session: bool = False
    to_save: tuple[ItemsToSave, ...] = ()
    noted: int = 0
    save_failure: SaveFailure | None = None
    has_saved: bool = False
    chain_id: str = ""
    closing: Ending | None = None
    judged: bool = False
    parallel: int | None = None
    tool_users: tuple[str, ...] = ()
    starts: bool = True
    remembered: tuple[Remembered, ...] = ()
    nested: tuple[NestedRequests, ...] = ()
    parent: Parent | None = None
    trace: TraceMark | None = None
    stores: bool = False
    offloaded: int = 0
    inline: int = 0

    @property
    def status(self) -> Status:
        """The phase as a person would put it: is it working, or whom does it wait for?"""
        if self.outcome is not None:
            return self.outcome
        if may_save(self):
            return "running"  # whoever is waited for finds everything saved
        if self.phase == "idle":
            return "idle"
        if waits_for_people(self):
            return "waiting"
        return "blocked" if self.blocked else "running"

    @property
    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """What people still have to decide, here and in nested runs."""
        own = tuple(request for request in self.approvals if request.status == "pending")
        return own + tuple(request for one in self.nested for request in one.requests)


_FIELDS = frozenset(field.name for field in fields(LoopState))


def revised(state: LoopState, **changes: Any) -> LoopState:
    """Return the state with some fields changed.

    What `dataclasses.replace` does, without looking at the forty fields that stay: every event
    makes about ten states, and that was a quarter of what the loop costs.

    Raises:
        TypeError: a state has no such field.
    """
    if not changes.keys() <= _FIELDS:
        raise TypeError(f"LoopState has no {', '.join(sorted(changes.keys() - _FIELDS))}")
    newer = object.__new__(LoopState)
    vars(newer).update(vars(state))
    vars(newer).update(changes)
    return newer


Step: TypeAlias = tuple[LoopState, tuple[Command, ...]]
"""Where a run is after something, and what the shell has to do about it."""


def may_save(state: LoopState) -> bool:
    """Whether the session is due its next items: guardrails have passed them, and it takes them."""
    trouble = state.save_failure
    if (
        state.phase == "closed"
        or not state.to_save
        or (trouble is not None and not trouble.retrying)
    ):
        return False
    return state.unchecked_from is None or state.to_save[0].stop <= state.unchecked_from


def waits_for_people(state: LoopState) -> bool:
    """Whether nothing will happen until a person decides, here or in every nested run."""
    asking = {one.nested_id for one in state.nested if one.requests}
    return state.phase == "acting" and all(
        effect.kind in {"save_session", "offload_items"}
        or (effect.kind == "run_agent" and effect.nested_id in asking)
        for effect in state.pending
    )


def is_held(state: LoopState) -> bool:
    """Whether input guardrails still run beside a turn; it may not lead to anything before."""
    return any(isinstance(effect, CheckInput) for effect in state.pending)


def released(state: LoopState) -> int:
    """Return how many items readers may see: output guardrails may still withhold the others.

    While an answer waits for output guardrails, or the outputs of the calls may become one, what
    the newest turn says and its outputs are not shown to anybody.
    """
    judged = state.judged or any(call.plan.final for call in state.calls)
    is_candidate = state.candidate is not None and state.candidate.failure is None
    if "check_output" not in state.required_steps or not (is_candidate or (state.calls and judged)):
        return len(state.items)
    at = turn_start(state)
    while at < len(state.items) and state.items[at].kind not in ANSWER_KINDS:
        at += 1
    return at


def turn_start(state: LoopState) -> int:
    """Return the index of the first item of the newest turn: the reply and its outputs."""
    index = len(state.items)
    while index > 0 and state.items[index - 1].turn == state.turns > 0:
        index -= 1
    return index


def has_message(state: LoopState, message_id: str) -> bool:
    """Whether a message with this id has reached the run before."""
    return (
        any(message.id == message_id for message in state.inbox)
        or message_id in state.answering
        or any(message_id in answer.to for answer in state.answers)
    )


def items_of(state: LoopState, effect: CallModel | RunHandoff | FinalizeAnswer) -> tuple[Item, ...]:
    """Return the items an effect is about: the same ones whenever it is asked."""
    if isinstance(effect, CallModel):
        return shown(state.view, state.items, effect.input_length)[effect.known :]
    return shown(state.view, state.items, effect.input_length or 0)


def items_to_save(state: LoopState, effect: SaveSession) -> tuple[Item, ...]:
    """Return the items that a session gets: the same ones whenever it is asked."""
    kept = (at for at in range(effect.start, effect.stop) if at not in effect.dropped)
    return tuple(state.items[at] for at in kept)
