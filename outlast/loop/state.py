"""The state of a run: one frozen value that holds everything the run is.

Owns: `LoopState` and what can be read off it. Only modules of `loop/` make new ones.
"""

from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias

from outlast.loop.approvals import ApprovalRequest, Remembered
from outlast.loop.calls import Call
from outlast.loop.checks import Candidate, GuardrailRecord, RequiredStep
from outlast.loop.effects import (
    BACKGROUND,
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
class Start:
    """What a run was started with. It never changes.

    Attributes:
        max_turns: how many model calls one answer may take; None for no bound.
        keep_open: whether the run takes further messages after an answer.
        settings: the run's settings, opaque to the loop.
        context_type: the registered name of the context's type.
        started_at_ms: when the run began.
        session: whether the run has a session.
        handled: codes of the failures that a handler may answer; `*` for all.
        parent: the run that this one works for, as the agent behind a tool.
        chain_id: the same for every history of the run, also after a reset.
    """

    max_turns: int | None = None
    keep_open: bool = False
    settings: JsonObject | None = None
    context_type: str | None = None
    started_at_ms: int = 0
    session: bool = False
    handled: tuple[str, ...] = ()
    parent: Parent | None = None
    chain_id: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is being answered, and how far the run has come with it.

    Attributes:
        answering: ids of the messages that the model has seen and that have no answer yet.
        turn: model calls made for the answer.
        question_from: the index of the question's first item.
        asked_from: the index of the first item after the question.
        unchecked_from: the index from which items wait for input guardrails to pass them.
        guardrails: what guardrails said about the question and its answer.
        candidate: the answer that is not given yet.
        tool_users: the agents that have called tools.
        starts: whether the active agent's next model call begins its work.
        judged: whether a rule decides if the outputs of the calls are the answer.
        parallel: how many calls may run at once.
    """

    answering: tuple[str, ...] = ()
    turn: int = 0
    question_from: int = 0
    asked_from: int = 0
    unchecked_from: int | None = None
    guardrails: tuple[GuardrailRecord, ...] = ()
    candidate: Candidate | None = None
    tool_users: tuple[str, ...] = ()
    starts: bool = True
    judged: bool = False
    parallel: int | None = None


@dataclass(frozen=True, kw_only=True)
class Saving:
    """What the session has, and what it still has to get.

    Attributes:
        to_save: ranges of items that are queued for the session, oldest first.
        queued_up_to: the index up to which it is decided what the session gets.
        save_failure: why `to_save` is not being saved; the next question tries again.
        has_saved: whether the session has taken items of the run.
    """

    to_save: tuple[ItemsToSave, ...] = ()
    queued_up_to: int = 0
    save_failure: SaveFailure | None = None
    has_saved: bool = False


@dataclass(frozen=True, kw_only=True)
class Server:
    """What the provider's server keeps of the conversation.

    Attributes:
        thread: how it keeps the conversation; None where it keeps nothing.
        known: how many items it has.
    """

    thread: ServerThread | None = None
    known: int = 0


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What of the transcript is stored outside of the run.

    Attributes:
        stores: whether workers can store content outside.
        offloaded: the index up to which large content was stored outside.
        inline: characters after that index that could be stored; counted where workers store.
    """

    stores: bool = False
    offloaded: int = 0
    inline: int = 0


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """Where a run is.

    Attributes:
        run_id: the workflow id.
        start: what the run was started with.
        phase: what the run is doing.
        agent: the active agent.
        model: the active agent's model, for people to read.
        required_steps: what the active agent's definition requires besides model calls.
        context: the application's context as JSON.
        items: the transcript; it only ever grows.
        view: what the model is shown of it.
        hidden: indices of items that a filter took out of the run.
        blocked_from: the index from which input guardrails did not pass the last question.
        turns: model calls made in all.
        usage: tokens spent.
        responses: the models' responses, one for each turn.
        handoff_path: the agents that the conversation went through.
        inbox: messages that the model has not seen.
        question: what is being answered.
        calls: the calls of the reply that is acted on.
        pending: effects asked for and not yet answered.
        next_effect: the number of the next effect.
        blocked: the effects that wait for a worker which can carry them out.
        approvals: every request for approval, in order.
        remembered: decisions that count for further calls.
        nested: what people have to decide in nested runs.
        answers: the answers so far.
        final_output: the newest answer.
        failure: why the newest message has no answer, or why the run failed.
        saving: what the session has and still has to get.
        server: what the provider's server keeps.
        storage: what is stored outside of the run.
        cancel: a wish to stop after the turn.
        closing: how the run ends, once everything is saved.
        outcome: how the run ended, once it has.
        ignored: the newest things that reached the run and did not count.
        trace: where the newest effect belongs in the run's trace, if it is traced.
    """

    run_id: str = ""
    start: Start = Start()
    phase: Phase = "new"
    agent: str = ""
    model: str = ""
    required_steps: tuple[RequiredStep, ...] = ()
    context: Json = None
    items: tuple[Item, ...] = ()
    view: View = WHOLE
    hidden: tuple[int, ...] = ()
    blocked_from: int | None = None
    turns: int = 0
    usage: Usage = NO_USAGE
    responses: tuple[Response, ...] = ()
    handoff_path: tuple[str, ...] = ()
    inbox: tuple[Message, ...] = ()
    question: Question = Question()
    calls: tuple[Call, ...] = ()
    pending: tuple[Effect, ...] = ()
    next_effect: int = 1
    blocked: tuple[Blocked, ...] = ()
    approvals: tuple[ApprovalRequest, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    nested: tuple[NestedRequests, ...] = ()
    answers: tuple[Answer, ...] = ()
    final_output: Json = None
    failure: Failure | None = None
    saving: Saving = Saving()
    server: Server = Server()
    storage: Storage = Storage()
    cancel: CancelMode | None = None
    closing: Ending | None = None
    outcome: Outcome | None = None
    ignored: tuple[Ignored, ...] = ()
    trace: TraceMark | None = None

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


_PARTS: Final = {
    "start": Start,
    "question": Question,
    "saving": Saving,
    "server": Server,
    "storage": Storage,
}
_FIELDS: Final = frozenset(field.name for field in fields(LoopState))
_PART_OF: Final = {field.name: part for part, kind in _PARTS.items() for field in fields(kind)}


def revised(state: LoopState, **changes: Any) -> LoopState:
    """Return the state with some fields changed, its own or those of its parts.

    It does what `dataclasses.replace` does, without looking at the fields that stay: every event
    makes about ten states, and that was a quarter of what the loop costs.

    Raises:
        TypeError: neither the state nor a part of it has such a field.
    """
    newer = object.__new__(LoopState)
    values: dict[str, Any] = vars(newer)
    values.update(vars(state))
    for name, value in changes.items():
        part = _PART_OF.get(name)
        if part is not None:
            values[part] = _revised_part(values[part], name, value)
        elif name in _FIELDS:
            values[name] = value
        else:
            raise TypeError(f"LoopState has no {name}")
    return newer


def _revised_part(part: object, name: str, value: Any) -> object:
    newer = object.__new__(type(part))
    vars(newer).update(vars(part))
    vars(newer)[name] = value
    return newer


Step: TypeAlias = tuple[LoopState, tuple[Command, ...]]
"""Where a run is after something, and what the shell has to do about it."""


def may_save(state: LoopState) -> bool:
    """Whether the session is due its next items: guardrails have passed them, and it takes them."""
    trouble = state.saving.save_failure
    if (
        state.phase == "closed"
        or not state.saving.to_save
        or (trouble is not None and not trouble.retrying)
    ):
        return False
    return (
        state.question.unchecked_from is None
        or state.saving.to_save[0].stop <= state.question.unchecked_from
    )


def waits_for_people(state: LoopState) -> bool:
    """Whether nothing will happen until a person decides, here or in every nested run."""
    asking = {one.nested_id for one in state.nested if one.requests}
    return state.phase == "acting" and all(
        effect.kind in BACKGROUND or (effect.kind == "run_agent" and effect.nested_id in asking)
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
    judged = state.question.judged or any(call.plan.final for call in state.calls)
    is_candidate = state.question.candidate is not None and state.question.candidate.failure is None
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
        or message_id in state.question.answering
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
