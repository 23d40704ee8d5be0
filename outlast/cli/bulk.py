"""`outlast inbox approve-all` and `reject-all`: many requests, after a list of what will happen."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from outlast.agents.errors import DecisionRefused
from outlast.cli import options, terminal
from outlast.cli.caller import By, Caller, on_server, sender
from outlast.cli.consent import Consent
from outlast.cli.exit_codes import ExitCode
from outlast.edges.clock import now_ms
from outlast.edges.rendering import DIGEST_SHOWN, command, counted, excerpt
from outlast.views.acts import request_problem
from outlast.views.records import JsonObject
from outlast.views.words import KEPT, request_line

if TYPE_CHECKING:
    from outlast.client.inbox import BulkOutcome, BulkStep
    from outlast.views.records import Person

Kind: TypeAlias = Literal["approve", "reject"]

LONGEST_CALL = 2_000
"""How many characters of a call are shown; a longer one needs a decision of its own."""

_DONE: dict[Kind, str] = {"approve": "approved", "reject": "rejected"}
_COLUMNS: tuple[terminal.Column[terminal.Row], ...] = (
    terminal.Column("RUN", folds=True),
    terminal.Column("REQUEST"),
    terminal.Column("WHAT", folds=True),
    terminal.Column("THEN", folds=True),
)


@on_server
async def approve_all(
    caller: Caller,
    group: options.Group = None,
    limit: options.Limit = 50,
    *,
    consent: Consent,
    by: By = None,
) -> ExitCode:
    """Approve what you may decide and its policies allow to be decided together (`bulk = true`).

    Shows what will happen to each request, and asks. A script names the list that somebody has seen
    instead, with --digest, and adds --yes.
    """
    return await _decide(caller, "approve", None, group, limit, consent, sender(by))


@on_server
async def reject_all(
    caller: Caller,
    message: str | None = None,
    group: options.Group = None,
    limit: options.Limit = 50,
    *,
    consent: Consent,
    by: By = None,
) -> ExitCode:
    """Reject what you may decide and its policies allow to be decided together (`bulk = true`).

    Command line:
        message (--message -m): The reason, for the models to read.
    """
    return await _decide(caller, "reject", message, group, limit, consent, sender(by))


async def _decide(
    caller: Caller,
    kind: Kind,
    message: str | None,
    group: str | None,
    limit: int,
    consent: Consent,
    person: "Person",
) -> ExitCode:
    from outlast.client.inbox import Inbox

    box = Inbox((await caller.connect()).client)
    async with terminal.waiting(terminal.err(), "reading the inbox"):
        entries = await box.urgent(group=group, mine=person, limit=limit)
        plan = [_checked(step, kind, person) for step in await box.plan_bulk(entries)]
    due = [step for step in plan if step.problem is None]
    if plan and not (caller.as_json and consent.yes):
        rows = [_cells(step, f"is {_DONE[kind]}") for step in plan]
        terminal.say_table(terminal.err(), _COLUMNS, rows)
    if not due:
        terminal.say(terminal.err(), "Nothing can be decided together.")
        return ExitCode.OK
    seen = _digest_of(due)
    if not consent.covers(seen):
        raise DecisionRefused("The list is another one than you have seen. Look again.")
    script = command(f"inbox {kind}-all", options=f"--yes --digest {seen[:DIGEST_SHOWN]}")
    consent.require(f"{kind.capitalize()} {counted(len(due), 'request')}?", script)
    outcomes = await box.decide_all(due, kind, by=person, message=message)
    refused = [one for one in outcomes if one.refused is not None]
    if caller.as_json:
        terminal.print_json([_record(one) for one in outcomes])
    else:
        taken = [one for one in outcomes if one.receipt is not None and not one.receipt.is_kept]
        settled = [one for one in taken if one.receipt and one.receipt.status != "pending"]
        terminal.say(terminal.out(), f"You {_DONE[kind]} {counted(len(settled), 'request')}.")
        if waiting := len(taken) - len(settled):
            line = (
                f"Your vote counts for {counted(waiting, 'request')}: further people have to agree."
            )
            terminal.say(terminal.out(), line)
        for one in refused:
            terminal.say(terminal.err(), f"{one.run_id} {one.request_id}: {one.refused}")
        for one in outcomes:
            if one.receipt is not None and one.receipt.is_kept:
                terminal.say(terminal.err(), f"{one.run_id} {one.request_id}: {KEPT}")
    return ExitCode.REFUSED if refused else ExitCode.OK


def _checked(step: "BulkStep", kind: Kind, person: "Person") -> "BulkStep":
    """Return a step that is left out if the person may not decide it, or cannot see it whole."""
    request = step.request
    if step.problem is not None or request is None:
        return step
    problem = request_problem(None, request, person, now_ms())
    if problem is None and kind not in request.terms.allow:
        problem = f"It cannot be decided with {kind}."
    if problem is None and len(request_line(step.shown or request)) > LONGEST_CALL:
        problem = "It is too long to show, so it needs a decision of its own."
    return replace(step, problem=problem)


def _cells(step: "BulkStep", then: str) -> terminal.Row:
    request = step.request
    return [
        step.entry.run_id,
        request.id if request else "",
        excerpt(request_line(step.shown), LONGEST_CALL) if step.shown else "",
        (then, "bold") if step.problem is None else f"stays: {step.problem}",
    ]


def _digest_of(steps: "Sequence[BulkStep]") -> str:
    lines = sorted(
        f"{step.entry.run_id} {step.request.id} {step.request.digest}"
        for step in steps
        if step.request is not None
    )
    return hashlib.sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


def _record(one: "BulkOutcome") -> JsonObject:
    receipt = one.receipt
    return {
        "run_id": one.run_id,
        "approval": one.request_id,
        "status": receipt and receipt.status,
        "votes": receipt and receipt.votes,
        "votes_needed": receipt and receipt.votes_needed,
        "is_kept": receipt and receipt.is_kept,
        "refused": one.refused,
    }
