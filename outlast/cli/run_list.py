"""Finding runs through Temporal's visibility, by the search attributes that runs keep up to date.

Owns: the query, and what a row says. Must not know: how rows are printed.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from outlast.agents.errors import AgentsException, ServerUnavailable, UserError
from outlast.contract import names
from outlast.contract.searchability import searchable
from outlast.loop.values import JsonObject
from outlast.visibility.queries import equals

_AGENT = SearchAttributeKey.for_keyword(names.ATTRIBUTE_AGENT)
_STATUS = SearchAttributeKey.for_keyword(names.ATTRIBUTE_STATUS)
_APPROVALS = SearchAttributeKey.for_int(names.ATTRIBUTE_APPROVALS)
_WAITING = {"waiting", "blocked", "idle"}
_CLOSED = {
    "completed": ("Completed",),
    "cancelled": ("Canceled",),
    "terminated": ("Terminated",),
    "failed": ("Failed", "TimedOut"),
}
_STATUS_OF = {
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.CANCELED: "cancelled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which runs are wanted; what is None or False does not matter."""

    status: str | None = None
    agent: str | None = None
    waiting: bool = False

    def accepts(self, agent: str | None) -> bool:
        """Whether an agent's name, as the server has it, is the one that is wanted."""
        return self.agent is None or agent == searchable(self.agent)

    def query(self) -> str:
        """Return the filter in Temporal's query language; names are to be compared besides."""
        # A run that continues in a new history is listed once, by its newest one.
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
        status: of the run, as `outlast show` has it.
        agent: who has the conversation; empty where nobody wrote it down.
        approvals: how many decisions it waits for.
        started: when the run, or its newest history, began.
        closed: when it ended.
    """

    run_id: str
    status: str
    agent: str
    approvals: int
    started: datetime
    closed: datetime | None

    @property
    def took(self) -> str:
        """How long it took, or takes already, roughly."""
        # The age of a run is for reading only, so the clock of this machine will do.
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


async def find_runs(client: Client, wanted: Filter, *, limit: int) -> list[Row]:
    """Return the runs that fit: the open ones first, then those that ended last.

    Raises:
        UserError: the namespace lacks the search attributes, or does not exist.
        ServerUnavailable: the server does not answer.
    """
    try:
        rows: list[Row] = []
        async for execution in client.list_workflows(wanted.query()):
            if len(rows) == limit:
                break
            if wanted.accepts(execution.typed_search_attributes.get(_AGENT)):
                rows.append(_row(execution))
    except RPCError as error:
        raise _explained(client, error) from error
    return rows


def _row(execution: WorkflowExecution) -> Row:
    attributes, is_open = execution.typed_search_attributes, execution.close_time is None
    return Row(
        run_id=execution.id,
        status=_status_of(execution),
        agent=attributes.get(_AGENT) or "",
        approvals=(attributes.get(_APPROVALS) or 0) if is_open else 0,
        started=execution.start_time,
        closed=execution.close_time,
    )


def _status_of(execution: WorkflowExecution) -> str:
    if execution.status is WorkflowExecutionStatus.RUNNING:
        return execution.typed_search_attributes.get(_STATUS) or "running"
    return _STATUS_OF.get(execution.status, "failed") if execution.status else "failed"


def rough(length: timedelta) -> str:
    """Return a duration as people say it, such as `3 min`."""
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _explained(client: Client, error: RPCError) -> AgentsException:
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
