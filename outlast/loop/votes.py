"""Rules of decisions: which ones a request accepts, and the effects of votes and time.

Pure functions on one request. Updates and signals share them: a refused update raises, a refused
signal is recorded as ignored.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from outlast.loop import schemas
from outlast.loop.approvals import (
    REDACTED,
    ApprovalRequest,
    ApprovalStatus,
    ApprovalTerms,
    Audience,
    Claim,
    Decision,
    Person,
    Seen,
    Vote,
    VoteType,
    reviewed,
    with_redacted,
)
from outlast.loop.canonical import LONGEST_NAME, canonical_name, digest, same_person
from outlast.loop.values import Json, JsonObject

LONGEST_MESSAGE: Final = 100_000
"""The most characters of a decision's message, answer or edited arguments."""

SHORTEST_REMINDER_MS: Final = 60_000
"""The shortest time between two reminders: each adds to the history."""

LONGEST_CLAIM_MINUTES: Final = 24 * 60
"""The longest time for which a person keeps a request to themselves."""

_SETTLES: Final[dict[VoteType, ApprovalStatus]] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "responded",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """The circumstances of a decision.

    Attributes:
        at_ms: when the run takes it, in milliseconds since the epoch.
        verified: whether the sender proved who they are.
        requesters: who asks for it: the members of the team who wrote the question, and the
            customer for whom the run works.
        holder: the person who has the conversation; empty for nobody, and None where it cannot be
            taken over, as in a nested run.
    """

    at_ms: int
    verified: bool = False
    requesters: tuple[str, ...] = ()
    holder: str | None = None

    def asked(self, name: str) -> bool:
        """Whether a person is one of the requesters."""
        return any(same_person(name, one) for one in self.requesters)


# --- Which decisions a request accepts -----------------------------------------------------------


def refusal(
    requests: Sequence[ApprovalRequest],
    decision: Decision,
    sender: Sender,
    nested: Sequence[ApprovalRequest] = (),
) -> str | None:
    """Return why a decision is refused, or None if it is accepted.

    Args:
        requests: the run's own requests.
        decision: the decision.
        sender: its circumstances.
        nested: what runs nested in this one have reported, to say where to decide it.
    """
    request = next((one for one in requests if one.id == decision.request_id), None)
    if request is None:
        return _unknown(requests, decision.request_id, nested)
    problem = (
        settled_problem(request)
        or _other_than_seen(request, decision)
        or _not_allowed(request, decision)
        or _person_problem_now(request, decision.person, sender)
        or _not_taken_over(request, decision, sender)
        or _voted_already(request, decision)
        or _does_not_fit(request, decision)
    )
    return f"Approval {request.id}{problem}" if problem else None


def is_repeated(requests: Sequence[ApprovalRequest], decision: Decision) -> bool:
    """Whether this person's decision has been taken before, as its idempotency key says."""
    key = (decision.idempotency_key, decision.by)
    return decision.idempotency_key is not None and any(
        (vote.decision.idempotency_key, vote.decision.by) == key
        for request in requests
        if request.id == decision.request_id
        for vote in request.votes
    )


def claim_refusal(
    requests: Sequence[ApprovalRequest],
    request_id: str,
    person: Person,
    sender: Sender,
    *,
    force: bool = False,
    to: str = "",
    nested: Sequence[ApprovalRequest] = (),
) -> str | None:
    """Return why a person cannot claim a request; only those who may decide it can.

    Args:
        requests: the requests of the run.
        request_id: the request.
        person: who wants to claim it; nobody can without a name.
        sender: the circumstances.
        force: whether a claim of somebody else does not matter.
        to: the person to whom they hand their claim over; empty if they keep it.
        nested: as for `refusal`.
    """
    request = next((one for one in requests if one.id == request_id), None)
    if request is None:
        return _unknown(requests, request_id, nested)
    nameless = None if person.subject else " can only be claimed by name (by=)."
    problem = (
        settled_problem(request)
        or nameless
        or _person_problem_now(request, person, sender, force=force)
        or (_not_handed_over(request, person, to, sender, force=force) if to else None)
    )
    return f"Approval {request.id}{problem}" if problem else None


def _unknown(
    requests: Sequence[ApprovalRequest], request_id: str, nested: Sequence[ApprovalRequest]
) -> str:
    for one in nested:
        if one.id == request_id:
            return (
                f"The approval {request_id} belongs to the nested run {one.run_id!r:.200}, which "
                f"decides it. Send this to that run, or use `outlast approve`, which does."
            )
    pending = [one.id for one in requests if one.status == "pending"]
    pending += [f"{one.id} in {one.run_id!r:.200}" for one in nested]
    return f"The run has no approval {request_id!r:.80}. Pending: {', '.join(pending) or 'none'}."


_SETTLED: Final = {"edited": "approved with changes", "responded": "answered"}


def settled_problem(request: ApprovalRequest) -> str | None:
    """Return that a request is settled, and by whom, or None; it follows the request's name."""
    if request.status == "pending":
        return None
    by, word = request.settled_by, _SETTLED.get(request.status, request.status)
    return f" is already {word}{f' by {by}' if by else ''}."


def _other_than_seen(request: ApprovalRequest, decision: Decision) -> str | None:
    """Return what differs between the request and what the person saw, or None."""
    present = request.seen
    seen = decision.seen or replace(present, arguments=decision.args_digest or present.arguments)
    if decision.args_digest not in {None, present.arguments}:
        seen = replace(seen, arguments=str(decision.args_digest))
    differs = difference(seen, present)
    if differs is None:
        return None
    return f": the decision was made for {differs}. Look at it again and decide again."


def difference(seen: Seen, present: Seen) -> str | None:
    """Return what of a call differs from what a person saw, as the end of a sentence, or None."""
    if seen.call_id != present.call_id:
        return "another call"
    if seen.question not in {None, present.question}:
        return "another question of the conversation"
    if (seen.arguments, seen.shown) != (present.arguments, present.shown):
        return "other arguments than this call's"
    if seen.tool != present.tool:
        return "a tool that has changed or moved since"
    return "a policy that has changed since" if seen.policy != present.policy else None


def _not_allowed(request: ApprovalRequest, decision: Decision) -> str | None:
    allowed = request.terms.allow
    if decision.type == "withdraw":
        return ": a withdrawn vote cannot be remembered." if decision.remember else None
    if decision.type not in allowed:
        return f" cannot be decided with {decision.type!r:.40}, only with {', '.join(allowed)}."
    if decision.remember and (decision.type not in {"approve", "reject"} or request.kind != "tool"):
        return f": a decision of type {decision.type} cannot be remembered for further calls."
    if decision.remember and request.terms.quorum > 1:
        return ": a decision cannot be remembered where several people have to agree."
    return None


def _person_problem_now(
    request: ApprovalRequest, person: Person, sender: Sender, *, force: bool = False
) -> str | None:
    """Return why this person may not decide, or not now."""
    problem = person_problem(request.terms, request.audiences, person, sender)
    if problem:
        return problem
    claim = request.claim
    if claim is None or force or claim.until_ms <= sender.at_ms:
        return None
    if same_person(claim.by, person.subject):
        return None
    return f": {claim.by} is working on it. Claim it with force to take it over."


def _not_taken_over(request: ApprovalRequest, decision: Decision, sender: Sender) -> str | None:
    """Return why an approval does not count where taking the conversation over is the approval."""
    stops = decision.type not in {"approve", "edit"}
    if not request.terms.takeover or stops or sender.holder in {None, decision.by}:
        return None
    return (
        ": who approves this takes the conversation over, so that the user meets a person. Use "
        "`outlast hold`, or hold(), which approves it."
    )


def _not_handed_over(
    request: ApprovalRequest, person: Person, to: str, sender: Sender, *, force: bool
) -> str | None:
    """Return why a claim cannot go to another person."""
    claim = request.claim
    if not force and (claim is None or claim.until_ms <= sender.at_ms):
        return f": {person.subject} has no claim to hand over. Claim it first."
    return recipient_problem(request.terms, request.audiences, to, sender)


def recipient_problem(
    terms: ApprovalTerms, audiences: Sequence[Audience], to: str, sender: Sender
) -> str | None:
    """Return why a person may not be given what needs terms, as the end of a sentence, or None.

    Nobody knows their groups here: where a group may act, they are checked when they act.

    Args:
        terms: the terms.
        audiences: who may act now.
        to: the person.
        sender: the circumstances; who gives it is checked elsewhere.
    """
    if len(to) > LONGEST_NAME:
        return f" needs a name of at most {LONGEST_NAME} characters."
    if terms.audience.exclude_requester and sender.asked(to):
        return f": {to} asked for this, so somebody else has to decide."
    named = [name for one in audiences for name in one.subjects]
    in_group = any(one.groups for one in audiences)
    if named and not in_group and not any(same_person(name, to) for name in named):
        return f": {to} may not do this. It is for {audience_text(audiences)}."
    return None


def _voted_already(request: ApprovalRequest, decision: Decision) -> str | None:
    """Return why a person who has voted may not say this; they may say anything but the same."""
    by = decision.by or ""
    if decision.type == "withdraw":
        voted = by and any(
            same_person(vote.decision.by or "", by) for vote in _not_withdrawn(request)
        )
        return None if voted else f": {by or 'nobody'} has no vote to withdraw."
    votes = (
        one.decision
        for one in request.standing_votes
        if by and same_person(one.decision.by or "", by)
    )
    standing = next(votes, None)
    if standing is None or decision.type not in {"approve", "edit", "respond"}:
        return None
    content = decision.edited_arguments, decision.response
    if decision.type == "approve" or content == (standing.edited_arguments, standing.response):
        return f": {by} has decided already; a different person has to agree."
    return None


def _not_withdrawn(request: ApprovalRequest) -> list[Vote]:
    """Return the votes that nobody has withdrawn, void or not."""
    votes: list[Vote] = []
    for vote in request.votes:
        if vote.decision.type == "withdraw":
            by = vote.decision.by or ""
            votes = [one for one in votes if not same_person(one.decision.by or "", by)]
        else:
            votes.append(vote)
    return votes


def person_problem(
    terms: ApprovalTerms, audiences: Sequence[Audience], person: Person, sender: Sender
) -> str | None:
    """Return why a person may not act under terms, as the end of a sentence, or None.

    Args:
        terms: the terms.
        audiences: who may act now.
        person: who wants to.
        sender: the circumstances.
    """
    by = person.subject
    if not (sender.verified or terms.unverified):
        return (
            " needs proof of who decides. Use the `outlast` command, or a program with an identity "
            "key that the workers trust: what the Temporal UI sends carries a name without proof."
        )
    if max(map(len, (by, *person.groups))) > LONGEST_NAME:
        return f" needs a name, and names of groups, of at most {LONGEST_NAME} characters."
    restricted = any(one.subjects or one.groups for one in audiences)
    excludes = terms.audience.exclude_requester
    if not by and (restricted or excludes or terms.quorum > 1):
        return " needs the name of the person who decides (by=)."
    if excludes and sender.asked(by):
        return f": {by} asked for this, so somebody else has to decide."
    if restricted and not any(_includes(one, person) for one in audiences):
        return f": {by} may not do this. It is for {audience_text(audiences)}."
    return None


def _includes(audience: Audience, person: Person) -> bool:
    groups = {canonical_name(one) for one in person.groups}
    in_group = any(canonical_name(one) in groups for one in audience.groups)
    return in_group or any(same_person(one, person.subject) for one in audience.subjects)


def _does_not_fit(request: ApprovalRequest, decision: Decision) -> str | None:
    """Return the problem with a decision's texts and values, or None."""
    longest = max(len(decision.message or ""), _size(decision.edited_arguments, decision.response))
    if longest > LONGEST_MESSAGE:
        return f": the decision has {longest:,} characters, of at most {LONGEST_MESSAGE:,}."
    if decision.type == "edit":
        if decision.edited_arguments is None:
            return ": an edit needs edited_arguments, all arguments as a JSON object."
        problem = schemas.problem_of(decision.edited_arguments, _schema_of_edit(request, decision))
        return f": the edited arguments do not fit. {problem}" if problem else None
    if decision.type == "respond":
        schema: JsonObject = request.terms.response_schema or {"type": "string", "minLength": 1}
        problem = schemas.problem_of(decision.response, schema)
        return f": the response does not fit. {problem}" if problem else None
    return None


def _schema_of_edit(request: ApprovalRequest, decision: Decision) -> JsonObject:
    """Return the schema of an edit, which accepts `REDACTED` for a value that stays."""
    schema, edited = request.schema or {}, decision.edited_arguments or {}
    kept = {name: True for name in request.terms.redact if edited.get(name) == REDACTED}
    properties = cast("JsonObject", schema.get("properties") or {})
    return {**schema, "properties": {**properties, **kept}}


def _size(*values: Json) -> int:
    return max(0 if value is None else len(json.dumps(value)) for value in values)


def audience_text(audiences: Sequence[Audience]) -> str:
    """Return who may decide, for people to read; empty for everybody."""
    people = [name for one in audiences for name in one.subjects]
    groups = [f"the group {name}" for one in audiences for name in one.groups]
    return " or ".join(dict.fromkeys([*people, *groups]))


# --- What a decision does ------------------------------------------------------------------------


def voted(
    request: ApprovalRequest, decision: Decision, sender: Sender, arguments: str
) -> ApprovalRequest:
    """Return a request after an accepted decision; it is settled once enough people agree.

    What runs the call, or answers in the model's place, needs the quorum, for the very same
    arguments or text: an edit makes all earlier votes void. What does not run it needs one person.
    Who withdraws the edit that holds gives the call its own arguments back.

    Args:
        request: the request.
        decision: the decision, which `refusal` has accepted.
        sender: its circumstances.
        arguments: all arguments of the call, as the model wrote them.
    """
    answers = decision.type == "respond" and request.kind == "output"
    wanted_answer: JsonObject = {"answer": decision.response}
    if decision.type == "edit" or (answers and request.terms.quorum > 1):
        changed = wanted_answer if answers else decision.edited_arguments or {}
        wanted = with_redacted(changed, request.edited or arguments)
        edited = json.dumps(wanted, ensure_ascii=False)
        request = replace(
            request,
            edited=edited,
            arguments=reviewed(edited, request.terms.redact),
            args_digest=digest(edited),
        )
    withdraws, by = decision.type == "withdraw", canonical_name(decision.by or "")
    if withdraws and request.edited is not None and last_editor(request) == by:
        request = replace(
            request,
            edited=None,
            arguments=reviewed(arguments, request.terms.redact),
            args_digest=digest(arguments),
        )
    vote = Vote(
        decision=decision,
        at_ms=sender.at_ms,
        verified=sender.verified,
        args_digest=request.args_digest,
    )
    request = replace(request, votes=(*request.votes, vote))
    if withdraws:
        return request
    runs = answers or decision.type in {"approve", "edit"}
    if runs and len(request.standing_votes) < request.terms.quorum:
        return replace(request, claim=None)  # the next vote is somebody else's
    edits = runs and not answers and request.edited is not None
    status = "edited" if edits else _SETTLES[decision.type]
    return replace(request, status=status, decision=decision, decided_at_ms=sender.at_ms)


def last_editor(request: ApprovalRequest) -> str | None:
    """Return the canonical name of whoever made the newest edit of a request."""
    edits = (one.decision.by for one in reversed(request.votes) if one.decision.type == "edit")
    by = next(edits, None)
    return None if by is None else canonical_name(by)


def claimed(request: ApprovalRequest, by: str, minutes: int, at_ms: int) -> ApprovalRequest:
    """Return a request that a person works on for some minutes; for 0, that nobody works on."""
    until_ms = at_ms + min(minutes, LONGEST_CLAIM_MINUTES) * 60_000
    claim = Claim(by=by, until_ms=until_ms) if minutes > 0 else None
    return replace(request, claim=claim)


# --- What time does ------------------------------------------------------------------------------


def next_due_ms(request: ApprovalRequest) -> int | None:
    """Return when time next changes a pending request; None for never, and in a pause."""
    if request.paused_at_ms is not None:
        return None
    return _earliest(deadline_ms(request), request.remind_at_ms)


def deadline_ms(request: ApprovalRequest) -> int | None:
    """Return when a pending request expires or goes to further people; None as `next_due_ms`."""
    if request.paused_at_ms is not None:
        return None
    return _earliest(request.expires_at_ms, _escalates_at(request))


def _earliest(*times: int | None) -> int | None:
    return min((one for one in times if one is not None), default=None)


def _escalates_at(request: ApprovalRequest) -> int | None:
    steps = request.terms.escalations[request.escalated :]
    return request.counts_from_ms + steps[0].after_ms if steps else None


def paused(request: ApprovalRequest, at_ms: int) -> ApprovalRequest:
    """Return a request for which no time passes, until `resumed`."""
    return replace(request, paused_at_ms=at_ms) if request.status == "pending" else request


def resumed(request: ApprovalRequest, at_ms: int) -> ApprovalRequest:
    """Return a request for which time passes again; all its times are later by the pause."""
    if request.status != "pending" or request.paused_at_ms is None:
        return request
    pause = max(at_ms - request.paused_at_ms, 0)
    expires, remind = request.expires_at_ms, request.remind_at_ms
    return replace(
        request,
        paused_at_ms=None,
        paused_ms=request.paused_ms + pause,
        expires_at_ms=None if expires is None else expires + pause,
        remind_at_ms=None if remind is None else remind + pause,
    )


def aged(request: ApprovalRequest, at_ms: int) -> ApprovalRequest:
    """Return a pending request after everything that is due by a time.

    Several reminders that are due at once are one. A request that expires, and is to escalate,
    takes its next step and gets the same time again; when no step is left, it is rejected. What
    `expired` requests mean for the run is not decided here.
    """
    if request.status != "pending" or request.paused_at_ms is not None:
        return request
    while (at := _escalates_at(request)) is not None and at <= at_ms:
        request = replace(request, escalated=request.escalated + 1)
    if request.expires_at_ms is not None and request.expires_at_ms <= at_ms:
        lasts = request.terms.expires_in_ms
        is_last = request.escalated >= len(request.terms.escalations)
        if request.terms.on_expiry != "escalate" or is_last or lasts is None:
            status = "approved" if request.terms.on_expiry == "approve" else "expired"
            return replace(request, status=status, decided_at_ms=at_ms, remind_at_ms=None)
        later = at_ms + max(lasts, 1)
        request = replace(request, escalated=request.escalated + 1, expires_at_ms=later)
    if request.remind_at_ms is not None and request.remind_at_ms <= at_ms:
        every = max(request.terms.remind_every_ms or 0, SHORTEST_REMINDER_MS)
        missed = (at_ms - request.remind_at_ms) // every + 1
        return replace(
            request,
            reminders=request.reminders + 1,
            remind_at_ms=request.remind_at_ms + missed * every,
        )
    return request
