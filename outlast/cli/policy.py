"""`outlast policy`: checks an operators' file of approval policies, and tries it on past runs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from outlast.agents.approvals.dry_run import DryRun, Tally
from outlast.agents.approvals.policy import ApprovalPolicy
from outlast.agents.approvals.policy_file import ApprovalFile, FilePolicy, FileReport
from outlast.cli import options, server, terminal
from outlast.cli.caller import By, Caller, on_server, say_limit, sender
from outlast.cli.durations import past_time
from outlast.cli.terminal import Column
from outlast.contract import names
from outlast.edges.clock import now
from outlast.edges.rendering import joined

if TYPE_CHECKING:
    from temporalio.api.workflow.v1 import WorkflowExecutionInfo
    from temporalio.client import Client

File: TypeAlias = Annotated[
    Path, typer.Argument(metavar="FILE", help="The TOML file.", show_default=False)
]

_CHECKED: tuple[Column[terminal.Row], ...] = (
    Column("TABLE", folds=True),
    Column("WHO DECIDES", folds=True),
    Column("WHEN", folds=True),
    Column("IF NOBODY DOES", folds=True),
)

_LOOSENED: Column[terminal.Row] = Column("LOOSENS", folds=True)

_AS_IN_THE_CODE: Final = "as in the code"


def check(
    file: File,
    target: options.Target = None,
    app_dir: options.AppDir = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Check a file of approval policies, as a worker does when it starts.

    With a target, also check that its agents have the tools, handoffs and arguments, and show what
    each table allows more than the code's policy.
    """
    policies = ApprovalFile.load(file)
    agents, report = _compare(policies, target, app_dir) if target is not None else (None, None)
    entries = list(policies.entries.values())
    warnings = report.warnings if report is not None else ()
    if as_json:
        rows = [_record(entry, report) for entry in entries]
        terminal.print_json(
            {
                "file": str(file),
                "policies": rows,
                "calendars": [*policies.calendars],
                "agents": agents,
                "warnings": warnings,
            }
        )
        return
    if entries:
        columns = (*_CHECKED, _LOOSENED) if report is not None else _CHECKED
        rows = [row for entry in entries for row in _rows(entry, report)]
        terminal.say_table(terminal.out(), columns, rows)
    for warning in warnings:
        terminal.warn(warning)
    calendars = [f"{one.name} ({one.zone})" for one in policies.calendars.values()]
    found = f"; calendars: {', '.join(calendars)}" if calendars else ""
    terminal.say(
        terminal.err(), ("ok", "bold green"), f": {len(entries)} policies in {file}{found}."
    )
    if agents is None:
        terminal.say(
            terminal.err(),
            "Neither names nor what the tables loosen were compared with the code. "
            "Add the target that your worker runs.",
        )


def _compare(policies: ApprovalFile, target: str, app_dir: Path) -> tuple[list[str], FileReport]:
    from outlast.agents.approval_points import approval_points
    from outlast.agents.registry import Registry
    from outlast.cli.application import load_config

    registry = Registry(load_config(target, app_dir)["agents"])
    return registry.names, policies.check(approval_points(registry))


def _record(entry: FilePolicy, report: FileReport | None) -> dict[str, object]:
    kind, agent, name = entry.key
    return {
        "table": entry.title,
        "kind": kind,
        "agent": agent or None,
        "name": name or None,
        "needs_approval": entry.asks,
        **_keys(entry),
        "tiers": [{"name": tier.named.get("name"), **_keys(tier)} for tier in entry.tiers],
        "if_nobody_does": _course(entry, entry, report) if entry.asks else None,
        "loosens": None if report is None else list(report.loosened[entry.title]),
    }


def _keys(table: FilePolicy) -> dict[str, object]:
    when = table.named.get("when")
    return {
        "keys": [*table.named],
        "when": None if when is None else str(when),
        "quorum": table.named.get("quorum"),
    }


def _rows(entry: FilePolicy, report: FileReport | None) -> Iterator[terminal.Row]:
    named = entry.named
    cells: terminal.Row = ["nobody", "never", ""]
    if entry.asks:
        cells = [_people(named), _when(named), _course(entry, entry, report)]
    found = "; ".join(report.loosened[entry.title]) or "-" if report is not None else ""
    yield [entry.title, *cells, *([found] if report is not None else [])]
    for tier in entry.tiers:
        # A tier of its own name may be the code's; another one changes the table's policy.
        who = tier.named if "name" in tier.named else {**named, **tier.named}
        cells = [_people(who), _when(tier.named), _course(entry, tier, report)]
        yield [tier.title, *cells, *([""] if report is not None else [])]


def _course(entry: FilePolicy, table: FilePolicy, report: FileReport | None) -> str:
    """Return what becomes of requests that nobody decides, of a table or of one of its tiers."""
    from outlast.views.words import course

    if report is not None:
        policies = report.policies[entry.title]
    elif "expires_in" in entry.named or "escalate" in entry.named:
        policies = (entry.changed(ApprovalPolicy()),)
    else:
        within = entry.named.get("within")
        return _AS_IN_THE_CODE + (f", within {within}" if within else "")
    if table is not entry:
        policies = [one for policy in policies for one in policy.tiers if _is_tier(table, one)]
    return "; or ".join(dict.fromkeys(course(one.terms()) for one in policies))


def _is_tier(table: FilePolicy, policy: ApprovalPolicy) -> bool:
    name = table.named.get("name")
    return policy.name == name if name else policy.when == table.named.get("when")


def _when(named: Mapping[str, Any]) -> str:
    return str(named.get("when", _AS_IN_THE_CODE) or "every call")


def _people(named: Mapping[str, Any]) -> str:
    audience: Mapping[str, Any] = named.get("audience", {})
    people = [
        *(audience.get("subjects") or ()),
        *(f"the group {one}" for one in audience.get("groups") or ()),
    ]
    quorum = named.get("quorum")
    if not people:
        return _AS_IN_THE_CODE if quorum is None else f"{quorum} of those in the code"
    return ", ".join(people) if quorum is None else f"{quorum} of {', '.join(people)}"


@on_server
async def try_on_runs(
    caller: Caller,
    file: File,
    since: str = "30d",
    limit: options.Limit = 1_000,
) -> None:
    """Count which calls of past runs a file of approval policies would have asked people about.

    Reads the histories of open runs, and of those that ended since then. Changes nothing.

    Command line:
        since: How far back, such as 12h or 30d, or a date.
    """
    policies = ApprovalFile.load(file)
    start = past_time(since, now())
    connection = await caller.connect()
    async with terminal.waiting(terminal.err(), "reading runs"):
        tried, unread = await try_policies(connection.client, policies, start, limit=limit)
    if caller.as_json:
        rows = [asdict(tally) for tally in tried.tallies]
        terminal.print_json({"runs": tried.runs, "unread_runs": unread, "tallies": rows})
    else:
        _show_tried(tried, unread, since, limit)


def _show_tried(tried: DryRun, unread: int, since: str, limit: int) -> None:
    if tried.tallies:
        terminal.say_table(terminal.out(), _TRIED, tried.tallies)
    terminal.say(terminal.err(), f"{tried.runs:,} runs, since {since}.")
    if unread:
        terminal.warn(f"{unread:,} runs could not be read.")
    if tried.runs + unread >= limit:
        say_limit(limit, " runs")


def _asked(tally: Tally) -> str:
    if not tally.table:
        return _AS_IN_THE_CODE
    return f"{'at most ' if tally.at_most else ''}{tally.asked:,} of {tally.calls:,}"


@on_server
async def apply(
    caller: Caller,
    within: str | None = None,
    limit: options.Limit = 1_000,
    *,
    by: By = None,
) -> None:
    """Count the times of open requests anew, because a calendar has changed.

    A request keeps its times when a calendar changes. Start the workers with the new calendar first:
    they count. Requests whose policy has no `within` stay as they are.

    Command line:
        within (CALENDAR): Only requests whose times count the hours of this calendar.
    """
    from outlast.client.recounts import recount_open

    client = (await caller.connect()).client
    found = await recount_open(
        client,
        by=sender(by),
        within=within,
        limit=limit,
        around=lambda run: server.waiting_for_worker(run, f"waiting for {run.id}"),
    )
    if found.is_cut:
        say_limit(limit, " runs")
    if caller.as_json:
        rows = [{"run_id": run_id, "requests": [*requests]} for run_id, requests in found.runs]
        not_done = [{"run_id": run_id, "why": why} for run_id, why in found.refused]
        terminal.print_json({"counted": rows, "refused": not_done, "unread_runs": found.unread})
        return
    for run_id, why in found.refused:
        terminal.warn(joined(run_id, ": ", why))
    if found.unread:
        terminal.warn(f"{found.unread:,} runs could not be read.")
    terminal.say(terminal.err(), found.words)


async def try_policies(
    client: "Client", policies: ApprovalFile, since: datetime, *, limit: int
) -> tuple[DryRun, int]:
    """Read runs and apply the policies, and return the counts and the number of unread runs."""
    from outlast.client.read.in_turn import read_each
    from outlast.client.runs import first_executions, state_of

    tried = DryRun(policies)

    async def add(run: "WorkflowExecutionInfo") -> bool:
        state = await state_of(client, run.execution.workflow_id, run.execution.run_id)
        if state is not None:
            tried.add(state)
        return state is not None

    query = (
        f"WorkflowType = '{names.WORKFLOW}' AND ExecutionStatus != 'ContinuedAsNew' "
        f"AND (ExecutionStatus = 'Running' OR CloseTime >= '{since.isoformat()}')"
    )
    read = await read_each(await first_executions(client, query, limit), add)
    return tried, read.count(False)


_TRIED: tuple[Column[Tally], ...] = (
    Column("AGENT", lambda one: one.agent, widest=32, left_out=2),
    Column("WHAT", lambda one: f"{one.kind} {one.name}".rstrip(), folds=True),
    Column("TABLE", lambda one: one.table or "-", left_out=1),
    Column("CALLS", lambda one: f"{one.calls:,}", numbers=True),
    Column("WOULD WAIT", _asked, numbers=True),
    Column(
        "UNCLEAR", lambda one: f"{one.unclear:,}" if one.table else "-", numbers=True, left_out=3
    ),
    Column("DID WAIT", lambda one: f"{one.were_asked:,}", numbers=True),
)
