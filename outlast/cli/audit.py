"""`outlast audit`: who was asked, who decided what, when, and what was refused."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from outlast.agents.errors import UserError
from outlast.cli import audit_verification, options, terminal
from outlast.cli.caller import Caller, on_server, say_limit
from outlast.cli.durations import past_time
from outlast.cli.exit_codes import ExitCode
from outlast.cli.terminal import Column
from outlast.edges.clock import now
from outlast.edges.rendering import rough

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.audit import AuditLog, AuditSummary, Figures
    from outlast.views.records import JsonObject


@on_server
async def audit(
    caller: Caller,
    run_id: Annotated[str | None, typer.Argument(show_default=False)] = None,
    since: str | None = None,
    limit: options.Limit = 1_000,
    form: Literal["jsonl", "csv"] = "jsonl",
    summary: bool = False,
    chain: bool = False,
    verify: bool = False,
    head: list[str] | None = None,
) -> ExitCode:
    """Print the audit of a run, or of all runs since a time: a line for each thing that happened.

    Requests, votes, decisions, claims, reminders, escalations, expiries, takeovers, and what a
    signal tried in vain. Read from the runs' histories; needs no worker.

    Exits with 1 if entries may be missing: a run cannot be read, a history is lost, or there are more
    runs than the limit. With --verify, if something is wrong, or if nothing pins a file.

    Command line:
        run_id ([ID]): The run's id; with --since, all runs. With --verify also a file: .jsonl or
            ./NAME.
        since (TIME): What happened since: 12h, 30d, or a date as 2026-11-01.
        form (--format): JSON lines, or a table for spreadsheets.
        summary: Figures of each tool and person instead.
        chain: Add hashes, so that later changes of the file show: each covers all entries before.
        verify: Check a file, which needs no server, or a run against its histories.
        head (HASH|FILE): With --verify: the hash of an entry, or an earlier file, kept elsewhere.
    """
    from outlast.client.audit import summary_of
    from outlast.client.audit_export import exported, read_audit

    _check_options(run_id, since, form, summary=summary, chain=chain, verify=verify, head=head)
    if verify:
        return await audit_verification.verify(caller, run_id or "", head or [])
    begins = None if since is None else past_time(since, now())
    connection = await caller.connect()
    async with terminal.waiting(terminal.err(), "reading histories"):
        log = await read_audit(connection.client, run_id, begins, limit=limit)
    if summary and caller.as_json:
        terminal.print_json(summary_of(log.records).record())
    elif summary:
        _show_summary(summary_of(log.records))
    elif chain:
        await _print_chain(connection.client, log, run_id or "", begins)
    else:
        _print_records(await exported(connection.client, log), form)
    _say_what_is_missing(log, limit)
    is_whole = not (log.unread or log.is_cut or any(one.lost for one in log.runs))
    return ExitCode.OK if is_whole else ExitCode.FAILED


def _say_what_is_missing(log: "AuditLog", limit: int) -> None:
    console = terminal.err()
    if log.is_cut:
        say_limit(limit, " runs", is_sure=True)
    for run in log.runs:
        for lost in run.lost:
            words = f": its history {lost}, or more before it, is lost: entries may be missing."
            terminal.say(console, "Incomplete: ", run.run_id, words)
    for one in log.unread:
        terminal.say(console, f"Not read: {one.run_id}. ", one.why)


def _check_options(
    run_id: str | None,
    since: str | None,
    form: str,
    *,
    summary: bool,
    chain: bool,
    verify: bool,
    head: list[str] | None,
) -> None:
    if verify and (run_id is None or since is not None or summary or chain):
        raise UserError(
            "--verify needs a file or a run, and neither --since, --summary nor --chain: "
            "`outlast audit --verify audit.jsonl`."
        )
    if run_id is None and since is None:
        raise UserError("Name a run, or a time: `outlast audit --since 30d`.")
    if head and not verify:
        raise UserError("--head is for --verify: `outlast audit --verify audit.jsonl --head HASH`.")
    if chain and summary:
        raise UserError("--summary prints figures, which have no chain. Leave one of both out.")
    if chain and form == "csv":
        raise UserError("--chain writes JSON lines, which --verify reads. Leave --format csv out.")


def _print_records(records: "list[JsonObject]", form: str) -> None:
    from outlast.client.audit_export import COLUMNS, cell

    if form == "jsonl":
        for record in records:
            terminal.print_json_line(record)
        return
    rows = ([cell(record[name]) for name in COLUMNS] for record in records)
    terminal.print_csv([COLUMNS, *rows])


async def _print_chain(
    client: "Client", log: "AuditLog", run_id: str, begins: datetime | None
) -> None:
    """Print whole runs: those that have entries since a time."""
    from outlast.client.audit_chain import chained, heads_of, sealed

    begins_ms = 0 if begins is None else begins.timestamp() * 1_000
    runs = [one for one in log.runs if any(entry.at_ms >= begins_ms for entry in one.records)]
    entries = await chained(client, replace(log, runs=(*runs,)))
    is_whole = not (log.unread or log.is_cut)
    seal = await sealed(client, entries, run_id) if entries and is_whole else None
    for one in entries if seal is None else [*entries, seal]:
        terminal.print_json_line(one)
    audit_verification.say_heads(heads_of(entries), is_sealed=seal is not None, is_whole=is_whole)


_COLUMNS: "tuple[Column[Figures], ...]" = (
    Column("NAME", lambda one: one.name, folds=True),
    Column("DECISIONS", lambda one: f"{one.decisions:,}", numbers=True),
    Column("APPROVED", lambda one: _share(one.approve_rate), numbers=True),
    Column("EDITED", lambda one: _share(one.edit_rate), numbers=True),
    Column("MEDIAN", lambda one: _length(one.median_seconds), numbers=True),
    Column("UNDER 3 S", lambda one: f"{one.fast:,}", numbers=True, left_out=3),
    Column("UNVERIFIED", lambda one: f"{one.unverified:,}", numbers=True, left_out=2),
    Column("EXPIRED", lambda one: f"{one.expired:,}", numbers=True, left_out=1),
)


def _show_summary(found: "AuditSummary") -> None:
    if not found.tools and not found.people:
        terminal.say(terminal.err(), "Nobody has decided anything.")
        return
    for title, figures in (("Tools", found.tools), ("People", found.people)):
        if figures:
            terminal.say(terminal.out(), (title, "bold"))
            terminal.say_table(terminal.out(), _COLUMNS, figures)
            terminal.say(terminal.out(), "")
    for one in found.suggestions:
        terminal.say(terminal.out(), one)


def _share(rate: float | None) -> str:
    if rate is None:
        return "-"
    percent = round(rate * 100)
    return f"{min(max(percent, 1), 99) if 0 < rate < 1 else percent} %"


def _length(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds < 10 else rough(timedelta(seconds=seconds))
