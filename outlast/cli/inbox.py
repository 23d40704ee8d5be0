"""`outlast inbox`: what waits for people, across all runs."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import typer

from outlast.agents.checks import duration_of
from outlast.agents.errors import AgentsException, UserError
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.decide import ApprovalId, find_requests
from outlast.cli.terminal import Column
from outlast.edges.clock import now, now_ms
from outlast.edges.rendering import command, counted, excerpt, joined, json_fields, named, rough
from outlast.views.headlines import headline_line
from outlast.views.records import JsonObject
from outlast.views.redaction import redaction_of
from outlast.views.words import asked_again, void_words

if TYPE_CHECKING:
    from outlast.client.inbox import HeldConversation, Inbox, InboxEntry
    from outlast.views.proofs import Proof, ProofReader
    from outlast.views.records import ApprovalRequest, Person, Risk

LONGEST_CALL = 60
LONGEST_REASON = 60
"""How many characters of a request the list shows."""

_COLUMNS: "tuple[Column[InboxRow], ...]" = (
    Column("DUE IN", lambda row: (row.due(""), "bold red" if row.is_late else ""), numbers=True),
    Column("RISK", lambda row: (row.risk, _RISK_STYLES[row.risk])),
    Column("FOR", lambda row: row.whom, folds=True, left_out=2, below="WHAT"),
    Column("RUN", lambda row: row.run_id, folds=True),
    Column("REQUEST", lambda row: row.request_id),
    Column("WHAT", lambda row: row.what, folds=True),
    Column("WHY", lambda row: row.why, folds=True, left_out=1, below="WHAT"),
)
_RISK_STYLES = {"high": "bold red", "medium": "yellow", "low": "", "": ""}
_NOTHING = "Nothing waits for people."


@on_server
async def inbox(
    caller: Caller,
    ctx: typer.Context,
    group: options.Group = None,
    risk: Literal["low", "medium", "high"] | None = None,
    mine: bool = False,
    due: str | None = None,
    limit: options.Limit = 50,
    watch: bool = False,
) -> None:
    """List what waits for people, the most urgent first; needs no worker.

    Conversations that a person has taken over are part of it, first where the user waits for an
    answer. The list is a moment behind. `outlast inbox show` has the requests of a run in full; the
    other commands decide them. With --watch, a terminal shows a live table, and a pipe gets a line
    for each change.

    Command line:
        risk: Only runs with this highest risk.
        mine: Only what you may decide, with your groups.
        due: Only what is due within this time, such as 2h.
        watch (--watch -w): Follow the inbox until Ctrl-C.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_options(ctx)
        return
    from outlast.client.identity import os_user
    from outlast.client.inbox import Inbox
    from outlast.temporal.proofs import proof_reader

    wanted = _Wanted(
        group=group,
        risk=risk,
        mine=os_user() if mine else None,
        due_before=None if due is None else now() + duration_of(due),
    )
    client = (await caller.connect()).client
    box, reader = Inbox(client), await proof_reader(client)
    if watch:
        await _watch(box, wanted, reader, as_json=caller.as_json)
    else:
        await _list(box, wanted, limit, reader, as_json=caller.as_json)


@on_server
async def inbox_show(caller: Caller, run_id: options.RunId, approval: ApprovalId = None) -> None:
    """Show a run's requests in full: arguments, rules, votes, and the model's own words.

    Needs no worker.
    """
    from outlast.cli import review
    from outlast.client.handle import RunHandle
    from outlast.client.people.words import read_words
    from outlast.temporal.proofs import proof_reader
    from outlast.workflows.presentation import approval_view

    handle = RunHandle((await caller.connect()).client, run_id)
    await handle.check()
    state = await handle.state()
    found, reader = await find_requests(handle, state, approval), await proof_reader(handle.client)
    requests = [one.shown for one in found]
    proofs = {one.request.id: one.proofs(reader) for one in found}
    words = await read_words(handle.client, state, requests)
    if caller.as_json:
        views = [
            {
                **approval_view(run_id, one, proofs[one.id]),
                "status": one.status,
                "model_words": words[one.id],
            }
            for one in requests
        ]
        terminal.print_json(views)
        return
    for one in requests:
        if one.status == "pending":
            review.show_how_to_decide(terminal.out(), run_id, [one], words, proofs)
        else:
            review.show_approval(
                terminal.out(), one, one.run_id or run_id, words[one.id], proofs[one.id]
            )
            if (again := asked_again(one, state.approvals)) is not None:
                void = redaction_of(state).text(void_words(again))
                review.say_facts(terminal.out(), [("void", void)])


def _refuse_options(ctx: typer.Context) -> None:
    """Refuse options before a command of the group, which would not reach it."""
    for one in ctx.command.params:
        source = ctx.get_parameter_source(one.name or "")
        if source is not None and source.name == "COMMANDLINE":
            verb = ctx.invoked_subcommand
            raise UserError(
                f"{one.opts[0]} stands before {verb}, where it has no effect. Write it behind: "
                f"`outlast inbox {verb} ID {one.opts[0]} ...`."
            )


# --- What is listed -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    group: str | None
    risk: "Risk | None"
    mine: "Person | None"
    due_before: datetime | None

    @property
    def criteria(self) -> dict[str, Any]:
        """The criteria as arguments of an `Inbox`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def accepts(self, request: "ApprovalRequest") -> bool:
        """Whether one request of a listed run fits, too."""
        from outlast.views.acts import is_for

        if self.group is not None and not any(
            self.group in {*one.groups, *one.subjects} for one in request.audiences
        ):
            return False
        if self.mine is None:
            return True
        return is_for(request, self.mine, now_ms())


@dataclass(frozen=True, slots=True)
class _Listed:
    """An entry with its requests, and with the proofs of their votes; None if it cannot be read."""

    entry: "InboxEntry"
    requests: "tuple[ApprovalRequest, ...] | None"
    hold: "HeldConversation | None" = None
    proofs: "tuple[tuple[Proof, ...], ...]" = ()

    def record(self) -> JsonObject:
        """Return the entry for programs."""
        from outlast.workflows.presentation import approval_view

        entry, found = self.entry, self.requests
        return {
            **json_fields(entry, "run_id", "agent", "status"),
            "what": list(entry.tools),
            **json_fields(entry, "pending", "people", "for_anybody", "risk", "due", "started"),
            "held": None if self.hold is None else json_fields(self.hold),
            "requests": None
            if found is None
            else [
                approval_view(entry.run_id, one, proofs)
                for one, proofs in zip(found, self.proofs, strict=True)
            ],
        }

    def rows(self) -> "list[InboxRow]":
        """Return a line for each request; one for the run if it cannot be read."""
        if self.requests is None:
            return [_row_of_run(self.entry)]
        held = [] if self.hold is None else [_row_of_hold(self.entry, self.hold)]
        return [*held, *(_row_of_request(self.entry, request) for request in self.requests)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A line of the list."""

    due_ms: int | None
    risk: str
    whom: str
    run_id: str
    request_id: str = ""
    what: str
    why: str = ""

    def urgency(self) -> tuple[bool, int, int]:
        """Return a sort key: what is due first, then what does more harm."""
        risks = list(_RISK_STYLES)
        return self.due_ms is None, self.due_ms or 0, risks.index(self.risk)

    @property
    def is_late(self) -> bool:
        """Whether it was due before now."""
        return self.due_ms is not None and self.due_ms <= now_ms()

    def due(self, never: str) -> str:
        """Return in how long it is due."""
        return never if self.due_ms is None else _due(self.due_ms - now_ms())


def _row_of_request(entry: "InboxEntry", request: "ApprovalRequest") -> InboxRow:
    from outlast.views.acts import audience_text, deadline_ms

    terms, claim = request.terms, request.claim
    facts = [
        terms.effect or "",
        request.reason or "",
        f"{len(request.standing_votes)} of {terms.quorum} votes" if terms.quorum > 1 else "",
        joined(named(claim.by), " works on it")
        if claim is not None and claim.until_ms > now_ms()
        else "",
    ]
    shown = [excerpt(one, LONGEST_REASON) for one in facts if one]
    return InboxRow(
        due_ms=deadline_ms(request),
        risk=terms.risk,
        whom=excerpt(named(audience_text(request.audiences) or "anybody"), LONGEST_REASON),
        run_id=entry.run_id,
        request_id=request.id,
        what=excerpt(headline_line(request), LONGEST_CALL),
        why=joined(*shown[:1], *(joined("; ", one) for one in shown[1:])),
    )


def _row_of_hold(entry: "InboxEntry", hold: "HeldConversation") -> InboxRow:
    waiting = hold.waiting_since
    what = "nobody waits"
    if waiting is not None:
        verb = "waits" if hold.messages == 1 else "wait"
        what = f"{counted(hold.messages, 'message')} of the user {verb} for {_age(waiting)}"
    return InboxRow(
        due_ms=None if waiting is None else int(waiting.timestamp() * 1000),
        risk="",
        whom=excerpt(named(hold.by or "a person"), LONGEST_REASON),
        run_id=entry.run_id,
        request_id="held",
        what=what,
        why=f"held for {_age(hold.since)}",
    )


def _age(since: datetime) -> str:
    return rough(now() - since)


def _row_of_run(entry: "InboxEntry") -> InboxRow:
    due = entry.due
    return InboxRow(
        due_ms=None if due is None else int(due.timestamp() * 1000),
        risk=entry.risk,
        whom=named(", ".join([*entry.people, *(["anybody"] if entry.for_anybody else [])])),
        run_id=entry.run_id,
        what=named(", ".join(entry.tools)) or f"{entry.pending} pending",
        why="its history cannot be read",
    )


async def _read(entry: "InboxEntry", wanted: _Wanted, reader: "ProofReader") -> _Listed:
    from outlast.client.runs import READ_SECONDS

    try:
        async with asyncio.timeout(READ_SECONDS):
            held = entry.status == "held"
            found = () if held and not entry.pending else await entry.found()
            hold = await entry.hold() if held else None
    except (AgentsException, TimeoutError):  # encrypted, deleted, or too slow
        return _Listed(entry, None)
    wished = [one for one in found if wanted.accepts(one.request)]
    proofs = tuple(one.proofs(reader) for one in wished)
    return _Listed(entry, tuple(one.shown for one in wished), hold, proofs)


def _sorted_rows(found: "Iterable[_Listed]") -> list[InboxRow]:
    return sorted((line for one in found for line in one.rows()), key=InboxRow.urgency)


async def _list(
    box: "Inbox", wanted: _Wanted, limit: int, reader: "ProofReader", *, as_json: bool
) -> None:
    from outlast.client.read.in_turn import read_each

    async with terminal.waiting(terminal.err(), "reading the inbox"):
        entries = await box.urgent(**wanted.criteria, held=True, limit=limit)
        found = await read_each(entries, lambda entry: _read(entry, wanted, reader))
    if as_json:
        terminal.print_json([one.record() for one in found])
        return
    lines = _sorted_rows(found)
    if not lines:
        terminal.say(terminal.err(), _NOTHING)
        return
    terminal.say_table(terminal.out(), _COLUMNS, lines)
    _say_how(lines)
    if len(entries) == limit:
        more = f"These are the {limit} most urgent runs; --limit shows more."
        terminal.say(terminal.err(), more)


def _say_how(lines: Sequence[InboxRow]) -> None:
    first = lines[0]
    if first.request_id == "held":
        look = command("show", first.run_id)
    else:
        look = command("inbox show", *filter(None, (first.run_id, first.request_id)))
    terminal.say(terminal.err(), "Look, and decide: `", look, "`.")


async def _watch(box: "Inbox", wanted: _Wanted, reader: "ProofReader", *, as_json: bool) -> None:
    shown: dict[str, _Listed] = {}
    console = terminal.out()
    is_table = console.is_terminal and not as_json

    def rows() -> list[InboxRow]:
        return _sorted_rows(list(shown.values()))

    changes = box.watch(**wanted.criteria, held=True)
    live = terminal.LiveTable(console, _COLUMNS, rows, _NOTHING) if is_table else nullcontext()
    with live as table:
        async with aclosing(changes) as following:
            async for change in following:
                run_id = change.entry.run_id
                if change.kind == "removed":
                    listed = shown.pop(run_id)
                else:
                    listed = shown[run_id] = await _read(change.entry, wanted, reader)
                if table is not None:
                    table.update()
                elif as_json:
                    terminal.print_json_line({"change": change.kind, **listed.record()})
                else:
                    _say_change(console, change.kind, listed)


def _say_change(console: terminal.Screen, kind: str, listed: _Listed) -> None:
    for line in listed.rows():
        cells = (
            kind,
            line.due("-"),
            line.risk,
            line.whom,
            f"{line.run_id} {line.request_id}".strip(),
        )
        terminal.say_columns(console, *cells, line.what, line.why or "-", widths=[7, 6, 6, 0, 0, 0])


def _due(left_ms: int) -> str:
    return rough(timedelta(milliseconds=left_ms)) if left_ms > 0 else "now"
