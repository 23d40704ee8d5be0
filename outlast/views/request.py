"""A request for a person's decision as labeled rows, the same wherever it is read before deciding."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from outlast.edges.rendering import counted, joined, named, rough, shown_time
from outlast.loop.approvals import ALL_DECISIONS, ApprovalRequest, RequestKind, Vote
from outlast.views.headlines import has_headline, headline_line
from outlast.views.proofs import NO_PROOFS, PROOF_WORDS, Proof
from outlast.views.run import RunSnapshot
from outlast.views.words import VOTED, deadlines, who_may_decide

_SHOWN_WAIT: Final = timedelta(minutes=1)
"""A request that has waited less is shown without its wait."""


def headline(request: ApprovalRequest) -> tuple[str, str]:
    """Return what waits for a person, as a label and a text."""
    name = joined(named(request.name), f" ({request.id})")
    headlines: dict[RequestKind, tuple[str, str]] = {
        "tool": ("call", name),
        "handoff": ("handoff", name),
        "output": ("answer", joined("not sent to the user yet", f" ({request.id})")),
        "budget": ("budget", joined("used up", f" ({request.id})")),
        "worker": ("no worker", name),
    }
    return headlines[request.kind]


def facts(
    request: ApprovalRequest, now_ms: int, proofs: Sequence[Proof] = ()
) -> Iterator[tuple[str, str]]:
    """Yield what people read before they decide, besides the arguments: labels and texts.

    Args:
        request: the request, as its reader may see it.
        now_ms: the time, in milliseconds since the epoch.
        proofs: whether each of its votes is proven to the reader; none where nobody has keys.
    """
    terms = request.terms
    if has_headline(request):
        yield "asks", headline_line(request)
    if request.status != "pending":
        by = joined(" by ", named(request.settled_by)) if request.settled_by else ""
        yield "status", joined(request.status, by)
    if request.edited is not None:
        yield "changed", "a person has changed the arguments of the model"
    if terms.redact:
        yield "hidden", f"{', '.join(terms.redact)}: reviewers do not see the values"
    if request.kind in {"tool", "handoff"}:
        yield "effect", terms.effect or "not declared"
    yield "risk", terms.risk
    yield "agents", named(" → ".join(request.handoff_path) or request.agent)
    yield "for", who_may_decide(request)
    if terms.quorum > 1 or request.votes:
        standing = f"{len(request.standing_votes)} of {terms.quorum}"
        people = "" if terms.quorum == 1 else ", each by another person"
        yield "votes", f"{standing}{people}"
        proven = proofs or NO_PROOFS.of_votes(request, RunSnapshot())
        for vote, proof in zip(request.votes, proven, strict=True):
            yield "", _vote(vote, proof, request)
    if request.status == "pending":
        yield from _times(request, now_ms)
    if set(terms.allow) != set(ALL_DECISIONS):
        yield "decisions", ", ".join(terms.allow)
    if terms.policy:
        yield "policy", terms.policy
    if request.reason:
        yield "why", request.reason


def _vote(vote: Vote, proof: Proof, request: ApprovalRequest) -> str:
    decision = vote.decision
    stands = vote in request.standing_votes
    earlier = vote.args_digest != request.args_digest
    void = "; void: for earlier arguments" if earlier else "; withdrawn" if not stands else ""
    void = "" if decision.type == "withdraw" else void
    who, when = decision.by or "somebody", shown_time(vote.at_ms)
    return joined(named(who), f" ({PROOF_WORDS[proof]}) {VOTED[decision.type]} at {when}{void}")


def _times(request: ApprovalRequest, now_ms: int) -> Iterator[tuple[str, str]]:
    hours = request.terms.hours
    if hours is not None:
        yield "hours", joined("its times count the hours of ", named(hours.within), " only")
    claim = request.claim
    if claim is not None and claim.until_ms > now_ms:
        until = shown_time(claim.until_ms)
        yield "claimed", joined(named(claim.by), f" works on it until {until}")
    waited = timedelta(milliseconds=now_ms - request.requested_at_ms)
    if waited >= _SHOWN_WAIT:
        yield "waiting", f"{rough(waited)}, since {shown_time(request.requested_at_ms)}"
    if request.reminders:
        yield "reminded", counted(request.reminders, "time")
    if request.paused_at_ms is not None:
        yield "paused", "no time passes while a person has the conversation"
        return
    for one in deadlines(request):
        yield "due", joined(_until(one.at_ms, now_ms), ", ", one.then)


def _until(at_ms: int, now_ms: int) -> str:
    return f"in {rough(timedelta(milliseconds=at_ms - now_ms))}, at {shown_time(at_ms)}"
