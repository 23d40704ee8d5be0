"""What the page of a conversation shows: both sides of it, and what its viewer may do.

Made from the state and the timeline of a run. Nothing here reads or writes anything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Final, cast

from outlast.agents.agent import Agent
from outlast.agents.items.call_outputs import output_content
from outlast.agents.items.raw_items import is_cut_short
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.results.pending_waits import PendingWait, pending_waits
from outlast.client.runs import ListedRun
from outlast.client.timeline import Step, StepKind
from outlast.contract.blobs import readable
from outlast.edges.rendering import arguments_text, counted, json_text
from outlast.pricing import Cost, usd_of
from outlast.serve.access import TEAM_ACTS, Caller, Staff, Target, may, redaction_for
from outlast.serve.budgets import Extension, extension_of
from outlast.serve.pages.filters import status_class
from outlast.serve.pages.schema_form import Field, flat_form
from outlast.serve.records import RequestView, proof_of_step, request_view
from outlast.serve.troubles import seen_troubles
from outlast.views.acts import same_person
from outlast.views.customer import (
    CustomerMessage,
    CustomerView,
    customer_view,
    shows_text_in_progress,
)
from outlast.views.proofs import PROOF_WORDS, Proof, ProofReader
from outlast.views.records import ApprovalRequest, Aside, Comment, Item, Json, JsonObject
from outlast.views.redaction import Redaction
from outlast.views.run import AnyState, RunSnapshot, budget_lines, loop_state, writes_answer
from outlast.views.transcript import (
    CALL_KINDS,
    OUTPUT_KINDS,
    arguments_of,
    leavable_parts,
    may_be_left_out,
    name_of,
    part_name,
    set_aside,
    text_of,
)
from outlast.views.trouble import QUIET, ServerFacts, Trouble, with_first_message
from outlast.views.words import STATUS, asked_again, budget_line, void_words

# --- States in words ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Badge:
    """A state, as a word and a color."""

    word: str
    colour: str = ""


BADGES: Final[dict[str, Badge]] = {
    "running": Badge("working", "is-info"),
    "waiting": Badge("waits for a decision", "is-wait"),
    "parked": Badge("waits for an event", "is-wait"),
    "held": Badge("a person has it", "is-held"),
    "blocked": Badge("no worker can go on", "is-bad"),
    "idle": Badge("waits for the customer"),
    "on_call": Badge("on a call", "is-info"),
    "snoozed": Badge("snoozed"),
    "resolved": Badge("resolved", "is-ok"),
    "completed": Badge("completed", "is-ok"),
    "failed": Badge("failed", "is-bad"),
    "cancelled": Badge("cancelled"),
    "terminated": Badge("terminated", "is-bad"),
}
"""The states of runs."""

UNANSWERED: Final = Badge("unanswered", "is-bad")
"""A guardrail, a limit or an error ended the last question, and nobody has answered it."""


FOR_TEAM: Final = Badge("waits for its team", "is-wait")
"""The conversation was given to a team, and nobody of it has taken it yet."""


def _badge(state: RunSnapshot, holder: str) -> Badge:
    if state.status == "idle" and state.failure is not None:
        return UNANSWERED
    if state.status == "held" and not holder:
        return FOR_TEAM
    return BADGES.get(state.status, Badge(state.status))


def run_badge(run: ListedRun) -> Badge:
    """Return the status of a listed run."""
    odd = UNANSWERED if run.is_unanswered else FOR_TEAM if run.is_given_to_team else None
    return odd or BADGES.get(run.status, Badge(run.status))


# --- The customer's side --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A picture or a file of a message.

    Attributes:
        is_picture: whether the customer sent it as a picture; its bytes say what it is.
        name: the name of a file.
    """

    is_picture: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """A message of the conversation.

    Attributes:
        id: tells it from the others.
        by: `customer`, `assistant` or `colleague`.
        who: the name of the agent or the colleague.
        text: the words.
        at_ms: when it was written, in milliseconds since the epoch; 0 if that is not known.
        attachments: the customer's pictures and files.
        is_cut_short: whether a limit of tokens cut the answer off.
        leavable: what the model may do without, or does not read.
    """

    id: str
    by: str
    who: str
    text: str
    at_ms: int = 0
    attachments: tuple[Attachment, ...] = ()
    is_cut_short: bool = False
    leavable: tuple["Leavable", ...] = ()


def customer_name(run: AnyState, hides: Redaction) -> str:
    """Return who the customer is, for the team; empty if nobody said."""
    customer = loop_state(run).start.customer
    return hides.text(customer.name or customer.id)


def _bubble(message: CustomerMessage, view: "Conversation", at_ms: int = 0) -> Bubble:
    state = view.state
    at = message.id.removeprefix("i")
    item = int(at) if message.id.startswith("i") and at.isdecimal() else None
    if item is not None and item < len(view.times):
        at_ms = view.times[item]
    who = ""
    if message.by != "customer":
        who = state.answers[-1].agent if item is None else state.items[item].agent
    return Bubble(
        id=message.id,
        by=message.by,
        who=who,
        text=view.hides.text(message.text),
        at_ms=at_ms,
        attachments=tuple(map(_attachment, message.attachments)),
        is_cut_short=message.is_cut_short,
        leavable=() if item is None else view.leavable(item),
    )


def _attachment(part: JsonObject) -> Attachment:
    is_picture = part.get("type") == "input_image"
    return Attachment(is_picture=is_picture, name=str(part.get("filename") or "file"))


# --- What the model does not read -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Leavable:
    """An item, or a part of one, that the model may do without, or does not read any more.

    Attributes:
        item: its index in the transcript.
        part: the index of a part of its content; None for all of it.
        what: what the part is, in words; empty for all of the item.
        mark: who set it aside and why; empty while the model reads it.
        may_change: whether the viewer may set it aside, or take it back.
    """

    item: int
    part: int | None
    what: str
    mark: str
    may_change: bool


def _mark(aside: Aside, hides: Redaction, *, shows_reasons: bool) -> str:
    did = f"{aside.by} set it aside" if aside.by else "The model provider refused it"
    reason = hides.text(aside.reason) if shows_reasons else ""
    return f"{did}: {reason}" if reason else f"{did}."


# --- What the run did -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A step, as the page shows it.

    Attributes:
        step: the step.
        title: what it is, in words.
        words: what a person wrote, or why something had no effect.
        badge: the status; None for what is simply done.
        cost: US dollars; None if it is not known.
        votes: who decided what about a request.
        request: the line of a request.
        has_payload: whether there are arguments, outputs or reasoning to see.
        left_out: what the model does not read of its items, and why.
        proof: whether it is proven who did it; None where no person did.
    """

    step: Step
    title: str
    words: str = ""
    badge: Badge | None = None
    cost: Decimal | None = None
    votes: tuple[str, ...] = ()
    request: str = ""
    has_payload: bool = False
    left_out: tuple[Leavable, ...] = ()
    proof: Proof | None = None


_STATUS_BADGES: Final[dict[str, Badge]] = {
    "running": Badge("running", "is-info"),
    "waiting": Badge("waits", "is-wait"),
    "blocked": Badge("no worker", "is-bad"),
    "failed": Badge("failed", "is-bad"),
    "cancelled": Badge("not finished"),
}
_VOID: Final = Badge("void: asked again", "is-bad")


def _row(step: Step, view: "Conversation") -> Row:
    hides, proofs = view.hides, view.proofs
    again = asked_again(step.request, view.state.approvals) if step.request else None
    badge = _STATUS_BADGES.get(step.status)
    request = step.request
    if request is not None and request.status != "pending":
        decided = Badge(STATUS[request.status], status_class(request.status))
        badge = decided if again is None else _VOID
    if step.kind in {"failure", "end"}:
        badge = None
    if step.kind == "tool" and step.status == "cancelled" and step.effect == 0:
        badge = Badge("did not run")
    if step.kind == "takeover" and step.status == "running":
        badge = Badge("has it", "is-held")
    words = step.lacks or (step.failure.message if step.failure is not None else step.text)
    if step.kind == "case":
        words = ""  # they are the title
    if step.kind == "wait":
        words = _of_wait(step)
    if again is not None:
        words = void_words(again)
    if step.kind == "summary" and step.failure is None:
        words = step.lacks  # the text is for those who may see payloads
    return Row(
        step=step,
        title=hides.text(_TITLES[step.kind](step)),
        words=hides.text(words),
        badge=badge,
        cost=usd_of(step.usage),
        votes=tuple(hides.text(one) for one in _votes(request, view.state, proofs)),
        request=hides.text(request_line(request)) if request is not None else "",
        has_payload=bool(
            step.items
            or (step.kind == "summary" and step.text)
            or any(one.info is not None for one in step.checks)
        ),
        left_out=view.left_out(step),
        proof=proof_of_step(step, view.state, proofs),
    )


def _who(step: Step) -> str:
    return step.by or "A person"


def _of_model(step: Step) -> str:
    if step.calls:
        return f"{step.agent} calls {', '.join(step.calls)}"
    return f"{step.agent} {'replies' if step.status == 'done' else 'is asked'}"


def _of_guardrails(step: Step) -> str:
    if step.checks or step.name == "input":
        return f"Guardrails check the {step.name}"
    return "The answer is finished"


def _of_wait(step: Step) -> str:
    """Return since when and until when a tool waits, or what came of it."""
    if step.status == "waiting":
        until = "without an end" if step.until_ms is None else f"until {_time(step.until_ms)}"
        return f"Since {_time(step.at_ms)}, {until}."
    if step.status == "done":
        return f"Delivered by {step.by}." if step.by else "Delivered."
    return step.text


def _time(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _of_end(step: Step) -> str:
    ended = {"completed": "completed", "failed": "failed"}
    return f"The run has {ended.get(step.name) or f'been {step.name}'}"


_OF_KIND: Final = {"output": "The answer", "budget": "More of a budget"}


def _of_request(step: Step) -> str:
    kind = step.request.kind if step.request is not None else "tool"
    return f"{_OF_KIND.get(kind, step.name)} needs a decision"


_TITLES: Final[dict[StepKind, Callable[[Step], str]]] = {
    "message": lambda step: "Customer writes",
    "model": _of_model,
    "tool": lambda step: step.name,
    "agent": lambda step: f"{step.agent} asks {step.name}",
    "handoff": lambda step: f"{step.agent} hands over to {step.name}",
    "guardrails": _of_guardrails,
    "summary": lambda step: f"{step.agent} summarises {counted(step.entries, 'item')}",
    "line": lambda step: f"On the line: {step.name}",
    "request": _of_request,
    "wait": lambda step: f"{', '.join(step.calls)} waits for {step.name}",
    "takeover": lambda step: f"{_who(step)} takes the conversation over",
    "said": lambda step: f"{_who(step)} writes",
    "release": lambda step: f"{_who(step)} gives the conversation back to {step.name}",
    "retry": lambda step: "The question is asked again",
    "cancel": lambda step: (
        "Stop after this turn" if step.name == "after_turn" else "Stop requested"
    ),
    "answer": lambda step: f"{step.agent} has answered",
    "failure": lambda step: "The question has no answer",
    "set_aside": lambda step: (
        f"{_who(step) if step.by else 'The model provider'} changes what the model reads"
    ),
    "case": lambda step: f"{_who(step) if step.by else 'The conversation'}: {step.text}",
    "ignored": lambda step: f"No effect: {step.name}",
    "unheard": lambda step: f"Nobody heard of it: {step.name}",
    "end": _of_end,
}


_VERBS: Final = {
    "approve": "approves",
    "edit": "approves with changes",
    "reject": "rejects",
    "respond": "answers in its place",
    "withdraw": "withdraws their vote",
}


def _votes(
    request: ApprovalRequest | None, state: RunSnapshot, proofs: ProofReader
) -> Iterator[str]:
    if request is None:
        return
    for vote, proof in zip(request.votes, proofs.of_votes(request, state), strict=True):
        made = vote.decision
        message = f": {made.message}" if made.message else ""
        yield f"{made.by or 'Somebody'} {_VERBS[made.type]} ({PROOF_WORDS[proof]}){message}"


def request_line(request: ApprovalRequest) -> str:
    """Return why a request was made, without its arguments."""
    if request.kind == "budget":
        return budget_line(request.arguments) or request.reason or ""
    return request.reason or ""


# --- Payloads -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A part of what a step read or wrote.

    Attributes:
        label: what it is.
        text: the text; JSON with room for line breaks.
        is_words: whether it is the model's words rather than data.
        leavable: what the model may do without of its item; of the item's first payload.
    """

    label: str
    text: str
    is_words: bool = False
    leavable: tuple[Leavable, ...] = ()


def payloads(view: "Conversation", step: Step) -> tuple[Payload, ...]:
    """Return arguments, outputs, reasoning and words of a step, as people may see them."""
    state, hides = view.state, view.hides
    found: list[Payload] = []
    for at in step.items:
        parts = list(_payloads_of(state.items[at], hides)) if at < len(state.items) else []
        found += [replace(one, leavable=view.leavable(at)) for one in parts[:1]] + parts[1:]
    if step.kind == "summary" and step.text:
        label = "What the model reads instead"
        found.append(Payload(label=label, text=hides.text(step.text), is_words=True))
    found += [
        Payload(label=f"Guardrail {one.name}", text=_json(hides.json(one.info)))
        for one in step.checks
        if one.info is not None
    ]
    return tuple(found)


def _payloads_of(item: Item, hides: Redaction) -> Iterator[Payload]:
    raw = readable(item.raw)
    if item.kind in CALL_KINDS:
        arguments = hides.call(item.agent, name_of(raw), arguments_of(raw))
        yield Payload(label=f"Arguments of {name_of(raw)}", text=arguments_text(arguments))
    elif item.kind in OUTPUT_KINDS:
        yield Payload(label="Output", text=_json(hides.json(f"{output_content(raw)}")))
    elif item.kind == "reasoning":
        if words := _reasoning(raw):
            yield Payload(label="Reasoning", text=hides.text(words), is_words=True)
    elif item.kind in {"message", "draft"}:
        label = "Words" if item.kind == "message" else "Words that were not approved"
        if is_cut_short(raw):
            label = f"{label}, cut off by a limit of tokens"
        yield Payload(label=label, text=hides.text(text_of(raw)), is_words=True)
    else:
        yield Payload(label=str(raw.get("type", item.kind)), text=_json(hides.json(raw)))


def _reasoning(raw: JsonObject) -> str:
    parts = cast("list[JsonObject]", [*(raw.get("summary") or ()), *(raw.get("content") or ())])
    return "\n\n".join(str(part["text"]) for part in parts if part.get("text"))


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json_text(value, 2)


# --- What waits, and what was used ----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation, as a viewer sees it now.

    Attributes:
        state: the state of the run.
        badge: its status.
        customer: what the customer sees; `bubbles` and `unread` have it as the page shows it.
        steps: what the run did.
        waiting: the pending requests, and by how much each would extend a budget.
        parked: what tools wait for outside of the run, and the form for its value; None for JSON.
        budgets: what was used of each budget.
        cost: what its model calls cost.
        trouble: what keeps it from going on.
        hides: what policies hide.
        holder: who has the conversation; empty for nobody.
        is_mine: whether the viewer has it.
        problems: why the viewer cannot do something now, by action; None for what they can do.
        sees_payloads: whether the viewer may see arguments and outputs.
        times: when each item of the transcript was written.
    """

    state: RunSnapshot
    badge: Badge
    customer: CustomerView
    steps: Sequence[Step]
    waiting: tuple[tuple[RequestView, Extension | None], ...]
    parked: tuple[tuple[PendingWait, Field | None], ...]
    budgets: tuple[str, ...]
    cost: Cost
    trouble: tuple[Trouble, ...]
    hides: Redaction
    holder: str
    is_mine: bool
    problems: dict[str, str | None]
    sees_payloads: bool
    proofs: ProofReader
    times: Sequence[int] = ()

    @property
    def is_open(self) -> bool:
        """Whether the run goes on."""
        return self.state.outcome is None

    @property
    def customer_name(self) -> str:
        """Who the customer is; empty if nobody said."""
        return customer_name(self.state, self.hides)

    @property
    def is_shared(self) -> bool:
        """Whether the conversation has a case: that of a nested run has the one above it."""
        return self.state.parent_id is None

    @property
    def comments(self) -> dict[str, Comment]:
        """What people wrote for colleagues, in order."""
        comments = self.state.case.comments
        return {one.id: replace(one, text=self.hides.text(one.text)) for one in comments}

    def bubbles(self, start: int, stop: int | None = None) -> list[Bubble]:
        """Return messages as the page shows them."""
        return [_bubble(one, self) for one in self.customer.messages[start:stop]]

    @property
    def unread(self) -> list[Bubble]:
        """What the customer wrote that the run has not taken yet."""
        arrived = {one.id: one.at_ms for one in loop_state(self.state).inbox}
        return [
            _bubble(one, self, arrived.get(one.id.rpartition(".")[0], 0))
            for one in self.customer.unread
        ]

    @property
    def is_silent(self) -> bool:
        """Whether the conversation waits, and the customer does not read for what."""
        waits = any(not one.terms.customer_text for one in self.state.pending_approvals)
        return waits and self.customer.waits_for is None

    def row(self, number: int) -> Row:
        """Return a step as the page shows it."""
        return _row(self.steps[number], self)

    def leavable(self, item: int) -> tuple[Leavable, ...]:
        """Return what the model may do without of an item, or does not read: all of it, and parts.

        Args:
            item: the index of the item.
        """
        raw, hides, shows_reasons = self.state.items[item].raw, self.hides, self.sees_payloads
        aside = {one.part: one for one in set_aside(self.state) if one.item == item}
        parts = leavable_parts(raw) | aside.keys()
        may_change = self.problems["set_aside"] is None
        can = may_change and may_be_left_out(raw)
        return tuple(
            Leavable(
                item=item,
                part=part,
                what="" if part is None else part_name(raw, part),
                mark=_mark(aside[part], hides, shows_reasons=shows_reasons)
                if part in aside
                else "",
                may_change=can or (may_change and part in aside),
            )
            for part in (*sorted(one for one in parts if one is not None), None)
        )

    def left_out(self, step: Step) -> tuple[Leavable, ...]:
        """Return what the model does not read of the items of a step."""
        if not set_aside(self.state) or step.kind == "set_aside":  # its own words say so
            return ()
        items = (at for at in step.items if at < len(self.state.items))
        return tuple(one for at in items for one in self.leavable(at) if one.mark)

    @property
    def first_open_step(self) -> int:
        """The number of the first step that may still change; that of the next one, if none may."""
        for step in self.steps:
            if step.status in {"running", "waiting", "blocked"}:
                return step.number
        return len(self.steps)

    @property
    def writes(self) -> bool:
        """Whether the agent writes an answer, which a takeover withdraws."""
        return writes_answer(self.state) and not self.holder

    @property
    def customer_waits(self) -> bool:
        """Whether the customer waits for the person who has the conversation."""
        return bool(self.holder) and bool(self.state.unread or self.state.answering)

    def draft_label(self, *, is_unjudged: bool) -> str:
        """Return who reads the text in progress."""
        if shows_text_in_progress(self.state, is_unjudged=is_unjudged):
            return "is writing; the customer reads along"
        return "is writing; the customer does not see it yet"


def _parked(state: RunSnapshot) -> tuple[tuple[PendingWait, Field | None], ...]:
    waits = pending_waits(state) if state.outcome is None else ()
    return tuple((one, flat_form(one.schema, f"wait-{at}")) for at, one in enumerate(waits, 1))


def conversation(
    state: RunSnapshot,
    steps: Sequence[Step],
    caller: Caller,
    proofs: ProofReader,
    *,
    at_ms: int,
    facts: ServerFacts = QUIET,
    times: Sequence[int] = (),
) -> Conversation:
    """Return a conversation as a viewer sees it.

    Args:
        state: the state of the run.
        steps: its timeline.
        caller: who looks at it.
        proofs: says who has proven who they are, and whether the desk proves who acts.
        at_ms: the time.
        facts: what the server says about the run.
        times: when each item of the transcript was written.
    """
    state, hides = with_first_message(state, facts), redaction_for(caller, state)
    target = Target(run_id=state.run_id, state=state, at_ms=at_ms, signs=proofs.signs)
    see = partial(request_view, caller=caller, proofs=proofs, at_ms=at_ms)
    hold = None if state.outcome is not None else state.hold
    is_for_team = hold is not None and not hold.by and bool(state.case.team)
    holder = "" if hold is None or is_for_team else hold.by or "A person"
    subject = caller.person.subject if isinstance(caller, Staff) else ""
    is_mine = bool(holder) and same_person(holder, subject)
    problems = {action: may(caller, action, target) for action in ("finish_wait", *TEAM_ACTS)}
    if holder and not is_mine:
        others = f"{holder} has the conversation."
        role = may(caller, "say")
        problems |= dict.fromkeys(("say", "release"), role or others)
        problems["hold"] = may(caller, "hold") or others
    return Conversation(
        state=state,
        badge=_badge(state, holder),
        customer=customer_view(state),
        steps=steps,
        waiting=tuple(
            (see(FoundRequest(one, state)), extension_of(one)) for one in state.pending_approvals
        ),
        parked=_parked(state),
        budgets=tuple(budget_lines(state, at_ms)),
        cost=Cost.of_state(state),
        trouble=seen_troubles(state, facts, caller),
        hides=hides,
        holder=holder,
        is_mine=is_mine,
        problems=problems,
        sees_payloads=may(caller, "view_payloads") is None,
        proofs=proofs,
        times=tuple(times),
    )


def release_targets(state: RunSnapshot, agents: Iterable[Agent]) -> tuple[str, ...]:
    """Return the agents that may go on with a conversation, the active one first."""
    known = list(agents)
    names = [state.agent, *reversed(state.handoff_path)]
    while known:
        agent = known.pop(0)
        if agent.name in names[1:]:
            continue
        names.append(agent.name)
        known += [one for one in agent.handoffs if isinstance(one, Agent)]
    return tuple(dict.fromkeys(name for name in names if name))


def took(ms: int | None) -> str:
    """Return a duration as people compare them: `80 ms`, `1.4 s`, `3 min 20 s`."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    minutes, seconds = divmod(ms // 1_000, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else counted(hours // 24, "day")
