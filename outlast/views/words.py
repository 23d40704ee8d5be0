"""Words for people about requests, votes and items, the same on every surface.

Words may change in any release; what decides something is elsewhere.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, cast

from outlast.edges.rendering import call_line, exact, joined, named
from outlast.loop.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    ApprovalTerms,
    OnExpiry,
    RequestKind,
    VoteType,
)
from outlast.loop.aside import is_text, part_words
from outlast.loop.values import Json, JsonObject
from outlast.loop.votes import aged, audience_text, deadline_ms

ON_EXPIRY: Final[dict[OnExpiry, str]] = {
    "reject": "then it is rejected",
    "approve": "then it is approved without a decision",
    "escalate": "then further people may decide",
    "fail": "then the question fails",
}
"""What happens when nobody has decided in time."""

STATUS: Final[dict[ApprovalStatus, str]] = {
    "pending": "waits",
    "approved": "approved",
    "edited": "approved with changes",
    "rejected": "rejected",
    "responded": "answered by a person",
    "expired": "expired",
    "cancelled": "not needed any more",
    "superseded": "not needed any more",
}
"""What has become of a request, in a word or a few."""

VOTED: Final[dict[VoteType, str]] = {
    "approve": "approved",
    "edit": "changed the arguments",
    "reject": "rejected",
    "respond": "answered",
    "withdraw": "withdrew their votes",
}
"""What somebody did, after their name."""

_THEN: Final[dict[ApprovalStatus, dict[RequestKind, str]]] = {
    "approved": {
        "tool": "The call runs.",
        "handoff": "The handoff goes on.",
        "output": "The user gets the answer.",
        "budget": "The run goes on.",
        "worker": "It waits on.",
    },
    "edited": {
        "tool": "The call runs with the changed arguments.",
        "handoff": "The handoff goes on with the changed arguments.",
        "output": "The user gets the changed answer.",
        "budget": "The run goes on with the changed budget.",
        "worker": "It waits on.",
    },
    "rejected": {
        "tool": "The call does not run; the model reads why.",
        "handoff": "The handoff does not happen; the model reads why.",
        "output": "The user does not get the answer; the model writes another one.",
        "budget": "The run does not go on with this question.",
        "worker": "The run goes on without it; the model reads why it was not carried out.",
    },
    "responded": {
        "tool": "The call does not run; the model reads the answer as its output.",
        "handoff": "The handoff does not happen; the model reads the answer.",
        "output": "The user gets the answer that the person wrote.",
        "budget": "The run goes on.",
        "worker": "It waits on.",
    },
    "expired": {},
    "cancelled": {},
    "superseded": {},
}
"""What happens after a request was settled, by its status and kind."""

QUEUED: Final = "The call runs when calls before it have ended."
"""What happens after an approval while the run has as many calls under way as it may have."""

_UNITS: Final = {"seconds": "s"}

KEPT: Final = (
    "Nothing works on this run now, so the server keeps your decision. The run takes it, or refuses "
    "it, when its worker or program starts again."
)
"""What people read of a decision that the server keeps."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When something happens to a request that nobody decides, and what.

    Attributes:
        at_ms: the time, in milliseconds since the epoch.
        then: what happens then, in words.
    """

    at_ms: int
    then: str


def deadlines(request: ApprovalRequest) -> tuple[Deadline, ...]:
    """Return what time does to a pending request, soonest first; nothing in a pause.

    Further people are the next ones alone: who follows them is known when it is their turn.
    """
    if request.status != "pending" or request.paused_at_ms is not None:
        return ()
    found: list[Deadline] = []
    for step in request.terms.escalations[request.escalated :][:1]:
        whom = named(audience_text((step.audience,)) or "anybody")
        at_ms = request.counts_from_ms + step.after_ms
        found.append(Deadline(at_ms, joined("then ", whom, " may decide, too")))
    if (at_ms := request.expires_at_ms) is not None:
        found.append(Deadline(at_ms, ON_EXPIRY[request.terms.on_expiry]))
    return tuple(sorted(found, key=lambda one: one.at_ms))


def others_needed(request: ApprovalRequest, missing: int) -> str:
    """Return who has to agree yet."""
    audiences = request.audiences
    people = "another person" if missing == 1 else f"{missing} other people"
    subjects = dict.fromkeys(named(name) for one in audiences for name in one.subjects)
    groups = dict.fromkeys(named(name) for one in audiences for name in one.groups)
    if not (subjects or groups):
        return people
    if not subjects:
        return f"{people} of {' or '.join(groups)}"
    return f"{people}: {' or '.join([*subjects, *(f'somebody of {one}' for one in groups)])}"


def then(request: ApprovalRequest, status: ApprovalStatus, *, is_queued: bool = False) -> str:
    """Return what happens now that a request has a status, as a sentence; empty for nothing.

    Args:
        request: the request.
        status: its status, as the run said when it took the decision.
        is_queued: whether other calls go first, as the run's limit of calls at once has it.
    """
    if is_queued and status in {"approved", "edited"}:
        return QUEUED
    return _THEN.get(status, {}).get(request.kind, "")


def changed(request_id: str) -> str:
    """Return why a decision about something else than the present request is refused."""
    return (
        f"Approval {request_id} is no longer what you have seen: its arguments, its tool or its "
        "policy have changed. Look at it again and decide again."
    )


def asked_again(
    request: ApprovalRequest, requests: Iterable[ApprovalRequest]
) -> ApprovalRequest | None:
    """Return the later request about the call that this one had settled; None if there is none.

    A worker asks again where the decision does not count for the call as it is now: its policy, its
    tool or the keys have changed since, as after a redeployment.

    Args:
        request: a request that is settled.
        requests: those of its run, in order.
    """
    if request.status not in {"approved", "edited"}:
        return None
    later = [
        one
        for one in requests
        if (one.call_id, one.kind, one.wait) == (request.call_id, request.kind, request.wait)
        and one.id != request.id
    ]
    newer = [one for one in later if one.requested_at_ms >= (request.decided_at_ms or 0)]
    return newer[-1] if newer else None


def void_words(again: ApprovalRequest) -> str:
    """Return why a decision does not count any more, and where people decide anew."""
    why = f" {again.reason}" if again.reason else ""
    return f"The decision does not count any more, and the call has not run.{why} It is asked again as {again.id}."


def course(terms: ApprovalTerms) -> str:
    """Return what becomes of a request under terms that nobody decides.

    For example `leads too after 4h, rejected after 12h`, or `rejected after 8h of support-hours`.
    """
    within, hours = "", terms.hours
    if hours is not None:
        within = joined(" of ", named(hours.within))
        steps_ms = zip(terms.escalations, hours.open.escalations_ms, strict=False)
        escalations = tuple(replace(step, after_ms=after_ms) for step, after_ms in steps_ms)
        terms = replace(
            terms, expires_in_ms=hours.open.expires_in_ms, escalations=escalations, hours=None
        )
    request = ApprovalRequest(
        id="",
        call_id="",
        name="",
        agent="",
        arguments="",
        args_digest="",
        terms=terms,
        requested_at_ms=0,
        expires_at_ms=terms.expires_in_ms,
    )
    steps: list[str] = []
    while request.status == "pending" and (at_ms := deadline_ms(request)) is not None:
        after, taken = f"{exact(timedelta(milliseconds=at_ms))}{within}", request.escalated
        request = aged(request, at_ms)
        joining = terms.escalations[taken : request.escalated]
        steps += [f"{audience_text((one.audience,))} too after {after}" for one in joining]
        if request.status != "pending":
            word = "the question fails" if terms.on_expiry == "fail" else _ENDS[request.status]
            steps.append(f"{word} after {after}")
    if request.status == "pending":
        steps.append("waits until somebody decides")
    return ", ".join(steps)


_ENDS: Final = {"approved": "approved", "expired": "rejected"}


def who_may_decide(request: ApprovalRequest, *, at_desk: bool = False) -> str:
    """Return who may decide a request now, with its conditions.

    Args:
        request: the request.
        at_desk: whether the reader has logged in, so that a proof is no condition.
    """
    who = named(audience_text(request.audiences) or "anybody")
    if request.terms.audience.exclude_requester:
        who = joined(who, ", but not who asked for it")
    if not (request.terms.unverified or at_desk):
        who = joined(who, ", with proof of who they are")
    return who


_AT_DESK: Final = (
    (r"^(Approval \S+: )?.{1,300}? may not do this\. It is for", "It is for"),
    (r"Approval \S+: ", ""),
    (r"Approval \S+ ", "This request "),
    (r"Claim it with force to take it over\.", "Take it from them, or wait."),
    (r" Use the `outlast` command, or a program .*", " Ask whoever runs this desk for a key."),
    (r" Use `outlast hold`, or hold\(\), which approves it\.", ""),
    (r"It is asked again as \S+\.", "People are asked again."),
    (r"cannot be decided with '(\w+)', only with [a-z, ]+\.", r"cannot be decided so (\1)."),
)


def at_desk(sentence: str) -> str:
    """Return why something is not done for people at a desk: without ids, commands and options."""
    for pattern, words in _AT_DESK:
        sentence = re.sub(pattern, words, sentence, flags=re.DOTALL)
    return sentence


EFFECT: Final[dict[str, str]] = {
    "read": "changes nothing",
    "reversible": "can be undone",
    "external_reversible": "can be undone elsewhere",
    "irreversible": "cannot be undone",
}
"""What a call changes, for people at a desk."""


def request_line(request: ApprovalRequest) -> str:
    """Return what waits: a call as a line of code, or a budget in words."""
    budget = budget_line(request.arguments) if request.kind == "budget" else None
    return budget or call_line(request.name, request.arguments)


def budget_line(arguments: str) -> str | None:
    """Return a used-up budget in words, such as `$0.30 of $0.25 per run used; $0.25 more`.

    Args:
        arguments: the arguments of its request. None is returned for any others.
    """
    try:
        fields: Json = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    found = cast("JsonObject", fields)
    of, per = found.get("of"), found.get("per")
    amounts = [found.get(name) for name in ("spent", "limit", "extend_by")]
    if not (isinstance(of, str) and isinstance(per, str)):
        return None
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in amounts):
        return None
    used, limit, more = (amount_text(of, cast("int", one)) for one in amounts)
    nested = found.get("spent_by_nested_runs")
    part = f", {amount_text(of, nested)} of it in nested runs" if isinstance(nested, int) else ""
    return f"{used} of {limit} per {per} used{part}; {more} more"


def amount_text(of: str, amount: int) -> str:
    """Return an amount of a budget with its unit; `of` is what the budget counts."""
    if of == "cost_micros":
        dollars = f"{amount / 1_000_000:,.6f}".rstrip("0")
        whole, _, cents = dollars.partition(".")
        return f"${whole}.{cents:0<2}"
    return f"{amount:,} {_UNITS.get(of, of.replace('_', ' '))}"


def with_parts(text: str, content: Json) -> str:
    """Return the text of an item with the parts of its content that are no text, by their numbers.

    Args:
        text: the text of the item.
        content: its content, or the output of a call.
    """
    listed = cast("list[Json]", content) if isinstance(content, list) else []
    parts = (f"[part {at}: {part_words(one)}]" for at, one in enumerate(listed) if not is_text(one))
    return " ".join([*([text] if text else []), *parts])
