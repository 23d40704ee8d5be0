"""`outlast inbox approve-all` and `reject-all`: many requests, after a list of what will happen."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from outlast.agents.errors import DecisionRefused, UserError
from outlast.cli import options, server, terminal
from outlast.cli.decide import SHORTEST_DIGEST
from outlast.cli.exit_codes import ExitCode
from outlast.cli.sender import By, sender
from outlast.contract.wording import request_line
from outlast.loop.values import JsonObject
from outlast.rendering import DIGEST_SHOWN, command, counted, excerpt

if TYPE_CHECKING:
    from outlast.client.inbox import BulkOutcome, BulkStep
    from outlast.loop.approvals import Person

LONGEST_CALL = 2_000
"""How many characters of a call are shown; a longer one needs a decision of its own."""

Group: TypeAlias = Annotated[
    str | None, typer.Option("--group", help="Only what this group or person decides.")
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", min=1, max=1000, help="How many runs, the most urgent first.")
]
Yes: TypeAlias = Annotated[
    bool, typer.Option("--yes", "-y", help="Decide without a question; needs --digest.")
]
Digest: TypeAlias = Annotated[
    str | None,
    typer.Option("--digest", help="The digest of the list that you have seen, or its beginning."),
]

_COLUMNS = (
    terminal.Column(name="RUN", folds=True),
    terminal.Column(name="REQUEST"),
    terminal.Column(name="WHAT", folds=True),
    terminal.Column(name="THEN", folds=True),
)


def approve_all(
    group: Group = None,
    limit: Limit = 50,
    yes: Yes = False,
    digest: Digest = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Approve what you may decide and its policies allow to be decided together (`bulk = true`).

    Shows what will happen to each request, and asks. A script names the list that somebody has seen
    instead, with --digest, and adds --yes.
    """
    run = _Bulk("approve", None, sender(by), yes=yes, digest=digest, as_json=as_json)
    asyncio.run(run.decide(group, limit, address, namespace))


def reject_all(
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The reason, for the models to read.")
    ] = None,
    group: Group = None,
    limit: Limit = 50,
    yes: Yes = False,
    digest: Digest = None,
    by: By = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """Reject what you may decide and its policies allow to be decided together (`bulk = true`)."""
    run = _Bulk("reject", message, sender(by), yes=yes, digest=digest, as_json=as_json)
    asyncio.run(run.decide(group, limit, address, namespace))


class _Bulk:
    """One bulk decision of a person."""

    def __init__(
        self,
        kind: Literal["approve", "reject"],
        message: str | None,
        person: "Person",
        *,
        yes: bool,
        digest: str | None,
        as_json: bool,
    ) -> None:
        if yes and digest is None:
            raise UserError("--yes decides without a question, so add the --digest of the list.")
        if digest is not None and len(digest) < SHORTEST_DIGEST:
            raise UserError(f"--digest {digest!r:.80} needs at least {SHORTEST_DIGEST} characters.")
        self._kind: Literal["approve", "reject"] = kind
        self._message = message
        self._person = person
        self._yes = yes
        self._digest = digest
        self._as_json = as_json

    async def decide(
        self, group: str | None, limit: int, address: str | None, namespace: str | None
    ) -> None:
        """List what will happen, ask, and decide.

        Raises:
            DecisionRefused: the list is another one than the person has seen.
            typer.Exit: the person does not say yes, or a request was refused.
        """
        from outlast.client.inbox import Inbox

        box = Inbox((await server.connect(address, namespace)).client)
        async with terminal.waiting(terminal.err(), "reading the inbox"):
            entries = await box.urgent(group=group, mine=self._person, limit=limit)
            plan = [self._checked(step) for step in await box.plan_bulk(entries)]
        due = [step for step in plan if step.problem is None]
        seen = _digest_of(due)
        if not self._as_json or not self._yes:
            self._show(plan)
        if not due:
            terminal.say(terminal.err(), "Nothing can be decided together.")
            return
        if self._digest is not None and not seen.startswith(self._digest):
            raise DecisionRefused("The list is another one than you have seen. Look again.")
        if not self._says_yes(len(due), seen):
            terminal.say(terminal.err(), "Nothing was decided.")
            raise typer.Exit(ExitCode.FAILED)
        outcomes = await box.decide_all(due, self._kind, by=self._person, message=self._message)
        self._report(outcomes)

    def _checked(self, step: "BulkStep") -> "BulkStep":
        """Return a step that is left out if the person may not decide it, or cannot see it whole."""
        from dataclasses import replace

        from outlast.cli.durations import now_ms
        from outlast.loop.votes import Sender, claim_refusal

        request = step.request
        if step.problem is not None or request is None:
            return step
        circumstances = Sender(at_ms=now_ms(), verified=True)
        problem = claim_refusal((request,), request.id, self._person, circumstances)
        if problem is None and self._kind not in request.terms.allow:
            problem = f"It cannot be decided with {self._kind}."
        if problem is None and len(request_line(request)) > LONGEST_CALL:
            problem = "It is too long to show, so it needs a decision of its own."
        return replace(step, problem=problem)

    def _show(self, plan: "Sequence[BulkStep]") -> None:
        verb = {"approve": "is approved", "reject": "is rejected"}[self._kind]
        rows: list[list[terminal.Part | list[terminal.Part]]] = [
            [
                step.entry.run_id,
                step.request.id if step.request else "",
                "" if step.request is None else excerpt(request_line(step.request), LONGEST_CALL),
                (verb, "bold") if step.problem is None else f"stays: {step.problem}",
            ]
            for step in plan
        ]
        if rows:
            terminal.say_table(terminal.err(), _COLUMNS, rows)

    def _says_yes(self, count: int, seen: str) -> bool:
        if self._yes:
            return True
        if not terminal.is_attended():
            script = command(
                f"inbox {self._kind}-all", options=f"--yes --digest {seen[:DIGEST_SHOWN]}"
            )
            raise UserError(f"Nobody is at a terminal to say yes. A script: `{script}`.")
        return terminal.confirmed(f"{self._kind.capitalize()} {counted(count, 'request')}?")

    def _report(self, outcomes: "Sequence[BulkOutcome]") -> None:
        refused = [one for one in outcomes if one.refused is not None]
        if self._as_json:
            terminal.print_json([_record(one) for one in outcomes])
        else:
            done = counted(len(outcomes) - len(refused), "request")
            verb = {"approve": "approved", "reject": "rejected"}[self._kind]
            terminal.say(terminal.out(), f"You {verb} {done}.")
            for one in refused:
                terminal.say(terminal.err(), f"{one.run_id} {one.request_id}: {one.refused}")
        if refused:
            raise typer.Exit(ExitCode.REFUSED)


def _digest_of(steps: "Sequence[BulkStep]") -> str:
    """Return the digest of a list: of its runs, requests and arguments, in any order."""
    lines = sorted(
        f"{step.entry.run_id} {step.request.id} {step.request.args_digest}"
        for step in steps
        if step.request is not None
    )
    return hashlib.sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()


def _record(one: "BulkOutcome") -> JsonObject:
    receipt = one.receipt
    return {
        "run_id": one.run_id,
        "approval": one.request_id,
        "status": None if receipt is None else receipt.status,
        "votes": None if receipt is None else receipt.votes,
        "votes_needed": None if receipt is None else receipt.votes_needed,
        "refused": one.refused,
    }
