"""Approval requests, the terms they are made under, and people's decisions about them.

A request is made with terms and keeps them: who may decide, how many have to agree, until when.
`votes.py` has the rules that a decision has to pass, and what it does to a request.
"""

import json
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from outlast.loop.canonical import canonical_name, digest, digest_of
from outlast.loop.open_hours import Hours
from outlast.loop.values import Json, JsonObject

RequestKind: TypeAlias = Literal["tool", "handoff", "output", "budget", "worker"]
"""What waits. `worker`: a call or another step that no worker can carry out so far."""

Risk: TypeAlias = Literal["low", "medium", "high"]
DecisionType: TypeAlias = Literal["approve", "edit", "reject", "respond"]
"""What a person can decide, as far as the terms of the request allow it."""

VoteType: TypeAlias = Literal["approve", "edit", "reject", "respond", "withdraw"]
"""What a person can say about a request: a decision, or that their earlier ones are void."""

OnExpiry: TypeAlias = Literal["reject", "escalate", "approve", "fail"]
ApprovalStatus: TypeAlias = Literal[
    "pending",
    "approved",
    "edited",
    "rejected",
    "responded",
    "expired",
    "cancelled",
    "superseded",
]

ALL_DECISIONS: Final[tuple[DecisionType, ...]] = ("approve", "edit", "reject", "respond")
REDACTED: Final = "[redacted]"
"""Stands for the value of an argument that reviewers do not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who may decide.

    Attributes:
        subjects: people by name.
        groups: groups by name; each of their members may decide.
        exclude_requester: the person for whom the run works may not decide.
    """

    subjects: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    exclude_requester: bool = False


ANYBODY: Final = Audience()


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationStep:
    """When further people may decide, counted from the request."""

    after_ms: int
    audience: Audience


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalTerms:
    """The terms of a request; a later change of a policy does not change them.

    Attributes:
        effect: what the call changes: see `FunctionTool.effect`.
        risk: how much harm a wrong decision does.
        audience: who may decide; an audience without subjects and groups is everybody.
        quorum: how many different people have to approve before the call runs.
        allow: the types of decision.
        unverified: whether a decision counts whose sender did not prove who they are, such as a
            signal from the Temporal UI.
        expires_in_ms: how long the request waits; None for ever.
        on_expiry: what happens then.
        remind_every_ms: the time between two reminders; None for no reminders.
        escalations: who may decide later, in order of time.
        redact: names of arguments that people do not see.
        redact_for: groups whose members see them.
        bulk: whether the request may be decided together with others.
        takeover: whether taking the conversation over is the approval: only who holds it approves.
        response_schema: JSON Schema of the answer of a `respond` decision; None for a text.
        policy: the name of the policy in the operators' file, if it comes from there.
        customer_text: what the customer reads while the request waits; None for nothing.
        bound: the digest of the values of the context that a decision is for; empty for none.
        title: what people call the tool; empty for its name.
        headline: what a call asks for, with places for its arguments; empty for the title.
        labels: what people call the arguments, by their names; None for the names.
        hours: the durations, where they count only the hours of a calendar; `loop/hours.py`.
    """

    effect: str | None = None
    risk: Risk = "low"
    audience: Audience = ANYBODY
    quorum: int = 1
    allow: tuple[DecisionType, ...] = ALL_DECISIONS
    unverified: bool = True
    expires_in_ms: int | None = None
    on_expiry: OnExpiry = "reject"
    remind_every_ms: int | None = None
    escalations: tuple[EscalationStep, ...] = ()
    redact: tuple[str, ...] = ()
    redact_for: tuple[str, ...] = ()
    bulk: bool = False
    takeover: bool = False
    response_schema: JsonObject | None = None
    policy: str = ""
    customer_text: str | None = None
    bound: str = ""
    title: str = ""
    headline: str = ""
    labels: JsonObject | None = None
    hours: Hours | None = None


DEFAULT_TERMS: Final = ApprovalTerms()


TAKEOVER_TERMS: Final = ApprovalTerms(risk="medium", unverified=False)
"""Who may take a conversation over where the run does not say: anybody who proves who they are."""


def terms_digest(terms: ApprovalTerms) -> str:
    """Return the digest of what terms ask of people: a vote under other terms does not count.

    Times of reminders, of the expiry and of further people are not part of it: they do not change
    whose approval lets a call run.
    """
    audience = terms.audience
    return digest_of(
        {
            "effect": terms.effect,
            "risk": terms.risk,
            "subjects": sorted(audience.subjects),
            "groups": sorted(audience.groups),
            "exclude_requester": audience.exclude_requester,
            "quorum": terms.quorum,
            "allow": sorted(terms.allow),
            "unverified": terms.unverified,
            "on_expiry": terms.on_expiry,
            "redact": sorted(terms.redact),
            "takeover": terms.takeover,
            **({"redact_for": sorted(terms.redact_for)} if terms.redact_for else {}),
            **({"bound": terms.bound} if terms.bound else {}),
            **({"headline": terms.headline} if terms.headline else {}),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who did something, as a trusted caller reports it.

    Attributes:
        subject: the person's name in audiences; empty if nobody says.
        display: the name for people, if it differs.
        groups: the groups that the person belongs to.
        method: how the caller knows who it is, such as `os_user`, `token` or `proxy`.
        proof: the caller's signature, for workers that demand one.
    """

    subject: str = ""
    display: str | None = None
    groups: tuple[str, ...] = ()
    method: str | None = None
    proof: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a person saw of a request, as digests.

    A signed decision names it, so that it counts for nothing else. The worker that runs the call
    makes its own from the call, its tool and its policy, and compares them.

    Attributes:
        call_id: the id of the model's call; empty for an answer or a budget.
        arguments: the digest of all arguments.
        shown: the digest of the arguments as reviewers see them, without redacted values.
        tool: the digest of the agent, the tool's name, its source and its schema.
        policy: the digest of the terms.
        question: the question of the conversation, by its number in the run that all others are
            nested in. A decision that is remembered until the end of its question has to say it.
    """

    call_id: str = ""
    arguments: str = ""
    shown: str = ""
    tool: str = ""
    policy: str = ""
    question: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A person's decision about one approval request.

    Attributes:
        request_id: the request it answers.
        type: `approve` runs the call as it is, and `edit` with other arguments; `reject` does not
            run it; `respond` answers in its place; `withdraw` takes this person's earlier votes
            back, which terms always allow.
        message: what the model reads as the output of a rejected call.
        by: who decided.
        display: that person's name for people, if it differs.
        groups: the groups that the person belongs to.
        method: how the caller knows who it is, such as `os_user`, `token` or `proxy`.
        proof: the caller's signature, for workers that demand one.
        channel: where the decision was made, such as `cli`.
        args_digest: the digest of the arguments that the person saw; if set, it must match the
            call.
        seen: everything that the person saw, as digests; a signed decision needs it.
        edited_arguments: the arguments to run the call with, of an `edit`: all of them, where
            `REDACTED` stands for a value that stays.
        response: the answer of a `respond`: the call's output.
        remember: also decide further calls of this tool by this agent.
        remember_scope: every call, or only those with the same arguments.
        remember_until: the end of the current question, or of the conversation.
        idempotency_key: makes a repeated decision the same decision.
    """

    request_id: str
    type: VoteType
    message: str | None = None
    by: str | None = None
    display: str | None = None
    groups: tuple[str, ...] = ()
    method: str | None = None
    proof: str | None = None
    channel: str | None = None
    args_digest: str | None = None
    seen: Seen | None = None
    edited_arguments: JsonObject | None = None
    response: Json = None
    remember: bool = False
    remember_scope: Literal["tool", "tool_with_args"] = "tool"
    remember_until: Literal["run", "conversation"] = "conversation"
    idempotency_key: str | None = None

    @property
    def person(self) -> Person:
        """Who decided."""
        return Person(
            subject=self.by or "",
            display=self.display,
            groups=self.groups,
            method=self.method,
            proof=self.proof,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One decision about a request, and when it arrived.

    Attributes:
        decision: the decision.
        at_ms: when the run took it, in milliseconds since the epoch.
        verified: whether the sender proved who they are.
        args_digest: the digest of the arguments that it is about.
    """

    decision: Decision
    at_ms: int
    verified: bool = False
    args_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A person works on a request; until then, nobody else decides it."""

    by: str
    until_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A request for a person's decision, with its votes and its outcome.

    Attributes:
        id: `a1`, `a2` …: unique in the conversation, and the same on every replay.
        kind: what waits.
        call_id: the provider's id of the call; empty for an answer or a budget.
        name: the name of the tool or handoff; `answer` or `budget` for the others, and the agent
            for a step of it that no worker can carry out.
        source: the MCP server of the tool; empty for others.
        tool_digest: the digest of the tool, as `Seen.tool`; empty for an answer or a budget.
        agent: the agent that made the call.
        handoff_path: the agents that the conversation went through; the calling agent is last.
        arguments: the arguments as JSON text, as reviewers see them: without redacted values.
        args_digest: SHA-256 of the canonical JSON of all arguments.
        schema: JSON Schema of the arguments, if they can be edited.
        edited: all arguments as JSON text, as the newest edit wants them; None if there is none.
        reason: why a person has to decide.
        terms: the terms of the request.
        requested_at_ms: the time of the request, in milliseconds since the epoch.
        expires_at_ms: when it expires; None if it never does.
        remind_at_ms: when people are reminded next; None if they are not.
        reminders: how often they were reminded.
        escalated: how many steps of the escalation have been taken.
        paused_at_ms: since when no time passes for it, because a person has the conversation; None
            while time passes.
        paused_ms: how long no time has passed for it, in pauses that are over.
        claim: the person who works on it.
        votes: the decisions so far, in order.
        status: pending, decided or over.
        decision: the decision that settled it, once there is one.
        decided_at_ms: when it was settled.
        run_id: the id of the nested run that waits; empty for the run itself.
        wait: the name of the wait whose value people are asked for; empty where they approve.
        authors: the members of the team who had written the question by then.
        question: the question, as `Seen.question`.
    """

    id: str
    kind: RequestKind = "tool"
    call_id: str
    name: str
    source: str = ""
    tool_digest: str = ""
    agent: str
    handoff_path: tuple[str, ...] = ()
    arguments: str
    args_digest: str
    schema: JsonObject | None = None
    edited: str | None = None
    reason: str | None = None
    terms: ApprovalTerms = DEFAULT_TERMS
    requested_at_ms: int
    expires_at_ms: int | None = None
    remind_at_ms: int | None = None
    reminders: int = 0
    escalated: int = 0
    paused_at_ms: int | None = None
    paused_ms: int = 0
    claim: Claim | None = None
    votes: tuple[Vote, ...] = ()
    status: ApprovalStatus = "pending"
    decision: Decision | None = None
    decided_at_ms: int | None = None
    run_id: str = ""
    wait: str = ""
    authors: tuple[str, ...] = ()
    question: int = 0

    @property
    def seen(self) -> Seen:
        """What a person sees who looks at the request now.

        The digest of the shown arguments is made from them, not read from the run.
        """
        return Seen(
            call_id=self.call_id,
            arguments=self.args_digest,
            shown=digest(self.arguments),
            tool=self.tool_digest,
            policy=terms_digest(self.terms),
            question=self.question,
        )

    @property
    def digest(self) -> str:
        """The digest of everything that the request shows: a decision for it counts for nothing else.

        A later run may have the same id, the same request and the same call, so its time counts.
        """
        seen = self.seen
        return digest_of(
            {
                "id": self.id,
                "requested_at_ms": self.requested_at_ms,
                "call_id": seen.call_id,
                "arguments": seen.arguments,
                "tool": seen.tool,
                "policy": seen.policy,
            }
        )

    @property
    def audiences(self) -> tuple[Audience, ...]:
        """Who may decide now: the audience of the terms, and those of the escalation so far."""
        steps = self.terms.escalations[: self.escalated]
        return (self.terms.audience, *(step.audience for step in steps))

    @property
    def counts_from_ms(self) -> int:
        """When the times of the escalation begin: at the request, later by its pauses."""
        return self.requested_at_ms + self.paused_ms

    @property
    def standing_votes(self) -> tuple[Vote, ...]:
        """Each person's newest vote for the arguments that the request has now.

        An edit voids earlier votes, and an edit back to the same arguments counts nobody twice.
        A withdrawn vote does not stand, whatever the arguments were.
        """
        newest: dict[str, Vote] = {}
        for vote in self.votes:
            name = canonical_name(vote.decision.by or "")
            if vote.decision.type == "withdraw":
                newest.pop(name, None)
            elif vote.args_digest == self.args_digest:
                newest[name] = vote
        return tuple(newest.values())

    @property
    def settled_by(self) -> str | None:
        """The name of the person who settled it; None without a person or a name."""
        return (self.decision.by or None) if self.decision is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What people decided about a call, for the worker that runs it to check.

    Attributes:
        decisions: the decisions for the call as it runs.
        edited: all arguments before each edit, as JSON texts: a decision to edit was made for one
            of them.
        requested_at_ms: when people were asked, in milliseconds since the epoch.
        expired: nobody decided in time, and the policy then approves.
        run_id: the run of the conversation in which a remembered decision was made; empty for the
            run of the call.
        authors: the members of the team who wrote the question.
        question: the question that the call is made for, as `Seen.question`.
    """

    decisions: tuple[Decision, ...] = ()
    edited: tuple[str, ...] = ()
    requested_at_ms: int = 0
    expired: bool = False
    run_id: str = ""
    authors: tuple[str, ...] = ()
    question: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A decision that also applies to further calls of a tool by an agent.

    Attributes:
        agent: the agent.
        name: the tool.
        decision: the decision.
        args_digest: the calls with these arguments only; None for all.
        question: the question in which it holds, as `Seen.question`; None for all.
        verified: whether the person proved who they are.
        run_id: the other run of the conversation that took the decision; empty for the run itself.
    """

    agent: str
    name: str
    decision: Decision
    args_digest: str | None = None
    question: int | None = None
    verified: bool = False
    run_id: str = ""


def reviewed(arguments: str, redact: tuple[str, ...]) -> str:
    """Return arguments as reviewers see them: with `REDACTED` for the values of some names.

    Arguments that are no JSON object cannot be redacted by name, so all of them are.
    """
    if not redact:
        return arguments
    try:
        fields: Json = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return json.dumps(REDACTED)
    shown = {
        name: REDACTED if name in redact else value
        for name, value in cast("JsonObject", fields).items()
    }
    return json.dumps(shown, ensure_ascii=False)


def with_redacted(edited: JsonObject, arguments: str) -> JsonObject:
    """Return edited arguments with the original values in place of `REDACTED`.

    A text with `REDACTED` in it stays as the call has it, if the rest of it is unchanged.
    """
    try:
        before: Json = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        before = None
    return cast("JsonObject", _restored(edited, before)) if isinstance(before, dict) else edited


def _restored(edited: Json, before: Json) -> Json:
    if edited == REDACTED:
        return before
    if isinstance(edited, str) and isinstance(before, str):
        return before if REDACTED in edited and _has_gaps(before, edited) else edited
    if isinstance(edited, dict) and isinstance(before, dict):
        known = cast("JsonObject", before)
        return {
            name: _restored(value, known[name]) if name in known else value
            for name, value in cast("JsonObject", edited).items()
        }
    if isinstance(edited, list) and isinstance(before, list):
        values, originals = cast("list[Json]", edited), cast("list[Json]", before)
        if len(values) == len(originals):
            return [_restored(*pair) for pair in zip(values, originals, strict=True)]
    return cast("Json", edited)


def unplaced(edited: JsonObject, shown: str) -> str | None:
    """Return a text of edited arguments in which `REDACTED` stands for no value; None if all do.

    Args:
        edited: the arguments as a person wants them.
        shown: the arguments as the person saw them, as JSON text.
    """
    try:
        before: Json = json.loads(shown or "{}")
    except (ValueError, RecursionError):
        return None
    return _unplaced(_restored(edited, before), before) if isinstance(before, dict) else None


def _unplaced(value: Json, before: Json) -> str | None:
    if value == before:
        return None
    if isinstance(value, str):
        return value if REDACTED in value else None
    if isinstance(value, dict):
        known = cast("JsonObject", before) if isinstance(before, dict) else {}
        pairs = [(one, known.get(name)) for name, one in cast("JsonObject", value).items()]
    elif isinstance(value, list):
        values = cast("list[Json]", value)
        others = cast("list[Json]", before) if isinstance(before, list) else []
        padded: list[Json] = [*others, *[None] * len(values)]
        pairs = list(zip(values, padded, strict=False))
    else:
        return None
    found = (_unplaced(one, other) for one, other in pairs)
    return next((one for one in found if one is not None), None)


def _has_gaps(text: str, shown: str) -> bool:
    """Whether a text is what was shown, with something in place of each `REDACTED`."""
    first, *between, last = shown.split(REDACTED)
    at = len(first)
    for piece in between:
        found = text.find(piece, at + 1)
        if found < 0:
            return False
        at = found + len(piece)
    return text.startswith(first) and text.endswith(last) and at < len(text) - len(last)
