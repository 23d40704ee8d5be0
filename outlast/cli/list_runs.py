"""`outlast list`: finds runs by their search attributes."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.cli import options, server, terminal
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.loop.values import JsonObject
from outlast.visibility.queries import equals

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution
    from temporalio.common import SearchAttributePair
    from temporalio.service import RPCError

_WAITING = {"waiting", "blocked", "idle"}
_CLOSED = {
    "completed": ("Completed",),
    "cancelled": ("Canceled",),
    "terminated": ("Terminated",),
    "failed": ("Failed", "TimedOut"),
}
_STATUS_OF = {"COMPLETED": "completed", "CANCELED": "cancelled", "TERMINATED": "terminated"}


_STATUS_STYLES = {
    "running": "cyan",
    "waiting": "bold yellow",
    "idle": "blue",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
    "terminated": "red",
    "blocked": "bold magenta",
}

_COLUMNS = (
    # An id stays whole for copying, even if it does not fit into a line.
    terminal.Column(name="ID", folds=True),
    terminal.Column(name="STATUS"),
    terminal.Column(name="AGENT", left_out=2),
    terminal.Column(name="APPROVALS", numbers=True, left_out=4),
    terminal.Column(name="STARTED", left_out=1),
    terminal.Column(name="TOOK", numbers=True, left_out=3),
)


def list_runs(
    status: Annotated[
        Literal[
            "running",
            "waiting",
            "blocked",
            "idle",
            "completed",
            "failed",
            "cancelled",
            "terminated",
        ]
        | None,
        typer.Option("--status", help="Only runs with this status."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only runs whose current agent is this one.")
    ] = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only runs that wait for a person's approval.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most this many.")] = 20,
    address: options.Address = None,
    namespace: options.Namespace = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs: open ones first, then closed ones, newest first."""

    async def look() -> None:
        connection = await server.connect(address, namespace)
        wanted = Filter(status=status, agent=agent, waiting=waiting)
        async with terminal.waiting(terminal.err(), "listing runs"):
            rows = await find_runs(connection.client, wanted, limit=limit)
        if as_json:
            terminal.print_json([row.record() for row in rows])
        else:
            _show_rows(rows, limit)

    asyncio.run(look())


def _show_rows(rows: "list[Row]", limit: int) -> None:
    if not rows:
        terminal.say(terminal.err(), "No such runs. Start one with `outlast run AGENT TEXT`.")
        return
    cells = [
        (
            row.run_id,
            (row.status, _STATUS_STYLES.get(row.status, "")),
            row.agent or "-",
            str(row.approvals) if row.approvals else "-",
            row.started.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            row.took,
        )
        for row in rows
    ]
    terminal.say_table(terminal.out(), _COLUMNS, cells)
    if len(rows) == limit:
        terminal.say(terminal.err(), f"Limited to {limit}: there may be more, see --limit.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The runs to list; None or False means any."""

    status: str | None = None
    agent: str | None = None
    waiting: bool = False

    def accepts(self, agent: str | None) -> bool:
        """Whether an agent's name, as the server has it, fits the filter."""
        return self.agent is None or agent == searchable(self.agent)

    def query(self) -> str:
        """Return the filter in Temporal's query language; `accepts` compares names exactly."""
        # A run that continued as new is listed once, by its newest history.
        terms = [f"WorkflowType = '{names.WORKFLOW}'", "ExecutionStatus != 'ContinuedAsNew'"]
        if self.status in _WAITING:
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_STATUS} = '{self.status}'")
        elif self.status == "running":
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_STATUS} IS NULL")
        elif self.status is not None:
            closed = " OR ".join(f"ExecutionStatus = '{one}'" for one in _CLOSED[self.status])
            terms.append(f"({closed})")
        if self.agent is not None:
            found = equals(names.ATTRIBUTE_AGENT, searchable(self.agent))
            terms += [found] if found else []
        if self.waiting:
            terms.append("ExecutionStatus = 'Running'")
            terms.append(f"{names.ATTRIBUTE_APPROVALS} > 0")
        return " AND ".join(terms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One run.

    Attributes:
        run_id: the workflow id.
        status: the status of the run, as in `outlast show`.
        agent: the current agent; empty if the server does not have it.
        approvals: the number of pending approval requests.
        started: the start time of the run or of its newest history.
        closed: the end time; None for an open run.
    """

    run_id: str
    status: str
    agent: str
    approvals: int
    started: datetime
    closed: datetime | None

    @property
    def took(self) -> str:
        """The approximate duration of the run so far."""
        # An estimate for people, so the clock of this machine is good enough.
        return rough((self.closed or datetime.now(UTC)) - self.started)  # noqa: TID251

    def record(self) -> JsonObject:
        """Return the row for programs."""
        return {
            "run_id": self.run_id,
            "status": self.status,
            "agent": self.agent or None,
            "pending_approvals": self.approvals,
            "started": self.started.isoformat(),
            "closed": self.closed.isoformat() if self.closed else None,
        }


async def find_runs(client: "Client", wanted: Filter, *, limit: int) -> list[Row]:
    """Return the runs that match: open runs first, then closed ones, newest first.

    Raises:
        UserError: the namespace lacks the search attributes, or does not exist.
        ServerUnavailable: the server does not answer.
    """
    from temporalio.service import RPCError

    try:
        rows: list[Row] = []
        async for execution in client.list_workflows(wanted.query()):
            if len(rows) == limit:
                break
            if wanted.accepts(_attribute(execution, names.ATTRIBUTE_AGENT)):
                rows.append(_row(execution))
    except RPCError as error:
        raise _explained(client, error) from error
    return rows


def _row(execution: "WorkflowExecution") -> Row:
    is_open = execution.close_time is None
    return Row(
        run_id=execution.id,
        status=_status_of(execution),
        agent=_attribute(execution, names.ATTRIBUTE_AGENT) or "",
        approvals=(_attribute(execution, names.ATTRIBUTE_APPROVALS) or 0) if is_open else 0,
        started=execution.start_time,
        closed=execution.close_time,
    )


def _status_of(execution: "WorkflowExecution") -> str:
    if execution.status is None:
        return "failed"
    if execution.status.name == "RUNNING":
        return _attribute(execution, names.ATTRIBUTE_STATUS) or "running"
    return _STATUS_OF.get(execution.status.name, "failed")


def _attribute(execution: "WorkflowExecution", name: str) -> Any:
    pairs: list[SearchAttributePair[Any]] = [*execution.typed_search_attributes]
    return next((pair.value for pair in pairs if pair.key.name == name), None)


def rough(length: timedelta) -> str:
    """Return a duration in its largest unit, such as `3 min`."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _explained(client: "Client", error: "RPCError") -> AgentsException:
    from temporalio.service import RPCStatusCode

    if error.status is RPCStatusCode.NOT_FOUND:
        return UserError(f"The namespace {client.namespace!r} does not exist: {error.message}")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return UserError(
            f"The server cannot search for this: {error.message}. Where its search attributes are "
            "missing, `outlast doctor --fix` adds them."
        )
    if error.status in {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED}:
        return ServerUnavailable(f"The Temporal server does not answer: {error.message}")
    return AgentsException(f"The Temporal server refused: {error.message}")
