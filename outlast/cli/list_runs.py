"""`outlast list`: finds runs by their search attributes."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from outlast.agents.checks import duration_of
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server, say_limit
from outlast.cli.case import whose
from outlast.cli.durations import past_time
from outlast.cli.search import AgentName, Archived, Since, Status
from outlast.cli.terminal import Column
from outlast.contract.ratings import Rated
from outlast.edges.clock import now
from outlast.edges.rendering import rough

if TYPE_CHECKING:
    from temporalio.client import Client

    from outlast.client.runs import ListedRun, RunFilter

COSTS_UP_TO = 50
"""The longest list whose tokens and costs are read unasked: each run is read for them."""

GroupedBy: TypeAlias = Literal["agent", "model", "tenant", "day"]

_STATUS_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "parked": "yellow",
    "held": "magenta",
    "idle": "blue",
    "on_call": "green",
    "snoozed": "dim",
    "resolved": "dim green",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
    "terminated": "red",
    "blocked": "bold magenta",
}


_NOTHING = "No runs found. Start one with `outlast run AGENT TEXT`."
_COSTS_LEFT_OUT = (
    f"Tokens and costs are left out of a list of more than {COSTS_UP_TO} runs: --costs reads them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfCase:
    """Which conversations, by what colleagues and customers did with them.

    Command line:
        assignee: Only conversations that are assigned to this person.
        team: Only conversations that are assigned to this team.
        tag: Only conversations with this tag; `@name` for those that mention a colleague.
        rated: Only what customers rated so: good is 4 or 5, bad is 1 or 2.
        attention: Only what needs attention: overdue, failed, unanswered, or without a worker.
    """

    assignee: str | None = None
    team: str | None = None
    tag: str | None = None
    rated: Rated | None = None
    attention: bool = False


@on_server
async def list_runs(
    caller: Caller,
    status: Status = None,
    agent: AgentName = None,
    waiting: bool = False,
    customer: str | None = None,
    due: str | None = None,
    *,
    of_case: OfCase,
    limit: options.Limit = 20,
    costs: bool | None = None,
    by: GroupedBy | None = None,
    since: Since = None,
    archived: Archived = False,
) -> None:
    """List runs: open ones first, then closed ones, newest first.

    Command line:
        waiting: Only runs that wait for a person's approval.
        customer: Only runs for the customer with this id.
        due (LENGTH): Only what a person has to reply to or take by then: 2h, or overdue.
        costs (--costs/--no-costs): Read what each run used: of a run that has ended, one event; of
            an open one, its history. The default is to do so for up to 50 runs.
        by: Add up what the runs cost, by agent, model, tenant or the day of their start (UTC).
            Nested runs count with the runs that they are nested in.
    """
    from outlast.client import runs

    client = (await caller.connect()).client
    criteria = runs.RunFilter(
        status=status,
        agent=agent,
        waiting=waiting,
        customer=customer,
        case_due_before=None if due is None else _due(due),
        **asdict(of_case),
        nested=by is None,
        since=None if since is None else past_time(since, now()),
    )
    async with terminal.waiting(terminal.err(), "listing runs"):
        found = await _found(client, criteria, limit, archived=archived and not waiting)
        is_short = len(found) <= COSTS_UP_TO
        reads = by is not None or (is_short if costs is None else costs)
        rows = await runs.with_costs(client, found) if reads else found
        rows = await runs.with_tenants(client, rows) if by == "tenant" else rows
    _show(caller, rows, by, reads=reads)
    _say_rest(caller, len(rows) == limit, by, limit, is_left_out=not reads and costs is None)


def _due(text: str) -> datetime:
    is_over = text.strip().lower() == "overdue"
    return now() if is_over else now() + duration_of(text, "--due")


def _say_rest(
    caller: Caller, is_full: bool, by: GroupedBy | None, limit: int, *, is_left_out: bool
) -> None:
    if is_full and not (caller.as_json and by is None):
        say_limit(limit)
    if is_left_out:
        terminal.say(terminal.err(), _COSTS_LEFT_OUT)


def _show(caller: Caller, rows: "list[ListedRun]", by: GroupedBy | None, *, reads: bool) -> None:
    from outlast.cli import listed_costs

    if by is not None:
        listed_costs.show(caller, rows, by)
        return
    is_shared = any(run.assignee or run.team for run in rows)
    caller.show_list((*_COLUMNS, _ASSIGNED) if is_shared else _COLUMNS, rows, _NOTHING)
    if rows and reads and not caller.as_json:
        listed_costs.show_sum(rows)


async def _found(
    client: "Client", criteria: "RunFilter", limit: int, *, archived: bool
) -> "list[ListedRun]":
    """Return the runs of a list, then, where they are asked for, those that only the archive has."""
    from outlast.client.runs import find_runs

    listed = await find_runs(client, criteria, limit=limit)
    if not archived:
        return listed
    from outlast.client.recordings.reading import archived_runs

    beside = {(one.run_id, one.execution_id) for one in listed}
    return [*listed, *await archived_runs(client, criteria, beside=beside)][:limit]


def _amount(run: "ListedRun") -> str:
    from outlast.cli.costs import amount

    return "-" if run.cost is None else amount(run.cost)


_COLUMNS: "tuple[Column[ListedRun], ...]" = (
    # An id stays whole for copying, even if it does not fit into a line.
    Column("ID", lambda run: run.run_id, folds=True),
    Column("STATUS", lambda run: (run.status, _STATUS_STYLES.get(run.status, ""))),
    Column("AGENT", lambda run: run.agent or "-", widest=32, left_out=5),
    Column("WAITS FOR", lambda run: run.waits_for or "-", widest=40, left_out=6),
    Column(
        "TOKENS", lambda run: f"{run.cost.tokens:,}" if run.cost else "-", numbers=True, left_out=2
    ),
    Column("COST", _amount, numbers=True, left_out=3),
    # Estimates for people, so the clock of this machine is good enough.
    Column("AGE", lambda run: rough(now() - run.started), numbers=True, left_out=4),
    Column(
        "TOOK", lambda run: rough((run.closed or now()) - run.started), numbers=True, left_out=1
    ),
)

_ASSIGNED: "Column[ListedRun]" = Column(
    "ASSIGNED TO", lambda run: whose(run.assignee, run.team) or "-", widest=32, left_out=7
)
