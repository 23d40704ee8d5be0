"""`outlast list`: finds runs by their search attributes."""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from outlast.agents.errors import AgentsException
from outlast.cli import options, terminal
from outlast.cli.caller import Caller, on_server
from outlast.cli.durations import rough
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.loop.values import JsonObject
from outlast.visibility.queries import equals, search_error

if TYPE_CHECKING:
    from temporalio.client import Client, WorkflowExecution
    from temporalio.common import SearchAttributePair

    from outlast.loop.state import LoopState

TOKENS_UP_TO = 50
"""The longest list whose tokens are read unasked: each run's history is read for them."""

READ_SECONDS = 10
"""The time limit for reading the history of one run."""

_WAITING = {"waiting", "held", "blocked", "idle", "on_call"}
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
    "held": "magenta",
    "idle": "blue",
    "on_call": "green",
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
    terminal.Column(name="AGENT", left_out=4),
    terminal.Column(name="WAITS FOR", left_out=5),
    terminal.Column(name="TOKENS", numbers=True, left_out=2),
    terminal.Column(name="AGE", numbers=True, left_out=3),
    terminal.Column(name="TOOK", numbers=True, left_out=1),
)


@on_server
async def list_runs(
    caller: Caller,
    status: Annotated[
        Literal[
            "running",
            "waiting",
            "held",
            "blocked",
            "idle",
            "on_call",
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
    limit: options.Limit = 20,
    tokens: Annotated[
        bool | None,
        typer.Option(
            "--tokens/--no-tokens",
            help="Read each run's history for its tokens; the default is to do so for up to "
            f"{TOKENS_UP_TO} runs.",
        ),
    ] = None,
) -> None:
    """List runs: open ones first, then closed ones, newest first."""
    client = (await caller.connect()).client
    criteria = Filter(status=status, agent=agent, waiting=waiting)
    async with terminal.waiting(terminal.err(), "listing runs"):
        found = await find_runs(client, criteria, limit=limit)
        reads = len(found) <= TOKENS_UP_TO if tokens is None else tokens
        rows = await with_tokens(client, found) if reads else found
    if caller.as_json:
        terminal.print_json([row.record() for row in rows])
    else:
        _show_rows(rows, limit)
    if not reads and tokens is None:
        terminal.say(
            terminal.err(),
            f"Tokens are left out of a list of more than {TOKENS_UP_TO} runs: --tokens reads them.",
        )


def _show_rows(rows: "list[Row]", limit: int) -> None:
    if not rows:
        terminal.say(terminal.err(), "No runs found. Start one with `outlast run AGENT TEXT`.")
        return
    cells = [
        (
            row.run_id,
            (row.status, _STATUS_STYLES.get(row.status, "")),
            row.agent or "-",
            row.waits_for or "-",
            "-" if row.tokens is None else f"{row.tokens:,}",
            row.age,
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
        """Return the filter in Temporal's query language; `accepts` is stricter."""
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
        execution_id: Temporal's run id: two rows have the same id where it was used again.
        status: the status of the run, as in `outlast show`.
        waits_for: what an open run waits for; empty if nothing, or if the server does not have it.
        tokens: the tokens of the run's model calls; None if its history cannot be read.
        closed: the end time; None for an open run.
    """

    run_id: str
    execution_id: str = ""
    status: str
    agent: str
    approvals: int
    started: datetime
    closed: datetime | None
    waits_for: str = ""
    tokens: int | None = None

    @property
    def age(self) -> str:
        """The approximate time since the start."""
        return rough(datetime.now(UTC) - self.started)  # noqa: TID251  an estimate for people

    @property
    def took(self) -> str:
        """The approximate duration of the run so far."""
        # An estimate for people, so the clock of this machine is good enough.
        return rough((self.closed or datetime.now(UTC)) - self.started)  # noqa: TID251

    def record(self) -> JsonObject:
        """Return the row for programs."""
        return {
            "run_id": self.run_id,
            "execution_id": self.execution_id,
            "status": self.status,
            "agent": self.agent or None,
            "pending_approvals": self.approvals,
            "waits_for": self.waits_for or None,
            "tokens": self.tokens,
            "started": self.started.isoformat(),
            "closed": self.closed.isoformat() if self.closed else None,
        }


async def find_runs(client: "Client", criteria: Filter, *, limit: int) -> list[Row]:
    """Return the runs that match: open runs first, then closed ones, newest first."""
    from temporalio.service import RPCError

    try:
        rows: list[Row] = []
        async for execution in client.list_workflows(criteria.query()):
            if len(rows) == limit:
                break
            if criteria.accepts(_attribute(execution, names.ATTRIBUTE_AGENT)):
                rows.append(_row(execution))
    except RPCError as error:
        raise search_error(client.namespace, error) from error
    return rows


async def with_tokens(client: "Client", rows: list[Row]) -> list[Row]:
    """Return the rows with the tokens of their runs, read from the histories."""
    from outlast.client.read.in_turn import read_each

    async def read(row: Row) -> Row:
        state = await state_of(client, row.run_id, row.execution_id)
        return row if state is None else replace(row, tokens=state.usage.total_tokens)

    return await read_each(rows, read)


async def state_of(client: "Client", run_id: str, execution_id: str) -> "LoopState | None":
    """Return the state of a listed execution; None if it is encrypted, deleted or slow to read."""
    from temporalio.service import RPCError

    from outlast.client.read.history import RunReader

    try:
        async with asyncio.timeout(READ_SECONDS):
            return await RunReader(client, run_id).catch_up(execution_id)
    except (AgentsException, RPCError, TimeoutError):
        return None


def _row(execution: "WorkflowExecution") -> Row:
    is_open = execution.close_time is None
    return Row(
        run_id=execution.id,
        execution_id=execution.run_id,
        status=_status_of(execution),
        agent=_attribute(execution, names.ATTRIBUTE_AGENT) or "",
        approvals=(_attribute(execution, names.ATTRIBUTE_APPROVALS) or 0) if is_open else 0,
        waits_for=(_attribute(execution, names.ATTRIBUTE_WAITS_FOR) or "") if is_open else "",
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
