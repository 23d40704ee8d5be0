"""The state of a run: one frozen value.

Only modules of `loop/` make new states.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from outlast.loop.actions import CancelMode
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalTerms,
    Person,
    Remembered,
)
from outlast.loop.aside import Aside, read_by_model
from outlast.loop.calls import Call, CompactionNeed, TriedModel, WaitPlace
from outlast.loop.case import NO_CASE, Case
from outlast.loop.checks import Candidate, GuardrailRecord, RequiredStep
from outlast.loop.effects import (
    CallModel,
    CheckInput,
    Command,
    CompactView,
    Effect,
    FinalizeAnswer,
    KeepLineOpen,
    RunHandoff,
    SaveSession,
)
from outlast.loop.fork import Fork
from outlast.loop.items import Item, Message
from outlast.loop.notices import Undelivered
from outlast.loop.phrases import HANDOFF_IGNORED
from outlast.loop.redacted import Redacted, passed_on, redacted_by
from outlast.loop.start import NOT_STARTED, Start
from outlast.loop.values import NO_USAGE, Failure, Json, JsonObject, ModelUse, ServerThread, Usage
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
    "asking",
    "held",
    "idle",
    "closing",
    "closed",
]
Ending: TypeAlias = Literal["completed", "failed", "cancelled"]
"""How the loop ends a run."""

Outcome: TypeAlias = Literal["completed", "failed", "cancelled", "terminated"]
"""How a run ended; only the engine terminates a run."""

Status: TypeAlias = Literal[
    "running",
    "waiting",
    "parked",
    "held",
    "blocked",
    "idle",
    "snoozed",
    "resolved",
    "completed",
    "failed",
    "cancelled",
    "terminated",
]

CALL_KINDS = frozenset({"tool_call", "handoff_call"})
OUTPUT_KINDS = frozenset({"tool_output", "handoff_output"})
ANSWER_KINDS = frozenset({"message", "tool_output", "other"})
"""Kinds of items that may hold an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the run.

    Attributes:
        to: the ids of the messages that it answers.
        item: the index of the item that holds its text; None if no item does.
        agent: the agent that answered.
        failure: why there is no answer.
        authors: the members of the team who wrote the question.
    """

    to: tuple[str, ...]
    item: int | None
    agent: str
    failure: Failure | None = None
    authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(WaitPlace):
    """What came of a wait of a call, for people, and for deliveries that come later.

    Attributes:
        tool: the name of the call's tool.
        delivery_id: the delivery that counted; empty if none did.
        source: who delivered or gave the value, in their own words.
        at_ms: when the value came, or the wait ended without one.
        timed_out: nothing came in time.
        verified: whether a worker had checked the delivery's proof when it came; None if it came
            with one that a worker has to check before the tool reads the value.
    """

    tool: str
    delivery_id: str
    source: str = ""
    at_ms: int
    timed_out: bool = False
    verified: bool | None = False


@dataclass(frozen=True, slots=True)
class Ignored:
    """A signal, update or decision that had no effect; shown to people."""

    at_ms: int
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One model response: its turn, its agent and model, its usage, and the provider's ids.

    `question` is how many questions were settled before.
    """

    turn: int
    question: int = 0
    agent: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    response_id: str | None = None
    request_id: str | None = None
    raw_usage: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsToSave:
    """A range of the transcript to save in the session, without dropped items.

    `order` has the indices of the items, if a filter gave them another order.
    """

    start: int
    stop: int
    dropped: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    withheld: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """An effect that no worker can carry out: since when, and the missing part.

    `request` lets people give it up; None for effects that run beside the conversation.
    """

    effect: int
    at_ms: int
    lacks: str
    request: ApprovalRequest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFailure:
    """Why the session did not accept its items, and since when; `retrying` while it retries."""

    at_ms: int
    failure: Failure
    retrying: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedWaits:
    """What a nested run waits for, and the runs nested in it.

    Attributes:
        nested_id: the nested run.
        requests: the pending approval requests.
        deliveries: the names of the deliveries that it waits for, and for nothing else.
    """

    nested_id: str
    requests: tuple[ApprovalRequest, ...]
    deliveries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What a nested run may spend of the run's budgets, and has spent.

    Budgets are named by their index.

    Attributes:
        nested_id: the nested run.
        target: its agent.
        question: the first model response of the question that it works for.
        shares: how much of each budget it may spend.
        spent: how much it has reported. At its end, tokens of no certain agent move to the usage.
        wants: the budgets of which it waits for more.
    """

    nested_id: str
    target: str
    question: int
    shares: tuple[tuple[int, int], ...]
    spent: tuple[tuple[int, int], ...] = ()
    wants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A takeover by a person.

    Attributes:
        by: who has the conversation.
        at_ms: since when, in milliseconds since the epoch.
        said: the ids of what people said in it.
        speaker: the person of whom the model has read that the words are theirs.
    """

    by: str
    at_ms: int
    said: tuple[str, ...] = ()
    speaker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenUp:
    """What the last holder of the conversation did with it, so that a repetition is known.

    Attributes:
        by: who had the conversation.
        since_ms: since when, in milliseconds since the epoch.
        to: the colleague who got it; empty if an agent did.
        digest: the digest of what they sent.
    """

    by: str
    since_ms: int
    to: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What a person said, while output guardrails have not judged it yet."""

    text: str
    person: Person
    files: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """An answer or a used-up budget that waits for a person.

    Attributes:
        request_id: the approval request.
        output: the answer.
        item: the index of the answer's item.
        shown: the number of items that readers see while an answer waits.
        failure: the failure in whose place an error handler gave the answer.
        budget: the index of the budget; None for an answer.
    """

    request_id: str
    output: Json = None
    item: int | None = None
    shown: int = 0
    failure: Failure | None = None
    budget: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """How long the run has waited for people or messages; counted if a budget of time needs it.

    Attributes:
        total_ms: the pauses that are over.
        since_ms: when the present pause began; None while the run works.
    """

    total_ms: int = 0
    since_ms: int | None = None

    def until(self, at_ms: int) -> int:
        """Return the length of all pauses up to a time, in milliseconds."""
        present = 0 if self.since_ms is None else max(at_ms - self.since_ms, 0)
        return self.total_ms + present


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A summary of the older part of what the model reads.

    Attributes:
        at_ms: when it came, in milliseconds since the epoch.
        agent: the agent whose view it was.
        model: the model that wrote it.
        question: how many questions were settled before.
        entries: how many entries of the view it replaces; 0 if it is not used.
        place: the index of the last of them in the transcript.
        items: the summary; empty once the view has it.
        usage: the tokens that it took.
    """

    at_ms: int
    agent: str = ""
    model: str = ""
    question: int = 0
    entries: int
    place: int
    items: tuple[JsonObject, ...] = ()
    usage: Usage = NO_USAGE


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How what the model reads becomes shorter.

    Attributes:
        wants: what the newest reply asked for.
        ready: the summary that the next model call reads first.
        made: all summaries, without their texts.
    """

    wants: CompactionNeed = ""
    ready: Compacted | None = None
    made: tuple[Compacted, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question being answered, and its progress.

    Attributes:
        answering: ids of the recorded messages that have no answer yet.
        turn: the number of model calls for the answer.
        question_from: the index of the question's first item.
        replies_from: the index of the first item after the question.
        responses_from: the index of its first model response.
        tokens_before: the tokens that the run had used before it.
        began_ms: when it began, in milliseconds since the epoch.
        pauses_ms: the length of the run's pauses before it.
        unchecked_from: the index of the first item that input guardrails have not passed yet.
        guardrails: results of guardrails for the question and its answer.
        candidate: the answer that is not final yet.
        tool_users: the agents that have called tools.
        starts: whether the active agent's next model call begins its work.
        judged: whether a rule decides if the tool outputs are the answer.
        parallel: how many calls may run at once; None for no limit.
        answer_terms: a person has to approve the answer, under these terms.
        answer_reason: why a person has to approve it.
        streams: one of its messages asks for streamed model calls.
        authors: the members of the team who wrote it, or gave the conversation back with words.
        model_at: which of the active agent's models answers it, if the agent has several.
        tried: the models of the active agent that did not answer it.
    """

    answering: tuple[str, ...] = ()
    turn: int = 0
    question_from: int = 0
    replies_from: int = 0
    responses_from: int = 0
    tokens_before: int = 0
    began_ms: int = 0
    pauses_ms: int = 0
    unchecked_from: int | None = None
    guardrails: tuple[GuardrailRecord, ...] = ()
    candidate: Candidate | None = None
    tool_users: tuple[str, ...] = ()
    starts: bool = True
    judged: bool = False
    parallel: int | None = None
    answer_terms: ApprovalTerms | None = None
    answer_reason: str | None = None
    streams: bool = False
    authors: tuple[str, ...] = ()
    model_at: int = 0
    tried: tuple[TriedModel, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Saving:
    """Progress of saving in the session.

    Attributes:
        to_save: ranges of items that are queued for the session, oldest first.
        queued_up_to: the index up to which items are queued or will never be saved.
        save_failure: why saving `to_save` failed; the next question retries.
        has_saved: whether the session has items of the run.
        skipped_from: where saving goes on if a blocked question is retried; None if nothing is
            blocked, or something that came later is queued.
    """

    to_save: tuple[ItemsToSave, ...] = ()
    queued_up_to: int = 0
    save_failure: SaveFailure | None = None
    has_saved: bool = False
    skipped_from: int | None = None


@dataclass(frozen=True, kw_only=True)
class Server:
    """The conversation on the provider's server.

    Attributes:
        thread: how the server keeps the conversation; None if it does not.
        on_server: the number of items that the server has.
    """

    thread: ServerThread | None = None
    on_server: int = 0


@dataclass(frozen=True, kw_only=True)
class Storage:
    """Content of the transcript in the blob store.

    Attributes:
        stores: whether workers have a blob store.
        offloaded: the index up to which large content has been moved.
        inline: the number of characters after that index that could be moved; counted if workers
            have a blob store.
    """

    stores: bool = False
    offloaded: int = 0
    inline: int = 0


@dataclass(frozen=True, kw_only=True)
class LoopState:
    """The whole state of a run.

    Attributes:
        run_id: the workflow id.
        start: the parameters of the run's start.
        phase: what the run is doing.
        agent: the name of the active agent.
        model: the name of the active agent's model, for people to read.
        required_steps: the steps that the active agent's definition requires besides model calls.
        context: the application's context as JSON.
        items: the transcript; it only ever grows.
        view: the part of the transcript that the model sees.
        hidden: indices of items that a filter removed from the run.
        arranged: indices of items of one turn in the order that a filter gave them, for each such
            filter; see `in_order`.
        blocked_from: the first index of the last question, if input guardrails blocked it.
        answered_unchecked: ranges with messages that a person answered, and that input guardrails
            have not checked.
        turns: the total number of model calls.
        usage: tokens spent.
        nested_uses: what the agents of nested runs used of each model, by question.
        responses: the models' responses, one for each turn.
        handoff_path: the agents that the conversation went through.
        inbox: messages that are not in the transcript yet.
        question: the question being answered.
        calls: the calls of the current reply.
        pending: effects that are not answered yet.
        next_effect: the number of the next effect.
        blocked: effects that wait for a worker that can carry them out.
        approvals: every request for approval, in order.
        remembered: decisions that apply to further calls.
        redacted: values that the parent hides from people, and runs nested in this one.
        nested: what nested runs wait for.
        gate: the answer or the budget that waits for a person.
        extended: how much people, or the parent, have added to budgets, each with the budget's
            index.
        lent: what nested runs may spend of the budgets, and have spent.
        wants: the budgets of which the run waits for more from its parent.
        hold: the person who has the conversation.
        given_up: what the last holder of the conversation did with it.
        unsaid: what people said that output guardrails judge first, in order.
        pauses: how long the run has waited for people or messages.
        notifies: whether people hear about requests and takeovers.
        notifies_later: whether notices are delivered after the end of the run, too.
        notifies_mentions: whether colleagues hear of comments that mention them.
        undelivered: the newest notices that nobody has heard of.
        answers: the answers so far.
        final_output: the newest answer.
        failure: why the newest message has no answer, or why the run failed.
        saving: the progress of saving in the session.
        server: the conversation on the provider's server.
        storage: content of the transcript in the blob store.
        cancel: `after_turn` if the run is to stop after the turn.
        closing: how the run will end, once everything is saved.
        outcome: how the run ended.
        ignored: the newest signals, updates and decisions that had no effect.
        at_ms: when the newest event happened, in milliseconds since the epoch.
        line_token: the newest token of the realtime line: see `lines.py`; empty if it has none.
        nonces: the newest signed actions of people, each with its time: a copy does nothing.
        receipts: what came of the newest waits for something outside of the run.
        compaction: how what the model reads becomes shorter.
        fork: what the run, or the one that it is nested in, was forked from.
        aside: what the model does not read any more.
        case: whose the conversation is, and how it stands.
    """

    run_id: str = ""
    start: Start = NOT_STARTED
    phase: Phase = "new"
    agent: str = ""
    model: str = ""
    required_steps: tuple[RequiredStep, ...] = ()
    context: Json = None
    items: tuple[Item, ...] = ()
    view: View = WHOLE
    hidden: tuple[int, ...] = ()
    arranged: tuple[tuple[int, ...], ...] = ()
    blocked_from: int | None = None
    answered_unchecked: tuple[tuple[int, int], ...] = ()
    turns: int = 0
    usage: Usage = NO_USAGE
    nested_uses: tuple[ModelUse, ...] = ()
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
    redacted: tuple[Redacted, ...] = ()
    nested: tuple[NestedWaits, ...] = ()
    gate: Gate | None = None
    extended: tuple[tuple[int, int], ...] = ()
    lent: tuple[Lent, ...] = ()
    wants: tuple[int, ...] = ()
    hold: Hold | None = None
    given_up: GivenUp | None = None
    unsaid: tuple[Words, ...] = ()
    pauses: Pauses = Pauses()
    notifies: bool = False
    notifies_later: bool = False
    notifies_mentions: bool = False
    undelivered: tuple[Undelivered, ...] = ()
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
    at_ms: int = 0
    line_token: str = ""
    nonces: tuple[tuple[int, str], ...] = ()
    receipts: tuple[Receipt, ...] = ()
    compaction: Compaction = Compaction()
    fork: Fork | None = None
    aside: tuple[Aside, ...] = ()
    case: Case = NO_CASE

    @property
    def chain_id(self) -> str:
        """The first execution of the run, or of the run that all others are nested in.

        Signed actions of people name it.
        """
        parent = self.start.parent
        return self.start.chain_id if parent is None else parent.chain_id

    @property
    def root_question(self) -> int:
        """The number of the question, in the run that all others are nested in."""
        parent = self.start.parent
        return len(self.answers) if parent is None else parent.question

    @property
    def status(self) -> Status:
        """The phase in a person's words: the run works, or whom it waits for."""
        if self.outcome is not None:
            return self.outcome
        if may_save(self):
            return "running"  # a run waits for people only after saving
        case = self.case
        if (case.resolved_ms or case.snoozed_until_ms) and rests(self):
            return "resolved" if case.resolved_ms else "snoozed"
        if self.hold is not None:
            return "held"
        if self.phase == "idle":
            return "idle"
        if stands_still(self):
            asks = self.pending_approvals or self.wants or self.gate is not None
            return "parked" if self.deliveries and not asks else "waiting"
        return "blocked" if self.blocked else "running"

    @property
    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a decision, here and in nested runs."""
        return self.own_requests + tuple(one for made in self.nested for one in made.requests)

    @property
    def deliveries(self) -> tuple[str, ...]:
        """The names of the deliveries that calls wait for, here and in nested runs."""
        own = tuple(
            call.parked.wait.name
            for call in self.calls
            if call.status == "parked" and call.parked is not None
        )
        return own + tuple(name for one in self.nested for name in one.deliveries)

    @property
    def own_requests(self) -> tuple[ApprovalRequest, ...]:
        """The requests of the run itself that wait: for approval, or to give a step up."""
        own = tuple(request for request in self.approvals if request.status == "pending")
        return own + tuple(one.request for one in self.blocked if one.request is not None)


Step: TypeAlias = tuple[LoopState, tuple[Command, ...]]
"""The next state, and the commands for the shell."""


def may_save(state: LoopState) -> bool:
    """Whether the next range may be saved: guardrails have passed it, and saving has not failed."""
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


def rests(state: LoopState) -> bool:
    """Whether nothing is left to answer, by the agent or by the person who has the conversation."""
    if state.phase not in {"idle", "held"}:
        return False
    return not (state.inbox or state.unsaid or state.question.answering)


def stands_still(state: LoopState) -> bool:
    """Whether the run only waits: for people or a delivery, here or in every nested run."""
    if state.phase not in {"acting", "asking"}:
        return False
    asking = {
        made.nested_id
        for made in state.nested
        if made.deliveries or any(request.kind != "worker" for request in made.requests)
    }
    asking |= {one.nested_id for one in state.lent if one.wants}
    return all(
        effect.beside or (effect.kind == "run_agent" and effect.nested_id in asking)
        for effect in state.pending
    )


def line_of(state: LoopState) -> KeepLineOpen | None:
    """Return the realtime line that makes the model calls now, if there is one."""
    return next((effect for effect in state.pending if isinstance(effect, KeepLineOpen)), None)


def line_call(state: LoopState) -> CallModel | None:
    """Return the pending model call that a line makes."""
    calls = (one for one in state.pending if isinstance(one, CallModel) and one.line)
    return next(calls, None)


def is_being_checked(state: LoopState) -> bool:
    """Whether input guardrails still run beside a turn, which must not take effect before."""
    return any(isinstance(effect, CheckInput) for effect in state.pending)


def visible_item_count(state: LoopState) -> int:
    """Return how many items readers may see; output guardrails may withhold the others.

    While an answer waits for output guardrails or a person, or tool outputs may become the answer,
    the items of the newest turn are not shown. Nor are the outputs of ignored handoffs before the
    other one has happened, whose filter may drop them.
    """
    if state.gate is not None and state.gate.budget is None:
        return state.gate.shown
    judged = state.question.judged or any(call.plan.final for call in state.calls)
    is_candidate = state.question.candidate is not None and state.question.candidate.failure is None
    may_change = is_candidate or (state.calls and judged)
    is_guarded = "check_output" in state.required_steps or state.question.answer_terms is not None
    if not (is_guarded and may_change):
        return len(state.items) - _ignored_handoffs(state)
    at = turn_start(state)
    while at < len(state.items) and state.items[at].kind not in ANSWER_KINDS:
        at += 1
    return at


def _ignored_handoffs(state: LoopState) -> int:
    """Return how many outputs of ignored handoffs end the transcript while another one goes on."""
    if len(state.calls) != 1 or state.calls[0].plan.kind != "handoff":
        return 0
    end = len(state.items)
    start = end
    while start and _is_ignored_handoff(state.items[start - 1]):
        start -= 1
    return end - start


def _is_ignored_handoff(item: Item) -> bool:
    return item.kind == "handoff_output" and item.raw.get("output") == HANDOFF_IGNORED


def turn_start(state: LoopState) -> int:
    """Return the index of the first item of the newest turn."""
    start = at = len(state.items)
    while at > 0 and state.items[at - 1].turn in {0, state.turns}:
        at -= 1
        start = at if state.items[at].turn == state.turns > 0 else start
    return start


def has_message(state: LoopState, message_id: str) -> bool:
    """Whether a message with this id has reached the run before."""
    return (
        any(message.id == message_id for message in state.inbox)
        or message_id in state.question.answering
        or any(message_id in answer.to for answer in state.answers)
    )


def in_order(state: LoopState, indices: Iterable[int]) -> list[int]:
    """Return indices of items in the order that the items have in the run.

    That is the order of the transcript, but for turns whose items a handoff's filter arranged.
    """
    places = {at: (min(turn), place) for turn in state.arranged for place, at in enumerate(turn)}
    return sorted(indices, key=lambda at: places.get(at, (at, 0)))


def items_of(state: LoopState, effect: CallModel | RunHandoff | FinalizeAnswer) -> tuple[Item, ...]:
    """Return the items that an effect covers; always the same items for an effect."""
    if isinstance(effect, CallModel):
        return read_by_model(
            state.view, state.items, effect.input_length, effect.aside, effect.on_server
        )
    return shown(state.view, state.items, effect.input_length or 0)


def items_to_summarise(state: LoopState, effect: CompactView) -> tuple[Item, ...]:
    """Return the oldest items of the view, which become a summary."""
    return read_by_model(
        state.view, state.items, effect.input_length, effect.aside, stop=effect.entries
    )


def items_to_save(state: LoopState, effect: SaveSession) -> tuple[Item, ...]:
    """Return the items to save; always the same items for an effect."""
    kept = (at for at in range(effect.start, effect.stop) if at not in effect.dropped)
    return tuple(state.items[at] for at in effect.order or kept)


def redacted_in(state: LoopState) -> tuple[Redacted, ...]:
    """Return the values that a run hides from people, for its parent and runs nested in it."""
    forked = () if state.fork is None else state.fork.arguments
    return passed_on((*state.redacted, *redacted_by(state.approvals, state.items, forked)))
