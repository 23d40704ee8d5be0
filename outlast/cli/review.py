"""What a person reads before deciding: a request, its rules, and the model's own words.

The words of the model come last and are marked: they may deceive, the arguments do not.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from outlast import rendering
from outlast.cli import terminal
from outlast.cli.durations import rough, shown_time
from outlast.cli.view import WHO_WIDTH, say_facts
from outlast.clock import now_ms
from outlast.loop.approvals import (
    ALL_DECISIONS,
    ApprovalRequest,
    DecisionType,
    RequestKind,
    Vote,
)
from outlast.loop.state import LoopState
from outlast.rendering import counted, joined, named
from outlast.views.proofs import NO_PROOFS, PROOF_WORDS, Proof
from outlast.views.words import VOTED, budget_line, deadlines, who_may_decide

LONGEST_ARGUMENTS = 20_000
"""The maximum number of characters of a call's arguments in an approval request."""

LONGEST_WORDS = 600
"""The maximum number of characters of the model's own words."""

MOST_LINES = 12
"""The maximum number of lines of the model's own words."""

SHOWN_WAIT = timedelta(minutes=1)
"""A request that has waited less is shown without its wait."""

_BAR: Final = ("│", "dim")
COMMANDS: Final[dict[DecisionType, tuple[str, str]]] = {
    "approve": ("approve", ""),
    "reject": ("reject", '--message "..."'),
    "edit": ("inbox edit", "--arguments '{...}'"),
    "respond": ("inbox respond", '--text "..."'),
}


def show_approval(
    console: terminal.Screen,
    request: ApprovalRequest,
    run_id: str,
    words: str = "",
    proofs: Sequence[Proof] = (),
) -> None:
    """Print an approval request with the details needed for a decision.

    Args:
        console: where it is printed.
        request: the request, as people may see it.
        run_id: the run that made it.
        words: the model's own words about it.
        proofs: whether each of its votes is proven to a reader with keys; none where nobody has any.
    """
    say_facts(console, [_headline(request)])
    spent = budget_line(request.arguments) if request.kind == "budget" else None
    if spent is None:
        say_arguments(console, request.arguments, run_id)
    else:
        say_facts(console, [("spent", spent)])
    say_facts(console, _facts(request, now_ms(), proofs))
    if words:
        _say_words(console, words)


def show_how_to_decide(
    console: terminal.Screen,
    run_id: str,
    requests: Iterable[ApprovalRequest],
    words: Mapping[str, str] | None = None,
    proofs: Mapping[str, Sequence[Proof]] | None = None,
) -> None:
    """Print a run's pending requests, and the commands to decide them; see `show_approval`."""
    for request in requests:
        terminal.say(console, (joined(run_id, " waits for a person:"), "bold yellow"))
        said, proven = (words or {}).get(request.id, ""), (proofs or {}).get(request.id, ())
        show_approval(console, request, run_id, said, proven)
        for kind in _shown_decisions(request):
            if kind == "approve" and request.terms.takeover:
                terminal.say(console, "  ", rendering.command("hold", run_id))
                continue
            verb, option = COMMANDS[kind]
            line = rendering.decision_command(
                verb, run_id, request.id, request.digest, options=option
            )
            terminal.say(console, "  ", line)


def _shown_decisions(request: ApprovalRequest) -> Iterator[DecisionType]:
    allowed = request.terms.allow
    is_free = {"approve", "reject"} <= set(allowed)
    return (kind for kind in COMMANDS if kind in ({"approve", "reject"} if is_free else allowed))


# --- The model's own words ------------------------------------------------------------------------


def _say_words(console: terminal.Screen, words: str) -> None:
    lines = rendering.visible_lines(rendering.cut(words, LONGEST_WORDS))
    if len(lines) > MOST_LINES:
        left = rendering.visible(f"… (cut: {MOST_LINES} of {len(lines):,} lines)")
        lines = [*lines[:MOST_LINES], left]
    for at, line in enumerate(lines):
        label = ("  model says" if at == 0 else "", "dim")
        terminal.say_columns(console, label, ("┊", "dim"), line, widths=[WHO_WIDTH + 2, 1])
    note = "the model's own words, which nobody has checked: decide by the arguments"
    say_facts(console, [("", joined("↑ ", note))])


# --- The request -----------------------------------------------------------------------------------


def _headline(request: ApprovalRequest) -> tuple[str, str]:
    name = joined(named(request.name), f" ({request.id})")
    headlines: dict[RequestKind, tuple[str, str]] = {
        "tool": ("call", name),
        "handoff": ("handoff", name),
        "output": ("answer", joined("not sent to the user yet", f" ({request.id})")),
        "budget": ("budget", joined("used up", f" ({request.id})")),
        "worker": ("no worker", name),
    }
    return headlines[request.kind]


def _facts(
    request: ApprovalRequest, now_ms: int, proofs: Sequence[Proof]
) -> Iterator[tuple[str, str]]:
    terms = request.terms
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
        proven = proofs or NO_PROOFS.of_votes(request, LoopState())
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
    claim = request.claim
    if claim is not None and claim.until_ms > now_ms:
        until = shown_time(claim.until_ms)
        yield "claimed", joined(named(claim.by), f" works on it until {until}")
    waited = timedelta(milliseconds=now_ms - request.requested_at_ms)
    if waited >= SHOWN_WAIT:
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


def say_arguments(
    console: terminal.Screen, arguments: str, run_id: str, label: str = "arguments"
) -> None:
    """Print arguments, with a bar before each line that is not wrapped."""
    whole = len(arguments) <= LONGEST_ARGUMENTS
    lines = rendering.argument_lines(arguments) if whole else None
    if lines is None:
        label = "text" if whole else "beginning"
        lines = rendering.visible_lines(arguments[:LONGEST_ARGUMENTS])
    for at, line in enumerate(lines):
        name = (f"  {label}" if at == 0 else "", "dim")
        terminal.say_columns(console, name, _BAR, line, widths=[WHO_WIDTH + 2, 1])
    for key in rendering.repeated_keys(arguments):
        note = f"the key {json.dumps(key)} is repeated; tools usually take its last value"
        say_facts(console, [("careful", note)])
    if not whole:
        remark = rendering.remark(LONGEST_ARGUMENTS, len(arguments))
        command = rendering.command("show", run_id, options="--json")
        say_facts(console, [("careful", joined(remark, " All of them: `", command, "`"))])
