"""What callers see of runs: the one projection that the API and the pages share.

A view has no field for what its caller may not see. Text that others wrote is as they wrote it;
only lines for people, such as headlines, are made visible here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from outlast.agents.items.call_outputs import output_content
from outlast.client.inbox import BulkStep
from outlast.client.people.nested_requests import FoundRequest
from outlast.client.timeline import MODEL_STEPS, Check, Step, StepKind, StepStatus
from outlast.contract.blobs import readable
from outlast.contract.names import ListedStatus
from outlast.edges import clock
from outlast.edges.rendering import named
from outlast.pricing import NESTED_RUNS, Cost, usd_of
from outlast.search.documents import PartBy
from outlast.search.index import Hit
from outlast.serve.access import (
    TEAM_ACTS,
    Action,
    Caller,
    Staff,
    Target,
    may,
    redaction_for,
    request_for,
)
from outlast.views.acts import aged, vote_problem
from outlast.views.customer import CustomerMessage, customer_view
from outlast.views.headlines import headline_line, title_of
from outlast.views.proofs import NO_PROOFS, Proof, ProofReader
from outlast.views.records import (
    ApprovalRequest,
    ApprovalStatus,
    Case,
    Failure,
    Item,
    ItemKind,
    Json,
    JsonObject,
    Rating,
    Risk,
    Status,
    VoteType,
)
from outlast.views.redaction import NOTHING, Redaction
from outlast.views.run import RunSnapshot
from outlast.views.transcript import (
    arguments_of,
    call_id_of,
    name_of,
    set_aside,
    text_of,
    visible_items,
)
from outlast.views.trouble import QUIET, Trouble, TroubleKind, trouble_words, troubles
from outlast.views.words import (
    asked_again,
    budget_line,
    deadlines,
    void_words,
    who_may_decide,
)
from outlast.workflows.presentation import waits_for


class View(BaseModel):
    """A part of an answer. A field that the caller may not see is absent."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True
    )

    @classmethod
    def of(cls, source: object, **own: Any) -> Self:
        """Return the view of a record.

        A field that may be absent is never copied: its caller has to say that it may be seen.

        Args:
            source: the record, whose attributes are the fields that are not among `own`. Another
                name of an attribute is the `validation_alias` of its field.
            **own: fields of the view.
        """
        copied = {
            name: getattr(source, str(field.validation_alias or name))
            for name, field in cls.model_fields.items()
            if name not in own and field.is_required()
        }
        return cls(**copied, **own)

    def record(self) -> JsonObject:
        """Return the view as JSON, without absent fields."""
        return self.model_dump(mode="json", exclude_unset=True)


def _time(at: object) -> object:
    """Return a time of a run, in milliseconds since the epoch, as a time."""
    return datetime.fromtimestamp(at / 1000, UTC) if isinstance(at, int) else at


Moment: TypeAlias = Annotated[datetime, BeforeValidator(_time)]
AsOf: TypeAlias = Annotated[datetime | None, BeforeValidator(lambda at: _time(at or None))]
"""Until when something is known; 0 for never."""

_PROOF: Final = (
    "Whether it is proven who did it. `proven`: the desk has checked the signature. `accepted`: the "
    "desk has no key to check it with, and the run says that a worker has."
)

# --- Parts ---------------------------------------------------------------------------------------


class UsageView(View):
    """Tokens and requests of model calls."""

    requests: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    total_tokens: int


class CostView(View):
    """The cost of model calls."""

    usd: str = Field(description="US dollars, of the model calls whose price is known.")
    unknown_models: list[str] = Field(description="The models without a price.")


class FailureView(View):
    """Why something failed."""

    code: str
    message: str | None = Field(
        default=None, description="For those who may see arguments and outputs."
    )


class ActionView(View):
    """Something that people can do, and why this caller cannot do it now."""

    name: str
    problem: str | None = Field(description="Why the caller cannot do it, or null if they can.")


class VoteView(View):
    """A person's decision about a request."""

    type: VoteType
    by: str | None
    proof: Proof = Field(description=_PROOF)
    counts: bool = Field(description="Whether the vote is for the present arguments.")
    at: Moment
    message: str | None


class ClaimView(View):
    """A person works on a request, and nobody else decides it until then."""

    by: str
    until: Moment = Field(validation_alias="until_ms")


class AsideView(View):
    """Something that the model does not read any more."""

    item: int | None = Field(description="Its index in the transcript; null for a summary.")
    part: int | None = Field(
        description="The index of the part of its content; null for all of it."
    )
    by: str = Field(description="Who set it aside; empty if the model's provider refused it.")
    at: Moment = Field(validation_alias="at_ms")
    reason: str | None = Field(
        default=None, description="For those who may see arguments and outputs."
    )


class HoldView(View):
    """A person has the conversation."""

    by: str
    since: Moment = Field(validation_alias="at_ms")


# --- Requests ------------------------------------------------------------------------------------


class DeadlineView(View):
    """When something happens to a request that nobody decides, and what."""

    at: Moment = Field(validation_alias="at_ms")
    then: str


class RequestView(View):
    """A request for a person's decision."""

    id: str
    run_id: str = Field(description="The run that made it: the conversation, or one nested in it.")
    kind: str = Field(
        description="`tool`, `handoff`, `output`, `budget` or `worker`; later versions may add some."
    )
    status: ApprovalStatus
    name: str = Field(description="The tool or handoff; `answer` or `budget` for the others.")
    agent: str
    handoff_path: list[str]
    title: str = Field(description="What people call the call, without any argument.")
    headline: str = Field(
        description="One line for people, in which every character is visible: the words of the "
        "policy with the values in quotation marks, or the call."
    )
    arguments: str | None = Field(
        default=None, description="As JSON text; hidden values are `[redacted]`."
    )
    arguments_schema: JsonObject | None = Field(default=None, description="For an edit.")
    model_words: str | None = Field(
        default=None,
        description="What the agent wrote before its call. Nobody has checked it; it may deceive.",
    )
    digest: str = Field(
        description="Of everything that the request shows. A decision names it, and then counts "
        "for nothing else."
    )
    args_digest: str
    edited: bool = Field(description="Whether a person has changed the model's arguments.")
    redacted: list[str] = Field(description="The arguments whose values nobody sees.")
    reason: str | None
    effect: str | None
    risk: Risk
    policy: str
    audience: str = Field(description="Who may decide now, in words.")
    groups: list[str]
    people: list[str]
    votes: list[VoteView]
    votes_counted: int
    votes_needed: int
    requested_at: Moment = Field(validation_alias="requested_at_ms")
    due_at: Moment | None = Field(description="The first of its deadlines.")
    expires_at: Moment | None = Field(validation_alias="expires_at_ms")
    deadlines: list[DeadlineView] = Field(
        description="What happens where nobody decides, soonest first; nothing in a pause."
    )
    paused: bool = Field(description="Whether no time passes, as a person has the conversation.")
    claim: ClaimView | None
    settled_by: str | None
    settled_at: Moment | None = Field(validation_alias="decided_at_ms")
    void: str | None = Field(
        description="Why its decision does not count any more; null if it does."
    )
    takeover: bool = Field(description="Whether taking the conversation over is the approval.")
    response_schema: JsonObject | None = Field(description="Of the answer of a `respond`.")
    decisions: list[ActionView] = Field(
        description="What its terms allow, and why the caller cannot do it."
    )


def request_view(
    found: FoundRequest,
    caller: Caller,
    *,
    words: str = "",
    proofs: ProofReader = NO_PROOFS,
    at_ms: int | None = None,
) -> RequestView:
    """Return a request as a caller sees it.

    Args:
        found: the request, with the state of the run that made it.
        caller: who asks.
        words: the model's own words about it.
        proofs: says who has proven who they are, and whether the desk proves who acts.
        at_ms: the time; None for now.
    """
    request, state = found.request, found.state
    shown = request_for(caller, request, state)
    now_ms = clock.now_ms() if at_ms is None else at_ms
    terms, again = request.terms, asked_again(request, state.approvals)
    target = Target(
        run_id=state.run_id, state=state, request=request, at_ms=now_ms, signs=proofs.signs
    )
    payloads: dict[str, Any] = {}
    if sees_payloads(caller):
        payloads = {
            "arguments": shown.arguments,
            "arguments_schema": request.schema,
            "model_words": words,
        }
    due = deadlines(request)
    return RequestView.of(
        shown,
        run_id=request.run_id or state.run_id,
        title=title_of(shown),
        headline=_headline(shown, shows_arguments=bool(payloads)),
        digest=request.digest,
        edited=request.edited is not None,
        redacted=terms.redact,
        effect=terms.effect,
        risk=terms.risk,
        policy=terms.policy,
        due_at=due[0].at_ms if due else None,
        deadlines=[DeadlineView.of(one) for one in due],
        paused=request.paused_at_ms is not None,
        void=None if again is None else redaction_for(caller, state).text(void_words(again)),
        takeover=terms.takeover,
        response_schema=terms.response_schema,
        decisions=list(_decisions(request, caller, target)),
        **_people(shown, now_ms, proofs.of_votes(request, state)),
        **payloads,
    )


def _people(request: ApprovalRequest, now_ms: int, proofs: Sequence[Proof]) -> dict[str, Any]:
    """Return the fields of a request about who may decide, and who has."""
    standing, claim = request.standing_votes, request.claim
    audiences = aged(request, now_ms).audiences
    has_claim = claim is not None and claim.until_ms > now_ms
    return {
        "audience": who_may_decide(aged(request, now_ms), at_desk=True),
        "groups": list(dict.fromkeys(name for one in audiences for name in one.groups)),
        "people": list(dict.fromkeys(name for one in audiences for name in one.subjects)),
        "votes": [
            VoteView.of(vote.decision, proof=proof, counts=vote in standing, at=vote.at_ms)
            for vote, proof in zip(request.votes, proofs, strict=True)
        ],
        "votes_counted": len(standing),
        "votes_needed": request.terms.quorum,
        "claim": ClaimView.of(claim) if has_claim else None,
    }


def _headline(request: ApprovalRequest, *, shows_arguments: bool) -> str:
    if request.kind == "budget":
        return named(budget_line(request.arguments) or request.name)
    return named(headline_line(request)) if shows_arguments else named(request.name)


def _decisions(request: ApprovalRequest, caller: Caller, target: Target) -> Iterable[ActionView]:
    votes: list[tuple[str, VoteType]] = [(kind, kind) for kind in request.terms.allow]
    if "reject" in request.terms.allow and request.kind != "budget":
        votes.append(("ask_back", "reject"))
    votes.append(("withdraw", "withdraw"))
    for name, vote in votes:
        problem = may(caller, action_of(request, vote), target)
        problem = problem or _vote_problem(request, vote, caller, target)
        yield ActionView(name=name, problem=problem)
    yield ActionView(name="claim", problem=may(caller, "claim", target))
    nobody = f"Nobody works on {request.id}." if request.claim is None else None
    yield ActionView(name="unclaim", problem=may(caller, "claim", target) or nobody)


def action_of(request: ApprovalRequest, kind: str) -> Action:
    """Return which action a decision is: some give a run more of a budget."""
    extends = request.kind == "budget" and kind in {"approve", "edit"}
    return "extend_budget" if extends else "decide"


def _vote_problem(
    request: ApprovalRequest, kind: VoteType, caller: Caller, target: Target
) -> str | None:
    """Return why the run would refuse a decision of this type, whatever else it says."""
    if not isinstance(caller, Staff) or target.state is None:
        return None
    return vote_problem(
        target.state, request, kind, caller.person, target.at_ms, signs=target.signs
    )


# --- What a run did ------------------------------------------------------------------------------

Who: TypeAlias = Literal["customer", "agent", "colleague", "run"]
"""Who an item is from; `run` for what the run tells the model."""

_CONVERSATION: Final[frozenset[ItemKind]] = frozenset({"input", "message"})
"""Kinds of items whose content everybody in the team may see."""


class ItemView(View):
    """An entry of the transcript."""

    index: int | None = Field(description="Its place in the transcript, if that is known.")
    kind: ItemKind
    by: Who
    agent: str = Field(description="The agent or the colleague; empty for the customer.")
    turn: int = Field(description="The model call that made it, from 1; 0 for none.")
    text: str | None = Field(default=None, description="What was said; absent for calls.")
    name: str | None = Field(default=None, description="The tool of a call.")
    call_id: str | None = None
    arguments: str | None = Field(default=None, description="Of a call, as JSON text.")
    output: Json = Field(default=None, description="Of a call.")


def item_view(
    item: Item, state: RunSnapshot, caller: Caller, *, index: int | None = None
) -> ItemView:
    """Return an item as a caller sees it."""
    hides = redaction_for(caller, state)
    return _item_view(item, state, hides, index, sees_payloads=sees_payloads(caller))


def _item_view(
    item: Item, state: RunSnapshot, hides: Redaction, index: int | None, *, sees_payloads: bool
) -> ItemView:
    raw: JsonObject = readable(item.raw)
    content: dict[str, Any] = {}
    shows = sees_payloads or item.kind in _CONVERSATION
    match item.kind:
        case "tool_call" | "handoff_call":
            content = {"name": name_of(raw), "call_id": call_id_of(raw)}
            if shows:
                arguments = arguments_of(raw)
                content["arguments"] = hides.call(item.agent, name_of(raw), arguments)
        case "tool_output" | "handoff_output":
            content = {"call_id": call_id_of(raw)}
            if shows:
                content["output"] = hides.json(f"{output_content(raw)}")
        case _ if shows:
            content = {"text": hides.text(text_of(raw))}
        case _:
            pass
    return ItemView.of(item, index=index, by=_who(item, state), **content)


def _item_views(state: RunSnapshot, hides: Redaction, *, sees_payloads: bool) -> Iterable[ItemView]:
    for index, item in enumerate(visible_items(state)):
        yield _item_view(item, state, hides, index, sees_payloads=sees_payloads)


def _who(item: Item, state: RunSnapshot) -> Who:
    if item.kind == "input":
        return "customer" if item.raw.get("role") == "user" else "run"
    if item.kind in {"note", "history"}:
        return "run"
    is_person = item.turn == 0 and item.agent not in {*state.handoff_path, state.agent}
    return "colleague" if is_person else "agent"


class GuardrailView(View):
    """The verdict of a guardrail."""

    name: str
    stage: str
    tripped: bool
    behavior: str = Field(description="Of a tool guardrail; empty for others.")
    info: Json = None


class StepView(View):
    """One step of a run: see `items` for what was said, called and returned."""

    number: int
    kind: StepKind
    status: StepStatus
    name: str = Field(description="The tool, or the agent that goes on.")
    agent: str
    by: str = Field(description="The person who did it.")
    proof: Proof | None = Field(description=f"{_PROOF} null where no person did something.")
    turn: int
    began_at: Moment = Field(validation_alias="at_ms")
    ended_at: Moment | None = Field(
        validation_alias="ended_ms", description="null while it goes on."
    )
    seconds: float | None
    model: str
    tried: list[str] = Field(
        default_factory=list[str], description="The models that did not answer before it, and why."
    )
    usage: UsageView | None = Field(description="Of model calls and nested runs.")
    cost: CostView | None = Field(description="Of model calls.")
    calls: list[str] = Field(description="The names of the calls in a model's reply.")
    guardrails: list[GuardrailView]
    failure: FailureView | None
    lacks: str = Field(description="What no worker has that it needs; empty if it has a worker.")
    nested_id: str = Field(description="The run of an agent that works as a tool.")
    request_id: str = Field(description="The request for a person's decision.")
    effect: int = Field(description="Its number in the history; 0 for none.")
    items: list[int] = Field(description="Indices of its transcript items.")
    replaced: int = Field(
        validation_alias="entries",
        description="How many items of what the model reads a summary replaces.",
    )
    text: str | None = Field(default=None, description="What was said, a note or a summary.")


_SAID: Final[frozenset[StepKind]] = frozenset({"message", "said", "case"})
"""Kinds of steps whose text everybody in the team may read: it is part of the conversation, or for them."""

_ACTS: Final[frozenset[StepKind]] = frozenset({"takeover", "said", "release", "set_aside", "case"})
"""Kinds of steps that are actions of people, which they sign."""


def proof_of_step(step: Step, state: RunSnapshot, proofs: ProofReader) -> Proof | None:
    """Return whether it is proven who did a step; None where no person did."""
    if step.kind not in _ACTS or not (step.by or step.signed):
        return None
    return proofs.of_action(step.signed, step.by, state, at_ms=step.at_ms, verified=step.verified)


def _step_view(
    step: Step, state: RunSnapshot, hides: Redaction, proofs: ProofReader, *, sees_payloads: bool
) -> StepView:
    took, has_usage = step.took_ms, step.usage.total_tokens > 0
    text: dict[str, Any] = {}
    if sees_payloads or step.kind in _SAID:
        text = {"text": hides.text(step.text)}
    return StepView.of(
        step,
        proof=proof_of_step(step, state, proofs),
        seconds=None if took is None else took / 1000,
        tried=step.tried,
        usage=UsageView.of(step.usage) if has_usage else None,
        cost=_cost_of_step(step) if has_usage else None,
        guardrails=[_check_view(one, hides, sees_payloads=sees_payloads) for one in step.checks],
        failure=_failure_view(step.failure, hides, sees_payloads=sees_payloads),
        request_id="" if step.request is None else step.request.id,
        **text,
    )


def _check_view(one: Check, hides: Redaction, *, sees_payloads: bool) -> GuardrailView:
    info: dict[str, Any] = {"info": hides.json(one.info)} if sees_payloads else {}
    return GuardrailView.of(one, **info)


def _failure_view(
    failure: Failure | None, hides: Redaction, *, sees_payloads: bool
) -> FailureView | None:
    if failure is None:
        return None
    message: dict[str, Any] = {"message": hides.text(failure.message)} if sees_payloads else {}
    return FailureView.of(failure, **message)


# --- Costs ---------------------------------------------------------------------------------------


def _cost_of_step(step: Step) -> CostView:
    unknown = step.model if step.kind in MODEL_STEPS else NESTED_RUNS
    return CostView(
        usd=f"{Decimal(step.usage.cost_micros) / 1_000_000:f}",
        unknown_models=[] if usd_of(step.usage) is not None else [unknown],
    )


def _cost_view(cost: Cost) -> CostView:
    return CostView(usd=f"{cost.usd:f}", unknown_models=list(cost.unknown_models))


# --- Runs ----------------------------------------------------------------------------------------


class UnreadView(View):
    """A message of the customer that the run has not taken yet."""

    id: str
    at: Moment = Field(validation_alias="at_ms")
    text: str


def unread_views(state: RunSnapshot, caller: Caller) -> list[UnreadView]:
    """Return the messages that a run has not taken yet, as a caller of the team sees them."""
    hides = redaction_for(caller, state)
    return [
        UnreadView.of(
            message, text=hides.text("\n".join(text_of(readable(raw)) for raw in message.content))
        )
        for message in state.unread
    ]


def aside_views(state: RunSnapshot, caller: Caller) -> list[AsideView]:
    """Return what the model does not read any more, as a caller of the team sees it."""
    hides, shows = redaction_for(caller, state), sees_payloads(caller)
    return [
        AsideView.of(one, **({"reason": hides.text(one.reason)} if shows else {}))
        for one in set_aside(state)
    ]


class CustomerView(View):
    """The person for whom a run works."""

    id: str
    name: str
    language: str


def _hold_view(state: RunSnapshot) -> HoldView | None:
    return None if state.hold is None or state.outcome is not None else HoldView.of(state.hold)


class CommentView(View):
    """What a person wrote for colleagues."""

    id: str
    by: str
    text: str
    at: Moment = Field(validation_alias="at_ms")


class RatingView(View):
    """What the customer thinks of a conversation."""

    score: int = Field(description="From 1, the worst, to 5.")
    text: str = Field(description="Why, in their words.")
    at: Moment = Field(validation_alias="at_ms")

    @classmethod
    def if_any(cls, rating: Rating | None, hides: Redaction = NOTHING) -> "RatingView | None":
        """Return the view of a rating, without what a run hides; None without one."""
        return None if rating is None else cls.of(rating, text=hides.text(rating.text))


class CaseView(View):
    """Whose a conversation is, and how it stands."""

    team: str = Field(description="The team that it is assigned to; empty for none.")
    to: str = Field(description="The person that it is assigned to; empty for nobody.")
    due_at: Moment | None = Field(
        validation_alias="due_ms",
        description="Until when they may take it; null for no limit.",
    )
    resolved_at: Moment | None = Field(validation_alias="resolved_ms")
    resolved_by: str
    snoozed_until: Moment | None = Field(validation_alias="snoozed_until_ms")
    tags: list[str]
    links: list[str] = Field(description="The ids of other conversations about the same.")
    comments: list[CommentView] = Field(
        description="The newest comments, in order. Neither the customer nor the model reads them."
    )
    rating: RatingView | None = Field(description="What the customer thinks of it.")


def _case_view(case: Case, hides: Redaction) -> CaseView:
    comments = [CommentView.of(one, text=hides.text(one.text)) for one in case.comments]
    return CaseView.of(
        case,
        tags=list(case.tags),
        links=list(case.links),
        comments=comments,
        rating=RatingView.if_any(case.rating, hides),
    )


class TroubleView(View):
    """What keeps a run from going on."""

    kind: TroubleKind
    words: str = Field(description="The trouble in words, which are the same at any time.")
    since: Moment | None = Field(
        validation_alias="since_ms", description="null if that is not known."
    )
    what: str = Field(description="What waits or fails: an effect, a decision, a task queue.")
    why: str | None = Field(default=None, description="The reason; empty if there is none.")
    attempt: int = Field(description="How many attempts have failed.")
    next_at: Moment | None = Field(
        validation_alias="next_ms",
        description="When the next attempt begins; null if that is not known, or it has begun.",
    )


def trouble_views(found: Iterable[Trouble], caller: Caller) -> list[TroubleView]:
    """Return what keeps a run from going on, as a caller of the team sees it."""
    shows = sees_payloads(caller)
    return [
        TroubleView.of(
            one,
            words=trouble_words(one if shows else replace(one, why="")),
            **({"why": one.why} if shows else {}),
        )
        for one in found
    ]


class RunView(View):
    """A run as the team sees it."""

    id: str = Field(validation_alias="run_id")
    status: Status
    customer: CustomerView | None = Field(description="The person for whom it works.")
    agent: str
    handoff_path: list[str]
    waits_for: str = Field(description="What an open run waits for, in words; empty if it works.")
    trouble: list[TroubleView] = Field(
        description="What keeps it from going on, the most important first."
    )
    hold: HoldView | None
    case: CaseView
    turns: int
    usage: UsageView
    cost: CostView
    failure: FailureView | None
    started_at: Moment = Field(validation_alias="started_at_ms")
    updated_at: Moment = Field(validation_alias="updated_at_ms")
    is_open: bool
    unread: list[UnreadView] = Field(description="Messages that the run has not taken yet.")
    set_aside: list[AsideView] = Field(
        description="What the model does not read any more, because its provider refused it or a "
        "person set it aside."
    )
    parent: str | None = Field(
        validation_alias="parent_id", description="The run that it is nested in."
    )
    forked_from: str | None = Field(description="The run that it began as a copy of.")
    actions: list[ActionView]
    requests: list[RequestView]
    items: list[ItemView]
    steps: list[StepView] | None = Field(default=None, description="Absent in live streams.")


_RUN_ACTIONS: Final[tuple[Action, ...]] = ("send_message", *TEAM_ACTS)


def run_view(
    state: RunSnapshot,
    caller: Caller,
    *,
    requests: Iterable[FoundRequest] = (),
    words: Mapping[str, str] | None = None,
    steps: Sequence[Step] | None = None,
    trouble: Iterable[Trouble] | None = None,
    proofs: ProofReader = NO_PROOFS,
    at_ms: int | None = None,
) -> RunView:
    """Return a run as a caller of the team sees it.

    Args:
        state: its state.
        caller: who asks.
        requests: its pending requests, and those of runs nested in it.
        words: the model's own words about the requests, by their ids.
        steps: what it did; None if the view is without steps.
        trouble: what keeps it from going on; None for what its state says about that.
        proofs: says who has proven who they are, and whether the desk proves who acts.
        at_ms: the time; None for now.
    """
    hides, shows = redaction_for(caller, state), sees_payloads(caller)
    now = clock.now_ms() if at_ms is None else at_ms
    target = Target(run_id=state.run_id, state=state, at_ms=now, signs=proofs.signs)
    see = partial(request_view, caller=caller, proofs=proofs, at_ms=now)
    said, done = words or {}, dict[str, Any]()
    found = troubles(state, QUIET, now, hides) if trouble is None else trouble
    if steps is not None:
        see_step = partial(_step_view, state=state, hides=hides, proofs=proofs, sees_payloads=shows)
        done = {"steps": list(map(see_step, steps))}
    return RunView.of(
        state,
        customer=CustomerView.of(state.customer) if state.customer.id else None,
        waits_for=waits_for(state),
        trouble=trouble_views(found, caller),
        hold=_hold_view(state),
        case=_case_view(state.case, hides),
        usage=UsageView.of(state.usage),
        cost=_cost_view(Cost.of_state(state)),
        failure=_failure_view(state.failure, hides, sees_payloads=shows),
        unread=unread_views(state, caller),
        set_aside=aside_views(state, caller),
        actions=[ActionView(name=one, problem=may(caller, one, target)) for one in _RUN_ACTIONS],
        requests=[see(one, words=said.get(one.request.id, "")) for one in requests],
        items=list(_item_views(state, hides, sees_payloads=shows)),
        **done,
    )


class RunListItem(View):
    """A run in a list."""

    id: str = Field(validation_alias="run_id")
    execution_id: str
    status: ListedStatus
    agent: str
    tenant: str
    customer: str = Field(
        description="The id of the customer; a digest of it where contents are encrypted."
    )
    assignee: str = Field(description="The person that it is assigned to; empty for nobody.")
    team: str = Field(description="The team that it is assigned to; empty for none.")
    tags: list[str]
    rating: int | None = Field(
        description="What the customer thinks of it, from 1 to 5; null if they have not said."
    )
    waits_for: str
    pending_requests: int = Field(validation_alias="approvals")
    started_at: Moment = Field(validation_alias="started")
    closed_at: Moment | None = Field(validation_alias="closed")
    nested: bool = Field(validation_alias="is_nested")


class DayView(View):
    """What happened on a day, or in all days together. Times are medians, in seconds."""

    day: str = Field(description="The date; empty for all days.")
    decisions: int = Field(description="The requests that people decided.")
    decision_seconds: float | None = Field(description="From a request to its decision.")
    takeovers: int
    replies: int = Field(description="Replies of people to customers who waited for a person.")
    reply_seconds: float | None = Field(description="How long these customers waited.")
    ratings: int = Field(description="The conversations that were rated.")
    good: int = Field(description="Ratings of 4 and 5.")
    bad: int = Field(description="Ratings of 1 and 2.")
    score: float | None = Field(description="The mean of the ratings.")


class FiguresView(View):
    """The figures of some days: the newest day first."""

    days: list[DayView]
    total: DayView
    time_zone: str = Field(description="In which days begin.")
    as_of: AsOf = Field(
        validation_alias="as_of_ms",
        description="Everything before is counted; null if nothing is.",
    )
    problem: str = Field(
        description="What is wrong with the index, in a sentence; empty for nothing."
    )


class QualityGroupView(View):
    """How many of the scored runs of an agent with some instructions pass a check."""

    check: str
    agent: str
    instructions: str = Field(description="The beginning of their digest; empty for none.")
    scored: int
    passed: int
    first_at: Moment = Field(validation_alias="first_ms")
    last_at: Moment = Field(validation_alias="last_ms")


class ScoreView(View):
    """A run that does not pass a quality check."""

    check: str
    id: str = Field(validation_alias="run_id")
    execution_id: str
    agent: str
    instructions: str
    score: int
    at: Moment = Field(validation_alias="at_ms")


class QualityView(View):
    """The scores of quality checks."""

    groups: list[QualityGroupView]
    worst: list[ScoreView] = Field(description="The newest runs that do not pass.")
    as_of: AsOf = Field(
        validation_alias="as_of_ms",
        description="Everything before is counted; null if nothing is.",
    )
    problem: str = Field(
        description="What is wrong with the index, in a sentence; empty for nothing."
    )


class RunList(View):
    """A page of the list of runs."""

    conversations: list[RunListItem]
    next: str | None = Field(description="The parameter `page` of the next page.")


class PieceView(View):
    """A piece of an excerpt."""

    text: str
    match: bool = Field(validation_alias="is_match", description="Whether it was searched for.")


class ExcerptView(View):
    """Where in a conversation the words occur."""

    by: PartBy
    message: str = Field(description="The id of the message; empty for none.")
    pieces: list[PieceView]


class FoundConversation(View):
    """A conversation that was found. It is as the index knows it."""

    id: str = Field(validation_alias="run_id")
    execution_id: str
    open: bool = Field(validation_alias="is_open")
    agent: str
    tenant: str
    customer: str = Field(description="What people call the customer.")
    tags: list[str]
    changed_at: Moment = Field(validation_alias="changed_ms")
    excerpts: list[ExcerptView]


class SearchResults(View):
    """What a search has found: the newest conversations first."""

    conversations: list[FoundConversation]
    more: bool = Field(description="Whether there are more.")
    as_of: AsOf = Field(
        validation_alias="as_of_ms", description="The index has everything that was said before."
    )
    problem: str = Field(description="What is wrong with the index; empty for nothing.")


def found_conversation(hit: Hit) -> FoundConversation:
    """Return a conversation that was found."""
    excerpts = [
        ExcerptView.of(one, pieces=list(map(PieceView.of, one.pieces))) for one in hit.excerpts
    ]
    return FoundConversation.of(hit.document, excerpts=excerpts)


# --- Customers -----------------------------------------------------------------------------------


class AttachmentView(View):
    """An image or a file of the customer."""

    type: Literal["input_image", "input_file"]
    filename: str | None
    url: str = Field(description="Where its content is, below the address of the desk.")
    left_out: bool = Field(description="Whether the assistant could not read it.")


class CustomerMessageView(View):
    """A message of the conversation."""

    id: str
    by: Literal["customer", "assistant", "colleague"]
    text: str
    attachments: list[AttachmentView] = Field(description="Images and files of the customer.")
    left_out: bool = Field(description="Whether the assistant could not read the message.")
    is_cut_short: bool = Field(description="Whether a limit of tokens cut the answer off.")


class CustomerConversation(View):
    """A conversation as its customer sees it."""

    id: str
    messages: list[CustomerMessageView]
    unread: list[CustomerMessageView] = Field(
        description="Messages of the customer that nobody has read yet."
    )
    works: bool = Field(description="Whether an answer is to come.")
    has_ended: bool = Field(description="Whether it takes no more messages.")
    waits_for: str | None = Field(description="What it waits for, in words for the customer.")
    trouble: str | None = Field(
        description="What keeps it from going on, in words for the customer."
    )
    can_rate: bool = Field(description="Whether to ask what they think of it.")
    rating: RatingView | None
    follows: str | None = Field(description="The resolved conversation that it follows.")
    followed_by: str | None = Field(description="The newest conversation that follows it.")


def new_conversation(run_id: str) -> CustomerConversation:
    """Return a conversation that has not begun."""
    return customer_conversation(RunSnapshot()).model_copy(update={"id": run_id})


def customer_conversation(
    state: RunSnapshot, trouble: str = "", followed_by: str | None = None
) -> CustomerConversation:
    """Return what the customer of a run sees of it, and of what keeps it from going on."""
    view, see = customer_view(state), partial(_customer_message, state.run_id)
    return CustomerConversation.of(
        view,
        id=state.run_id,
        messages=list(map(see, view.messages)),
        unread=list(map(see, view.unread)),
        trouble=trouble or None,
        rating=RatingView.if_any(view.rating),
        follows=state.follows,
        followed_by=followed_by,
    )


def _customer_message(run_id: str, message: CustomerMessage) -> CustomerMessageView:
    run, own = quote(run_id, safe="", errors="replace"), quote(message.id, safe="")
    attachments = [
        AttachmentView(
            type="input_image" if part.get("type") == "input_image" else "input_file",
            filename=name if isinstance(name := part.get("filename"), str) else None,
            url=f"/api/conversations/{run}/messages/{own}/attachments/{at}",
            left_out=at in message.attachments_left_out,
        )
        for at, part in enumerate(message.attachments)
    ]
    return CustomerMessageView.of(message, attachments=attachments)


# --- The inbox -----------------------------------------------------------------------------------


class InboxItem(View):
    """A run that waits for people."""

    id: str = Field(validation_alias="run_id")
    agent: str
    status: str = Field(description="Such as `waiting` or `held`; empty while it also works.")
    tools: list[str]
    pending_requests: int = Field(validation_alias="pending")
    people: list[str] = Field(description="The groups and people who may decide.")
    for_anybody: bool
    risk: Risk
    due_at: Moment | None = Field(validation_alias="due")
    held_by: str
    started_at: Moment = Field(validation_alias="started")


class InboxList(View):
    """A page of the inbox."""

    items: list[InboxItem]
    next: str | None = Field(description="The parameter `page` of the next page.")


# --- Receipts ------------------------------------------------------------------------------------


class StartedView(View):
    """A conversation that has begun."""

    id: str
    token: str | None = Field(
        description="Lets its customer in; null if the desk lets no customer in, or not for you."
    )


class TokenView(View):
    """A customer's token: send it as `Authorization: Bearer …`."""

    token: str


class MessageReceiptView(View):
    """A message that a run has accepted; its answer comes later."""

    id: str = Field(description="The conversation.")
    message_id: str


class WaitView(View):
    """A tool that waits for something outside of its run."""

    run_id: str
    agent: str
    tool: str
    call_id: str
    waits_for: str = Field(validation_alias="name")
    since: Moment
    until: Moment | None = Field(description="When the wait ends by itself; null for never.")
    value_schema: dict[str, Any] | None = Field(
        validation_alias="schema", description="JSON Schema of the value; null for any value."
    )
    token: str = Field(description="Finishes the wait.")


class WaitList(View):
    """What the tools of a run wait for."""

    waits: list[WaitView]


class DeliveryReceiptView(View):
    """A delivery that a run has taken, or that the server keeps for it."""

    run_id: str
    waits_for: str = Field(validation_alias="name")
    at: Moment | None = Field(
        description="When it came; of a second delivery, when the first did. null if no worker was "
        "there: the server keeps it, and the run takes or refuses it when a worker starts."
    )


class TakeoverReceiptView(View):
    """Who has the conversation now."""

    id: str = Field(validation_alias="run_id")
    status: Status
    by: str | None = Field(description="The person who has it; null for nobody.")
    agent: str = Field(description="The agent that answers when nobody has it.")
    approved: list[str] = Field(description="The requests that taking it has approved.")
    is_judged: bool = Field(description="Whether guardrails judge first what was said.")


class CaseReceiptView(View):
    """A conversation after an act of a colleague."""

    id: str = Field(validation_alias="run_id")
    status: Status
    team: str
    to: str = Field(description="The person that it is assigned to; empty for nobody.")
    resolved_at: datetime | None
    snoozed_until: datetime | None
    tags: list[str]
    links: list[str]


class AsideReceiptView(View):
    """The receipt for setting an item aside, or taking it back."""

    id: str = Field(validation_alias="run_id")
    item: int
    set_aside: bool = Field(description="Whether something of the item is set aside.")
    parts: list[int | None] = Field(
        description="The parts of its content that are set aside; null for all of it."
    )


class DecisionReceiptView(View):
    """What became of a decision."""

    run_id: str
    request_id: str
    status: ApprovalStatus = Field(description="`pending` while others have to agree.")
    votes: int
    votes_needed: int
    by: str | None = Field(description="Who settled the request.")
    is_kept: bool = Field(
        description="Whether the server keeps the decision until a worker is there: none is now."
    )
    is_queued: bool = Field(description="Whether calls before it go first.")
    words: str = Field(description="What became of it, for people.")


class BulkStepView(View):
    """What a decision about several requests would do to one of them."""

    conversation: str
    request: str | None = Field(description="null if the conversation cannot be read.")
    headline: str | None = Field(description="What waits, in a line for people.")
    digest: str | None = Field(description="Send it with the decision.")
    problem: str | None = Field(description="Why it is left alone; null if it is decided.")


class BulkPlan(View):
    """What a decision about several requests would do."""

    steps: list[BulkStepView]


def bulk_plan(steps: Iterable[BulkStep]) -> BulkPlan:
    """Return a plan of a decision about several requests."""
    return BulkPlan(steps=list(map(_bulk_step, steps)))


def _bulk_step(step: BulkStep) -> BulkStepView:
    request, shown = step.request, step.shown
    return BulkStepView(
        conversation=step.entry.run_id,
        request=None if request is None else request.id,
        headline=None if shown is None else _headline(shown, shows_arguments=True),
        digest=None if request is None else request.digest,
        problem=step.problem,
    )


class BulkOutcomeView(View):
    """What became of one of several requests."""

    conversation: str
    request: str
    receipt: DecisionReceiptView | None = Field(description="null if it was left alone.")
    refused: str | None = Field(description="Why it was left alone.")


class BulkOutcomes(View):
    """What became of each request, in the order of the decision."""

    outcomes: list[BulkOutcomeView]


class ClaimReceiptView(View):
    """Who works on a request now."""

    run_id: str
    request_id: str
    by: str | None
    until: Moment | None


class RequestList(View):
    """What a run waits for."""

    requests: list[RequestView]


# --- Rights and times ----------------------------------------------------------------------------


def sees_payloads(caller: Caller) -> bool:
    """Whether a caller may see arguments, outputs and reasoning."""
    return may(caller, "view_payloads") is None
